"""IDSDS, the in-domain single deletion score: does the map rank cells as their deletion lowers the class score?

The image is cut into a grid of cells. A copy of the network, fine-tuned with one cell deleted in half of the images,
says how much the logit of the target falls when each cell gets the mean colour; the score of an image is Spearman's
correlation of that fall with the sum of the signed map in the cell. A correlation has no scale, so scores of different
networks can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from uproar.errors import NotApplicable
from uproar.metrics.f_fidelity import BatchSize, Epochs, Rate
from uproar.metrics.prepared_batch import PreparedBatch
from uproar.metrics.probabilities import only, target_score
from uproar.metrics.randomisation import compare
from uproar.metrics.registry import Batch, Outputs, Responses, metric
from uproar.training import FineTuning, Recipe
from uproar.training.finetune import RandomCell, grid_cells
from uproar.types import Images, Maps

Grid = Annotated[int, Field(ge=2, le=64)]


@dataclass(frozen=True)
class CellRemoved:
    """The images with one cell of a grid in the mean colour."""

    cell: int
    grid: int

    def images(self, batch: Batch) -> Images:
        ready = PreparedBatch.of(batch)
        height, width = ready.x.shape[2:]
        inside = grid_cells(height, width, self.grid) == self.cell
        return ready.filled(inside.expand_as(ready.maps), "mean", 0)


def cells_of(shape: Sequence[int], *, grid: int, **_: Any) -> list[CellRemoved]:
    """One change for each cell."""
    if min(shape[1:]) < grid:
        raise NotApplicable(f"images of {shape[1]}x{shape[2]} pixels have no {grid}x{grid} cells; give a smaller grid")
    return [CellRemoved(cell, grid) for cell in range(grid**2)]


def cell_sums(maps: Maps, grid: int) -> Tensor:
    """The sum of each map in each cell, (n, cells), in double precision."""
    height, width = maps.shape[1:]
    cells = grid_cells(height, width, grid)
    return torch.stack([maps[:, cells == cell].double().sum(1) for cell in range(grid**2)], 1)


def fine_tuning(*, grid: int, epochs: int, lr: float, batch_size: int, **_: Any) -> FineTuning:
    """SGD with momentum, the rate divided by 10 after one and two thirds, a cell deleted in half of the images."""
    recipe = Recipe(
        epochs=epochs,
        batch=batch_size,
        lr=lr,
        nesterov=False,
        weight_decay=1e-4,
        schedule="step",
        milestones=(1 / 3, 2 / 3),
        warmup=0,
    )
    return FineTuning(RandomCell(grid), recipe)


@metric(
    true_to="model",
    higher_is_better=True,
    low=-1,
    high=1,
    chance="0",
    uses="values",
    paper="Hesse et al. 2024",
    formula="Spearman over the cells of the sum of the signed map and z_c(x) − z_c(x without the cell), z fine-tuned",
    biases="16 cells know nothing of what lies inside one; a map without negative values cannot say which cells speak "
    "against the class; one cell at a time does not show evidence that another cell repeats; the fine-tuned copy may "
    "use other evidence than the explained network",
    needs="signed maps, and training images with labels, on which a copy of the network is fine-tuned once for all "
    "methods",
    asks=cells_of,
    fine_tuning=fine_tuning,
)
def idsds(
    batch: Batch, outputs: Outputs, *, grid: Grid = 4, epochs: Epochs = 30, lr: Rate = 1e-3, batch_size: BatchSize = 256
) -> Responses:
    """In-domain single deletion score: rank correlation of the map with what the deletion of each cell costs.

    `epochs`, `lr` and `batch_size` are those of the fine-tuning, by default the paper's for ImageNet; small data sets
    have few batches and need more: `lr=0.01, batch_size=64`. Undefined where the map, its sums or the falls are
    constant, or the map is not finite.
    """
    shape = tuple(batch.x.shape[1:])
    before = target_score(batch.clean, batch.target, "logit")
    fall = torch.stack(
        [before - target_score(outputs[c], batch.target, "logit") for c in cells_of(shape, grid=grid)], 1
    )
    sums = cell_sums(batch.maps, grid)
    varies = batch.maps.flatten(1).amax(1) > batch.maps.flatten(1).amin(1)
    value = compare(sums[:, None], fall[:, None], "spearman")
    return {"value": only(varies, value), "fall": fall.float()}
