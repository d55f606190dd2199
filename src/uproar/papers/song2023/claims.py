"""Claims of Song, Cha and Seo, "On pitfalls of RemOve-And-Retrain: data processing inequality perspective"."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, Unpack

import pandas as pd

from uproar.audits.filtered import SQUARES
from uproar.audits.theorems import theorem_one, theorem_two
from uproar.claims.evidence import ClaimEvidence
from uproar.claims.names import gain_limits, without_options
from uproar.claims.registry import Test, claims_of, every, most, part
from uproar.estimators import read_chain
from uproar.expression import parse
from uproar.results.claim_outcome import Decision, Measure, Missing, Range
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval

declare = claims_of("song2023", __file__)

Of = Literal["maps", "masks"]
Gain = TypeVar("Gain", pd.Series, pd.DataFrame)
"""What a filter gains, by replicate, or by replicate and image."""

ROAR, ROAD, VARIATION, MASKS = "roar", "road", "total_variation", "removed_variation"
BLOCKS = "block_random"
RATES = (0.1, 0.3, 0.5)
"""Of the paper's figures."""
FILTERS = ("gaussian", "max")
CAM = ("grad_cam", "sq(grad_cam)")
PLAIN = ("grad", "grad_input", "ig", "sg(grad)", "grad_cam")
SQUARED = ("sq(grad)", "sq(grad_input)", "sq(ig)", "sq(sg(grad))", "var(grad)", "sg_sq(grad)", "sq(grad_cam)")
FILTERED = ("grad", *SQUARED[:-1], "sq(sobel)")
"""The estimators that the paper filters, Grad-CAM apart."""
FAR = 0.05
"""Accuracy points, as a share, from which a loss counts as far larger."""
LINEAR = 0.5
"""R² from which a line counts as strong, a correlation of .7."""


def _plain(evidence: ClaimEvidence, how: str, protocol: str | None = None) -> list[str]:
    """The estimators beside Grad-CAM and random that the study has with a filter and without."""
    names = evidence.cells["estimator"] if protocol else evidence.values["estimator"]
    wanted = [without_options(str(n)) for n in names.unique()]
    mine = [n for n in wanted if n not in (*CAM, BASELINE) and parse(n).name not in FILTERS]
    return [n for n in mine if evidence.available([f"{how}({n})"], protocol)]


def _unfiltered_in_study(evidence: ClaimEvidence, how: str, protocol: str | None = None) -> list[Missing]:
    """The estimators that the paper filters and the study has not with the filter."""
    return evidence.absent([f"{how}({name})" for name in FILTERED], protocol)


def _gains_under_roar(how: str) -> Test:
    """Filtered against plain, estimator by estimator."""

    def test(evidence: ClaimEvidence) -> Decision:
        rates = tuple(_rates(evidence))
        gains = (part(evidence.area, ROAR, f"{how}({n})", n, at=rates, above=0.0) for n in _plain(evidence, how, ROAR))
        return most(*gains, *_unfiltered_in_study(evidence, how, ROAR))

    return test


def _gains(metric: str, how: str) -> Test:
    """Filtered against plain by a metric, estimator by estimator."""

    def test(evidence: ClaimEvidence) -> Decision:
        name = evidence.metric(metric)
        gains = (part(evidence.gap, name, f"{how}({n})", n, above=0.0) for n in _plain(evidence, how))
        return most(*gains, *_unfiltered_in_study(evidence, how))

    return test


declare("gaussian-roar")(_gains_under_roar("gaussian"))
declare("max-roar")(_gains_under_roar("max"))
declare("gaussian-road")(_gains(ROAD, "gaussian"))
declare("max-road")(_gains(ROAD, "max"))


@declare("cam-roar")
def cam_roar(evidence: ClaimEvidence) -> Decision:
    """What a filter gains for the others minus what it gains for Grad-CAM, replicate by replicate."""
    rates = _rates(evidence)
    where = f"roar, {_at(rates)}"

    def gain(name: str, how: str) -> pd.Series:
        plain, filtered = evidence.accuracy(ROAR, name), evidence.accuracy(ROAR, f"{how}({name})")
        return (plain[rates] - filtered[rates]).mean(axis=1)

    return every(
        *(
            evidence.over_replicates(
                f"{where}: {what}, accuracy", _mean(gain, how, others) - gain(name, how), above=0.0
            )
            for what, how, name, others in _beside_cam(evidence, ROAR)
        ),
        *_unfiltered_beside_cam(evidence, ROAR),
    )


@declare("cam-road")
def cam_road(evidence: ClaimEvidence) -> Decision:
    """What a filter gains for the others minus what it gains for Grad-CAM, by replicate and image."""
    road = evidence.metric(ROAD)

    def gain(name: str, how: str) -> pd.DataFrame:
        filtered = evidence.per_replicate(road, evidence.estimator(f"{how}({name})"))
        return filtered - evidence.per_replicate(road, evidence.estimator(name))

    return every(
        *(
            evidence.over_images(
                f"road: {what}", _mean(gain, how, others), minus=gain(name, how), limits=gain_limits(road), above=0.0
            )
            for what, how, name, others in _beside_cam(evidence)
        ),
        *_unfiltered_beside_cam(evidence),
    )


def _beside_cam(evidence: ClaimEvidence, protocol: str | None = None) -> list[tuple[str, str, str, list[str]]]:
    """By filter and kind of Grad-CAM that the study has: in words, the filter, Grad-CAM, and the others."""
    return [
        (f"what {how} gains for {len(others)} estimators minus what it gains for {name}", how, name, others)
        for how in FILTERS
        for name in CAM
        if (others := _plain(evidence, how, protocol))
        and len(evidence.available([name, f"{how}({name})"], protocol)) == 2
    ]


def _unfiltered_beside_cam(evidence: ClaimEvidence, protocol: str | None = None) -> list[Missing]:
    """What the study lacks of the paper's: with each filter all others, and Grad-CAM in one of its forms."""
    lacking = [missing for how in FILTERS for missing in _unfiltered_in_study(evidence, how, protocol)]
    there = {how for _, how, _, _ in _beside_cam(evidence, protocol)}
    return lacking + [Missing(f"the study has no {how}(grad_cam)") for how in FILTERS if how not in there]


def _mean(gain: Callable[[str, str], Gain], how: str, names: Sequence[str]) -> Gain:
    gains = [gain(n, how) for n in names]
    return sum(gains[1:], start=gains[0]) / len(gains)


def _at(rates: Sequence[float]) -> str:
    return f"mean at {', '.join(f'{t:g}' for t in rates)}"


def blocks_of(evidence: ClaimEvidence) -> str:
    """The study's random blocks: a rectangle of its own at every rate, as in the paper, or one that grows."""
    return next(iter(evidence.available(("block_random_free", BLOCKS), ROAR)), BLOCKS)


@declare("blocks")
def blocks(evidence: ClaimEvidence) -> Decision:
    """Random blocks against random pixels: worse at every fraction, and far worse at the largest."""
    name = blocks_of(evidence)
    shared = evidence.accuracy(ROAR, BASELINE).columns.intersection(evidence.accuracy(ROAR, name).columns)
    rates = sorted(float(t) for t in shared if t > 0)
    return every(*(evidence.area(ROAR, name, BASELINE, at=t, above=FAR if t == rates[-1] else 0.0) for t in rates))


declare("gaussian-smooth")(_gains(VARIATION, "gaussian"))
declare("max-smooth")(_gains(VARIATION, "max"))


@dataclass(frozen=True)
class Line:
    """A line through estimators: total variation and accuracy by name, and its R²; `excluded` are not on it."""

    x: Mapping[str, float]
    y: Mapping[str, float]
    r2: Measure
    excluded: tuple[str, ...]


def variation_lines(
    evidence: ClaimEvidence, squared: bool, of: Of = "maps", baselines: bool = False
) -> dict[float, Line]:
    """The line of accuracy under ROAR over total variation at every rate, through unfiltered estimators.

    Of the maps, or of the masks of what is removed at that rate. What knows no model is not on the line unless
    `baselines` asks for it; random blocks never are, the paper has them in a table of their own.
    """
    return {t: _line(evidence, squared, of, baselines, t) for t in _rates(evidence)}


def _rates(evidence: ClaimEvidence) -> list[float]:
    """The paper's rates that the study has, or all of the study's."""
    own = [float(t) for t in evidence.accuracy(ROAR, BASELINE).columns if t > 0]
    return [t for t in own if any(abs(t - rate) < 1e-9 for rate in RATES)] or own


def _line(evidence: ClaimEvidence, squared: bool, of: Of, baselines: bool, t: float) -> Line:
    variation = variation_by_name(evidence, of, t)
    chosen = [n for n in evidence.available(variation, ROAR) if _unfiltered(n, squared)]
    if squared:
        chosen = [n for n in chosen if f"sq({n})" not in chosen]
    reached = {n: evidence.accuracy(ROAR, n) for n in chosen}
    y = pd.DataFrame({n: reached[n][t] for n in chosen if t in reached[n]})
    x = pd.Series({n: variation[n] for n in y}, dtype=float)
    excluded = [n for n in y if n == BLOCKS or not (baselines or read_chain(n).needs_model)]
    what = f"R² of accuracy over total variation of {of} at {t:g}"
    r2 = evidence.line(what, x.drop(excluded), y, above=LINEAR)
    return Line(dict(x), dict(y.mean()), r2, tuple(excluded))


def variation_by_name(evidence: ClaimEvidence, of: Of = "maps", t: float = 0.0) -> dict[str, float]:
    """Mean total variation of the maps, or of the masks at a rate, by estimator without options."""
    metric = evidence.metric(VARIATION) if of == "maps" else evidence.metric(MASKS, fraction=t)
    names = evidence.values[evidence.values["metric"] == metric]["estimator"].unique()
    return {without_options(str(n)): -float(evidence.per_image(metric, str(n)).mean()) for n in names}


def _off_the_line(evidence: ClaimEvidence, squared: bool, baselines: bool) -> list[Missing]:
    """What the paper's lines go through and the study lacks: estimators and rates."""
    wanted = (*(SQUARED if squared else PLAIN), *((BASELINE, "sobel") if baselines else ()))
    rates = [Missing(f"the study has no {ROAR} at {t:g}") for t in RATES if t not in _rates(evidence)]
    return [*evidence.absent(wanted, ROAR), *rates]


def _unfiltered(name: str, squared: bool) -> bool:
    """Whether an estimator is plain, and squared or not as wanted; for a control that is not squared any is right."""
    chain = read_chain(name)
    square = chain.raw.name in SQUARES
    return not chain.filters and (square == squared or not (square or chain.needs_model))


def _linear(squared: bool, of: Of = "maps", baselines: bool = False) -> Test:
    """Accuracy lies on a line over total variation at every rate."""

    def test(evidence: ClaimEvidence) -> Decision:
        lines = variation_lines(evidence, squared, of, baselines)
        return every(*(line.r2 for line in lines.values()), *_off_the_line(evidence, squared, baselines))

    return test


declare("line-squared")(_linear(squared=True))
declare("line-squared-masks")(_linear(squared=True, of="masks"))
declare("line-squared-baselines")(_linear(squared=True, baselines=True))
declare("line-plain")(_linear(squared=False))
declare("line-plain-masks")(_linear(squared=False, of="masks"))


def _counted(what: str, bits: float, **claimed: Unpack[Range]) -> Measure:
    """An enumerated number: it has no spread, and no data behind it."""
    return Measure(f"{what}, bits", Interval(bits, bits, bits, n=1), "enumeration", **claimed)


@declare("theorem-1")
def theorem_1(evidence: ClaimEvidence) -> Decision:
    """The largest gain over every processing of a small world, enumerated; rounding aside it is not positive."""
    return every(*(_counted(name, bits, below=1e-9) for name, bits in theorem_one().items()))


@declare("theorem-2")
def theorem_2(evidence: ClaimEvidence) -> Decision:
    """What the proof's world loses about the model, and what its score gains, enumerated."""
    bits = theorem_two()
    lost = bits["I(Z; A | X)"] - bits["I(Z; Ã | X)"]
    gained = bits["I(X'; Y)"] - bits["I(X̃'; Y)"]
    return every(
        _counted("information about the model lost by processing", lost, above=0.0),
        _counted("information about the model left", bits["I(Z; Ã | X)"], below=1e-9),
        _counted("information about the class removed by processing (a better score)", gained, above=0.0),
    )
