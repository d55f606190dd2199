"""What removed pixels become. A fill is a function `(x, removed, around) -> x`; kept pixels stay bit for bit.

It says what would stand in every place; `filled` takes from that what is removed. The fact `uses_mask` is true of fills
that depend on which pixels are removed, `random` of those that draw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from uproar.errors import BadInput, BadOption, BadShape, NeedsColour, NotApplicable
from uproar.expression import parse
from uproar.guard import guarded_call
from uproar.registry import Entry, Registry
from uproar.seeds import Draws, generator
from uproar.types import Images

# gaussian filters along one axis: the kernel, and how a signal goes on beyond its ends


def gaussian_kernel(steps: Tensor, sigma: float) -> Tensor:
    """Weights of a Gaussian at these distances from its centre, in double precision; they sum to 1."""
    weights = torch.exp(-0.5 * (steps.double() / sigma).square())
    return weights / weights.sum()


def mirrored(length: int, before: int, after: int) -> Tensor:
    """Where a signal is read that goes on mirrored beyond its ends, the end itself not repeated.

    >>> mirrored(3, 2, 1).tolist()
    [2, 1, 0, 1, 2, 1]
    """
    period = max(1, 2 * length - 2)
    position = torch.arange(-before, length + after) % period
    return torch.minimum(position, period - position).clamp_max(length - 1)


def correlate(x: Tensor, kernel: Tensor, dim: int) -> Tensor:
    """The weighted sum of the values around each one along an axis; the signal is mirrored at its ends."""
    size = len(kernel)
    index = mirrored(x.shape[dim], size // 2, (size - 1) // 2).to(x.device)
    return weighted_windows(x.index_select(dim, index), kernel, dim)


def weighted_windows(x: Tensor, kernel: Tensor, dim: int) -> Tensor:
    """The weighted sum of every window of the kernel's length along an axis."""
    return (x.unfold(dim, len(kernel), 1) * kernel).sum(-1)


fills = Registry("fill", "uproar.fills", ("uproar.metrics.curves",))

Size = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Spread = Annotated[float, Field(ge=0)]
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class FillContext:
    """What a fill may know besides the images: random draws, the training images and their mean colour."""

    draws: Draws
    mean: Tensor | None = None
    train: Tensor | None = None
    sampled: Tensor | None = None
    """The mean colour of some training images (`sample_colour`), for `mean(images=…)`."""

    def colour(self, fill: str) -> Tensor:
        """The mean colour, (c,), for a fill that cannot do without."""
        if self.mean is None:
            raise NeedsColour(
                f"the fill {fill!r} needs the mean colour of the training images; give it as mean= to "
                "score, as value= to fill"
            )
        return self.mean


@fills.declare()
def mean(x: Images, removed: Tensor, around: FillContext, *, images: Size | None = None) -> Images:
    """The mean colour of the training images, or of so many of them: constant, and no image is its own reference."""
    if images is None:
        colour = around.colour("mean")
    elif around.sampled is not None:
        colour = around.sampled
    elif around.train is not None:
        colour = sample_colour(around.train.__getitem__, len(around.train), images)
    else:
        raise NotApplicable("the fill 'mean(images=…)' samples training images; give them as train=")
    return colour.to(x).view(1, -1, 1, 1).expand_as(x)


def sample_colour(read: Callable[[Tensor], Tensor], total: int, images: int) -> Tensor:
    """The mean colour, (c,), of `images` out of `total` training images, drawn once and for all."""
    rows = torch.randperm(total, generator=generator("mean of images"))[:images].sort().values
    sums = [read(chunk).double().mean((2, 3)).sum(0) for chunk in rows.split(128)]
    return (torch.stack(sums).sum(0) / len(rows)).float()


@fills.declare()
def zero(x: Images, removed: Tensor, around: FillContext) -> Images:
    """Black."""
    return torch.zeros_like(x)


@fills.declare()
def channel_mean(x: Images, removed: Tensor, around: FillContext) -> Images:
    """The image's own mean colour."""
    return x.mean((2, 3), keepdim=True).expand_as(x)


@fills.declare()
def blur(x: Images, removed: Tensor, around: FillContext, *, size: Size = 11, sigma: Positive = 5.0) -> Images:
    """The image itself, blurred with a size×size Gaussian; the border is mirrored."""
    kernel = gaussian_kernel(torch.arange(size, dtype=torch.float64) - (size - 1) / 2, sigma).to(x)
    return correlate(correlate(x, kernel, 2), kernel, 3)


@fills.declare(random=True)
def uniform(x: Images, removed: Tensor, around: FillContext) -> Images:
    """Uniform noise in [0, 1], drawn once per pixel and channel."""
    return around.draws.uniform("uniform fill", *x.shape[1:]).to(x)


@fills.declare("uniform:normalised", random=True)
def uniform_normalised(
    x: Images, removed: Tensor, around: FillContext, *, std: tuple[Positive, ...] = IMAGENET_STD
) -> Images:
    """Uniform noise in [0, 1] of normalised images: from the mean colour up to one deviation above it.

    The fill that Vandersmissen and Oramas 2023 call uniform; `std` has one number per channel.
    """
    if len(std) != x.shape[1]:
        raise BadOption(f"The fill uniform:normalised needs std= with {x.shape[1]} numbers, one per channel.")
    low, height = (torch.as_tensor(each).to(x).view(1, -1, 1, 1) for each in (around.colour("uniform:normalised"), std))
    return low + height * around.draws.uniform("uniform fill", *x.shape[1:]).to(x)


@fills.declare(random=True)
def resample(x: Images, removed: Tensor, around: FillContext) -> Images:
    """Each pixel as it is in some training image, drawn anew for every pixel."""
    train, (h, w) = around.train, x.shape[2:]
    if train is None:
        raise NotApplicable("the fill 'resample' draws from training images; give them as train=")
    if len(train) == 0 or train.shape[1:] != x.shape[1:]:
        raise BadShape(
            f"The fill 'resample' needs training images of the shape {tuple(x.shape[1:])}, at least one; "
            f"got {tuple(train.shape)}."
        )
    pick = (around.draws.uniform("resample fill", h, w).double() * len(train)).long()
    row, column = torch.arange(h).view(1, h, 1), torch.arange(w).view(1, 1, w)
    return train[pick, :, row, column].permute(0, 3, 1, 2).to(x)


@fills.declare(uses_mask=True, random=True)
def linear(x: Images, removed: Tensor, around: FillContext, *, noise: Spread = 0.01) -> Images:
    """The weighted mean of the neighbours, solved for all removed pixels at once, plus normal noise.

    Where a whole image is removed, the mean colour of the training images.
    """
    from uproar.removal.linear import impute  # SciPy takes long to load, and few fills need it

    whole = removed.flatten(1).all(1) if removed.dim() == 3 else removed.flatten(2).all(2)
    constant = around.colour("linear").cpu().float().numpy() if bool(whole.any()) else 0.0
    pixels = x.float().cpu().contiguous().numpy()
    solved = torch.from_numpy(impute(pixels, removed.cpu().numpy(), constant=constant)).to(x)
    if noise:
        solved += noise * around.draws.normal("linear fill", *x.shape[1:]).to(x)
    return solved


def read_fill(fill: str) -> tuple[Entry, dict[str, Any]]:
    """A fill's entry and options, from its name such as `linear(noise=0)`; unknown ones are refused."""
    call = parse(fill)
    if call.args:
        raise BadInput(f"A fill takes options such as {call.name}(size=11), not {call}.")
    entry = fills[call.name]
    return entry, entry.bind(**dict(call.options))


def fill_code(fill: object) -> dict[str, str]:
    """What a result depends on beside the name of a fill: the code of a user's own; nothing for uproar's."""
    entry = read_fill(fill)[0] if isinstance(fill, str) else None
    return {"fill code": entry.code} if entry is not None and entry.code else {}


def replacement(x: Images, removed: Tensor, fill: str, around: FillContext) -> Images:
    """What stands in the removed places; what it holds elsewhere means nothing."""
    entry, options = read_fill(fill)
    inputs = [x, removed, around]
    pixels = guarded_call(f"The fill {entry.name}", entry.function, inputs, options)
    if entry.code and (not isinstance(pixels, Tensor) or pixels.shape != x.shape):
        got = tuple(pixels.shape) if isinstance(pixels, Tensor) else type(pixels).__name__
        raise BadShape(
            f"The fill {entry.name} returned {got} for images {tuple(x.shape)}; it must return what stands in every "
            "pixel, e.g. colours.expand_as(x)."
        )
    return pixels


def filled(x: Images, removed: Tensor, fill: str, around: FillContext) -> Images:
    """The images with removed features replaced; `removed` is (n, h, w), or (n, c, h, w) per channel."""
    if removed.shape not in (x.shape, (x.shape[0], *x.shape[2:])):
        raise BadShape(
            f"The images are {tuple(x.shape)} but `removed` is {tuple(removed.shape)}; it must be "
            f"{(x.shape[0], *x.shape[2:])}, or have the images' own shape."
        )
    gone = removed[:, None] if removed.dim() == 3 else removed
    return torch.where(gone, replacement(x, removed, fill, around), x)
