"""The registry of metrics: what a metric asks of the model, and its value for each image and for a data set.

A metric is a function `(batch, outputs) -> responses`, one row per image. `outputs` holds the model's outputs to the
changed images that the metric asked for (`asks=`); asking for the same change as another metric costs nothing, since
each changed image is shown to the model once. Responses are tensors by name; `value` is the number of the image, NaN
where it is not defined there. A metric of a data set (`statistic=`) also has a statistic of all responses together,
which the bootstrap repeats: such a number is not a mean over images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from torch import Tensor, nn

from uproar.errors import BadInput
from uproar.expression import Call, parse
from uproar.guard import guarded_call
from uproar.registry import Entry, Registry
from uproar.seeds import Draws
from uproar.statistics.bootstrap import resampled_images
from uproar.training.finetune import FineTuning
from uproar.types import KINDS, Images, Kind, Labels, Maps


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

Responses = dict[str, Tensor]
SHOWN = "shown"
"""The response that counts images which a metric showed to the model beside those of `asks`, where that depends on the
image."""
Uses = Literal["order", "values"]
TrueTo = Literal["model", "data", "map", ""]
"""Which question a judge of maps answers (Chen et al. 2020: true to the model or true to the data); "" is not said."""
QUESTIONS: dict[TrueTo, str] = {
    "model": "the model: what this network uses",
    "data": "the data: what tells the class, whatever this network uses",
    "map": "neither the model nor the data: how the map looks, or how stable it is",
    "": "",
}


@dataclass(frozen=True)
class Batch:
    """Some images with their maps, and what surrounds them."""

    model: nn.Module
    x: Images
    target: Labels
    """The class whose score is followed."""
    maps: Maps
    clean: Tensor
    """The model's outputs to the unchanged images, (n, k), as the model gives them (logits)."""
    draws: Draws
    mean: Tensor | None = None
    """Mean colour of the training images, (c,)."""
    truth: Tensor | None = None
    """The important pixels, (n, h, w) bool, where they are known; those in the boxes where only boxes are."""
    explain: Callable[[nn.Module, Images, Labels, Draws], Maps] | None = None
    """Makes maps of other images or of another model, where the maps came from an estimator."""
    train: Tensor | None = None
    """Training images, for fills that draw from them."""
    boxed: Tensor | None = None
    """The pixels in the boxes around what is important, (n, h, w) bool, where boxes are known."""
    fine_tuned: Callable[[FineTuning], nn.Module] | None = None
    """Copies of the model, fine-tuned on the training images, where these are known; each is made once."""


@runtime_checkable
class Change(Protocol):
    """One way of changing images; equal changes are made and shown to the model once. Must be hashable."""

    def images(self, batch: Batch) -> Images:
        """The changed images."""


Outputs = Mapping[Change, Tensor]
"""The model's outputs by change, (n, k) each."""


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
    forwards: Callable[..., float] | float = 0,
    statistic: Callable[..., float] | None = None,
    needs: str = "",
    describes: bool = False,
    variant_of: str = "",
    uses: Uses | Callable[..., Uses] = "order",
    true_to: TrueTo = "",
    axis: Axis | None = None,
    trace: Trace | None = None,
    kinds: tuple[Kind, ...] | None = None,
    fine_tuning: Callable[..., FineTuning] | None = None,
    version: int = 1,
    name: str | None = None,
) -> Callable[[Callable], Callable]:
    """Declare `(batch, [outputs], *, options) -> responses` under a name.

    `asks(shape, **options)` lists the changes it needs for images of shape (c, h, w); `forwards` is the number of
    images shown to the model per image beside those; `low` and `high` bound the value; `chance` says what a random
    map gets; `statistic(responses, **options)` is the statistic of a data set where that is not the mean of `value`;
    `describes` is true of a metric that only says what a map looks like; `variant_of` names the metric of which it is
    another form, e.g. as released code computes it; `uses` (or `uses(**options)`) says whether the
    values of the map count or only the order of its pixels; `true_to` which question it answers (`QUESTIONS`);
    `axis` says what the points of `curve` mean; `trace` is the statistic of a data set as a curve;
    `fine_tuning(**options)` says how the network is fine-tuned that judges: a metric that declares it gets a batch
    whose `model` and `clean` are those of the fine-tuned copy; `kinds` are the kinds of model outputs that it serves:
    by default all where it asks the model nothing, else those of a softmax.
    """
    facts: dict[str, Any] = {
        "higher_is_better": higher_is_better,
        "low": low,
        "high": high,
        "chance": chance,
        "biases": biases,
        "paper": paper,
        "formula": formula,
        "asks": asks,
        "forwards": forwards,
        "statistic": statistic,
        "needs": needs,
        "describes": describes,
        "variant_of": variant_of,
        "uses": uses,
        "true_to": true_to,
        "axis": axis,
        "trace": trace,
        "kinds": kinds or (KINDS if asks is None and not forwards else ("softmax",)),
        "fine_tuning": fine_tuning,
        "version": version,
    }

    def keep(function: Callable) -> Callable:
        entry = Entry("metric", name or function.__name__, function)
        for given in entry.inputs:
            if given not in ("batch", "outputs", "seen"):  # `seen`: the name of outputs in earlier plug-ins
                raise BadInput(f"{entry.name}: a metric takes batch, outputs and options after a *, not {given!r}.")
        metrics.add(entry.name, function, **facts)
        return function

    return keep


def read_metric(text: str) -> Call:
    """The metric a text names, e.g. `insertion(steps=50)`; its name and options are checked here."""
    call = parse(text)
    if call.args:
        raise BadInput(f"The metric {call.name!r} takes options such as steps=50, not {call.args[0]}.")
    metrics[call.name].bind(**dict(call.options))
    return call


def family_of(name: str) -> str:
    """The metric of which a registered one is another form (`variant_of`); its own name where it is none."""
    return str(metrics[name].facts["variant_of"]) or name


def judges(metric: str) -> bool:
    """Whether a metric says that a map is good, and not only what it looks like."""
    return not metrics[read_metric(metric).name].facts["describes"]


def uses_order(metric: str) -> bool:
    """Whether only the order of a map's pixels counts, with the options of the text."""
    call = read_metric(metric)
    entry = metrics[call.name]
    uses = entry.facts["uses"]
    return (uses(**entry.bind(**dict(call.options))) if callable(uses) else uses) == "order"


def fine_tuning_of(metric: str) -> FineTuning | None:
    """How the network is fine-tuned that judges by a metric; None where it is the explained one."""
    call = read_metric(metric)
    entry = metrics[call.name]
    tuning = entry.facts.get("fine_tuning")
    return None if tuning is None else tuning(**entry.bind(**dict(call.options)))


def sign_of(metric: str) -> int:
    """1 where higher values of a metric are better, −1 where lower ones are."""
    return 1 if metrics[read_metric(metric).name].facts["higher_is_better"] else -1


def data_set_statistic(named: Call, samples: Iterable[Responses]) -> list[float]:
    """The statistic of a data set that a metric declares (`statistic=`), for each of some samples of responses."""
    entry = metrics[named.name]
    compute, options = entry.facts["statistic"], entry.bind(**dict(named.options))
    owner = f"The metric {entry.name}"
    return [float(guarded_call(owner, compute, [sample], options)) for sample in samples]


def resampled_statistic(named: Call, responses: Responses, seed: int = 0) -> np.ndarray | None:
    """The statistic of a data set for bootstrap resamples of the images; None for a metric that is a mean over images.

    The resamples are the same for every method. NaN where a resample has no defined image.
    """
    if metrics[named.name].facts["statistic"] is None:
        return None
    rows = resampled_images(len(responses["value"]), seed=seed)
    return np.array(data_set_statistic(named, ({name: values[r] for name, values in responses.items()} for r in rows)))


CHECKS = ("randomisation(order=whole)", "sensitivity_max(samples=1)")
"""What is asked where nobody names checks: one map more per image each."""
FLAGGING = tuple(parse(check).name for check in CHECKS)
"""The metrics that raise flags."""
CHECK_IMAGES = 64
"""Test images that are asked about in every replicate, drawn at random where there are more."""


def read_checks(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Checks in canonical form; other metrics are refused, since nobody would look at their values.

    >>> read_checks(("sensitivity_max(samples = 1)",))
    ('sensitivity_max(samples=1)',)
    """
    calls = [read_metric(text) for text in texts]
    for call in calls:
        if call.name not in FLAGGING:
            raise BadInput(f"{call} raises no flag; checks are {' and '.join(FLAGGING)}: name it among the metrics.")
    return tuple(map(str, calls))
