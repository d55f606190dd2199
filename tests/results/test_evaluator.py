"""Scores and verdicts from bits whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.results.test_view import MODEL, TASK, cells, results
from uproar.results.difference import compare
from uproar.results.evaluator import SCORE_COLUMNS, VERDICT_COLUMNS, EvaluatorBits, EvaluatorScores, leaked_share
from uproar.results.evidence import checked, evaluator_evidence
from uproar.statistics.comparisons import FEWER
from uproar.statistics.design import LEAST_REPLICATES as LEAST
from uproar.statistics.design import MODEL_FREE

GAINS = {"good": 0.8, "fair": 0.3, "bad": -0.4, "random": 0.0, "centre": 0.3, "sobel": 0.1}
KINDS = {"good": "method", "fair": "method", "bad": "method", "random": "random"}
KINDS |= {"centre": "baseline", "sobel": "baseline"}


def scores_of(gains, kinds, replicates=5, images=60, **more) -> EvaluatorScores:
    """Own masks cost `gain` bits more than the control when removed, and save as many when kept."""
    rng = np.random.default_rng(0)
    base = rng.normal(1.0, 0.3, (replicates, images))

    def noise():
        return rng.normal(0, 0.1, (replicates, images)) + rng.normal(0, 0.03, (replicates, 1))

    own = {(n, keeps): base + (-g if keeps else g) + noise() for n, g in gains.items() for keeps in (False, True)}
    shifted = {(n, keeps): base + noise() for n in gains for keeps in (False, True)}
    return EvaluatorScores(EvaluatorBits(own, shifted, kinds, **more))


def test_scores_are_found_and_ordered():
    table = scores_of(GAINS, KINDS).table
    assert list(table) == list(SCORE_COLUMNS)
    assert table["score"].is_monotonic_decreasing
    for row in table.itertuples():
        assert row.low <= GAINS[row.estimator] <= row.high
        assert row.score == pytest.approx((row.removing + row.keeping) / 2)


def test_a_method_must_beat_every_model_free_baseline():
    table = scores_of(GAINS, KINDS).verdicts.set_index("estimator")
    assert list(table.reset_index()) == list(VERDICT_COLUMNS)
    assert table["side"].to_dict() == {"good": 2, "fair": 1, "bad": -1}
    assert table.loc["fair", "verdict"] == "better than random"
    over = {"centre": 0.5, "sobel": 0.7}[table.loc["good", "baseline"]]
    assert table.loc["good", "margin"] == pytest.approx(over, abs=0.05)


def test_one_evaluator_is_not_tested():
    """Its mistakes are shared by all methods: images alone would call luck a difference."""
    alone = scores_of(GAINS, KINDS, replicates=1)
    for few in (alone, scores_of(GAINS, KINDS, replicates=2), scores_of(GAINS, KINDS, replicates=LEAST - 1)):
        assert set(few.verdicts["verdict"]) == {FEWER} and not few.verdicts["side"].any()
        assert few.verdicts[["p_random", "p_baseline"]].isna().all(axis=None)
    assert alone.verdicts[["p_random", "p_baseline"]].isna().all(axis=None)
    assert alone.table["score"].notna().all()
    (metric,) = checked(evaluator_evidence({"label": alone}))
    assert metric.control.state == "undecided", "nothing was tested"
    assert "a verdict needs 5" in metric.unreliable


def test_rankings_that_know_nothing_are_rarely_called_better():
    """Of 200 methods that are as good as the controls, in 40 studies, at most one in twenty studies errs."""
    wrong = 0
    for study in range(40):
        rng = np.random.default_rng(study)
        names = [*(f"m{i}" for i in range(5)), "random", *MODEL_FREE]
        kinds = {n: "method" for n in names[:5]} | {"random": "random"} | {n: "baseline" for n in MODEL_FREE}
        draw = lambda rng=rng: rng.normal(0, 1, (5, 40)) + rng.normal(0, 0.2, (5, 1))  # noqa: E731
        own, shifted = ({(n, k): draw() for n in names for k in (False, True)} for _ in range(2))
        wrong += bool((EvaluatorScores(EvaluatorBits(own, shifted, kinds)).verdicts["side"] == 2).any())
    assert wrong <= 2


def test_better_than_the_model_free_baselines_asks_for_better_than_random_too():
    """One method and one such ranking, nothing differs: both questions together err no more often than one."""
    wrong = 0
    for study in range(40):
        rng = np.random.default_rng(study)
        kinds = {"m": "method", "random": "random", "centre": "baseline"}
        own = {(n, k): rng.normal(0, 1, (5, 30)) + rng.normal(0, 0.3, (5, 1)) for n in kinds for k in (False, True)}
        shifted = {key: np.zeros((5, 30)) for key in own}
        row = EvaluatorScores(EvaluatorBits(own, shifted, kinds)).verdicts.iloc[0]
        assert row["side"] != 2 or row["p_random"] <= 0.05
        wrong += row["side"] != 0
    assert wrong <= 5


def test_without_controls_nothing_is_decided():
    frame = scores_of({"good": 0.8}, {"good": "method"}).verdicts
    assert frame["side"].tolist() == [0] and frame["verdict"].tolist() == ["not significantly different"]


def test_a_replicate_that_lacks_a_fraction_is_left_out():
    scores = scores_of(GAINS, KINDS)
    scores.bits.unmoved["good", False][1] = np.nan
    row = scores.table.set_index("estimator").loc["good"]
    assert row["replicates"] == 4 and np.isfinite(row["score"])


def _uneven(like):
    """Numbers of mean 0 in the shape of others: without spread nothing is told."""
    return 0.1 * np.resize([-1.0, 1.0, -2.0, 2.0], like.shape)


def test_the_baseline_that_is_beaten_least_clearly_decides():
    """`centre` is best; `sobel` varies so much over images that beating it is shown least clearly."""
    scores = scores_of({**GAINS, "centre": 0.3, "sobel": 0.2}, KINDS)
    for keeps in (False, True):
        noise = np.random.default_rng(int(keeps)).normal(0, 8, scores.bits.unmoved["sobel", keeps].shape)
        scores.bits.unmoved["sobel", keeps][:] += noise - noise.mean()
    row = scores.verdicts.set_index("estimator").loc["good"]
    assert row["baseline"] == "sobel"
    assert row["margin"] == pytest.approx(0.6, abs=0.05)
    p = scores.comparisons.set_index(["better", "worse"])["p"]
    assert row["margin_p"] == p["good", "sobel"] > p["good", "centre"]


def test_the_control_of_an_evaluator_is_that_of_its_score_and_it_has_no_other_verdicts():
    levels = {"random": 0.5, "good": 0.8, "bad": 0.7}
    scores = scores_of(GAINS, KINDS)
    table = cells("roar:mask", levels, fractions=(0.5,))
    made = replace(results(table), evaluations={(TASK, MODEL, "label"): scores.bits})
    assert made.verdicts.empty and set(made.comparisons["measure"]) == {"evaluator"}
    (control,) = made.negative_controls.to_dict("records")
    assert (control["measure"], control["control"]) == ("evaluator", "passed")
    assert (control["methods"], control["better"], control["worse"]) == (3, 2, 1)
    only_bad = scores_of({"bad": -0.4, "random": 0.0}, {"bad": "method", "random": "random"})
    made = replace(made, evaluations={(TASK, MODEL, "label"): only_bad.bits})
    assert made.view(TASK, MODEL).negative_controls["evaluator"].state == "failed"


def test_runs_are_compared_by_the_verdicts_of_evaluators_of_every_target():
    """`good` is weakened for the label and `fair` undecided for the answer; nothing else changes side."""

    def run(label: dict[str, float], answer: dict[str, float]):
        bits = {"label": scores_of(GAINS | label, KINDS).bits, "answer": scores_of(GAINS | answer, KINDS).bits}
        evaluations = {(TASK, MODEL, target): one for target, one in bits.items()}
        return replace(results(cells("roar", {"good": 0.6})), evaluations=evaluations)

    difference = compare(run({}, {}), run({"good": 0.3}, {"fair": 0.0}))
    changed = {(row.metric, row.estimator): row.change for row in difference.decisive.itertuples()}
    assert changed == {("evaluator", "good"): "weakened", ("evaluator of the answer", "fair"): "undecided"}
    assert set(difference.verdicts["unit"]) == {"bits"}
    assert difference.sentence == "It matters: of 6 verdicts that both have, 1 undecided, 1 weakened."
    assert compare(run({}, {}), run({}, {})).sentence.startswith("It does not matter: all 6")


def named_above_chance(share, replicates=5, images=200, classes=2, seed=0):
    """(replicates, keeps, fractions, images): the class of the mask is named with a probability, minus chance."""
    rng = np.random.default_rng(seed)
    return (rng.random((replicates, 2, 5, images)) < share) - 1 / classes


def test_masks_leak_where_their_class_is_named_more_often_than_by_chance_under_one_fraction():
    assert leaked_share(named_above_chance(0.5)) == 0.0, "a box independent of the class"
    assert leaked_share(named_above_chance(0.1)) == 0.0, "the image tells its own class"
    leaking = named_above_chance(0.1)
    leaking[:, 1, 0] = named_above_chance(0.7)[:, 1, 0]
    assert leaked_share(leaking) == pytest.approx(0.2, abs=0.05)
    assert leaked_share(leaking[: LEAST - 1]) == 0.0, "too few evaluators to tell"
    assert leaked_share(np.full((5, 2, 5, 0), np.nan)) == 0.0, "one class alone"


def test_guesses_of_single_evaluators_are_no_leak():
    """Under masks of few shapes each evaluator has one answer per shape, right or wrong by chance."""
    marked = 0
    for study in range(60):
        rng = np.random.default_rng(study)
        favourite = rng.choice([-0.5, 0.0, 0.0, 0.5], size=(5, 2, 5, 1))
        marked += leaked_share(favourite + rng.normal(0, 0.1, (5, 2, 5, 100))) > 0
    assert marked <= 3


def test_leaking_methods_are_named_worst_first_and_have_a_column():
    scores = scores_of(GAINS, KINDS, leaks={"fair": 0.1, "good": 0.3, "centre": 0.2})
    assert list(scores.leaking) == ["good", "fair"]
    assert scores.table.set_index("estimator")["leak"].to_dict()["centre"] == 0.2
    assert checked(evaluator_evidence({"label": scores}))[0].leaks == {"good": 0.3, "fair": 0.1}


def test_own_masks_are_compared_with_random_masks_too():
    table = scores_of(GAINS, KINDS).table.set_index("estimator")
    assert table.loc["random", "against_random"] == 0
    assert table.loc["good", "against_random"] == pytest.approx(0.8, abs=0.05)
