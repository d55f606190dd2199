"""Images whose geometry is known: classes in coarse blocks, or in pixels that have nothing to do with each other."""

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
