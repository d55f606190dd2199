"""The model's outputs to all changed images that some metrics ask for, each shown once; then the metrics.

responses, shown = evaluate(calls, batch)         # one batch at a time, as many as there are
everything = joined([responses_1, responses_2])   # by metric
summarise(call, everything[str(call)])            # {"value": …, "n": …, "nan": …, "note": …}
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from uproar.batches import spans
from uproar.errors import BadInput, BadShape, NotApplicable
from uproar.expression import Call
from uproar.guard import guarded_call, is_builtin, private_copy
from uproar.metrics.changes import PreparedBatch, Removed, Unchanged
from uproar.metrics.registry import (
    SHOWN,
    Batch,
    Change,
    Outputs,
    Responses,
    data_set_statistic,
    fine_tuning_of,
    metrics,
    read_metric,
)
from uproar.models.forward import borrowed, forward
from uproar.models.memory_budget import rows_within_budget
from uproar.models.output_kind import assumed_output, require_kind
from uproar.training import FineTuning, predict
from uproar.types import Images, Kind

ROWS = 128
"""Images per forward pass: larger ones are slower on a CPU."""

_OUTPUTS: dict[Kind, str] = {
    "sigmoid": "sigmoid outputs: the probability of the label by itself",
    "regression": "regression: values, 1 for the image and 0 for the fully removed one, instead of a probability",
}
"""What a metric's number is made of where outputs are no softmax."""

FEW = 500
"""Below this many images, a step of 0.01 in accuracy is fewer than five of them."""


def evaluate(calls: Sequence[Call], batch: Batch, rows: int = ROWS) -> tuple[dict[str, Responses], int]:
    """What each metric says of each image of a batch, by `str(call)`, and the number of images shown to the model.

    At most `rows` changed images exist at a time. A change that several metrics ask for is shown once; the unchanged
    images are not shown again. Metrics with a fine-tuned judge ask that one instead.
    """
    _check(batch)
    for call in calls:
        check_kind(call)
    responses: dict[str, Responses] = {}
    total = 0
    for tuning, own in _by_judge(calls).items():
        judged = batch if tuning is None else _fine_tuned(batch, tuning, own[0])
        some, shown = _evaluate(own, judged, rows)
        responses |= some
        total += shown + (0 if tuning is None else len(batch.x))
    return {str(call): responses[str(call)] for call in calls}, total


def _by_judge(calls: Iterable[Call]) -> dict[FineTuning | None, list[Call]]:
    """Metrics by the network that judges: the explained one (None), or a fine-tuned copy."""
    groups: dict[FineTuning | None, list[Call]] = {}
    for call in calls:
        groups.setdefault(fine_tuning_of(str(call)), []).append(call)
    return groups


def _fine_tuned(batch: Batch, tuning: FineTuning, call: Call) -> Batch:
    """The batch with the fine-tuned copy as its model."""
    if batch.fine_tuned is None:
        raise NotApplicable(
            f"{call.name} asks a copy of the network that is fine-tuned on training images; give these with their "
            "labels (train= and train_labels=, on the command line --train)"
        )
    model = batch.fine_tuned(tuning)
    return dataclasses.replace(batch, model=model, clean=predict(model, batch.x, rows_within_budget(ROWS)))


def _evaluate(calls: Sequence[Call], batch: Batch, rows: int) -> tuple[dict[str, Responses], int]:
    """The same for metrics that ask one network."""
    shape = tuple(batch.x.shape[1:])
    bound = {call: metrics[call.name].bind(**dict(call.options)) for call in calls}
    asked: dict[Change, None] = {}
    for call, options in bound.items():
        asked.update(dict.fromkeys(_changes(call, shape, options)))
    ready = PreparedBatch.of(batch)
    with borrowed(batch.model):
        outputs, shown = outputs_by_change(ready, asked, rows)
        responses = {str(call): _respond(call, ready, outputs, bound[call]) for call in calls}
    beside = sum(_shown_beside(responses[str(call)], call, options) for call, options in bound.items())
    return responses, shown + round(beside)


def check_kind(call: Call) -> None:
    """Refuse a metric that does not serve the kind of the outputs, by name and with the reason."""
    kinds, kind = metrics[call.name].facts["kinds"], assumed_output().kind
    why = "it follows a probability" if kind == "regression" else "it compares classes of which one is right"
    require_kind(call.name, kinds, kind, why)


def outputs_by_change(batch: Batch, changes: Iterable[Change], rows: int = ROWS) -> tuple[Outputs, int]:
    """The model's outputs by change, (n, k) each, and how many images it was shown."""
    wanted = list(dict.fromkeys(changes))
    fresh = [change for change in wanted if not isinstance(change, Unchanged)]
    outputs: dict[Change, Tensor] = {c: batch.clean for c in wanted if isinstance(c, Unchanged)}
    n, k = batch.clean.shape
    table = torch.empty(len(fresh), n, k, dtype=batch.clean.dtype)
    with torch.inference_mode():
        for part, where in _parts(PreparedBatch.of(batch), rows):
            size, each = len(part.x), max(1, rows // len(part.x))
            # Written in place, since fresh memory costs as much as a small network.
            images = part.pixels.repeat(min(each, len(fresh)), 1, 1, 1)
            images = images.contiguous(memory_format=torch.channels_last)
            held: list[Change | None] = [None] * each
            for some in spans(len(fresh), each):
                changes = fresh[some]
                for i, change in enumerate(changes):
                    _write(change, held[i], part, images[i * size : (i + 1) * size])
                    held[i] = change
                answer = _forward(batch, images[: len(changes) * size])
                table[some, where] = answer.view(len(changes), size, k).to(table)
    outputs.update(zip(fresh, table, strict=True))
    return outputs, len(fresh) * n


def joined(parts: Sequence[dict[str, Responses]]) -> dict[str, Responses]:
    """Responses of several batches as if they had been one."""
    return {
        name: {key: torch.cat([part[name][key] for part in parts]) for key in first} for name, first in parts[0].items()
    }


def summarise(call: Call, responses: Responses) -> dict[str, Any]:
    """The metric's number for all images together, how many there are, and for how many it is not defined.

    It is the mean over the images where it is defined, or the statistic of the data set where a metric has one; where
    that is undefined, so it is for every image.
    """
    entry = metrics[call.name]
    value = responses["value"]
    defined = responses.get("defined", torch.isfinite(value)).bool()
    n, used = len(value), int(defined.sum())
    note = ""
    if entry.facts.get("statistic") is not None:
        options = entry.bind(**dict(call.options))
        number = data_set_statistic(call, [responses])[0] if used else math.nan
        if used < FEW:
            note = f"a statistic of {used} images together"
            if options.get("by") == "accuracy":
                note += f": one image is {1 / max(used, 1):.2g} of the accuracy"
        if math.isnan(number):
            used = 0
            note = "; ".join(filter(None, (note, "the statistic of these images together is undefined")))
    else:
        number = float(value[defined].double().mean()) if used else math.nan
    kind = assumed_output().kind
    if kind == "softmax" or entry.facts["asks"] is None:
        return {"value": number, "n": n, "nan": n - used, "note": note}
    note = "; ".join(filter(None, (note, _OUTPUTS[kind])))
    return {"value": number, "n": n, "nan": n - used, "note": note, "output": kind}


def has_curve(call: Call) -> bool:
    """Whether the metric's responses contain a curve."""
    return metrics[call.name].facts.get("axis") is not None


def fractions_of(call: Call, shape: Sequence[int]) -> tuple[float, ...]:
    """Where the points of the metric's curves lie, for images of shape (c, h, w)."""
    entry = metrics[call.name]
    axis = entry.facts.get("axis")
    if axis is None:
        known = ", ".join(sorted(name for name in metrics if metrics[name].facts.get("axis")))
        raise BadInput(f"{call.name} has no curve; these have: {known}.")
    return tuple(axis.points(tuple(shape), **entry.bind(**dict(call.options))))


def _check(batch: Batch) -> None:
    n = len(batch.x)
    lengths = {
        "target": len(batch.target),
        "maps": len(batch.maps),
        "clean": len(batch.clean),
        "draws": len(batch.draws),
    }
    for name, length in lengths.items():
        if length != n:
            raise BadShape(f"There are {n} images but {length} rows of {name}.")
    if n == 0:
        raise BadInput("There are no images: give at least one.")
    if batch.maps.shape[1:] != batch.x.shape[2:]:
        raise BadShape(
            f"The maps are {tuple(batch.maps.shape[1:])} but the images {tuple(batch.x.shape[2:])} pixels; "
            "bring the maps to the images' size."
        )


def _parts(batch: PreparedBatch, rows: int) -> Iterator[tuple[PreparedBatch, slice]]:
    """The batch in parts of at most `rows` images."""
    if len(batch.x) <= rows:
        yield batch, slice(0, len(batch.x))
        return
    for where in spans(len(batch.x), rows):
        changes: dict[str, Any] = {
            name: getattr(batch, name)[where] for name in ("x", "target", "maps", "clean", "draws")
        }
        for name in ("truth", "boxed"):
            known = getattr(batch, name)
            changes[name] = None if known is None else known[where]
        yield PreparedBatch.of(dataclasses.replace(batch, **changes)), where


def _write(change: Change, held: Change | None, batch: PreparedBatch, images: Images) -> None:
    """Change the images into a place that holds those of another change, or none yet."""
    if not is_builtin(change):
        images.copy_(_changed_by_user(change, batch))
    elif isinstance(change, Removed):
        if isinstance(held, Removed) and change.follows(held, batch.maps[0].numel()):
            change.moved(batch, images, held)
        else:
            change.into(batch, images)
    else:
        images.copy_(change.images(batch))


def _changed_by_user(change: Change, batch: PreparedBatch) -> Images:
    """Images changed by a class of the user, which gets a batch that only classes of its module share."""
    cls = type(change)
    own = batch.once(("batch of", cls.__module__), lambda: private_copy(batch))
    changed: Images = guarded_call(f"The change {cls.__name__} of a metric", change.images, [own], model=batch.model)
    return changed


def _forward(batch: Batch, x: Images) -> Tensor:
    """The model's outputs."""
    return forward(batch.model, x.contiguous(memory_format=torch.channels_last))


def _respond(call: Call, batch: Batch, outputs: Outputs, options: dict[str, Any]) -> Responses:
    """What a metric says of each image; one of the user gets copies."""
    entry = metrics[call.name]
    given = [batch, outputs] if len(entry.inputs) > 1 else [batch]
    owner = f"The metric {entry.name}"
    responses = guarded_call(owner, entry.function, given, options, batch.model)
    n = len(batch.x)
    if not isinstance(responses, dict) or not isinstance(responses.get("value"), Tensor):
        raise BadShape(f"{owner} must return a dictionary of tensors with one called 'value'.")
    for name, each in responses.items():
        if not isinstance(each, Tensor) or each.shape[:1] != (n,):
            got = tuple(each.shape) if isinstance(each, Tensor) else type(each).__name__
            raise BadShape(f"{owner} returned {name!r} as {got}; for {n} images it must have {n} rows.")
    if (value := responses["value"]).dim() != 1:
        raise BadShape(f"{owner} returned 'value' as {tuple(value.shape)}; it must be one number per image, ({n},).")
    return responses


def _changes(call: Call, shape: Sequence[int], options: dict[str, Any]) -> Sequence[Change]:
    """The changes of images of a shape that a metric asks for."""
    asks = metrics[call.name].facts.get("asks")
    if asks is None:
        return ()
    return guarded_call(f"The metric {call.name}", asks, [tuple(shape)], options)


def images_shown(names: tuple[str, ...], shape: tuple[int, int, int]) -> float:
    """How many images metrics show to the model for one image and map; they share changed images."""
    return _images_shown(names, shape, tuple(metrics[read_metric(n).name].version for n in names))


@functools.lru_cache(maxsize=64)
def _images_shown(names: tuple[str, ...], shape: tuple[int, int, int], versions: tuple[Any, ...]) -> float:
    changes, more = set(), 0.0
    for name in names:
        call = read_metric(name)
        entry = metrics[call.name]
        options = entry.bind(**dict(call.options))
        judge = fine_tuning_of(name)
        changes |= {(judge, change) for change in _changes(call, shape, options)}
        more += _beside(call, options)
    return len(changes) + more


def _shown_beside(responses: Responses, call: Call, options: dict[str, Any]) -> float:
    """Images that a metric showed beside those it asked for: counted by itself, or as it declares."""
    if SHOWN in responses:
        return float(responses[SHOWN].sum())
    return _beside(call, options) * len(responses["value"])


def _beside(call: Call, options: dict[str, Any]) -> float:
    forwards = metrics[call.name].facts.get("forwards", 0)
    return forwards(**options) if callable(forwards) else forwards
