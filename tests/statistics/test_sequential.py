"""Interim analyses: who is decided leaves, the error budget holds, and nothing is decided before its analysis."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, t

from uproar.statistics.multiple_testing import holm
from uproar.statistics.sequential import allow_for_stopping, sequential, undecided_estimators
from uproar.statistics.twoway import contrasts
from uproar.statistics.verdicts import compare


def table(effects, replicates, seed, sd=0.01, block=0.02):
    """Areas of estimators (as one fraction each): baseline plus effect plus replicate plus noise."""
    draws = np.random.default_rng(seed)
    blocks = draws.normal(0, block, replicates)
    rows = [
        (name, r, 0.5, 0.8 - effect + blocks[r] + draws.normal(0, sd))
        for name, effect in {"random": 0.0, **effects}.items()
        for r in range(replicates)
    ]
    return pd.DataFrame(rows, columns=["estimator", "replicate", "fraction", "value"])


def test_each_is_judged_at_the_first_analysis_that_decides_it_among_those_still_open():
    """Of 15 studies, every one in which `large` is decided second, after `huge` has left."""
    second = 0
    for seed in range(15):
        data = table({"huge": 0.5, "large": 0.05, "none": 0.0}, 8, seed)
        result = sequential(data).set_index("estimator")
        if result.loc["huge", "analysis"] != 3 or result.loc["large", "analysis"] != 5:
            continue
        second += 1
        at_three = compare(data[data["replicate"] < 3], interim=True).set_index("estimator")
        assert at_three["side"].to_dict() == {"huge": 1, "large": 0, "none": 0}
        left = data[(data["estimator"] != "huge") & (data["replicate"] < 5)]
        at_five = compare(left, interim=True).set_index("estimator")
        assert at_five.loc["large", "p_holm"] <= 0.01 and result.loc["large", "side"] == 1
        for column in ("p", "p_holm", "advantage", "low", "high"):
            assert result.loc["large", column] == at_five.loc["large", column]
    assert second >= 2


def test_replicates_beyond_the_analysis_that_decided_do_not_change_a_verdict():
    data = table({"huge": 0.5, "none": 0.0}, 5, 2)
    more = data.copy()
    more.loc[(more["estimator"] == "huge") & (more["replicate"] >= 3), "value"] = 5.0
    one, other = (sequential(d).set_index("estimator").loc["huge"] for d in (data, more))
    assert (one["analysis"], one["p"]) == (3, other["p"])


def test_an_analysis_waits_for_whole_replicates():
    data = table({"huge": 0.5}, 3, 3)
    short = data[~((data["estimator"] == "huge") & (data["replicate"] == 2))]
    assert undecided_estimators(sequential(short)) == ["huge"]
    assert sequential(short)["verdict"].tolist() == ["cannot tell before 3 whole replicates"]
    assert undecided_estimators(sequential(data)) == []


def test_an_analysis_spends_its_share_only():
    """A difference that one whole test would call, but not a fifth of its error rate."""
    for seed in range(200):
        data = table({"some": 0.05, "other": 0.0}, 3, seed)
        p = compare(data).set_index("estimator").loc["some", "p_holm"]
        if 0.015 < p < 0.045:
            break
    assert compare(data).set_index("estimator").loc["some", "verdict"] == "better than random"
    assert "some" in undecided_estimators(sequential(data))


def test_all_analyses_together_err_no_more_often_than_promised():
    """Null estimators beside one that is decided early and leaves: any false verdict counts once."""
    effects = {f"null{i}": 0.0 for i in range(4)} | {"good": 0.2}
    wrong, trials = 0, 40
    for seed in range(trials):
        verdicts = sequential(table(effects, 13, seed))
        decided = verdicts[~verdicts["estimator"].isin(undecided_estimators(verdicts))]
        wrong += decided["estimator"].str.startswith("null").any()
    assert wrong <= binom.ppf(0.995, trials, 0.05)


def test_an_advantage_that_ends_a_design_early_is_printed_with_an_allowance():
    """Of effects of 2 sd that the first of two analyses finds among ten, with three random rankings per replicate."""
    draws = np.random.default_rng(0)
    areas = draws.normal(0, [[1 / np.sqrt(3)], *[[1.0]] * 10], (4000, 11, 3)) + draws.normal(0, 2, (4000, 1, 3))
    areas[:, 1] -= 2
    fit = contrasts(areas, 0)
    found = holm(fit.p[:, 1:])[:, 0] <= 0.025
    critical = t.isf(0.0025 / 2, fit.df[found, 1])  # Holm's first step over ten rows
    adjusted = allow_for_stopping(fit.difference[found, 1], fit.se[found, 1], critical)
    plain, left = np.median(-fit.difference[found, 1]), np.median(-adjusted)
    assert found.sum() > 150 and plain > 2.4, "few are found, and these look larger than they are"
    assert abs(left - 2) < (plain - 2) / 2


def test_the_allowance_of_a_design_is_that_of_holms_step():
    less = 0
    for seed in range(20):
        result = sequential(table({"some": 0.06, "other": 0.04, "third": 0.0}, 3, seed), analyses=(3, 5, 8))
        ordered = result.sort_values("p").reset_index(drop=True)
        for step, row in ordered[ordered["side"] != 0].iterrows():
            critical = t.isf(0.05 / 3 / (3 - step) / 2, row["df"])
            expected = allow_for_stopping(row["advantage"], row["se"], critical)
            assert row["adjusted"] == pytest.approx(float(expected), abs=1e-9)
            less += row["adjusted"] < 0.99 * row["advantage"]
        assert (ordered.loc[ordered["side"] == 0, "adjusted"] == ordered.loc[ordered["side"] == 0, "advantage"]).all()
    assert less >= 3


def test_what_went_on_to_the_last_analysis_needs_no_allowance():
    result = sequential(table({"huge": 0.5, "none": 0.0}, 5, 2), analyses=(3, 5)).set_index("estimator")
    assert result.loc["none", "adjusted"] == result.loc["none", "advantage"]
    assert result.loc["huge", "adjusted"] <= result.loc["huge", "advantage"]


def test_the_allowance_is_the_truth_under_which_half_of_what_is_found_is_larger():
    draws = np.random.default_rng(0).normal(0, 1, 400_000)
    for observed, critical in ((3.5, 3.0), (4.0, 3.0), (5.0, 2.0)):
        truth = float(allow_for_stopping(observed, 1.0, critical))
        seen = truth + draws
        seen = seen[np.abs(seen) > critical]
        assert np.mean(seen > observed) == pytest.approx(0.5, abs=0.01), (observed, critical)
