"""What a metric's name stands for: its direction, how it is to be read, and what its curve shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from uproar.errors import UproarError
from uproar.expression import parse
from uproar.metrics import metrics
from uproar.metrics.axis import Axis
from uproar.metrics.registry import QUESTIONS
from uproar.registry import Entry
from uproar.report.formatting import clean, number, shortened
from uproar.results.recovery import recovery_words


@dataclass(frozen=True)
class Metric:
    """A metric as it was asked for; `entry` is None where nothing of that name is declared here."""

    name: str
    higher: bool
    entry: Entry | None
    options: Mapping[str, Any]
    asked: str = ""
    """With its options, as it was asked for."""
    unable: bool = False
    """Whether its negative control failed: it tells no method from random maps here."""

    @property
    def arrow(self) -> str:
        return "↑" if self.higher else "↓"

    @property
    def short_title(self) -> str:
        """Above a small plot."""
        return f"{shortened(self.name, 24)} {self.arrow}"

    @property
    def direction(self) -> str:
        return "higher is better" if self.higher else "lower is better"

    @property
    def describes(self) -> bool:
        """Whether it describes the map, and does not judge whether it is right."""
        return bool(self.fact("describes"))

    @property
    def recovery(self) -> str:
        """How well it recovers known orders, in words; empty where the board has not asked it, or it only describes."""
        return "" if self.entry is None or self.describes else recovery_words(self.asked, interval=False)

    @property
    def is_statistic(self) -> bool:
        """Whether its number is a statistic of all images together, not their mean."""
        return bool(self.fact("statistic"))

    def fact(self, name: str) -> Any:
        return self.entry.facts.get(name, "") if self.entry is not None else ""


@dataclass(frozen=True)
class Axes:
    """The words beside a curve: what its points mean."""

    x: str
    y: str
    noun: str
    """The value, in the readout at one point."""
    word: str
    """What happened to so many percent, in the same place."""
    reversed: bool = False
    level: float | None = None
    """Where a line is drawn across."""
    remark: str = ""


def metric_of(name: str, label: str, higher: bool) -> Metric:
    """The metric of a name in a table; `label` is how it is printed."""
    try:
        call = parse(name)
        entry = metrics[call.name]
        return Metric(label, higher, entry, entry.bind(**dict(call.options)), name)
    except UproarError:
        return Metric(label, higher, None, {})


def guide_of(metric: Metric) -> dict[str, Any]:
    """How the metric is to be read, as lines of names and values; what is not known is left out."""
    summary = metric.entry.summary if metric.entry else "No metric of this name is declared here."
    lines = {
        "Better": "higher" if metric.higher else "lower",
        "Range": _range(metric),
        "True to": QUESTIONS.get(metric.fact("true_to"), ""),
        "Recovery of known orders": "" if metric.describes else recovery_words(metric.asked),
        "Random maps get": metric.fact("chance"),
        "Formula": metric.fact("formula"),
        "Beware": metric.fact("biases"),
        "Of a data set": "a statistic of all images together, not a mean" if metric.is_statistic else "",
        "Needs": metric.fact("needs"),
        "Paper": metric.fact("paper"),
    }
    facts = {name: clean(value) for name, value in lines.items() if value}
    about = {"name": metric.name, "arrow": metric.arrow, "describes": metric.describes}
    return {**about, "summary": clean(summary), "facts": facts}


def _range(metric: Metric) -> str:
    if metric.entry is None or "low" not in metric.entry.facts:
        return ""
    ends = [float(metric.fact(side)) for side in ("low", "high")]
    low, high = ("any size" if math.isinf(end) else number(end).replace("-", "−") for end in ends)
    return f"{low} to {high}"


def axes_of(metric: Metric) -> Axes:
    """The words beside the metric's curve, as it declares them; plain ones for a metric that is not known."""
    axis = metric.fact("axis")
    if not isinstance(axis, Axis):
        return Axes("fraction", "value", "value", "")
    by = str(metric.options.get("by", "probability"))
    words = {"by": by, "score": by if by == "accuracy" else f"{by} of the target"}
    level = metric.options.get(axis.level)
    if not isinstance(level, float):  # several levels are not one line
        level = None
    texts = (axis.x, axis.y, axis.noun, axis.done, axis.remark)
    x, y, noun, done, remark = (text.format(**words) for text in texts)
    return Axes(x, y, noun, done, axis.falls, level, remark)
