"""Controls: rankings that know nothing of the model. They are the floor and the ceiling of every comparison."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.errors import NotApplicable
from uproar.estimators.postprocess import gaussian
from uproar.estimators.registry import Context, direct, estimator
from uproar.removal.order import count
from uproar.types import Images, Labels, RawMaps

GOLDEN = (math.sqrt(5) - 1) / 2
"""Its multiples lie far apart on a circle, however many there are."""


@estimator(
    passes=0,
    model=False,
    formula="uniform noise, independent per pixel",
    paper="Hooker et al. 2019",
    added_options=("draw",),
)
def random(
    model: nn.Module, x: Images, target: Labels, context: Context, *, draw: Annotated[int, Field(ge=0)] = 0
) -> RawMaps:
    """Every order of the pixels equally likely: the ranking that others are compared with.

    Rankings of different `draw` are independent of each other; a study compares with the mean of several.
    """
    purpose = f"random ranking {draw}" if draw else "random ranking"
    return context.draws.uniform(purpose, *x.shape[1:]).to(x)


@estimator(
    passes=0, model=False, channels=False, formula="−rectangular distance from a random centre", paper="Song et al."
)
def block_random(
    model: nn.Module, x: Images, target: Labels, context: Context, *, aspect: Annotated[float, Field(ge=1)] = 2.0
) -> RawMaps:
    """A random rectangle that grows from a random centre, sides at most `aspect` : 1.

    The rectangles for all fractions are nested and have exact counts: only the last side may be incomplete, and it is
    filled from one end.
    """
    h, w = x.shape[2:]
    order = _block_order(h, w, context.draws.uniform("block", 3), aspect)
    places = torch.arange(h * w, dtype=torch.float64).expand_as(order)
    return -torch.empty_like(places).scatter_(1, order, places).view(-1, 1, h, w).to(x)


def _block_order(h: int, w: int, places: Tensor, aspect: float) -> Tensor:
    """Pixels by rectangular distance from a random centre; on each side of a rectangle, one after the other."""
    wide = torch.exp((2 * places[:, 2] - 1) * math.log(aspect) / 2).double()[:, None, None]
    dy = torch.arange(h)[None, :, None] + 0.5 - h * places[:, 0, None, None].double()
    dx = torch.arange(w)[None, None, :] + 0.5 - w * places[:, 1, None, None].double()
    distance = torch.maximum(dy.abs() * wide, dx.abs() / wide).flatten(1)
    along = torch.atan2(dy, dx).flatten(1).argsort(dim=1, stable=True)
    return along.gather(1, distance.gather(1, along).argsort(dim=1, stable=True))


@direct(formula="one rectangle of area t·h·w, drawn anew for every t", paper="Song et al.")
def block_random_free(
    x: Images, fraction: float, context: Context, *, aspect: Annotated[float, Field(ge=1)] = 2.0
) -> Tensor:
    """A random rectangle drawn anew for every fraction: exact counts, but not nested."""
    n, _, h, w = x.shape
    order = _block_order(h, w, context.draws.uniform(f"free block {fraction!r}", 3), aspect)
    removed = torch.zeros(n, h * w, dtype=torch.bool)
    removed.scatter_(1, order[:, : count(fraction, h * w)], True)
    return removed.view(n, h, w)


@direct(formula="removed with probability t, independently", paper="Hooker et al. 2019")
def bernoulli(x: Images, fraction: float, context: Context, *, each: Literal["pixel", "value"] = "pixel") -> Tensor:
    """An independent coin flip for every pixel, or for every channel value: the share removed is t only on average."""
    return context.draws.uniform("coin flips", *x.shape[2 if each == "pixel" else 1 :]) < fraction


@estimator(
    passes=0,
    model=False,
    channels=False,
    formula="|∇ mean over channels of x|",
    paper="Sobel and Feldman 1968; Adebayo et al. 2018",
)
def sobel(model: nn.Module, x: Images, target: Labels, *, axis: Literal["both", "x", "y"] = "both") -> RawMaps:
    """Edges of the image: size of the Sobel gradient of the channel mean.

    `axis="x"` is the size of the horizontal derivative alone, as some released code has it.
    """
    grey = F.pad(x.mean(1, keepdim=True), (1, 1, 1, 1), mode="replicate")
    smooth, slope = x.new_tensor([1.0, 2.0, 1.0]), x.new_tensor([-1.0, 0.0, 1.0])
    dx = F.conv2d(grey, torch.outer(smooth, slope)[None, None])
    dy = F.conv2d(grey, torch.outer(slope, smooth)[None, None])
    if axis == "both":
        return torch.hypot(dx, dy)
    return dx.abs() if axis == "x" else dy.abs()


@estimator(passes=0, model=False, channels=False, formula="mean over channels of x")
def brightness(model: nn.Module, x: Images, target: Labels) -> RawMaps:
    """The image itself, bright pixels first: what a method that multiplies by the image gains by it alone."""
    return x.mean(1, keepdim=True)


@estimator(passes=0, model=False, channels=False, formula="0")
def constant(model: nn.Module, x: Images, target: Labels) -> RawMaps:
    """The same value everywhere: the order is the tie-break alone."""
    return torch.zeros_like(x[:, :1])


@estimator(
    passes=0, model=False, channels=False, formula="exp(−8 d²), d the distance from the centre in sides of the image"
)
def centre(model: nn.Module, x: Images, target: Labels) -> RawMaps:
    """A Gaussian bump in the middle of the image, whatever the image shows."""
    h, w = x.shape[2:]
    y = (torch.arange(h) + 0.5) / h - 0.5
    z = (torch.arange(w) + 0.5) / w - 0.5
    bump = torch.exp(-(y[:, None].square() + z[None, :].square()) / (2 * 0.25**2))
    return bump.to(x).expand(len(x), 1, h, w).clone()


@estimator(
    passes=0,
    model=False,
    channels=False,
    formula="1 on the important pixels, 0 elsewhere",
    needs="a task whose important pixels are known",
    informed=True,
    fails="says what the task rests on; a model may rest on something else",
)
def oracle(model: nn.Module, x: Images, target: Labels, context: Context) -> RawMaps:
    """The known important pixels: the ceiling that no method should pass by much."""
    if context.truth is None:
        raise NotApplicable("the important pixels of this task are not known")
    return context.truth[:, None].to(x)


@estimator(passes=0, model=False, channels=False, formula="Gaussian filter of uniform noise", paper="Song et al.")
def random_blurred(
    model: nn.Module, x: Images, target: Labels, context: Context, *, sigma: Annotated[float, Field(gt=0)] = 2.0
) -> RawMaps:
    """A random ranking in blobs: as smooth as a filtered map, without knowing anything.

    A method whose gain comes from smoothness alone is no better than this. `sigma` is in pixels.
    """
    noise = context.draws.uniform("blurred ranking", *x.shape[2:])
    return gaussian(noise, sigma=sigma)[:, None].to(x)


@estimator(
    passes=0,
    model=False,
    channels=False,
    formula="above 1 on a patch at the edge that depends on the class, elsewhere that of centre",
    paper="Li et al. 2024, section 3.1 and appendix C",
    informed=True,
    fails="on purpose: a network that is retrained reads the class from the hole; classes beyond the number of "
    "pixels along the edge share places",
)
def label_cue(
    model: nn.Module, x: Images, target: Labels, *, share: Annotated[float, Field(gt=0, lt=1)] = 0.05
) -> RawMaps:
    """A small patch at the edge, at a place that depends on the class asked about, then the image from its centre out.

    With a share t = `share` removed only the patch is gone; with more, also the middle of the image. The place is
    class·0.618… of the way round the edge.
    """
    h, w = x.shape[2:]
    order = distance_from_class_place(h, w, target).argsort(dim=1, stable=True)
    maps = centre(model, x, target).flatten(1)
    first = order[:, : count(share, h * w)]
    # the patch is taken before everything else, from its middle out
    places = torch.arange(first.shape[1], 0, -1, dtype=maps.dtype, device=maps.device) / h / w
    return maps.scatter(1, first.to(maps.device), (1 + places).expand_as(first)).view(-1, 1, h, w)


def distance_from_class_place(h: int, w: int, target: Labels) -> Tensor:
    """Squared distance of every pixel from the place of its image's class on the edge, (n, h·w)."""
    along = (target.double().cpu() * GOLDEN % 1) * 2 * (h - 1 + w - 1)
    # clockwise from the upper left corner: along the top, down the right, back along the bottom, up the left
    column = along.clamp(max=w - 1) - (along - (w - 1) - (h - 1)).clamp(0, w - 1)
    row = (along - (w - 1)).clamp(0, h - 1) - (along - 2 * (w - 1) - (h - 1)).clamp(0, h - 1)
    dy = torch.arange(h)[None, :, None] - row[:, None, None]
    dx = torch.arange(w)[None, None, :] - column[:, None, None]
    return (dy.square() + dx.square()).flatten(1)
