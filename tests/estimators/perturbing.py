"""Models with known answers, and the question every estimator is asked: does its map depend on the batch?"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from tests.closeness import alike
from uproar.data.task import Split
from uproar.estimators import Context, prepare_states, raw_maps, read_chain
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


def small(build, shape=(3, 16, 16), **options) -> nn.Module:
    """A small network whose batch norms do something, some of them with negative scale."""
    mean = torch.linspace(0.4, 0.6, shape[0])
    model = build(shape, 4, mean, torch.full_like(mean, 0.25), **options)
    return with_norms(model)


def with_norms(model: nn.Module) -> nn.Module:
    """The network frozen, with batch norms that do something."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d) and module.track_running_stats:
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            module.weight.data.normal_()
            module.bias.data.normal_()
    return frozen(model)


def scores(model: nn.Module, x: Tensor, target: Tensor) -> Tensor:
    return model(x).gather(1, target[:, None])[:, 0]


def close(ours: Tensor, theirs: Tensor, tolerance: float = 1e-5) -> None:
    """Within a share of the largest value."""
    assert (ours - theirs).abs().max() <= tolerance * theirs.abs().max()


def same_for_any_batch(expression: str, model: nn.Module, shape: tuple[int, ...]) -> bool:
    """Whether maps are finite and agree in batches of 1, 4 and 64 and in another order."""
    x, target = images(9, *shape), torch.arange(9) % 4
    chain = read_chain(expression)
    train = Split("train", images(40, *shape, seed=1), torch.zeros(40).long())
    context = around(x, truth=x[:, 0] > 0.5, train=train)
    context = replace(context, states=prepare_states(model, context, [chain]))
    single, four, whole = (raw_maps(model, x, target, context, [chain.raw], n)[chain.raw] for n in (1, 4, 64))
    order = torch.randperm(9)
    mixed = raw_maps(model, x[order], target[order], context[order.tolist()], [chain.raw], 7)[chain.raw]
    same = alike(single, whole) and alike(four, whole) and alike(mixed, whole[order])
    return same and bool(whole.isfinite().all())
