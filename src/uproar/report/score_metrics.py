"""What a metric's name stands for: its direction, how it is to be read, and what its curve shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from uproar.errors import UproarError
from uproar.expression import parse
from uproar.metrics import metrics
from uproar.registry import Entry
from uproar.report.words import clean, number


@dataclass(frozen=True)
class Metric:
    """A metric as it was asked for; `entry` is None where nothing of that name is declared here."""

    name: str
    higher: bool
    entry: Entry | None
    options: Mapping[str, Any]

    @property
    def arrow(self) -> str:
        return "↑" if self.higher else "↓"

    @property
    def direction(self) -> str:
        return "higher is better" if self.higher else "lower is better"

    @property
    def describes(self) -> bool:
        """Whether it describes the map, and does not judge whether it is right."""
        return str(self.fact("biases")).startswith("describes the map")

    @property
    def whole(self) -> bool:
        """Whether its number is a statistic of all images together, not their mean."""
        return bool(self.fact("whole"))

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
    """Where a line is drawn across, and why."""
    level_label: str = ""
    remark: str = ""


def metric_of(name: str, label: str, higher: bool) -> Metric:
    """The metric of a name in a table; `label` is how it is printed."""
    try:
        call = parse(name)
        entry = metrics[call.name]
        return Metric(label, higher, entry, entry.bind(**dict(call.options)))
    except UproarError:
        return Metric(label, higher, None, {})


def guide_of(metric: Metric) -> dict[str, Any]:
    """How the metric is to be read, as lines of names and values; what is not known is left out."""
    summary = metric.entry.summary if metric.entry else "No metric of this name is declared here."
    lines = {
        "Better": "higher" if metric.higher else "lower",
        "Range": _range(metric),
        "Random maps get": metric.fact("chance"),
        "Formula": metric.fact("formula"),
        "Beware": metric.fact("biases"),
        "Of a data set": "a statistic of all images together, not a mean" if metric.whole else "",
        "Needs": metric.fact("needs"),
        "Paper": metric.fact("paper"),
    }
    facts = [{"name": name, "value": clean(value)} for name, value in lines.items() if value]
    return {
        "name": metric.name, "arrow": metric.arrow, "direction": metric.direction,
        "summary": clean(summary), "facts": facts, "describes": metric.describes,
    }  # fmt: skip


def _range(metric: Metric) -> str:
    if metric.entry is None or "low" not in metric.entry.facts:
        return ""
    ends = [float(metric.fact(side)) for side in ("low", "high")]
    low, high = ("any size" if math.isinf(end) else number(end).replace("-", "−") for end in ends)
    return f"{low} to {high}"


def axes_of(metric: Metric) -> Axes:
    """The axes of the metric's curve, from its name and options; plain words for one that is not known."""
    name = metric.entry.name if metric.entry else ""
    base = name.partition(":")[0]
    noun = str(metric.options.get("by", "probability"))
    noun = noun if noun in ("accuracy", "probability", "logit") else "value"
    score = noun if noun in ("accuracy", "value") else f"{noun} of the target"
    if name.endswith(":gradcam") and base.startswith("road"):
        return Axes("percentile of the map at the cut", "change of probability", "change", "percentile")  # fmt: skip
    if base == "soundness":
        return _soundness(metric, score, noun)
    if base == "completeness":
        noun = str(metric.options.get("by", "accuracy"))
        return Axes("share of the range cut off", f"{noun} lost", f"{noun} lost",
                    "of the range cut off", remark=_COMPLETENESS)  # fmt: skip
    if name == "road_lerf:leemann":
        return Axes("share of pixels kept", score, noun, "kept", remark=_MOST)
    removed = {
        "insertion": ("inserted", score, _MOST),
        "deletion": ("deleted", score, _MOST),
        "road": ("removed", score, _MOST),
        "road_lerf": ("removed", score, "The least important pixels go first."),
        "road_gap": ("removed", f"{noun}, least − most first", ""),
    }
    if base in removed:
        word, y, remark = removed[base]
        return Axes(f"share of pixels {word}", y, noun, word, remark=remark)
    return Axes("fraction", "value", "value", "")


_MOST = "The most important pixels go or come first."
_COMPLETENESS = (
    "At the share r all pixels go whose value exceeds (1 − r) · the map's maximum; how many these are "
    "differs between maps."
)


def _soundness(metric: Metric, score: str, noun: str) -> Axes:
    level = metric.options.get("level")
    return Axes(
        "share of pixels still hidden", score, noun, "hidden",
        reversed=True, level=level, level_label="level",
        remark="Pixels come in from left to right, the most important first. The lines are the "
               f"{score} that decides which attribution counts as false, not soundness itself: that "
               "is the sound share of the attribution shown when the line of the data set first reaches the level.",
    )  # fmt: skip
