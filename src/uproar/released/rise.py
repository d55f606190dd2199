"""As in the code released with RISE (Petsiuk et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from uproar.metrics.axis import of_pixels
from uproar.metrics.insertion_deletion import BIASES, CHANCE, Points, Steps, area_responses, flat, nested, steps_axis
from uproar.metrics.registry import Batch, Outputs, Responses, metric
from uproar.removal.fill import FillContext, Positive, Size, fills, gaussian_kernel, weighted_windows
from uproar.types import WITH_PROBABILITIES, Images


@fills.declare("blur:rise")
def blur_rise(x: Images, removed: Tensor, around: FillContext, *, size: Size = 11, sigma: Positive = 5.0) -> Images:
    """The image blurred as in the code released with RISE: the mean colour lies around it.

    The weights are those of a Gaussian whose tails are folded back into the size×size window.
    """
    colour = around.colour("blur:rise").to(x).view(1, -1, 1, 1)
    kernel = folded_gaussian(size, sigma).to(x)
    x = x - colour
    for axis in (2, 3):
        beside = [0, 0, 0, 0]
        beside[2 * (3 - axis) : 2 * (3 - axis) + 2] = size // 2, (size - 1) // 2
        x = weighted_windows(F.pad(x, beside), kernel, axis)
    return x + colour


def folded_gaussian(size: int, sigma: float) -> Tensor:
    """Weights of a Gaussian around the middle of a window that is mirrored at its own edges; they sum to 1."""
    reach = math.floor(4 * sigma + 0.5)
    steps = torch.arange(-reach, reach + 1)
    place = (steps + size // 2) % (2 * size)
    place = torch.minimum(place, 2 * size - 1 - place)
    return torch.zeros(size, dtype=torch.float64).index_add_(0, place, gaussian_kernel(steps, sigma))


def _rise_counts(shape: Sequence[int], step: int | None) -> list[int]:
    features = shape[1] * shape[2]
    each = step or shape[2]
    return [min(i * each, features) for i in range(math.ceil(features / each) + 1)]


def rise_axis(shape: Sequence[int], *, step: int | None, **_: Any) -> list[float]:
    """Equal steps from 0 to 1, also where the last step is shorter."""
    return steps_axis(shape, steps=len(_rise_counts(shape, step)) - 1)


def _points(inserts: bool) -> Callable[..., Points]:
    """`step` pixels more at every point."""

    def points(shape: Sequence[int], *, step: int | None, fill: str) -> Points:
        features, counts = shape[1] * shape[2], _rise_counts(shape, step)
        if inserts:
            return nested(shape, "least", [features - k for k in counts], fill, None)
        return nested(shape, "most", counts, fill, None)

    return points


_FACTS: dict[str, Any] = {"low": 0, "high": 1, "chance": CHANCE, "paper": "Petsiuk et al. 2018, released code"}
_DELETED, _INSERTED = _points(inserts=False), _points(inserts=True)


@metric(
    true_to="model",
    name="deletion:rise",
    variant_of="deletion",
    higher_is_better=False,
    biases=BIASES["deletion"],
    formula="deletion, `step` pixels at a time",
    asks=flat(_DELETED),
    kinds=WITH_PROBABILITIES,
    axis=of_pixels(rise_axis, "deleted"),
    **_FACTS,
)
def deletion_rise(batch: Batch, outputs: Outputs, *, step: Steps | None = None, fill: str = "mean") -> Responses:
    """Deletion with the step of the code released with RISE: as many pixels as the image is wide."""
    return area_responses(batch, outputs, _DELETED, rise_axis, step=step, fill=fill)


@metric(
    true_to="model",
    name="insertion:rise",
    variant_of="insertion",
    higher_is_better=True,
    biases=BIASES["insertion"],
    formula="insertion, `step` pixels at a time, on the image blurred towards the mean colour",
    asks=flat(_INSERTED),
    kinds=WITH_PROBABILITIES,
    axis=of_pixels(rise_axis, "inserted", of_shown=True),
    **_FACTS,
)
def insertion_rise(batch: Batch, outputs: Outputs, *, step: Steps | None = None, fill: str = "blur:rise") -> Responses:
    """Insertion with the step and the blurred canvas of the code released with RISE."""
    return area_responses(batch, outputs, _INSERTED, rise_axis, step=step, fill=fill)
