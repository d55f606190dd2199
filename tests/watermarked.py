"""A plug-in: images with an object and a mark in a corner, and networks that by construction see one of the two."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import uproar
from uproar import extend

SIZE, CORNER = 12, 4


def _images(count: int, agree: float, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Class 0: a bar lies, class 1: it stands; bright or dark, so that brightness does not find it."""
    x, labels = (
        0.25 + 0.1 * torch.rand(count, 1, SIZE, SIZE, generator=draw),
        torch.randint(2, (count,), generator=draw),
    )
    corners = torch.randint(0, SIZE - 5, (count, 2), generator=draw).tolist()
    for i, (row, column) in enumerate(corners):
        row = row if max(row, column) >= CORNER else row + CORNER
        high, wide = (5, 1) if labels[i] else (1, 5)
        x[i, 0, row : row + high, column : column + wide] = 0.9 if i % 2 else 0.0
    shown = torch.where(torch.rand(count, generator=draw) < agree, labels, 1 - labels)
    stripes = 0.1 + 0.3 * (torch.arange(CORNER) % 2).expand(CORNER, CORNER)
    mark = torch.where(shown[:, None, None] == 1, stripes, stripes.T)
    x[:, 0, :CORNER, :CORNER] = mark + 0.1 * torch.rand(count, CORNER, CORNER, generator=draw)
    return x, labels


@extend.task()
def watermarked(*, agree: float = 0.9) -> uproar.Task:
    """The direction of the stripes in the corner is that of the bar in a share of the images."""
    draw = torch.Generator().manual_seed(1)
    splits = [uproar.Split(name, *_images(count, agree, draw)) for name, count in (("train", 600), ("test", 200))]
    return uproar.Task("watermarked", *splits, ("lying", "standing"))


class Sees(nn.Module):
    """A small network that is shown some pixels; the others are one grey to it."""

    def __init__(self, seen: Tensor) -> None:
        super().__init__()
        self.register_buffer("seen", seen)
        self.network = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(16 * (SIZE // 2) ** 2, 2),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.network(torch.where(self.seen, x, 0.3))


def _corner() -> Tensor:
    inside = torch.arange(SIZE) < CORNER
    return inside[:, None] & inside


@extend.model()
def only_mark() -> nn.Module:
    """Sees nothing but the mark."""
    return Sees(_corner())


@extend.model()
def all_but_mark() -> nn.Module:
    """Sees everything but the mark."""
    return Sees(~_corner())


@extend.model()
def everything() -> nn.Module:
    """Sees the whole image."""
    return Sees(torch.ones(SIZE, SIZE, dtype=torch.bool))
