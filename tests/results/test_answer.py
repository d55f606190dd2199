"""The recommendation: which metrics decide, which methods qualify, what is said, and when nothing is recommended."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from uproar.errors import BadInput
from uproar.results import answer as answer_module
from uproar.results import evidence as evidence_module
from uproar.results.answer import Answer, Cost
from uproar.results.board import COLUMNS, PARTS, Card, agreement, card_of
from uproar.results.evidence import Evidence, checked, in_domain_share, kind_of_metric
from uproar.results.finding import Flag
from uproar.results.scores import Curves, Line
from uproar.statistics.intervals import Interval, required_sample_size

from ..report.test_score_report import scores_of
from .test_view import MODEL, TASK, cells, results

BASELINES = {"random": 0.0, "centre": 0.1, "brightness": 0.2}


def measured(levels, *, name="evaluator:model", kind="evaluator", question="model", p=None, replicates=5, **changes):
    """A metric that finds every difference above .05 significant, unless `p` has the p of a pair."""
    rows = []
    for first, second in itertools.combinations(levels, 2):
        gap = levels[first] - levels[second]
        usual = 1e-6 if abs(gap) > 0.05 else 0.6
        alone = (p or {}).get((first, second), usual)
        better, worse = (first, second) if gap > 0 else (second, first)
        against = [free for free in (first, second) if free in BASELINES]
        if len(against) < 2:
            size = abs(gap)
            rows.append((better, worse, "".join(against), size, size - 0.02, size + 0.02, 20.0, alone, True, 0))
    columns = ["better", "worse", "against", "difference", "low", "high", "df", "p", "ranked", "side"]
    comparisons = pd.DataFrame(rows, columns=columns).assign(p_holm=np.nan, verdict="")
    unit = "replicates" if kind == "retrained" else "images"
    return Evidence(
        name, name, kind, question, levels, comparisons, frozenset(BASELINES), unit, 40, replicates, **changes
    )


def answered(*found: Evidence, **changes) -> Answer:
    return Answer(tuple(checked(found)), **changes)


@pytest.fixture
def board(monkeypatch):
    """The board as a test fills it, τ by name; empty at first."""
    known: dict[str, float] = {}

    def card(name):
        rows = [(name, part, part, *[known.get(name)] * 3, 1.0, [], 5) for part in PARTS]
        return Card(name, pd.DataFrame(rows, columns=[*COLUMNS])) if name in known else None

    monkeypatch.setattr(evidence_module, "card_of", card)
    monkeypatch.setattr(answer_module, "card_of", card)
    return known


# which metrics decide


def test_for_a_network_the_evaluator_of_its_answers_decides_and_that_of_the_label_is_shown_beside_it():
    label = measured(BASELINES | {"ig": 0.1, "lrp": 0.9}, name="evaluator", kind="label evaluator", question="data")
    answer = answered(label, measured(BASELINES | {"ig": 0.8, "lrp": 0.5}))
    assert [metric.kind for metric in answer.choice.deciding] == ["evaluator"]
    assert answer.recommended == ("ig",)
    assert "Other metrics disagree with `ig`: evaluator puts `lrp` above it." in answer.details


def test_where_only_metrics_about_the_data_are_there_the_caveat_says_so():
    answer = answered(measured(BASELINES | {"ig": 0.8}, name="roar", kind="retrained", question="data"))
    assert answer.recommended == ("ig",)
    assert "at showing what the data allow" in answer.lines[0]
    assert answer.lines[-1] == "Caveat: roar measures what the data allow, not what the network uses."


def test_a_metric_that_the_board_trusts_decides_before_one_that_it_does_not(board):
    better, other = BASELINES | {"ig": 0.8, "lrp": 0.6}, BASELINES | {"ig": 0.6, "lrp": 0.8}
    pair = (measured(better, name="insertion", kind="filled"), measured(other, name="deletion", kind="filled"))
    board |= {"insertion": 0.4, "deletion": 0.95}
    assert answered(*pair).recommended == ("lrp",)
    details = "".join(answered(*pair).details)
    assert "insertion: 0.40 by whole order, 0.40 by top k, not trusted; deletion: 0.95 by whole order" in details
    board |= {"deletion": 0.42}
    assert answered(pair[0]).lines[-1] == (
        "Caveat: on 2 networks whose use of the input is known, insertion put 70% of the pairs of methods in the right "
        "order (whole order; 70% by the top pixels; chance: 50%), and on 1 network of real pictures 70% of the pairs "
        "of a method and a baseline. It misses the mark of a trusted metric (docs/board.md)."
    )
    board.clear()
    assert answered(*pair).lines[-1].endswith("by insertion and deletion with these settings was not measured.")


def test_a_method_is_not_recommended_beside_one_that_is_significantly_better(board):
    one = measured(BASELINES | {"occlusion": 0.84, "lrp": 0.80}, name="insertion", kind="filled")
    two = measured(BASELINES | {"occlusion": 0.6, "lrp": 0.8}, name="road", kind="filled")
    board |= {agreement(["insertion", "road"]): 0.9}
    answer = answered(one, two)
    assert (answer.recommended, answer.methods) == (("lrp",), ("lrp", "occlusion"))
    assert "Also better than the baselines, but behind: `occlusion`." in answer.sentence


def test_metrics_that_the_board_trusts_together_decide_together_and_before_what_it_does_not_trust(board):
    better, other = BASELINES | {"ig": 0.8, "lrp": 0.6}, BASELINES | {"ig": 0.6, "lrp": 0.8}
    pair = (measured(better, name="insertion", kind="filled"), measured(other, name="road", kind="filled"))
    board |= {"insertion": 0.9, "road": 0.4, agreement(["insertion", "road"]): 0.9}
    assert {metric.name for metric in answered(*pair).choice.deciding} == {"insertion", "road"}
    evaluator = measured(other, name="evaluator:model")
    assert {metric.name for metric in answered(*pair, evaluator).choice.deciding} == {"insertion", "road"}
    board |= {"evaluator:model": 0.9}
    assert answered(*pair, evaluator).recommended == ("lrp",)
    board |= {agreement(["insertion", "road"]): 0.4}
    assert {metric.name for metric in answered(*pair).choice.deciding} == {"insertion"}


def test_a_metric_inherits_no_trust_from_other_settings_of_its_name():
    assert card_of("deletion(fill=uniform)") is None
    assert card_of("road(by=probability)") is None


@pytest.mark.parametrize(("replicates", "decides"), [(4, False), (5, True)])
def test_evaluators_decide_from_five_replicates_on(replicates, decides):
    answer = answered(measured(BASELINES | {"ig": 0.8}, replicates=replicates))
    assert bool(answer.recommended) == decides
    if not decides:
        assert "(4 replicates, a verdict needs 5)" in answer.sentence


def test_roar_and_kar_that_contradict_each_other_decide_nothing_and_leave_decoupled_roar_alone():
    low, high = {"random": 0.0, "ig": -0.2, "lrp": -0.3}, {"random": 0.0, "ig": 0.2, "lrp": 0.3}
    options = {"kind": "retrained", "question": "data"}
    found = [measured(low, name="roar", **options), measured(high, name="kar", **options)]
    found.append(measured(high, name="decoupled", **options))
    reasons = {metric.name: metric.unreliable for metric in checked(found)}
    assert reasons["roar"] == reasons["kar"]
    assert reasons["roar"] == "ROAR and KAR contradict each other (2 of 2 methods): the masks leak the label"
    assert not reasons["decoupled"]


def test_a_metric_without_a_baseline_or_a_test_is_not_reliable():
    alone = measured({"ig": 1.0}, kind="filled", replicates=1)
    single = measured({"ig": 1.0, "random": 0.0}, kind="filled", replicates=1)
    single = replace(single, comparisons=single.comparisons[:0], images=1)
    assert [bool(metric.unreliable) for metric in checked([alone, single])] == [True, True]
    assert checked([single])[0].unreliable == "1 image: nothing varies that could be tested"


def test_a_network_that_fails_on_any_filled_image_says_nothing_by_filled_images():
    curve = ((0.0, 1.0), (0.06, 0.1), (1.0, 0.0))
    answer = answered(measured(BASELINES | {"ig": 0.8}, kind="filled", replicates=1, random_curve=curve))
    assert not answer.choice.deciding
    assert "accuracy is not kept when 3 % of the pixels are replaced at random" in answer.sentence
    guessing = measured(BASELINES | {"ig": 0.8}, kind="filled", replicates=1, random_curve=((0.0, 0.1), (1.0, 0.2)))
    assert checked([guessing])[0].unreliable == "the network is no better on whole images than on empty ones"
    assert in_domain_share([(0.0, 0.2), (0.5, 0.4), (1.0, 0.9)]) == 0.0, "a rising curve keeps nothing"


def test_metrics_that_only_describe_or_localise_recommend_nothing():
    answer = scores_of({"sparseness": {"random": 0.1, "ig": 0.9}, "pointing_game": {"ig": 1.0}}).answer
    assert answer.sentence == "No method can be recommended: nothing that was run compares methods yet."
    assert (kind_of_metric("road:leemann"), kind_of_metric("road:undeclared")) == ("filled", None)


# which methods


def test_methods_that_are_not_significantly_different_from_the_best_are_recommended_with_it_the_cheapest_first():
    levels = BASELINES | {"ig": 0.80, "lrp": 0.78, "occlusion": 0.60, "grad_cam": 0.15}
    answer = answered(measured(levels), costs={"ig": Cost(25.0), "lrp": Cost(2.0)})
    assert answer.recommended == ("lrp", "ig")
    assert answer.lines[:2] == (
        "Use `lrp` or `ig` (`lrp` is up to 12× cheaper). They are significantly better than every model-free baseline at "
        "showing what your network uses.",
        "Also better than the baselines, but behind: `occlusion`. Not significantly better than `brightness`: `grad_cam`.",
    )
    table = answer.table.set_index("method")
    assert table["group"].to_dict() == {"ig": "a", "lrp": "a", "occlusion": "b", "grad_cam": "c"}
    assert table["evaluator:model"]["grad_cam"] == "not better than brightness"
    assert str(answer) == "\n".join(answer.lines) and len(answer.lines) <= 4


def test_holm_runs_over_methods_against_baselines_and_over_pairs_of_methods_apart():
    """Ten methods: a p of .004 against the hardest baseline is enough, though there are 105 pairs of everything."""
    levels = BASELINES | {f"m{i}": 0.21 + 0.001 * i for i in range(9)} | {"ig": 0.26}
    p = {("brightness", "ig"): 0.004}
    answer = answered(measured(levels, p=p))
    assert answer.recommended == ("ig",)
    assert answer.metrics[0].standings["ig"].p == pytest.approx(0.04)


def test_a_method_must_beat_every_baseline_and_baselines_are_never_methods():
    answer = answered(measured({"random": 0.0, "centre": 0.5, "brightness": 0.79, "ig": 0.8}))
    assert answer.methods == ("ig",)
    assert answer.lines == (
        "No method can be recommended: none is significantly better than every model-free baseline.",
        "Not significantly better than `brightness`: `ig`.",
    )


def test_where_random_is_the_only_baseline_nothing_is_recommended():
    answer = answered(measured({"random": 0.0, "ig": 0.8}))
    assert (answer.recommended, answer.choice.best) == ((), ("ig",))
    assert answer.lines[0] == "No method can be recommended: `random` is the only baseline; better than it: `ig`."
    assert any("add `centre`, `brightness`, `sobel` and `block_random`" in line for line in answer.details)


def test_one_metric_against_the_bar_forbids_what_another_recommends():
    first = measured(BASELINES | {"ig": 0.8, "lrp": 0.7}, name="insertion", kind="filled", replicates=1)
    second = measured(BASELINES | {"ig": -0.5, "lrp": 0.7}, name="deletion", kind="filled", replicates=1)
    assert answered(first, second).recommended == ("lrp",)


def test_maps_that_a_user_calls_like_a_baseline_or_the_truth_are_methods():
    levels = {"insertion": {"random": 0.3, "centre": 0.4, "brightness": 0.9, "oracle": 0.8}}
    made = scores_of(levels)
    named = made.table["method"].isin(["brightness", "oracle"])
    answer = replace(made, table=made.table.assign(role=np.where(named, "method", made.table["role"]))).answer
    assert answer.methods == ("brightness", "oracle")


# shortcut, warnings, what is said


@pytest.mark.parametrize(("label_lost", "shortcut"), [(0.10, True), (0.30, False), (0.60, False)])
def test_where_network_and_data_disagree_about_what_matters_that_is_said_first(label_lost, shortcut):
    """Without the pixels that count for the network, the label can still be told."""
    levels = BASELINES | {"ig": 0.8, "lrp": 0.5}
    lost = {"ig": Interval(0.5, 0.45, 0.55)}
    network = measured(levels, lost=lost)
    label = measured(levels, name="evaluator", kind="label evaluator", question="data")
    label = replace(label, lost={"ig": Interval(label_lost, label_lost - 0.05, label_lost + 0.05)})
    answer = answered(network, label)
    assert answer.choice.shortcut == shortcut
    if shortcut:
        assert answer.lines[0].endswith(
            "loses 50% of what can be known about your network's answer, but 10% of what can be known about the label."
        )
    assert not answered(network).choice.shortcut


@pytest.mark.parametrize(("metric", "kind"), [("randomisation", "fails sanity"), ("sensitivity_max", "unstable")])
def test_warnings_are_raised_by_the_median_and_do_not_disqualify(metric, kind):
    levels = {"insertion": {"random": 0.3, "centre": 0.4, "ig": 0.9, "lrp": 0.8}, metric: {"ig": 1.5, "lrp": 0.2}}
    answer = scores_of(levels).answer
    assert {m: [flag.kind for flag in flags] for m, flags in answer.flags.items()} == {"ig": [kind]}
    assert answer.recommended == ("ig",)
    assert answer.lines[-1].startswith("Caveat: maps of `ig` ")
    assert answer.table["warnings"].tolist() == [kind, ""]


def test_a_heavy_tail_of_few_images_does_not_hide_an_unstable_method():
    """As LRP: mean 6.2 with a wide interval, median 1.21."""
    made = scores_of({"insertion": {"random": 0.3, "centre": 0.4, "lrp": 0.8}, "sensitivity_max": {"lrp": 1.21}})
    table = made.table.assign(low=np.where(made.table["metric"] == "sensitivity_max", -3.0, made.table["low"]))
    answer = replace(made, table=table).answer
    assert [flag.kind for flag in answer.flags["lrp"]] == ["unstable"]


def test_methods_whose_masks_leak_the_class_are_marked_in_one_sentence():
    answer = answered(measured(BASELINES | {"ig": 0.8}, leaks={"ig": 0.4, "lrp": 0.25}))
    (line,) = [line for line in answer.details if "leak the class" in line]
    assert line.endswith("laid on images of other classes, have their class named 40% above chance).")
    assert "`ig` and `lrp`" in line
    assert not any("leak the class" in line for line in answered(measured(BASELINES | {"ig": 0.8})).details)


def test_what_would_decide_is_said_where_nothing_is_recommended():
    answer = answered(measured(BASELINES | {"ig": 0.24}))
    assert any("replicates instead of 5 would show that `ig` is better than `brightness`" in d for d in answer.details)


def test_so_many_images_decide_four_times_out_of_five():
    draws, n, effect = np.random.default_rng(0), 25, 0.3
    values = draws.normal(effect, 1, n)
    half = float(scipy.stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))
    more = required_sample_size(effect, half, n - 1, n)
    assert more is not None
    samples = draws.normal(effect, values.std(ddof=1), (4000, more))
    power = (scipy.stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05).mean()
    assert power == pytest.approx(0.8, abs=0.03)


# from scores and studies


@pytest.mark.parametrize(
    ("metric", "shown"),
    [("road", False), ("road_lerf:leemann", True), ("insertion", True), ("insertion:rise", True), ("deletion", False)],
)
def test_the_random_curve_is_read_by_the_share_of_pixels_that_are_filled(metric, shown):
    line = Line(np.array([0.9, 0.2]), np.zeros(2), np.ones(2))
    curves = {metric: Curves(np.array([0.25, 1.0]), {"random": line})}
    answer = replace(scores_of({metric: BASELINES | {"ig": 0.8}}), curves=curves).answer
    assert answer.metrics[0].random_curve == (((0.0, 0.2), (0.75, 0.9)) if shown else ((0.25, 0.9), (1.0, 0.2)))


def test_a_lower_value_is_better_where_the_metric_says_so_and_two_settings_are_two_columns():
    answer = scores_of({"deletion": {"random": 0.6, "centre": 0.5, "ig": 0.2, "lrp": 0.4}}).answer
    assert answer.methods == ("ig", "lrp")
    values = BASELINES | {"ig": 0.8}
    two = scores_of({"insertion": values, "insertion(fill=blur)": values}).answer
    assert {"insertion", "insertion(fill=blur)"} <= set(two.table.columns)


def test_a_method_that_no_metric_ranks_has_no_value_and_says_why():
    scores = scores_of({"insertion": BASELINES | {"ig": 0.8, "lrp": 0.6}})
    own = scores.table["method"] == "lrp"
    table = scores.table.assign(ranked=~own, note=np.where(own, "undefined for 3 of 3 images", ""))
    assert replace(scores, table=table).answer.left_out == {"lrp": "undefined for 3 of 3 images"}
    assert "Left out: `lrp`." in replace(scores, table=table).answer.sentence


def test_a_study_that_retrains_recommends_by_paired_tests_over_replicates():
    levels = {"random": 0.8, "centre": 0.78, "grad": 0.6, "ig": 0.7}
    answer = results(cells("roar", levels, seeds=5)).answer
    assert [metric.name for metric in answer.choice.deciding] == ["roar"]
    assert answer.recommended == ("grad",)


def test_a_study_of_several_networks_has_an_answer_for_each():
    one = cells("roar", {"random": 0.8, "grad": 0.6})
    made = results(one, one.assign(model="other"))
    assert [answer.model for answer in made.answers] == [MODEL, "other"]
    assert made.answers[0].task == TASK
    with pytest.raises(BadInput, match=r"use \.answers"):
        _ = made.answer


def test_warnings_of_audits_count_too():
    answer = answered(measured(BASELINES | {"ig": 0.8}), flags={"ig": (Flag("ig", "fails sanity", "0.9"),)})
    assert "hardly change when the weights of the network are randomised" in answer.lines[-1]
