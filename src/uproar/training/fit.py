"""The training loop, the predictions of a network, and how good they are.

The score depends on the kind of task: accuracy (softmax), mean average precision over the labels (sigmoid), or R²
(regression).
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from uproar.errors import BadInput
from uproar.models.forward import borrowed, device_of, forward, needs_contiguous_input, raw_output, read_by
from uproar.seeds import generator, key
from uproar.tensors import in_batches, spans
from uproar.training.recipe import Recipe
from uproar.types import Images, Kind, Labels, Logits

AHEAD = 2
"""Batches that wait, read, beside those that are being read."""

MOST = 16
"""Threads that read for an accelerator, at most: with 500 changed photos per second each, it learns 2,500 and more."""


@runtime_checkable
class Rows(Protocol):
    """Anything that knows how many images it has and reads some of them, in [0, 1], given a slice or a tensor of rows.

    A tensor is one; so is a data set on disk. It must be safe to read from several threads at once.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Tensor | slice, /) -> Tensor: ...


def reader_threads(device: torch.device) -> int:
    """How many threads read for a network there: on a CPU it needs the cores itself."""
    if device.type == "cpu":
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(MOST, (cores or 1) - 1))


def prefetch(source: Rows, parts: Iterable[Tensor | slice], threads: int = 1) -> Iterator[Tensor]:
    """The parts of a source one after the other; the next are read by threads while one is in use."""
    waiting: deque[Future[Tensor]] = deque()
    pool = ThreadPoolExecutor(threads, "uproar-read")
    try:
        for rows in parts:
            waiting.append(pool.submit(source.__getitem__, rows))
            if len(waiting) >= threads + AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def replaced_layers(model: nn.Module, ghost: int | None, device: torch.device) -> Iterator[None]:
    """Inside, batch norms that train see parts of at least `ghost` images in turn, and dropout is drawn on the CPU.

    Ghost batch norm (Hoffer et al. 2017) lets a large batch train like small ones. It is cut into equal parts where it
    can be, so that none is too small to have a variance. The running statistics follow every part.
    """

    def in_parts(norm: Any, x: Tensor) -> Tensor:
        forward = type(norm).forward
        if ghost is None or not norm.training or len(x) < 2 * ghost:
            return forward(norm, x)
        return torch.cat([forward(norm, chunk) for chunk in x.tensor_split(len(x) // ghost)])

    def drawn_on_cpu(layer: Any, x: Tensor) -> Tensor:
        if not layer.training or layer.p == 0:
            return x
        kept = torch.empty(x.shape).bernoulli_(1 - layer.p)
        return x * (kept / (1 - layer.p)).to(x)

    changed: list[tuple[Any, Callable[[Any, Tensor], Tensor]]] = []
    for layer in model.modules():
        if isinstance(layer, _BatchNorm) and ghost is not None:
            changed.append((layer, in_parts))
        elif type(layer) is nn.Dropout and device.type != "cpu":
            changed.append((layer, drawn_on_cpu))
    for module, instead in changed:
        module.forward = partial(instead, module)
    try:
        yield
    finally:
        for module, _ in changed:
            del module.forward


class Optimiser:
    """SGD with momentum, or Adam (Kingma & Ba 2015) with its usual constants, for some weights."""

    def __init__(self, weights: Sequence[Tensor], recipe: Recipe) -> None:
        self.weights, self.recipe = weights, recipe
        self.velocity: list[Tensor | None] = [None] * len(weights)
        if recipe.optimizer == "adam":
            self.first, self.second = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
            self.taken = [torch.zeros((), device=weight.device) for weight in weights]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor | None], rate: float) -> None:
        """Move the weights in place; weights that the loss does not depend on stay."""
        used = [i for i, gradient in enumerate(gradients) if gradient is not None]
        tensors = [self.weights[i] for i in used], [gradient for gradient in gradients if gradient is not None]
        usual: dict[str, Any] = {"fused": True, "lr": rate, "weight_decay": self.recipe.weight_decay, "maximize": False}
        if self.recipe.optimizer == "adam":
            first, second, taken = ([state[i] for i in used] for state in (self.first, self.second, self.taken))
            adam(*tensors, first, second, [], taken, amsgrad=False, beta1=0.9, beta2=0.999, eps=1e-8, **usual)
            return
        moving, momentum = [self.velocity[i] for i in used], self.recipe.momentum
        nesterov = self.recipe.nesterov and momentum > 0
        sgd(*tensors, moving, momentum=momentum, dampening=0.0, nesterov=nesterov, **usual)
        for i, speed in zip(used, moving, strict=True):
            self.velocity[i] = speed


def augment(x: Tensor, names: tuple[str, ...], rng: torch.Generator) -> Tensor:
    """The batch with each image changed at random, as the names say; drawn on the CPU, so the same on every device.

    flip           mirrored left to right, half of the time
    shift          moved by up to an eighth of the size; what comes in from outside repeats the border
    crop           moved by up to an eighth of the size; what comes in from outside is black
    resized-crop   a part of 8 to 100 % of the area, 3:4 to 4:3 in shape, stretched to the size of the image
    """
    if "flip" in names:
        mirrored = torch.rand(len(x), 1, 1, 1, generator=rng) < 0.5
        x = torch.where(mirrored.to(x.device), x.flip(3), x)
    if "shift" in names:
        x = _moved(x, rng, black=False)
    if "crop" in names:
        x = _moved(x, rng, black=True)
    if "resized-crop" in names:
        x = _resized_crop(x, rng)
    return x


def _moved(x: Tensor, rng: torch.Generator, black: bool) -> Tensor:
    """Each image read from rows and columns that begin up to an eighth of its size away; outside is black or border."""
    h, w = x.shape[2:]
    dy, dx = max(1, h // 8), max(1, w // 8)
    row = torch.randint(-dy, dy + 1, (len(x), 1), generator=rng) + torch.arange(h)
    column = torch.randint(-dx, dx + 1, (len(x), 1), generator=rng) + torch.arange(w)
    if black:
        x, row, column = F.pad(x, (dx, dx, dy, dy)), row + dy, column + dx
    else:
        row, column = row.clamp(0, h - 1), column.clamp(0, w - 1)
    samples = torch.arange(len(x))[:, None, None]
    indices = (index.to(x.device) for index in (samples, row[:, :, None], column[:, None, :]))
    return x.permute(0, 2, 3, 1)[tuple(indices)].permute(0, 3, 1, 2)


def _resized_crop(x: Tensor, rng: torch.Generator) -> Tensor:
    """Lengths count from the middle of the image, whose edges lie at -1 and 1."""
    area, ratio, *centre = torch.rand(4, len(x), generator=rng).double()
    area, ratio = 0.08 + 0.92 * area, (4 / 3) ** (2 * ratio - 1)
    sides = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], 1).clamp_max(1)
    middle = (2 * torch.stack(centre, 1) - 1) * (1 - sides)
    box = torch.cat([torch.diag_embed(sides), middle[:, :, None]], 2).float().to(x.device)
    grid = F.affine_grid(box, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, "bilinear", "border", align_corners=False)


def training_loss(scores: Tensor, truth: Tensor, kind: Kind, label_smoothing: float = 0.0) -> Tensor:
    """The mean loss of a batch; smoothing moves labels that are there or not towards one half."""
    if kind == "softmax":
        return F.cross_entropy(scores, truth, label_smoothing=label_smoothing)
    wanted = truth.to(scores).view_as(scores)
    if kind == "regression":
        return F.mse_loss(scores, wanted)
    return F.binary_cross_entropy_with_logits(scores, wanted + label_smoothing * (0.5 - wanted))


BatchChange = Callable[[Tensor, torch.Generator], Tensor]
"""Images of a batch, changed by random numbers that are drawn on the CPU."""


def fit(
    model: nn.Module,
    images: Tensor | Rows,
    labels: Tensor,
    recipe: Recipe,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
    change: BatchChange | None = None,
    kind: Kind = "softmax",
) -> nn.Module:
    """Train `model` in place, on the device where it is, and give it back; the same seed gives the same weights.

    `images` are a tensor, or anything that is read some rows at a time (`Rows`): then batch by batch.

    The seed fixes the order of the batches, the augmentation and dropout, whatever the images are: two trainings
    with one seed differ only by what was changed in the images. The last epoch is what counts. `change` alters every
    batch anew, after the augmentation, by random numbers of its own. `kind` says what the labels are, and so the loss.

    >>> import uproar
    >>> task = uproar.load("planted(size=8, classes=2, train=16, test=4)")
    >>> model = uproar.build("cnn-small", task)
    >>> fit(model, task.train.images, task.train.labels, Recipe(epochs=1), seed=0) is model
    True
    """
    if not len(images):
        raise BadInput("There are no images to train on.")
    batch = min(recipe.batch, len(images))
    per_epoch = len(images) // batch
    total = per_epoch * recipe.epochs
    if isinstance(images, Tensor):
        images = images.contiguous(memory_format=torch.channels_last)
    device = device_of(model)
    model = channels_last(model).train()
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    if not weights:  # set by hand: there is nothing to learn
        return model.eval()
    optimiser = Optimiser(weights, recipe)
    mixed = recipe.precision == "mixed"
    precision = torch.autocast(device.type, torch.bfloat16) if mixed else nullcontext()
    # a class for each image, or one for each pixel
    ask = forward if labels.dim() == 1 or kind != "softmax" else raw_output
    order = generator(seed, "batches")
    rng = generator(seed, "augmentation")
    changing = generator(seed, "changed batches")
    plain = read_by(None)  # one logit is learned as it is
    with plain, torch.random.fork_rng(devices=[]), replaced_layers(model, recipe.ghost, device):
        torch.default_generator.manual_seed(key(seed, "dropout"))
        for epoch in range(recipe.epochs):
            rows = torch.randperm(len(images), generator=order)[: per_epoch * batch]
            y = labels[rows].to(device)
            for i, x in enumerate(_shuffled(images, rows, batch, device)):
                rate = recipe.rate((epoch * per_epoch + i) / total)
                x = augment(x.to(device), recipe.augment, rng)
                x = x if change is None else change(x, changing)
                with precision:
                    scores = ask(model, x)
                scores = scores.float() if scores.dtype is torch.bfloat16 else scores
                truth = y[i * batch : (i + 1) * batch]
                loss = training_loss(scores, truth, kind, recipe.label_smoothing)
                # asking for gradients as values spares the bookkeeping of .grad: a third of a small step
                gradients = torch.autograd.grad(loss, weights, allow_unused=True)
                optimiser.step(gradients, rate)
            if progress is not None:
                progress(epoch + 1, recipe.epochs)
    return model.eval()


def _shuffled(images: Tensor | Rows, rows: Tensor, batch: int, device: torch.device) -> Iterator[Tensor]:
    """The images of an epoch in batches, laid out channels last."""
    if isinstance(images, Tensor):
        yield from images[rows].split(batch)
        return
    for x in prefetch(images, rows.split(batch), reader_threads(device)):
        yield x.contiguous(memory_format=torch.channels_last)


def channels_last(model: nn.Module) -> nn.Module:
    """The model with its weights laid out channels last, the faster way on a CPU, where that is safe."""
    if needs_contiguous_input(model):
        return model
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


# predictions, and how good they are

BATCH = 128
"""Images per forward pass: larger ones are slower on a CPU."""

SCORE_NAMES: dict[Kind, str] = {"softmax": "accuracy", "sigmoid": "mean average precision", "regression": "R²"}
LOSS_NAMES: dict[Kind, str] = {
    "softmax": "cross-entropy",
    "sigmoid": "binary cross-entropy",
    "regression": "squared error",
}


def predict(model: nn.Module, x: Images | Rows, batch_size: int = BATCH) -> Logits:
    """Class scores of every image, asked where the model is and given back where the images are.

    `x` is a tensor, or anything that is read some rows at a time (`Rows`), which is then read batch by batch.

    >>> import uproar
    >>> task = uproar.load("planted(size=8, classes=2, train=16, test=4)")
    >>> images, labels, model = task.test.images, task.test.labels, uproar.build("cnn-small", task)
    >>> predict(model, images).shape
    torch.Size([4, 2])
    """
    if not len(x):
        raise BadInput("There are no images to ask the model about.")

    def ask(batch: Tensor) -> Tensor:
        return forward(model, batch.to(device).contiguous(memory_format=torch.channels_last)).to(batch.device)

    device = device_of(model)
    with borrowed(model), torch.inference_mode():
        if isinstance(x, Tensor):
            scores = in_batches(ask, x, size=batch_size)
        else:
            read = prefetch(x, spans(len(x), batch_size), reader_threads(device))
            scores = torch.cat([in_batches(ask, images, size=batch_size) for images in read])
    return scores.clone()


def accuracy(scores: Logits, labels: Labels) -> float:
    """Share of images whose highest score is the label's.

    >>> accuracy(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0]))
    0.5
    """
    return float((scores.argmax(1) == labels).double().mean())


def task_score(scores: np.ndarray, labels: Tensor, kind: Kind) -> float:
    """How good the scores (n, k) of test images are: accuracy, mean average precision, or R²."""
    truth = labels.numpy()
    if kind == "softmax":
        return float((scores.argmax(1) == truth).mean())
    columns = truth.reshape(len(truth), -1)
    if kind == "regression":
        return r_squared(scores, columns)
    return mean_average_precision(scores, columns)


def mean_average_precision(scores: np.ndarray, truth: np.ndarray) -> float:
    """The mean over labels of the average precision; labels that no image has are left out.

    >>> mean_average_precision(np.array([[0.9], [0.8], [0.1]]), np.array([[1], [0], [1]]))  # (1 + 2/3) / 2
    0.8333333333333333
    """
    known = [average_precision(scores[:, k], truth[:, k]) for k in range(truth.shape[1]) if truth[:, k].any()]
    return float(np.mean(known)) if known else float("nan")


def average_precision(scores: np.ndarray, truth: np.ndarray) -> float:
    """The mean precision down to each image that has the label, by falling score; equal scores count together."""
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    falling, hits = scores[order], truth[order].astype(np.float64)
    last = np.append(falling[1:] != falling[:-1], True)  # the last of those with equal scores
    retrieved, ranked = np.cumsum(hits)[last], np.flatnonzero(last) + 1.0
    return float((np.diff(retrieved, prepend=0.0) * retrieved / ranked).sum() / hits.sum())


def r_squared(values: np.ndarray, truth: np.ndarray) -> float:
    """1 − squared error over squared deviation from the mean, the mean over columns.

    >>> r_squared(np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [4.0]]))
    0.7857142857142857
    """
    wide, wanted = values.astype(np.float64), truth.astype(np.float64)
    error = ((wide - wanted) ** 2).sum(0)
    spread = ((wanted - wanted.mean(0)) ** 2).sum(0)
    return float(np.mean(1 - error / spread))


def loss_bits(scores: np.ndarray, labels: Tensor) -> float:
    """Mean binary cross-entropy per label in bits."""
    logits = torch.from_numpy(scores.astype(np.float64))
    return float(training_loss(logits, labels, "sigmoid")) / float(np.log(2))


def nll_bits(scores: Logits, labels: Labels) -> Tensor:
    """Negative log-likelihood of the right class of every image, (n,), in bits and float64, after temperature scaling.

    Networks that have memorised their training images are overconfident, so scores are first multiplied by an inverse
    temperature, fitted on the other half of the images (even and odd rows): nothing is fitted to the images it is used
    for. The mean is an upper bound in expectation of the conditional entropy of the class.
    """
    scores = scores.double()
    factors = torch.ones_like(scores[:, :1])
    for half in (0, 1) if len(scores) > 3 else ():
        other = slice(1 - half, None, 2)
        factors[half::2] = inverse_temperature(scores[other], labels[other])
    return F.cross_entropy(scores * factors, labels, reduction="none") / math.log(2)


def inverse_temperature(scores: Tensor, labels: Tensor) -> float:
    """The factor of the scores with the least negative log-likelihood, by golden section: the loss is convex in it."""
    low, high, golden = 0.01, 20.0, (math.sqrt(5) - 1) / 2

    def loss(factor: float) -> float:
        return float(F.cross_entropy(scores * factor, labels))

    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = loss(left), loss(right)
    for _ in range(24):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = loss(right)
    return (low + high) / 2
