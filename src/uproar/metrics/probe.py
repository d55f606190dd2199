"""What the model says of changed images, each shown once; and what metrics make of it.

responses, shown = evaluate(calls, batch)         # one batch at a time, as many as there are
everything = joined([responses_1, responses_2])   # by metric
summarise(call, everything[str(call)])            # {"value": …, "n": …, "nan": …, "note": …}
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from uproar.errors import BadInput, BadShape, NotApplicable
from uproar.expression import Call
from uproar.guard import guarded_call, is_builtin, private_copy
from uproar.metrics.changes import Batch, Change, Outputs, Removed, Unchanged
from uproar.metrics.registry import Responses, bound, data_set_statistic, fine_tuning_of, metrics, read_metric
from uproar.models.forward import borrowed, forward, rows_within_budget
from uproar.models.output_kind import assumed_output, is_predicted, probabilities, require_kind
from uproar.statistics.intervals import area
from uproar.tensors import spans
from uproar.training import FineTuning, predict
from uproar.types import Images, Kind, Labels

By = Literal["probability", "accuracy", "logit"]

ROWS = 128
"""Images per forward pass: larger ones are slower on a CPU."""

_OUTPUTS: dict[Kind, str] = {
    "sigmoid": "sigmoid outputs: the probability of the label by itself",
    "regression": "regression: values, 1 for the image and 0 for the fully removed one, instead of a probability",
}
"""What a metric's number is made of where outputs are no softmax."""

FEW = 500
"""Below this many images, a step of 0.01 in accuracy is fewer than five of them."""

LEAST_CHANGE = 1e-6
"""The change of a regression's value from the image to the fully removed one, as a share of the larger of the two, up
to which there is nothing to normalise by."""


def evaluate(calls: Sequence[Call], batch: Batch, rows: int = ROWS) -> tuple[dict[str, Responses], int]:
    """What each metric says of each image of a batch, by `str(call)`, and the number of images shown to the model.

    At most `rows` changed images exist at a time. A change that several metrics ask for is shown once; the unchanged
    images are not shown again. Metrics with a fine-tuned copy use that instead.
    """
    _check(batch)
    by_judge: dict[FineTuning | None, list[Call]] = {}
    for call in calls:
        check_kind(call)
        by_judge.setdefault(fine_tuning_of(str(call)), []).append(call)
    responses: dict[str, Responses] = {}
    total = 0
    for tuning, judged in by_judge.items():
        # what a batch remembers is forgotten with this one
        judge = dataclasses.replace(batch) if tuning is None else _fine_tuned(batch, tuning, judged[0])
        changes = [change for call in judged for change in _changes(call, tuple(batch.x.shape[1:]))]
        with borrowed(judge.model):
            outputs, shown = outputs_by_change(judge, changes, rows)
            responses |= {str(call): _respond(call, judge, outputs) for call in judged}
        total += shown + (0 if tuning is None else len(batch.x))
    return {str(call): responses[str(call)] for call in calls}, total


def outputs_by_change(batch: Batch, changes: Iterable[Change], rows: int = ROWS) -> tuple[Outputs, int]:
    """The model's outputs by change, (n, k) each, and how many images it was shown."""
    wanted = list(dict.fromkeys(changes))
    fresh = [change for change in wanted if not isinstance(change, Unchanged)]
    outputs: dict[Change, Tensor] = {c: batch.clean for c in wanted if isinstance(c, Unchanged)}
    n, k = batch.clean.shape
    table = torch.empty(len(fresh), n, k, dtype=batch.clean.dtype)
    with torch.inference_mode():
        for piece, where in _parts(batch, rows):
            size, each = len(piece.x), max(1, rows // len(piece.x))
            # Written in place, since fresh memory costs as much as a small network.
            images = piece.pixels.repeat(min(each, len(fresh)), 1, 1, 1)
            images = images.contiguous(memory_format=torch.channels_last)
            for some in spans(len(fresh), each):
                changes = fresh[some]
                for i, change in enumerate(changes):
                    _write(change, piece, images[i * size : (i + 1) * size])
                answer = shown_images(batch, images[: len(changes) * size])
                table[some, where] = answer.view(len(changes), size, k).to(table)
    outputs.update(zip(fresh, table, strict=True))
    return outputs, len(fresh) * n


def shown_images(batch: Batch, x: Images) -> Tensor:
    """The model's outputs to images."""
    return forward(batch.model, x.contiguous(memory_format=torch.channels_last))


def _parts(batch: Batch, rows: int) -> Iterator[tuple[Batch, slice]]:
    """The batch in parts of at most `rows` images."""
    if len(batch.x) <= rows:
        yield batch, slice(0, len(batch.x))
        return
    by_image = ("x", "target", "maps", "clean", "draws", "truth", "boxed")
    known: dict[str, Any] = {name: value for name in by_image if (value := getattr(batch, name)) is not None}
    for where in spans(len(batch.x), rows):
        yield dataclasses.replace(batch, **{name: value[where] for name, value in known.items()}), where


def _write(change: Change, batch: Batch, images: Images) -> None:
    """Write the changed images into a place of their own."""
    cls = type(change)
    if not is_builtin(change):  # one of the user gets a batch that only classes of its module share
        copy = batch.once(("batch of", cls.__module__), lambda: private_copy(batch))
        owner = f"The change {cls.__name__} of a metric"
        images.copy_(guarded_call(owner, change.images, [copy], model=batch.model))
    elif isinstance(change, Removed):
        change.into(batch, images)
    else:
        images.copy_(change.images(batch))


def _fine_tuned(batch: Batch, tuning: FineTuning, call: Call) -> Batch:
    """The batch with the fine-tuned copy as its model."""
    if batch.fine_tuned is None:
        raise NotApplicable(
            f"{call.name} asks a copy of the network that is fine-tuned on training images; give these with their "
            "labels (train= and train_labels=, on the command line --train)"
        )
    model = batch.fine_tuned(tuning)
    return dataclasses.replace(batch, model=model, clean=predict(model, batch.x, rows_within_budget(ROWS)))


def check_kind(call: Call) -> None:
    """Refuse a metric that does not serve the kind of the outputs, by name and with the reason."""
    kinds, kind = metrics[call.name].facts["kinds"], assumed_output().kind
    why = "it follows a probability" if kind == "regression" else "it compares classes of which one is right"
    require_kind(call.name, kinds, kind, why)


def _check(batch: Batch) -> None:
    n = len(batch.x)
    for name in ("target", "maps", "clean", "draws"):
        if (length := len(getattr(batch, name))) != n:
            raise BadShape(f"There are {n} images but {length} rows of {name}.")
    if n == 0:
        raise BadInput("There are no images: give at least one.")
    if batch.maps.shape[1:] != batch.x.shape[2:]:
        raise BadShape(
            f"The maps are {tuple(batch.maps.shape[1:])} but the images {tuple(batch.x.shape[2:])} pixels; "
            "bring the maps to the images' size."
        )


def _respond(call: Call, batch: Batch, outputs: Outputs) -> Responses:
    """What a metric says of each image; one of the user gets copies."""
    entry, options = bound(call)
    inputs = [batch, outputs] if len(entry.inputs) > 1 else [batch]
    owner = f"The metric {entry.name}"
    responses = guarded_call(owner, entry.function, inputs, options, batch.model)
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


def _changes(call: Call, shape: Sequence[int]) -> Sequence[Change]:
    """The changes of images of a shape that a metric asks for."""
    entry, options = bound(call)
    asks = entry.facts.get("asks")
    return () if asks is None else guarded_call(f"The metric {call.name}", asks, [tuple(shape)], options)


def images_shown(names: tuple[str, ...], shape: tuple[int, int, int]) -> int:
    """How many images metrics show to the model for one image and map; they share changed images."""
    return _images_shown(names, shape, tuple(metrics[read_metric(n).name].version for n in names))


@functools.lru_cache(maxsize=64)
def _images_shown(names: tuple[str, ...], shape: tuple[int, int, int], versions: tuple[Any, ...]) -> int:
    return len({(fine_tuning_of(name), change) for name in names for change in _changes(read_metric(name), shape)})


# from responses to numbers


def joined(parts: Sequence[dict[str, Responses]]) -> dict[str, Responses]:
    """Responses of several batches as if they had been one."""
    return {
        name: {key: torch.cat([piece[name][key] for piece in parts]) for key in first}
        for name, first in parts[0].items()
    }


def summarise(call: Call, responses: Responses) -> dict[str, Any]:
    """The metric's number for all images together, how many there are, and for how many it is not defined.

    It is the mean over the images where it is defined, or the statistic of the data set where a metric has one; where
    that is undefined, so it is for every image.
    """
    entry, options = bound(call)
    value = responses["value"]
    defined = responses.get("defined", torch.isfinite(value)).bool()
    n, used = len(value), int(defined.sum())
    note = ""
    if entry.facts.get("statistic") is not None:
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
    output = {}
    if kind != "softmax" and entry.facts["asks"] is not None:
        note, output = "; ".join(filter(None, (note, _OUTPUTS[kind]))), {"output": kind}
    return {"value": number, "n": n, "nan": n - used, "note": note, **output}


def has_curve(call: Call) -> bool:
    """Whether the metric's responses contain a curve."""
    return metrics[call.name].facts.get("axis") is not None


def fractions_of(call: Call, shape: Sequence[int]) -> tuple[float, ...]:
    """Where the points of the metric's curves lie, for images of shape (c, h, w)."""
    entry, options = bound(call)
    if not has_curve(call):
        known = ", ".join(sorted(name for name in metrics if metrics[name].facts.get("axis")))
        raise BadInput(f"{call.name} has no curve; these have: {known}.")
    return tuple(entry.facts["axis"].points(tuple(shape), **options))


# from the model's outputs to numbers per image, for metrics


def target_score(outputs: Tensor, target: Labels, by: By) -> Tensor:
    """The target's probability or logit, or whether it is predicted, for outputs (..., n, k): (..., n).

    The logit of a regression is its value.
    """
    if by == "accuracy":
        return is_predicted(outputs, target).double()
    scores = probabilities(outputs) if by == "probability" else outputs.double()
    return scores.gather(-1, target.expand(scores.shape[:-1])[..., None])[..., 0]


def curve_of(
    batch: Batch,
    outputs: Outputs,
    points: Sequence[Sequence[Change]],
    by: By = "probability",
    blank: Sequence[Change] = (),
) -> Tensor:
    """One number per image and point, (n, points): the mean over the changes of the point.

    A regression has no probability: there it is the value, on a scale on which the image has 1 and `blank`, the changes
    that remove all of it, 0.
    """
    if by == "probability" and follows_values():
        values = _means(batch, outputs, points, "logit")
        return normalised(batch, outputs, values, blank)
    return _means(batch, outputs, points, by)


def _means(batch: Batch, outputs: Outputs, points: Sequence[Sequence[Change]], by: By) -> Tensor:
    scores = target_score(torch.stack([outputs[change] for point in points for change in point]), batch.target, by)
    return torch.stack([values.mean(0) for values in scores.split([len(point) for point in points])], 1)


def follows_values() -> bool:
    """Whether the outputs are those of a regression: its value takes the place of a probability."""
    return assumed_output().kind == "regression"


def normalised(batch: Batch, outputs: Outputs, values: Tensor, blank: Sequence[Change]) -> Tensor:
    """Values (n, ...) as shares of the change from the fully removed image, 0, to the image, 1; NaN where none is."""
    if not blank:
        raise NotApplicable("it follows a probability, and a regression has none")
    whole = target_score(batch.clean, batch.target, "logit")
    empty = _means(batch, outputs, [blank], "logit")[:, 0]
    shape = (-1, *[1] * (values.dim() - 1))
    change = (whole - empty).view(shape)
    defined = change.abs() > LEAST_CHANGE * torch.maximum(whole.abs(), empty.abs()).view(shape)
    return only(defined, (values - empty.view(shape)) / change)


def area_of(fractions: Sequence[float], values: Tensor) -> Tensor:
    """Mean height of each curve, (n,)."""
    return torch.from_numpy(np.asarray(area(np.asarray(fractions), values.numpy())))


def only(defined: Tensor, values: Tensor) -> Tensor:
    """The values where they are defined, NaN elsewhere."""
    return torch.where(defined, values, torch.nan)
