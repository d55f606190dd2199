"""Class scores, their gradients with respect to the image, and scores of many versions of every image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from uproar.errors import BadInput
from uproar.models.forward import forward, rows_within_budget
from uproar.models.output_kind import assumed_output, scores_or_values
from uproar.types import Images, Labels

Score = Literal["probability", "logit"]

_ROWS, _TINY_VALUES, _VALUES = 256, 2**16, 2**21


def rows_for(x: Images) -> int:
    """Rows per pass when each image is evaluated at many points: 256, more of tiny images and fewer of large ones.

    It bounds memory whatever the batch; on a CPU more rows are no faster. Fewer where memory is short.
    """
    values = max(1, x[0].numel())
    return max(2, rows_within_budget(min(max(_ROWS, _TINY_VALUES // values), _VALUES // values)))


def class_scores(model: nn.Module, x: Images, target: Labels) -> Tensor:
    """The score of each image's own target class, (n,)."""
    return _of_target(forward(model, x), target)


def _of_target(out: Tensor, target: Labels) -> Tensor:
    if len(target) and (int(target.min()) < 0 or int(target.max()) >= out.shape[1]):
        noun = {"softmax": "classes", "sigmoid": "labels", "regression": "components"}[assumed_output().kind]
        raise BadInput(
            f"The target {noun} run from {int(target.min())} to {int(target.max())}, but the model "
            f"has {out.shape[1]} {noun} (0 to {out.shape[1] - 1})."
        )
    return out.gather(1, target[:, None])[:, 0]


def input_gradient(model: nn.Module, x: Images, target: Labels) -> Tensor:
    """Gradient of each image's target score with respect to that image alone."""
    with torch.enable_grad():
        x = tracked(x)
        total = class_scores(model, x, target).sum()
    return gradients(total, [x])[0].contiguous()


def tracked(x: Images) -> Tensor:
    """The images as the start of a graph, in the memory layout that is faster."""
    return x.detach().clone(memory_format=torch.channels_last).requires_grad_()


def gradients(total: Tensor, inputs: Sequence[Tensor], of: str = "the image") -> tuple[Tensor, ...]:
    """Gradients of a sum of scores, None where it does not depend on an input; the first one is needed."""
    found = torch.autograd.grad(total, inputs, allow_unused=True) if total.requires_grad else (None,)
    if found[0] is None:
        raise BadInput(f"The model's scores do not depend on {of} in a differentiable way.")
    return found


def sum_over_points(function: Callable[[int, int], Tensor], points: int, x: Images, share: float = 1.0) -> Tensor:
    """Sum of `function(first, last)`, the maps of versions first..last-1, (n, last - first, ...), over all versions.

    Versions are evaluated several at a time, as memory allows. `share` is the part of the usual rows to use where a
    version costs more than one.
    """
    together = max(1, int(share * rows_for(x)) // len(x))
    parts = (function(first, min(first + together, points)).sum(1) for first in range(0, points, together))
    return sum(parts, torch.zeros(()))


def target_scores(model: nn.Module, x: Images, target: Labels, score: Score) -> Float[Tensor, " n"]:
    """Probability or logit of each image's target, in double precision; of a regression its value.

    A probability close to 1 has no digits left in single precision, so that all small changes would be ties.
    """
    # the layout that is faster, and whose convolutions do not depend on the number of images
    out = forward(model, x.contiguous(memory_format=torch.channels_last))
    return _of_target(scores_or_values(out) if score == "probability" else out, target).double()


def scores_of_versions(
    model: nn.Module,
    x: Images,
    target: Labels,
    score: Score,
    count: int,
    versions: Callable[[int, int], Float[Tensor, "n m c h w"]],
) -> Float[Tensor, "n {count}"]:
    """Target scores of all versions of every image; `versions(first, last)` makes some of them at a time."""
    together = max(1, rows_for(x) // len(x))
    parts = [
        scores_of(model, versions(first, min(first + together, count)), target, score)
        for first in range(0, count, together)
    ]
    return torch.cat(parts, 1)


def scores_of(
    model: nn.Module, versions: Float[Tensor, "n m c h w"], target: Labels, score: Score
) -> Float[Tensor, "n m"]:
    """Target scores of versions that are there already."""
    repeated = target.repeat_interleave(versions.shape[1])
    return target_scores(model, versions.flatten(0, 1), repeated, score).view(versions.shape[:2])
