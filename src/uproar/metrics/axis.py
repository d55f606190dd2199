"""What the points of a metric's curve mean: where they lie, and the words beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Axis:
    """A fact of a metric whose responses hold a `curve`.

    In texts `{by}` is what the metric follows (its option `by`; probability where it has none), `{score}` the same as
    the words of an axis: "accuracy", "probability of the target".
    """

    points: Callable[..., Sequence[float]]
    """`points(shape, **options)`: where the points lie, for images of shape (c, h, w)."""
    x: str = "fraction"
    y: str = "{score}"
    noun: str = "{by}"
    """The value at one point."""
    done: str = ""
    """What happened to so many percent."""
    falls: bool = False
    """Whether the fraction falls from left to right."""
    of_shown: bool = False
    """Whether the fraction is the share of pixels that the model is shown; else that of pixels removed."""
    level: str = ""
    """The option that holds a level at which the curve is read."""
    remark: str = ""


@dataclass(frozen=True)
class Trace:
    """A fact of a metric that is a statistic of a data set: that statistic wherever it could be read, as a curve."""

    levels: tuple[float, ...]
    of: Callable[..., Tensor]
    """`of(responses, levels, **options)`: the statistic at each level, NaN where it is not reached."""
    x: str
    y: str


MOST_FIRST = "The most important pixels go or come first."


def of_pixels(
    points: Callable[..., Sequence[float]],
    done: str,
    remark: str = MOST_FIRST,
    y: str = "{score}",
    of_shown: bool = False,
) -> Axis:
    """A curve over the share of pixels to which something was done."""
    return Axis(points, f"share of pixels {done}", y, done=done, of_shown=of_shown, remark=remark)
