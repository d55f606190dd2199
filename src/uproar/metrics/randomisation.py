"""Does the map depend on what the model has learned, and on the class?

A map that stays the same when the network's weights are drawn anew shows the image, not the model. All values are
similarities between the map and the map of the copy: low is good.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar.errors import NotApplicable
from uproar.metrics.registry import Batch, Responses, Uses, metric
from uproar.models.copies import redrawn_copies
from uproar.models.output_kind import assumed_output
from uproar.types import Maps

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
        value = _cosine(*(_centred(_mid_ranks(maps.flatten(1))) for maps in (a, b)))
    return torch.where(known, value, math.nan)


def _signed(maps: Maps, sign: Sign) -> Tensor:
    return maps.abs() if sign == "abs" else maps


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    sizes = a.square().sum(1).sqrt() * b.square().sum(1).sqrt()
    value = ((a * b).sum(1) / sizes).clamp(-1, 1)
    return torch.where(sizes > 0, value, math.nan)


def _centred(a: Tensor) -> Tensor:
    return a - a.mean(1, keepdim=True)


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
