"""Claims of papers that judge metrics: made-up results as published, the other way round, and without what is needed."""

from __future__ import annotations

import numpy as np
import pytest

from uproar.claims import judge
from uproar.claims.evidence import ClaimEvidence
from uproar.statistics.comparisons import method_differences
from uproar.statistics.intervals import UNLIMITED, Measurements

from .made import MODEL, TASK, accuracies, results, scored

HOLDS, FAILS, UNASKED = "holds", "does not hold here", "not asked"
LEVELS = {"oracle": 0.0, **{f"degraded(kind=noise, level={level})": level for level in (0.25, 0.5, 1.0)}}


def outcomes(given, paper):
    return {one.claim.partition(":")[2]: one.outcome for one in judge(given, (paper,))}


def around(level, n=60, noise=0.02, seed=0):
    return level + noise * np.random.default_rng(seed).normal(size=n)


def zheng(ffid, plain, roar):
    """Four replicates of values that fall with the level as fast as is said; a slope of 0 is noise."""
    values = {}

    def replicates(slope, seed):
        return np.stack([around(0.5 - slope, noise=0.3, seed=100 * seed + k) for k in range(4)])

    for i, (name, level) in enumerate(LEVELS.items()):
        values["ffid_plus", name] = replicates(ffid * level, i)
        values["ffid_minus", name] = replicates(-ffid * level, 10 + i)
        values["deletion", name] = replicates(-plain * level, 20 + i)
    curves = {"roar": {name: {0.1: 0.5 + roar * level} for name, level in {**LEVELS, "random": 1.0}.items()}}
    return results(accuracies(curves, noise=0.08, seeds=4), **scored(values))


def test_f_fidelity_as_published_and_the_other_way_round():
    """As published the means over images have the order, while single images, of much noise, have not."""
    published = outcomes(zheng(ffid=0.8, plain=0.0, roar=-0.2), "zheng2025")
    assert published == dict.fromkeys(("recovers", "fidelity", "roar"), HOLDS)
    other = outcomes(zheng(ffid=-0.8, plain=0.8, roar=0.2), "zheng2025")
    assert other == dict.fromkeys(("recovers", "fidelity", "roar"), FAILS)


def test_one_replicate_decides_nothing_about_f_fidelity():
    values = {("ffid_plus", name): around(0.5 - level) for name, level in LEVELS.items()}
    values |= {("ffid_minus", name): around(0.1 + level) for name, level in LEVELS.items()}
    assert outcomes(results(**scored(values)), "zheng2025")["recovers"] == "undecided"


def test_the_order_of_f_fidelity_needs_three_levels():
    values = {("ffid_plus", name): around(0.5) for name in ("oracle", "random")}
    assert set(outcomes(results(**scored(values)), "zheng2025").values()) == {UNASKED}


@pytest.mark.parametrize(("gain", "outcome"), [(0.2, HOLDS), (-0.2, FAILS)])
def test_idsds_of_signed_maps(gain, outcome):
    """The gradient by itself, which the paper does not judge, changes nothing."""
    names = ("grad_input", "ig")
    levels = {
        "random": 0.0,
        "grad": -0.5 * np.sign(gain),
        "abs(grad)": 0.5 * np.sign(gain),
        **dict.fromkeys(names, 0.3 * np.sign(gain)),
        **{f"abs({n})": 0.3 * np.sign(gain) - gain for n in names},
    }
    values = {("idsds", name): around(level, seed=i) for i, (name, level) in enumerate(levels.items())}
    assert outcomes(results(**scored(values)), "hesse2024") == {"signed": outcome, "above-random": outcome}


@pytest.mark.parametrize(
    ("levels", "model", "expected"),
    [
        (
            {"grad": 1.0, "grad_input": 1.0, "ig": 1.0, "grad_cam": 0.3},
            "disconnected(k=2, cell=1)",
            {"difull-gradient": HOLDS, "difull-cam": HOLDS, "grid-cam": UNASKED, "smooth": UNASKED},
        ),
        (
            {"grad": 0.9, "grad_input": 1.0, "ig": 1.0, "grad_cam": 0.99},
            "disconnected(k=2, cell=1)",
            {"difull-gradient": FAILS, "difull-cam": FAILS, "grid-cam": UNASKED, "smooth": UNASKED},
        ),
        (
            {"grad": 0.3, "ig": 0.3, "gaussian(ig)": 0.5, "grad_cam": 0.6},
            "cnn",
            {"difull-gradient": UNASKED, "difull-cam": UNASKED, "grid-cam": HOLDS, "smooth": HOLDS},
        ),
        (
            {"grad": 0.6, "ig": 0.5, "gaussian(ig)": 0.3, "grad_cam": 0.3},
            "cnn",
            {"difull-gradient": UNASKED, "difull-cam": UNASKED, "grid-cam": FAILS, "smooth": FAILS},
        ),
    ],
)
def test_mosaics(levels, model, expected):
    values = {("grid_pointing", n): around(v, 600, 0.002, i).clip(0, 1) for i, (n, v) in enumerate(levels.items())}
    assert outcomes(results(**scored(values, model=model)), "rao2022") == expected


@pytest.mark.parametrize(("agrees", "reacts", "outcome"), [(-1, 0.3, HOLDS), (1, -0.3, FAILS)])
def test_metrics_that_disagree_are_resilient_and_react(agrees, reacts, outcome):
    """Lower is better in both metrics: methods in the same order agree."""
    values = {}
    for i, name in enumerate(("grad", "ig", "grad_input", "lrp")):
        values["deletion", name] = around(0.3 + 0.1 * i, noise=0.05, seed=i)
        values["infidelity", name] = around(0.5 + 0.1 * agrees * i, noise=0.05, seed=10 + i)
    for i, metric in enumerate(("deletion", "infidelity")):
        values[metric, "random"] = around(0.7, seed=20 + i)
        values[metric, "oracle"] = around(0.7 - max(reacts, 0), seed=40 + i)
        values[metric, "degraded(kind=noise, level=0.1)"] = around(0.7 - reacts, seed=30 + i)
    states = outcomes(results(**scored(values)), "hedstrom2023")
    assert states == dict.fromkeys(("disagree", "resilient", "react"), outcome)


@pytest.mark.parametrize("beyond", [0.0, 0.5])
def test_the_difference_of_two_metrics_is_that_of_two_methods_between_the_same_bounds(beyond):
    """Not Student's, which forgets that the one that varies more may lie further away; values beyond bounds have it."""
    rng, luck = np.random.default_rng(0), {"insertion": [4.0, 2.0, 6.0], "insertion(fill=blur)": [2.5, 2.4, 2.6]}
    values = {
        (metric, "grad"): beyond + 1 / (1 + np.exp(-np.array(one)[:, None] - rng.normal(0, 0.1, (3, 50))))
        for metric, one in luck.items()
    }
    evidence = ClaimEvidence(results(**scored(values)), TASK, MODEL)
    measured = evidence.between(*luck, "grad", above=0.0).interval
    methods = {metric: Measurements(v) for (metric, _), v in values.items()}
    student, between = (method_differences(methods, [(*luck,)], limits)[*luck,] for limits in (UNLIMITED, (0.0, 1.0)))
    expected = student if beyond else between
    assert (measured.low, measured.high, measured.p) == pytest.approx((expected.low, expected.high, expected.p))
    assert beyond or between.low < student.low - 0.1, "the situation is one where it matters"
