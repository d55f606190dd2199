"""Figures of findings: a column and its label as one pair, an interval and a reference line as one option each."""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd

from uproar.results.finding import Kind, Plot

Labelled = tuple[str, str]
"""A column, and the words beside its axis."""

REMOVED = ("fraction", "share removed")


def plot(
    kind: Kind,
    name: str,
    title: str,
    reading: str,
    data: pd.DataFrame,
    x: Labelled,
    y: Labelled,
    series: str | None = None,
    *,
    band: bool = False,
    reference: tuple[float, str] | None = None,
    **style: Any,
) -> Plot:
    """A figure of a tidy table; `band` draws its columns `low` and `high`, `reference` a labelled horizontal line."""
    low, high = ("low", "high") if band else (None, None)
    level, label = reference or (None, "")
    options: dict[str, Any] = {"series": series, "low": low, "high": high, "reference": level, "reference_label": label}
    return Plot(name, kind, title, reading, data, x[0], y[0], x[1], y[1], **options, **style)


lines = functools.partial(plot, "lines")
bars = functools.partial(plot, "bars")
scatter = functools.partial(plot, "scatter")
heat_map = functools.partial(plot, "heatmap")
