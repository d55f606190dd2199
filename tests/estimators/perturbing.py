"""Models with known answers, and the question every estimator is asked: does its map depend on the batch?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.closeness import alike
from uproar.estimators import Context, raw_maps, read_chain
from uproar.models.small import cnn_small
from uproar.seeds import Draws


def frozen(model: nn.Module) -> nn.Module:
    return model.eval().requires_grad_(False)


def around(x: Tensor, mean: float | None = 0.5, **more) -> Context:
    colour = None if mean is None else torch.full(x.shape[1:2], mean)
    return Context(Draws.of(0, len(x)), mean=colour, **more)


class Linear(nn.Module):
    """Class scores are weighted sums of the pixels."""

    def __init__(self, c: int, h: int, w: int, classes: int = 3) -> None:
        super().__init__()
        source = torch.Generator().manual_seed(1)
        self.weight = nn.Parameter(torch.randn(classes, c, h, w, generator=source))
        frozen(self)

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("nchw,kchw->nk", x, self.weight)


class Region(nn.Module):
    """Class 0 is the mean brightness of one region, class 1 its darkness; nothing else counts."""

    def __init__(self, region: Tensor, strength: float = 10) -> None:
        super().__init__()
        self.strength = strength
        self.weight = strength * region.float() / region.sum()

    def forward(self, x: Tensor) -> Tensor:
        score = (x * self.weight).sum((1, 2, 3))
        return torch.stack([score, self.strength - score], 1)


def images(n: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(seed))


def same_for_any_batch(expression: str, c: int = 1, side: int = 9) -> bool:
    """Whether maps agree in batches of 1, 7 and 64 and in another order."""
    torch.manual_seed(0)
    model = frozen(cnn_small((c, side, side), 3, torch.full((c,), 0.5), torch.ones(c), width=8))
    x = images(9, c, side, side)
    target = torch.arange(9) % 3
    call = read_chain(expression).raw
    context = around(x, truth=x[:, 0] > 0.5)
    one, seven, all_ = (raw_maps(model, x, target, context, [call], size)[call] for size in (1, 7, 64))
    order = torch.randperm(9)
    mixed = raw_maps(model, x[order], target[order], context[order.tolist()], [call], 7)[call]
    return alike(one, all_) and alike(seven, all_) and alike(mixed, all_[order])
