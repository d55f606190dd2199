"""What the tests of metrics share: small batches, their parts, and a plain gradient estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from uproar.metrics.changes import Batch
from uproar.metrics.registry import metrics
from uproar.models import borrowed
from uproar.seeds import Draws


def gradient(model: nn.Module, x: Tensor, target: Tensor, draws: Draws) -> Tensor:
    with borrowed(model), torch.enable_grad():
        x = x.detach().clone().requires_grad_()
        model(x).gather(1, target[:, None]).sum().backward()
    return x.grad.sum(1)


def batch_of(
    maps: Tensor,
    truth: Tensor | None = None,
    *,
    model: nn.Module | None = None,
    x: Tensor | None = None,
    target: Tensor | None = None,
    index: Sequence[int] | None = None,
    seed: int = 0,
    **more,
) -> Batch:
    """A batch around some maps; without a model, one that never answers."""
    n = len(maps)
    x = torch.zeros(n, 1, *maps.shape[1:]) if x is None else x
    target = torch.zeros(n, dtype=torch.long) if target is None else target
    with torch.no_grad():
        clean = torch.zeros(n, 2) if model is None else model(x)
    draws = Draws.of(seed, range(n) if index is None else index)
    return Batch(model or nn.Identity(), x, target, maps, clean, draws, truth=truth, **more)


def part(batch: Batch, rows: Sequence[int]) -> Batch:
    """Some images of a batch."""
    rows = list(rows)
    truth, boxed = (None if known is None else known[rows] for known in (batch.truth, batch.boxed))
    return Batch(
        batch.model,
        batch.x[rows],
        batch.target[rows],
        batch.maps[rows],
        batch.clean[rows],
        batch.draws[rows],
        batch.mean,
        truth,
        batch.explain,
        boxed=boxed,
        fine_tuned=batch.fine_tuned,
    )


def run(name: str, batch: Batch, **options) -> Mapping[str, Tensor]:
    """The responses of a metric, the model asked as it wishes."""
    entry = metrics[name]
    bound = entry.bind(**options)
    if "outputs" not in entry.inputs:
        return entry.function(batch, **bound)
    changes = entry.facts["asks"](tuple(batch.x.shape[1:]), **bound)
    with torch.no_grad():
        outputs = {change: batch.model(change.images(batch)) for change in changes}
    return entry.function(batch, outputs, **bound)


def value(name: str, batch: Batch, **options) -> Tensor:
    return run(name, batch, **options)["value"]
