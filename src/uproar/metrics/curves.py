"""From the model's outputs to numbers per image, and curves integrated adaptively.

An adaptive curve is coarse first, and gets points where it changes, image by image. An interval whose ends differ by Δ
over a width w may hide an area of at most Δ·w if the curve is monotone there. It is halved while Δ·w exceeds a
tolerance, as a share of the area under a curve of height 1. What lies between points that were never shown is
interpolated. Which points an image gets depends on its own curve alone, so that no value depends on the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from uproar.batches import spans
from uproar.errors import NotApplicable
from uproar.metrics.changes import PixelOrder, PreparedBatch, Side
from uproar.metrics.registry import Batch, Change, Outputs
from uproar.models.forward import forward
from uproar.models.memory_budget import rows_within_budget
from uproar.models.output_kind import assumed_output, is_predicted, probabilities
from uproar.removal import FillContext, filled
from uproar.removal.fill import read_fill
from uproar.statistics.areas import area
from uproar.types import Images, Labels

By = Literal["probability", "accuracy", "logit"]


LEAST_CHANGE = 1e-6
"""The change of a regression's value from the image to the fully removed one, as a share of the larger of the two, up
to which there is nothing to normalise by."""


def target_score(outputs: Tensor, target: Labels, by: By) -> Tensor:
    """The target's probability or logit, or whether it is predicted, for outputs (..., n, k): (..., n).

    The logit of a regression is its value.
    """
    if by == "accuracy":
        return is_predicted(outputs, target).double()
    scores = probabilities(outputs) if by == "probability" else outputs.double()
    return scores.gather(-1, target.expand(scores.shape[:-1])[..., None])[..., 0]


def curve_of(
    batch: Batch,
    outputs: Outputs,
    points: Sequence[Sequence[Change]],
    by: By = "probability",
    blank: Sequence[Change] = (),
) -> Tensor:
    """One number per image and point, (n, points): the mean over the changes of the point.

    A regression has no probability: there it is the value, on a scale on which the image has 1 and `blank`, the changes
    that remove all of it, 0.
    """
    if by == "probability" and follows_values():
        values = _means(batch, outputs, points, "logit")
        return normalised(batch, outputs, values, blank)
    return _means(batch, outputs, points, by)


def _means(batch: Batch, outputs: Outputs, points: Sequence[Sequence[Change]], by: By) -> Tensor:
    scores = target_score(torch.stack([outputs[change] for point in points for change in point]), batch.target, by)
    return torch.stack([part.mean(0) for part in scores.split([len(point) for point in points])], 1)


def follows_values() -> bool:
    """Whether the outputs are those of a regression: its value takes the place of a probability."""
    return assumed_output().kind == "regression"


def normalised(batch: Batch, outputs: Outputs, values: Tensor, blank: Sequence[Change]) -> Tensor:
    """Values (n, ...) as shares of the change from the fully removed image, 0, to the image, 1; NaN where none is."""
    if not blank:
        raise NotApplicable("it follows a probability, and a regression has none")
    whole = target_score(batch.clean, batch.target, "logit")
    empty = _means(batch, outputs, [blank], "logit")[:, 0]
    shape = (-1, *[1] * (values.dim() - 1))
    change = (whole - empty).view(shape)
    defined = change.abs() > LEAST_CHANGE * torch.maximum(whole.abs(), empty.abs()).view(shape)
    return only(defined, (values - empty.view(shape)) / change)


def area_of(fractions: Sequence[float], values: Tensor) -> Tensor:
    """Mean height of each curve, (n,)."""
    return torch.from_numpy(np.asarray(area(np.asarray(fractions), values.numpy())))


def only(defined: Tensor, values: Tensor) -> Tensor:
    """The values where they are defined, NaN elsewhere."""
    return torch.where(defined, values, torch.nan)


TOLERANCE = 0.004
"""Area that an interval may hide before it is halved."""
ROWS = 128
"""Images per forward pass."""


@dataclass(frozen=True)
class Cuts:
    """Points of a curve along one order of the pixels: at each, so many from one side are removed."""

    side: Side
    counts: tuple[int, ...]
    fill: str
    order: PixelOrder
    draws: int = 1
    """Independent draws of the fill, whose scores are averaged."""

    def images(self, ready: PreparedBatch, rows: Tensor, points: Tensor, draw: int) -> Images:
        """Image `rows[i]` at the point `points[i]`, for each i."""
        count = torch.tensor(self.counts)[points]
        places = ready.places(self.order)[rows]
        features = places.shape[1]
        removed = places < count[:, None] if self.side == "most" else places >= features - count[:, None]
        removed = removed.view(len(rows), *ready.maps.shape[1:])
        if not read_fill(self.fill)[0].facts.get("uses_mask"):
            return torch.where(removed[:, None], ready.replacement(self.fill, draw)[rows], ready.pixels[rows])
        around = ready.around(draw)
        own = FillContext(around.draws[rows.tolist()], around.mean, around.train)
        return filled(ready.x[rows], removed, self.fill, own)

    def scores(self, ready: PreparedBatch, rows: Tensor, points: Tensor, by: By) -> Tensor:
        """The target's score at those points, the mean over draws."""
        parts = []
        for some in spans(len(rows), rows_within_budget(ROWS)):
            each = [
                target_score(
                    _answers(ready, self.images(ready, rows[some], points[some], d)), ready.target[rows[some]], by
                )
                for d in range(self.draws)
            ]
            parts.append(torch.stack(each).mean(0))
        return torch.cat(parts)


def refined(
    ready: PreparedBatch,
    coarse: Tensor,
    at: Sequence[int],
    fractions: Sequence[float],
    cuts: Cuts,
    by: By,
    tolerance: float = TOLERANCE,
) -> tuple[Tensor, Tensor]:
    """The curve at all fractions, (n, points), and how many images each image took beside the coarse curve, (n,).

    `coarse` are the scores at the points `at`, the first and the last among them.
    """
    n, total = len(coarse), len(fractions)
    place = torch.tensor(fractions, dtype=torch.float64)
    place = (place - place[0]) / (place[-1] - place[0])
    values = torch.full((n, total), torch.nan, dtype=torch.float64)
    values[:, list(at)] = coarse.double()
    shown = torch.zeros(n)
    while len(rows := (todo := _middles(values, place, tolerance)).nonzero()):
        values[todo] = cuts.scores(ready, rows[:, 0], rows[:, 1], by)
        shown += cuts.draws * todo.sum(1)
    return _interpolated(values, place), shown


def _middles(values: Tensor, place: Tensor, tolerance: float) -> Tensor:
    """The middle points of all intervals between known points that may hide too much area, (n, points) bool."""
    chosen = torch.zeros_like(values, dtype=torch.bool)
    for i, row in enumerate(values):
        known = row.isfinite().nonzero()[:, 0]
        low, high = known[:-1], known[1:]
        hidden = (row[high] - row[low]).abs() * (place[high] - place[low])
        wide = (high - low > 1) & (hidden > tolerance)
        chosen[i, (low[wide] + high[wide]) // 2] = True
    return chosen


def _interpolated(values: Tensor, place: Tensor) -> Tensor:
    """Curves with what is not known on the straight line between what is."""
    whole = values.clone()
    for row in whole:
        known = row.isfinite().nonzero()[:, 0]
        missing = row.isnan().nonzero()[:, 0]
        after = torch.searchsorted(known, missing)
        low, high = known[after - 1], known[after]
        share = (place[missing] - place[low]) / (place[high] - place[low])
        row[missing] = row[low] + share * (row[high] - row[low])
    return whole


def _answers(ready: PreparedBatch, x: Images) -> Tensor:
    """The model's outputs; a single image is shown twice, since one row takes another path through libraries."""
    if len(x) == 1:
        return _answers(ready, torch.cat([x, x]))[:1]
    with torch.inference_mode():
        return forward(ready.model, x.contiguous(memory_format=torch.channels_last)).clone()
