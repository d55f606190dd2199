"""Scores, verdicts and encoding from bits whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.results.test_view import MODEL, TASK, cells, results
from uproar.results.difference import compare_runs
from uproar.results.evaluator import ENCODING_COLUMNS, SCORE_COLUMNS, VERDICT_COLUMNS, EvaluatorBits, EvaluatorScores
from uproar.results.flags import flags_of_encoding
from uproar.results.judges import check_judges, evaluator_judge
from uproar.statistics.design import NETWORK_FREE

GAINS = {"good": 0.8, "fair": 0.3, "bad": -0.4, "random": 0.0, "centre": 0.3, "sobel": 0.1}
KINDS = {"good": "method", "fair": "method", "bad": "method", "random": "random"}
KINDS |= {"centre": "baseline", "sobel": "baseline"}


def scores_of(gains, kinds, replicates=4, images=60, **more) -> EvaluatorScores:
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


def test_a_method_must_beat_every_network_free_ranking():
    table = scores_of(GAINS, KINDS).verdicts.set_index("estimator")
    assert list(table.reset_index()) == list(VERDICT_COLUMNS)
    assert table["side"].to_dict() == {"good": 2, "fair": 1, "bad": -1}
    assert table.loc["good", "network_free"] == "centre", "the hardest one"
    assert table.loc["fair", "verdict"] == "better than random"
    assert table.loc["good", "margin"] == pytest.approx(0.5, abs=0.05)


def test_one_evaluator_is_not_tested():
    """Its mistakes are shared by all methods: images alone would call luck a difference."""
    alone = scores_of(GAINS, KINDS, replicates=1)
    assert set(alone.verdicts["verdict"]) == {"cannot tell"}
    assert alone.verdicts[["p_random", "p_network_free"]].isna().all(axis=None)
    assert alone.table["score"].notna().all()
    assert not alone.negative_control.failed, "nothing was tested"
    (judge,) = check_judges([evaluator_judge("label", alone, None)])
    assert not judge.votes
    assert "2 replicates" in judge.unable


def test_rankings_that_know_nothing_are_rarely_called_better():
    """Of 200 methods that are as good as the controls, in 40 studies, at most one in twenty studies errs."""
    wrong = 0
    for study in range(40):
        rng = np.random.default_rng(study)
        names = [*(f"m{i}" for i in range(5)), "random", *NETWORK_FREE]
        kinds = {n: "method" for n in names[:5]} | {"random": "random"} | {n: "baseline" for n in NETWORK_FREE}
        draw = lambda rng=rng: rng.normal(0, 1, (3, 40)) + rng.normal(0, 0.2, (3, 1))  # noqa: E731
        own, shifted = ({(n, k): draw() for n in names for k in (False, True)} for _ in range(2))
        wrong += bool((EvaluatorScores(EvaluatorBits(own, shifted, kinds)).verdicts["side"] == 2).any())
    assert wrong <= 2


def test_better_than_the_network_free_rankings_asks_for_better_than_random_too():
    """One method and one such ranking, nothing differs: both questions together err no more often than one."""
    wrong = 0
    for study in range(150):
        rng = np.random.default_rng(study)
        kinds = {"m": "method", "random": "random", "centre": "baseline"}
        own = {(n, k): rng.normal(0, 1, (3, 30)) + rng.normal(0, 0.3, (3, 1)) for n in kinds for k in (False, True)}
        shifted = {key: np.zeros((3, 30)) for key in own}
        row = EvaluatorScores(EvaluatorBits(own, shifted, kinds)).verdicts.iloc[0]
        assert row["side"] != 2 or row["p_random"] <= 0.05
        wrong += row["side"] != 0
    assert wrong <= 15


def test_without_controls_nothing_is_decided():
    frame = scores_of({"good": 0.8}, {"good": "method"}).verdicts
    assert frame["side"].tolist() == [0] and frame["verdict"].tolist() == ["cannot tell"]


def test_a_replicate_that_lacks_a_fraction_is_left_out():
    scores = scores_of(GAINS, KINDS)
    scores.bits.own["good", False][1] = np.nan
    row = scores.table.set_index("estimator").loc["good"]
    assert row["replicates"] == 3 and np.isfinite(row["score"])


def _uneven(like):
    """Numbers of mean 0 in the shape of others: without spread nothing is told."""
    return 0.1 * np.resize([-1.0, 1.0, -2.0, 2.0], like.shape)


def test_encoding_is_what_a_reader_of_the_mask_saves():
    plain = scores_of(GAINS, KINDS)
    own = plain.bits.own
    uneven = _uneven(own["good", False])
    assert uneven.mean() == pytest.approx(0.0)
    read = {key: bits - (0.4 + uneven if key[0] == "good" else 0.0) for key, bits in own.items()}
    both = EvaluatorScores(EvaluatorBits(own, plain.bits.shifted, KINDS, read))
    table = both.encoding.set_index("estimator")
    assert list(table.reset_index()) == list(ENCODING_COLUMNS)
    assert table.loc["good", "encoding"] == pytest.approx(0.4)
    assert table["encodes"].to_dict() == {name: name == "good" for name in GAINS}
    assert table.loc["good", "stripe_x"] == pytest.approx(both.table.set_index("estimator").loc["good", "score"] - 0.4)
    assert table.loc["good", "stripe_x_low"] < table.loc["good", "stripe_x"] < table.loc["good", "stripe_x_high"]
    assert plain.encoding.empty


def test_retrained_networks_show_no_encoding():
    """Blocks tell nothing; networks trained with blocks alone know them better than the evaluator does."""
    plain = scores_of(GAINS, KINDS)
    own, uneven = plain.bits.own, _uneven(plain.bits.own["good", False])
    better = {key: bits - 0.3 for key, bits in own.items()}
    retrained = {key: bits - (0.4 + uneven if key[0] == "fair" else uneven) for key, bits in better.items()}
    alone = EvaluatorScores(EvaluatorBits(own, plain.bits.shifted, KINDS, retrained=retrained))
    assert alone.encoding.empty and not flags_of_encoding(alone), "they are better than the evaluator at any such mask"
    both = EvaluatorScores(replace(alone.bits, decoupled=better))
    table = both.encoding.set_index("estimator")
    assert table["roar_over_decoupled"].to_dict() == pytest.approx({n: 0.4 if n == "fair" else 0.0 for n in GAINS})
    assert not table["encodes"].any() and table["stripe_x"].isna().all() and not flags_of_encoding(both)
    assert both.stripe_x_sentence("good") == ""
    read = {key: bits - (uneven + (0.4 if key[0] == "good" else 0.0)) for key, bits in own.items()}
    (flag,) = flags_of_encoding(EvaluatorScores(replace(both.bits, read=read)))
    assert flag.method == "good" and flag.why.startswith("its masks tell 0.40 bits (at least 0.")


def test_stripe_x_speaks_where_it_is_against_the_recommended_method():
    plain = scores_of(GAINS, KINDS)
    own, uneven = plain.bits.own, _uneven(plain.bits.own["good", False])

    def told(bits: float) -> str:
        read = {key: each - (uneven + (bits if key[0] == "good" else 0.0)) for key, each in own.items()}
        return EvaluatorScores(replace(plain.bits, read=read)).stripe_x_sentence("good")

    assert told(0.2) == "" and plain.stripe_x_sentence("good") == ""
    below = told(1.5)
    assert below.startswith("By STRIPE-X good, which the answer recommends, is below the random ranking: -0.7")
    assert "fair is highest (+0.2" in below
    assert "is not told from the random ranking" in told(0.8)


def test_the_best_network_free_ranking_and_the_one_that_decides_are_both_named():
    """`centre` is best; `sobel` varies so much over images that beating it is shown least clearly."""
    scores = scores_of({**GAINS, "centre": 0.3, "sobel": 0.2}, KINDS, replicates=4)
    for keeps in (False, True):
        noise = np.random.default_rng(int(keeps)).normal(0, 8, scores.bits.own["sobel", keeps].shape)
        scores.bits.own["sobel", keeps][:] += noise - noise.mean()
    row = scores.verdicts.set_index("estimator").loc["good"]
    assert (row["best_network_free"], row["network_free"]) == ("centre", "sobel")
    assert row["over_best"] == pytest.approx(0.5, abs=0.05)
    assert row["margin"] == pytest.approx(0.6, abs=0.05)
    assert row["margin_p"] == scores.differences["good", "sobel"].p > scores.differences["good", "centre"].p


def test_the_control_of_an_evaluator_is_that_of_its_score_and_it_has_no_other_verdicts():
    """Its accuracies are in the table of cells; a verdict by them would stand beside that by the score."""
    levels = {"random": 0.5, "good": 0.8, "bad": 0.7}
    scores = scores_of(GAINS, KINDS)
    table = cells("evaluator", levels, fractions=(0.5,))
    made = replace(results(table), evaluations={(TASK, MODEL, "label"): scores.bits})
    assert made.verdicts.empty and made.comparisons.empty
    (control,) = made.negative_controls.to_dict("records")
    assert (control["measure"], control["control"]) == ("evaluator", "passed")
    assert (control["methods"], control["better"], control["worse"]) == (3, 2, 1)
    only_bad = scores_of({"bad": -0.4, "random": 0.0}, {"bad": "method", "random": "random"})
    made = replace(made, evaluations={(TASK, MODEL, "label"): only_bad.bits})
    assert set(made.view(TASK, MODEL).unable_to_judge) == {"evaluator"}


def test_runs_are_compared_by_the_verdicts_of_evaluators_of_every_target():
    """`good` is weakened for the label and `fair` undecided for the answer; nothing else changes side."""

    def run(label: dict[str, float], answer: dict[str, float]):
        bits = {"label": scores_of(GAINS | label, KINDS).bits, "answer": scores_of(GAINS | answer, KINDS).bits}
        evaluations = {(TASK, MODEL, target): one for target, one in bits.items()}
        return replace(results(cells("roar", {"good": 0.6})), evaluations=evaluations)

    difference = compare_runs(run({}, {}), run({"good": 0.3}, {"fair": 0.0}))
    changed = {(row.protocol, row.estimator): row.change for row in difference.decisive.itertuples()}
    assert changed == {("evaluator", "good"): "weakened", ("evaluator of the answer", "fair"): "undecided"}
    assert set(difference.verdicts["unit"]) == {"bits"}
    assert difference.sentence == "It matters: of 6 verdicts that both have, 1 undecided, 1 weakened."
    assert compare_runs(run({}, {}), run({}, {})).sentence.startswith("It does not matter: all 6")
