"""Insertion, deletion and ROAD: what the model makes of images while their pixels come or go by rank.

Insertion and deletion follow the target's probability; of a regression, which has none, the value, on a scale on which
the image has 1 and the fully removed image 0. A fraction is the share of pixels inserted, or deleted. Fills that draw
are averaged over `repeats` independent draws (5 for `uniform` and `resample` by default, 1 for the others).

ROAD (remove and debias): removed pixels become noisy linear interpolations, so that the hole itself says little. A
fraction is the share of pixels removed, from the most important on (`road`) or from the least (`road_lerf`). By
accuracy, the value of an image is the share of fractions at which it is classified as the target, so that the mean
over images is the area under the accuracy curve.

Only the order of the map counts. Below each metric stand its forms in released code.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from uproar.errors import BadOption, NotApplicable
from uproar.metrics.changes import (
    BY_VALUE,
    AtPercentile,
    Batch,
    ByWindow,
    Change,
    Jittered,
    Outputs,
    PixelOrder,
    Regions,
    Side,
    removed,
    uses_mask,
)
from uproar.metrics.probe import ROWS, area_of, asked, curve_of, follows_values, only, target_score
from uproar.metrics.registry import SHOWN, Axis, Responses, metric, of_pixels
from uproar.models.forward import rows_within_budget
from uproar.registry import options_of
from uproar.removal import count, filled
from uproar.removal.fill import FillContext, Positive, Size, fills, gaussian_kernel, read_fill, weighted_windows
from uproar.tensors import spans
from uproar.types import KINDS, WITH_PROBABILITIES, Images

Steps = Annotated[int, Field(ge=1, le=100_000)] | Literal["adaptive"]
"""Equal steps, or `adaptive`: a curve of `FINE` steps of which only those are shown where it changes."""
Repeats = Annotated[int, Field(ge=1, le=1000)] | None
Window = Annotated[int, Field(ge=1)]
Unit = Literal["pixel", "region"]
Fractions = tuple[Annotated[float, Field(ge=0, le=1)], ...]
Percentiles = tuple[Annotated[float, Field(ge=0, le=100)], ...]
By = Literal["accuracy", "probability"]
Shown = Literal["all", "adaptive"]
"""All fractions, or `adaptive`: those given, and others between them where the curve changes."""
Points = list[tuple[Change, ...]]

CHANCE = "the area of a random order on the same images and model"
RISE = "Petsiuk et al. 2018"
COHERENCY = "Vandersmissen and Oramas 2023, released code"
ROAD = "Rong et al. 2022"
GRADCAM = "pytorch-grad-cam"

declare = functools.partial(metric, true_to="model", low=0, high=1, chance=CHANCE)
"""Declares a mean of what the model makes of images that lose pixels."""
released = functools.partial(declare, kinds=WITH_PROBABILITIES)
"""Declares a form of such a metric that released code computes."""


# points of a curve: how many pixels are removed at each, and from which end of an order


@dataclass(frozen=True)
class Cuts:
    """Points of a curve along one order of the pixels: at each, so many from one side are removed."""

    side: Side
    counts: tuple[int, ...]
    fill: str
    order: PixelOrder = BY_VALUE
    draws: int = 1
    """Independent draws of the fill, whose scores are averaged."""

    def points(self, features: int) -> Points:
        """The changes of each point, as metrics ask for them."""
        draws = range(self.draws)
        points = ((removed(self.side, k, features, self.fill, d, self.order) for d in draws) for k in self.counts)
        return [tuple(dict.fromkeys(point)) for point in points]

    def images(self, batch: Batch, rows: Tensor, points: Tensor, draw: int) -> Images:
        """Image `rows[i]` at the point `points[i]`, for each i."""
        count = torch.tensor(self.counts)[points]
        places = batch.places(self.order)[rows]
        gone = places < count[:, None] if self.side == "most" else places >= places.shape[1] - count[:, None]
        gone = gone.view(len(rows), *batch.maps.shape[1:])
        if not uses_mask(self.fill):
            return torch.where(gone[:, None], batch.replacement(self.fill, draw)[rows], batch.pixels[rows])
        around = batch.around(draw)
        drawn = FillContext(around.draws[rows.tolist()], around.mean, around.train)
        return filled(batch.x[rows], gone, self.fill, drawn)

    def scores(self, batch: Batch, rows: Tensor, points: Tensor, by: By) -> Tensor:
        """The target's score at those points, the mean over draws."""
        parts = []
        for some in spans(len(rows), rows_within_budget(ROWS)):
            images = (self.images(batch, rows[some], points[some], draw) for draw in range(self.draws))
            with torch.inference_mode():
                scores = [target_score(asked(batch, x), batch.target[rows[some]], by) for x in images]
            parts.append(torch.stack(scores).mean(0))
        return torch.cat(parts)


def nested(shape: Sequence[int], side: Side, counts: Sequence[int], fill: str, repeats: int | None = None) -> Points:
    """Points by falling value: at each, so many pixels are removed from one side."""
    return Cuts(side, tuple(counts), fill, BY_VALUE, repeats_of(fill, repeats)).points(shape[1] * shape[2])


def repeats_of(fill: str, repeats: int | None) -> int:
    """How many independent draws of a fill are averaged."""
    if not read_fill(fill)[0].facts.get("random"):
        return 1
    return repeats or (1 if uses_mask(fill) else 5)


def blank_point(shape: Sequence[int], *, fill: str, repeats: int | None = None, **_: Any) -> tuple[Change, ...]:
    """The changes that remove every pixel."""
    return nested(shape, "most", [shape[1] * shape[2]], fill, repeats)[0]


def flat(points: Callable[..., Points]) -> Callable[..., list[Change]]:
    """All changes of the points; for a regression also those that remove everything, by which it is normalised."""

    def changes(shape: Sequence[int], **options: Any) -> list[Change]:
        wanted = [change for point in points(shape, **options) for change in point]
        return [*wanted, *blank_point(shape, **options)] if follows_values() else wanted

    return changes


def area_responses(
    batch: Batch, outputs: Outputs, points: Callable[..., Points], axis: Callable[..., list[float]], **options: Any
) -> Responses:
    """The curve of the target's probability over some points, and the area under it."""
    shape = tuple(batch.x.shape[1:])
    values = curve_of(batch, outputs, points(shape, **options), blank=blank_point(shape, **options))
    return {"value": only(batch.usable, area_of(axis(shape, **options), values)), "curve": values}


# adaptive curves: coarse first, then points where they change, image by image
# An interval whose ends differ by Δ over a width w may hide an area of at most Δ·w if the curve is monotone there. It
# is halved while Δ·w exceeds a tolerance, as a share of the area under a curve of height 1. What lies between points
# that were never shown is interpolated. Which points an image gets depends on its own curve alone, so that no value
# depends on the batch.


TOLERANCE = 0.004
"""Area that an interval may hide before it is halved."""


def follow(
    batch: Batch,
    outputs: Outputs,
    cuts: Cuts,
    fractions: Sequence[float],
    every: int,
    by: By,
    tolerance: float = TOLERANCE,
) -> tuple[Tensor, Tensor]:
    """The curve at all fractions, (n, points), and how many images each took beside those at every so many, (n,).

    `cuts` has a point for each of the fractions; with `every=1` all of them were asked for.
    """
    at = list(range(0, len(fractions), every))
    coarse = Cuts(cuts.side, tuple(cuts.counts[i] for i in at), cuts.fill, cuts.order, cuts.draws)
    shape = batch.x.shape[1:]
    blank = blank_point(shape, fill=cuts.fill, repeats=cuts.draws)
    values = curve_of(batch, outputs, coarse.points(shape[1] * shape[2]), by, blank)
    shown = torch.zeros(len(values))
    if every == 1:
        return values, shown
    if follows_values():
        raise NotApplicable("adaptive curves are of class probabilities; a regression needs steps=100, or points=all")
    place = torch.tensor(fractions, dtype=torch.float64)
    place = (place - place[0]) / (place[-1] - place[0])
    whole = torch.full((len(values), len(fractions)), torch.nan, dtype=torch.float64)
    whole[:, at] = values.double()
    while len(rows := (todo := _middles(whole, place, tolerance)).nonzero()):
        whole[todo] = cuts.scores(batch, rows[:, 0], rows[:, 1], by)
        shown += cuts.draws * todo.sum(1)
    return _interpolated(whole, place), shown


def _middles(values: Tensor, place: Tensor, tolerance: float) -> Tensor:
    """The middle points of all intervals between known points that may hide too much area, (n, points) bool."""
    chosen = torch.zeros_like(values, dtype=torch.bool)
    for i, row in enumerate(values):
        known = row.isfinite().nonzero()[:, 0]
        low, high = known[:-1], known[1:]
        hidden = (row[high] - row[low]).abs() * (place[high] - place[low])
        wide = (high - low > 1) & (hidden > tolerance)
        chosen[i, (low[wide] + high[wide]) // 2] = True
    return chosen


def _interpolated(values: Tensor, place: Tensor) -> Tensor:
    """Curves with what is not known on the straight line between what is."""
    whole = values.clone()
    for row in whole:
        known = row.isfinite().nonzero()[:, 0]
        missing = row.isnan().nonzero()[:, 0]
        after = torch.searchsorted(known, missing)
        low, high = known[after - 1], known[after]
        share = (place[missing] - place[low]) / (place[high] - place[low])
        row[missing] = row[low] + share * (row[high] - row[low])
    return whole


def expected_forwards(steps: int | str = 0, points: str = "all", **_: Any) -> float:
    """Images that an adaptive curve takes beside those that it asks for, about."""
    return 10.0 if steps == "adaptive" else 8.0 if points == "adaptive" else 0.0


def _curve_responses(batch: Batch, fractions: Sequence[float], values: Tensor, shown: Tensor, every: int) -> Responses:
    """Curves and the areas under them; of adaptive ones also how many images they took."""
    responses = {"value": only(batch.usable, area_of(fractions, values)), "curve": values}
    return responses if every == 1 else {**responses, SHOWN: shown}


# insertion and deletion

FINE, EACH = 100, 5
"""Steps of an adaptive curve, and how many of them its coarse curve takes at once."""
_FORMULA = "area under p_c against the share of pixels {}"
DELETION: dict[str, Any] = {
    "higher_is_better": False,
    "biases": "changed images are unlike the training data; scattered pixels break an image sooner than a "
    "coherent patch, so noisy maps do well",
}
INSERTION: dict[str, Any] = {
    "higher_is_better": True,
    "biases": "changed images are unlike the training data; coherent patches are recognised sooner than "
    "scattered pixels, so smooth maps do well",
}


def steps_axis(shape: Sequence[int], *, steps: int | str, **_: Any) -> list[float]:
    """Equal steps from 0 to 1."""
    total = FINE if isinstance(steps, str) else steps
    return [i / total for i in range(total + 1)]


def _cuts(
    shape: Sequence[int],
    side: Side,
    *,
    steps: int | str,
    fill: str,
    unit: Unit,
    window: int,
    repeats: int | None,
    every: int = 1,
) -> Cuts:
    """Exactly `round(t · h · w)` pixels are deleted, or inserted, at every fraction t."""
    features = shape[1] * shape[2]
    counts = [count(t, features) for t in steps_axis(shape, steps=steps)][::every]
    gone = counts if side == "most" else [features - k for k in counts]
    order = BY_VALUE if unit == "pixel" else ByWindow(window)
    return Cuts(side, tuple(gone), fill, order, repeats_of(fill, repeats))


def _points(side: Side) -> Callable[..., Points]:
    def points(shape: Sequence[int], **options: Any) -> Points:
        every = EACH if options["steps"] == "adaptive" else 1
        return _cuts(shape, side, every=every, **options).points(shape[1] * shape[2])

    return points


def _followed(batch: Batch, outputs: Outputs, side: Side, **options: Any) -> Responses:
    """Curve and area with equal steps, or adaptively."""
    shape, every = tuple(batch.x.shape[1:]), EACH if options["steps"] == "adaptive" else 1
    axis = steps_axis(shape, **options)
    values, shown = follow(batch, outputs, _cuts(shape, side, **options), axis, every, "probability")
    return _curve_responses(batch, axis, values, shown, every)


@declare(
    **DELETION,
    formula=_FORMULA.format("deleted"),
    paper=RISE,
    kinds=KINDS,
    asks=flat(_points("most")),
    forwards=expected_forwards,
    axis=of_pixels(steps_axis, "deleted"),
)
def deletion(
    batch: Batch,
    outputs: Outputs,
    *,
    steps: Steps = 100,
    fill: str = "mean",
    unit: Unit = "pixel",
    window: Window = 9,
    repeats: Repeats = None,
) -> Responses:
    """Mean probability of the target while the most important pixels go first.

    `steps="adaptive"` is the curve of 100 steps, shown at every fifth and where it changes: about a quarter of the
    images, the same area within 0.005. `unit="region"` takes window×window pixels around the most important pixel at a
    time, still with exact counts.
    """
    return _followed(batch, outputs, "most", steps=steps, fill=fill, unit=unit, window=window, repeats=repeats)


@declare(
    **INSERTION,
    formula=_FORMULA.format("inserted"),
    paper=RISE,
    kinds=KINDS,
    asks=flat(_points("least")),
    forwards=expected_forwards,
    axis=of_pixels(steps_axis, "inserted", of_shown=True),
)
@options_of(deletion)
def insertion(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Mean probability of the target while the most important pixels come first, on a canvas made by the fill.

    `steps="adaptive"` as for `deletion`.
    """
    return _followed(batch, outputs, "least", **options)


@fills.declare("blur:rise")
def blur_rise(x: Images, removed: Tensor, around: FillContext, *, size: Size = 11, sigma: Positive = 5.0) -> Images:
    """The image blurred as in the code released with RISE: the mean colour lies around it.

    The weights are those of a Gaussian whose tails are folded back into the size×size window.
    """
    colour = around.colour("blur:rise").to(x).view(1, -1, 1, 1)
    kernel = folded_gaussian(size, sigma).to(x)
    before, after = size // 2, (size - 1) // 2
    x = weighted_windows(F.pad(x - colour, (0, 0, before, after)), kernel, 2)
    return weighted_windows(F.pad(x, (before, after)), kernel, 3) + colour


def folded_gaussian(size: int, sigma: float) -> Tensor:
    """Weights of a Gaussian around the middle of a window that is mirrored at its own edges; they sum to 1."""
    reach = math.floor(4 * sigma + 0.5)
    steps = torch.arange(-reach, reach + 1)
    place = (steps + size // 2) % (2 * size)
    place = torch.minimum(place, 2 * size - 1 - place)
    return torch.zeros(size, dtype=torch.float64).index_add_(0, place, gaussian_kernel(steps, sigma))


def _rise_counts(shape: Sequence[int], step: int | None) -> list[int]:
    features = shape[1] * shape[2]
    each = step or shape[2]
    return [min(i * each, features) for i in range(math.ceil(features / each) + 1)]


def rise_axis(shape: Sequence[int], *, step: int | None, **_: Any) -> list[float]:
    """Equal steps from 0 to 1, also where the last step is shorter."""
    return steps_axis(shape, steps=len(_rise_counts(shape, step)) - 1)


def _rise_deleted(shape: Sequence[int], *, step: int | None, fill: str) -> Points:
    """`step` pixels more at every point."""
    return nested(shape, "most", _rise_counts(shape, step), fill)


def _rise_inserted(shape: Sequence[int], *, step: int | None, fill: str) -> Points:
    return nested(shape, "least", [shape[1] * shape[2] - k for k in _rise_counts(shape, step)], fill)


@released(
    name="deletion:rise",
    **DELETION,
    formula="deletion, `step` pixels at a time",
    paper=f"{RISE}, released code",
    asks=flat(_rise_deleted),
    axis=of_pixels(rise_axis, "deleted"),
)
def deletion_rise(batch: Batch, outputs: Outputs, *, step: Steps | None = None, fill: str = "mean") -> Responses:
    """Deletion with the step of the code released with RISE: as many pixels as the image is wide."""
    return area_responses(batch, outputs, _rise_deleted, rise_axis, step=step, fill=fill)


@released(
    name="insertion:rise",
    **INSERTION,
    formula="insertion, `step` pixels at a time, on the image blurred towards the mean colour",
    paper=f"{RISE}, released code",
    asks=flat(_rise_inserted),
    axis=of_pixels(rise_axis, "inserted", of_shown=True),
)
@options_of(deletion_rise, fill="blur:rise")
def insertion_rise(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Insertion with the step and the blurred canvas of the code released with RISE."""
    return area_responses(batch, outputs, _rise_inserted, rise_axis, **options)


def _coherency_points(side: Side) -> Callable[..., Points]:
    """Steps of ceil(h·w / steps) pixels, or whole windows until each share is covered."""

    def points(shape: Sequence[int], *, steps: int, fill: str, unit: Unit, window: int, repeats: int | None) -> Points:
        features = shape[1] * shape[2]
        counts = [min(i * math.ceil(features / steps), features) for i in range(steps + 1)]
        gone = counts if side == "most" else [features - k for k in counts]
        if unit == "pixel":
            return nested(shape, side, gone, fill, repeats)
        if features < steps * window**2:
            raise BadOption(
                f"Whole windows of {window}×{window} pixels need at most {features // window**2} steps on "
                f"{shape[1]}×{shape[2]} pixels, not {steps}."
            )
        draws = range(repeats_of(fill, repeats))
        inner = [tuple(Regions(side, i, steps, window, fill, d) for d in draws) for i in range(1, steps)]
        ends = nested(shape, side, [gone[0], gone[-1]], fill, repeats)
        return [ends[0], *inner, ends[1]]

    return points


_COHERENCY_DELETED, _COHERENCY_INSERTED = _coherency_points("most"), _coherency_points("least")


@released(
    name="deletion:coherency",
    **DELETION,
    formula="deletion in steps of ceil(h·w / steps) pixels, or of whole windows",
    paper=COHERENCY,
    asks=flat(_COHERENCY_DELETED),
    axis=of_pixels(steps_axis, "deleted"),
)
@options_of(deletion)
def deletion_coherency(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Deletion as in the code released with the coherency study; the last points may all be empty images."""
    return area_responses(batch, outputs, _COHERENCY_DELETED, steps_axis, **options)


@released(
    name="insertion:coherency",
    **INSERTION,
    formula="insertion in steps of ceil(h·w / steps) pixels, or of whole windows",
    paper=COHERENCY,
    asks=flat(_COHERENCY_INSERTED),
    axis=of_pixels(steps_axis, "inserted", of_shown=True),
)
@options_of(deletion, fill="blur")
def insertion_coherency(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Insertion as in the code released with the coherency study, on the blurred image by default."""
    return area_responses(batch, outputs, _COHERENCY_INSERTED, steps_axis, **options)


# ROAD

PAPER: Fractions = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
"""The fractions of the paper."""
PARTS = 8
"""Parts of an interval between two of the given fractions, of which an adaptive curve is made."""
ROAD_TOLERANCE = 0.008
"""Area that an interval of an adaptive curve may hide: mean areas were within .005 of those of the full curve."""
MORF_BIAS = "scattered holes are interpolated almost perfectly, so maps of scattered pixels look harmless"
LERF_BIAS = "maps that keep one coherent patch do well"


def road_axis(shape: Sequence[int], *, fractions: Fractions, points: Shown = "all", **_: Any) -> list[float]:
    """The fractions, which must increase; of an adaptive curve also those between them."""
    if not fractions or any(b <= a for a, b in itertools.pairwise(fractions)):
        raise BadOption(f"Fractions must increase, at least one; got {list(fractions)}.")
    if points == "all":
        return list(fractions)
    if len(fractions) < 2:
        raise BadOption(f"points=adaptive needs at least two fractions; got {list(fractions)}.")
    parts = ([a + (b - a) * i / PARTS for i in range(PARTS)] for a, b in itertools.pairwise(fractions))
    return [*itertools.chain(*parts), fractions[-1]]


def _road_points(*sides: Side) -> Callable[..., Points]:
    def points(shape: Sequence[int], *, fractions: Fractions, fill: str, **_: Any) -> Points:
        counts = [count(t, shape[1] * shape[2]) for t in road_axis(shape, fractions=fractions)]
        return [point for side in sides for point in nested(shape, side, counts, fill)]

    return points


def _road_curve(
    batch: Batch, outputs: Outputs, side: Side, *, fractions: Fractions, fill: str, by: By, points: Shown
) -> tuple[Tensor, Tensor]:
    """The curve of every image, and how many images it took beside those of the given fractions."""
    if points == "adaptive" and by != "probability":
        raise BadOption(f"points=adaptive is for by=probability, whose curves have no jumps; got by={by}.")
    shape = tuple(batch.x.shape[1:])
    axis = road_axis(shape, fractions=fractions, points=points)
    cuts = Cuts(side, tuple(count(t, shape[1] * shape[2]) for t in axis), fill, BY_VALUE, repeats_of(fill, None))
    return follow(batch, outputs, cuts, axis, 1 if points == "all" else PARTS, by, ROAD_TOLERANCE)


def _road_responses(batch: Batch, values: Tensor, shown: Tensor, **options: Any) -> Responses:
    every = 1 if options["points"] == "all" else PARTS
    return _curve_responses(batch, road_axis(tuple(batch.x.shape[1:]), **options), values, shown, every)


@declare(
    higher_is_better=False,
    biases=MORF_BIAS,
    formula="area under the accuracy against the share removed, most important first",
    paper=ROAD,
    kinds=KINDS,
    asks=flat(_road_points("most")),
    forwards=expected_forwards,
    axis=of_pixels(road_axis, "removed"),
)
def road(
    batch: Batch,
    outputs: Outputs,
    *,
    fractions: Fractions = (0.0, *PAPER, 1.0),
    fill: str = "linear",
    by: By = "accuracy",
    points: Shown = "all",
) -> Responses:
    """Mean accuracy (or probability) of the target while the most important pixels are interpolated away.

    `points="adaptive"` (by probability) shows the given fractions, and others between them where the curve changes: the
    area is nearly that of eight times as many fractions, for about a third of the images.
    """
    options: dict[str, Any] = {"fractions": fractions, "fill": fill, "by": by, "points": points}
    return _road_responses(batch, *_road_curve(batch, outputs, "most", **options), **options)


@declare(
    higher_is_better=True,
    biases=LERF_BIAS,
    formula="area under the accuracy against the share removed, least important first",
    paper=ROAD,
    kinds=KINDS,
    asks=flat(_road_points("least")),
    forwards=expected_forwards,
    axis=of_pixels(road_axis, "removed", "The least important pixels go first."),
)
@options_of(road)
def road_lerf(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Mean accuracy (or probability) of the target while the least important pixels are interpolated away."""
    return _road_responses(batch, *_road_curve(batch, outputs, "least", **options), **options)


@metric(
    true_to="model",
    higher_is_better=True,
    low=-1,
    high=1,
    chance="0",
    biases=f"{MORF_BIAS}; {LERF_BIAS}",
    paper=ROAD,
    formula="road_lerf − road",
    asks=flat(_road_points("most", "least")),
    forwards=lambda **options: 2 * expected_forwards(**options),
    kinds=KINDS,
    axis=of_pixels(road_axis, "removed", "", "{by}, least − most first"),
)
@options_of(road)
def road_gap(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """How much longer the class survives when the least important pixels go first than when the most do."""
    least, beside = _road_curve(batch, outputs, "least", **options)
    most, more = _road_curve(batch, outputs, "most", **options)
    return _road_responses(batch, least - most, beside + more, **options)


def _leemann_points(side: Side) -> Callable[..., Points]:
    """`int(p · h · w)` pixels are taken away, or, from the other side, left."""

    def points(shape: Sequence[int], *, fractions: Fractions, fill: str, jitter: float, **_: Any) -> Points:
        features = shape[1] * shape[2]
        counts = [int(features * p) for p in road_axis(shape, fractions=fractions)]
        gone = counts if side == "most" else [features - k for k in counts]
        return [(removed(side, k, features, fill, 0, Jittered(jitter)),) for k in gone]

    return points


def _mean_over(batch: Batch, values: Tensor) -> Responses:
    """The curve and its plain mean, where the released code has no area."""
    return {"value": only(batch.usable, values.mean(1)), "curve": values}


_LEEMANN_MOST, _LEEMANN_LEAST = _leemann_points("most"), _leemann_points("least")
_JITTER = "noise added to the map reorders real differences below 1e-4 of its range"


@released(
    name="road:leemann",
    higher_is_better=False,
    biases=f"{MORF_BIAS}; {_JITTER}",
    formula="mean over p of the accuracy with int(p·h·w) most important pixels removed",
    paper=f"{ROAD}, released code",
    asks=flat(_LEEMANN_MOST),
    axis=of_pixels(road_axis, "removed"),
)
def road_leemann(
    batch: Batch,
    outputs: Outputs,
    *,
    fractions: Fractions = PAPER,
    fill: str = "linear",
    jitter: float = 1e-4,
    by: By = "accuracy",
) -> Responses:
    """ROAD as in its released code: one field of noise on all maps, `int(p·h·w)` pixels, the mean over p."""
    points = _LEEMANN_MOST(batch.x.shape[1:], fractions=fractions, fill=fill, jitter=jitter)
    return _mean_over(batch, curve_of(batch, outputs, points, by))


@released(
    name="road_lerf:leemann",
    higher_is_better=True,
    biases=f"{LERF_BIAS}; {_JITTER}",
    formula="mean over p of the accuracy with all but the int(p·h·w) most important pixels removed",
    paper=f"{ROAD}, released code",
    asks=flat(_LEEMANN_LEAST),
    axis=of_pixels(road_axis, "kept", of_shown=True),
)
@options_of(road_leemann)
def road_lerf_leemann(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """ROAD's other order as in its released code, where a fraction is the share of pixels that is *kept*."""
    return _mean_over(batch, curve_of(batch, outputs, _LEEMANN_LEAST(batch.x.shape[1:], **options), options["by"]))


_TENS: Percentiles = (10, 20, 30, 40, 50, 60, 70, 80, 90)


def percentile_axis(shape: Sequence[int], *, percentiles: Percentiles, **_: Any) -> list[float]:
    """The percentiles as fractions of the map that stays."""
    return road_axis(shape, fractions=tuple(q / 100 for q in percentiles))


def _at(*sides: Side) -> Callable[..., list[Change]]:
    def asks(shape: Sequence[int], *, percentiles: Percentiles, fill: str) -> list[Change]:
        return [AtPercentile(side, q, fill) for side in sides for q in percentiles]

    return asks


def _difference(batch: Batch, outputs: Outputs, side: Side, percentiles: Percentiles, fill: str) -> Tensor:
    """Probability after minus before, (n, percentiles)."""
    after = curve_of(batch, outputs, [(AtPercentile(side, q, fill),) for q in percentiles])
    return after - target_score(batch.clean, batch.target, "probability")[:, None]


gradcam_metric = functools.partial(
    metric,
    true_to="model",
    low=-1,
    high=1,
    kinds=WITH_PROBABILITIES,
    biases="all equal values at a threshold go: a sparse map loses nearly everything at every percentile",
    paper=GRADCAM,
    axis=Axis(percentile_axis, "percentile of the map at the cut", "change of probability", "change", "percentile"),
)


@gradcam_metric(
    name="road_morf:gradcam",
    higher_is_better=False,
    chance=CHANCE,
    asks=_at("most"),
    formula="mean over q of p'_c − p_c, pixels from the q-th percentile up removed",
)
def road_morf_gradcam(
    batch: Batch, outputs: Outputs, *, percentiles: Percentiles = _TENS, fill: str = "linear"
) -> Responses:
    """Change of the target's probability when values from a percentile up go, so (100 − q) % of the pixels."""
    return _mean_over(batch, _difference(batch, outputs, "most", percentiles, fill))


@gradcam_metric(
    name="road_lerf:gradcam",
    higher_is_better=True,
    chance=CHANCE,
    asks=_at("least"),
    formula="mean over q of p'_c − p_c, pixels of 1 − map from the q-th percentile up removed",
)
@options_of(road_morf_gradcam)
def road_lerf_gradcam(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Change of the target's probability when the lowest (100 − q) % of the pixels go."""
    return _mean_over(batch, _difference(batch, outputs, "least", **options))


@gradcam_metric(
    name="road:gradcam",
    higher_is_better=True,
    chance="0",
    asks=_at("most", "least"),
    formula="(road_lerf:gradcam − road_morf:gradcam) / 2",
)
@options_of(road_morf_gradcam)
def road_gradcam(batch: Batch, outputs: Outputs, **options: Any) -> Responses:
    """Half the difference between removing the least and the most important pixels."""
    most, least = (_difference(batch, outputs, side, **options) for side in ("most", "least"))
    return _mean_over(batch, (least - most) / 2)
