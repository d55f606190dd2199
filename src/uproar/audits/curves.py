"""Evaluation curves as sets of points, and how far apart they are."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import scipy
import torch
from numpy.typing import NDArray

from uproar.audits.base import Part
from uproar.errors import NotApplicable
from uproar.metrics import metrics
from uproar.metrics.base import read_metric
from uproar.metrics.soundness import Rule, sound_curve

Points = NDArray[np.float64]


def hausdorff(a: Points, b: Points) -> float:
    """The Hausdorff distance of two sets of points, (n, 2): how far a point of one can be from the other set.

    >>> hausdorff(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.5]]))
    0.5
    """
    return max(scipy.spatial.distance.directed_hausdorff(a, b)[0], scipy.spatial.distance.directed_hausdorff(b, a)[0])


def least_distance(curves: Mapping[str, Points]) -> float:
    """The smallest Hausdorff distance of any two curves: near 0 where some two lie on each other."""
    return min(hausdorff(a, b) for a, b in itertools.combinations(curves.values(), 2))


def curve_points(part: Part, metric: str, estimator: str, seed: int) -> Points:
    """A metric's curve over all test images, (points, 2), in its own units.

    Soundness against the accuracy reached; the others against their fraction or threshold.
    """
    call = read_metric(metric)
    responses = part.responses(metric, estimator, seed)
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
        points = np.stack([np.asarray(part.axis(metric)), values[defined].mean(0)], 1)
    finite = np.isfinite(points).all(1)
    if not finite.any():
        raise NotApplicable(f"{metric} of {estimator} has no curve")
    return points[finite]
