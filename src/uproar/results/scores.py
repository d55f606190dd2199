"""Metrics of maps as plain tables and arrays: what scoring hands over to reporting."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from uproar.results.answer import Answer
from uproar.results.evaluator import EvaluatorBits, EvaluatorScores
from uproar.results.evidence import NegativeControl, answer_of_scores, metric_controls
from uproar.results.quality import NetworkQuality, Prediction
from uproar.statistics.comparisons import COLUMNS as PAIR_COLUMNS
from uproar.types import Role
from uproar.wording import counted

COLUMNS = {
    "method": "whose maps",
    "role": "what the maps are: method, baseline (never looks at the network), random, or truth (told where to look)",
    "metric": "as asked for",
    "value": "mean over images, or the data set's own statistic",
    "low": "lower end of the 95 % interval: Student's t over images and replicates",
    "high": "upper end",
    "median": "the median over images and replicates",
    "n": "images",
    "nan": "images where the metric is not defined; they are left out",
    "higher_is_better": "the metric's direction",
    "ranked": "whether the metric is defined for enough images (`MOST_UNDEFINED`) to take part in rankings",
    "tied": "mean share of pixels whose value another pixel of the map has too",
    "note": "what to keep in mind",
}
"""The columns of `Scores.table`."""


MOST_UNDEFINED = 0.1
"""The share of images for which a metric may be undefined before a method is not ranked by it.

A method is then judged by other images than its rivals, and which images those are is the method's own doing: beyond a
tenth of them, that choice can be larger than any difference between methods.
"""


def is_ranked(n: int, undefined: int) -> bool:
    """Whether a metric that is undefined for some of `n` images still ranks a method.

    >>> is_ranked(500, 50), is_ranked(500, 51), is_ranked(3, 3)
    (True, False, False)
    """
    return undefined < n and undefined <= MOST_UNDEFINED * n


def why_unranked(n: int, undefined: int) -> str:
    """The note on a method that a metric does not rank; nothing where it does.

    >>> why_unranked(500, 51)
    'not ranked: undefined for 51 of 500 images'
    """
    return "" if is_ranked(n, undefined) else f"not ranked: undefined for {undefined} of {n} images"


def with_rank(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with `n`, `nan` and `note`, with `ranked` beside them and the reason in the note where that is False."""
    why = why_unranked(row["n"], row["nan"])
    note = "; ".join(text for text in (why, row["note"]) if text)
    return {**row, "ranked": not why, "note": note}


COMPARISON_COLUMNS = {"metric": "as asked for", **PAIR_COLUMNS}
"""The columns of `Scores.comparisons`. Where `uproar choose` planned several analyses, the column `analyses` says how
many, and `p_holm` is also multiplied by their number."""


@dataclass(frozen=True)
class Line:
    """A mean curve: its points, half the width of their 95 % intervals, and the images behind them."""

    mean: np.ndarray
    half: np.ndarray
    n: np.ndarray


@dataclass(frozen=True)
class Curves:
    """The mean curves of one metric over the fractions, by method."""

    fractions: np.ndarray
    lines: Mapping[str, Line]
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    """The curves of single images, (n, points) by method, where they are kept."""


@dataclass(frozen=True)
class Scores:
    """Everything a report of scores needs."""

    table: pd.DataFrame
    """One row per method and metric; see COLUMNS."""
    per_image: pd.DataFrame
    """One row per method, metric and image: `image`, `value` (NaN where not defined)."""
    comparisons: pd.DataFrame
    """One row per metric and pair of methods; see COMPARISON_COLUMNS."""
    curves: Mapping[str, Curves] = field(default_factory=dict)
    """By metric, where it has curves."""
    traces: Mapping[str, Curves] = field(default_factory=dict)
    """By metric, where a statistic of the data set is a curve: over levels, not fractions."""
    forwards: int = 0
    """Images shown to the model, clean ones included."""
    images: np.ndarray | None = None
    """The images, (n, c, h, w) in [0, 1], or the first of them."""
    maps: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Maps by method for those images."""
    titles: tuple[str, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    """What the network says of those images."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    replicates: int = 1
    """How many networks the numbers are means of."""
    quality: NetworkQuality | None = None
    """How often the network is right on the images; None where nobody asked it."""
    costs: pd.DataFrame = field(default_factory=lambda: pd.DataFrame())
    """One row per method that was explained here: estimator, passes, milliseconds_per_image."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Methods that were asked for and could not be scored, with the reason."""
    evaluations: Mapping[str, EvaluatorBits] = field(default_factory=dict)
    """By target (label or answer): what evaluators say, where there were training images for them."""
    layers: Mapping[str, str] = field(default_factory=dict)
    """By method, where it looks at layers of the network: their names."""

    @functools.cached_property
    def roles(self) -> Mapping[str, Role]:
        """What each method of the table is."""
        return dict(zip(self.table["method"].map(str), self.table["role"], strict=True))

    @functools.cached_property
    def evaluators(self) -> Mapping[str, EvaluatorScores]:
        """What the evaluators say, by target."""
        return {target: EvaluatorScores(bits, target=target) for target, bits in self.evaluations.items()}

    @functools.cached_property
    def negative_controls(self) -> Mapping[str, NegativeControl]:
        """By metric, where random maps were scored: whether it tells any method from them."""
        return metric_controls(self.comparisons, self.table)

    @functools.cached_property
    def answer(self) -> Answer:
        """Which method to use, as far as the metrics can tell."""
        return answer_of_scores(self)

    def __repr__(self) -> str:
        methods, metrics = self.table["method"].nunique(), self.table["metric"].nunique()
        return f"<Scores of {counted(methods, 'method')} by {counted(metrics, 'metric')}: {self.answer.sentence}>"

    def _repr_html_(self) -> str:
        from uproar.results.html import scores_html

        return scores_html(self)
