"""A network that sees one cell of a mosaic alone: DiFull of Rao et al. 2022, for any model by name or in a file."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from uproar.errors import BadInput
from uproar.models.registry import ModelSpec, make, models


class Disconnected(nn.Module):
    """The inner network, shown one cell of k×k; every other pixel is connected to nothing."""

    def __init__(self, inner: nn.Module, k: int, cell: int) -> None:
        super().__init__()
        self.inner, self.k, self.cell = inner, k, cell

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[2] // self.k, x.shape[3] // self.k
        row, column = divmod(self.cell, self.k)
        return self.inner(x[:, :, row * h : (row + 1) * h, column * w : (column + 1) * w])


@models.declare(size="that of the inner network")
def disconnected(
    shape: tuple[int, int, int],
    classes: int,
    mean: Tensor,
    std: Tensor,
    *,
    of: str = "cnn-small",
    k: Annotated[int, Field(ge=2, le=8)] = 2,
    cell: Annotated[int, Field(ge=0)] = 0,
) -> nn.Module:
    """The network `of` connected to one cell of a mosaic alone, for the task grid(…, k=2, cell=0)."""
    channels, h, w = shape
    if cell >= k * k:
        raise BadInput(f"A mosaic of {k}×{k} images has the cells 0 to {k * k - 1}, not {cell}.")
    if h % k or w % k:
        raise BadInput(f"Images of {h}×{w} pixels are no mosaic of {k}×{k} images.")
    spec = ModelSpec.of(of)
    if spec.from_file:
        raise BadInput(
            f"disconnected takes a model by name, not {of}: return uproar.models.disconnected.Disconnected(network, "
            "k, cell) from your own file."
        )
    seed = int(torch.randint(2**31, ()))  # of the replicate
    return Disconnected(make(spec, seed, (channels, h // k, w // k), classes, mean, std), k, cell)
