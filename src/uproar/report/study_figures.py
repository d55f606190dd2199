"""The figures of a study's protocols: verdicts, curves, retraining, cost and ties, pictures and maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from uproar.protocols import Protocol
from uproar.report.figures import (
    Chart,
    Figure,
    Forest,
    ForestRow,
    HeatMap,
    Limits,
    PictureRow,
    Pictures,
    Series,
    Tile,
    layer_notes,
    limits_of,
    number_or_none,
    numbers,
    share_limits,
)
from uproar.report.formatting import LEVEL, advantage_points, capital, clean, known, number, percent, stopped_early
from uproar.report.images import map_colours
from uproar.report.section import Section
from uproar.report.style import REFERENCE, Style
from uproar.report.titles import (
    asked_network,
    cost_title,
    curve_title,
    gallery_title,
    picture_title,
    retraining_title,
    ties_title,
    verdict_title,
)
from uproar.results.study import Picture
from uproar.statistics.design import BASELINE


def x_label(section: Section, protocol: str) -> str:
    """What the fraction of a protocol means."""
    return f"share of pixels {section.protocols[protocol].fraction_means}"


def _stem(section: Section, protocol: str) -> str:
    return section.label(protocol).lower().replace(" ", "-")


# curves


def curve_figures(section: Section) -> list[Figure]:
    """The curves of every retrained protocol; of the others where nothing was retrained."""
    chosen = [p for p in section.curves if section.protocols[p].retrains] or list(section.curves)
    return [_curves(section, protocol) for protocol in chosen]


def _curves(section: Section, protocol: str) -> Figure:
    series = tuple(series_of(section, protocol, e) for e in section.drawn(protocol))
    chart = Chart(
        "",
        series,
        x_label(section, protocol),
        f"test {section.score}{' after retraining' if section.protocols[protocol].retrains else ''}",
        _limits(section, series),
        level=section.chance,
        level_label="chance",
        done=section.protocols[protocol].fraction_means,
        noun=section.score,
    )
    title, reading = curve_title(section, protocol), _curve_reading(section.protocols[protocol])
    return Figure((chart,), 3, f"{_stem(section, protocol)}-curves", title, reading, protocol, shared_legend=True)


def _curve_reading(protocol: Protocol) -> str:
    """How curves are read: which way is better, or that they are the control of others."""
    drawn = f"Dashed: a random ranking. Bands: {LEVEL} interval of the mean"
    if protocol.test.of == "shifted":
        return (
            "The control with which own masks are compared: the same masks at another place. Where a line lies says "
            f"what the shape of its masks does, not what the estimator found. {drawn}."
        )
    if not protocol.judges:
        return f"Beside the curves of {protocol.family}: neither end is the better one. {drawn}."
    keeps = protocol.higher_is_better
    better = f"{'The higher' if keeps else 'The lower'} the line, the better the estimator "
    better += "chose what to keep" if keeps else "found what matters"
    if protocol.evaluator:
        better += "; the score compares it with the same masks at another place, in bits"
    return f"{better}. {drawn}; they may overlap where the paired verdict is clear."


def _limits(section: Section, series: Sequence[Series]) -> Limits:
    """Where an axis of scores ends: R² may lie below zero."""
    if section.score == "R²":
        return limits_of(value for one in series for value in one.y)
    return share_limits(series, section.chance)


def series_of(section: Section, protocol: str, estimator: str) -> Series:
    """One estimator's line under one protocol."""
    frame = section.curves[protocol]
    own = frame[frame["estimator"] == estimator].sort_values("fraction")
    mean, low, high = (numbers(own[column]) for column in ("mean", "low", "high"))
    return Series(
        estimator,
        section.styles[estimator],
        tuple(own["fraction"].tolist()),
        mean,
        low,
        high,
        tuple(int(n) for n in own["n"]),
        reference=estimator == BASELINE,
    )


def retraining_figures(section: Section) -> list[Figure]:
    """One figure per protocol that was run both with and without retraining, a small chart per estimator."""
    pairs = [(p, section.protocols[p].without_retraining) for p in section.curves]
    return [_retraining(section, p, other) for p, other in pairs if other is not None and other in section.curves]


def _retraining(section: Section, protocol: str, without: str) -> Figure:
    both = section.drawn(without)
    lines = {e: _two_lines(section, protocol, without, e) for e in section.drawn(protocol) if e in both}
    limits = _limits(replace(section, chance=None), [series for two in lines.values() for series in two])
    words = x_label(section, protocol), f"test {section.score}"
    charts = tuple(Chart(e, two, *words, limits, noun=section.score) for e, two in lines.items())
    reading = (
        "Solid: a network that learned the changed images. Dotted: the original network, which never "
        "saw such images. The gap is what learning brings back: information that was there all along, "
        "or a class read off the mask."
    )
    title = retraining_title(section, protocol, without)
    return Figure(charts, 5, f"{_stem(section, protocol)}-retraining", title, reading, protocol)


def _two_lines(section: Section, protocol: str, without: str, estimator: str) -> tuple[Series, ...]:
    """One colour in two line styles: what is told apart is the network, not the estimator."""
    colours = (section.styles[estimator].light, section.styles[estimator].dark)
    networks = {
        "original network": (without, Style(*colours, "dot", "circle-open")),
        "retrained network": (protocol, Style(*colours, "solid", "circle")),
    }
    return tuple(
        replace(series_of(section, name, estimator), label=label, style=style, reference=False)
        for label, (name, style) in networks.items()
    )


# verdicts


@dataclass(frozen=True)
class VerdictTable:
    """The verdicts of one protocol, best first: rows of the results' table with `style`, `control` and `kind`."""

    protocol: Protocol
    rows: tuple[Mapping[str, Any], ...]
    fractions: tuple[float, ...]
    figure: Figure
    unable: bool = False
    """Whether the negative control failed: the protocol tells no method from random rankings here."""

    @property
    def limit(self) -> float:
        """Half the width of the axis."""
        return self.figure.forests[0].limits[1] / 100


def verdict_tables(section: Section) -> list[VerdictTable]:
    """One per protocol that has verdicts; those of a kind share their axis."""
    tables = []
    for group in (section.retrained_protocols, [p for p in section.verdicts if not section.protocols[p].retrains]):
        rows = {p: _verdict_rows(section, p) for p in group}
        limit = _limit([row for part in rows.values() for row in part])
        tables += [_verdict_table(section, p, rows[p], limit) for p in group]
    return tables


def _verdict_rows(section: Section, protocol: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {
            **row,
            "style": section.styles[row["estimator"]],
            "control": row["estimator"] in section.controls,  # whether it is one, not what came of the negative control
            "kind": section.kinds[protocol][row["estimator"]],
        }
        for row in section.verdicts[protocol].to_dict("records")
    )


def _verdict_table(section: Section, protocol: str, rows: Sequence[Mapping[str, Any]], limit: float) -> VerdictTable:
    declared = section.protocols[protocol]
    reading = (
        f"{capital(section.score)} points {'gained' if declared.higher_is_better else 'lost'} against a random "
        f"ranking, averaged over the fractions: right of the line is better. Bars: {LEVEL} interval of each "
        f"estimator alone; the verdict is stricter, since it allows for all {len(rows)} comparisons."
        + (" In brackets: allowing for stopping early." if any(map(stopped_early, rows)) else "")
    )
    forest = Forest(
        tuple(_forest_row(row) for row in rows),
        (-100 * limit, 100 * limit),
        f"← worse than random    advantage in {section.score} points    better than random →",
        zero=True,
    )
    title = verdict_title(section, protocol)
    figure = Figure((forest,), 1, f"{_stem(section, protocol)}-verdicts", title, reading, protocol)
    return VerdictTable(
        section.protocols[protocol],
        tuple(rows),
        tuple(section.verdicts[protocol].attrs.get("fractions", ())),
        figure,
        bool((section.verdicts[protocol]["control"] == "failed").any()),
    )


def _forest_row(row: Mapping[str, Any]) -> ForestRow:
    value, low, high = numbers(100 * row[column] for column in ("advantage", "low", "high"))
    word = {"better": "better", "worse": "worse", "unclear": "cannot tell"}[row["kind"]]
    mark = "hollow" if row["kind"] == "unclear" else "filled"
    return ForestRow(
        row["estimator"],
        row["style"],
        value,
        low,
        high,
        f"{advantage_points(row)}  {word}",
        mark,  # type: ignore[arg-type]
    )


def _limit(rows: Sequence[Mapping[str, Any]]) -> float:
    """Half-width of a forest's axis: all points, and the intervals up to three times the largest."""
    most = max([*(abs(row["advantage"]) for row in rows if known(row["advantage"])), 0.005])
    ends = [abs(row[side]) for row in rows for side in ("low", "high") if known(row[side])]
    return float(1.08 * max(most, min(max([*ends, most]), 3 * most)))


# cost and ties


@dataclass(frozen=True)
class CostTable:
    """Passes and time per image, cheapest first: rows of the results' table with `style`."""

    rows: tuple[Mapping[str, Any], ...]
    figure: Figure


def cost_table(section: Section) -> CostTable | None:
    """Passes and milliseconds per image, cheapest first; None when nothing is known."""
    if section.costs.empty:
        return None
    ordered = section.costs.sort_values(["milliseconds_per_image", "passes"], na_position="last").to_dict("records")
    rows = tuple({**row, "style": section.styles.get(row["estimator"], REFERENCE)} for row in ordered)
    reading = (
        "A pass is one forward and backward pass of the network for one image. The time is the median "
        "over replicates and includes ranking the pixels; it depends on the machine."
    )
    columns = {"milliseconds_per_image": "milliseconds per image", "passes": "passes per image"}
    forests = tuple(_cost_bars(rows, column, title) for column, title in columns.items())
    return CostTable(rows, Figure(forests, 2, "cost", cost_title(section.costs), reading))


def _cost_bars(rows: Sequence[Mapping[str, Any]], column: str, title: str) -> Forest:
    values = numbers(row[column] for row in rows)
    bars = tuple(
        ForestRow(row["estimator"], row["style"], value, words=number(value))
        for row, value in zip(rows, values, strict=True)
    )
    return Forest(bars, (0.0, 1.02 * max((v for v in values if v), default=1.0)), title=title, kind="bars")


def ties_figure(section: Section) -> Figure | None:
    """Share of pixels that only the tie-break ordered, most first; None when none were counted."""
    own = section.own_cells[section.own_cells["ties"].notna()]
    if own.empty:
        return None
    means = own.groupby(["estimator", "fraction"])["ties"].mean()
    shares = {(str(e), float(t)): float(v) for (e, t), v in means.items()}
    fractions = sorted({t for _, t in shares})
    most = {e: max(share for (other, _), share in shares.items() if other == e) for e, _ in shares}
    names = sorted(most, key=lambda e: (-most[e], list(section.styles).index(e)))
    values = tuple(tuple(shares.get((e, t)) for t in fractions) for e in names)
    plot = HeatMap(
        "",
        tuple(percent(t, 0) for t in fractions),
        tuple(names),
        values,
        tuple(tuple(percent(v) for v in row) for row in values),
        "sequential",
        "share of pixels above the cut",
        1.0,
    )
    reading = (
        "Share of the pixels, in an average test image, whose order at a cut was drawn by lot because "
        "the map gave them the same value. Where it is large, the estimator is partly a random ranking."
    )
    return Figure((plot,), 1, "ties", ties_title(shares), reading)


# pictures


def picture_figures(section: Section) -> list[Figure]:
    """One figure per picture and protocol, the pictures of a protocol together: estimators by fractions."""
    there = {p for picture in section.pictures for p, _, _ in picture.changed}
    protocols = [p for p in section.table["protocol"].unique() if p in there]
    return [
        _pictures(section, picture, protocol, place)
        for protocol in protocols
        for place, picture in enumerate(section.pictures, 1)
        if any(p == protocol for p, _, _ in picture.changed)
    ]


def _pictures(section: Section, picture: Picture, protocol: str, place: int) -> Figure:
    changed = {(clean(e), t): a for (p, e, t), a in picture.changed.items() if p == protocol}
    names = _ordered(section, [e for e, _ in changed])
    fractions = sorted({t for _, t in changed})
    keeps = section.protocols[protocol].higher_is_better
    rows = tuple(
        PictureRow(
            e, tuple(_tile(changed.get((e, t)), section.accuracy(protocol, e, t)) for t in fractions), section.styles[e]
        )
        for e in names
    )
    reading = (
        f"Above each image: test {section.score} of {asked_network(section, protocol)[1]}, "
        f"mean over replicates. {'Higher' if keeps else 'Lower'} is better; the best of each column is "
        "bold. The image itself comes from the first replicate."
    )
    heads = tuple(f"{percent(t, 0)} {section.protocols[protocol].fraction_means}" for t in fractions)
    plot = Pictures(heads, with_best(rows, keeps), picture.image, clean(picture.caption), x_label(section, protocol))
    name = f"{protocol.replace(':', '-')}-picture-{place}"
    return Figure((plot,), 1, name, picture_title(section, protocol, fractions), reading, protocol)


def _tile(pixels: np.ndarray | None, accuracy: float) -> Tile:
    return Tile(pixels, percent(accuracy), number_or_none(accuracy))


def with_best(rows: tuple[PictureRow, ...], higher: bool) -> tuple[PictureRow, ...]:
    """The rows with the best value of each column marked."""
    best = [
        (max if higher else min)((tile.value for tile in column if tile.value is not None), default=None)
        for column in zip(*(row.tiles for row in rows), strict=True)
    ]
    return tuple(
        replace(
            row,
            tiles=tuple(
                replace(tile, best=tile.value is not None and tile.value == top)
                for tile, top in zip(row.tiles, best, strict=True)
            ),
        )
        for row in rows
    )


def gallery_figure(section: Section) -> Figure | None:
    """All maps of all pictures, images by estimators; None when there are none."""
    pictures = [p for p in section.pictures if p.maps]
    if not pictures:
        return None
    maps = [{clean(e): a for e, a in picture.maps.items()} for picture in pictures]
    names = _ordered(section, [e for by_name in maps for e in by_name])
    signed = [e for e in names if any(e in m and float(np.nanmin(m[e])) < 0 for m in maps)]
    rows = tuple(
        PictureRow(
            clean(picture.caption),
            tuple(Tile(map_colours(by_name[e]) if e in by_name else None) for e in names),
            image=picture.image,
        )
        for picture, by_name in zip(pictures, maps, strict=True)
    )
    reading = (
        "Red: positive, ranked first; white: zero; blue: negative, ranked last. Each map is scaled by "
        "its own largest size, so colours compare the pixels of one map, not one map with another."
    )
    plot = Pictures(tuple(names), rows, notes=layer_notes(names, section.layers))
    return Figure((plot,), 1, "maps", gallery_title(signed, len(names)), reading)


def _ordered(section: Section, names: Sequence[str]) -> list[str]:
    """Best first as elsewhere; those without a number yet follow in the order of the study."""
    there = set(names)
    return [e for e in dict.fromkeys([*section.estimators, *section.styles]) if e in there]
