"""Several small networks trained at once, as one network with one more dimension.

A step of `cnn-small` on small images is nearly all overhead: a few dozen calls for a tenth of a millisecond of
arithmetic. The cells of a study differ only in their images, so that their networks share the initialisation, the
batches and the learning rate, and one call can serve them all; labels may be a network's own. The arithmetic is that of
`fit`, in another order.

What a network becomes does not depend on what it is stacked with: each keeps to its own slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar.errors import BadInput
from uproar.models.forward import device_of
from uproar.models.small import SmallCNN
from uproar.seeds import generator
from uproar.training.fit import Optimiser, Rows, augment, channels_last, fit, training_loss
from uproar.training.recipe import Recipe
from uproar.types import Kind

LARGEST = 10 * 10
"""Pixels of an image up to which stacking pays: twice as fast at 8×8, no gain at 16×16, a loss at 28×28."""

AHEAD = 16
"""Batches whose images are read at a time: reading is made of calls too."""

LANE = 16
"""Numbers that a processor handles at once. A rest that fills no lane is computed by other instructions, whose last
bit may differ: where a network's numbers fill whole lanes, its bits do not depend on its place in the stack."""


def stackable(model: nn.Module, shape: Sequence[int]) -> bool:
    """Whether networks like this one, on images of this shape, are trained as a stack."""
    if not isinstance(model, SmallCNN) or shape[1] * shape[2] > LARGEST or device_of(model).type != "cpu":
        return False
    return all(block[0].out_channels % LANE == 0 for block in model.blocks)


def fit_all(
    models: Sequence[nn.Module],
    images: Sequence[Tensor | Rows],
    labels: Tensor,
    recipe: Recipe,
    seed: int,
    kind: Kind = "softmax",
) -> None:
    """Train each model on its own version of the same images, in place: as a stack if they can be, else in turn."""
    held = [x for x in images if isinstance(x, Tensor)]
    if recipe.plain and len(held) == len(images) and stackable(models[0], held[0].shape[1:]):
        fit_stack(models, held, [labels] * len(models), recipe, seed, kind)  # type: ignore[arg-type]
        return
    for model, x in zip(models, images, strict=True):
        fit(model, x, labels, recipe, seed, kind=kind)


def fit_stack(
    models: Sequence[SmallCNN],
    images: Sequence[Tensor | Rows],
    labels: Sequence[Tensor],
    recipe: Recipe,
    seed: int | Sequence[int],
    kind: Kind = "softmax",
    answers: Callable[[Tensor], Tensor] = lambda scores: scores,
) -> None:
    """Train each network on its own images and labels, as many as the others', in place: as `fit` would with this seed.

    Several seeds are one for each network, which then takes its images in an order of its own, and none of them is
    augmented. `answers` is how the scores of a network are read.
    """
    if not len(labels[0]):
        raise BadInput("There are no images to train on.")
    stack, read = _Stack(models), _reader(models, images)
    table = torch.stack([*labels])
    n, k = len(labels[0]), len(models)
    batch = min(recipe.batch, n)
    per_epoch = n // batch
    seeds = [seed] if isinstance(seed, int) else [*seed]
    orders, rng = [generator(order_seed, "batches") for order_seed in seeds], generator(seeds[0], "augmentation")
    optimiser = Optimiser([stack.flat], recipe)
    for epoch in range(recipe.epochs):
        rows = torch.stack([torch.randperm(n, generator=order)[: per_epoch * batch] for order in orders])
        for i, (x, wanted) in enumerate(_batches(read, table, rows, batch)):
            seen = augment(x, recipe.augment, rng).unflatten(1, (k, -1))
            scores = stack.forward(seen.permute(1, 0, 3, 4, 2))
            # one loss at a time: the rows of a network must not be dealt out with those of another
            pairs = zip(scores.unbind(), wanted, strict=True)
            losses = [training_loss(answers(logits), y, kind, recipe.label_smoothing) for logits, y in pairs]
            gradients = [each.flatten(1) for each in torch.autograd.grad(losses, stack.weights)]
            rate = recipe.rate((epoch * per_epoch + i) / (per_epoch * recipe.epochs))
            optimiser.step([torch.cat([*gradients, stack.rest], 1)], rate)
    stack.write_back(models, per_epoch * recipe.epochs)


def _reader(models: Sequence[SmallCNN], images: Sequence[Tensor | Rows]) -> Callable[[Tensor], Tensor]:
    """What reads some rows as the networks see them, normalised: (rows, networks · channels, height, width).

    The rows are those of all networks, (1, rows), or of each, (networks, rows).
    """
    pairs = list(zip(models, images, strict=True))
    held = [model[0](x) for model, x in pairs if isinstance(x, Tensor)]
    if len(held) == len(pairs):
        whole = torch.stack(held, 1).flatten(1, 2)

    def read(rows: Tensor) -> Tensor:
        if len(held) < len(pairs):
            of_each = zip(pairs, rows.expand(len(pairs), -1), strict=True)
            return torch.cat([model[0](x[index]) for (model, x), index in of_each], 1)
        if len(rows) == 1:
            return whole[rows[0]]
        return torch.cat([x[index] for x, index in zip(held, rows, strict=True)], 1)

    return read


def _batches(
    read: Callable[[Tensor], Tensor], table: Tensor, rows: Tensor, batch: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Images in batches, and their columns of the labels (network, image, …); several batches are read together.

    The rows are the same for all networks, (1, n), or each network's own, (networks, n).
    """
    for some in rows.split(AHEAD * batch, 1):
        if len(some) == 1:
            labels = table.index_select(1, some[0])
        else:
            labels = torch.stack([column[index] for column, index in zip(table, some, strict=True)])
        yield from zip(read(some).split(batch), labels.split(batch, 1), strict=True)


class _Stack:
    """The weights of several networks: one row each of a flat tensor that all weights are views of."""

    def __init__(self, models: Sequence[SmallCNN]) -> None:
        self.pool = models[0].pool
        self.places = self.pool[0] * self.pool[1]
        parts = [torch.stack(tensors) for tensors in zip(*map(_parts, models), strict=True)]
        lengths = [values[0].numel() for values in parts]
        self.flat = parts[0].new_zeros(len(models), -(-sum(lengths) // LANE) * LANE)
        self.weights: list[Tensor] = []
        *places, rest = self.flat.split([*lengths, self.flat.shape[1] - sum(lengths)], 1)
        self.rest = rest.clone()  # zeros behind the gradients of the weights
        for values, view in zip(parts, places, strict=True):
            view.copy_(values.flatten(1))
            self.weights.append(view.unflatten(1, values.shape[1:]).detach().requires_grad_())
        *layers, self.head, self.bias = self.weights
        self.blocks = [
            _StackedBlock([model.blocks[i] for model in models], layers[3 * i : 3 * i + 3])
            for i in range(len(models[0].blocks))
        ]

    def forward(self, x: Tensor) -> Tensor:
        """Scores (network, image, class) of images (network, image, row, column, channel)."""
        for block in self.blocks:
            x = block.forward(x)
        k, b, h, w, c = x.shape
        if (h, w) != self.pool:
            flat = x.permute(0, 1, 4, 2, 3).flatten(0, 1)
            pooled = F.adaptive_avg_pool2d(flat, self.pool).view(k, b, c, -1)
            x = pooled.transpose(2, 3)
        return torch.baddbmm(self.bias, x.reshape(k, b, self.places * c), self.head)

    @torch.no_grad()
    def write_back(self, models: Sequence[SmallCNN], steps: int) -> None:
        """Put what was learned into the networks."""
        for i, model in enumerate(models):
            for stacked, block in zip(self.blocks, model.blocks, strict=True):
                convolution, norm, _ = block
                outputs, inputs = convolution.weight.shape[:2]
                kernel, scale, shift = (weight[i] for weight in stacked.weights)
                convolution.weight.copy_(kernel.reshape(3, 3, inputs, outputs).permute(3, 2, 0, 1))
                norm.weight.copy_(scale[0])
                norm.bias.copy_(shift[0])
                norm.running_mean.copy_(stacked.mean[i, 0])
                norm.running_var.copy_(stacked.var[i, 0])
                norm.num_batches_tracked.add_(steps)
            head: Any = model[-1]
            head_weight = self.head[i].reshape(self.places, -1, len(head.weight)).permute(2, 1, 0)
            head.weight.copy_(head_weight.reshape(head.weight.shape))
            head.bias.copy_(self.bias[i, 0])
            channels_last(model).eval()


class _StackedBlock:
    """3×3 convolution, batch norm and ReLU of several networks at once."""

    def __init__(self, blocks: Sequence[Any], weights: Sequence[Tensor]) -> None:
        norms = [block[1] for block in blocks]
        self.stride: int = blocks[0][0].stride[0]
        self.eps, self.momentum = norms[0].eps, norms[0].momentum or 0.0
        self.mean = torch.stack([norm.running_mean[None] for norm in norms])
        self.var = torch.stack([norm.running_var[None] for norm in norms])
        self.weights = weights

    def forward(self, x: Tensor) -> Tensor:
        """(network, image, row, column, channel) to the same with fewer rows and columns."""
        k, b, h, w, _ = x.shape
        rows, columns = -(-h // self.stride), -(-w // self.stride)
        y, mean, var = _Layer.apply(x, *self.weights, self.stride, self.eps)
        n = b * rows * columns
        self.mean.lerp_(mean, self.momentum)
        self.var.lerp_(var * (n / (n - 1)), self.momentum)
        return y.view(k, b, rows, columns, -1)


class _Layer(torch.autograd.Function):
    """relu(norm(patches @ kernel)) with its gradient written out: a third of the calls autograd would make."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, kernel: Tensor, scale: Tensor, shift: Tensor, stride: int, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        k, b, h, w, c = x.shape
        (rows, starts), _ = _routes(k * b, h, w, stride)
        # each output position's 3×3 neighbourhood as a row: (network, image and position, tap and channel)
        patches = F.embedding_bag(rows, x.reshape(-1, c), starts, mode="sum").view(k, -1, 9 * c)
        y = torch.bmm(patches, kernel)
        mean = y.mean(1, keepdim=True)
        y -= mean
        var = y.square().mean(1, keepdim=True)
        inverse = torch.rsqrt(var + eps)
        y *= inverse
        out = torch.addcmul(shift, y, scale).relu_()
        ctx.save_for_backward(patches, kernel, y, scale * inverse, out)
        ctx.shape, ctx.stride = x.shape, stride
        ctx.mark_non_differentiable(mean, var)
        return out, mean, var

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        patches, kernel, y, scale, out = ctx.saved_tensors
        g = torch.ops.aten.threshold_backward(gradients[0], out, 0)
        shift = g.sum(1, keepdim=True)
        weighted = (g * y).sum(1, keepdim=True)
        # through the norm: what moves all values of a channel alike, or along them, changes nothing
        g -= shift / y.shape[1]
        g.addcmul_(y, weighted, value=-1 / y.shape[1])
        g *= scale
        taps = torch.bmm(patches.transpose(1, 2), g)
        below = None
        if ctx.needs_input_grad[0]:
            k, b, h, w, c = ctx.shape  # every value back to the pixel it came from, summed
            _, (rows, starts) = _routes(k * b, h, w, ctx.stride)
            table = torch.bmm(g, kernel.transpose(1, 2)).view(-1, c)
            below = F.embedding_bag(rows, table, starts, mode="sum").view(k, b, h, w, c)
        return below, taps, weighted, shift, None, None


@lru_cache(maxsize=32)
def _routes(images: int, h: int, w: int, stride: int) -> list[tuple[Tensor, Tensor]]:
    """The ways from pixels to the taps of a 3×3 convolution, and back.

    Each says which rows of a table are summed into each row of another, none where a tap lies outside the image, and
    where these begin: an embedding bag is the fastest way torch has on a CPU, six to fifteen times a loop over taps.
    """
    pixels = torch.arange(1.0, h * w + 1).view(1, 1, h, w)
    taps = F.unfold(pixels, 3, padding=1, stride=stride)[0].T.flatten().long() - 1
    inside = taps >= 0
    order = taps.argsort(stable=True)[int((~inside).sum()) :]
    forth = taps[inside], inside.long(), h * w
    back = order, taps[inside].bincount(minlength=h * w), len(taps)
    image = torch.arange(images)[:, None]  # the route of one image is repeated for all
    return [
        ((rows + image * of).flatten().int(), (sizes.cumsum(0) - sizes + image * len(rows)).flatten().int())
        for rows, sizes, of in (forth, back)
    ]


def _parts(model: SmallCNN) -> list[Tensor]:
    """The weights of a network as the stack lays them out: kernel, scale and shift of each block, head and bias."""
    parts = []
    for convolution, norm, _ in model.blocks:
        parts.append(convolution.weight.detach().permute(2, 3, 1, 0).flatten(0, 2))
        parts += [norm.weight.detach()[None], norm.bias.detach()[None]]
    head: Any = model[-1]
    # Flatten lays out channel by channel, the stack place by place
    by_channel = head.weight.detach().view(len(head.weight), -1, model.pool[0] * model.pool[1])
    by_place = by_channel.permute(2, 1, 0).reshape(-1, len(head.weight))
    return [*parts, by_place, head.bias.detach()[None]]
