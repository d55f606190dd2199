"""Images whose geometry is known: classes in coarse blocks, in pixels that stand for themselves, or in the middle."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F

from uproar.data import Split, Task
from uproar.seeds import generator

SIZE = 8


def textured(*, grain: Literal["blocks", "noise"] = "blocks", spread: float = 0.3) -> Task:
    """Two classes that differ in every block (4×4 pixels alike) or in every pixel on its own."""
    cells = 2 if grain == "blocks" else SIZE
    sign = torch.randn(cells, cells, generator=generator("made up", grain)).sign()
    splits = []
    for name, n in (("train", 320), ("test", 300)):
        labels = torch.arange(n) % 2
        noise = torch.randn(n, cells, cells, generator=generator("made up", grain, name))
        weight = 0.5 / cells  # the same evidence in all cells together, however many there are
        flat = (2 * labels - 1)[:, None, None] * weight * sign + spread * noise
        images = F.interpolate(flat[:, None], SIZE)
        splits.append(Split(name, (0.5 + 0.25 * images).clamp(0, 1), labels))
    return Task(f"textured {grain}", splits[0], splits[1], ("low", "high"))


def framed(*, border: float = 0.0) -> Task:
    """Bright or dark squares inside a border of one colour; the class is in the middle alone."""
    splits = []
    for name, n in (("train", 240), ("test", 120)):
        labels = torch.arange(n) % 3
        images = torch.full((n, 1, 8, 8), border)
        noise = torch.rand(n, 1, 2, 2, generator=generator("framed", name))
        images[:, :, 3:5, 3:5] = 0.1 + 0.2 * labels[:, None, None, None] + 0.5 * noise
        splits.append(Split(name, images, labels))
    return Task("framed", splits[0], splits[1], ("a", "b", "c"))
