"""Every claim where it must hold, must not, and cannot be decided; and how outcomes are drawn and shown."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.papers.made import MODEL, TASK, accuracies, finding, results, scored
from uproar.errors import NotApplicable, UproarError
from uproar.papers.claims import claims_named, every, judge, most, papers_with_claims
from uproar.papers.evidence import ClaimEvidence, without_options
from uproar.papers.measures import MEASURES, methods
from uproar.papers.song2023.measures import variation_lines
from uproar.results.claim_outcome import Measure, claims_table
from uproar.statistics.correlation import correlation_interval, line_interval, spread_interval
from uproar.statistics.intervals import Interval

HOLDS, FAILS, OPEN, UNASKED = "holds", "does not hold here", "undecided", "not tested"


def outcomes(results, paper: str) -> dict[str, str]:
    return {one.claim.partition(":")[2]: one.outcome for one in judge(results, [paper])}


# how outcomes are drawn


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(0.1, 0.2, HOLDS), (-0.2, -0.1, FAILS), (-0.1, 0.1, OPEN), (math.nan, math.nan, OPEN), (0.0, 0.1, OPEN)],
)
def test_a_claim_is_decided_only_where_the_whole_interval_is_on_one_side(low, high, outcome):
    assert Measure("x", Interval((low + high) / 2, low, high, 5), above=0.0).outcome == outcome


def test_a_range_is_left_on_either_side():
    inside = {"above": -0.1, "below": 0.1}
    assert Measure("x", Interval(0.0, -0.05, 0.05, 5), **inside).outcome == HOLDS
    assert Measure("x", Interval(0.3, 0.2, 0.4, 5), **inside).outcome == FAILS
    assert Measure("x", Interval(-0.3, -0.4, -0.2, 5), **inside).outcome == FAILS
    assert Measure("x", Interval(0.1, 0.0, 0.2, 5), **inside).outcome == OPEN


def _part(outcome: str) -> Measure:
    low, high = {HOLDS: (5, 6), FAILS: (-6, -5), OPEN: (-1, 1)}[outcome]
    return Measure(outcome, Interval((low + high) / 2, low, high, 3), above=0.0)


@pytest.mark.parametrize(
    ("parts", "all_of_them", "most_of_them"),
    [
        ([HOLDS, HOLDS, HOLDS], HOLDS, HOLDS),
        ([HOLDS, HOLDS, OPEN], OPEN, HOLDS),
        ([HOLDS, HOLDS, FAILS], FAILS, HOLDS),
        ([HOLDS, OPEN, FAILS], FAILS, OPEN),
        ([HOLDS, HOLDS, FAILS, FAILS], FAILS, FAILS),
        ([OPEN, OPEN], OPEN, OPEN),
    ],
)
def test_parts_of_a_claim_together(parts, all_of_them, most_of_them):
    measures = [_part(outcome) for outcome in parts]
    assert every(*measures).outcome == all_of_them
    assert every(*measures).deciding.what == all_of_them
    assert most(*measures).outcome == most_of_them
    for decision in (every(*measures), most(*measures)):
        assert decision.deciding in decision.measures
        assert decision.deciding.outcome == decision.outcome  # what is printed says what was decided


def test_a_claim_without_parts_is_not_asked():
    with pytest.raises(NotApplicable):
        every()


# statistics


def test_rank_correlation_leaves_out_undefined_images():
    pair = np.array([[1.0, 10], [2, 20], [3, np.nan], [4, 15], [5, 50]])
    interval = correlation_interval(pair[None, None])
    assert interval.value == pytest.approx(0.8)  # ranks 1 2 3 4 and 1 3 2 4


def test_spread_compares_how_much_tables_differ():
    x = np.arange(200.0)
    same = np.array([[np.stack([x, x], 1)] * 3])
    mixed = np.array([[np.stack([x, x], 1), np.stack([x, -x], 1), np.stack([x, x % 7], 1)]])
    interval = spread_interval(mixed, same)
    assert interval.low > 0.5
    assert spread_interval(same, mixed).high < -0.5


def test_a_falling_line_counts_as_negative():
    x = np.arange(10.0)
    y = np.array([0.1, -0.1] * 5)
    noise = np.random.default_rng(2).normal(size=(4, 10))
    assert line_interval(x, x + y + 0.1 * noise).low > 0.9
    assert line_interval(x, y - x + 0.1 * noise).high < -0.9
    assert math.isnan(line_interval(x, (x + y)[None]).low)  # one replicate


def test_names_are_found_whatever_their_options():
    cells = accuracies({"roar": {"random": {0.9: 0.5}, "sg_sq(ig(steps=8), samples=4)": {0.9: 0.2}}}, 0.01)
    evidence = ClaimEvidence(results(cells), TASK, MODEL)
    assert evidence.estimator("sg_sq(ig)") == "sg_sq(ig(steps=8), samples=4)"
    assert without_options("max(var(grad, samples=3))") == "max(var(grad))"
    with pytest.raises(NotApplicable, match="no sg_sq"):
        evidence.estimator("sg_sq(grad)")


# Hooker et al.


KEPT = {"guided_backprop": 0, "sg_sq(guided_backprop)": 0, "grad": 4, "ig": 4, "sg_sq(ig)": 6, "sg_sq(grad)": 12}
"""By how many steps estimators lie above the lowest under KAR with 10 % kept."""


def hooker(levels, noise=0.003, kar=0.02, untrained=0.3, turned=False):
    """`turned`: guided backprop is the worst where little is removed, and under KAR the best everywhere."""
    gb = 0.89 if turned else 0.86
    roar = {n: {0.1: gb if n == "guided_backprop" else 0.88, 0.9: level} for n, level in levels.items()}
    roar = {name: {**c, 0.99: 0.55} for name, c in roar.items()}
    step = {name: KEPT.get(name, 1) for name in levels}
    if turned:
        step["guided_backprop"], step["sg_sq(grad)"] = 12, 0
    late = {
        name: (1 if turned else -1) * 0.005 * step[name] - 0.2 * (KEPT.get(name) == 0 and not turned) for name in levels
    }
    kept = {name: {0.1: 0.7 + kar * step[name], 0.9: 0.88 + late[name]} for name in levels}
    alone = {name: {0.1: 0.7, 0.9: untrained} for name in levels}
    curves = {"roar": roar, "decoupled": roar, "kar": kept, "roar:no-retrain": alone}
    return results(accuracies(curves, noise))


PUBLISHED = {
    "random": 0.80,
    "sobel": 0.79,
    "grad": 0.83,
    "ig": 0.81,
    "guided_backprop": 0.84,
    "sg(grad)": 0.85,
    "sq(grad)": 0.78,
    "sg_sq(grad)": 0.25,
    "var(grad)": 0.30,
    "sg(guided_backprop)": 0.82,
    "sg(ig)": 0.85,
    "sq(ig)": 0.78,
    "sq(guided_backprop)": 0.78,
    "sg_sq(ig)": 0.3,
    "sg_sq(guided_backprop)": 0.3,
    "var(ig)": 0.3,
    "var(guided_backprop)": 0.3,
}
REVERSED = {
    "random": 0.40,
    "sobel": 0.20,
    "grad": 0.30,
    "ig": 0.34,
    "guided_backprop": 0.25,
    "sg(grad)": 0.10,
    "sq(grad)": 0.50,
    "sg_sq(grad)": 0.60,
    "var(grad)": 0.60,
    "sg(guided_backprop)": 0.35,
    "sg(ig)": 0.1,
    "sq(ig)": 0.5,
    "sq(guided_backprop)": 0.5,
    "sg_sq(ig)": 0.6,
    "sg_sq(guided_backprop)": 0.6,
    "var(ig)": 0.6,
    "var(guided_backprop)": 0.6,
}


def test_hooker_as_published():
    states = outcomes(hooker(PUBLISHED), "hooker2019")
    assert len(states) == 29
    assert set(states.values()) == {HOLDS}, states


def test_hooker_the_other_way_round():
    given = hooker(REVERSED, kar=0.06, untrained=0.9, turned=True)
    cells = given.cells.copy()
    bare = (cells["estimator"] == "random") & (cells["fraction"] == 0.99)
    cells.loc[bare, "accuracy"] = 0.09 - 0.001 * cells.loc[bare, "seed"]
    states = outcomes(results(cells), "hooker2019")
    assert states.pop("random-90") == HOLDS  # far from chance still
    assert set(states.values()) == {FAILS}, states


def test_hooker_with_noise_is_undecided():
    states = outcomes(hooker(PUBLISHED, noise=0.6), "hooker2019")
    assert set(states.values()) == {OPEN}, states


def test_the_controlled_claims_look_at_decoupled_roar_alone():
    """A leak that hides the ranking under ROAR does not change what decoupled ROAR says."""
    given = hooker(PUBLISHED)
    cells = given.cells.copy()
    leaky = (cells["metric"] == "roar") & cells["estimator"].str.contains(r"sg_sq|var") & (cells["fraction"] > 0)
    cells.loc[leaky, "accuracy"] += 0.55
    states = outcomes(results(cells), "hooker2019")
    assert states["sg-sq"] == states["var"] == FAILS
    assert states["sg-sq-controlled"] == states["var-controlled"] == HOLDS


def test_the_numbers_are_those_of_the_curves():
    given = hooker(PUBLISHED, noise=0.0)
    one = next(c for c in judge(given, ["hooker2019:random-90"]))
    assert one.deciding.interval.value == pytest.approx((0.80 - 0.1) / (0.9 - 0.1))
    assert one.deciding.interval.n == 4
    kar = next(c for c in judge(given, ["hooker2019:kar"]))
    assert kar.deciding.interval.value == pytest.approx((0.84 - 0.25) - 0.02 * 12)
    (single,) = judge(given, ["hooker2019:single"])
    grad = next(m for m in single.measures if "grad against" in m.what)
    assert grad.interval.value == pytest.approx(-0.03)
    assert (grad.paper, grad.as_published) == (-0.0405, "")  # without noise there is no interval


def test_the_training_that_all_estimators_share_says_nothing_of_how_far_they_differ():
    """A run of which only the plain trainings are finished: their range is 0 everywhere, which decides nothing."""
    given = hooker(PUBLISHED)
    plain = given.cells[(given.cells["fraction"] == given.cells["metric"].map({"roar": 0.0, "kar": 1.0}))]
    assert len(plain)
    kar = judge(replace(given, cells=plain), ["hooker2019:kar"])[0]
    assert kar.outcome == UNASKED and kar.reason.startswith("no fraction of roar is finished")


def test_kar_and_roar_are_each_taken_where_they_separate_most():
    """A separation at 99 % counts, although the paper had no such fraction."""
    given = hooker({n: 0.83 if n.startswith("sg_sq") else v for n, v in PUBLISHED.items()}, noise=0.001, kar=0.02)
    cells = given.cells.copy()
    late = (cells["metric"] == "roar") & (cells["fraction"] == 0.99) & (cells["estimator"] == "ig")
    assert outcomes(results(cells), "hooker2019")["kar"] == FAILS
    cells.loc[late, "accuracy"] = 0.55 - 0.3 - 0.001 * cells.loc[late, "seed"]
    (one,) = judge(results(cells), ["hooker2019:kar"])
    assert "roar at 0.99 minus kar at 0.1" in one.deciding.what
    assert one.outcome == HOLDS


def test_the_part_that_decides_is_the_one_least_in_its_range():
    parts = [Measure(str(low), Interval(low + 0.1, low, low + 0.2, 5), above=0.0) for low in (0.3, 0.1, 0.2)]
    assert every(*parts).deciding.what == "0.1"
    fails = [Measure(str(low), Interval(low + 0.1, low, low + 0.2, 5), above=0.0) for low in (-0.4, -0.6)]
    assert every(*parts, *fails).deciding.what == "-0.6"
    nothing = Measure("no interval", Interval(0.5, math.nan, math.nan, 1), above=0.0)
    assert every(*parts, nothing).deciding == nothing


# Song et al.

PLAIN = ("grad", "ig", "grad_input", "sg(grad)", "deep_lift", "guided_backprop")
SQUARED = ("sq(grad)", "sq(ig)", "sq(grad_input)", "sq(sg(grad))", "var(grad)", "sg_sq(grad)")
NAMES = (*SQUARED, *PLAIN)


def song(gain=0.1, cam=0.0, block=0.3, slope=0.5, noise=0.004, smooth=0.1, road=0.1, n=200):
    """Filters gain under ROAR and ROAD and smooth maps; accuracy lies on a line over variation."""
    draws = np.random.default_rng(5)
    variation = {name: 0.2 + 0.05 * (i % 6) for i, name in enumerate(NAMES)}
    variation |= {"random": 0.6, "sobel": 0.45, "block_random": 0.05, "grad_cam": 0.1, "sq(grad_cam)": 0.12}
    variation["sq(sobel)"] = 0.4
    line = {name: {t: 0.55 - t / 2 + slope * v for t in (0.1, 0.3, 0.5)} for name, v in variation.items()}
    line["block_random"] = {t: line["random"][t] - block for t in (0.1, 0.3, 0.5)}
    values = {}
    for name in list(line):
        if name in ("random", "sobel", "block_random"):
            continue
        less = cam if "cam" in name else gain
        for how in ("gaussian", "max"):
            line[f"{how}({name})"] = {t: a - less for t, a in line[name].items()}
            variation[f"{how}({name})"] = variation[name] - smooth
    for name, v in variation.items():
        values["total_variation", name] = v + 0.01 * draws.normal(size=n)
        for t in (0.1, 0.3, 0.5):
            removed = 2 * t * v + 0.01 * draws.normal(size=n)
            values[f"removed_variation(fraction={t})", name] = removed
        shift = (cam if "cam" in name else road) if name.startswith(("gaussian", "max")) else 0.0
        values["road", name] = 0.6 - shift + 10 * noise * draws.normal(size=n)
    return results(accuracies({"roar": line}, noise), **scored(values))


def test_song_as_published():
    states = outcomes(song(), "song2023")
    assert len(states) == 16
    assert set(states.values()) == {HOLDS}, states


def test_lines_over_variation_are_those_of_estimators_unless_baselines_are_asked_for():
    """Random ranks leave less accuracy than their roughness would: one claim of three sees it, blocks are in none."""
    given = song(noise=0.0)
    cells = given.cells.copy()
    cells.loc[(cells["estimator"] == "random") & (cells["fraction"] > 0), "accuracy"] = 0.2
    evidence = ClaimEvidence(replace(given, cells=cells), TASK, MODEL)
    for of in ("maps", "masks"):
        line = variation_lines(evidence, True, of)[0.3]
        assert set(line.excluded) == {"random", "sq(sobel)", "block_random"}
        assert len(line.x) - len(line.excluded) == 7  # six and Grad-CAM
        assert line.r2.interval.value > 0.99
    masks = variation_lines(evidence, False, "masks")
    assert masks[0.5].x["grad"] == pytest.approx(0.2, abs=0.01)
    assert masks[0.3].x["grad"] == pytest.approx(0.12, abs=0.01)
    with_random = variation_lines(evidence, True, "maps", baselines=True)[0.3]
    assert with_random.excluded == ("block_random",)
    x, y = (np.array([of[n] for n in of if n != "block_random"]) for of in (with_random.x, with_random.y))
    assert with_random.r2.interval.value == pytest.approx(np.corrcoef(x, y)[0, 1] * abs(np.corrcoef(x, y)[0, 1]))
    assert with_random.r2.interval.value < 0.5


def test_lines_keep_to_the_rates_of_the_figures():
    given = song()
    more = given.cells[given.cells["fraction"] == 0.3].assign(fraction=0.9, accuracy=0.3)
    evidence = ClaimEvidence(replace(given, cells=pd.concat([given.cells, more])), TASK, MODEL)
    assert sorted(variation_lines(evidence, True)) == [0.1, 0.3, 0.5]


def test_random_blocks_must_cost_more_at_every_fraction():
    given = song(noise=0.001)
    cells = given.cells.copy()
    early = (cells["estimator"] == "block_random") & (cells["fraction"] == 0.3)
    cells.loc[early, "accuracy"] += 0.5
    for found in (replace(given, cells=cells), song(block=-0.03, noise=0.001)):
        assert outcomes(found, "song2023:blocks") == {"blocks": FAILS}


def test_song_the_other_way_round():
    given = song(gain=-0.1, cam=0.2, block=-0.2, slope=-0.5, smooth=-0.1, road=-0.1)
    states = outcomes(given, "song2023")
    theorems = {name: states.pop(name) for name in ("theorem-1", "theorem-2")}
    assert set(states.values()) == {FAILS}, states
    assert set(theorems.values()) == {HOLDS}


def test_song_with_noise_is_undecided():
    states = outcomes(song(noise=0.5), "song2023")
    for name in ("theorem-1", "theorem-2", "gaussian-smooth", "max-smooth"):
        assert states.pop(name) == HOLDS
    lines = {states.pop(name) for name in list(states) if name.startswith("line")}
    assert HOLDS not in lines  # noise alone is surely no line, or may be one
    assert set(states.values()) == {OPEN}, states


# Li et al.


def _values_audit(seen, unseen, half):
    rows = [("completeness", seen), ("soundness", seen), ("deletion", unseen), ("road", unseen)]
    distances = pd.DataFrame(
        [
            {
                "metric": m,
                "changes": changes,
                "distance": d,
                "low": d - half,
                "high": d + half,
                "n": 300,
                "replicates": 1,
                "df": 299.0,
            }
            for m, own in rows
            for changes, d in (("cut to [0, 1]", own), ("all", 5.0))
        ]
    )
    return finding("values", **{"smallest Hausdorff distance by metric": distances})


def _spurious(retrained, original, clean, half):
    what = (
        "retrained: with cue minus without",
        "gain by retraining (first minus second)",
        "clean test images: trained clean minus trained with the cue",
    )
    rows = [
        {"what": w, "mean": m, "low": m - half, "high": m + half, "n": 3, "df": 2.0}
        for w, m in zip(what, (retrained, original, clean), strict=True)
    ]
    return finding("spurious", **{"differences of accuracy": pd.DataFrame(rows)})


MAPS = (
    *("ig", "sg(ig)", "sg_sq(ig)", "var(ig)", "grad_cam", "iba", "extremal_perturbation", "rect(ig)"),
    *("deep_shap", "input_iba"),
)


def _benchmark(sound, complete, road, rect, noise, n=300):
    """Gains over IG by map; ROAD is better where lower."""
    draws = np.random.default_rng(5)
    image_noise = noise * draws.normal(size=n)
    values = {}
    for name in MAPS:
        own = noise * draws.normal(size=n)
        own -= own.mean()  # so that the means are exact, whatever the noise
        values["soundness", name] = 0.5 + sound.get(name, 0.0) + image_noise + own
        values["completeness", name] = 0.3 + complete.get(name, 0.0) + image_noise + own
        for metric in ("road", "road(fill=mean)"):
            values[metric, name] = 0.5 - (rect if name == "rect(ig)" else road.get(name, 0.0)) + image_noise + own
        values["road_lerf", name] = 0.5 + road.get(name, 0.0) + image_noise + own
    return scored(values)


LI = {
    "sound": {
        "sg(ig)": 0.1,
        "sg_sq(ig)": 0.1,
        "var(ig)": 0.1,
        "grad_cam": 0.2,
        "iba": 0.2,
        "extremal_perturbation": -0.1,
    },
    "complete": {"sg(ig)": 0.1, "sg_sq(ig)": -0.05, "var(ig)": -0.05, "extremal_perturbation": 0.3},
    "road": {"sg(ig)": -0.05, "sg_sq(ig)": -0.05, "var(ig)": -0.05, "grad_cam": 0.1},
    "rect": -0.2,
}
MARKED = ("rect", "pooling", "rect-road-marked", "cam-marked")


KNOWN = {f"synthetic-{what}": HOLDS for what in ("completeness", "soundness", "removed")}
KNOWN |= {"synthetic-introduced": FAILS}
"""What holds of synthetic data, whatever a study finds."""


def test_li_as_published():
    audits = (_values_audit(0.4, 0.01, 0.02), _spurious(0.28, 0.05, 0.5, 0.03))
    states = outcomes(results(findings=audits, **_benchmark(**LI, noise=0.02)), "li2024")
    assert {name: states.pop(name) for name in KNOWN} == KNOWN
    assert {states.pop(name) for name in MARKED} == {UNASKED}
    assert len(states) == 18
    assert set(states.values()) == {HOLDS}, states


def test_li_the_other_way_round():
    less = {name: -0.1 for name in ("sg(ig)", "sg_sq(ig)", "var(ig)")}
    audits = (_values_audit(-0.2, 0.3, 0.02), _spurious(-0.1, -0.3, -0.1, 0.03))
    given = _benchmark(
        sound={**less, "grad_cam": -0.2, "iba": -0.2, "extremal_perturbation": 0.1, "input_iba": 0.3},
        complete={"sg(ig)": -0.1, "sg_sq(ig)": 0.2, "var(ig)": 0.2, "extremal_perturbation": -0.2, "input_iba": 0.3},
        road={**{name: 0.2 for name in less}, "grad_cam": -0.1},
        rect=0.2,
        noise=0.02,
    )
    states = outcomes(results(findings=audits, **given), "li2024")
    assert {name: states.pop(name) for name in KNOWN} == KNOWN
    assert {states.pop(name) for name in MARKED} == {UNASKED}
    assert set(states.values()) == {FAILS}, states


def test_li_with_noise_is_undecided():
    audits = (_values_audit(0.4, 0.01, 2.5), _spurious(0.28, 0.05, 0.5, 0.9))
    states = outcomes(results(findings=audits, **_benchmark(**LI, noise=8.0)), "li2024")
    assert {name: states.pop(name) for name in KNOWN} == KNOWN
    assert {states.pop(name) for name in MARKED} == {UNASKED}
    assert set(states.values()) == {OPEN}, states


@pytest.mark.parametrize(
    ("kind", "winner", "claim"), [("number", "rect(ig)", "rect"), ("stripes", "pooling(ig)", "pooling")]
)
def test_marked_images_have_claims_of_their_own(kind, winner, claim):
    task = f"semi-natural(digits, kind={kind})"
    draws = np.random.default_rng(7)

    def given(best, road=0.2):
        attr = {
            ("attr_percent", e): 0.4 + 0.3 * (e == best) + 0.05 * draws.normal(size=100)
            for e in ("rect(ig)", "pooling(ig)")
        }
        roads = {
            ("road", e): 0.5 - road * (e == "rect(ig)") + 0.05 * draws.normal(size=100)
            for e in ("rect(ig)", "ig", "grad_cam", "deep_shap")
        }
        return results(**scored({**attr, **roads}, task))

    states = outcomes(given(winner), "li2024")
    assert states[claim] == HOLDS
    assert states["rect-road-marked"] == (HOLDS if kind == "number" else UNASKED)
    assert states["rect-road-real"] == UNASKED
    assert outcomes(given("neither"), "li2024")[claim] == OPEN
    loser = "pooling(ig)" if winner == "rect(ig)" else "rect(ig)"
    assert outcomes(given(loser), "li2024")[claim] == FAILS


# Vandersmissen and Oramas

PIXEL, REGION = "", ", unit=region"


def vandersmissen(sign=1, noise=0.05, n=300, together=1.0):
    """One hidden quality per image drives the metrics; `sign` turns every claim round."""
    draws = np.random.default_rng(9)
    coarse, sparse = ("grad_cam", "rise", "ada_sise", "tame"), ("ig", "sg(grad)", "occlusion")
    names = [*coarse, *sparse, "lrp", "gaussian(ig)", "gaussian(sg(grad))"]
    values = {}
    for i, name in enumerate(names):
        q = draws.normal(size=n) * 0.1
        image_noise = lambda: noise * draws.normal(size=n)  # noqa: E731
        level = 0.2 * sign * (name in coarse or name.startswith("gaussian"))
        for unit in (PIXEL, REGION):
            region = 0.05 * sign * bool(unit) * (name in sparse)
            for fill in ("mean", "blur", "uniform"):
                better = (
                    q
                    * (together if (unit, fill) == (PIXEL, "mean") else 1)
                    * (1 if unit == PIXEL and fill == "mean" else sign)
                )
                values[f"insertion(steps=9, fill={fill}{unit})", name] = 0.4 + level + region + better + image_noise()
                values[f"deletion(steps=9, fill={fill}{unit})", name] = (
                    0.4 + level + region + (1 if unit == PIXEL and fill == "mean" else sign) * sign * q + image_noise()
                )
        values["road", name] = 0.5 + q + image_noise()
        plain = values.get(("pointing_game", name[len("gaussian(") : -1]))
        hits = draws.normal(size=n) if sign > 0 else q + 0.3 * image_noise() + 0.05 * (level > 0)
        same = plain is not None and sign > 0  # a blurred map points where the map does
        values["pointing_game", name] = (hits > 0).astype(float)
        if same:
            values["pointing_game", name] = np.r_[1 - plain[:1], plain[1:]]  # but for one image
        turn = (1 if i % 2 else -1) if sign > 0 else 1
        values["average_drop", name] = 0.5 - level + turn * q + image_noise()
        other = 1 if sign > 0 else (1 if i % 2 else -1)
        for level in (0.5, 0.75):
            values[f"average_drop(binarise={level})", name] = 0.5 + other * q + image_noise()
    named = {(str(_canonical(m)), e): v for (m, e), v in values.items()}
    return results(**scored(named))


def _canonical(metric):
    from uproar.metrics.registry import read_metric

    return read_metric(metric.replace("fill=mean, ", "").replace(", fill=mean", ""))


def test_vandersmissen_as_published():
    states = outcomes(vandersmissen(), "vandersmissen2023")
    assert len(states) == 26
    new = (
        "coarse-confidence",
        "blur-confidence",
        "coarse-road",
        "blur-road",
        "blur-fill",
        "gradient-regions",
        "drop-families",
        "pointing-lrp",
    )
    assert {states.pop(name) for name in new[:2]} == {UNASKED}  # without increase in confidence
    assert not {states.pop(name) for name in new[2:]} & {UNASKED}
    assert states.pop("binary-same") == OPEN  # the metrics of half of the maps go the other way
    assert set(states.values()) == {HOLDS}, states


def test_vandersmissen_the_other_way_round():
    states = outcomes(vandersmissen(sign=-1), "vandersmissen2023")
    right = {n for n, o in states.items() if o == FAILS}
    assert {
        "insertion-deletion",
        "deletion-road",
        "pointing",
        "blur-insertion",
        "blur-drop",
        "blur-deletion",
        "coarse-insertion",
        "coarse-drop",
        "coarse-deletion",
        "region-insertion",
        "region-deletion",
        "binary-coherent",
        "insertion-settings",
        "deletion-settings",
    } <= right, states


def test_vandersmissen_with_noise_is_undecided():
    states = outcomes(vandersmissen(noise=40.0, n=60), "vandersmissen2023")
    lost = (
        "insertion-deletion",
        "insertion-road",
        "deletion-road",
        "road-blur-deletion",
        "insertion-settings",
        "deletion-settings",
        "binary-same",
    )
    assert {states.pop(name) for name in lost} <= {FAILS, OPEN}  # no correlation is left to be strong
    states.pop("pointing"), states.pop("blur-pointing")
    assert {name for name, outcome in states.items() if outcome == UNASKED} == {"coarse-confidence", "blur-confidence"}
    assert set(states.values()) == {OPEN, UNASKED}, states


def test_correlations_are_of_each_network_by_itself():
    """Two networks that disagree cancel; the mean of their values would not. Blurred maps are no methods."""
    x = np.random.default_rng(11).normal(size=60)
    values = {(metric, name): x for metric in ("insertion", "road") for name in ("ig", "grad", "gaussian(ig)")}
    parts = scored(values)
    one = parts["image_scores"]
    other = one.assign(seed=1)
    other.loc[other["metric"] == "road", "value"] *= -0.1
    parts["image_scores"] = pd.concat([one, other])
    evidence = ClaimEvidence(results(**parts), TASK, MODEL)
    assert methods(evidence, "insertion", "road") == ["ig", "grad"]
    (measure,) = MEASURES["correlation"](evidence, {}, metrics=[("insertion", "road")])
    assert measure.interval.value == pytest.approx(0.0, abs=1e-9)  # road is better where lower: -1 and 1


@pytest.mark.parametrize(("noise", "outcome"), [(1e-3, HOLDS), (0.0, OPEN)])
def test_two_ways_of_measuring_the_same_agree(noise, outcome):
    """Where not one image is out of order nothing varies, and there is no interval."""
    given = vandersmissen()
    scores, draws = given.image_scores.copy(), np.random.default_rng(0)
    drop = scores["metric"] == "average_drop"
    for level in (0.5, 0.75):
        binary = scores["metric"] == f"average_drop(binarise={level})"
        same = scores.loc[drop, "value"].to_numpy() ** 3
        scores.loc[binary, "value"] = same + noise * draws.normal(size=len(same))
    more = {"scores": given.scores, "image_scores": scores, "metric_scores": given.metric_scores}
    (one,) = judge(results(**more), ["vandersmissen2023:binary-same"])
    assert (one.outcome, one.deciding.interval.value) == (outcome, pytest.approx(1.0, abs=1e-3))


# names, tables


def test_there_are_many_claims_and_each_says_where_it_stands():
    known = claims_named(tuple(papers_with_claims()))
    assert len(known) >= 24
    assert {c.name.partition(":")[0] for c in known} == set(papers_with_claims())
    for one in known:
        assert one.says.endswith("."), one.name
        assert one.place and one.published, one.name


def test_an_unknown_paper_is_refused_with_what_is_near():
    with pytest.raises(UproarError, match="hooker2019"):
        claims_named(["hooker2018"])


def test_a_study_that_lacks_everything_is_not_asked_and_says_why():
    cells = accuracies({"roar": {"random": {0.5: 0.5}, "sobel": {0.5: 0.5}}}, 0.01)
    judged = judge(results(cells), tuple(papers_with_claims()))
    known = {"song2023:theorem-1", "song2023:theorem-2", *(f"li2024:{what}" for what in KNOWN)}
    assert {one.claim for one in judged if one.outcome != UNASKED} == known
    assert all(one.reason for one in judged if one.outcome == UNASKED)


def test_one_replicate_leaves_a_claim_undecided():
    cells = accuracies({"roar": {"random": {0.9: 0.8}, "sg_sq(grad)": {0.9: 0.1}}}, 0.0, seeds=1)
    (one,) = judge(results(cells), ["hooker2019:sg-sq"])
    assert one.outcome == "undecided in part"
    assert one.deciding.interval.n <= 1


def test_the_table_has_a_row_per_number():
    judged = judge(hooker(PUBLISHED), ["hooker2019"])
    table = claims_table(judged)
    single = table[table["claim"] == "hooker2019:single"]
    assert list(single["n"]) == [4, 4, 4]
    assert single["decides"].sum() == 1
    decided = table[table["decides"].astype(bool)]
    assert len(decided) == len(judged)
    assert np.isfinite(decided[["n", "effect", "low", "high"]].astype(float)).all(axis=None)
