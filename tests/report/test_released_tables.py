"""Every p value, interval and verdict beside a page follows from the tables beside it: re-derived without the package."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pandas as pd
import pytest

from tests.reference.paired_slow import areas, crossed, holm, paired, t_test
from tests.results.test_evaluator import GAINS, KINDS, scores_of
from tests.results.test_view import MODEL, TASK, cells
from uproar.metrics.evaluation import Evaluation
from uproar.metrics.registry import read_metric
from uproar.report.tables import table_files
from uproar.results.scores import combined_scores
from uproar.results.study import IMAGE_SCORE_COLUMNS, SCORE_COLUMNS, Results
from uproar.statistics.design import random_ranking

from ..roles import ROLES

RANKINGS = [random_ranking(draw) for draw in range(3)]
LEVELS = {**dict.fromkeys(RANKINGS, 0.8), "grad": 0.6, "ig": 0.797, "sobel": 0.803, "sg(grad)": 0.799}
METRIC = "deletion(steps=4)"
SEEDS, IMAGES = 5, 30


@pytest.fixture(scope="module")
def released():
    """The tables of a study of ROAR, KAR, the evaluator and a metric, as a reader of its files has them."""
    rng = np.random.default_rng(3)
    table = pd.concat([cells("roar", LEVELS, seeds=SEEDS), cells("kar", LEVELS, seeds=SEEDS)], ignore_index=True)
    noisy = (table["estimator"] == "sobel") & table["fraction"].between(0.05, 0.95)  # a row that varies more
    table.loc[noisy, "accuracy"] += 0.02 * rng.normal(size=noisy.sum())
    image_scores, metric_scores = _metric(rng)
    results = Results(
        {"name": "released", "random_rankings": len(RANKINGS)},
        table,
        pd.DataFrame(columns=["task", "model", "estimator"]),
        roles=ROLES,
        scores=pd.DataFrame([(TASK, MODEL, METRIC)], columns=["task", "model", "metric"]).reindex(
            columns=[*SCORE_COLUMNS]
        ),
        image_scores=image_scores,
        metric_scores={(TASK, MODEL): metric_scores},
        evaluations={(TASK, MODEL, "label"): scores_of(GAINS, KINDS).bits},
    )
    files = table_files(results)
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}
    return {name: read[name.split(".")[1]](io.BytesIO(content)) for name, content in files.items()}


def _metric(rng):
    """Values per image of every ranking, and what a metric says over replicates."""
    easy = rng.uniform(0.2, 0.6, IMAGES)

    rows, call, made = [], read_metric(METRIC), {}
    for name, level in LEVELS.items():
        method = made.setdefault("random" if name in RANKINGS else name, {})
        for seed in range(SEEDS):
            value = np.clip(easy + (level - 0.8) + rng.normal(0, 0.05, IMAGES) + rng.normal(0, 0.01), 0, 1)
            facts = {"value": float(value.mean()), "n": IMAGES, "nan": 0, "note": "", "tied": 0.0}
            method.setdefault(seed, []).append(Evaluation({"value": value}, facts))
            rows += [(TASK, MODEL, name, METRIC, seed, i, v) for i, v in enumerate(value)]
    replicates = {name: list(by_seed.values()) for name, by_seed in made.items()}
    scores = combined_scores({call: replicates}, (1, 8, 8), ROLES)
    return pd.DataFrame(rows, columns=list(IMAGE_SCORE_COLUMNS)), scores


def merged(frame, value):
    """{(estimator, ...): value} in which the random rankings of a place are one, their mean."""
    names = frame["estimator"].astype(str).replace(dict.fromkeys(RANKINGS, "random"))
    places = [c for c in ("seed", "fraction", "image") if c in frame]
    return frame.assign(estimator=names).groupby(["estimator", *places])[value].mean()


def equal(row, expected):
    assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", ["roar", "kar"])
def test_verdicts_and_pairs_follow_from_the_cells(released, metric):
    rows = released["results.csv"].query("metric == @metric")
    points = [(*place, value) for place, value in merged(rows, "accuracy").items()]
    area, sign = areas(points, sorted(set(rows["fraction"]))), 1 if metric == "kar" else -1

    def difference(first, second):
        return paired([sign * (area[first, s] - area[second, s]) for s in range(SEEDS)])

    verdicts = released["verdicts.csv"].query("metric == @metric").set_index("estimator")
    methods = ["grad", "ig", "sg(grad)"]
    tested = {name: (*difference(name, "random")[:1], *t_test(*difference(name, "random"))) for name in verdicts.index}
    adjusted = holm({name: tested[name][3] for name in methods})
    assert set(verdicts.index) == {*methods, "sobel"} and set(verdicts["random_rankings"]) == {3}
    for name, numbers in tested.items():
        equal(verdicts.loc[name], dict(zip(("advantage", "low", "high"), numbers, strict=False)))
    for name in methods:
        equal(verdicts.loc[name], {"p": tested[name][3], "p_holm": adjusted[name]})
        assert verdicts.loc[name, "side"] == (np.sign(tested[name][0]) if adjusted[name] <= 0.05 else 0)
    assert verdicts.loc["sobel", "verdict"] == "baseline" and np.isnan(verdicts.loc["sobel", "p"])
    assert {*verdicts["side"]} >= {0, 1 if metric == "roar" else -1}
    frame = released["comparisons.csv"].query("measure == @metric")
    check_pairs(frame, lambda a, b: _turned(difference(a, b), sign), {"": 3, "sobel": 3, "random": 3})


def _turned(numbers, sign):
    return sign * numbers[0], *numbers[1:]


def check_pairs(frame, test, counts):
    """Rows of pairs against a slow test of each, and Holm's procedure over each family, of a single baseline."""
    against = frame["against"].astype(object).fillna("")
    assert against.value_counts().to_dict() == counts
    for family in counts:
        rows = frame[against == family].set_index(["better", "worse"])
        found = {names: test(*names) for names in rows.index}
        adjusted = holm({names: t_test(*numbers)[2] for names, numbers in found.items()})
        for names, numbers in found.items():
            low, high, p = t_test(*numbers)
            expected = {"difference": numbers[0], "low": low, "high": high, "se": numbers[1], "df": numbers[2], "p": p}
            equal(rows.loc[names], expected)
            if len([one for one in counts if one]) == 1 or not family:
                equal(rows.loc[names], {"p_holm": adjusted[names], "side": int(adjusted[names] <= 0.05)})


def test_pairs_under_a_metric_follow_from_the_values_of_single_images(released):
    values = merged(released["per_image.parquet"].query("metric == @METRIC"), "value").unstack("image")
    by_method = {name: rows.to_numpy().tolist() for name, rows in values.groupby(level="estimator")}
    frame = released["comparisons.csv"].query("measure == @METRIC").reset_index(drop=True)
    counts = {"": 3, "sobel": 3, "random": 3}
    check_pairs(frame, lambda a, b: crossed(by_method[a], by_method[b]), counts)


def test_what_the_evaluator_says_follows_from_its_bits_per_image(released):
    bits = released["evaluator_per_image.parquet"]
    kinds = bits.drop_duplicates("estimator").set_index("estimator")["kind"].to_dict()
    scores = bits.assign(score=(bits["removing"] + bits["keeping"]) / 2)
    values = {
        n: g.pivot(index="replicate", columns="image", values="score").to_numpy().tolist()
        for n, g in scores.groupby("estimator")
    }
    methods, free = ([n for n in values if kinds[n] == kind] for kind in ("method", "baseline"))
    tested = {(m, c): crossed(values[m], values[c]) for m in methods for c in ("random", *free)}
    p = {names: t_test(*numbers)[2] if numbers[0] > 0 else 1.0 for names, numbers in tested.items()}
    margin = {m: max(p[m, c] for c in free) for m in methods}
    adjusted = holm(margin)
    table = released["evaluator.csv"].set_index("estimator")
    assert set(table.index) == set(methods)
    for m, row in table.iterrows():
        difference, _, df = tested[m, "random"]
        low, high, p_random = t_test(*tested[m, "random"])
        equal(row, {"over_random": difference, "over_random_df": df, "over_random_low": low, "over_random_high": high})
        equal(row, {"over_random_p": p_random, "margin_p": margin[m], "p_baseline": adjusted[m]})
    counts = {"": len([*itertools.combinations(methods, 2)]), **dict.fromkeys(("random", *free), len(methods))}
    frame = released["comparisons.csv"].query("measure == 'evaluator'")
    check_pairs(frame, lambda a, b: crossed(values[a], values[b]), counts)
