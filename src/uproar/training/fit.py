"""The training loop, read from top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.sgd import sgd

from uproar.batches import spans
from uproar.errors import BadInput
from uproar.models.answer import called, needs_plain_layout
from uproar.models.borrow import home
from uproar.seeds import generator, key
from uproar.training.recipe import Recipe
from uproar.training.rows import Rows, ahead


def fit(
    model: nn.Module,
    images: Tensor | Rows,
    labels: Tensor,
    recipe: Recipe,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> nn.Module:
    """Train `model` in place, on the device where it is, and give it back; the same seed gives the same weights.

    `images` are a tensor, or anything that is read some rows at a time (`Rows`): then batch by batch.

    The seed fixes the order of the batches, the augmentation and dropout, whatever the images are: two trainings
    with one seed differ only by what was changed in the images. The last epoch is what counts.
    """
    if not len(images):
        raise BadInput("There are no images to train on.")
    batch = min(recipe.batch, len(images))
    per_epoch = len(images) // batch
    total = per_epoch * recipe.epochs
    if isinstance(images, Tensor):
        images = images.contiguous(memory_format=torch.channels_last)
    device = home(model)
    model = channels_last(model).train()
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    velocity: list[Tensor | None] = [None] * len(weights)
    order = generator(seed, "batches")
    shakes = generator(seed, "augmentation")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(seed, "dropout"))
        for epoch in range(recipe.epochs):
            rows = torch.randperm(len(images), generator=order)[: per_epoch * batch]
            y = labels[rows].to(device)
            for i, x in enumerate(_shuffled(images, rows, batch)):
                rate = recipe.rate((epoch * per_epoch + i) / total)
                scores = called(model, augmented(x.to(device), recipe.augment, shakes))
                truth = y[i * batch : (i + 1) * batch]
                loss = F.cross_entropy(scores, truth, label_smoothing=recipe.label_smoothing)
                # asking for gradients as values spares the bookkeeping of .grad: a third of a small step
                gradients = torch.autograd.grad(loss, weights, allow_unused=True)
                step(weights, gradients, velocity, rate, recipe)
            if progress is not None:
                progress(epoch + 1, recipe.epochs)
    return model.eval()


def _shuffled(images: Tensor | Rows, rows: Tensor, batch: int) -> Iterator[Tensor]:
    """The images of an epoch in batches, laid out channels last."""
    if isinstance(images, Tensor):
        x = images[rows]
        yield from (x[part] for part in spans(len(rows), batch))
        return
    for x in ahead(images, (rows[part] for part in spans(len(rows), batch))):
        yield x.contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def step(
    weights: Sequence[Tensor], gradients: Sequence[Tensor | None], velocity: list[Tensor | None],
    rate: float, recipe: Recipe,
) -> None:  # fmt: skip
    """One step of SGD with momentum, in place; weights that the loss does not depend on stay."""
    used = [i for i, gradient in enumerate(gradients) if gradient is not None]
    moving = [velocity[i] for i in used]
    sgd(
        [weights[i] for i in used], [g for g in gradients if g is not None], moving, fused=True,
        weight_decay=recipe.weight_decay, momentum=recipe.momentum, lr=rate, dampening=0.0,
        nesterov=recipe.nesterov and recipe.momentum > 0, maximize=False,
    )  # fmt: skip
    for i, speed in zip(used, moving, strict=True):
        velocity[i] = speed


def channels_last(model: nn.Module) -> nn.Module:
    """The model with its weights laid out channels last, the faster way on a CPU, where that is safe."""
    if needs_plain_layout(model):
        return model
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def augmented(x: Tensor, names: tuple[str, ...], shakes: torch.Generator) -> Tensor:
    """The batch with each image flipped and shifted at random, as the names say.

    A shift moves by up to an eighth of the size; what comes in from outside repeats the border.
    """
    if "flip" in names:
        mirrored = torch.rand(len(x), 1, 1, 1, generator=shakes) < 0.5
        x = torch.where(mirrored.to(x.device), x.flip(3), x)
    if "shift" in names:
        h, w = x.shape[2:]
        dy, dx = max(1, h // 8), max(1, w // 8)
        row = torch.randint(-dy, dy + 1, (len(x), 1), generator=shakes) + torch.arange(h)
        column = torch.randint(-dx, dx + 1, (len(x), 1), generator=shakes) + torch.arange(w)
        samples = torch.arange(len(x))[:, None, None]
        rows, columns = row.clamp(0, h - 1)[:, :, None], column.clamp(0, w - 1)[:, None, :]
        places = (part.to(x.device) for part in (samples, rows, columns))
        x = x.permute(0, 2, 3, 1)[tuple(places)].permute(0, 3, 1, 2)
    return x
