"""The board of metrics as data and as the part of its page that follows from the data."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from uproar.results.board import COLUMNS, LEAST, Card, cards


def board_page(table: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    """What the board says, in Markdown: a row per metric, the higher of the lower τ first."""
    head = [
        "metric",
        "whole order",
        "top k",
        "held out",
        "baselines",
        "real pictures",
        "degraded",
        "trusted",
        "fooled by",
    ]
    lines = [f"|{'|'.join(head)}|", "|---" * len(head) + "|"]
    for card in cards(table):
        order, top, baselines, degraded = (_two(card.tau(by).value) for by in ("order", "top", "baselines", "degraded"))
        held_out = "/".join(_two(card.tau(by, "held-out").value) for by in ("order", "top"))
        trusted = "**yes**" if card.trusted else "no"
        natural = _two(card.tau("baselines", "natural").value)
        cells = [f"`{short(card.metric)}`", order, top, held_out, baselines, natural, degraded, trusted, _fooled(card)]
        lines.append(f"|{'|'.join(cells)}|")
    provenance = (
        f"`{facts['command']}`, uproar {facts['version']}, torch {facts['torch']}, {facts['minutes']} minutes of "
        "processor time. Numbers are τ: whole order, top k and *held out* (both, on the held-out networks alone) on "
        "made-up images, *real pictures* of methods against baselines there, *baselines* and *degraded* on all "
        "networks. The last column has the maps that fool the metric, each with the number of networks on which it "
        "does; impostors are **bold**."
    )
    return "\n".join([provenance, "", *lines, ""])


def _two(tau: float) -> str:
    """Two digits, with a minus sign and without one before zero; a dash where nothing was measured."""
    return "–" if math.isnan(tau) else f"{round(tau, 2) + 0.0:.2f}".replace("-", "−")


def short(metric: str) -> str:
    """A metric as a table has room for it: of many shares the first and the last.

    >>> short("road(by=probability, fractions=[0, 0.1, 0.2, 0.3])")
    'road(by=probability, fractions=[0, …, 0.3])'
    """
    return re.sub(r"\[([\d.]+), (?:[\d.]+, ){2,}([\d.]+)\]", r"[\1, …, \2]", metric)


def _fooled(card: Card) -> str:
    """Impostors by name, adversaries by what they are made by, with the number of networks."""
    families: dict[str, set[str]] = {}
    for name, where in card.fooled_by(impostors=False).items():
        families.setdefault(name.partition("(")[0], set()).update(where)
    impostors = [f"**{name}** {len(where)}" for name, where in card.fooled_by(impostors=True).items()]
    return ", ".join([*impostors, *(f"{name} {len(where)}" for name, where in families.items())]) or "–"


def board_figure(table: pd.DataFrame) -> Figure:
    """τ of every metric by both definitions of right, with intervals, the best at the top."""
    shown = cards(table)[::-1]
    figure = Figure(figsize=(9, 0.24 * len(shown) + 1), layout="constrained")
    axes = figure.subplots()
    for by, words, mark, shift in (("order", "whole order", "o", 0.12), ("top", "top k", "s", -0.12)):
        taus = [card.tau(by) for card in shown]
        heights = [row + shift for row in range(len(shown))]
        axes.hlines(heights, [tau.low for tau in taus], [tau.high for tau in taus], color="0.75", linewidth=1)
        axes.plot([tau.value for tau in taus], heights, mark, markersize=4, label=words)
    axes.margins(y=0.02)
    axes.set_yticks(
        range(len(shown)), [short(card.metric).replace("by=probability, fractions=", "") for card in shown], fontsize=7
    )
    axes.axvline(0, color="0.5", linewidth=0.7)
    axes.axvline(LEAST, color="0.5", linewidth=0.7, linestyle=":")
    axes.set_xlabel("Kendall's τ (dotted: trust)")
    figure.legend(loc="outside upper right", ncols=2)
    return figure


def board_json(table: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    """The same as data, a row a line."""
    rows = [
        json.dumps([None if isinstance(v, float) and not math.isfinite(v) else v for v in row], ensure_ascii=False)
        for row in table.round(4)[[*COLUMNS]].to_numpy(dtype=object).tolist()
    ]
    head = json.dumps({**facts, "columns": [*COLUMNS]}, ensure_ascii=False)[:-1]
    return head + ', "rows": [\n' + ",\n".join(rows) + "\n]}\n"
