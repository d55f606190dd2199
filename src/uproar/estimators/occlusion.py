"""Occlusion: how far the score falls when a window of the image is covered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from uproar.errors import BadOption, NotApplicable
from uproar.estimators.class_scores import Score, scores_of_versions, target_scores
from uproar.estimators.gradient import Baseline, baseline_image
from uproar.estimators.registry import Context, estimator
from uproar.types import Images, Labels, RawMaps

Pixels = Annotated[int, Field(ge=1)]
Overlap = Literal["mean", "last"]
Window = tuple[slice, slice]


def _passes(window: int | None = None, stride: int | None = None, **_) -> float:
    # the image's size is not known here: a window is taken for an eighth of its side
    per_window = 2.0 if window is None or stride is None else window / stride
    return 0.5 * (1 + (8 * per_window + per_window - 1) ** 2)


@estimator(
    passes=_passes,
    channels=False,
    formula="mean over windows w on the pixel of f(x) − f(x without w)",
    paper="Zeiler and Fergus 2014",
    fails="sees nothing that is larger than the window or held in two places",
)
def occlusion(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    window: Pixels | None = None,
    stride: Pixels | None = None,
    fill: Baseline = "mean",
    score: Score = "probability",
    overlap: Overlap = "mean",
) -> RawMaps:
    """Fall of the target's probability when the window is covered, mean over the windows on the pixel.

    By default a window is an eighth of the shorter side, at least 2 pixels, and moves by half of itself. The
    first windows hang over the border, so that every pixel is in equally many of them (where `stride` divides
    `window`). `overlap="last"` keeps the last window's value instead, as released code does: then the value of a pixel
    speaks of the window to its lower right.
    """
    window, stride = _sizes(min(x.shape[2:]), window, stride)
    blank = baseline_image(x, fill, context)
    places = windows(x.shape[2], x.shape[3], window, stride)

    def covered(first: int, last: int) -> Tensor:
        inside = torch.zeros(last - first, 1, *x.shape[2:], dtype=torch.bool)
        for row, place in enumerate(places[first:last]):
            inside[(row, 0, *place)] = True
        return torch.where(inside.to(x.device), blank[:, None], x[:, None])

    whole = target_scores(model, x, target, score)[:, None]
    fall = whole - scores_of_versions(model, x, target, score, len(places), covered)
    return spread(fall, places, torch.zeros_like(x[:, 0], dtype=fall.dtype), overlap)[:, None].to(x)


def windows(h: int, w: int, window: int, stride: int) -> list[Window]:
    """All windows that touch the image, row by row; those at the border are cut off."""
    first = stride - window
    return [
        (slice(max(y, 0), min(y + window, h)), slice(max(z, 0), min(z + window, w)))
        for y in range(first, h, stride)
        for z in range(first, w, stride)
    ]


def spread(
    values: Float[Tensor, "n m"], places: Sequence[Window], total: Float[Tensor, "n h w"], overlap: Overlap
) -> Float[Tensor, "n h w"]:
    """One value per window laid on the pixels (of `total`, zeros), where windows overlap their mean or the last."""
    times = torch.zeros_like(total[0])
    for value, place in zip(values.unbind(1), places, strict=True):
        if overlap == "last":
            total[(slice(None), *place)] = value[:, None, None]
        else:
            total[(slice(None), *place)] += value[:, None, None]
            times[place] += 1
    return total if overlap == "last" else total / times


def _sizes(side: int, window: int | None, stride: int | None) -> tuple[int, int]:
    window = max(2, round(side / 8)) if window is None else window
    stride = max(1, window // 2) if stride is None else stride
    if stride > window:
        raise BadOption(
            f"occlusion: a stride of {stride} leaves gaps between windows of {window} pixels; "
            f"the stride must be at most the window."
        )
    if window > side:
        raise NotApplicable(f"a window of {window} pixels does not fit images of {side} pixels")
    return window, stride
