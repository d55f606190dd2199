"""Areas under curves over fractions: of one curve, and of a table of replicated curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from uproar.errors import BadInput
from uproar.statistics.intervals import Numbers

if TYPE_CHECKING:
    import pandas as pd


def area(fractions: ArrayLike, values: ArrayLike) -> Numbers:
    """Mean height of a curve: its trapezoid area divided by the range of its fractions.

    The fractions run along the last axis of `values`; the other axes hold separate curves. A flat curve has its height
    as area, whatever the fractions; a single fraction has its value. A NaN anywhere in a curve makes its area NaN.

    >>> float(area([0.1, 0.5, 0.7], [0.8, 0.8, 0.8]))
    0.8
    >>> area([0.0, 0.5, 1.0], [[1.0, 0.5, 0.0], [1.0, 1.0, 0.0]]).tolist()
    [0.5, 0.75]
    """
    t, y = np.asarray(fractions, dtype=float), np.asarray(values, dtype=float)
    if t.ndim != 1 or not t.size or not np.isfinite(t).all() or not (np.diff(t) > 0).all():
        raise BadInput(
            f"An area needs fractions that are finite and strictly increasing, at least one; got {t.tolist()}."
        )
    if y.ndim == 0 or y.shape[-1] != t.size:
        raise BadInput(f"A curve needs a value for each of the {t.size} fractions; the values have shape {y.shape}.")
    if t.size == 1:
        return np.array(y[..., 0])
    return np.asarray(np.trapezoid(y, t, axis=-1) / (t[-1] - t[0]))


def areas_of(table: pd.DataFrame) -> tuple[pd.DataFrame, list[float]]:
    """Areas (estimator x replicate, NaN where a curve has a gap), and the common fractions that they are over.

    `table` has the columns `estimator`, `replicate`, `fraction` and `value`, each point of a curve once.
    """
    curves = table.assign(fraction=table["fraction"].astype(float).round(9))  # 0.1 + 0.2 is 0.3
    points = curves.pivot(index=["estimator", "replicate"], columns="fraction", values="value").astype(float)
    present = points.notna().groupby(level="estimator").any()
    present = present[present.any(axis=1)]  # an estimator that failed throughout must not empty the study
    fractions = points.columns[present.all(axis=0).to_numpy()].to_numpy(dtype=float)
    if present.empty or not fractions.size:
        raise BadInput(
            "No fraction is common to all estimators, so their areas cannot be compared; "
            f"the table has the fractions {', '.join(f'{t:g}' for t in points.columns)}."
        )
    areas = points.assign(area=area(fractions, points[fractions].to_numpy()))["area"].unstack("replicate")
    return areas, fractions.tolist()
