"""Attention methods beside one forward and backward pass of the same vision transformer.

    python benchmarks/attention.py            a minute or two

A pass is the class scores of the images and the gradient of the targets' scores in the images: as uproar makes it (`grad`),
with products in blocks so that no image depends on the others, and, for comparison, by plain torch on the frozen model.
The methods are timed from images to signed maps (`raw_maps`), which includes finding the attention. All take
turns on one thread; what counts is processor time, and the median over rounds of the quotient within a round, so that other work on the
machine does not. Explicit attention is that of `vit-small`, fused attention the same network with `scaled_dot_product_attention`. Each
method is compared with both passes, `grad` / torch. Target: at most 1.3 times the time of a pass.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar.estimators import Context, raw_maps, read_chain
from uproar.models import ModelSpec, make
from uproar.models.small import Attention
from uproar.seeds import Draws

PASS = "grad"
METHODS = ("attention_rollout", "grad_attention", "legrad")
TARGET = 1.3
NETWORKS = {
    "vit-small, 32 px": ("vit-small", 32, 32),
    "ViT-Ti/16, 224 px": ("vit-small(patch=16, width=192, depth=12, heads=3)", 224, 8),
}
"""By title: the model, the side of the images, and how many of them are explained at a time."""


def fused(self: Attention, x: Tensor) -> Tensor:
    """The forward pass of `vit-small`'s attention with the fused function."""
    q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()
    return self.proj(F.scaled_dot_product_attention(q, k, v, scale=self.scale).transpose(1, 2).flatten(2))


def network(name: str, side: int, is_fused: bool) -> nn.Module:
    """The frozen model for images of this size."""
    model = make(ModelSpec.of(name), 0, (3, side, side), 10, torch.full((3,), 0.5), torch.full((3,), 0.25))
    for module in model.modules() if is_fused else ():
        if isinstance(module, Attention):
            module.forward = fused.__get__(module)  # type: ignore[method-assign]
    return model.eval().requires_grad_(False)


def plain_pass(model: nn.Module, x: Tensor, target: Tensor) -> Callable[[], Tensor]:
    """One forward and backward pass by torch alone."""

    def run() -> Tensor:
        images = x.clone().requires_grad_()
        score = model(images).gather(1, target[:, None]).sum()
        return torch.autograd.grad(score, images)[0]

    return run


def method(name: str, model: nn.Module, x: Tensor, target: Tensor) -> Callable[[], Tensor]:
    """What makes the maps of a method."""
    call, context = read_chain(name).raw, Context(Draws.of(0, len(x)))
    return lambda: raw_maps(model, x, target, context, [call], len(x))[call]


def times(runs: dict[str, Callable[[], Tensor]], rounds: int) -> dict[str, list[float]]:
    """The times of each in all rounds, in turns."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            began = time.process_time()
            run()
            taken[name].append(time.process_time() - began)
    return {name: each[1:] for name, each in taken.items()}  # the first round only warms up


def ratio(method: list[float], one_pass: list[float]) -> str:
    middle = median(a / b for a, b in zip(method, one_pass, strict=True))
    return f"{middle:.2f}×{'' if middle <= TARGET else ' (over)'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(
        f"| network | attention | torch, ms | pass, ms | {' | '.join(METHODS)} |\n|---|---|---|---|{'---|' * len(METHODS)}"
    )
    for title, (name, side, images) in NETWORKS.items():
        x, target = torch.rand(images, 3, side, side), torch.arange(images) % 10
        for is_fused in (False, True):
            model = network(name, side, is_fused)
            runs = {"torch": plain_pass(model, x, target)}
            runs |= {name: method(name, model, x, target) for name in (PASS, *METHODS)}
            taken = times(runs, rounds)
            cells = " | ".join(" / ".join(ratio(taken[m], taken[one]) for one in (PASS, "torch")) for m in METHODS)
            both = " | ".join(f"{1e3 * median(taken[one]):.1f}" for one in ("torch", PASS))
            print(f"| {title} | {'fused' if is_fused else 'explicit'} | {both} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
