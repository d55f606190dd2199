"""How far apart the curves of a metric are for a map and for the same map with its values changed.

Hausdorff distances of curves over all test images, for every metric, estimator, change and replicate, and again for
resamples of the images that all of them share: the distances of one metric are of the same images and networks, so
that only replicates and images can tell how uncertain their mean is.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import scipy
import torch
from numpy.typing import NDArray

from uproar.audits.registry import StudyEvidence
from uproar.errors import NotApplicable
from uproar.estimators import read_chain
from uproar.expression import Call, parse
from uproar.metrics.registry import metrics, read_metric
from uproar.metrics.soundness import Rule, sound_curve
from uproar.statistics.bootstrap import resampled_images
from uproar.statistics.intervals import Interval, replicated_interval

Points = NDArray[np.float64]

RESAMPLES = 40
"""Resamples of the images for the interval of a distance."""
SCHEMES = ("constant", "random", "partial")


def altered(estimator: str, how: str, scheme: str, clip: bool) -> str:
    """The chain of a map with values removed or introduced."""
    options = {"scheme": scheme} | ({} if clip else {"clip": False})
    return read_chain(str(Call(how, (parse(estimator),), tuple(sorted(options.items()))))).name


def changed_chains(estimator: str, scheme: str, clip: bool) -> dict[str, str]:
    """The chains of the plain map, of it with values removed and with values introduced."""
    return {
        "plain": estimator,
        "removed": altered(estimator, "remove_values", scheme, clip),
        "introduced": altered(estimator, "introduce_values", scheme, clip),
    }


def variants() -> Iterator[tuple[str, bool]]:
    """The schemes, each cut to [0, 1] or not; setting pixels to values of the map leaves nothing to cut."""
    for scheme in SCHEMES:
        yield scheme, True
        if scheme != "partial":
            yield scheme, False


class ChangedCurves:
    """The curves of a metric for maps and for the same maps with values removed and introduced."""

    def __init__(self, part: StudyEvidence) -> None:
        self.part = part
        self._responses = functools.cache(part.responses)
        self._call, self._chains = functools.cache(read_metric), functools.cache(changed_chains)

    def table(self, estimators: Sequence[str]) -> pd.DataFrame:
        """The smallest distance of the three curves by metric, estimator, scheme and replicate.

        `resampled` has the same for resamples of the images, `images` says how many there are.
        """
        study = self.part.study
        cases = itertools.product(study.metric_names, estimators, variants(), study.seeds)
        rows = [row for case in cases if (row := self._row(*case)) is not None]
        if not rows:
            raise NotApplicable(
                f"no metric of {' or '.join(estimators)} with values removed and introduced is finished; "
                "name others, e.g. values(estimators=[ig])"
            )
        return pd.DataFrame(rows)

    def _row(self, metric: str, estimator: str, variant: tuple[str, bool], seed: int) -> dict[str, object] | None:
        scheme, clip = variant
        curves = self.three(metric, estimator, scheme, clip, seed)
        if curves is None:
            return None
        n = len(self._responses(metric, estimator, seed)["value"])
        again = (
            self.three(metric, estimator, scheme, clip, seed, images)
            for images in resampled_images(n, RESAMPLES, name="distance of curves").numpy()
        )
        resampled = np.array([np.nan if drawn is None else least_distance(drawn) for drawn in again])
        return {
            "metric": metric,
            "estimator": estimator,
            "scheme": scheme,
            "clipped": clip,
            "seed": seed,
            "distance": least_distance(curves),
            "images": n,
            "resampled": resampled,
        }

    def three(
        self, metric: str, estimator: str, scheme: str, clip: bool, seed: int, images: NDArray[np.int64] | None = None
    ) -> dict[str, Points] | None:
        """The curves of the plain map, of it with values removed and with values introduced; None if one is missing."""
        chains = self._chains(estimator, scheme, clip)
        try:
            return {name: self.points(metric, chain, seed, images) for name, chain in chains.items()}
        except NotApplicable:
            return None

    def points(self, metric: str, estimator: str, seed: int, images: NDArray[np.int64] | None = None) -> Points:
        """A metric's curve over all test images or a sample of them, (points, 2), in its own units.

        Soundness against the accuracy reached; the others against their fraction or threshold.
        """
        call = self._call(metric)
        responses = self._responses(metric, estimator, seed)
        if images is not None:
            n = len(responses["value"])
            responses = {k: v[images] for k, v in responses.items() if np.ndim(v) and len(v) == n}
        if call.name == "soundness":
            options = metrics[call.name].bind(**dict(call.options))
            tensors = {k: torch.from_numpy(np.array(v)) for k, v in responses.items()}
            across, up = sound_curve(tensors, options["by"], Rule(options["epsilon"]))
            points = np.stack([across.numpy(), up.numpy()], 1)
        else:
            values = responses["curve"].astype(float)
            defined = np.isfinite(responses["value"])
            if not defined.any():
                raise NotApplicable(f"{metric} of {estimator} is defined for no image")
            points = np.stack([np.asarray(self.part.axis(metric)), values[defined].mean(0)], 1)
        finite = np.isfinite(points).all(1)
        if not finite.any():
            raise NotApplicable(f"{metric} of {estimator} has no curve")
        return np.asarray(points[finite])


def mean_distance(rows: pd.DataFrame) -> Interval:
    """The mean distance of some rows of one metric, with an interval over replicates and images."""
    by_seed = rows.groupby("seed")["distance"].mean().to_numpy()
    drawn = np.stack(list(rows["resampled"])).mean(0)
    drawn = drawn[np.isfinite(drawn)]
    variance = float(drawn.var(ddof=1)) if len(drawn) > 1 else np.nan
    return replicated_interval(by_seed, variance, int(rows["images"].max())).clipped(0.0, np.inf)


def hausdorff(a: Points, b: Points) -> float:
    """The Hausdorff distance of two sets of points, (n, 2): how far a point of one can be from the other set.

    >>> hausdorff(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.5]]))
    0.5
    """
    between = scipy.spatial.distance.cdist(a, b)
    return float(max(between.min(0).max(), between.min(1).max()))


def least_distance(curves: Mapping[str, Points]) -> float:
    """The smallest Hausdorff distance of any two curves: near 0 where some two lie on each other."""
    return min(hausdorff(a, b) for a, b in itertools.combinations(curves.values(), 2))
