"""Every p value, interval and verdict beside a page follows from the tables beside it: re-derived without the package."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pandas as pd
import pytest

from reference.anova_slow import compare, curve_areas, holm, pair, pair_between_bounds, pair_over_images, t_test
from tests.results.test_evaluator import GAINS, KINDS, scores_of
from tests.results.test_view import MODEL, TASK, cells
from uproar.metrics.registry import read_metric
from uproar.protocols import PROTOCOLS
from uproar.report.tables import study_table_files
from uproar.results.study import IMAGE_SCORE_COLUMNS, SCORE_COLUMNS, Results
from uproar.scoring import replicated_metric
from uproar.scoring.evaluation import Evaluation, average_evaluations
from uproar.statistics.design import random_ranking

from ..roles import ROLES

RANKINGS = [random_ranking(draw) for draw in range(3)]
LEVELS = {**dict.fromkeys(RANKINGS, 0.8), "grad": 0.6, "ig": 0.797, "sobel": 0.803, "sg(grad)": 0.799}
METRIC = "deletion(steps=4)"
NEAR_A_BOUND = "insertion(steps=4)"
"""A metric whose values lie next to 1, and vary more between the replicates of some methods than of others."""
SEEDS, IMAGES = 4, 30


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
        PROTOCOLS,
        roles=ROLES,
        scores=pd.DataFrame(
            [(TASK, MODEL, metric) for metric in (METRIC, NEAR_A_BOUND)], columns=["task", "model", "metric"]
        ).reindex(columns=[*SCORE_COLUMNS]),
        image_scores=image_scores,
        metric_scores={(TASK, MODEL): metric_scores},
        evaluations={(TASK, MODEL, "label"): scores_of(GAINS, KINDS).bits},
    )
    files = study_table_files(results)
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}
    return {name: read[name.split(".")[1]](io.BytesIO(content)) for name, content in files.items()}


def _metric(rng):
    """Values per image of every ranking, and what two metrics say over replicates."""
    easy = rng.uniform(0.2, 0.6, IMAGES)

    def values(metric, name, level):
        if metric == METRIC:
            return np.clip(easy + (level - 0.8) + rng.normal(0, 0.05, IMAGES) + rng.normal(0, 0.01), 0, 1)
        luck = rng.normal(0, 1.5 if name in ("ig", "sobel") else 0.1)
        return 1 / (1 + np.exp(-2.5 - (name in ("ig", "sobel")) - luck - easy - rng.normal(0, 0.3, IMAGES)))

    rows, scored = [], []
    for metric in (METRIC, NEAR_A_BOUND):
        call, made = read_metric(metric), {}
        for name, level in LEVELS.items():
            method = made.setdefault("random" if name in RANKINGS else name, {})
            for seed in range(SEEDS):
                value = values(metric, name, level)
                facts = {"value": float(value.mean()), "n": IMAGES, "nan": 0, "note": "", "tied": 0.0}
                method.setdefault(seed, []).append(Evaluation({"value": value}, facts))
                rows += [(TASK, MODEL, name, metric, seed, i, v) for i, v in enumerate(value)]
        methods = {
            n: replicated_metric.ReplicatedMetric.of(call, [average_evaluations(one) for one in by.values()])
            for n, by in made.items()
        }
        scored.append((call, methods))
    return pd.DataFrame(rows, columns=list(IMAGE_SCORE_COLUMNS)), replicated_metric.scores_of(scored, (1, 8, 8), ROLES)


def merged(frame, value):
    """{(estimator, ...): value} in which the random rankings of a place are one, their mean."""
    names = frame["estimator"].astype(str).replace(dict.fromkeys(RANKINGS, "random"))
    places = [c for c in ("seed", "fraction", "image") if c in frame]
    return frame.assign(estimator=names).groupby(["estimator", *places])[value].mean()


def equal(row, expected):
    assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("protocol", ["roar", "kar"])
def test_verdicts_and_pairs_follow_from_the_cells(released, protocol):
    rows = released["results.csv"].query("protocol == @protocol")
    points = [(*place, value) for place, value in merged(rows, "accuracy").items()]
    fractions, better_is_higher = sorted(set(rows["fraction"])), protocol == "kar"
    expected = compare([(e, s, t, v) for e, s, t, v in points], fractions, "random", better_is_higher, 0.05)
    verdicts = released["verdicts.csv"].query("protocol == @protocol").set_index("estimator")
    assert set(verdicts.index) == set(expected) and set(verdicts["random_rankings"]) == {3}
    for name, numbers in expected.items():
        equal(verdicts.loc[name], dict(zip(("advantage", "low", "high", "p", "p_holm"), numbers, strict=True)))
        assert verdicts.loc[name, "side"] == (np.sign(numbers[0]) if numbers[4] <= 0.05 else 0)
    assert "varies more" in verdicts.loc["sobel", "note"] and {*verdicts["side"]} >= {
        0,
        1 if protocol == "roar" else -1,
    }
    areas = {k: v for k, v in curve_areas(points, fractions).items() if k[0] != "random"}
    check_pairs(released["comparisons.csv"].query("measure == @protocol"), lambda a, b: pair(areas, a, b), 6)


def check_pairs(frame, test, count):
    """Rows of pairs against a slow test of each, and Holm's procedure over all of them."""
    found = {(row["better"], row["worse"]): (row, test(row["better"], row["worse"])) for _, row in frame.iterrows()}
    assert len(found) == count
    adjusted = holm({names: t_test(*numbers)[2] for names, (_, numbers) in found.items()})
    for names, (row, numbers) in found.items():
        low, high, p = t_test(*numbers)
        expected = {"difference": numbers[0], "low": low, "high": high, "df": numbers[2], "p": p}
        equal(row, {**expected, "p_holm": adjusted[names], "side": int(adjusted[names] <= 0.05)})


@pytest.mark.parametrize("metric", [METRIC, NEAR_A_BOUND])
def test_pairs_under_a_metric_follow_from_the_values_of_single_images(released, metric):
    values = merged(released["per_image.parquet"].query("metric == @metric"), "value").unstack("image")
    by_method = {name: rows.to_numpy() for name, rows in values.groupby(level="estimator")}
    frame = released["metric_comparisons.csv"].query("metric == @metric").reset_index(drop=True)
    check_pairs(frame, lambda a, b: pair_between_bounds(by_method, a, b), 10)
    assert frame["note"].fillna("").str.contains("between the bounds").any()
    pd.testing.assert_frame_equal(
        frame[["better", "worse", "p", "p_holm"]],
        released["comparisons.csv"]
        .query("measure == @metric")[["better", "worse", "p", "p_holm"]]
        .reset_index(drop=True),
    )


def test_what_the_evaluator_says_follows_from_its_bits_per_image(released):
    bits = released["evaluator_per_image.parquet"]
    kinds = bits.drop_duplicates("estimator").set_index("estimator")["kind"].to_dict()
    scores = bits.assign(score=(bits["removing"] + bits["keeping"]) / 2)
    values = {
        n: g.pivot(index="replicate", columns="image", values="score").to_numpy()
        for n, g in scores.groupby("estimator")
    }
    methods, free = ([n for n in values if kinds[n] == kind] for kind in ("method", "baseline"))
    tested = {(m, c): pair_over_images(values, m, c) for m in methods for c in ("random", *free)}
    p = {names: t_test(*numbers)[2] if numbers[0] > 0 else 1.0 for names, numbers in tested.items()}
    over_random = {m: t_test(*tested[m, "random"])[2] for m in methods}
    margin = {m: max(p[m, c] for c in free) for m in methods}
    adjusted, adjusted_margin = holm(over_random), holm(margin)
    table = released["evaluator.csv"].set_index("estimator")
    assert set(table.index) == set(methods)
    for m, row in table.iterrows():
        difference, _, df = tested[m, "random"]
        low, high, _ = t_test(*tested[m, "random"])
        equal(row, {"over_random": difference, "over_random_df": df, "over_random_low": low, "over_random_high": high})
        equal(row, {"over_random_p": over_random[m], "p_random": adjusted[m]})
        equal(row, {"margin_p": margin[m], "p_network_free": adjusted_margin[m]})
    own = {m: values[m] for m in methods}
    pairs = len([*itertools.combinations(methods, 2)])
    check_pairs(released["evaluator_comparisons.csv"], lambda a, b: pair_over_images(own, a, b), pairs)
