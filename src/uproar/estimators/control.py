"""Controls: rankings that know nothing of the model. They are the floor and the ceiling of every comparison."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Literal, get_args

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.errors import BadOption, NotApplicable
from uproar.estimators.registry import Context, direct, estimator, postprocess
from uproar.estimators.transforms import gaussian, gaussian_filter
from uproar.removal.order import count
from uproar.seeds import Draws
from uproar.types import Images, Labels, Maps, RawMaps

GOLDEN = (math.sqrt(5) - 1) / 2
"""Its multiples lie far apart on a circle, however many there are."""


@estimator(passes=0, model=False, formula="uniform noise, independent per pixel", paper="Hooker et al. 2019")
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


# the known truth made worse on purpose, step by step: maps whose order of quality is known
# Every kind starts from the map that is 1 on the important pixels and 0 elsewhere, and all levels of a kind share
# their random draws, so that what is wrong at one level is wrong at all higher ones. A metric must put lower levels
# above higher ones; `uproar check` says which do.

Kind = Literal["noise", "missing", "shift", "encoder"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LEVELS = (0.25, 0.5, 0.75)
"""The levels that are asked about, after the truth itself."""


@estimator(
    passes=0,
    model=False,
    channels=False,
    informed=True,
    formula="1 on the important pixels, 0 elsewhere, made worse by `level`",
    paper="after Hedström et al. 2023 and Zheng et al. 2025",
    needs="a task whose important pixels are known",
    fails="on purpose: worse with every level",
)
def degraded(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    kind: Kind = "noise",
    level: Annotated[float, Field(ge=0, le=1)] = 0.5,
) -> RawMaps:
    """The known important pixels, degraded: level 0 is the truth, higher levels of a kind are worse.

    noise: Gaussian noise, 2·level standard deviations. missing: a share `level` of the pixels lacks. shift, encoder: a
    share is replaced by as many others: a quarter of the side away, or at a place that tells the class.
    """
    truth, draws = oracle(model, x, target, context)[:, 0].cpu(), context.draws  # on the CPU, as the draws are
    size = truth.shape[1:]
    if level == 0:
        return truth[:, None].to(x)
    if kind == "noise":
        return (truth + 2 * level * draws.normal("degraded noise", *size))[:, None].to(x)
    # a share of the important pixels by chance; higher levels contain lower ones
    order = draws.uniform("degraded pixels", *size).masked_fill(truth == 0, torch.inf)
    counts = (level * truth.sum((1, 2))).round().long()
    kept = truth * ~_first(order, counts).bool()
    if kind == "missing":
        return kept[:, None].to(x)
    # as many others, those with the lowest numbers here, are marked
    if kind == "shift":
        ways = (draws.uniform("degraded direction") * 4).long().tolist()  # up, down, left or right on the torus
        moved = [
            each.roll((1 - 2 * (way % 2)) * max(1, round(each.shape[way // 2] / 4)), way // 2)
            for each, way in zip(truth, ways, strict=True)
        ]
        others = draws.uniform("degraded moved", *size) - torch.stack(moved)
    else:  # nearest to the place of the class on the edge
        others = distance_from_class_place(size[0], size[1], target.cpu()).view_as(truth)
    return (kept + _first(others.to(truth).masked_fill(truth > 0, torch.inf), counts))[:, None].to(x)


def _first(order: Tensor, counts: Tensor) -> Tensor:
    """1 on the pixels of each image with the `counts` lowest numbers, (n, h, w)."""
    places = order.flatten(1).argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    return (places < counts[:, None]).float().view_as(order)


# maps changed on purpose, for audits: values taken away or put in, a prior shape, a coarser grain
# None of these looks at the model, so none can make a map truer; a metric should say so.

Scheme = Literal["constant", "random", "partial"]
Amount = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]

_LI = "Li et al. 2024"


@postprocess(formula="a − 0.6 | a − U(0, 0.6) | the pixels between the 60th and the 80th percentile := 0", paper=_LI)
def remove_values(
    a: Maps, draws: Draws, *, scheme: Scheme = "constant", amount: Amount = 0.6, clip: bool = True
) -> Maps:
    """Attribution removed from the map scaled to [0, 1] (negative values 0, divided by the largest).

    `partial` sets a fifth of the pixels to 0, just below the highest fifth, and has no `amount`. `clip` cuts the result
    to [0, 1], which makes ties of what would be negative.
    """
    return _altered(a, draws, scheme, -amount, clip)


@postprocess(formula="a + 0.6 | a + U(0, 0.6) | the lowest 40 % of the pixels := the 80th percentile", paper=_LI)
def introduce_values(
    a: Maps, draws: Draws, *, scheme: Scheme = "constant", amount: Amount = 0.6, clip: bool = True
) -> Maps:
    """Attribution put into the map scaled to [0, 1] (negative values 0, divided by the largest).

    `partial` raises the lowest 40 % of the pixels to the 80th percentile, and has no `amount`. `clip` cuts the result
    to [0, 1], which makes ties of what would be above 1.
    """
    return _altered(a, draws, scheme, amount, clip)


def _altered(a: Maps, draws: Draws, scheme: Scheme, amount: float, clip: bool) -> Maps:
    """Maps in [0, 1] with `amount` put into every pixel, or a random share of it, or into some of the pixels."""
    positive = a.clamp_min(0)
    high = positive.amax((1, 2), keepdim=True)
    values = torch.where(high > 0, positive / high, positive)
    if scheme == "partial":
        flat = values.flatten(1)
        n = flat.shape[1]
        shuffled = draws.permutations("altered ties", n).to(flat.device)  # equal values come in random order
        order = shuffled.gather(1, flat.gather(1, shuffled).argsort(dim=1, stable=True))
        where, new = order[:, round(0.6 * n) : round(0.8 * n)], torch.zeros_like(flat[:, :1])
        if amount > 0:
            where = order[:, : round(0.4 * n)]
            new = flat.double().quantile(0.8, dim=1, keepdim=True).to(flat)
        return flat.scatter(1, where, new.expand(where.shape)).view_as(values)
    share = draws.uniform("altered values", *values.shape[1:]).to(values) if scheme == "random" else 1.0
    changed = values + amount * share
    return changed.clamp(0, 1) if clip else changed


@postprocess(formula="1 in a rectangle around Σ a·place / Σ a, 0 elsewhere", paper=_LI)
def rect(a: Maps, *, share: Share = 60 / 224) -> Maps:
    """A rectangle around the centre of gravity of the positive values: a prior for marks that are rectangles.

    Its sides are a share of the image's; it lies in the image whole, in the middle where no value is positive.
    """
    weight = a.clamp_min(0).double()
    weight = torch.where(weight.sum((1, 2), keepdim=True) > 0, weight, 1.0)
    rows = _covered(weight.sum(2), share)
    columns = _covered(weight.sum(1), share)
    return (rows[:, :, None] & columns[:, None, :]).to(a)


@postprocess(formula="mean of a over each of `bands` bands of rows", paper=_LI)
def pooling(a: Maps, *, bands: Annotated[int, Field(ge=1)] = 7) -> Maps:
    """The mean of each band across the image: a prior for marks that are stripes."""
    h = a.shape[1]
    if bands > h:
        raise BadOption(f"pooling: {bands} bands do not fit into {h} rows; use at most {h}.")
    edges = [round(i * h / bands) for i in range(bands + 1)]
    means = [a[:, i:j].mean((1, 2)) for i, j in itertools.pairwise(edges)]
    return torch.stack(means, 1).repeat_interleave(torch.tensor(edges).diff(), 1)[:, :, None].expand_as(a).clone()


@postprocess(
    formula="Gaussian filter, σ = 5/11 of the window, of the positive values scaled to [0, 1]; scaled again",
    paper="Vandersmissen and Oramas 2023",
)
def coarse(a: Maps, *, size: Annotated[int, Field(ge=1)] | None = None) -> Maps:
    """The positive part of the map blurred in a window and scaled to [0, 1], to see what its grain is worth.

    The window is 11×11 pixels on images of 224, as much less on smaller ones, and at least 3×3; the border is mirrored.
    """
    side = coarse_size(min(a.shape[1:])) if size is None else size
    if side % 2 == 0:
        raise BadOption(f"coarse: size must be odd, not {side}: a window has a pixel in its middle.")
    return rescale_to_unit(gaussian_filter(rescale_to_unit(a.clamp_min(0)), side * 5 / 11, side // 2, "mirror"))


def coarse_size(side: int) -> int:
    """The window for images with sides of so many pixels, odd.

    >>> [coarse_size(s) for s in (8, 32, 96, 224, 448)]
    [3, 3, 5, 11, 21]
    """
    return max(3, 2 * round((side * 11 / 224 - 1) / 2) + 1)


def _covered(weight: Tensor, share: float) -> Tensor:
    """Which places of an axis the rectangle covers, (n, length): its middle as near the centre of gravity as fits."""
    length = weight.shape[1]
    side = max(1, round(share * length))
    places = torch.arange(length, dtype=weight.dtype)
    centre = (weight * places).sum(1) / weight.sum(1)
    first = (centre - (side - 1) / 2).round().clamp(0, length - side)[:, None]
    return (places >= first) & (places < first + side)


def rescale_to_unit(a: Maps) -> Maps:
    """Each map stretched to [0, 1]; a flat one is 0."""
    low, high = a.amin((1, 2), keepdim=True), a.amax((1, 2), keepdim=True)
    return torch.where(high > low, (a - low) / (high - low), torch.zeros_like(a))
