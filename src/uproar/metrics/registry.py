"""The registry of metrics: what a metric asks of the model, and its value for each image and for a data set.

A metric is a function `(batch, outputs) -> responses`, one row per image. `outputs` holds the model's outputs to the
changed images that the metric asked for (`asks=`); asking for the same change as another metric costs nothing, since
each changed image is shown to the model once. Responses are tensors by name; `value` is the number of the image, NaN
where it is not defined there. A metric of a data set (`statistic=`) also has a statistic of all responses together,
which the bootstrap repeats: such a number is not a mean over images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor

from uproar.errors import BadInput
from uproar.expression import Call, parse
from uproar.guard import guarded_call
from uproar.metrics.changes import Change
from uproar.registry import Entry, Registry
from uproar.statistics.bootstrap import resampled_images
from uproar.training.finetune import FineTuning
from uproar.types import KINDS
from uproar.types import Kind as OutputKind


@dataclass(frozen=True)
class Axis:
    """A fact of a metric whose responses hold a `curve`.

    In texts `{by}` is what the metric follows (its option `by`; probability where it has none), `{score}` the same as
    the words of an axis: "accuracy", "probability of the target".
    """

    points: Callable[..., Sequence[float]]
    """`points(shape, **options)`: where the points lie, for images of shape (c, h, w)."""
    x: str = "fraction"
    y: str = "{score}"
    noun: str = "{by}"
    """The value at one point."""
    done: str = ""
    """What happened to so many percent."""
    falls: bool = False
    """Whether the fraction falls from left to right."""
    of_shown: bool = False
    """Whether the fraction is the share of pixels that the model is shown; else that of pixels removed."""
    level: str = ""
    """The option that holds a level at which the curve is read."""
    remark: str = ""


@dataclass(frozen=True)
class Trace:
    """A fact of a metric that is a statistic of a data set: that statistic wherever it could be read, as a curve."""

    levels: tuple[float, ...]
    of: Callable[..., Tensor]
    """`of(responses, levels, **options)`: the statistic at each level, NaN where it is not reached."""
    x: str
    y: str


MOST_FIRST = "The most important pixels go or come first."


def of_pixels(
    points: Callable[..., Sequence[float]],
    done: str,
    remark: str = MOST_FIRST,
    y: str = "{score}",
    of_shown: bool = False,
) -> Axis:
    """A curve over the share of pixels to which something was done."""
    return Axis(points, f"share of pixels {done}", y, done=done, of_shown=of_shown, remark=remark)


metrics = Registry("metric", "uproar.metrics")

CHECKS = {"sanity": "randomisation(order=whole)", "stability": "sensitivity_max(samples=1)"}
"""Metrics of some test images that raise warnings: one map more per image each."""
metrics.aliases = CHECKS
CHECK_IMAGES = 64
"""Test images that checks look at in every replicate, drawn at random where there are more."""

Responses = dict[str, Tensor]
Uses = Literal["order", "values"]
Kind = Literal["maps", "retraining", "evaluator"]
"""What gives a metric its numbers: the maps of single images and the explained network, networks that are trained on
changed images, or an evaluator. The first need no study."""
TrueTo = Literal["model", "data", "map", ""]
"""Which question a metric answers (Chen et al. 2020: true to the model or true to the data); "" is not said."""
QUESTIONS: dict[TrueTo, str] = {
    "model": "the model: what this network uses",
    "data": "the data: what tells the class, whatever this network uses",
    "map": "neither the model nor the data: how the map looks, or how stable it is",
    "": "",
}


def metric(
    *,
    higher_is_better: bool,
    low: float,
    high: float,
    chance: str,
    biases: str = "",
    paper: str = "",
    formula: str = "",
    asks: Callable[..., Sequence[Change]] | None = None,
    statistic: Callable[..., float] | None = None,
    needs: str = "",
    describes: bool = False,
    uses: Uses | Callable[..., Uses] = "order",
    true_to: TrueTo = "",
    axis: Axis | None = None,
    trace: Trace | None = None,
    kinds: tuple[OutputKind, ...] | None = None,
    kind: Kind = "maps",
    fine_tuning: Callable[..., FineTuning] | None = None,
    version: int = 1,
    name: str | None = None,
) -> Callable[[Callable], Callable]:
    """Declare `(batch, [outputs], *, options) -> responses` under a name.

    `asks(shape, **options)` lists the changes it needs for images of shape (c, h, w); `low` and `high` bound the value;
    `chance` says what a random map gets; `statistic(responses, **options)` is the statistic of a data set where that
    is not the mean of `value`;
    `describes` is true of a metric that only says what a map looks like; `uses` (or `uses(**options)`) says whether the
    values of the map count or only the order of its pixels; `true_to` which question it answers (`QUESTIONS`);
    `axis` says what the points of `curve` mean; `trace` is the statistic of a data set as a curve;
    `fine_tuning(**options)` says how the network is fine-tuned: a metric that declares it gets a batch
    whose `model` and `clean` are those of the fine-tuned copy; `kinds` are the kinds of model outputs that it serves:
    by default all where it asks the model nothing, else those of a softmax; `kind` is "maps" for what users declare. A
    name such as `road:gradcam` says that it
    is another form of `road`, e.g. as released code computes it.
    """
    facts = {fact: value for fact, value in locals().items() if fact != "name"}
    facts["kinds"] = kinds or (KINDS if asks is None else ("softmax",))
    return metrics.declare(name, ("batch", "outputs"), **facts)


def read_metric(text: str) -> Call:
    """The metric a text names, e.g. `insertion(steps=50)`; its name and options are checked here."""
    call = parse(CHECKS.get(text, text))
    if call.args:
        raise BadInput(f"The metric {call.name!r} takes options such as steps=50, not {call.args[0]}.")
    bound(call)
    return call


def read_metric_of_maps(text: str) -> Call:
    """The same for maps that are there already: a metric that needs a study is refused."""
    call = read_metric(text)
    if metrics[call.name].facts["kind"] != "maps":
        raise BadInput(f"The metric {call} trains or asks networks of a study: uproar run --metrics {call}.")
    return call


def bound(call: Call) -> tuple[Entry, dict[str, Any]]:
    """The metric of a call and all its options, those that are not given at their defaults."""
    entry = metrics[call.name]
    return entry, entry.bind(**dict(call.options))


def fact_of(metric: str, name: str) -> Any:
    """A fact of a metric; of one that depends on the options of the text (`uses`, `fine_tuning`), what it is there."""
    entry, options = bound(read_metric(metric))
    fact = entry.facts.get(name)
    return fact(**options) if callable(fact) else fact


def family_of(name: str) -> str:
    """The metric of which one is another form, as `road` of `road:gradcam`; its own name where it is none."""
    return name.partition(":")[0]


def judges(metric: str) -> bool:
    """Whether a metric says that a map is good, and not only what it looks like."""
    return not fact_of(metric, "describes")


def uses_order(metric: str) -> bool:
    """Whether only the order of a map's pixels counts, with the options of the text."""
    return bool(fact_of(metric, "uses") == "order")


def fine_tuning_of(metric: str) -> FineTuning | None:
    """How the network of a metric is fine-tuned; None where it is the explained one."""
    tuning: FineTuning | None = fact_of(metric, "fine_tuning")
    return tuning


def sign_of(metric: str) -> int:
    """1 where higher values of a metric are better, −1 where lower ones are."""
    return 1 if fact_of(metric, "higher_is_better") else -1


def data_set_statistic(named: Call, samples: Iterable[Responses]) -> list[float]:
    """The statistic of a data set that a metric declares (`statistic=`), for each of some samples of responses."""
    entry, options = bound(named)
    compute, owner = entry.facts["statistic"], f"The metric {entry.name}"
    return [float(guarded_call(owner, compute, [sample], options)) for sample in samples]


def resampled_statistic(named: Call, responses: Responses, seed: int = 0) -> np.ndarray | None:
    """The statistic of a data set for bootstrap resamples of the images; None for a metric that is a mean over images.

    The resamples are the same for every method. NaN where a resample has no defined image.
    """
    if metrics[named.name].facts["statistic"] is None:
        return None
    rows = resampled_images(len(responses["value"]), seed=seed)
    return np.array(data_set_statistic(named, ({name: values[r] for name, values in responses.items()} for r in rows)))
