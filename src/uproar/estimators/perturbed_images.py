"""Scores of many versions of every image: windows covered, masks applied, patches taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from uproar.estimators.class_scores import class_scores, rows_for
from uproar.models.forward import forward
from uproar.models.output_kind import probabilities
from uproar.types import Images, Labels

Score = Literal["probability", "logit"]


def target_scores(model: nn.Module, x: Images, target: Labels, score: Score) -> Float[Tensor, " n"]:
    """Probability or logit of each image's target class, in double precision.

    A probability close to 1 has no digits left in single precision, so that all small changes would be ties.
    """
    scored = _Probabilities(model) if score == "probability" else model
    # the layout that is faster, and whose convolutions do not depend on the number of images
    x = x.contiguous(memory_format=torch.channels_last)
    return class_scores(scored, x, target).double()


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


def blend(x: Tensor, blank: Tensor, kept: Tensor) -> Tensor:
    """The image where `kept` is 1, the blank where it is 0, a mixture in between."""
    return blank + kept * (x - blank)


class _Probabilities(nn.Module):
    """The model with a softmax behind it, where it has none itself."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return probabilities(forward(self.model, x))
