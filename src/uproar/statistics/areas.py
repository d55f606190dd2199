"""Areas under curves over fractions: of one curve, and of a table of replicated curves."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

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
    _check(t, y)
    if t.size == 1:
        return np.array(y[..., 0])
    return np.asarray(np.trapezoid(y, t, axis=-1) / (t[-1] - t[0]))


def _check(fractions: Numbers, values: Numbers) -> None:
    if fractions.ndim != 1 or fractions.size == 0:
        raise BadInput(f"An area needs a list of fractions, at least one; got shape {fractions.shape}.")
    if values.ndim == 0 or values.shape[-1] != fractions.size:
        raise BadInput(
            f"The last axis of the values must have one entry for each of the {fractions.size} "
            f"fractions; the values have shape {values.shape}."
        )
    if not np.isfinite(fractions).all() or not (np.diff(fractions) > 0).all():
        raise BadInput(f"Fractions must be finite and strictly increasing; got {fractions.tolist()}.")


def tidy_curves(table: pd.DataFrame) -> pd.DataFrame:
    """The four columns with clean types; every flaw that would change a verdict is refused."""
    wanted = ["estimator", "replicate", "fraction", "value"]
    absent = [name for name in wanted if name not in table.columns]
    if absent or table.empty:
        raise BadInput(
            f"A table of curves needs rows and the columns {', '.join(wanted)}; it has "
            f"{len(table)} rows and the columns {', '.join(map(str, table.columns)) or 'none'}."
        )
    if "protocol" in table.columns and table["protocol"].nunique(dropna=False) > 1:
        protocols = ", ".join(map(str, table["protocol"].unique()))
        raise BadInput(f"A comparison takes one protocol at a time; the table has {protocols}.")
    keys = table[wanted[:3]]
    if keys.isna().to_numpy().any():
        raise BadInput("Every row needs an estimator, a replicate and a fraction; some are empty.")
    tidy = _typed(table[wanted])
    repeated = tidy.duplicated(wanted[:3])
    if repeated.any():
        e, s, t = tidy.loc[repeated, wanted[:3]].iloc[0]
        raise BadInput(
            f"Estimator '{e}', replicate {s}, fraction {t:g} occurs more than once; a table holds "
            "one task, model and protocol, each curve point once."
        )
    return tidy


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd  # slow to load, and a worker process needs only `area`

    try:
        replicate = table["replicate"].astype(int)
        if (replicate != table["replicate"]).any():
            raise ValueError("some replicates are not whole")
        tidy = pd.DataFrame(
            {
                "estimator": table["estimator"].astype(str).to_numpy(),
                "replicate": replicate.to_numpy(),
                "fraction": table["fraction"].astype(float).round(9).to_numpy(),  # 0.1 + 0.2 is 0.3
                "value": table["value"].astype(float).to_numpy(),
            }
        )
    except (TypeError, ValueError) as error:
        raise BadInput(f"Replicates must be whole numbers, fractions and values numbers: {error}.") from error
    if np.isinf(tidy[["fraction", "value"]].to_numpy()).any():
        raise BadInput("Fractions and values must be finite; some are infinite.")
    return tidy


def areas_of(tidy: pd.DataFrame) -> tuple[pd.DataFrame, dict[Hashable, Any]]:
    """Areas (estimator x replicate, NaN where a curve has a gap) over the common fractions."""
    points = tidy.pivot(index=["estimator", "replicate"], columns="fraction", values="value")
    present = points.notna().groupby(level="estimator").any()
    present = present[present.any(axis=1)]  # an estimator that failed throughout must not empty the study
    fractions = points.columns[present.all(axis=0).to_numpy()].to_numpy(dtype=float)
    if present.empty or not fractions.size:
        raise BadInput(
            "No fraction is common to all estimators, so their areas cannot be compared; "
            f"the table has the fractions {', '.join(f'{t:g}' for t in points.columns)}."
        )
    curves = area(fractions, points[fractions].to_numpy())
    areas = points.assign(area=curves)["area"].unstack("replicate")
    facts: dict[Hashable, Any] = {
        "fractions": fractions.tolist(),
        "replicates": int(areas.shape[1]),
        "nan_values": int(tidy["value"].isna().sum()),
    }
    return areas, facts
