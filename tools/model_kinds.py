"""Which estimator explains which kind of model: a table, made by running all of them.

    python tools/model_kinds.py [ESTIMATOR ...]

A map that is constant, or not finite, and any error that is not uproar's own sentence end the program: there is
nothing between "works" and a refusal.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

import uproar
from uproar.errors import UproarError
from uproar.estimators.registry import estimators
from uproar.models import ModelSpec, make

SIZE, IMAGES, CLASSES = 16, 3, 3
QUICK = {
    "rise": "masks=30",
    "lime": "samples=40",
    "kernel_shap": "samples=40",
    "iba": "steps=2, samples=2",
    "input_iba": "steps=2, feature_steps=2, samples=2, epochs=1, pool=8, batch=4",
    "extremal_perturbation": "iterations=10",
    "tame": "epochs=1",
    "occlusion": "window=4",
    "ig": "steps=8",
    "deep_shap": "samples=4",
    "grad_shap": "samples=4",
}
"""Options that make the slow ones quick; they decide nothing about what is refused."""


class SmallNet(nn.Module):
    """Two convolutions and a linear layer; `end` makes an answer of its outputs."""

    def __init__(self, outputs: int, end: Callable[[Tensor], Any] = lambda z: z) -> None:
        super().__init__()
        self.conv, self.act = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()
        self.pool, self.next, self.last = nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()
        self.mean, self.flat, self.head = nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, outputs)
        self.end = end

    def forward(self, x: Tensor) -> Any:
        x = self.last(self.next(self.pool(self.act(self.conv(x)))))
        return self.end(self.head(self.flat(self.mean(x))))


class TwoInputs(SmallNet):
    """A network of an image and of a number that is added to its scores."""

    def forward(self, x: Tensor, number: Tensor) -> Any:
        return super().forward(x) + number


class WindowAttention(nn.Module):
    """Self-attention within windows of 2×2 tokens, as in a Swin transformer, and two linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm2, self.mlp = (
            nn.LayerNorm(width),
            nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)),
        )

    def forward(self, x: Tensor) -> Tensor:
        n, rows, columns, width = x.shape
        y = self.norm1(x).view(n, rows // 2, 2, columns // 2, 2, width).transpose(2, 3).reshape(-1, 4, width)
        y, _ = self.attention(y, y, y, need_weights=False)
        y = y.view(n, rows // 2, columns // 2, 2, 2, width).transpose(2, 3).reshape(x.shape)
        x = x + y
        return x + self.mlp(self.norm2(x))


class SmallSwin(nn.Module):
    """Patches of 2×2 pixels, attention in windows, patches merged, attention again, their mean."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.embed, self.first = nn.Conv2d(3, width, 2, stride=2), WindowAttention(width)
        self.merge, self.second = nn.Linear(4 * width, width), WindowAttention(width)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(self.embed(x).permute(0, 2, 3, 1))
        n, rows, columns, width = x.shape
        merged = x.view(n, rows // 2, 2, columns // 2, 2, width).transpose(2, 3).reshape(n, rows // 2, columns // 2, -1)
        x = self.norm(self.second(self.merge(merged)))
        return self.head(x.mean((1, 2)))


@dataclass(frozen=True)
class ModelKind:
    """A kind of model: what it is called, how one is made, and what has to be said of it."""

    title: str
    make: Callable[[], nn.Module]
    given: dict[str, Any] = field(default_factory=dict)


def _named(text: str) -> nn.Module:
    grey = torch.full((3,), 0.5)
    return make(ModelSpec.of(text), 0, (3, SIZE, SIZE), CLASSES, grey, grey)


KINDS = (
    ModelKind("CNN", lambda: SmallNet(CLASSES)),
    ModelKind("ResNet", lambda: _named("resnet20(width=4)")),
    ModelKind("ViT", lambda: _named("vit-small(width=16, depth=2, heads=2)")),
    ModelKind("Swin-like", SmallSwin),
    ModelKind("one logit", lambda: SmallNet(1), {"output": "sigmoid", "target": 1}),
    ModelKind("multi-label", lambda: SmallNet(CLASSES), {"output": "sigmoid"}),
    ModelKind("regression", lambda: SmallNet(2), {"output": "regression"}),
    ModelKind("`.logits` object", lambda: SmallNet(CLASSES, lambda z: SimpleNamespace(logits=z))),
    ModelKind(
        "two inputs", lambda: TwoInputs(CLASSES), {"output": "softmax", "inputs": {"number": torch.tensor([[0.3]])}}
    ),
)


def names() -> list[str]:
    """The estimators of the package that look at a model."""
    entries = [entry for entry in estimators.values() if not entry.code]
    return [entry.name for entry in entries if entry.facts["role"] == "estimator" and entry.facts["model"]]


def outcome(name: str, kind: ModelKind) -> str:
    """`works`, or the sentence that refuses the model."""
    x = torch.rand(IMAGES, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(2))
    text = f"{name}({QUICK[name]})" if name in QUICK else name
    # a map of what speaks for a class is rightly empty where nothing does, as in some draws of the weights
    for seed, target in itertools.product(range(1, 5), (0, 1)):
        torch.manual_seed(seed)
        known = {"target": target, "train": x, "mean": x.mean((0, 2, 3))}
        try:
            maps = uproar.explain(kind.make().eval(), x, text, **{**known, **kind.given})
        except UproarError as refusal:
            return str(refusal).rstrip(".")
        if bool(maps.isfinite().all()) and float(maps.flatten(1).std(1).max()) > 0:
            return "works"
    raise AssertionError(f"{name} on {kind.title}: the map is constant or not finite")


if __name__ == "__main__":
    print(f"{'estimator':24}{'  '.join(kind.title for kind in KINDS)}")
    for estimator in sys.argv[1:] or names():
        results = [outcome(estimator, kind) for kind in KINDS]
        signs = ["works" if result == "works" else "–" for result in results]
        columns = "  ".join(sign.ljust(len(kind.title)) for sign, kind in zip(signs, KINDS, strict=True))
        print(f"{estimator:24}{columns}  {'; '.join(sorted({*results} - {'works'}))}")
