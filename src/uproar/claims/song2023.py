"""Claims of Song, Cha and Seo, "On pitfalls of RemOve-And-Retrain: data processing inequality perspective"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Unpack

import numpy as np

from uproar.audits.theorems import theorem_one, theorem_two
from uproar.claims.base import claim, every, most
from uproar.claims.found import BASELINE, Found, bare
from uproar.expression import parse
from uproar.judgement import Measure, Range, Weighed

ROAR, ROAD, VARIATION = "roar", "road", "total_variation"
FILTERS = ("gaussian", "max")
CAM = ("grad_cam", "sq(grad_cam)")
SAME = 0.02
"""Two accuracy points: differences that are surely smaller count as none."""
LINEAR = 0.5
"""R² from which a relation counts as strong."""


def _plain(found: Found, how: str, protocol: str | None = None) -> list[str]:
    """The estimators beside Grad-CAM and random that the study has with a filter and without."""
    names = found.cells["estimator"] if protocol else found.values["estimator"]
    wanted = [bare(str(n)) for n in dict.fromkeys(names)]
    mine = [n for n in wanted if n not in (*CAM, BASELINE) and parse(n).name not in FILTERS]
    return [n for n in mine if found.there([f"{how}({n})"], protocol)]


def _roar_gains(found: Found, how: str) -> Weighed:
    return most(*(found.area(ROAR, f"{how}({n})", n, above=0.0) for n in _plain(found, how, ROAR)))


def _road_gains(found: Found, how: str) -> Weighed:
    road = found.metric(ROAD)
    return most(*(found.gap(road, f"{how}({n})", n, above=0.0) for n in _plain(found, how)))


@claim(
    "song2023:gaussian-roar",
    place="section 4.2, Figure 4",
    says="A Gaussian filter, which knows nothing of the model, improves most estimators under ROAR.",
    published="most cells of the figure",
)
def gaussian_roar(found: Found) -> Weighed:
    """Filtered against plain, estimator by estimator."""
    return _roar_gains(found, "gaussian")


@claim(
    "song2023:max-roar",
    place="section 4.2, Figure 4",
    says="A max filter, which knows nothing of the model, improves most estimators under ROAR.",
    published="most cells of the figure",
)
def max_roar(found: Found) -> Weighed:
    """Filtered against plain, estimator by estimator."""
    return _roar_gains(found, "max")


@claim(
    "song2023:gaussian-road",
    place="section 4.2, Figure 5",
    says="The Gaussian filter improves most estimators under ROAD too.",
    published="most cells of the figure",
)
def gaussian_road(found: Found) -> Weighed:
    """Filtered against plain, estimator by estimator."""
    return _road_gains(found, "gaussian")


@claim(
    "song2023:max-road",
    place="section 4.2, Figure 5",
    says="The max filter improves most estimators under ROAD too.",
    published="most cells of the figure",
)
def max_road(found: Found) -> Weighed:
    """Filtered against plain, estimator by estimator."""
    return _road_gains(found, "max")


def _filtered(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(f"{how}({name})", name) for name in names for how in FILTERS]


@claim(
    "song2023:cam-roar",
    place="sections 4.2 and 4.3, Figure 4",
    says="Filters change nothing for Grad-CAM under ROAR: its maps are smooth already.",
    published="no clear direction (figure)",
)
def cam_roar(found: Found) -> Weighed:
    """Filtered against plain Grad-CAM."""
    pairs = [(a, b) for a, b in _filtered(CAM) if found.there([a], ROAR) and found.there([b], ROAR)]
    return every(*(found.area(ROAR, a, b, above=-SAME, below=SAME) for a, b in pairs))


@claim(
    "song2023:cam-road",
    place="section 4.2, Figure 5",
    says="Filters change nothing for Grad-CAM under ROAD.",
    published="no clear direction (figure)",
)
def cam_road(found: Found) -> Weighed:
    """Filtered against plain Grad-CAM."""
    road = found.metric(ROAD)
    pairs = [(a, b) for a, b in _filtered(CAM) if found.there([a]) and found.there([b])]
    return every(*(found.gap(road, a, b, above=-SAME, below=SAME) for a, b in pairs))


@claim(
    "song2023:blocks",
    place="section 3.2, Table 1",
    says="Removing random blocks costs far more accuracy than removing as many random pixels.",
    published="CUB-200, 10 to 90 %: pixels .756 .727 .710 .677 .620, blocks .659 .438 .282 .171 .053",
)
def blocks(found: Found) -> Weighed:
    """Random blocks against random pixels."""
    return every(found.area(ROAR, "block_random", BASELINE, above=0.05))


@claim(
    "song2023:filters-smooth",
    place="section 4.3, Figures 6, 8 and 9",
    says="Both filters lower the total variation of the maps of most estimators.",
    published="all estimators but Grad-CAM (figures)",
)
def filters_smooth(found: Found) -> Weighed:
    """Filtered against plain, lower variation counting as better."""
    metric = found.metric(VARIATION)
    pairs = [(f"{how}({n})", n) for how in FILTERS for n in _plain(found, how)]
    return most(*(found.gap(metric, a, b, above=0.0) for a, b in pairs))


def _squared(name: str) -> bool:
    return parse(name).name in ("sq", "sg_sq", "var")


def variation_points(
    found: Found, squared: bool
) -> tuple[dict[str, float], dict[float, dict[str, float]]]:
    """Total variation by unfiltered estimator, and accuracy under ROAR by fraction and estimator.

    What knows no model is among the squared ones and among the others.
    """
    metric = found.metric(VARIATION)
    both = (BASELINE, "sobel", "block_random")
    variation = {
        bare(str(name)): -float(found.per_image(metric, str(name)).mean())
        for name in found.values[found.values["metric"] == metric]["estimator"].unique()
    }
    chosen = [
        name
        for name in variation
        if parse(name).name not in FILTERS and (name in both or _squared(name) == squared)
    ]
    chosen = found.there(chosen, ROAR)
    accuracy = {name: found.accuracy(ROAR, name).mean() for name in chosen}
    shared = (
        sorted(set.intersection(*(set(a.index) for a in accuracy.values()))) if accuracy else []
    )
    reached = {
        float(t): {name: float(accuracy[name][t]) for name in chosen} for t in shared if t > 0
    }
    return {name: variation[name] for name in chosen}, reached


def line_through(
    found: Found, variation: Mapping[str, float], reached: Mapping[str, float], t: float
) -> Measure:
    """R² of accuracy at a fraction over total variation."""
    x, y = (np.array([of[name] for name in variation]) for of in (variation, reached))
    return found.line(f"R² of accuracy over total variation at {t:g}", x, y, above=LINEAR)


def _lines(found: Found, squared: bool) -> list[Measure]:
    """One line per fraction."""
    variation, reached = variation_points(found, squared)
    return [line_through(found, variation, y, t) for t, y in reached.items()]


@claim(
    "song2023:line-squared",
    place="section 4.3, Figure 7",
    says="Accuracy under ROAR is nearly linear in the total variation of squared maps.",
    published="R² 0.83 to 0.96",
)
def line_squared(found: Found) -> Weighed:
    """A line through estimators at every fraction."""
    return every(*_lines(found, squared=True))


@claim(
    "song2023:line-plain",
    place="supplement, Figure 10",
    says="Accuracy under ROAR is nearly linear in the total variation of maps that are not squared.",
    published="similar (figure)",
)
def line_plain(found: Found) -> Weighed:
    """A line through estimators at every fraction."""
    return every(*_lines(found, squared=False))


def _counted(what: str, bits: float, **claimed: Unpack[Range]) -> Measure:
    """An enumerated number: it has no spread, and no data behind it."""
    return Measure(f"{what}, bits", bits, bits, bits, 1, "enumeration", **claimed)


@claim(
    "song2023:theorem-1",
    place="section 3.1, Theorem 3.1",
    says="Processing an attribution without looking at the model adds no information about the model.",
    published="a theorem",
)
def theorem_1(found: Found) -> Weighed:
    """The largest gain over every processing of a small world, enumerated; rounding aside it is not positive."""
    return every(*(_counted(name, bits, below=1e-9) for name, bits in theorem_one().items()))


@claim(
    "song2023:theorem-2",
    place="section 3.1, Theorem 3.2",
    says="An attribution can lose all it says of the model and score better under ROAR.",
    published="a theorem",
)
def theorem_2(found: Found) -> Weighed:
    """What the proof's world loses about the model, and what its score gains, enumerated."""
    bits = theorem_two()
    lost = bits["I(Z; A | X)"] - bits["I(Z; Ã | X)"]
    gained = bits["I(X'; Y)"] - bits["I(X̃'; Y)"]
    return every(
        _counted("information about the model lost by processing", lost, above=0.0),
        _counted("information about the class removed by processing (a better score)", gained, above=0.0),
    )  # fmt: skip
