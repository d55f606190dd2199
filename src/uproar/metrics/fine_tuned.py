"""Metrics that ask a copy of the network, fine-tuned on images like those it is shown: F-Fidelity and IDSDS.

F-Fidelity: how often a fine-tuned copy of the network is still right when a random part of the map's pixels is gone.

At a size s the first (FFid+) or the last (FFid−) share s of the map's order is looked at, and each of its pixels gets
the mean colour with probability α, or with less where α·s would remove more than the share β of the image, with which
the copy was fine-tuned. So no image that it sees is unlike those it was trained with. Only the order of the map counts.

IDSDS, the in-domain single deletion score: does the map rank cells as their deletion lowers the class score?

The image is cut into a grid of cells. A copy of the network, fine-tuned with one cell deleted in half of the images,
says how much the logit of the target falls when each cell gets the mean colour; the score of an image is Spearman's
correlation of that fall with the sum of the signed map in the cell. A correlation has no scale, so scores of different
networks can be compared.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from uproar.errors import NotApplicable
from uproar.metrics.changes import BY_VALUE, Batch, Change, Outputs, Side, Unchanged
from uproar.metrics.probe import curve_of, only, target_score
from uproar.metrics.registry import Axis, Responses, metric
from uproar.metrics.sanity import compare
from uproar.registry import options_of
from uproar.removal import count
from uproar.training import FineTuning, Recipe
from uproar.training.finetune import RandomCell, RandomValues, grid_cells
from uproar.types import Images

Share = Annotated[float, Field(gt=0, le=1)]
Sizes = Annotated[tuple[Share, ...], Field(min_length=1)]
By = Literal["accuracy", "probability"]
Epochs = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0)]
BatchSize = Annotated[int, Field(ge=2)]
DrawCount = Annotated[int, Field(ge=1, le=10_000)]

TWENTIETHS: Sizes = tuple(round(0.05 * i, 2) for i in range(1, 21))
"""The sizes of the paper: 5, 10, …, 100 % of the pixels."""
ZHENG = "Zheng et al. 2025"


@dataclass(frozen=True)
class PartlyRemoved:
    """Each of the first or last `count` pixels of the order is removed with a probability, by the numbers of a draw.

    The numbers belong to the image and the draw: all sizes, both sides and all methods share them.
    """

    side: Side
    count: int
    probability: float
    draw: int

    def images(self, batch: Batch) -> Images:
        return batch.filled(self.removed_mask(batch), "mean", 0)

    def removed_mask(self, batch: Batch) -> Tensor:
        """What is removed, (n, h, w)."""
        # the numbers of the last draw are kept, since its changes follow each other
        last: dict[int, Tensor] = batch.once("numbers of the last draw", dict)
        if self.draw not in last:
            last.clear()
            last[self.draw] = batch.draws.copies([self.draw]).uniform("f-fidelity", *batch.maps.shape[1:])
        places = batch.places(BY_VALUE).view_as(batch.maps)
        explained = places < self.count if self.side == "most" else places >= places[0].numel() - self.count
        return explained & (last[self.draw] <= self.probability)


def probability_at(count: int, features: int, alpha: float, beta: float) -> float:
    """The probability α of removal, lowered so that at most a share β of the image is expected to go.

    >>> probability_at(50, 1000, 0.5, 0.1), probability_at(500, 1000, 0.5, 0.1)
    (0.5, 0.2)
    """
    return min(alpha, beta * features / count)


def _ffid_points(side: Side) -> Callable[..., list[tuple[Change, ...]]]:
    """By size, the changed images of all draws."""

    def points(
        shape: Sequence[int], *, sizes: Sizes, alpha: float, beta: float, draws: int, **_: Any
    ) -> list[tuple[Change, ...]]:
        features = shape[1] * shape[2]
        counts = [count(size, features) for size in sizes]
        return [
            tuple(PartlyRemoved(side, k, probability_at(k, features, alpha, beta), d) for d in range(draws))
            if k
            else (Unchanged(),)
            for k in counts
        ]

    return points


_MOST, _LEAST = _ffid_points("most"), _ffid_points("least")


def _draw_by_draw(points: Callable[..., list[tuple[Change, ...]]]) -> Callable[..., list[Change]]:
    """All changes, those of a draw together."""

    def asks(shape: Sequence[int], **options: Any) -> list[Change]:
        by_size = points(shape, **options)
        return [point[d] for d in range(max(map(len, by_size))) for point in by_size if d < len(point)]

    return asks


def fine_tuning(*, beta: float, epochs: int, lr: float, batch_size: int, **_: Any) -> FineTuning:
    """Adam at a constant rate on images that lack a share β of their values."""
    recipe = Recipe(
        epochs=epochs, batch=batch_size, lr=lr, optimizer="adam", schedule="constant", warmup=0, weight_decay=0
    )
    return FineTuning(RandomValues(beta), recipe)


def _sizes(shape: Sequence[int], *, sizes: Sizes, **_: Any) -> list[float]:
    return list(sizes)


def _ffid_axis(end: str) -> Axis:
    return Axis(
        _sizes,
        f"share of the {end} important pixels looked at",
        remark=f"At each size, a random part of the {end} important pixels is removed: a share α of them, and never "
        "more than a share β of the image. The line is the {score} of the fine-tuned copy, averaged over the draws.",
    )


_COPY = "training images with labels, on which a copy of the network is fine-tuned once for all methods"
ffid_metric = functools.partial(
    metric,
    true_to="model",
    low=-1,
    high=1,
    chance="about what is lost when a random share of all pixels goes",
    paper=ZHENG,
    needs=_COPY,
    fine_tuning=fine_tuning,
    biases="the fine-tuned copy may use other evidence than the explained network; at most a share β of the image "
    "goes, so that evidence which survives the loss of a tenth of its pixels is never seen to count; beyond the size "
    "β/α the part removed no longer grows",
)
_FORMULA = (
    "mean over sizes s and draws of [f(x) = c] − [f(x without a random share min(α, β/s) of the {} s of the pixels) = "
    "c], f fine-tuned"
)


def _responses(batch: Batch, outputs: Outputs, points: list[tuple[Change, ...]], by: By) -> Responses:
    curve = curve_of(batch, outputs, points, by)
    before = target_score(batch.clean, batch.target, by)
    lost = (before[:, None] - curve).mean(1)
    return {"value": only(batch.usable, lost), "curve": curve}


@ffid_metric(
    higher_is_better=True, formula=_FORMULA.format("first"), asks=_draw_by_draw(_MOST), axis=_ffid_axis("most")
)
def ffid_plus(
    batch: Batch,
    outputs: Outputs,
    *,
    sizes: Sizes = TWENTIETHS,
    alpha: Share = 0.5,
    beta: Share = 0.1,
    draws: DrawCount = 50,
    by: By = "accuracy",
    epochs: Epochs = 30,
    lr: Rate = 1e-4,
    batch_size: BatchSize = 64,
) -> Responses:
    """FFid+ of F-Fidelity: what a fine-tuned copy loses when a random part of the most important pixels goes.

    `epochs`, `lr` and `batch_size` are those of the fine-tuning (Adam, 1e-4, as in the released code). That removes
    single channel values at random; pixels go whole here. The released code's own default is `alpha=0.1`, with which
    the bound is never reached. Sizes are exact shares, where the released code adds one percent to each.
    """
    shape = batch.x.shape[1:]
    points = _MOST(shape, sizes=sizes, alpha=alpha, beta=beta, draws=draws)
    return _responses(batch, outputs, points, by)


@ffid_metric(
    higher_is_better=False, formula=_FORMULA.format("last"), asks=_draw_by_draw(_LEAST), axis=_ffid_axis("least")
)
@options_of(ffid_plus)
def ffid_minus(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """FFid− of F-Fidelity: what a fine-tuned copy loses when a random part of the least important pixels goes.

    Options as for `ffid_plus`, with which it shares the fine-tuned copy.
    """
    return _responses(batch, outputs, _LEAST(batch.x.shape[1:], **options), options["by"])


Grid = Annotated[int, Field(ge=2, le=64)]


@dataclass(frozen=True)
class CellRemoved:
    """The images with one cell of a grid in the mean colour."""

    cell: int
    grid: int

    def images(self, batch: Batch) -> Images:
        height, width = batch.x.shape[2:]
        inside = grid_cells(height, width, self.grid) == self.cell
        return batch.filled(inside.expand_as(batch.maps), "mean", 0)


def cells_of(shape: Sequence[int], *, grid: int, **_: Any) -> list[CellRemoved]:
    """One change for each cell."""
    if min(shape[1:]) < grid:
        raise NotApplicable(f"images of {shape[1]}x{shape[2]} pixels have no {grid}x{grid} cells; give a smaller grid")
    return [CellRemoved(cell, grid) for cell in range(grid**2)]


def idsds_fine_tuning(*, grid: int, epochs: int, lr: float, batch_size: int, **_: Any) -> FineTuning:
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
    needs=f"signed maps, and {_COPY}",
    asks=cells_of,
    fine_tuning=idsds_fine_tuning,
)
def idsds(
    batch: Batch, outputs: Outputs, *, grid: Grid = 4, epochs: Epochs = 30, lr: Rate = 1e-3, batch_size: BatchSize = 256
) -> Responses:
    """In-domain single deletion score: rank correlation of the map with what the deletion of each cell costs.

    `epochs`, `lr` and `batch_size` are those of the fine-tuning, by default the paper's for ImageNet; small data sets
    have few batches and need more: `lr=0.01, batch_size=64`. Undefined where the map, its sums or the falls are
    constant, or the map is not finite.
    """
    changes = cells_of(batch.x.shape[1:], grid=grid)
    before = target_score(batch.clean, batch.target, "logit")
    fall = torch.stack([before - target_score(outputs[change], batch.target, "logit") for change in changes], 1)
    height, width = batch.maps.shape[1:]
    cells = grid_cells(height, width, grid)
    sums = torch.stack([batch.maps[:, cells == cell].double().sum(1) for cell in range(grid**2)], 1)
    varies = batch.maps.flatten(1).amax(1) > batch.maps.flatten(1).amin(1)
    value = compare(sums[:, None], fall[:, None], "spearman")
    return {"value": only(varies, value), "fall": fall.float()}
