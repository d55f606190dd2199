"""Cost and ties of the estimators as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from uproar.report.figures import Numbers, some
from uproar.report.slices import Section
from uproar.report.style import REFERENCE, Style
from uproar.report.titles import cost_title, ties_title


@dataclass(frozen=True)
class CostRow:
    """What one estimator costs, and how often it had nothing to say."""

    label: str
    style: Style
    passes: float | None
    milliseconds: float | None
    constant_maps: int
    explained: int
    control: bool


@dataclass(frozen=True)
class Costs:
    """Passes and time per image, and maps without any ranking in them."""

    name: str
    title: str
    reading: str
    rows: tuple[CostRow, ...]


@dataclass(frozen=True)
class Ties:
    """Share of pixels that only the tie-break ordered, by estimator and fraction."""

    name: str
    title: str
    reading: str
    fractions: tuple[float, ...]
    rows: tuple[tuple[str, Style, Numbers], ...]


def cost_figure(section: Section) -> Costs | None:
    """Passes and milliseconds per image, cheapest first; None when nothing is known."""
    if section.costs.empty:
        return None
    ordered = section.costs.sort_values(["milliseconds_per_image", "passes"], na_position="last")
    rows = tuple(
        CostRow(
            row["estimator"],
            section.looks.get(row["estimator"], REFERENCE),
            some(row["passes"]),
            some(row["milliseconds_per_image"]),
            int(row["constant_maps"]),
            int(row["explained_images"]),
            row["estimator"] in section.controls,
        )
        for row in ordered.to_dict("records")
    )
    reading = (
        "A pass is one forward and backward pass of the network for one image. The time is the median "
        "over replicates and includes ranking the pixels; it depends on the machine."
    )
    return Costs("cost", cost_title(section.costs), reading, rows)


def ties_figure(section: Section) -> Ties | None:
    """Tie shares, most first; None when none were counted."""
    plain = section.table["protocol"].map(lambda p: 1.0 if section.higher_is_better[p] else 0.0)
    own = section.table[(section.table["fraction"] != plain) & section.table["ties"].notna()]
    if own.empty:
        return None
    means = own.groupby(["estimator", "fraction"])["ties"].mean()
    shares = {(str(e), float(t)): float(v) for (e, t), v in means.items()}
    fractions = tuple(sorted({t for _, t in shares}))
    names = sorted({e for e, _ in shares}, key=lambda e: (-_most(shares, e), list(section.looks).index(e)))
    rows = tuple((e, section.looks[e], tuple(shares.get((e, t)) for t in fractions)) for e in names)
    reading = (
        "Share of the pixels, in an average test image, whose order at a cut was drawn by lot because "
        "the map gave them the same value. Where it is large, the estimator is partly a random ranking."
    )
    return Ties("ties", ties_title(shares), reading, fractions, rows)


def _most(shares: dict[tuple[str, float], float], name: str) -> float:
    return max(share for (e, _), share in shares.items() if e == name)
