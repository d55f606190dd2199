"""Claims with several parts: how often they are decided wrongly, what is printed, and what is not tested."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.papers.made import MODEL, TASK, accuracies, results, scored
from uproar.errors import NotApplicable
from uproar.papers.claims import every, judge
from uproar.papers.evidence import ClaimEvidence
from uproar.papers.measures import MEASURES, measure_or_missing
from uproar.report.chapters import effect
from uproar.results.claim_outcome import Measure, Missing, claims_table
from uproar.statistics.comparisons import paired_difference
from uproar.statistics.correlation import correlation_interval, line_interval
from uproar.statistics.intervals import Interval, crossed_mean, mean_interval


def test_one_part_outside_at_95_percent_is_not_enough_among_many():
    inside = [Measure(str(i), Interval(1.0, 0.8, 1.2, 5, df=4), above=0.0) for i in range(14)]
    outside = Measure("outside", mean_interval([-1.0, -0.4, -0.9, -0.2, -0.6]), above=0.0)
    assert every(outside).outcome == "does not hold here"
    decision = every(*inside, outside)
    assert decision.outcome == "undecided"
    assert decision.deciding.what == "outside"
    assert decision.deciding.interval.level == pytest.approx(1 - 0.05 / 15)
    assert decision.deciding.interval.high > 0 > outside.interval.high  # what is printed reaches both in and out
    assert "99.7" in effect(decision.deciding.interval)
    assert every(*inside).deciding.interval.level == 0.95


def test_the_corrected_interval_is_students_at_its_level():
    values = np.random.default_rng(0).normal(size=6)
    wide = mean_interval(values).at_level(0.99)
    low, high = stats.t.interval(0.99, 5, values.mean(), values.std(ddof=1) / np.sqrt(6))
    assert (wide.low, wide.high) == pytest.approx((low, high))
    cut = mean_interval(values).clipped(-0.1, 0.1).at_level(0.99)
    assert (cut.low, cut.high) == (max(low, -0.1), min(high, 0.1))
    assert mean_interval(values).p_against(0.3) == pytest.approx(stats.ttest_1samp(values, 0.3).pvalue)
    assert wide.p_against(0.3) == pytest.approx(stats.ttest_1samp(values, 0.3).pvalue)


@pytest.mark.parametrize("exactly", [0.6, 0.3])
def test_replicates_that_do_not_vary_decide_no_claim(exactly):
    """Copies of one run would otherwise be perfect evidence, for the claim or against it."""
    cells = {"roar": {"random": {0.9: exactly}}}
    (one,) = judge(results(accuracies(cells, 0.0, seeds=4)), ["hooker2019:random-90"])
    assert one.outcome == "undecided"
    row = claims_table([one]).iloc[0]
    assert row[["low", "high", "p"]].isna().all()
    assert "no interval" in effect(one.deciding.interval)
    varied = judge(results(accuracies(cells, 0.003, seeds=4)), ["hooker2019:random-90"])
    assert varied[0].outcome == "holds"


@pytest.mark.parametrize("constant", [0.0, 0.3])
def test_no_number_without_spread_has_an_interval(constant):
    """Whichever way a claim or an audit takes its number: replicates, images in replicates, a line, correlations."""
    x, same = np.arange(12.0), np.full((3, 12), constant)
    intervals = [
        mean_interval(same[:, 0]),
        paired_difference(same[:, 0] + 1, np.ones(3)),
        crossed_mean(same),
        line_interval(x, np.tile(x**2, (3, 1))),
        correlation_interval(np.tile(np.stack([x, x], 1), (3, 1, 1, 1))),
    ]
    for interval in intervals:
        assert np.isnan([interval.low, interval.high]).all(), interval
        assert Measure("x", interval, above=-9.0, below=9.0).outcome == "undecided"
        assert math.isnan(interval.p) and interval.replicates in (1, 3)


def test_p_is_that_of_its_distance_to_the_claimed_range():
    values = np.array([0.2, 0.31, 0.27, 0.24])
    for claimed, bound in (({"above": 0.1}, 0.1), ({"below": 0.1}, 0.1), ({"above": 0.2, "below": 0.9}, 0.2)):
        p = Measure("x", mean_interval(values), **claimed).p
        assert p == pytest.approx(stats.ttest_1samp(values, bound).pvalue)


# what is asked


def _hooker(names, seeds=4, noise=0.003):
    curves = {"random": {0.5: 0.8, 0.9: 0.7}, **{name: {0.5: 0.6, 0.9: 0.3} for name in names}}
    return results(accuracies({"roar": curves}, noise, seeds))


def test_a_claim_about_three_methods_is_not_held_because_of_one():
    some = judge(_hooker(["sg_sq(grad)"]), ["hooker2019:sg-sq"])
    assert [(one.claim, one.outcome) for one in some] == [("hooker2019:sg-sq", "holds in part")]
    assert "the study has no sg_sq(ig) under roar" in some[0].reason
    whole = judge(_hooker([f"sg_sq({n})" for n in ("grad", "ig", "guided_backprop")]), ["hooker2019:sg-sq"])
    assert [(one.claim, one.outcome) for one in whole] == [("hooker2019:sg-sq", "holds")]


def test_settings_are_not_called_alike_because_of_one_pair_of_fifteen():
    draws = np.random.default_rng(2)
    quality = {name: draws.normal(size=60) for name in ("ig", "grad", "occlusion")}
    values = {
        (metric, name): q + 0.1 * draws.normal(size=60)
        for metric in ("insertion", "insertion(fill=blur)")
        for name, q in quality.items()
    }
    (some,) = judge(results(**scored(values)), ["vandersmissen2023:insertion-settings"])
    assert "no metric insertion with unit=region, fill=uniform" in some.reason
    assert (some.outcome, len(some.measures)) == ("holds in part", 1)


def test_a_claim_without_any_part_says_which_one_is_missing():
    def refuse():
        raise NotApplicable("the study has no ig")

    with pytest.raises(NotApplicable, match="no ig"):
        every(measure_or_missing(refuse))
    measure = Measure("x", Interval(1.0, 0.9, 1.1, 3), above=0.0)
    assert every(measure_or_missing(refuse), measure).missing == (Missing("the study has no ig"),)


# one number on one page


def test_an_advantage_over_the_whole_curve_is_that_of_the_verdicts_and_names_its_fractions():
    given = _hooker(["grad", "ig"])
    (evidence,) = [ClaimEvidence(given, TASK, MODEL)]
    verdict = given.verdicts.set_index("estimator").loc["ig"]
    claimed = evidence.area("roar", "ig", above=0.0)
    assert claimed.interval.value == pytest.approx(verdict["advantage"])
    assert (claimed.interval.low, claimed.interval.high) == pytest.approx((verdict["low"], verdict["high"]))
    assert "mean height over 0, 0.5, 0.9" in claimed.what
    assert "at 0.9:" in evidence.area("roar", "ig", at=0.9, above=0.0).what
    with pytest.raises(NotApplicable, match="at 0.3"):
        evidence.area("roar", "ig", at=(0.3, 0.9), above=0.0)


def test_a_study_that_ran_until_it_was_decided_leaves_a_claim_the_share_of_one_analysis():
    given = _hooker([f"sg_sq({n})" for n in ("grad", "ig", "guided_backprop")])
    (one,) = judge(replace(given, study={**given.study, "until_decided": True}), ["hooker2019:sg-sq"])
    assert one.deciding.interval.level == pytest.approx(0.9875)


# replicates and images


def _replicated(seeds: int, network: float, images: int = 60):
    """Insertion and ROAD whose correlation differs from network to network; both metrics of two estimators."""
    draws = np.random.default_rng(4)
    frames = []
    for seed in range(seeds):
        tie = np.tanh(0.8 + network * draws.normal())
        values = {}
        for name in ("ig", "grad"):
            a, b = draws.normal(size=(2, images))
            values["insertion", name] = a
            values["road", name] = -(tie * a + np.sqrt(1 - tie**2) * b)  # better where lower
        frames.append(scored(values))
    parts = frames[0]
    for key in ("scores", "image_scores"):
        parts[key] = pd.concat([frame[key].assign(seed=seed) for seed, frame in enumerate(frames)])
    return ClaimEvidence(results(**parts), TASK, MODEL)


def test_networks_that_differ_widen_the_interval_of_a_correlation():
    each = (MEASURES["correlation"](_replicated(3, n), {}, metrics=[("insertion", "road")]) for n in (0.0, 0.6))
    (alike,), (apart,) = each
    assert apart.interval.half_width > 2 * alike.interval.half_width
    assert (apart.interval.n, apart.interval.replicates) == (60, 3)
    assert apart.sample == "60 images in 3 replicates"


def test_a_mean_over_images_counts_replicates_too():
    evidence = _replicated(3, 0.0)
    draws = np.random.default_rng(1)
    images = 0.1 * draws.normal(size=500)
    table = pd.DataFrame(np.array([[0.0], [0.5], [1.0]]) + images + 0.01 * draws.normal(size=(3, 500)))
    measure = evidence.over_images("x", table, above=0.0)
    assert measure.outcome == "undecided"  # three networks at 0, 0.5 and 1 say little, however many images there are
    assert measure.interval.low < 0 < measure.interval.value
    one = evidence.over_images("x", table.iloc[[1]], above=0.0)
    assert one.outcome == "holds"


def test_the_table_counts_each_kind():
    (one,) = judge(_hooker([f"sg_sq({n})" for n in ("grad", "ig", "guided_backprop")]), ["hooker2019:sg-sq"])
    table = claims_table([one])
    assert set(table["replicates"]) == {4}
    assert table["df"].gt(0).all()
    assert table["level"].eq(0.95).all()
