"""Paired comparisons: against SciPy, statsmodels, a slow re-derivation by loops, and what has no verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from tests.reference import paired_slow

from uproar.errors import BadInput
from uproar.statistics.comparisons import (
    COLUMNS,
    FEWER,
    against_baselines,
    compare,
    comparisons_with,
    decide,
    holm,
    margins,
)
from uproar.statistics.intervals import Measurements


def crossed(seed, replicates, images, shift=0.0, noise=1.0):
    """(replicates, images) values with what replicates share, what images share, and noise."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, 0.3, (replicates, 1)) + rng.normal(0, 0.5, (1, images))
    return shift + shared + noise * rng.normal(0, 1, (replicates, images))


def test_one_number_per_replicate_is_the_paired_t_test():
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.5, 1, 7), rng.normal(0, 1, 7)
    row = compare({"a": a, "b": b}).iloc[0]
    test = stats.ttest_rel(a, b)
    low, high = test.confidence_interval()
    sign = 1 if row["better"] == "a" else -1
    assert row["p"] == pytest.approx(test.pvalue)
    assert sorted((sign * row["low"], sign * row["high"])) == pytest.approx([low, high])
    assert (row["df"], row["n"], row["replicates"]) == (6, 7, 7)


def test_images_of_one_network_are_the_paired_t_test_over_images():
    a, b = crossed(2, 1, 30), crossed(3, 1, 30, shift=0.4)
    row = compare({"a": a, "b": b}).iloc[0]
    assert row["p"] == pytest.approx(stats.ttest_rel(a[0], b[0]).pvalue)
    assert (row["n"], row["replicates"], row["df"]) == (30, 1, 29)


def test_replicates_of_images_are_those_of_a_slow_re_derivation():
    a, b = crossed(4, 5, 12), crossed(5, 5, 12, shift=0.5)
    mean, error, df = paired_slow.crossed(b.tolist(), a.tolist())
    low, high, p = paired_slow.t_test(mean, error, df)
    row = compare({"a": a, "b": Measurements(b).by_image}).iloc[0]
    assert row["better"] == "b"
    assert (row["difference"], row["se"], row["df"], row["p"]) == pytest.approx((mean, error, df, p))
    assert (row["low"], row["high"]) == pytest.approx((low, high))


def test_images_shared_by_replicates_are_not_counted_as_new_ones():
    """A difference that some images make in every replicate: tested over replicates alone it would be certain."""
    rng = np.random.default_rng(0)
    d = rng.normal(0, 1, (1, 20)) + rng.normal(0, 0.01, (5, 20))
    row = compare({"a": d, "b": np.zeros((5, 20))}).iloc[0]
    assert stats.ttest_1samp(d.mean(1), 0).pvalue < 1e-6
    assert row["p"] == pytest.approx(stats.ttest_1samp(d.mean(0), 0).pvalue, rel=0.05)


def test_a_statistic_of_the_data_set_has_its_variance_from_shared_resamples():
    rng = np.random.default_rng(6)
    a, b = (
        Measurements(rng.normal(size=(5, 40)), rng.normal(m, 0.1, 5), rng.normal(m, 0.2, (5, 50))) for m in (0.4, 0.5)
    )
    row = compare({"a": a, "b": b}).iloc[0]
    gap = b.statistic - a.statistic
    between = gap.var(ddof=1) / 5
    within = (b.resampled - a.resampled).mean(0).var(ddof=1)
    assert abs(row["difference"]) == pytest.approx(abs(gap.mean()))
    assert row["se"] == pytest.approx(math.sqrt(between + within))


def test_holm_agrees_with_a_hand_example_and_with_statsmodels():
    # in order: 0.005 * 5, 0.011 * 4, 0.02 * 3, 0.04 * 2, 0.9 * 1
    assert holm([0.02, 0.005, 0.011, 0.9, 0.04]) == pytest.approx([0.06, 0.025, 0.044, 0.9, 0.08])
    assert holm([0.02, np.nan, 0.03]) == pytest.approx([0.04, np.nan, 0.04], nan_ok=True)
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    p = np.random.default_rng(0).random(12) ** 3
    assert holm(p) == pytest.approx(multitest.multipletests(p, method="holm")[1])


def areas(**means):
    rng = np.random.default_rng(7)
    return {name: mean + rng.normal(0, 0.01, 6) for name, mean in means.items()}


def test_families_are_methods_against_a_baseline_and_methods_against_methods():
    values = areas(a=0.9, b=0.55, c=0.3, random=0.5, centre=0.52)
    table = compare(values, ["random", "centre"])
    assert list(table.columns) == list(COLUMNS)
    assert len(table) == 2 * 3 + 3, "baselines are not compared with each other"
    methods = table[table["against"] == ""]
    assert methods["p_holm"].tolist() == pytest.approx(holm(methods["p"]).tolist())
    over_random = margins(table).query("baseline == 'random'")
    assert over_random["p_holm"].tolist() == pytest.approx(holm(over_random["p"]).tolist(), rel=0.5)
    assert over_random["side"].tolist() == [1, 1, -1]
    for row in margins(table).itertuples():
        test = stats.ttest_rel(values[row.method], values[row.baseline])
        assert (row.margin, row.low, row.high, row.p) == pytest.approx(
            (np.mean(values[row.method] - values[row.baseline]), *test.confidence_interval(), test.pvalue)
        )


@pytest.mark.parametrize("higher", [True, False])
def test_better_than_every_baseline_takes_the_largest_p_and_one_where_behind(higher):
    sign = 1 if higher else -1
    values = {name: sign * v for name, v in areas(a=0.9, b=0.51, random=0.5, centre=0.53).items()}
    table = compare(values, ["random", "centre"], higher)
    result = against_baselines(margins(table)).set_index("method")
    p = {b: stats.ttest_rel(values["a"], values[b]).pvalue for b in ("random", "centre")}
    assert result.loc["a", "p"] == pytest.approx(max(p.values()))
    assert result.loc["a", "baseline"] == max(p, key=p.get)
    assert result.loc["a", "p_holm"] == pytest.approx(2 * max(p.values())) and result.loc["a", "side"] == 1
    assert (result.loc["b", "baseline"], result.loc["b", "p"], result.loc["b", "side"]) == ("centre", 1, 0)
    assert result.loc["b", "margin"] < 0 < result.loc["a", "margin"]


def test_a_method_beats_every_baseline_in_the_pairs_only_where_the_intersection_union_test_says_so():
    """Two methods, each close to another baseline: p .03 and .03 over two methods is .06, not .03 twice."""
    rng, wanted = np.random.default_rng(0), None
    for _ in range(2000):
        noise = rng.normal(0, 1, (4, 6))
        values = {"a": noise[0] + 4, "b": noise[1] + 4, "centre": noise[2] + 2, "random": noise[3] + 2}
        table = margins(compare(values, ["centre", "random"]))
        p = table.pivot(index="method", columns="baseline", values="p")
        alone = p.apply(lambda column: holm(column.to_numpy()))
        if (alone.loc["a"] <= 0.05).all() and against_baselines(table).set_index("method").loc["a", "side"] == 0:
            wanted = table
            break
    assert wanted is not None
    sides = wanted[wanted["method"] == "a"]["side"]
    assert sides.tolist() != [1, 1]


def test_two_to_four_replicates_have_intervals_and_no_verdict():
    for replicates in (2, 3, 4):
        table = compare({"a": crossed(1, replicates, 50), "b": crossed(2, replicates, 50, shift=9.0)})
        assert np.isfinite(table[["low", "high"]].to_numpy()).all()
        assert table[["p", "p_holm"]].isna().all(axis=None)
        assert (table["verdict"].item(), table["side"].item()) == (FEWER, 0)
    assert compare({"a": crossed(1, 5, 50), "b": crossed(2, 5, 50, shift=9.0)})["side"].item() == 1
    assert compare({"a": [0.1, 0.2, 0.3], "b": [5.0, 5.2, 5.1]})["verdict"].item() == FEWER


def test_one_evaluator_is_not_tested_by_its_images_and_one_given_network_is():
    values = {"a": crossed(1, 1, 50), "b": crossed(2, 1, 50, shift=9.0)}
    assert compare(values)["side"].item() == 1
    assert compare(values, single_network=False)["verdict"].item() == FEWER


def test_without_spread_there_is_no_test_and_small_p_are_not_floored():
    table = compare({"a": np.ones((1, 20)), "b": np.zeros((1, 20))})
    assert table["verdict"].item() == "no test: the values do not vary"
    assert np.isnan(table["p"].item()) and table["side"].item() == 0
    rng = np.random.default_rng(0)
    table = compare({"a": 100 + rng.normal(size=20), "b": rng.normal(size=20)})
    assert 0 < table["p"].item() < 1e-20


def test_values_that_only_one_has_are_left_out_and_an_unranked_method_is_not_tested():
    a, b = crossed(1, 1, 30), crossed(2, 1, 30)
    gaps = a.copy()
    gaps[0, :10] = np.nan
    row = compare({"a": gaps, "b": b}).iloc[0]
    assert (row["n"], row["p"]) == (20, pytest.approx(stats.ttest_rel(a[0, 10:], b[0, 10:]).pvalue))
    table = compare({"a": a, "b": b, "c": b + 5}, unranked={"c": "not ranked: undefined"})
    assert table.loc[~table["ranked"], "verdict"].unique().tolist() == ["not ranked: undefined"]
    assert table["p_holm"].notna().sum() == 1


def test_another_error_rate_decides_anew_and_one_method_is_corrected_over_its_pairs_alone():
    values = areas(a=0.5, b=0.512, c=0.3)
    table = compare(values)
    strict = decide(table, 1e-9)
    assert strict["side"].sum() == 0 and strict["verdict"].str.startswith("not significantly different (6").all()
    own = comparisons_with(table, "a")
    assert own["p_holm"].tolist() == pytest.approx(holm(own["p"]).tolist())
    with pytest.raises(BadInput, match="no 'd'"):
        comparisons_with(table, "d")
