"""Family-wise error: Holm's procedure over tests, and the share of it that one of several interim analyses spends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uproar.errors import BadInput
from uproar.statistics.design import ALPHA, INTERIM_ANALYSES
from uproar.statistics.student_t import Numbers


def holm(p: ArrayLike) -> Numbers:
    """P-values adjusted by Holm's step-down over the last axis; NaN stays NaN and is not counted.

    >>> holm([0.04, 0.01, 0.03]).round(12).tolist()
    [0.06, 0.03, 0.06]
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p, axis=-1)  # NaN last
    tests = np.isfinite(p).sum(-1, keepdims=True)
    factors = np.maximum(tests - np.arange(p.shape[-1]), 1)
    stepped = np.maximum.accumulate(np.take_along_axis(p, order, -1) * factors, axis=-1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(stepped, 1.0), -1)
    return adjusted


def sides(effect: ArrayLike, p_adjusted: ArrayLike, alpha: float = ALPHA) -> NDArray[np.int64]:
    """The sign of each effect where its adjusted p decides it, else 0.

    >>> sides([0.2, -0.1, 0.3], [0.01, 0.05, 0.06]).tolist()
    [1, -1, 0]
    """
    return np.where(np.asarray(p_adjusted) <= alpha, np.sign(effect), 0).astype(np.int64)


def interim_alpha(n: int, alpha: float = ALPHA, analyses: Sequence[int] = INTERIM_ANALYSES) -> float:
    """Share of `alpha` to spend on the interim analysis with `n` replicates: the same at every analysis.

    The shares add up to `alpha`, so all analyses together err no more often than one whole test. Equal shares decide
    the large differences that remove-and-retrain usually meets with the fewest replicates, and they stay valid when a
    failed replicate leaves an analysis with fewer than planned: such an `n` belongs to the next analysis.

    >>> interim_alpha(5)
    0.01
    """
    check_share("alpha", alpha)
    if not analyses or any(k < 1 for k in analyses) or any(np.diff(analyses) <= 0):
        raise BadInput(f"Interim analyses must be positive and strictly increasing; got {tuple(analyses)}.")
    if not 1 <= n <= analyses[-1]:
        raise BadInput(
            f"{n} replicates are not among the planned interim analyses {tuple(analyses)}; the error budget covers "
            f"1 to {analyses[-1]} replicates. Plan a later analysis before the first one is made."
        )
    return alpha / len(analyses)


def check_share(name: str, value: float) -> None:
    """Refuse what is no share."""
    if not 0 < value < 1:
        raise BadInput(f"{name} must lie between 0 and 1; got {value}.")
