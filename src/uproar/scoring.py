"""The Python interface for scores: all metrics of given maps, without retraining."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from uproar.data.task import box_pixels
from uproar.errors import OWN_COLOUR, BadInput, BadShape, NeedsColour, NotApplicable
from uproar.expression import Call, parse
from uproar.guard import guarded_call
from uproar.metrics import Batch
from uproar.metrics.evaluation import TOGETHER, Evaluation, Listener, MethodResponses, evaluate_methods
from uproar.metrics.probe import evaluate, fractions_of
from uproar.metrics.registry import read_metric, read_metric_of_maps
from uproar.models import MemoryBudget
from uproar.models.forward import GivenInputs, HeldInputs, callable_from_cpu, explain_on_device, holding, unwrap_remote
from uproar.models.given import read_given, taking_pixels
from uproar.models.output_kind import (
    SOFTMAX,
    Logits,
    Output,
    OutputKind,
    Pick,
    assumed_output,
    assuming_output,
    check_output,
    log_odds,
    logarithm,
    logits_of,
    picked_kind,
    recognise_output,
    sum_tolerance,
)
from uproar.results.quality import NetworkQuality, WeakNetwork, predictions_of, quality_of
from uproar.results.scores import Scores, combined_scores
from uproar.seeds import Draws
from uproar.tensors import (
    boxes_of,
    check_batch_size,
    check_images,
    check_like,
    check_model,
    check_training_labels,
    classes_of,
    colour_of,
    in_single,
    map_values,
    outside_inference_mode,
    plain,
    undefined_maps,
    unusual_pixels,
)
from uproar.training import FineTuning, predict
from uproar.training.finetune import FineTunedCopies
from uproar.types import Role

Explain = Callable[[nn.Module, Tensor, Tensor, Draws], Tensor]
FineTuner = Callable[[nn.Module], Callable[[FineTuning], nn.Module]]

DEFAULT = ("insertion", "deletion", "road")
SHOWN = 64
"""Images kept for the report."""
LARGE = 32 * 32
"""Pixels of an image of which `TOGETHER` are evaluated between two reports of progress; of larger ones fewer."""


@dataclass(frozen=True)
class Curve:
    """A metric's value while pixels go or come: one row per image."""

    fractions: Tensor
    values: Tensor


class ScoreOptions(TypedDict, total=False):
    """What `score` takes beside model, images, labels, maps and metrics."""

    mean: Tensor | None
    train: Tensor | None
    train_labels: Tensor | None
    truth: Tensor | None
    boxes: Tensor | None
    explain: Mapping[str, Explain] | None
    output: Output
    seed: int
    index: Sequence[int] | None
    batch_size: int | None
    fine_tuner: FineTuner | None


def score(
    model: nn.Module,
    x: Any,
    y: Tensor | Pick | None,
    maps: Tensor | Mapping[str, Tensor],
    metrics: Sequence[str] = DEFAULT,
    *,
    per_image: bool = False,
    mean: Tensor | None = None,
    train: Tensor | None = None,
    train_labels: Tensor | None = None,
    truth: Tensor | None = None,
    boxes: Tensor | None = None,
    explain: Mapping[str, Explain] | None = None,
    output: Output = "auto",
    inputs: GivenInputs = None,
    normalise: Any = None,
    seed: int = 0,
    index: Sequence[int] | None = None,
    batch_size: int | None = None,
) -> pd.DataFrame:
    """A table with one row per method and metric: value, 95 % interval over images, NaN and tie counts.

    `maps` are (n, h, w), or several by name; `y` is what is followed: the class of each image (of one logit 0, no, or
    1, yes), its label, the component of a regression, or a function that takes one number per image from the model's
    answer. `per_image=True` gives one row per image instead. Some metrics need `mean` (colour of the training images;
    else that of `train`), `train` (those that fine-tune a copy of the model, such as `idsds`, also `train_labels`),
    `truth` (the important pixels, (n, h, w) bool), or `explain`, which makes maps of other images: `uproar ls metrics`.
    `boxes` (whole numbers x0, y0, x1, y1, the last column and row included; (n, 4),
    or (n, m, 4) for several in an image) are what the pointing game is played on, and the `truth` of all else where
    that is not given. `output` says what the model answers: `softmax` (`probability`: it ends in one), `sigmoid` of one
    logit or of several labels, or `regression`, whose values are followed where others have probabilities. `inputs` are
    what the model takes beside the images, held fixed. `x` may be whatever `choose` takes; with `y=None` its labels are
    followed, or else what the model predicts. `normalise` is that of `choose`. Without `batch_size`, as many images at
    a time as memory holds; no number depends on it.

    >>> import uproar
    >>> task = uproar.load("planted(size=8, classes=2, train=16, test=4)")
    >>> images, labels, model = task.test.images, task.test.labels, uproar.build("cnn-small", task)
    >>> maps = uproar.explain(model, images, ["grad", "random"], target=labels)
    >>> table = score(model, images, labels, maps, ["deletion(steps=4)"], mean=task.mean)
    >>> table[["method", "metric", "n"]].values.tolist()
    [['grad', 'deletion(steps=4)', 4], ['random', 'deletion(steps=4)', 4]]
    """
    pixels, labels = (x, None) if isinstance(x, Tensor) else read_given(x)
    known = labels if y is None else y
    with taking_pixels(model, pixels, normalise, x) as (network, pixels):
        scores = score_all(
            network,
            pixels,
            predict(network, in_single(pixels)).argmax(1) if known is None else known,
            maps,
            metrics,
            labelled=known is not None,
            mean=mean,
            train=train,
            train_labels=train_labels,
            truth=truth,
            boxes=boxes,
            explain=explain,
            output=output,
            inputs=inputs,
            seed=seed,
            index=index,
            batch_size=batch_size,
        )
    weak = None if scores.quality is None else scores.quality.warning
    for notice in scores.notices:
        warnings.warn(notice, WeakNetwork if notice == weak else UserWarning, stacklevel=2)
    return scores.per_image if per_image else scores.table


def score_all(
    model: nn.Module,
    x: Tensor,
    y: Tensor | Pick,
    maps: Tensor | Mapping[str, Tensor],
    metrics: Sequence[str] = DEFAULT,
    *,
    listen: Listener = lambda *_: None,
    labelled: bool = True,
    inputs: GivenInputs = None,
    roles: Mapping[str, Role] = MappingProxyType({}),
    **options: Unpack[ScoreOptions],
) -> Scores:
    """Scores with everything a report needs: the table, per-image values, paired comparisons and curves.

    Options, and `inputs`, are those of `score`; `fine_tuner(model)`, in place of `train_labels`, gives what makes
    fine-tuned copies of the model, which answers with logits. `labelled=False` says that `y` are no labels but what the
    model predicts; `roles` which maps are no methods.
    """
    output = options.get("output", "auto")
    check_output(output)
    check_model(model)
    check_images(x)
    held = None if inputs is None else HeldInputs.of(inputs, len(x))
    with outside_inference_mode(), holding(model, held):
        calls = [read_metric_of_maps(name) for name in ([metrics] if isinstance(metrics, str) else metrics)]
        with assuming_output(picked_kind(y, output) if callable(y) else SOFTMAX):
            checked = _Inputs.checked(model, x, y, maps, bool(calls), labelled, held, **options)
        with assuming_output(checked.kind):
            try:
                methods = _evaluated(calls, checked, listen)
            except NeedsColour:
                checked = replace(checked, mean=checked.x.mean((0, 2, 3)), notices=[*checked.notices, OWN_COLOUR])
                methods = _evaluated(calls, checked, listen)
            except NotApplicable:
                calls, left_out = _applicable(calls, checked)
                checked.notices.extend(left_out)
                methods = _evaluated(calls, checked, listen)
            return _scores(calls, methods, checked, options.get("seed", 0), roles)


@dataclass(frozen=True)
class _Inputs:
    """Model, images and maps, checked and on the CPU, where images are changed; the model is asked where it is."""

    model: nn.Module
    x: Tensor
    y: Tensor
    maps: Mapping[str, Tensor]
    clean: Tensor
    """The model's logits of the unchanged images."""
    draws: Draws
    mean: Tensor | None
    train: Tensor | None
    truth: Tensor | None
    boxed: Tensor | None
    explain: Mapping[str, Explain]
    budget: MemoryBudget
    quality: NetworkQuality
    notices: list[str]
    kind: OutputKind
    """What the outputs are: logits or values from here on."""
    held: HeldInputs | None = None
    """The model's inputs beside the images."""
    fine_tuned: Callable[[FineTuning], nn.Module] | None = None
    """Makes fine-tuned copies of the model, where there are training images with labels."""

    @classmethod
    def checked(
        cls,
        model: nn.Module,
        x: Tensor,
        y: Tensor | Pick,
        maps: Tensor | Mapping[str, Tensor],
        metrics: bool,
        labelled: bool,
        held: HeldInputs | None,
        *,
        mean: Tensor | None = None,
        train: Tensor | None = None,
        train_labels: Tensor | None = None,
        truth: Tensor | None = None,
        boxes: Tensor | None = None,
        explain: Mapping[str, Explain] | None = None,
        output: Output = "auto",
        seed: int = 0,
        index: Sequence[int] | None = None,
        batch_size: int | None = None,
        fine_tuner: FineTuner | None = None,
    ) -> _Inputs:
        """What was given, refused where it does not fit together; `metrics` says whether there are any."""
        check_like(train, x, "train")
        check_batch_size(batch_size)
        x, train = in_single(plain(x)), None if train is None else in_single(plain(train))
        mean, truth, boxes = (plain(a) for a in (mean, truth, boxes))
        named = maps if isinstance(maps, Mapping) else {"maps": maps}
        methods = {name: checked_maps(a, x, name) for name, a in named.items()}
        if not metrics or not methods:
            raise BadInput(f"There are no {'maps' if metrics else 'metrics'}: give at least one.")
        y = _followed(y, len(x)).cpu()
        if mean is None and train is not None:
            mean = train.mean((0, 2, 3))
        mean = colour_of(mean, x, "mean")
        x = x.cpu()
        boxed = None if boxes is None else box_pixels(boxes_of(boxes, len(x)).cpu(), *x.shape[2:])
        truth = boxed if truth is None else truth
        truth, train, mean = (None if a is None else a.cpu() for a in (truth, train, mean))
        explains = {name: explain_on_device(_guarded(name, each)) for name, each in (explain or {}).items()}
        model = callable_from_cpu(model)
        if held is not None and held.by_image:
            held.image, batch_size = 0, 1
        budget = MemoryBudget.of(model, x) if batch_size is None else MemoryBudget(batch_size)
        answers = _answers(model, x, budget, held)
        model, clean, kind, notices = _with_logits(model, x, answers, output)
        notices += [*unusual_pixels(x), *undefined_maps(methods)]
        if int(y.max()) >= clean.shape[1] or int(y.min()) < 0:
            raise BadInput(
                f"The labels run from {int(y.min())} to {int(y.max())}, but the model has {clean.shape[1]} classes."
            )
        quality = quality_of(clean.numpy(), y.numpy(), labelled, kind)
        notices += [quality.warning] if quality.warning else []
        draws = Draws.of(seed, len(x) if index is None else index)
        if fine_tuner is None and held is None:
            fine_tuner = _fine_tuner(train, train_labels, mean, clean.shape[1], seed)
        tuned = None if fine_tuner is None else fine_tuner(model)
        known = (draws, mean, train, truth, boxed, explains, budget, quality, notices, kind, held, tuned)
        return cls(model, x, y, methods, clean, *known)

    def batch(self, method: str, rows: slice) -> Batch:
        """Some images with the maps of a method; where inputs belong to images, one image at a time."""
        if self.held is not None:
            self.held.image = rows.start
        return Batch(
            self.model,
            self.x[rows],
            self.y[rows],
            self.maps[method][rows],
            self.clean[rows],
            self.draws[rows],
            self.mean,
            None if self.truth is None else self.truth[rows],
            self.explain.get(method),
            self.train,
            None if self.boxed is None else self.boxed[rows],
            self.fine_tuned,
        )


def _evaluated(calls: Sequence[Call], inputs: _Inputs, listen: Listener) -> dict[str, MethodResponses]:
    """What every metric says of every image, by method."""
    h, w = inputs.x.shape[2:]
    step = max(8, min(TOGETHER, TOGETHER * LARGE // (h * w)))
    return evaluate_methods(
        dict.fromkeys(inputs.maps, calls),
        [[method] for method in inputs.maps],
        lambda group, rows: [inputs.batch(method, rows) for method in group],
        len(inputs.x),
        inputs.budget,
        step=1 if inputs.held is not None and inputs.held.by_image else step,
        listen=listen,
    )


def _scores(
    calls: Sequence[Call], methods: Mapping[str, MethodResponses], inputs: _Inputs, seed: int, roles: Mapping[str, Role]
) -> Scores:
    """The tables of one replicate, with what a report shows beside them."""
    evaluations = {
        str(call): {
            method: Evaluation.of(call, evaluation.responses[str(call)], evaluation.tied, seed)
            for method, evaluation in methods.items()
        }
        for call in calls
    }
    replicates = {
        call: {method: [[evaluation]] for method, evaluation in evaluations[str(call)].items()} for call in calls
    }
    scores = combined_scores(replicates, inputs.x.shape[1:], roles)
    assert scores is not None, "there are methods and metrics"
    values = {
        (method, metric): evaluation.arrays["value"].astype(float)
        for metric, by_method in evaluations.items()
        for method, evaluation in by_method.items()
    }
    n = next(iter(methods.values())).images
    shown = slice(0, min(n, SHOWN))
    return replace(
        scores,
        per_image=pd.concat(
            [
                pd.DataFrame({"method": method, "metric": metric, "image": np.arange(len(a)), "value": a})
                for (method, metric), a in values.items()
            ],
            ignore_index=True,
        ),
        curves={
            metric: replace(curves, values={m: e.arrays["curve"] for m, e in evaluations[metric].items()})
            for metric, curves in scores.curves.items()
        },
        forwards=sum(evaluation.shown for evaluation in methods.values()) + len(inputs.clean),
        notices=tuple(inputs.notices),
        images=inputs.x[shown].numpy(),
        maps={name: a[shown].numpy() for name, a in inputs.maps.items()},
        titles=tuple(str(k) for k in inputs.y[shown].tolist()),
        quality=inputs.quality,
        predictions=predictions_of(inputs.clean[shown].numpy(), inputs.y[shown].numpy(), inputs.kind),
    )


def _applicable(calls: Sequence[Call], inputs: _Inputs) -> tuple[list[Call], list[str]]:
    """The metrics that apply to the first image under every method, and a sentence on each that does not."""
    kept, left_out = [], []
    for call in calls:
        try:
            for method in inputs.maps:
                evaluate([call], inputs.batch(method, slice(0, 1)))
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
    target: Tensor | Pick,
    mean: Tensor | None = None,
    output: Output = "auto",
    inputs: GivenInputs = None,
    seed: int = 0,
    index: Sequence[int] | None = None,
    batch_size: int | None = None,
    **options: Any,
) -> Curve:
    """The curve of a metric for every image: `.fractions` (points,) and `.values` (n, points).

    Options are the metric's, e.g. `steps=100, fill="mean", unit="pixel"`.

    >>> import uproar
    >>> task = uproar.load("planted(size=8, classes=2, train=16, test=4)")
    >>> images, labels, model = task.test.images, task.test.labels, uproar.build("cnn-small", task)
    >>> maps = uproar.explain(model, images, "grad", target=labels)
    >>> deletion = curve(model, images, maps, "deletion", target=labels, mean=task.mean, steps=4)
    >>> deletion.fractions.tolist(), deletion.values.shape
    ([0.0, 0.25, 0.5, 0.75, 1.0], torch.Size([4, 5]))
    """
    call = parse(metric)
    completed = tuple(sorted({**dict(call.options), **options}.items()))
    text = str(Call(call.name, (), completed))
    beside: ScoreOptions = {"mean": mean, "output": output, "seed": seed, "index": index, "batch_size": batch_size}
    scores = score_all(model, x, target, {"map": maps}, [text], inputs=inputs, **beside)
    name = str(read_metric(text))
    if name not in scores.curves:
        fractions_of(read_metric(text), x.shape[1:])  # says which metrics have curves
    curves = scores.curves[name]
    return Curve(torch.from_numpy(curves.fractions), torch.from_numpy(curves.values["map"]))


def _guarded(name: str, explain: Explain) -> Explain:
    """The function that makes further maps of a method, kept from changing what others share."""

    def explained(model: nn.Module, images: Tensor, classes: Tensor, draws: Draws) -> Tensor:
        owner, inputs = f"The function explain[{name!r}]", [model, images, classes, draws]
        maps: Tensor = guarded_call(owner, explain, inputs, model=model)
        return maps

    return explained


def _fine_tuner(
    train: Tensor | None, labels: Tensor | None, mean: Tensor | None, classes: int, seed: int
) -> FineTuner | None:
    """What fine-tunes copies of a model on training images; None where these or their labels were not given."""
    if labels is None:
        return None
    if train is None:
        raise BadInput("train_labels are the labels of train, which was not given: give the training images too.")
    known = classes_of(plain(labels), len(train), "train_labels").cpu()
    check_training_labels(known, classes)
    assert mean is not None, "it is taken from the training images"
    return lambda model: FineTunedCopies(model, train, known, mean, seed)


def checked_maps(maps: Any, x: Tensor, name: str) -> Tensor:
    """Maps as (n, h, w); channels are summed, another size is refused."""
    try:
        values = plain(torch.as_tensor(maps)).cpu()
    except (TypeError, ValueError, RuntimeError):
        raise BadInput(f"The maps {name!r} are no array of numbers.") from None
    a = map_values(values, f"The map {name!r}")
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


def _followed(y: Any, images: int) -> Tensor:
    """The column of the outputs that is followed for each image; that of a user's function is the last."""
    if callable(y):
        return torch.full((images,), int(assumed_output().kind == "sigmoid"))
    return classes_of(plain(y), images, "labels")


def _answers(model: nn.Module, x: Tensor, budget: MemoryBudget, held: HeldInputs | None) -> Tensor:
    """The model's answers to the images; one image after the other where inputs belong to images."""
    if held is None or not held.by_image:
        return budget.run(lambda rows: predict(model, x, rows))
    answers = []
    for image in range(len(x)):
        held.image = image
        answers.append(predict(model, x[image : image + 1]))
    held.image = 0
    return torch.cat(answers)


def _with_logits(
    model: nn.Module, x: Tensor, answers: Tensor, output: Output
) -> tuple[nn.Module, Tensor, OutputKind, list[str]]:
    """The model and its answers as logits or values, what they are, and what was noticed on the way."""
    if assumed_output().pick is not None:
        return model, answers, assumed_output(), []
    kind = recognise_output(model, x, answers, output, sum_tolerance(unwrap_remote(model)))
    clean, logits = logits_of(answers, kind), replace(kind, bounded=False)
    if not kind.bounded:
        return model, clean, logits, []
    if kind.kind == "sigmoid":
        return Logits(model, log_odds), clean, logits, []
    said = "The model's rows sum to 1, so they are taken as probabilities; say output='logit' if they are not."
    return Logits(model, logarithm), clean, logits, [] if output == "probability" else [said]
