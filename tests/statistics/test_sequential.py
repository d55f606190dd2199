"""Interim analyses: who is decided leaves, the error budget holds, and nothing is decided before its analysis."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from uproar.statistics.sequential import allow_for_stopping, sequential, undecided_estimators
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
    effects = {"huge": 0.5, "large": 0.05, "none": 0.0}
    data = table(effects, 8, 1)
    result = sequential(data).set_index("estimator")
    assert result.loc["huge", ["analysis", "verdict"]].tolist() == [3, "better than random"]
    assert result.loc["none", "verdict"] == "cannot tell with 8 replicates"
    left = data[data["estimator"] != "huge"]
    at_five = compare(left[left["replicate"] < 5], interim=True).set_index("estimator")
    decided_at = result.loc["large", "analysis"]
    assert decided_at in (3, 5, 8)
    if decided_at == 5:
        assert result.loc["large", "p"] == at_five.loc["large", "p"]


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
    """Of effects that the first analysis finds, the plain advantage is far above the truth, the adjusted one is not."""
    plain, adjusted = [], []
    for seed in range(240):
        verdicts = sequential(table({"some": 0.02, "other": 0.0, "third": 0.0}, 3, seed), analyses=(3, 5, 8))
        early = verdicts[(verdicts["estimator"] == "some") & (verdicts["side"] == 1) & (verdicts["analysis"] == 3)]
        plain += early["advantage"].tolist()
        adjusted += early["adjusted"].tolist()
    assert len(plain) >= 5
    assert np.median(plain) > 0.024 and np.median(plain) - 0.02 > 2 * abs(np.median(adjusted) - 0.02)


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
