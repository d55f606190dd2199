"""Claims of Song, Cha and Seo, "On pitfalls of RemOve-And-Retrain: data processing inequality perspective"."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Unpack

import pandas as pd

from uproar.audits.filtered import SQUARES
from uproar.audits.theorems import theorem_one, theorem_two
from uproar.claims.base import claim, every, most
from uproar.claims.evidence import ClaimEvidence
from uproar.claims.names import bare
from uproar.estimators import read_chain
from uproar.expression import parse
from uproar.results.judgement import Decision, Measure, Range
from uproar.statistics.design import BASELINE

Of = Literal["maps", "masks"]

ROAR, ROAD, VARIATION, MASKS = "roar", "road", "total_variation", "removed_variation"
BLOCKS = "block_random"
RATES = (0.1, 0.3, 0.5)
"""Of the paper's figures."""
FILTERS = ("gaussian", "max")
CAM = ("grad_cam", "sq(grad_cam)")
FAR = 0.05
"""Accuracy points, as a share, from which a loss counts as far larger."""
LINEAR = 0.5
"""R² from which a line counts as strong, a correlation of .7."""


def _plain(evidence: ClaimEvidence, how: str, protocol: str | None = None) -> list[str]:
    """The estimators beside Grad-CAM and random that the study has with a filter and without."""
    names = evidence.cells["estimator"] if protocol else evidence.values["estimator"]
    wanted = [bare(str(n)) for n in dict.fromkeys(names)]
    mine = [n for n in wanted if n not in (*CAM, BASELINE) and parse(n).name not in FILTERS]
    return [n for n in mine if evidence.there([f"{how}({n})"], protocol)]


def _roar_gains(evidence: ClaimEvidence, how: str) -> Decision:
    rates = tuple(_rates(evidence))
    names = _plain(evidence, how, ROAR)
    return most(*(evidence.area(ROAR, f"{how}({n})", n, at=rates, above=0.0) for n in names))


def _road_gains(evidence: ClaimEvidence, how: str) -> Decision:
    road = evidence.metric(ROAD)
    return most(*(evidence.gap(road, f"{how}({n})", n, above=0.0) for n in _plain(evidence, how)))


@claim(
    "song2023:gaussian-roar",
    place="section 4.2, Figure 4",
    says="A Gaussian filter, which knows nothing of the model, improves most estimators under ROAR.",
    published="most cells of the figure",
)
def gaussian_roar(evidence: ClaimEvidence) -> Decision:
    """Filtered against plain, estimator by estimator."""
    return _roar_gains(evidence, "gaussian")


@claim(
    "song2023:max-roar",
    place="section 4.2, Figure 4",
    says="A max filter, which knows nothing of the model, improves most estimators under ROAR.",
    published="most cells of the figure",
)
def max_roar(evidence: ClaimEvidence) -> Decision:
    """Filtered against plain, estimator by estimator."""
    return _roar_gains(evidence, "max")


@claim(
    "song2023:gaussian-road",
    place="section 4.2, Figure 5",
    says="The Gaussian filter improves most estimators under ROAD too.",
    published="most cells of the figure",
)
def gaussian_road(evidence: ClaimEvidence) -> Decision:
    """Filtered against plain, estimator by estimator."""
    return _road_gains(evidence, "gaussian")


@claim(
    "song2023:max-road",
    place="section 4.2, Figure 5",
    says="The max filter improves most estimators under ROAD too.",
    published="most cells of the figure",
)
def max_road(evidence: ClaimEvidence) -> Decision:
    """Filtered against plain, estimator by estimator."""
    return _road_gains(evidence, "max")


@claim(
    "song2023:cam-roar",
    place="sections 4.2 and 4.3, Figure 4",
    says="Under ROAR, filters do less for Grad-CAM, whose maps are smooth already, than for the other estimators.",
    published="no clear direction for Grad-CAM (figure)",
)
def cam_roar(evidence: ClaimEvidence) -> Decision:
    """What a filter gains for the others minus what it gains for Grad-CAM, replicate by replicate."""
    rates = _rates(evidence)

    def gain(name: str, how: str) -> pd.Series:
        plain, filtered = evidence.accuracy(ROAR, name), evidence.accuracy(ROAR, f"{how}({name})")
        return (plain[rates] - filtered[rates]).mean(axis=1)

    return every(
        *(
            evidence.over_replicates(f"roar: {what}, accuracy", _apart(gain, how, name, others), above=0.0)
            for what, how, name, others in _beside_cam(evidence, ROAR)
        )
    )


@claim(
    "song2023:cam-road",
    place="section 4.2, Figure 5",
    says="Under ROAD, filters do less for Grad-CAM than for the other estimators.",
    published="no clear direction for Grad-CAM (figure)",
)
def cam_road(evidence: ClaimEvidence) -> Decision:
    """What a filter gains for the others minus what it gains for Grad-CAM, image by image."""
    road = evidence.metric(ROAD)

    def gain(name: str, how: str) -> pd.Series:
        filtered = evidence.per_image(road, evidence.estimator(f"{how}({name})"))
        return filtered - evidence.per_image(road, evidence.estimator(name))

    return every(
        *(
            evidence.over_images(f"road: {what}", _apart(gain, how, name, others), above=0.0)
            for what, how, name, others in _beside_cam(evidence)
        )
    )


def _beside_cam(evidence: ClaimEvidence, protocol: str | None = None) -> list[tuple[str, str, str, list[str]]]:
    """By filter and kind of Grad-CAM that the study has: in words, the filter, Grad-CAM, and the others."""
    return [
        (f"what {how} gains for {len(others)} estimators minus what it gains for {name}", how, name, others)
        for how in FILTERS
        for name in CAM
        if (others := _plain(evidence, how, protocol)) and len(evidence.there([name, f"{how}({name})"], protocol)) == 2
    ]


def _apart(gain: Callable[[str, str], pd.Series], how: str, name: str, others: Sequence[str]) -> pd.Series:
    return pd.DataFrame({n: gain(n, how) for n in others}).mean(axis=1) - gain(name, how)


@claim(
    "song2023:blocks",
    place="section 3.2, Table 1",
    says="Removing random blocks costs far more accuracy than removing as many random pixels.",
    published="CUB-200, 10 to 90 %: pixels .7556 .7269 .7099 .6772 .6195, blocks .6586 .4384 .2815 .1705 .0533",
)
def blocks(evidence: ClaimEvidence) -> Decision:
    """Random blocks against random pixels: worse at every fraction, and far worse at the largest."""
    shared = evidence.accuracy(ROAR, BASELINE).columns.intersection(evidence.accuracy(ROAR, BLOCKS).columns)
    rates = sorted(float(t) for t in shared if t > 0)
    return every(*(evidence.area(ROAR, BLOCKS, BASELINE, at=t, above=FAR if t == rates[-1] else 0.0) for t in rates))


def _smoother(evidence: ClaimEvidence, how: str) -> Decision:
    metric = evidence.metric(VARIATION)
    return most(*(evidence.gap(metric, f"{how}({n})", n, above=0.0) for n in _plain(evidence, how)))


@claim(
    "song2023:gaussian-smooth",
    place="section 4.3, Figures 6, 8 and 9",
    says="The Gaussian filter lowers the total variation of the maps of most estimators.",
    published="most estimators and rates, not Grad-CAM",
)
def gaussian_smooth(evidence: ClaimEvidence) -> Decision:
    """Filtered against plain, lower variation counting as better."""
    return _smoother(evidence, "gaussian")


@claim(
    "song2023:max-smooth",
    place="section 4.3, Figures 6, 8 and 9",
    says="The max filter lowers the total variation of the maps of most estimators.",
    published="most estimators and rates, not Grad-CAM",
)
def max_smooth(evidence: ClaimEvidence) -> Decision:
    """Filtered against plain, lower variation counting as better."""
    return _smoother(evidence, "max")


@dataclass(frozen=True)
class Line:
    """A line through estimators: total variation and accuracy by name, and its R²; `beside` were left out of it."""

    x: Mapping[str, float]
    y: Mapping[str, float]
    r2: Measure
    beside: tuple[str, ...]


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
    chosen = [n for n in evidence.there(variation, ROAR) if _unfiltered(n, squared)]
    if squared:
        chosen = [n for n in chosen if f"sq({n})" not in chosen]
    reached = {n: evidence.accuracy(ROAR, n) for n in chosen}
    y = pd.DataFrame({n: reached[n][t] for n in chosen if t in reached[n]})
    x = pd.Series({n: variation[n] for n in y}, dtype=float)
    beside = [n for n in y if n == BLOCKS or not (baselines or read_chain(n).needs_model)]
    what = f"R² of accuracy over total variation of {of} at {t:g}"
    r2 = evidence.line(what, x.drop(beside), y, above=LINEAR)
    return Line(dict(x), dict(y.mean()), r2, tuple(beside))


def variation_by_name(evidence: ClaimEvidence, of: Of = "maps", t: float = 0.0) -> dict[str, float]:
    """Mean total variation of the maps, or of the masks at a rate, by estimator without options."""
    metric = evidence.metric(VARIATION) if of == "maps" else evidence.metric(MASKS, fraction=t)
    names = evidence.values[evidence.values["metric"] == metric]["estimator"].unique()
    return {bare(str(n)): -float(evidence.per_image(metric, str(n)).mean()) for n in names}


def _unfiltered(name: str, squared: bool) -> bool:
    """Whether an estimator is plain, and squared or not as wanted; for a control that is not squared any is right."""
    chain = read_chain(name)
    square = chain.raw.name in SQUARES
    return not chain.filters and (square == squared or not (square or chain.needs_model))


def _line_claim(name: str, place: str, says: str, squared: bool, of: Of = "maps", baselines: bool = False) -> None:
    """Declare that accuracy lies on a line over total variation at every rate."""

    def test(evidence: ClaimEvidence) -> Decision:
        lines = variation_lines(evidence, squared, of, baselines)
        return every(*(line.r2 for line in lines.values()))

    published = "R² 0.83 to 0.96" if squared else "similar (figure)"
    claim(f"song2023:line-{name}", place=place, says=says, published=published)(test)


_FIGURE_7, _FIGURE_10 = "section 4.3, Figure 7", "supplement, Figure 10"
_LINEAR = "Accuracy under ROAR is strongly linear in the total variation of"

_line_claim("squared", _FIGURE_7, f"{_LINEAR} squared maps.", squared=True)
_line_claim(
    "squared-masks",
    f"{_FIGURE_7}, whose caption speaks of masks",
    f"{_LINEAR} the masks that squared maps remove.",
    squared=True,
    of="masks",
)
_line_claim(
    "squared-baselines",
    f"{_FIGURE_7}, which may or may not have the baselines",
    "The line over squared maps goes through the baselines random and Sobel as well.",
    squared=True,
    baselines=True,
)
_line_claim("plain", _FIGURE_10, f"{_LINEAR} maps that are not squared.", squared=False)
_line_claim(
    "plain-masks",
    f"{_FIGURE_10}, whose caption speaks of masks",
    f"{_LINEAR} the masks of maps that are not squared.",
    squared=False,
    of="masks",
)


def _counted(what: str, bits: float, **claimed: Unpack[Range]) -> Measure:
    """An enumerated number: it has no spread, and no data behind it."""
    return Measure(f"{what}, bits", bits, bits, bits, 1, "enumeration", **claimed)


@claim(
    "song2023:theorem-1",
    place="section 3.1, Theorem 3.1",
    says="Processing an attribution without looking at the model adds no information about the model.",
    published="a theorem",
)
def theorem_1(evidence: ClaimEvidence) -> Decision:
    """The largest gain over every processing of a small world, enumerated; rounding aside it is not positive."""
    return every(*(_counted(name, bits, below=1e-9) for name, bits in theorem_one().items()))


@claim(
    "song2023:theorem-2",
    place="section 3.1, Theorem 3.2",
    says="An attribution can lose all it says of the model and score better under ROAR.",
    published="a theorem",
)
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
