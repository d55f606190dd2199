import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.reference import anova_slow

from uproar.errors import BadInput
from uproar.statistics.design import INTERIM_ANALYSES
from uproar.statistics.multiple_testing import holm, interim_alpha
from uproar.statistics.twoway import contrasts
from uproar.statistics.verdicts import COLUMNS, compare, intervals, minimum_detectable


def table_of(areas, fractions=(0.5,)):
    """A tidy table whose curves are flat at the given {estimator: areas over replicates}."""
    return pd.DataFrame(
        [(e, s, t, value) for e, values in areas.items() for s, value in enumerate(values) for t in fractions],
        columns=["estimator", "replicate", "fraction", "value"],
    )


def drawn(rng, estimators=5, n=4, fractions=(0.1, 0.3, 0.7, 0.9)):
    """A table with effects, replicate blocks and noise, its rows in no order."""
    names = ["random", *(f"e{k}" for k in range(estimators - 1))]
    block = rng.normal(0, 5, n)
    rows = [
        (e, s, t, k * 0.7 - t + block[s] + rng.normal())
        for k, e in enumerate(names)
        for s in range(n)
        for t in fractions
    ]
    table = pd.DataFrame(rows, columns=["estimator", "replicate", "fraction", "value"])
    return table.sample(frac=1, random_state=rng).reset_index(drop=True)


def simulated(seed, sims, estimators, n, sd=1.0, effect=0.0):
    """Areas (sims, 1 + estimators, n), the baseline first, with large replicate blocks."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((sims, 1 + estimators, n))
    block = 10 * rng.standard_normal((sims, 1, n))
    rows = np.ones(1 + estimators)
    return noise * (rows * sd)[:, None] + (rows * effect)[:, None] + block


def decided(areas, alpha=0.05):
    """Whether each estimator of each simulated study gets a verdict other than cannot tell."""
    return holm(contrasts(areas, 0).p[:, 1:]) <= alpha


def row(result, estimator):
    return result.set_index("estimator").loc[estimator]


# known answers


def test_three_estimators_and_two_replicates_worked_by_hand():
    # The rows a, b have the replicate means 5.5 and 6.5, random 10 and 8: differences -4.5 and -1.5, variance 4.5 on 1
    # degree of freedom. Residuals of a, b are +-0.5: sum of squares 1 on 1 degree of freedom, times 1 - 1/2: 0.5 on 1.
    # Together 5 on 25 / (4.5^2 + 0.5^2) = 1.2195 degrees of freedom. The differences of a are -3, -1: variance 2, less
    # than 5; those of b are -6, -2: variance 8, more than 5, on 1 degree of freedom: t = 4 / 2, p = 1 - 2 atan(2) / pi.
    result = compare(table_of({"random": [10, 8], "a": [7, 7], "b": [4, 6]}))
    a, b = row(result, "a"), row(result, "b")
    assert (a.area, b.area, a.baseline_area, b.baseline_area) == pytest.approx((7, 5, 9, 9))
    assert (a.advantage, b.advantage) == pytest.approx((2, 4))
    assert (a.se, a.df, b.se, b.df) == pytest.approx((math.sqrt(2.5), 25 / 20.5, 2, 1))
    p_a, p_b = 2 * stats.t.sf(2 / math.sqrt(2.5), 25 / 20.5), 1 - 2 * math.atan(2) / math.pi
    assert (a.p, b.p) == pytest.approx((p_a, p_b), abs=1e-12)
    assert (b.p_holm, a.p_holm) == pytest.approx((2 * p_b, 2 * p_b), abs=1e-12)
    half = stats.t.isf(0.025, 25 / 20.5) * math.sqrt(2.5)
    assert (a.low, a.high) == pytest.approx((2 - half, 2 + half), abs=1e-9)
    assert result.attrs["residual_sd"] == pytest.approx(1)
    assert (a.note, b.note[:6]) == ("", "varies")
    assert set(result.verdict) == {"cannot tell with 2 replicates"}


def test_one_estimator_against_the_baseline_is_the_paired_t_test():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=6), rng.normal(0.5, 1, size=6)
    result = row(compare(table_of({"random": x, "a": y})), "a")
    assert result.p == pytest.approx(stats.ttest_rel(x, y).pvalue, abs=1e-12)
    assert result.p_own == pytest.approx(result.p, abs=1e-12)


def test_p_own_is_the_paired_t_test_whatever_the_other_estimators_do():
    rng = np.random.default_rng(4)
    areas = {"random": rng.normal(size=5), "a": rng.normal(size=5), "b": rng.normal(size=5)}
    calm = row(compare(table_of(areas)), "a")
    wild = row(compare(table_of({**areas, "b": 50 * areas["b"]})), "a")
    expected = stats.ttest_rel(areas["a"], areas["random"]).pvalue
    assert (calm.p_own, wild.p_own) == pytest.approx((expected, expected))
    assert wild.p > calm.p


def test_holm_agrees_with_a_hand_example():
    # in order: 0.005 * 5, 0.011 * 4, 0.02 * 3, 0.04 * 2, 0.9 * 1
    p = [0.02, 0.005, 0.011, 0.9, 0.04]
    assert holm(p) == pytest.approx([0.06, 0.025, 0.044, 0.9, 0.08])
    assert holm([0.03, 0.02, 0.02]) == pytest.approx([0.06, 0.06, 0.06])
    assert holm([0.6, 0.7]) == pytest.approx([1, 1])


def test_holm_leaves_out_what_was_not_tested():
    adjusted = holm([0.02, np.nan, 0.03])
    assert adjusted[[0, 2]] == pytest.approx([0.04, 0.04])
    assert np.isnan(adjusted[1])


def test_the_interval_of_a_curve_point_is_the_students_one():
    # 1, 2, 3, 4: mean 2.5, sd 1.290994, t(0.975, 3) = 3.182446: half-width 2.054260
    table = table_of({"a": [1, 2, 3, 4], "b": [7]}, fractions=(0.2,))
    result = intervals(table)
    assert list(result.columns) == ["estimator", "fraction", "n", "mean", "low", "high"]
    assert result.loc[0, ["mean", "low", "high"]].tolist() == pytest.approx(
        [2.5, 2.5 - 2.054260, 2.5 + 2.054260], abs=1e-5
    )
    assert (result.loc[1, "n"], result.loc[1, "mean"]) == (1, 7)
    assert result.loc[1, ["low", "high"]].isna().all()


def test_an_interval_counts_only_the_values_that_are_there():
    result = intervals(table_of({"a": [1, np.nan, 3], "b": [np.nan] * 3}, fractions=(0.2, 0.4)))
    assert result.n.tolist() == [2, 2, 0, 0]
    assert result["mean"].tolist()[:2] == [2, 2]
    assert result["mean"].isna().tolist() == [False, False, True, True]


# agreement with a slow re-derivation


def agrees(table, fractions, **options):
    result = compare(table, **options)
    slow = anova_slow.compare(
        table[["estimator", "replicate", "fraction", "value"]].itertuples(index=False, name=None),
        fractions,
        options.get("baseline", "random"),
        options.get("higher_is_better", False),
        options.get("alpha", 0.05),
    )
    assert set(result.estimator) == set(slow)
    for e, expected in slow.items():
        actual = row(result, e)[["advantage", "low", "high", "p", "p_holm"]].tolist()
        assert actual == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_a_complete_study_agrees_with_dummy_variables(seed):
    rng = np.random.default_rng(seed)
    table = drawn(rng, estimators=2 + seed, n=2 + seed)
    agrees(table, [0.1, 0.3, 0.7, 0.9], higher_is_better=seed % 2 == 0, alpha=0.01 * (seed + 1))


@pytest.mark.parametrize("seed", range(10))
def test_a_study_with_holes_agrees_with_dummy_variables(seed):
    rng = np.random.default_rng(100 + seed)
    table = drawn(rng, estimators=5, n=7)
    lost = [(f"e{k}", int(s)) for k in range(4) for s in rng.choice(7, rng.integers(0, 4), False)]
    lost += [("random", int(rng.integers(7)))]
    gone = [key in lost for key in zip(table.estimator, table.replicate, strict=True)]
    fate = rng.choice(["kept", "absent", "nan"], len(table))  # of the points of a lost curve
    fate[table.fraction == 0.9] = "nan"
    table = table.assign(value=table.value.mask(gone & (fate == "nan")))
    table = table[~(gone & (fate == "absent"))]
    agrees(table, [0.1, 0.3, 0.7, 0.9], baseline="e0" if seed % 2 else "random")


@pytest.mark.parametrize(("uneven", "holes"), [("a", False), ("a", True), ("random", True)])
def test_the_larger_standard_error_is_taken_with_its_own_degrees_of_freedom(uneven, holes):
    widened = noted = 0
    for seed in range(7):
        rng = np.random.default_rng(seed)
        names = ["random", "a", "b", "c", "d"]
        areas = {e: rng.normal(0, 6.0 if e == uneven else 1.0, 5) for e in names}
        if holes:
            areas["b"][0] = areas["c"][3] = areas["random"][4] = np.nan
        cells = {(e, s): v for e in names for s, v in enumerate(areas[e]) if not np.isnan(v)}
        result = compare(table_of(areas))
        for e in names[1:]:
            one, (difference, se, df) = row(result, e), anova_slow.contrast(cells, e, "random")
            assert (one.advantage, one.se, one.df) == pytest.approx((-difference, se, df), abs=1e-10)
            own = areas[e] - areas["random"]
            own = own[~np.isnan(own)]
            own_se = own.std(ddof=1) / math.sqrt(len(own))
            assert one.se > own_se * (1 - 1e-9)
            wide = one.se == pytest.approx(own_se)
            assert wide == (one.df == len(own) - 1)
            noted += "varies more" in one.note
            widened += wide
    assert 0 < widened < 28 and 0 < noted < 28  # it fires, and not everywhere


# properties


def test_the_order_of_the_rows_changes_nothing():
    table = drawn(np.random.default_rng(5))
    expected, described = compare(table), intervals(table)
    for seed in range(3):
        mixed = table.sample(frac=1, random_state=seed)
        pd.testing.assert_frame_equal(compare(mixed), expected, check_exact=True)
        pd.testing.assert_frame_equal(intervals(mixed), described)


def test_a_good_or_bad_replicate_moves_every_estimator_and_no_verdict():
    table = drawn(np.random.default_rng(6))
    moved = table.assign(value=table.value + 100 * table.replicate**2)
    columns = ["advantage", "low", "high", "p", "p_holm", "detectable", "p_own"]
    pd.testing.assert_frame_equal(compare(moved)[columns], compare(table)[columns], rtol=1e-8)


def test_points_instead_of_fractions_scale_the_advantage_and_keep_the_p_values():
    table = drawn(np.random.default_rng(7))
    points, plain = compare(table.assign(value=100 * table.value)), compare(table)
    for column in ["area", "advantage", "low", "high", "detectable"]:
        assert points[column].to_numpy() == pytest.approx(100 * plain[column].to_numpy())
    assert points.p.to_numpy() == pytest.approx(plain.p.to_numpy())


def test_positive_is_better_in_both_protocols():
    rng = np.random.default_rng(8)
    noise = 0.01 * rng.standard_normal((3, 5))
    table = table_of({"random": 0.9 + noise[0], "low": 0.5 + noise[1], "high": 0.99 + noise[2]})
    roar, kar = compare(table), compare(table, higher_is_better=True)
    assert roar.verdict.tolist() == ["better than random", "worse than random"]
    assert roar.estimator.tolist() == ["low", "high"]
    assert kar.estimator.tolist() == ["high", "low"]
    assert kar.verdict.tolist() == ["better than random", "worse than random"]
    assert row(roar, "low").advantage == pytest.approx(0.4, abs=0.02)
    assert row(kar, "low").advantage == -row(roar, "low").advantage
    assert row(kar, "low").high == pytest.approx(-row(roar, "low").low)


def test_the_verdict_names_the_baseline():
    rng = np.random.default_rng(9)
    table = table_of({"sobel": 0.9 + 0.01 * rng.normal(size=4), "a": 0.5 + 0.01 * rng.normal(size=4)})
    assert compare(table, baseline="sobel").verdict.tolist() == ["better than sobel"]


def test_a_stricter_alpha_widens_the_interval_and_withholds_the_verdict():
    table = table_of({"random": [10, 8, 9, 10], "a": [7, 7, 6, 9]})
    loose, strict = compare(table, alpha=0.05), compare(table, alpha=0.001)
    assert loose.verdict[0] == "better than random"
    assert strict.verdict[0] == "cannot tell with 4 replicates"
    assert strict.low[0] < 0 < loose.low[0]
    assert strict.p[0] == loose.p[0]


def test_the_columns_are_the_promised_ones_also_when_there_is_nothing_to_compare():
    assert tuple(compare(drawn(np.random.default_rng(0))).columns) == COLUMNS
    alone = compare(table_of({"random": [1, 2, 3]}))
    assert tuple(alone.columns) == COLUMNS
    assert len(alone) == 0


# what is missing


def test_only_the_fractions_common_to_all_estimators_enter_the_areas():
    table = table_of({"random": [0.9, 0.8, 0.7]}, (0.1, 0.5, 0.9))
    table.loc[table.fraction == 0.5, "value"] = 0.0
    other = table_of({"a": [0.5, 0.5, 0.5]}, (0.1, 0.9))
    result = compare(pd.concat([table, other]))
    assert result.baseline_area[0] == pytest.approx(0.8)
    assert result.attrs["fractions"] == [0.1, 0.9]


def test_fractions_that_differ_by_rounding_are_the_same_fraction():
    a = table_of({"random": [0.9, 0.8]}, (0.1 + 0.2,))
    assert compare(pd.concat([a, table_of({"a": [0.5, 0.5]}, (0.3,))])).n[0] == 2


def test_a_missing_hard_replicate_does_not_make_an_estimator_look_better():
    # Without noise, effects 0, 1, 2, 3 and blocks 0, 10, 40, 5: whatever is missing, the effects
    # come back. Means over what is there would be wrong by several points.
    block = np.array([0.0, 10.0, 40.0, 5.0])
    areas = {e: k + block for k, e in enumerate(["random", "a", "b", "c"])}
    areas["a"][2] = areas["b"][0] = areas["c"][1] = areas["random"][3] = np.nan
    result = compare(table_of(areas))
    assert [row(result, e).advantage for e in "abc"] == pytest.approx([-1, -2, -3], abs=1e-9)
    assert row(result, "a").n == 2
    assert row(result, "a").missing == 2
    assert row(result, "a").baseline_area == pytest.approx(50 / 3)
    assert row(result, "a").area == pytest.approx(50 / 3 + 1)


def test_a_nan_a_missing_point_and_a_missing_curve_are_the_same_hole():
    table = drawn(np.random.default_rng(11))
    hole = (table.estimator == "e1") & (table.replicate == 2)
    point = hole & (table.fraction == 0.3)
    nan = table.assign(value=table.value.mask(point))
    results = [compare(nan), compare(table[~point]), compare(table[~hole])]
    for result in results[1:]:
        pd.testing.assert_frame_equal(result, results[0])
    assert row(results[0], "e1").n == 3
    assert row(results[0], "e1").missing == 1
    assert row(results[0], "e0").n == 4
    assert results[0].attrs["nan_values"] == 1
    assert results[1].attrs["nan_values"] == 0


def test_an_estimator_that_failed_throughout_is_reported_and_harms_no_other():
    table = drawn(np.random.default_rng(12))
    failed = table_of({"broken": [np.nan] * 4}, (0.1,))
    result, plain = compare(pd.concat([table, failed])), compare(table)
    broken = row(result, "broken")
    assert (broken.n, broken.verdict) == (0, "cannot tell with 0 replicates")
    assert np.isnan(broken.advantage)
    assert np.isnan(broken.p_holm)
    pd.testing.assert_frame_equal(result.iloc[:-1], plain)


def test_an_estimator_with_one_replicate_among_many_gets_an_estimate_and_no_test():
    rng = np.random.default_rng(13)
    areas = {e: rng.normal(size=5) for e in ["random", "a", "b"]}
    areas["late"] = np.array([np.nan, np.nan, np.nan, np.nan, 30.0])
    result = compare(table_of(areas))
    late = row(result, "late")
    assert late.verdict == "cannot tell with 1 replicate"
    assert late.advantage < -20
    assert late[["p", "p_holm", "low", "high", "detectable"]].isna().all()
    assert "two replicates" in late.note
    assert np.isfinite(row(result, "a").p)


def test_an_estimator_never_seen_beside_the_baseline_is_not_compared_through_others():
    nan = np.nan
    areas = {"random": [1, 2, 3, nan], "a": [4, 6, 4, 9], "b": [nan, nan, nan, 7.0]}
    b = row(compare(table_of(areas)), "b")
    assert b.n == 0
    assert np.isnan(b.advantage)


def test_a_baseline_that_failed_throughout_leaves_no_verdict():
    result = compare(table_of({"random": [np.nan] * 3, "a": [1, 2, 4], "b": [2, 2, 1]}))
    assert set(result.verdict) == {"cannot tell with 0 replicates"}
    assert result[["advantage", "p", "baseline_area"]].isna().all(axis=None)


def test_one_replicate_cannot_tell():
    result = compare(table_of({"random": [0.9], "a": [0.1], "b": [0.5]}))
    assert set(result.verdict) == {"cannot tell with 1 replicate"}
    assert result[["p", "p_holm", "low", "high", "detectable", "p_own"]].isna().all(axis=None)
    assert row(result, "a").advantage == pytest.approx(0.8)


# no spread at all


@pytest.mark.parametrize("other", [0.7, 0.2])
def test_replicates_that_do_not_vary_give_no_verdict_and_no_infinity(other):
    # a constant difference too: copies of one run would otherwise count as perfect evidence
    fractions = (0.1, 0.3, 0.7)
    result = compare(table_of({"random": [0.7] * 4, "a": [other] * 4}, fractions))
    assert result.verdict.tolist() == ["cannot tell with 4 replicates"]
    assert result.advantage[0] == pytest.approx(0.7 - other)
    assert result[["p", "p_holm", "low", "high", "detectable", "p_own"]].isna().all(axis=None)
    assert "do not vary" in result.note[0]


def test_a_constant_difference_between_varying_replicates_has_no_residual_either():
    block = np.array([0.1, 0.2, 0.3])
    result = compare(table_of({"random": block, "a": block - 0.1, "b": block}))
    assert set(result.verdict) == {"cannot tell with 3 replicates"}


def test_one_estimator_with_a_constant_difference_is_judged_by_the_spread_of_the_others():
    rng = np.random.default_rng(14)
    random, b = 0.8 + 0.01 * rng.normal(size=5), 0.8 + 0.01 * rng.normal(size=5)
    result = row(compare(table_of({"random": random, "a": random - 0.2, "b": b})), "a")
    assert result.verdict == "better than random"
    assert 0 < result.p < 1e-4
    assert np.isnan(result.p_own)


def test_a_single_varying_estimator_among_constant_ones_has_a_finite_test():
    result = compare(table_of({"random": [1.0] * 4, "a": [1.0, 2.0, 1.5, 1.2], "b": [0.5] * 4}))
    assert np.isfinite(result[["p", "low", "high"]].to_numpy()).all()
    assert "1.4 times" in row(result, "a").note


def test_an_estimator_at_the_mean_of_the_others_raises_no_numerical_warning():
    # what it adds to the residual is zero up to rounding, on either side
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(10):
            rest = np.random.default_rng(seed).normal(size=(3, 4))
            areas = {"random": rest[0], "a": rest[1], "b": rest[2], "mean": rest.mean(0) + 0.1}
            assert np.isfinite(compare(table_of(areas)).p).all()


# how often it errs, and how often it finds


def null(seed, sims, estimators, n, spread=1.0, baseline=1.0, correlation=0.0, tails=None):
    """Areas (sims, 1 + estimators, n) without a difference; the rows beside the baseline share their network."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.standard_normal(shape) if tails is None else rng.standard_t(tails, shape)

    rows = math.sqrt(correlation) * draw(sims, 1, n) + math.sqrt(1 - correlation) * draw(sims, estimators, n)
    return np.concatenate([baseline * draw(sims, 1, n), rows * np.reshape(spread, (-1, 1))], 1)


def one_noisy(times, estimators=10):
    return [times] + [1.0] * (estimators - 1)


NULLS = {
    "independent": {},
    "shared network .5": {"correlation": 0.5},
    "shared network .9": {"correlation": 0.9},
    "baseline 3x": {"baseline": 3.0},
    "baseline a third": {"baseline": 1 / 3},
    "one row 3x": {"spread": one_noisy(3.0)},
    "one row 5.6x": {"spread": one_noisy(5.6)},
    "one row 5.6x, shared network .5": {"spread": one_noisy(5.6), "correlation": 0.5},
    "half the rows 3x": {"spread": [3.0] * 5 + [1.0] * 5},
    "spreads 1 to 5.6": {"spread": np.geomspace(1, 5.6, 10)},
    "heavy tails": {"tails": 3},
    "heavy tails, shared network .9": {"tails": 3, "correlation": 0.9},
}
SIMS = 8000
MONTE_CARLO = 3 * math.sqrt(0.05 * 0.95 / SIMS)


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("name", NULLS)
def test_false_verdicts_and_false_coverage_of_ten_nulls_stay_within_bounds(name, n):
    p = contrasts(null(20, SIMS, 10, n, **NULLS[name]), 0).p[:, 1:]
    assert (holm(p) <= 0.05).any(-1).mean() < 0.05 + MONTE_CARLO
    assert (p <= 0.05).mean(0).max() < 0.06 + MONTE_CARLO, "the row whose interval misses most often"


@pytest.mark.parametrize("n", [3, 5, 20])
@pytest.mark.parametrize("estimators", [1, 2, 3, 5])
@pytest.mark.parametrize("times", [1.0, 5.6])
def test_false_verdicts_stay_within_bounds_with_few_estimators(estimators, n, times):
    """With two or three estimators a noisy one is a large part of the mean of the rows: its own differences count."""
    for correlation in (0.0, 0.9):
        areas = null(21, SIMS, estimators, n, spread=one_noisy(times, estimators), correlation=correlation)
        p = contrasts(areas, 0).p[:, 1:]
        assert (holm(p) <= 0.05).any(-1).mean() < 0.05 + MONTE_CARLO
        assert (p <= 0.05).mean(0).max() < 0.06 + MONTE_CARLO


def test_the_variance_pooled_with_the_baseline_would_err():
    """The checks above can fail: with one residual variance for all rows and its many degrees of freedom, they do."""
    areas = null(22, SIMS, 10, 3, correlation=0.9)
    residual = areas - areas.mean(1, keepdims=True) - areas.mean(2, keepdims=True) + areas.mean((1, 2), keepdims=True)
    error = np.sqrt(2 / 3 * (residual**2).sum((1, 2)) / 20)[:, None]
    t = np.abs(areas.mean(2)[:, 1:] - areas.mean(2)[:, :1]) / error
    assert (holm(2 * stats.t.sf(t, 20)) <= 0.05).any(-1).mean() > 0.1


def test_false_verdicts_stay_within_five_percent_beside_true_differences():
    effect = np.r_[np.zeros(6), np.full(5, 12.0)]
    result = decided(simulated(21, SIMS, 10, 5, effect=effect))
    assert result[:, 5:].mean() > 0.99
    assert result[:, :5].any(-1).mean() < 0.05 + MONTE_CARLO


def test_false_verdicts_stay_within_five_percent_when_curves_are_missing():
    for name in ("independent", "shared network .9", "one row 5.6x"):
        areas = null(22, SIMS, 10, 5, **NULLS[name])
        areas[:, 0, 1] = areas[:, 2, 3] = areas[:, 2, 4] = areas[:, 5, 0] = areas[:, 1, 2] = np.nan
        p = contrasts(areas, 0).p[:, 1:]
        assert (holm(p) <= 0.05).any(-1).mean() < 0.05 + MONTE_CARLO
        assert (p <= 0.05).mean(0).max() < 0.06 + MONTE_CARLO


def test_p_is_as_small_as_the_data_allow():
    result = compare(table_of({"random": 100 + np.arange(6) % 2, "a": np.arange(6) % 3, "b": np.arange(6) % 2}))
    assert (result.p < 1e-8).all() and (result.p > 0).all()


def test_more_replicates_find_more():
    effect = np.r_[np.zeros(6), np.full(5, 2.0)]
    result = [decided(simulated(23, 2000, 10, n, effect=effect))[:, 5:].mean() for n in (3, 5, 8)]
    assert result[0] + 0.1 < result[1]
    assert result[1] + 0.1 < result[2]
    assert result[2] > 0.5


def test_pooling_finds_what_single_paired_tests_miss():
    effect = np.r_[np.zeros(6), np.full(5, 3.0)]
    fit = contrasts(simulated(24, 2000, 10, 3, effect=effect), 0)
    pooled, alone = (holm(p[:, 1:])[:, 5:] <= 0.05 for p in (fit.p, fit.p_own))
    assert pooled.mean() > 0.22
    assert alone.mean() < 0.15


@pytest.mark.parametrize(
    "name", ["independent", "shared network .9", "baseline 3x", "one row 5.6x", "spreads 1 to 5.6"]
)
def test_all_interim_analyses_together_err_within_the_budget(name):
    areas = null(27, 4000, 10, INTERIM_ANALYSES[-1], **NULLS[name])
    wrong = np.zeros(4000, bool)
    for n in INTERIM_ANALYSES:
        wrong |= holm(contrasts(areas[..., :n], 0).p[:, 1:]).min(-1) <= interim_alpha(n)
    assert wrong.mean() < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 4000)


def test_a_whole_test_at_each_interim_analysis_would_err():
    areas = null(27, 4000, 1, INTERIM_ANALYSES[-1])
    wrong = np.zeros(4000, bool)
    for n in INTERIM_ANALYSES:
        wrong |= contrasts(areas[..., :n], 0).p[:, 1] <= 0.05
    assert wrong.mean() > 0.1


@pytest.mark.parametrize(("estimators", "n"), [(10, 3), (5, 5), (2, 8), (1, 4)])
def test_the_smallest_detectable_difference_is_found_four_times_in_five(estimators, n):
    effect = np.zeros(1 + estimators)
    effect[1] = minimum_detectable(0.02, n, estimators)
    decisions = decided(simulated(28, 8000, estimators, n, sd=0.02, effect=effect))
    assert decisions[:, 0].mean() == pytest.approx(0.8, abs=0.02)


# analyses and detectable differences


def test_the_shares_of_interim_analyses_add_up_to_alpha():
    for analyses in (INTERIM_ANALYSES, (4,), (2, 9)):
        assert sum(interim_alpha(n, 0.1, analyses) for n in analyses) == pytest.approx(0.1)
        assert all(interim_alpha(n, 0.1, analyses) > 0 for n in analyses)


def test_a_look_that_lost_a_replicate_spends_no_more_than_planned():
    assert interim_alpha(4) <= interim_alpha(5)


@pytest.mark.parametrize(
    ("n", "analyses"), [(21, INTERIM_ANALYSES), (0, INTERIM_ANALYSES), (5, ()), (5, (5, 5)), (5, (8, 5)), (5, (0, 5))]
)
def test_an_interim_analysis_that_was_not_planned_is_refused(n, analyses):
    with pytest.raises(BadInput, match="nterim analyses"):
        interim_alpha(n, analyses=analyses)


def test_a_comparison_at_a_look_spends_that_looks_share():
    table = drawn(np.random.default_rng(15), n=5)
    expected = compare(table, alpha=interim_alpha(5))
    pd.testing.assert_frame_equal(compare(table, interim=True), expected)
    assert expected.attrs["alpha"] == pytest.approx(0.01)
    assert compare(table, interim=(5, 9)).attrs["alpha"] == pytest.approx(0.025)
    assert compare(table, interim=False).attrs["alpha"] == 0.05


def test_the_detectable_column_is_what_the_rows_test_finds_four_times_in_five():
    result = compare(drawn(np.random.default_rng(16), estimators=5, n=4))
    for one in result.itertuples():
        shift = one.detectable / one.se
        assert stats.nct.sf(stats.t.isf(0.05 / 4 / 2, one.df), one.df, shift) == pytest.approx(0.8, abs=1e-3)


def test_a_detectable_difference_shrinks_with_replicates_and_grows_with_estimators():
    by_n = [minimum_detectable(1.0, n, 10) for n in (3, 5, 8)]
    assert by_n == sorted(by_n, reverse=True)
    assert minimum_detectable(1.0, 20, 10) > minimum_detectable(1.0, 20, 1)
    assert minimum_detectable(2.0, 5) == pytest.approx(2 * minimum_detectable(1.0, 5))
    assert math.isnan(minimum_detectable(1.0, 1))
    assert math.isnan(minimum_detectable(0.0, 5))


# what is refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop(columns="value"), "columns"),
        (lambda t: t.iloc[:0], "0 rows"),
        (lambda t: pd.concat([t, t.iloc[:1]]), "more than once"),
        (lambda t: t.assign(protocol=["roar", "kar"] * (len(t) // 2)), "one protocol"),
        (lambda t: t.assign(value=np.inf), "infinite"),
        (lambda t: t.assign(value="high"), "numbers"),
        (lambda t: t.assign(replicate=t.replicate + 0.5), "whole"),
        (lambda t: t.assign(estimator=None), "empty"),
        (lambda t: t.assign(value=np.nan), "No fraction"),
        (lambda t: t[(t.estimator == "random") == (t.fraction < 0.5)], "No fraction"),
        (lambda t: t[t.estimator != "random"], "no estimator 'random'"),
    ],
)
def test_a_table_that_could_mislead_is_refused_in_words(change, words):
    table = drawn(np.random.default_rng(17))
    compare(table)
    with pytest.raises(BadInput, match=words):
        compare(change(table))


@pytest.mark.parametrize("alpha", [0.0, 1.0, 5.0, -0.1, math.nan])
def test_an_error_rate_outside_zero_to_one_is_refused(alpha):
    with pytest.raises(BadInput, match="between 0 and 1"):
        compare(drawn(np.random.default_rng(18)), alpha=alpha)


def test_the_given_table_is_left_as_it_was():
    table = drawn(np.random.default_rng(19))
    before = table.copy()
    compare(table)
    intervals(table)
    pd.testing.assert_frame_equal(table, before)


def test_a_verdict_has_a_side_and_the_words_follow_it():
    rng = np.random.default_rng(0)
    shifts = {"random": 0.0, "good": -0.2, "bad": 0.2, "same": 0.0}
    rows = [(e, s, 0.5, 0.5 + d + rng.normal(0, 0.01)) for e, d in shifts.items() for s in range(5)]
    table = pd.DataFrame(rows, columns=["estimator", "replicate", "fraction", "value"])
    verdicts = compare(table).set_index("estimator")
    assert verdicts["side"].to_dict() == {"good": 1, "same": 0, "bad": -1}
    assert verdicts["verdict"].str.startswith("better").tolist() == (verdicts["side"] == 1).tolist()
    assert verdicts["verdict"].str.startswith("worse").tolist() == (verdicts["side"] == -1).tolist()
