"""The Python face for scores: all metrics of given maps, without retraining."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from uproar.batches import spans
from uproar.checks import (
    boxes_of,
    check_batch_size,
    check_images,
    check_like,
    check_model,
    classes_of,
    colour_of,
    in_single,
    map_values,
    outside_inference_mode,
    plain,
    unusual_pixels,
)
from uproar.containment import guarded_call
from uproar.data.task import box_pixels
from uproar.errors import BadInput, BadShape, NotApplicable
from uproar.expression import Call, parse
from uproar.metrics import Batch, metrics
from uproar.metrics.base import Responses, read_metric, resampled_statistic
from uproar.metrics.probe import evaluate, fractions_of, has_curve, joined, summarise
from uproar.models import MemoryBudget
from uproar.models.output_kind import (
    LogProbabilities,
    Output,
    assuming_output,
    logarithm,
    model_output_kind,
    sum_tolerance,
)
from uproar.models.remote_device import callable_from_cpu, explain_on_device, unwrap_remote
from uproar.removal.order import tied_pixels
from uproar.results.quality import WeakNetwork, network_quality, predictions
from uproar.results.scores import COLUMNS, COMPARISON_COLUMNS, Curves, Scores, why_unranked, with_rank
from uproar.seeds import Draws
from uproar.statistics.comparisons import compare_methods
from uproar.statistics.intervals import Measurements
from uproar.training import predict

Explain = Callable[[nn.Module, Tensor, Tensor, Draws], Tensor]

DEFAULT = ("insertion", "deletion", "road", "average_drop")
SHOWN = 64
"""Images kept for the report."""
TOGETHER = 64
"""Images whose changes are made together, at most; each has many. Of large ones fewer: more is heard of them."""
LARGE = 32 * 32
"""Pixels of an image of which so many are made together."""

Scored = Callable[[str, int, int, float], None]
"""Of a method so many more images are scored; all methods have scored so many, and it took these seconds."""


@dataclass(frozen=True)
class Curve:
    """A metric's value while pixels go or come: one row per image."""

    fractions: Tensor
    values: Tensor


def score(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    maps: Tensor | Mapping[str, Tensor],
    metrics: Sequence[str] = DEFAULT,
    *,
    per_image: bool = False,
    mean: Tensor | None = None,
    train: Tensor | None = None,
    truth: Tensor | None = None,
    boxes: Tensor | None = None,
    explain: Mapping[str, Explain] | None = None,
    output: Output = "auto",
    seed: int = 0,
    index: Sequence[int] | None = None,
    batch_size: int | None = None,
) -> pd.DataFrame:
    """A table with one row per method and metric: value, 95 % interval over images, NaN and tie counts.

    `maps` are (n, h, w), or several by name; `y` is the class whose score is followed. `per_image=True` gives one row
    per image instead. Some metrics need `mean` (colour of the training images; else that of `train`), `train`,
    `truth` (the important pixels, (n, h, w) bool), or `explain`, which makes maps of other images: `uproar ls metrics`.
    `boxes` (whole numbers x0, y0, x1, y1, the last column and row included; (n, 4), or (n, m, 4) for several in an
    image) are what the pointing game is played on, and the `truth` of all else where that is not given.
    `output="probability"` says that the model ends in a softmax. Without `batch_size`, as many images at a time as
    memory holds; no number depends on it.
    """
    found = score_all(
        model,
        x,
        y,
        maps,
        metrics,
        mean=mean,
        train=train,
        truth=truth,
        boxes=boxes,
        explain=explain,
        output=output,
        seed=seed,
        index=index,
        batch_size=batch_size,
    )
    weak = None if found.quality is None else found.quality.warning
    for notice in found.notices:
        warnings.warn(notice, WeakNetwork if notice == weak else UserWarning, stacklevel=2)
    return found.per_image if per_image else found.table


def score_all(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    maps: Tensor | Mapping[str, Tensor],
    metrics: Sequence[str] = DEFAULT,
    *,
    mean: Tensor | None = None,
    train: Tensor | None = None,
    truth: Tensor | None = None,
    boxes: Tensor | None = None,
    explain: Mapping[str, Explain] | None = None,
    output: Output = "auto",
    seed: int = 0,
    index: Sequence[int] | None = None,
    batch_size: int | None = None,
    listen: Scored = lambda *_: None,
    over: Callable[[], bool] = lambda: False,
    labelled: bool = True,
) -> Scores:
    """Scores with everything a report needs: the table, per-image values, paired comparisons and curves.

    `labelled=False` says that `y` are no labels but what the model predicts. When `over()`, no further images are
    begun: the scores are those of the first ones.
    """
    # what scores are made of are logits from here on
    with outside_inference_mode(), assuming_output("logit"):
        return _score_all(
            model,
            x,
            y,
            maps,
            metrics,
            mean=mean,
            train=train,
            truth=truth,
            boxes=boxes,
            explain=explain,
            output=output,
            seed=seed,
            index=index,
            batch_size=batch_size,
            listen=listen,
            over=over,
            labelled=labelled,
        )


def _score_all(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    maps: Tensor | Mapping[str, Tensor],
    metrics: Sequence[str],
    *,
    mean: Tensor | None,
    train: Tensor | None,
    truth: Tensor | None,
    boxes: Tensor | None,
    explain: Mapping[str, Explain] | None,
    output: Output,
    seed: int,
    index: Sequence[int] | None,
    batch_size: int | None,
    listen: Scored,
    over: Callable[[], bool],
    labelled: bool,
) -> Scores:
    check_model(model)
    check_images(x)
    check_like(train, x, "train")
    check_batch_size(batch_size)
    x, train = in_single(plain(x)), None if train is None else in_single(plain(train))
    y, mean, truth, boxes = (plain(a) for a in (y, mean, truth, boxes))
    calls = [read_metric(name) for name in ([metrics] if isinstance(metrics, str) else metrics)]
    methods = {name: checked_maps(a, x, name) for name, a in _named(maps).items()}
    if not calls or not methods:
        raise BadInput(f"There are no {'maps' if calls else 'metrics'}: give at least one.")
    y = classes_of(y, len(x), "labels").cpu()
    if mean is None and train is not None:
        mean = train.mean((0, 2, 3))
    mean = colour_of(mean, x, "mean")
    # images are changed and compared on the CPU; the model is asked where it is
    x = x.cpu()
    boxed = None if boxes is None else box_pixels(boxes_of(boxes, len(x)).cpu(), *x.shape[2:])
    truth = boxed if truth is None else truth
    truth, train, mean = (None if a is None else a.cpu() for a in (truth, train, mean))
    explains = {name: explain_on_device(_guarded(name, each)) for name, each in (explain or {}).items()}
    model = callable_from_cpu(model)
    budget = MemoryBudget.of(model, x) if batch_size is None else MemoryBudget(batch_size)
    answers = budget.run(lambda rows: predict(model, x, rows))
    model, clean, notices = _with_logits(model, x, answers, output)
    notices += unusual_pixels(x)
    if int(y.max()) >= clean.shape[1] or int(y.min()) < 0:
        raise BadInput(
            f"The labels run from {int(y.min())} to {int(y.max())}, but the model has {clean.shape[1]} classes."
        )
    quality = network_quality(clean.numpy(), y.numpy(), labelled)
    notices += [quality.warning] if quality.warning else []
    draws = Draws.of(seed, len(x) if index is None else index)

    def batch(method: str, span: slice) -> Batch:
        return Batch(
            model,
            x[span],
            y[span],
            methods[method][span],
            clean[span],
            draws[span],
            mean,
            None if truth is None else truth[span],
            explains.get(method),
            train,
            None if boxed is None else boxed[span],
        )

    try:
        responses, shown = _asked(calls, methods, batch, budget, x, listen, over)
    except NotApplicable:
        calls, left_out = _applicable(calls, methods, batch)
        notices += left_out
        responses, shown = _asked(calls, methods, batch, budget, x, listen, over)
    n = _n(responses)
    x, y, methods = x[:n], y[:n], {name: a[:n] for name, a in methods.items()}
    return replace(
        _tables(calls, responses, methods, seed),
        curves=_curves(calls, responses, x),
        forwards=shown + len(clean),
        notices=tuple(notices),
        images=x[:SHOWN].numpy(),
        maps={name: a[:SHOWN].numpy() for name, a in methods.items()},
        titles=tuple(str(k) for k in y[:SHOWN].tolist()),
        quality=quality,
        predictions=predictions(clean[: len(x)][:SHOWN].numpy()),
    )


def _asked(
    calls: Sequence[Call],
    methods: Collection[str],
    batch: Callable[[str, slice], Batch],
    budget: MemoryBudget,
    x: Tensor,
    listen: Scored,
    over: Callable[[], bool],
) -> tuple[dict[str, dict[str, Responses]], int]:
    """What every metric says of every image, by method, and how many images the model was shown."""
    parts: dict[str, list[dict[str, Responses]]] = {method: [] for method in methods}
    shown = 0
    h, w = x.shape[2:]
    for rows in spans(len(x), max(1, min(TOGETHER, TOGETHER * LARGE // (h * w)))):
        if rows.start and over():
            break
        for last, method in zip([*[False] * (len(methods) - 1), True], methods, strict=True):
            began = time.perf_counter()

            def scored(
                some: slice, at_once: int, method: str = method, start: int = rows.start
            ) -> tuple[dict[str, Responses], int]:
                span = slice(start + some.start, start + some.stop)
                return evaluate(calls, batch(method, span), at_once)

            for part, count in budget.over(rows.stop - rows.start, TOGETHER, scored):
                parts[method].append(part)
                shown += count
            whole = rows.stop if last else rows.start
            listen(method, rows.stop - rows.start, whole, time.perf_counter() - began)
    return {method: joined(each) for method, each in parts.items()}, shown


def _applicable(
    calls: Sequence[Call], methods: Collection[str], batch: Callable[[str, slice], Batch]
) -> tuple[list[Call], list[str]]:
    """The metrics that apply to the first image under every method, and a sentence on each that does not."""
    kept, left_out = [], []
    for call in calls:
        try:
            for method in methods:
                evaluate([call], batch(method, slice(0, 1)))
        except NotApplicable as error:
            left_out.append(f"{call} is left out: {error}.")
        else:
            kept.append(call)
    if not kept or not left_out:
        raise NotApplicable(" ".join(left_out) or "a metric does not apply to some of the images")
    return kept, left_out


def curve(
    model: nn.Module,
    x: Tensor,
    maps: Tensor,
    metric: str = "deletion",
    *,
    target: Tensor,
    mean: Tensor | None = None,
    output: Output = "auto",
    seed: int = 0,
    index: Sequence[int] | None = None,
    batch_size: int | None = None,
    **options: Any,
) -> Curve:
    """The curve of a metric for every image: `.fractions` (points,) and `.values` (n, points).

    Options are the metric's, e.g. `steps=100, fill="mean", unit="pixel"`.
    """
    call = parse(metric)
    given = tuple(sorted({**dict(call.options), **options}.items()))
    text = str(Call(call.name, (), given))
    found = score_all(
        model, x, target, {"map": maps}, [text], mean=mean, output=output, seed=seed, index=index, batch_size=batch_size
    )
    name = str(read_metric(text))
    if name not in found.curves:
        fractions_of(read_metric(text), x.shape[1:])  # says which metrics have curves
    curves = found.curves[name]
    return Curve(torch.from_numpy(curves.fractions), torch.from_numpy(curves.values["map"]))


def _guarded(name: str, explain: Explain) -> Explain:
    """The function that makes further maps of a method, kept from changing what others share."""

    def explained(model: nn.Module, images: Tensor, classes: Tensor, draws: Draws) -> Tensor:
        owner, given = f"The function explain[{name!r}]", [model, images, classes, draws]
        return guarded_call(owner, explain, given, model=model)

    return explained


def _named(maps: Tensor | Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    return maps if isinstance(maps, Mapping) else {"maps": maps}


def checked_maps(maps: Any, x: Tensor, name: str) -> Tensor:
    """Maps as (n, h, w); channels are summed, another size is refused."""
    try:
        given = plain(torch.as_tensor(maps)).cpu()
    except (TypeError, ValueError, RuntimeError):
        raise BadInput(f"The maps {name!r} are no array of numbers.") from None
    a = map_values(given, f"The map {name!r}")
    n, c, h, w = x.shape
    if a.dim() == 4 and a.shape[1] in (1, c):
        a = a.sum(1)
    if a.dim() != 3 or len(a) != n:
        raise BadShape(f"The maps {name!r} are {tuple(a.shape)}; for {n} images they must be ({n}, {h}, {w}).")
    if a.shape[1:] != (h, w):
        raise BadShape(
            f"The maps {name!r} are {a.shape[1]}x{a.shape[2]} but the images {h}x{w}; resize them first, e.g. "
            f"torch.nn.functional.interpolate(maps[:, None], ({h}, {w}), mode='bilinear')[:, 0]."
        )
    return a


def _with_logits(model: nn.Module, x: Tensor, answers: Tensor, output: Output) -> tuple[nn.Module, Tensor, list[str]]:
    """The model and its answers as logits, and what was noticed on the way."""
    if model_output_kind(model, x, answers, output, sum_tolerance(unwrap_remote(model))) == "logit":
        return model, answers, []
    said = "The model's rows sum to 1, so they are taken as probabilities; say output='logit' if they are not."
    notices = [] if output == "probability" else [said]
    return LogProbabilities(model), logarithm(answers), notices


def _tables(
    calls: Sequence[Call], responses: Mapping[str, Mapping[str, Responses]], maps: Mapping[str, Tensor], seed: int
) -> Scores:
    rows: list[dict[str, Any]] = []
    images: list[pd.DataFrame] = []
    pairs: list[pd.DataFrame] = []
    for call in calls:
        name = str(call)
        measured = {method: _measured(call, found[name], seed) for method, found in responses.items()}
        for method, found in responses.items():
            summary = summarise(call, found[name])
            facts = metrics[call.name].facts
            interval = measured[method].interval().clipped(facts["low"], facts["high"])
            tied = float(tied_pixels(maps[method]).mean())
            rows.append(
                {
                    "method": method,
                    "metric": name,
                    "low": interval.low,
                    "high": interval.high,
                    "tied": tied,
                    "higher_is_better": facts["higher_is_better"],
                    **with_rank(summary),
                }
            )
            value = found[name]["value"].double().numpy()
            images.append(
                pd.DataFrame({"method": method, "metric": name, "image": np.arange(len(value)), "value": value})
            )
        pairs.append(_compared(call, responses, measured))
    return Scores(
        pd.DataFrame(rows)[list(COLUMNS)],
        pd.concat(images, ignore_index=True),
        pd.concat(pairs, ignore_index=True)[list(COMPARISON_COLUMNS)],
    )


def _compared(
    call: Call, responses: Mapping[str, Mapping[str, Responses]], measured: Mapping[str, Measurements]
) -> pd.DataFrame:
    """All pairs of methods under one metric, the better one first, Holm over the pairs."""
    higher = bool(metrics[call.name].facts["higher_is_better"])
    unranked = {method: _why_unranked(call, found[str(call)]) for method, found in responses.items()}
    frame = compare_methods(measured, higher, unranked)
    frame.insert(0, "metric", str(call))
    return frame


def _measured(call: Call, responses: Responses, seed: int) -> Measurements:
    """The values of one metric of one method: one replicate."""
    by_image = responses["value"].double().numpy()[None]
    resampled = resampled_statistic(call, responses, seed)
    if resampled is None:
        return Measurements(by_image)
    return Measurements(by_image, np.array([summarise(call, responses)["value"]]), resampled[None])


def _why_unranked(call: Call, responses: Responses) -> str:
    found = summarise(call, responses)
    return why_unranked(found["n"], found["nan"])


def _n(responses: Mapping[str, Mapping[str, Responses]]) -> int:
    first = next(iter(next(iter(responses.values())).values()))
    return len(first["value"])


def _curves(calls: Sequence[Call], responses: Mapping[str, Mapping[str, Responses]], x: Tensor) -> dict[str, Curves]:
    return {
        str(call): Curves(
            np.asarray(fractions_of(call, tuple(x.shape[1:]))),
            {method: found[str(call)]["curve"].numpy() for method, found in responses.items()},
        )
        for call in calls
        if has_curve(call) and "curve" in next(iter(responses.values()))[str(call)]
    }
