"""Numbers that summarise a curve over fractions."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uproar.errors import BadInput


def area(fractions: ArrayLike, values: ArrayLike) -> NDArray[np.float64]:
    """Mean height of a curve: its trapezoid area divided by the range of its fractions.

    The fractions run along the last axis of `values`; the other axes hold separate curves. A flat
    curve has its height as area, whatever the fractions; a single fraction has its value. A NaN
    anywhere in a curve makes that curve's area NaN.

    >>> float(area([0.1, 0.5, 0.7], [0.8, 0.8, 0.8]))
    0.8
    >>> area([0.0, 0.5, 1.0], [[1.0, 0.5, 0.0], [1.0, 1.0, 0.0]]).tolist()
    [0.5, 0.75]
    """
    t, y = np.asarray(fractions, dtype=float), np.asarray(values, dtype=float)
    _check(t, y)
    if t.size == 1:
        return np.array(y[..., 0])
    return np.asarray(np.trapezoid(y, t, axis=-1) / (t[-1] - t[0]))


def _check(fractions: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    if fractions.ndim != 1 or fractions.size == 0:
        raise BadInput(f"An area needs a list of fractions, at least one; got shape {fractions.shape}.")
    if values.ndim == 0 or values.shape[-1] != fractions.size:
        raise BadInput(
            f"The last axis of the values must have one entry for each of the {fractions.size} "
            f"fractions; the values have shape {values.shape}."
        )
    if not np.isfinite(fractions).all() or not (np.diff(fractions) > 0).all():
        raise BadInput(f"Fractions must be finite and strictly increasing; got {fractions.tolist()}.")
