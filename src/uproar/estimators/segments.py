"""Images cut into pieces: squares, or superpixels of similar colour."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from uproar.errors import NotApplicable
from uproar.types import Images

Segments = Literal["patches", "slic"]


def segmented(x: Images, kind: Segments, side: int) -> Int[Tensor, "n h w"]:
    """The number of each pixel's piece, 0 .. side² − 1, for every image on its own."""
    h, w = x.shape[2:]
    if side > min(h, w):
        raise NotApplicable(f"images of {h}×{w} pixels cannot be cut into {side}×{side} pieces")
    squares = patches(h, w, side).to(x.device)
    if kind == "patches":
        return squares.expand(len(x), h, w)
    return torch.stack([superpixels(image, squares) for image in x])


def patches(h: int, w: int, side: int) -> Int[Tensor, "{h} {w}"]:
    """`side` × `side` rectangles, as equal as the size allows, numbered row by row."""
    rows, columns = torch.arange(h) * side // h, torch.arange(w) * side // w
    return rows[:, None] * side + columns


def superpixels(
    image: Float[Tensor, "c h w"], start: Int[Tensor, "h w"], compactness: float = 0.1, rounds: int = 10
) -> Int[Tensor, "h w"]:
    """Pieces of similar colour and place: k-means on both, as in SLIC, from the pieces given.

    A distance of one piece counts as much as a difference of `compactness` in colour, on the scale [0, 1]. Pieces need
    not be connected, and a number may be left without pixels.
    """
    c, h, w = image.shape
    many = int(start.max()) + 1
    cell = (h * w / many) ** 0.5
    rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    places = torch.stack([rows, columns]).to(image) * (compactness / cell)
    points = torch.cat([image, places]).flatten(1).double()
    label = start.flatten()
    centres = points.new_zeros(c + 2, many)
    for _ in range(rounds):
        count = torch.bincount(label, minlength=many)
        sums = torch.zeros_like(centres).index_add_(1, label, points)
        centres = torch.where(count > 0, sums / count.clamp_min(1), centres)
        distance = points.new_zeros(h * w, many)
        for values, centre in zip(points, centres, strict=True):
            distance += (values[:, None] - centre).square()
        label = distance.argmin(1)
    return label.view(h, w)
