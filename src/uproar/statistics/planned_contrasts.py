"""Planned contrasts: chosen pairs of estimators compared by their areas, with Holm's correction over the pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy

from uproar.statistics.design import ALPHA, LEVEL
from uproar.statistics.twoway import contrasts, holm


def gains(table: pd.DataFrame, pairs: Sequence[tuple[str, str]], sign: int) -> pd.DataFrame:
    """How much better the first of each pair is than the second, one row per pair.

    `table` holds areas, estimators by seeds; `sign` is 1 where larger is better. The residual variance is pooled over
    all rows of the table, as in the study's own verdicts, and p is adjusted by Holm over the pairs. `better` and
    `worse` are decided at 5 %; a pair that is neither cannot be told.

    >>> table = pd.DataFrame([[.9, .8, .85], [.7, .61, .64]], index=["random", "grad"])
    >>> gains(table, [("grad", "random")], -1)[["gain", "better"]].round(3).to_numpy().tolist()
    [[0.2, True]]
    """
    values, names = table.to_numpy(dtype=float), list(table.index)
    fits = {second: contrasts(values, names.index(second)) for _, second in pairs}
    rows = []
    for first, second in pairs:
        fit, row = fits[second], names.index(first)
        gain = sign * float(fit.difference[row])
        freedom = fit.df if fit.df > 0 else np.nan
        half = float(scipy.stats.t.isf((1 - LEVEL) / 2, freedom) * fit.se[row])
        rows.append((first, second, int(fit.n[row]), gain, gain - half, gain + half, fit.p[row]))
    columns = ["first", "second", "n", "gain", "low", "high", "p"]
    result = pd.DataFrame(rows, columns=columns)
    result["p_holm"] = holm(result["p"].to_numpy())
    decided = result["p_holm"] <= ALPHA
    return result.assign(better=decided & (result["gain"] > 0), worse=decided & (result["gain"] < 0))
