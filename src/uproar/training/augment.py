"""Images changed at random while a network is trained, so that it learns what stays."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def augment(x: Tensor, names: tuple[str, ...], rng: torch.Generator) -> Tensor:
    """The batch with each image changed at random, as the names say; drawn on the CPU, so the same on every device.

    flip           mirrored left to right, half of the time
    shift          moved by up to an eighth of the size; what comes in from outside repeats the border
    crop           moved by up to an eighth of the size; what comes in from outside is black
    resized-crop   a part of 8 to 100 % of the area, 3:4 to 4:3 in shape, stretched to the size of the image
    """
    for name in ("flip", "shift", "crop", "resized-crop"):
        if name in names:
            x = _CHANGES[name](x, rng)
    return x


def _flip(x: Tensor, rng: torch.Generator) -> Tensor:
    mirrored = torch.rand(len(x), 1, 1, 1, generator=rng) < 0.5
    return torch.where(mirrored.to(x.device), x.flip(3), x)


def _shift(x: Tensor, rng: torch.Generator) -> Tensor:
    h, w = x.shape[2:]
    row, column = _places(x, rng)
    return _taken(x, row.clamp(0, h - 1), column.clamp(0, w - 1))


def _crop(x: Tensor, rng: torch.Generator) -> Tensor:
    h, w = x.shape[2:]
    dy, dx = _reach(h), _reach(w)
    row, column = _places(x, rng)
    return _taken(F.pad(x, (dx, dx, dy, dy)), row + dy, column + dx)


def _reach(size: int) -> int:
    return max(1, size // 8)


def _places(x: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """For each image, the rows and columns it is read from, outside ones among them."""
    h, w = x.shape[2:]
    dy, dx = _reach(h), _reach(w)
    row = torch.randint(-dy, dy + 1, (len(x), 1), generator=rng) + torch.arange(h)
    column = torch.randint(-dx, dx + 1, (len(x), 1), generator=rng) + torch.arange(w)
    return row, column


def _taken(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    samples = torch.arange(len(x))[:, None, None]
    places = (part.to(x.device) for part in (samples, rows[:, :, None], columns[:, None, :]))
    return x.permute(0, 2, 3, 1)[tuple(places)].permute(0, 3, 1, 2)


def _resized_crop(x: Tensor, rng: torch.Generator) -> Tensor:
    """Lengths count from the middle of the image, whose edges lie at -1 and 1."""
    area, ratio, *place = torch.rand(4, len(x), generator=rng).double()
    area, ratio = 0.08 + 0.92 * area, (4 / 3) ** (2 * ratio - 1)
    sides = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], 1).clamp_max(1)
    middle = (2 * torch.stack(place, 1) - 1) * (1 - sides)
    box = torch.cat([torch.diag_embed(sides), middle[:, :, None]], 2).float().to(x.device)
    grid = F.affine_grid(box, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, "bilinear", "border", align_corners=False)


_CHANGES = {"flip": _flip, "shift": _shift, "crop": _crop, "resized-crop": _resized_crop}
