"""XRAI: regions of the image, ranked by the attribution on them."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from uproar.estimators.gradient import Steps, blurred, ig
from uproar.estimators.registry import Context, estimator
from uproar.types import Images, Labels, RawMaps

SCALES = (25.0, 50.0, 75.0, 125.0, 250.0, 600.0)
"""How large regions get: the scales of the paper's code, as they come out for pixels from 0 to 255."""


@estimator(
    passes=lambda steps=25, **_: 2 * steps,
    needs="a differentiable model",
    channels=False,
    formula="mean on each region of ig over black and white baselines, regions of several sizes taken best first",
    paper="Kapishnikov et al. 2019",
    fails="as coarse as the regions, which are found by colour; one flat colour is one region",
)
def xrai(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    steps: Steps = 25,
    least: Annotated[int, Field(ge=1)] | None = None,
) -> RawMaps:
    """XRAI: the image cut into regions of several sizes, each region's attribution density as its value.

    Attribution is the sum over channels of integrated gradients, averaged over a black and a white baseline. Regions
    come from the graph-based method of Felzenszwalb and Huttenlocher (2004) at six scales; `least` is the smallest
    region in pixels (by default a 330th of the image, and 2 at least). Regions are taken in the order of the mean
    attribution of their pixels that are still free, which is what these pixels get.
    """
    maps = sum(ig(model, x, target, context, steps=steps, baseline=b) for b in ("black", "white"))
    attribution = (maps / 2).sum(1).double().cpu().numpy()
    smallest = max(2, x.shape[2] * x.shape[3] // 330) if least is None else least
    regions = [
        _ranked(_regions(image, smallest), values) for image, values in zip(_pixels(x), attribution, strict=True)
    ]
    return torch.from_numpy(np.stack(regions))[:, None].to(x)


def _pixels(x: Images) -> np.ndarray:
    """The images smoothed a little, channels last, from 0 to 255."""
    smooth = blurred(F.pad(x, (4, 4, 4, 4), mode="replicate"), 0.8)[:, :, 4:-4, 4:-4]
    return (smooth.double().cpu().numpy() * 255).transpose(0, 2, 3, 1)


def _regions(image: np.ndarray, least: int) -> list[np.ndarray]:
    """The regions of all scales as masks (h, w)."""
    masks = []
    for scale in SCALES:
        labels = felzenszwalb(image, scale, least)
        masks += [labels == number for number in np.unique(labels)]
    return masks


def _ranked(masks: list[np.ndarray], values: np.ndarray) -> np.ndarray:
    """The regions taken by the mean of their free pixels' values, best first; the value of what each takes."""
    out, free = np.zeros_like(values), np.ones(values.shape, dtype=bool)
    waiting = list(masks)
    while waiting and free.any():
        waiting = [mask for mask in waiting if (mask & free).any()]
        gains = [values[mask & free].mean() for mask in waiting]
        best = int(np.argmax(gains))
        out[waiting[best] & free] = gains[best]
        free &= ~waiting.pop(best)
    return out


def felzenszwalb(image: np.ndarray, scale: float, least: int) -> np.ndarray:
    """Regions of an image (h, w, c) as numbers (h, w): neighbours join while their edge is weak for both regions.

    An edge's weight is the distance of the colours of two pixels, of eight neighbours each. From the weakest edge on,
    two regions join if the edge is at most the largest edge inside each, plus `scale` over its size. Regions smaller
    than `least` join a neighbour afterwards.
    """
    h, w = image.shape[:2]
    first, second, weight = _edges(image)
    order = np.argsort(weight, kind="stable")
    edges = list(zip(first[order].tolist(), second[order].tolist(), weight[order].tolist(), strict=True))
    forest = _Forest(h * w)
    for i, j, cost in edges:
        a, b = forest.root(i), forest.root(j)
        if a != b and cost <= min(forest.bound(a, scale), forest.bound(b, scale)):
            forest.join(a, b, cost)
    for i, j, cost in edges:
        a, b = forest.root(i), forest.root(j)
        if a != b and min(forest.size[a], forest.size[b]) < least:
            forest.join(a, b, cost)
    return np.array([forest.root(i) for i in range(h * w)]).reshape(h, w)


class _Forest:
    """Regions as trees of pixels: their size and the largest edge inside, at the root of each."""

    def __init__(self, pixels: int) -> None:
        self.parent, self.size, self.inside = list(range(pixels)), [1] * pixels, [0.0] * pixels

    def root(self, i: int) -> int:
        parent = self.parent
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    def bound(self, a: int, scale: float) -> float:
        return self.inside[a] + scale / self.size[a]

    def join(self, a: int, b: int, cost: float) -> None:
        self.parent[b] = a
        self.size[a] += self.size[b]
        self.inside[a] = max(cost, self.inside[a], self.inside[b])


def _edges(image: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of neighbouring pixels, each pair once, and the distance of their colours."""
    h, w = image.shape[:2]
    number = np.arange(h * w).reshape(h, w)
    firsts, seconds = [], []
    for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
        here = number[: h - dy, max(0, -dx) : w - max(0, dx)]
        there = number[dy:, max(0, dx) : w + min(0, dx)]
        firsts.append(here.ravel())
        seconds.append(there.ravel())
    a, b = np.concatenate(firsts), np.concatenate(seconds)
    flat = image.reshape(h * w, -1)
    return a, b, np.sqrt(((flat[a] - flat[b]) ** 2).sum(1))
