"""Curves and scores on axes of Matplotlib, for people who restyle them: `answer.plot()`, `curve.plot()`.

Each function draws on the axes it is given, or on new ones, and gives them back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from uproar.errors import BadInput

BAND = {"color": "0.6", "linewidth": 1.0, "zorder": 1}
"""How baselines are drawn: behind the methods."""


def axes_or_new(axes: Any) -> Any:
    """The axes, or those of a new figure."""
    if axes is not None:
        return axes
    try:
        import matplotlib.pyplot as plt  # plots load slowly
    except ImportError:
        raise BadInput("Plots need matplotlib, which is not installed: pip install 'uproar[report]'.") from None
    return plt.subplots(layout="constrained")[1]


def plot_curves(
    fractions: np.ndarray,
    means: Mapping[str, np.ndarray],
    halves: Mapping[str, np.ndarray],
    baselines: Collection[str] = (),
    x: str = "share of pixels",
    y: str = "",
    axes: Any = None,
) -> Any:
    """Mean curves with their 95 % intervals, methods in colours, baselines thin and grey behind them."""
    axes, unnamed = axes_or_new(axes), True
    for name, mean in means.items():
        if name in baselines:
            axes.plot(fractions, mean, **BAND, linestyle="--", label="baselines" if unnamed else f"_{name}")
            unnamed = False
            continue
        (line,) = axes.plot(fractions, mean, label=name, zorder=3)
        half = halves.get(name)
        if half is not None and np.isfinite(half).any():
            axes.fill_between(fractions, mean - half, mean + half, color=line.get_color(), alpha=0.15, zorder=2)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.legend(fontsize="small")
    return axes


def plot_scores(table: pd.DataFrame, title: str = "", axes: Any = None) -> Any:
    """Every method of one metric by its value with the 95 % interval, best on top; baselines as a grey band.

    `table` has the columns of `Scores.table`, those of one metric.
    """
    axes = axes_or_new(axes)
    higher = bool(table["higher_is_better"].iloc[0])
    rows = table[table["role"] == "method"].sort_values("value", ascending=higher)
    baselines = table[table["role"] != "method"]
    places = np.arange(len(rows))
    value = rows["value"].to_numpy(dtype=float)
    errors = np.abs(np.stack([value - rows["low"], rows["high"] - value]).astype(float))
    axes.errorbar(value, places, xerr=np.nan_to_num(errors), fmt="o", capsize=3)
    axes.set_yticks(places, rows["method"])
    if len(baselines):
        axes.axvspan(baselines["value"].min(), baselines["value"].max(), color="0.9", zorder=0, label="baselines")
        axes.legend(fontsize="small")
    axes.set_xlabel(f"{title} ({'higher' if higher else 'lower'} is better)")
    return axes
