"""Does the map depend on what the model has learned, predict what it does, and stay when nothing much changes?

A map that stays the same when the network's weights are drawn anew, or for another class, shows the image and not the
model: these values are similarities, and low is good. Infidelity compares the map with what the model does when the
image changes; sensitivity is how much the map moves when the image hardly does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.errors import NotApplicable
from uproar.metrics.changes import Batch, Outputs
from uproar.metrics.probe import target_score
from uproar.metrics.registry import Responses, Uses, metric
from uproar.metrics.shape import where_defined
from uproar.models.copies import redrawn_copies
from uproar.models.output_kind import assumed_output
from uproar.registry import options_of
from uproar.removal.fill import FillContext, filled
from uproar.types import KINDS, Images, Maps

Similarity = Literal["spearman", "ssim", "cosine"]
Sign = Literal["none", "abs"]

_NEEDS = "an estimator, since maps of other models or classes are made"
_IGNORANT = "1 for a map that ignores the model, about 0 for fresh noise"


def _uses(similarity: Similarity, **_: object) -> Uses:
    return "order" if similarity == "spearman" else "values"


similarity_metric = functools.partial(
    metric, true_to="model", higher_is_better=False, low=-1, high=1, needs=_NEEDS, uses=_uses, chance=_IGNORANT
)
"""Declares a similarity to maps of another model or class, which should be low."""


@similarity_metric(
    paper="Adebayo et al. 2018",
    formula="mean over layers l of similarity(a, a of a copy with layers from the output to l drawn anew)",
    biases="a noisy estimator passes; maps dominated by the image (edges, grad·x) fail although they use the model",
)
def randomisation(
    batch: Batch,
    *,
    order: Literal["cascading", "independent", "whole"] = "cascading",
    similarity: Similarity = "spearman",
    sign: Sign = "none",
) -> Responses:
    """Similarity of the map to maps of copies with re-initialised layers, averaged over the layers.

    `order="cascading"` draws layers anew from the output down and keeps them so: the last copy is a fresh network.
    `order="independent"` draws one layer at a time, `order="whole"` all of them at once, which is one map more per
    image. `curve` has one similarity per copy, from the output down (`layers` names the layers); `undefined` counts
    those left out of the mean, where the copy's map is constant. The default, Spearman's rank correlation, asks whether
    the order of the pixels survives; the estimator gets the same random numbers each time.
    """
    if batch.explain is None:
        raise NotApplicable("randomisation makes maps of other models; give an estimator, not maps")
    base = _signed(batch.explain(batch.model, batch.x, batch.target, batch.draws), sign)
    curve = torch.stack(
        [
            compare(base, _signed(batch.explain(spoilt, batch.x, batch.target, batch.draws), sign), similarity)
            for spoilt in _spoilt(batch, order)
        ],
        1,
    )
    undefined = curve.isnan().sum(1)
    value = curve.nanmean(1)
    return {"value": value.float(), "curve": curve.float(), "undefined": undefined.float()}


def _spoilt(batch: Batch, order: str) -> Iterator[nn.Module]:
    """The copies of the model that an order asks for."""
    drawn = redrawn_copies(batch.model, batch.x, batch.draws.seed, cascading=order != "independent")
    if order != "whole":
        yield from drawn
        return
    *_, fresh = drawn  # every copy is the one before with a layer more drawn anew
    yield fresh


@similarity_metric(
    paper="Sixt et al. 2020",
    formula="similarity(a of the class, a of another class drawn at random)",
    biases="classes that share evidence rightly share part of their maps",
)
def random_logit(batch: Batch, *, similarity: Similarity = "spearman", sign: Sign = "none") -> Responses:
    """Similarity of the map to the map of another class, drawn at random for each image."""
    if batch.explain is None:
        raise NotApplicable("random_logit makes maps of other classes; give an estimator, not maps")
    classes = batch.clean.shape[1]
    if classes < 2:
        raise NotApplicable("random_logit needs a model with at least two classes")
    if assumed_output().single:
        raise NotApplicable("random_logit needs another class: the map of 'no' is that of 'yes' with the other sign")
    u = batch.draws.uniform("random logit", 1)[:, 0]
    step = 1 + (u * (classes - 1)).long()
    other = (batch.target + step) % classes
    base, changed = (
        _signed(batch.explain(batch.model, batch.x, target, batch.draws), sign) for target in (batch.target, other)
    )
    return {"value": compare(base, changed, similarity).float(), "other": other}


def compare(a: Maps, b: Maps, similarity: Similarity) -> Tensor:
    """Similarity of maps image by image, in double precision.

    NaN where a map is not finite, or constant (cosine: all zero).
    """
    a, b = a.double(), b.double()
    known = torch.isfinite(a).flatten(1).all(1) & torch.isfinite(b).flatten(1).all(1)
    a, b = (torch.where(known[:, None, None], maps, 0) for maps in (a, b))
    if similarity == "ssim":
        value = _ssim(a, b)
    elif similarity == "cosine":
        value = _cosine(a.flatten(1), b.flatten(1))
    else:
        places = [_mid_ranks(maps.flatten(1)) for maps in (a, b)]
        value = _cosine(*(rank - rank.mean(1, keepdim=True) for rank in places))
    return torch.where(known, value, math.nan)


def _signed(maps: Maps, sign: Sign) -> Tensor:
    return maps.abs() if sign == "abs" else maps


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    sizes = a.square().sum(1).sqrt() * b.square().sum(1).sqrt()
    value = ((a * b).sum(1) / sizes).clamp(-1, 1)
    return torch.where(sizes > 0, value, math.nan)


def _mid_ranks(a: Tensor) -> Tensor:
    """Ranks from 0; equal values share the mean of their ranks."""
    ordered = a.sort(1).values
    first = torch.searchsorted(ordered, a)
    last = torch.searchsorted(ordered, a, right=True)
    return (first + last - 1).double() / 2


def _ssim(a: Tensor, b: Tensor) -> Tensor:
    """Mean structural similarity of min-max scaled maps: 11×11 Gaussian windows (σ 1.5) inside the image.

    On images below 11 pixels the window is the largest odd one that fits.
    """
    size = min(11, *a.shape[1:])
    size -= 1 - size % 2
    steps = torch.arange(size, dtype=a.dtype) - size // 2
    line = torch.exp(-0.5 * (steps / 1.5).square())
    line = (line / line.sum())[None, None]

    def local(maps: Tensor) -> Tensor:
        return F.conv2d(F.conv2d(maps[:, None], line[:, :, None]), line[:, :, :, None])[:, 0]

    (a, whole_a), (b, whole_b) = _unit(a), _unit(b)
    mean_a, mean_b = local(a), local(b)
    var_a, var_b = local(a * a) - mean_a**2, local(b * b) - mean_b**2
    both = local(a * b) - mean_a * mean_b
    c1, c2 = 0.01**2, 0.03**2
    top = (2 * mean_a * mean_b + c1) * (2 * both + c2)
    value = (top / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))).mean((1, 2))
    return torch.where(whole_a & whole_b, value, math.nan)


def _unit(a: Tensor) -> tuple[Tensor, Tensor]:
    """Maps scaled to [0, 1], and which of them are not constant."""
    low, high = a.amin((1, 2), keepdim=True), a.amax((1, 2), keepdim=True)
    varies = high > low
    return (a - low) / torch.where(varies, high - low, 1), varies.flatten()


# infidelity and sensitivity

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
        around = FillContext(batch.draws.copies([self.number]), batch.mean, batch.train)
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
        """What multiplies the map, (n, h, w): the noise that was removed."""
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


infidelity_metric = functools.partial(
    metric,
    true_to="model",
    higher_is_better=False,
    uses="values",
    low=0,
    asks=perturbations,
    kinds=KINDS,
    paper="Yeh et al. 2019",
)


@infidelity_metric(
    high=1,
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


@infidelity_metric(
    name="infidelity:raw",
    high=math.inf,
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
    if batch.explain is None:
        raise NotApplicable("sensitivity_max makes maps of other images or models; give an estimator, not maps")
    base = batch.explain(batch.model, batch.x, batch.target, batch.draws).double()
    size = base.flatten(1).norm(dim=1)
    changes = []
    for number in range(samples):
        u = batch.draws.copies([number]).uniform("sensitivity", *batch.x.shape[1:])
        shaken = batch.x + (radius * (2 * u - 1)).to(batch.x)
        maps = batch.explain(batch.model, shaken, batch.target, batch.draws).double()
        changes.append((maps - base).flatten(1).norm(dim=1) / size)
    each = torch.stack(changes, 1)
    defined = (size > 0) & each.isfinite().all(1)
    return {"value": where_defined(each.amax(1), defined), "mean": where_defined(each.mean(1), defined)}


def _compared(
    batch: Batch, outputs: Outputs, changes: Sequence[Square | Noise], output: Output
) -> tuple[Tensor, Tensor]:
    """What the map says the score falls by, and what it falls by, for each change, (n, samples)."""
    maps = batch.maps.double()
    before = target_score(batch.clean, batch.target, output)
    expected = [(maps * change.shift(batch)).sum((1, 2)) for change in changes]
    fall = [before - target_score(outputs[change], batch.target, output) for change in changes]
    return torch.stack(expected, 1), torch.stack(fall, 1)
