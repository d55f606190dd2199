"""Boxes as pixels."""

from __future__ import annotations

import torch
from torch import Tensor


def box_pixels(boxes: Tensor, height: int, width: int) -> Tensor:
    """The pixels that lie in any box of an image, (n, h, w) bool.

    `boxes` are (n, 4) or (n, m, 4) integers x0, y0, x1, y1, the last column and row included; a box that ends before
    it begins holds no pixel.

    >>> int(box_pixels(torch.tensor([[1, 2, 3, 2]]), 5, 5).sum())
    3
    """
    row, column = torch.arange(height)[:, None], torch.arange(width)[None, :]
    found = torch.zeros(len(boxes), height, width, dtype=torch.bool)
    for box in boxes.unsqueeze(1).flatten(1, -2).unbind(1):
        x0, y0, x1, y1 = (edge[:, None, None] for edge in box.unbind(1))
        found |= (row >= y0) & (row <= y1) & (column >= x0) & (column <= x1)
    return found
