"""Verdicts of retrained metrics: paired t over replicates, holes, interim analyses, what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from uproar.errors import BadInput
from uproar.statistics.comparisons import (
    FEWER,
    VERDICT_COLUMNS,
    against_random,
    areas_of,
    compare,
    corrected,
    holm,
    intervals,
    paired,
    sequential,
)
from uproar.statistics.intervals import detectable, required_sample_size
from uproar.study.adaptive import undecided_estimators


def table_of(areas, fractions=(0.5,)):
    """A tidy table whose curves are flat at the given {estimator: areas over replicates}."""
    return pd.DataFrame(
        [(e, s, t, value) for e, values in areas.items() for s, value in enumerate(values) for t in fractions],
        columns=["estimator", "replicate", "fraction", "value"],
    )


def drawn(seed, effects, n=6, sd=0.01):
    """Areas with what replicates share and noise; `effects` are advantages (lower areas)."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, 0.05, n)
    return {name: 0.8 - effect + shared + rng.normal(0, sd, n) for name, effect in {"random": 0.0, **effects}.items()}


def row(result, estimator):
    return result.set_index("estimator").loc[estimator]


def test_a_verdict_is_the_paired_t_test_with_holm_over_the_methods():
    areas = drawn(0, {"good": 0.1, "same": 0.0, "bad": -0.1})
    result = against_random(table_of(areas, (0.1, 0.5, 0.9)))
    assert list(result.columns) == list(VERDICT_COLUMNS)
    assert dict(zip(result["estimator"], result["side"], strict=True)) == {"good": 1, "same": 0, "bad": -1}
    for one in result.itertuples():
        test = stats.ttest_rel(areas["random"], areas[one.estimator])
        assert (one.p, one.low, one.high) == pytest.approx((test.pvalue, *test.confidence_interval()))
        assert (one.df, one.n, one.missing) == (5, 6, 0)
        assert (one.area, one.baseline_area) == pytest.approx((areas[one.estimator].mean(), areas["random"].mean()))
    assert result["p_holm"].tolist() == pytest.approx(holm(result["p"]).tolist())
    assert result["verdict"].tolist() == [
        "better than random",
        "not significantly different (6 replicates)",
        "worse than random",
    ]
    turned = against_random(table_of({e: -a for e, a in areas.items()}), higher_is_better=True)
    assert turned["advantage"].tolist() == pytest.approx(result["advantage"].tolist())


def test_other_baselines_are_shown_and_not_tested():
    areas = drawn(1, {"good": 0.1, "blocks": -0.3})
    result = against_random(table_of(areas), others=["blocks"])
    assert row(result, "blocks").verdict == "baseline" and np.isnan(row(result, "blocks").p)
    assert np.isfinite(row(result, "blocks").low)
    assert row(result, "good").p_holm == row(result, "good").p, "a family of one"
    rows = areas_of(table_of(areas))[0].drop("random")
    pairs = compare(dict(zip(rows.index, rows.to_numpy(), strict=True)), ["blocks"], higher_is_better=False)
    assert (pairs["better"].item(), pairs["against"].item()) == ("good", "blocks")


def test_fewer_than_five_replicates_have_no_verdict():
    result = against_random(table_of(drawn(2, {"good": 0.5}, n=4)))
    assert (result["verdict"].item(), result["side"].item()) == (FEWER, 0)
    assert np.isfinite(result[["low", "high"]].to_numpy()).all() and np.isnan(result["p"].item())


def test_replicates_that_do_not_vary_give_no_verdict_and_no_infinity():
    result = against_random(table_of({"random": [0.9] * 5, "a": [0.5] * 5}))
    assert result["verdict"].item() == "no test: the values do not vary"
    assert result[["p", "p_holm", "low", "high"]].isna().all(axis=None)


def test_holes_leave_replicates_out_of_a_pair_and_harm_no_other():
    areas = drawn(3, {"a": 0.1, "b": 0.1}, n=7)
    table = table_of(areas, (0.1, 0.5))
    whole = against_random(table)
    point = (table["estimator"] == "a") & (table["replicate"] == 2) & (table["fraction"] == 0.1)
    failed = table_of({"broken": [np.nan] * 7}, (0.1,))
    result = against_random(pd.concat([table.assign(value=table["value"].mask(point)), failed]))
    expected = stats.ttest_rel(np.delete(areas["random"], 2), np.delete(areas["a"], 2))
    assert (row(result, "a").n, row(result, "a").missing, row(result, "a").p) == (6, 1, pytest.approx(expected.pvalue))
    assert row(result, "b").p == row(whole, "b").p
    assert (row(result, "broken").n, row(result, "broken").verdict) == (0, FEWER)
    pd.testing.assert_frame_equal(against_random(pd.concat([table[~point], failed])), result)


def test_only_the_fractions_common_to_all_estimators_enter_the_areas():
    table = table_of({"random": [0.9, 0.8, 0.7]}, (0.1, 0.5, 0.9))
    table.loc[table.fraction == 0.5, "value"] = 0.0
    result = against_random(pd.concat([table, table_of({"a": [0.5] * 3}, (0.1, 0.9))]))
    assert result.baseline_area[0] == pytest.approx(0.8)
    assert result.attrs["fractions"] == [0.1, 0.9]


def test_intervals_of_curve_points_count_the_values_that_are_there():
    table = table_of({"a": [0.1, 0.4, np.nan, 0.3]}, (0.1,))
    result = intervals(table).iloc[0]
    low, high = stats.t.interval(0.95, 2, np.mean([0.1, 0.4, 0.3]), stats.sem([0.1, 0.4, 0.3]))
    assert (result["n"], result["low"], result["high"]) == (3, pytest.approx(low), pytest.approx(high))


def test_each_is_judged_at_the_first_analysis_that_decides_it_among_those_still_open():
    areas = drawn(4, {"huge": 0.5, "large": 0.03, "none": 0.0}, n=8)
    result = sequential(table_of(areas), analyses=(5, 8)).set_index("estimator")
    first = against_random(table_of({e: a[:5] for e, a in areas.items()}), alpha=0.025)
    assert row(first, "huge").side == 1 and result.loc["huge", "analysis"] == 5
    assert result.loc["huge", "p"] == row(first, "huge").p, "later replicates change nothing"
    rest = against_random(table_of({e: a for e, a in areas.items() if e != "huge"}), alpha=0.025)
    assert row(first, "large").side == 0 and result.loc["large", "analysis"] == 8
    assert result.loc["large", ["p", "p_holm"]].tolist() == row(rest, "large")[["p", "p_holm"]].tolist()
    assert undecided_estimators(result.reset_index()) == ["none"]


def test_an_analysis_waits_for_whole_replicates_and_spends_its_share_only():
    areas = drawn(5, {"huge": 0.5}, n=5)
    short = {**areas, "huge": areas["huge"][:4]}
    assert sequential(table_of(short))["verdict"].tolist() == [FEWER]
    for seed in range(100):
        table = table_of(drawn(seed, {"some": 0.02}, n=5))
        if 0.0125 < against_random(table)["p"].item() < 0.05:
            break
    assert against_random(table)["side"].item() == 1 and sequential(table)["side"].item() == 0


def test_baselines_go_on_as_long_as_a_method_is_open():
    table = table_of(drawn(6, {"huge": 0.5, "none": 0.0, "blocks": -0.2}, n=5))
    assert set(undecided_estimators(sequential(table, others=["blocks"]))) == {"none", "blocks"}
    assert undecided_estimators(sequential(table[table["estimator"] != "none"], others=["blocks"])) == []


def test_listed_pairs_are_paired_t_tests_with_holm_over_the_pairs():
    areas = drawn(9, {"a": 0.1, "b": 0.0})
    result = corrected(paired(areas, [("a", "random"), ("b", "random")], higher_is_better=False))
    p = [stats.ttest_rel(areas[e], areas["random"]).pvalue for e in "ab"]
    assert result["p_holm"].tolist() == pytest.approx(holm(p).tolist())
    assert result["side"].tolist() == [1, 0]


def test_the_detectable_difference_is_found_four_times_in_five():
    rng, n = np.random.default_rng(0), 6
    effect = float(detectable(1 / np.sqrt(n), n - 1))
    p = stats.ttest_1samp(rng.normal(effect, 1, (4000, n)), 0, axis=1).pvalue
    assert np.mean(p <= 0.05) == pytest.approx(0.8, abs=0.05)
    more = required_sample_size(0.5, float(stats.t.isf(0.025, n - 1)) / np.sqrt(n), n - 1, n)
    assert more == pytest.approx(34, abs=1), "Cohen's tables: 80 % power for half a standard deviation"
    assert required_sample_size(1e-9, 1.0, 5, 6) is None


def test_curves_without_a_common_fraction_are_refused_in_words():
    table = table_of(drawn(8, {"a": 0.1}), (0.1, 0.9))
    before = table.copy()
    against_random(table)
    pd.testing.assert_frame_equal(table, before)
    for bad in (table.assign(value=np.nan), table[(table.estimator == "random") == (table.fraction < 0.5)]):
        with pytest.raises(BadInput, match="No fraction is common"):
            against_random(bad)
