"""Does the map predict what the model does when the image changes, and does it stay when nothing much changes?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from uproar.errors import NotApplicable
from uproar.metrics.curves import target_score
from uproar.metrics.registry import Batch, Outputs, Responses, metric
from uproar.metrics.shape import where_defined
from uproar.registry import options_of
from uproar.removal.fill import FillContext, filled
from uproar.types import KINDS, Images, Labels, Maps

Samples = Annotated[int, Field(ge=2, le=10_000)]
Output = Literal["logit", "probability"]
Perturb = Literal["squares", "noise"]


@dataclass(frozen=True)
class Square:
    """The images with one random square filled; the map's values are read as contributions of pixels."""

    number: int
    side: float
    fill: str

    def images(self, batch: Batch) -> Images:
        """The changed images."""
        around = FillContext(batch.draws.copies([self.number]), batch.mean, getattr(batch, "train", None))
        return filled(batch.x, self.shift(batch).bool(), self.fill, around)

    def shift(self, batch: Batch) -> Tensor:
        """What multiplies the map, (n, h, w): 1 in the square. Every place that fits is equally likely."""
        h, w = batch.x.shape[2:]
        length = max(1, round(self.side * min(h, w)))
        u = batch.draws.copies([self.number]).uniform("infidelity square", 2)
        top = (u[:, :1] * (h - length + 1)).long()
        left = (u[:, 1:] * (w - length + 1)).long()
        rows, columns = torch.arange(h)[None], torch.arange(w)[None]
        inside_rows = (rows >= top) & (rows < top + length)
        inside_columns = (columns >= left) & (columns < left + length)
        return (inside_rows[:, :, None] & inside_columns[:, None, :]).double()


@dataclass(frozen=True)
class Noise:
    """The images minus Gaussian noise, the same in all channels; the map's values are read as slopes."""

    number: int
    sigma: float

    def images(self, batch: Batch) -> Images:
        """The changed images; they may leave [0, 1]."""
        return batch.x - self.shift(batch)[:, None].to(batch.x)

    def shift(self, batch: Batch) -> Tensor:
        """What multiplies the map, (n, h, w): the noise that was taken away."""
        h, w = batch.x.shape[2:]
        noise = batch.draws.copies([self.number]).normal("infidelity noise", h, w)
        return (self.sigma * noise).double()


def perturbations(
    shape: tuple[int, ...],
    *,
    samples: int = 50,
    perturb: Perturb = "squares",
    side: float = 0.25,
    sigma: float = 0.2,
    fill: str = "mean",
    **_: object,
) -> list[Square | Noise]:
    """The changed images that infidelity looks at."""
    if perturb == "squares":
        return [Square(i, side, fill) for i in range(samples)]
    return [Noise(i, sigma) for i in range(samples)]


_INFIDELITY = "which changes are tried decides what counts; changed images may be unlike any the model has seen"


@metric(
    true_to="model",
    higher_is_better=False,
    uses="values",
    low=0,
    high=1,
    asks=perturbations,
    kinds=KINDS,
    paper="Yeh et al. 2019",
    chance="what a constant map gets: 1 − mean(Δ)² / mean(Δ²), which is below 1",
    formula="min over β ≥ 0 of mean (β·Iᵀa − Δ)² / mean Δ², Δ = f(x) − f(x changed by I)",
    biases=_INFIDELITY,
)
def infidelity(
    batch: Batch,
    outputs: Outputs,
    *,
    samples: Samples = 50,
    perturb: Perturb = "squares",
    side: Annotated[float, Field(gt=0, le=1)] = 0.25,
    sigma: Annotated[float, Field(gt=0)] = 0.2,
    fill: str = "mean",
    output: Output = "logit",
) -> Responses:
    """Share of the score's changes that the map, at its best scale, does not predict; 0 is perfect.

    `perturb="squares"` fills one square, `side` times the image's shorter side, and expects the score to fall by the
    sum of the map there: right for maps of contributions. `perturb="noise"` takes Gaussian noise of `sigma` away and
    expects the sum of noise times map: right for gradients. The raw quantity (`infidelity:raw`) depends on the map's
    scale; here the best factor is used, and a map of the wrong sign gets 1.
    """
    expected, fall = _compared(
        batch, outputs, perturbations((), samples=samples, perturb=perturb, side=side, sigma=sigma, fill=fill), output
    )
    power, total = expected.square().mean(1), fall.square().mean(1)
    product = (expected * fall).mean(1).clamp_min(0)
    value = (1 - product.square() / (power * total)).clamp(0, 1)
    return {"value": where_defined(value, (power > 0) & (total > 0)), "change": total.sqrt().float()}


@metric(
    true_to="model",
    name="infidelity:raw",
    variant_of="infidelity",
    higher_is_better=False,
    uses="values",
    low=0,
    high=math.inf,
    asks=perturbations,
    kinds=KINDS,
    paper="Yeh et al. 2019",
    formula="mean (Iᵀa − Δ)², Δ = f(x) − f(x changed by I)",
    chance="depends on the map's scale",
    biases=f"multiplying the map by 100 changes it some thousandfold; {_INFIDELITY}",
)
@options_of(infidelity)
def infidelity_raw(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Mean squared difference between the score's change and what the map predicts, on the map's own scale."""
    expected, fall = _compared(batch, outputs, perturbations((), **options), options["output"])
    value = (expected - fall).square().mean(1)
    return {"value": where_defined(value, value.isfinite())}


@metric(
    true_to="map",
    higher_is_better=False,
    uses="values",
    low=0,
    high=math.inf,
    paper="Yeh et al. 2019",
    needs="an estimator, since maps of changed images are made",
    chance="0 for a map that never looks at the image",
    formula="max over |δ| ≤ radius of ‖a(x + δ) − a(x)‖ / ‖a(x)‖",
    biases="a map that ignores image and model is perfectly stable; the largest of few samples is a lower bound",
)
def sensitivity_max(
    batch: Batch, *, samples: Annotated[int, Field(ge=1, le=10_000)] = 10, radius: Annotated[float, Field(gt=0)] = 0.02
) -> Responses:
    """Largest relative change of the map under uniform noise of at most `radius` per channel value.

    The estimator gets the same random numbers each time, so that its own randomness is no part of the change. `mean`
    is the mean over samples instead of the largest.
    """
    explain = explainer(batch, "sensitivity_max")
    base = explain(batch.x, batch.target)
    size = base.flatten(1).norm(dim=1)
    changes = []
    for number in range(samples):
        u = batch.draws.copies([number]).uniform("sensitivity", *batch.x.shape[1:])
        shaken = batch.x + (radius * (2 * u - 1)).to(batch.x)
        changes.append((explain(shaken, batch.target) - base).flatten(1).norm(dim=1) / size)
    each = torch.stack(changes, 1)
    defined = (size > 0) & each.isfinite().all(1)
    return {"value": where_defined(each.amax(1), defined), "mean": where_defined(each.mean(1), defined)}


def explainer(batch: Batch, name: str) -> Callable[[Images, Labels], Maps]:
    """`(x, target) -> maps` in double precision with the batch's own model and random numbers."""
    explain = batch.explain
    if explain is None:
        raise NotApplicable(f"{name} makes maps of other images or models; give an estimator, not maps")
    return lambda x, target: explain(batch.model, x, target, batch.draws).double()


def _compared(
    batch: Batch, outputs: Outputs, changes: Sequence[Square | Noise], output: Output
) -> tuple[Tensor, Tensor]:
    """What the map says the score falls by, and what it falls by, for each change, (n, samples)."""
    maps = batch.maps.double()
    before = target_score(batch.clean, batch.target, output)
    expected = [(maps * change.shift(batch)).sum((1, 2)) for change in changes]
    fall = [before - target_score(outputs[change], batch.target, output) for change in changes]
    return torch.stack(expected, 1), torch.stack(fall, 1)
