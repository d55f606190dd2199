"""What differs between two runs, and whether it matters: settings, values of metrics, verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from uproar.results.study import Results

VALUE = ["task", "model", "metric", "method", "replicate", "fraction", "image"]
"""What a value of `Results.table` is about."""
VERDICT = ["task", "model", "metric", "estimator"]

VERDICT_COLUMNS = {
    **dict.fromkeys(VERDICT, "what the verdict is about"),
    "before": "the verdict of the first run; empty where it has none",
    "after": "the verdict of the second run",
    "advantage_before": "against random: area of a metric, score of an evaluator",
    "advantage_after": "the same of the second run",
    "unit": "of the advantages: accuracy (mean average precision, R²), or bits of an evaluator",
    "change": "reversed, decided, undecided, strengthened, weakened, added, removed, or same",
}
"""The columns of `Difference.verdicts`: of metrics, and of evaluators, whose metric has their target in its name.

A verdict is strengthened where a method is now also better than every model-free baseline, and weakened where it
is so no longer.
"""

_DECISIVE = ("reversed", "decided", "undecided", "strengthened", "weakened")


@dataclass(frozen=True)
class Values:
    """The values that two runs have, of every fraction and image."""

    common: int
    changed: int
    largest: float
    """The largest absolute difference; 0 where nothing is common."""
    added: int
    removed: int

    @property
    def sentence(self) -> str:
        """The counts in words."""
        change = f"{self.changed} of them differ, by up to {self.largest:.3g}" if self.changed else "all equal"
        common = f"{self.common} in both, {change}" if self.common else "none in both"
        return f"{common}; {self.added} added, {self.removed} removed"


@dataclass(frozen=True)
class Difference:
    """Two runs side by side."""

    settings: Mapping[str, tuple[Any, Any]]
    """Settings of the studies that differ, as `recipe.epochs` in a table: before, after; None where one has none."""
    values: Values
    verdicts: pd.DataFrame
    """See VERDICT_COLUMNS."""

    @property
    def decisive(self) -> pd.DataFrame:
        """The verdicts whose side changed: what matters to who relies on them."""
        return self.verdicts[self.verdicts["change"].isin(_DECISIVE)]

    @property
    def sentence(self) -> str:
        """Whether it matters."""
        both = self.verdicts[self.verdicts["change"].isin([*_DECISIVE, "same"])]
        if not len(both):
            return "The runs have no verdict in common."
        counts = self.decisive["change"].value_counts()
        if not len(counts):
            return f"It does not matter: all {len(both)} verdicts that both have are the same."
        parts = ", ".join(f"{counts[kind]} {kind}" for kind in _DECISIVE if kind in counts)
        return f"It matters: of {len(both)} verdicts that both have, {parts}."


def compare(before: Results, after: Results) -> Difference:
    """What changed from one run to another."""
    settings = differing_settings(before.study, after.study)
    values = _compare_values(*(run.table[run.table["status"] == "done"] for run in (before, after)))
    return Difference(settings, values, _compare_verdicts(_verdicts(before), _verdicts(after)))


def differing_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings that differ, with both values; of a table of settings those in it that do.

    >>> differing_settings({"fill": "mean", "recipe": {"epochs": 2, "lr": 0.1}}, {"recipe": {"epochs": 1, "lr": 0.1}})
    {'fill': ('mean', None), 'recipe.epochs': (2, 1)}
    """
    differing: dict[str, tuple[Any, Any]] = {}
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            differing |= {f"{name}.{setting}": values for setting, values in differing_settings(old, new).items()}
        elif old != new:
            differing[name] = old, new
    return differing


def _compare_values(before: pd.DataFrame, after: pd.DataFrame) -> Values:
    both = before.merge(after, on=VALUE, how="outer", suffixes=("_before", "_after"), indicator=True)
    common = both[both["_merge"] == "both"]
    gaps = (common["value_after"] - common["value_before"]).abs()
    changed = (gaps > 0) | (common["value_after"].isna() != common["value_before"].isna())
    sides = both["_merge"].value_counts()
    largest = float(gaps.max()) if gaps.notna().any() else 0.0
    return Values(len(common), int(changed.sum()), largest, int(sides["right_only"]), int(sides["left_only"]))


def _verdicts(run: Results) -> pd.DataFrame:
    """The verdicts of all metrics and evaluators of a run."""
    wanted = [*VERDICT, "unit", "verdict", "advantage", "side"]
    frames = [run.verdicts.assign(unit="accuracy")] if len(run.verdicts) else []
    for view in run.views:
        for scores in view.evaluators.values():
            frame = scores.verdicts.rename(columns={"over_random": "advantage"})
            frames.append(frame.assign(task=view.task, model=view.model, metric=scores.name, unit="bits"))
    filled = [frame[wanted] for frame in frames if len(frame)]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame(columns=wanted)


def _compare_verdicts(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    about = [*VERDICT, "unit"]
    joined = before.merge(after, on=about, how="outer", suffixes=("_before", "_after"), sort=False)
    joined["change"] = [_change(old, new) for old, new in zip(joined["side_before"], joined["side_after"], strict=True)]
    renamed = joined.rename(columns={"verdict_before": "before", "verdict_after": "after"})
    return renamed[list(VERDICT_COLUMNS)]


def _change(before: float, after: float) -> str:
    """What became of the side of a verdict; NaN where a run has none."""
    if pd.isna(before) or pd.isna(after):
        return "added" if pd.isna(before) else "removed"
    if before == after:
        return "same"
    if before * after < 0:
        return "reversed"
    if before * after > 0:
        return "strengthened" if after > before else "weakened"
    return "decided" if before == 0 else "undecided"
