"""Figures as plain data: what is drawn, in which order, with which title. Nothing here can draw.

The page, the SVG files and the tests all read these, so that they cannot disagree. Accuracies and
advantages are shares of one; None stands for what is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from uproar.report.formatting import LEVEL, WITHOUT_RETRAINING, known, protocol_label, retrains
from uproar.report.slices import KINDS, Kind, Section
from uproar.report.style import Style
from uproar.report.titles import retraining_title, verdict_title
from uproar.statistics.design import BASELINE

Numbers = tuple[float | None, ...]


@dataclass(frozen=True)
class Series:
    """One line: mean accuracy by fraction, with its 95 % interval and the replicates behind it."""

    label: str
    style: Style
    x: tuple[float, ...]
    mean: Numbers
    low: Numbers
    high: Numbers
    n: tuple[int, ...]

    @property
    def is_reference(self) -> bool:
        return self.label == BASELINE


@dataclass(frozen=True)
class Curves:
    """Accuracy against the fraction, one line per estimator."""

    name: str
    title: str
    reading: str
    protocol: str
    x_label: str
    y_label: str
    y_range: tuple[float, float]
    series: tuple[Series, ...]
    chance: float | None = None
    chance_label: str = "chance"
    plain: bool = False
    """Whether the values are numbers as they are, not shares shown in percent."""
    x_range: tuple[float, float] | None = None
    """Where the fractions do not simply grow to the right."""


@dataclass(frozen=True)
class Pair:
    """One estimator with and without retraining."""

    label: str
    style: Style
    retrained: Series
    asked: Series


@dataclass(frozen=True)
class Retraining:
    """Small multiples, one per estimator: the retrained network and the original one."""

    name: str
    title: str
    reading: str
    protocol: str
    x_label: str
    y_label: str
    y_range: tuple[float, float]
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class ForestRow:
    """One estimator's advantage over random, and the verdict."""

    label: str
    style: Style
    advantage: float | None
    low: float | None
    high: float | None
    p: float | None
    kind: Kind
    verdict: str
    n: int
    missing: int
    detectable: float | None
    note: str
    control: bool


@dataclass(frozen=True)
class Forest:
    """Advantages over random of one protocol, best first; `limit` is half the width of the axis."""

    name: str
    title: str
    reading: str
    protocol: str
    limit: float
    rows: tuple[ForestRow, ...]
    fractions: tuple[float, ...]


def curve_figures(section: Section) -> list[Curves]:
    """The curves of every retrained protocol; of the others where nothing was retrained."""
    chosen = [p for p in section.curves if retrains(p)] or list(section.curves)
    return [_curves(section, protocol) for protocol in chosen]


def _curves(section: Section, protocol: str) -> Curves:
    series = tuple(series_of(section, protocol, e) for e in _there(section, protocol))
    keeps = section.higher_is_better[protocol]
    good = "The higher" if keeps else "The lower"
    return Curves(
        f"{_stem(protocol)}-curves",
        verdict_title(section, protocol),
        f"{good} the line, the better the estimator {'chose what to keep' if keeps else 'found what matters'}. "
        f"Dashed: a random ranking. Bands: {LEVEL} interval of the mean; they may overlap where the paired "
        "verdict is clear.",
        protocol,
        x_label(section, protocol),
        "test accuracy" if not retrains(protocol) else "test accuracy after retraining",
        y_range(series, section.chance),
        series,
        section.chance,
    )


def retraining_figures(section: Section) -> list[Retraining]:
    """One figure per protocol that was run both with and without retraining."""
    pairs = [(p, p + WITHOUT_RETRAINING) for p in section.curves if retrains(p)]
    return [_retraining(section, p, other) for p, other in pairs if other in section.curves]


def _retraining(section: Section, protocol: str, asked: str) -> Retraining:
    shared = [e for e in _there(section, protocol) if e in _there(section, asked)]
    pairs = tuple(
        Pair(e, section.looks[e], series_of(section, protocol, e), series_of(section, asked, e)) for e in shared
    )
    return Retraining(
        f"{_stem(protocol)}-retraining",
        retraining_title(section, protocol, asked),
        "Solid: a network that learned the changed images. Dotted: the original network, which never "
        "saw such images. The gap is what learning brings back: information that was there all along, "
        "or a class read off the mask.",
        protocol,
        x_label(section, protocol),
        "test accuracy",
        y_range([s for pair in pairs for s in (pair.retrained, pair.asked)], None),
        pairs,
    )


def forest_figures(section: Section) -> list[Forest]:
    """One forest per protocol that has verdicts; those of a kind share their axis."""
    found = []
    for group in (section.judged, [p for p in section.verdicts if not retrains(p)]):
        rows = {p: _forest_rows(section, p) for p in group}
        limit = _limit([row for part in rows.values() for row in part])
        found += [_forest(section, p, rows[p], limit) for p in group]
    return found


def _forest(section: Section, protocol: str, rows: tuple[ForestRow, ...], limit: float) -> Forest:
    keeps = section.higher_is_better[protocol]
    return Forest(
        f"{_stem(protocol)}-verdicts",
        verdict_title(section, protocol),
        f"Accuracy points {'gained' if keeps else 'lost'} against a random ranking, averaged over the "
        f"fractions: right of the line is better. Bars: {LEVEL} interval of each estimator alone; the "
        f"verdict is stricter, since it allows for all {len(rows)} comparisons.",
        protocol,
        limit,
        rows,
        tuple(section.verdicts[protocol].attrs.get("fractions", ())),
    )


def _forest_rows(section: Section, protocol: str) -> tuple[ForestRow, ...]:
    return tuple(
        ForestRow(
            str(row["estimator"]),
            section.looks[row["estimator"]],
            some(row["advantage"]),
            some(row["low"]),
            some(row["high"]),
            some(row["p_holm"]),
            KINDS[row["side"]],
            str(row["verdict"]),
            int(row["n"]),
            int(row["missing"]),
            some(row["detectable"]),
            str(row["note"]),
            row["estimator"] in section.controls,
        )
        for row in section.verdicts[protocol].to_dict("records")
    )


def series_of(section: Section, protocol: str, estimator: str) -> Series:
    """One estimator's line under one protocol."""
    frame = section.curves[protocol]
    own: pd.DataFrame = frame[frame["estimator"] == estimator].sort_values("fraction")
    return Series(
        estimator,
        section.looks[estimator],
        tuple(own["fraction"].tolist()),
        _column(own, "mean"),
        _column(own, "low"),
        _column(own, "high"),
        tuple(int(n) for n in own["n"]),
    )


def _column(frame: pd.DataFrame, name: str) -> Numbers:
    return tuple(some(value) for value in frame[name])


def x_label(section: Section, protocol: str) -> str:
    """What the fraction of a protocol means."""
    return f"share of pixels {'kept' if section.higher_is_better[protocol] else 'removed'}"


def y_range(series: Iterable[Series], chance: float | None) -> tuple[float, float]:
    """Limits that hold all means, and the intervals as far as they do not squeeze the means."""
    lines = list(series)
    means = _there_numbers(v for s in lines for v in s.mean)
    if not means:
        return 0.0, 1.0
    low, high = min([*means, *([chance] if chance else [])]), max(means)
    room = max(high - low, 0.02)
    lows, highs = (_there_numbers(v for s in lines for v in getattr(s, side)) for side in ("low", "high"))
    low = max(min([low, *lows]), low - 0.25 * room)
    high = min(max([high, *highs]), high + 0.15 * room)
    return max(low - 0.03 * room, 0.0), min(high + 0.03 * room, 1.0 + 0.03 * room)


def _limit(rows: Sequence[ForestRow]) -> float:
    """Half-width of a forest's axis: all points, and the intervals up to three times the largest."""
    sizes = _there_numbers(abs(row.advantage) for row in rows if row.advantage is not None)
    ends = _there_numbers(abs(e) for row in rows for e in (row.low, row.high) if e is not None)
    most = max([*sizes, 0.005])
    return 1.08 * max(most, min(max([*ends, most]), 3 * most))


def _there(section: Section, protocol: str) -> list[str]:
    there = set(section.curves[protocol]["estimator"])
    return [e for e in section.estimators if e in there]


def _there_numbers(values: Iterable[float | None]) -> list[float]:
    return [v for v in values if v is not None and known(v)]


def some(value: float) -> float | None:
    """A number, or None for NaN and infinity."""
    return float(value) if known(value) else None


def _stem(protocol: str) -> str:
    return protocol_label(protocol).lower().replace(" ", "-")
