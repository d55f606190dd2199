"""The training loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from uproar.batches import spans
from uproar.errors import BadInput
from uproar.models.borrow import device_of
from uproar.models.forward import forward, needs_contiguous_input, raw_output, read_by
from uproar.seeds import generator, key
from uproar.training.augment import augment
from uproar.training.layers import cpu_dropout, ghost_norms
from uproar.training.optimise import Optimiser
from uproar.training.recipe import Recipe
from uproar.training.rows import Rows, prefetch, reader_threads
from uproar.training.task_scores import training_loss
from uproar.types import Kind

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
    with plain, torch.random.fork_rng(devices=[]), ghost_norms(model, recipe.ghost), cpu_dropout(model, device):
        torch.default_generator.manual_seed(key(seed, "dropout"))
        for epoch in range(recipe.epochs):
            rows = torch.randperm(len(images), generator=order)[: per_epoch * batch]
            y = labels[rows].to(device)
            for i, x in enumerate(_shuffled(images, rows, batch, reader_threads(device))):
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


def _shuffled(images: Tensor | Rows, rows: Tensor, batch: int, threads: int) -> Iterator[Tensor]:
    """The images of an epoch in batches, laid out channels last."""
    if isinstance(images, Tensor):
        x = images[rows]
        yield from (x[part] for part in spans(len(rows), batch))
        return
    for x in prefetch(images, (rows[part] for part in spans(len(rows), batch)), threads):
        yield x.contiguous(memory_format=torch.channels_last)


def channels_last(model: nn.Module) -> nn.Module:
    """The model with its weights laid out channels last, the faster way on a CPU, where that is safe."""
    if needs_contiguous_input(model):
        return model
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
