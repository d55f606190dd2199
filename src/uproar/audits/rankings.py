"""What a study says of its estimators, as audits compare it: curves, areas, verdicts and contrasts of areas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import scipy

from uproar.audits.base import Part
from uproar.errors import NotApplicable
from uproar.protocols import protocol_named
from uproar.statistics.areas import area
from uproar.statistics.design import ALPHA
from uproar.statistics.twoway import contrasts, holm

LEVEL = 0.95


def direction(protocol: str) -> int:
    """1 where a higher accuracy is better, else -1."""
    return 1 if protocol_named(protocol).higher_is_better else -1


def curves(part: Part, protocol: str, names: Iterable[str]) -> dict[str, pd.DataFrame]:
    """Accuracy by seed and fraction of each estimator that has a finished cell of its own."""
    found = {name: part.accuracy(protocol, name) for name in names}
    plain = protocol_named(protocol).plain
    return {name: frame for name, frame in found.items() if set(frame.columns) - {plain}}


def areas(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Mean height of each curve over the fractions that all have: estimators by seeds, NaN where missing.

    >>> frame = pd.DataFrame({0.0: [1.0, 0.9], 1.0: [0.5, 0.1]})
    >>> areas({"grad": frame}).round(6).to_numpy().tolist()
    [[0.75, 0.5]]
    """
    if not found:
        raise NotApplicable("no estimator has finished cells")
    shared = sorted(set.intersection(*(set(frame.columns) for frame in found.values())))
    if not shared:
        raise NotApplicable("the estimators share no finished fraction")
    rows = {name: pd.Series(area(shared, frame[shared].to_numpy()), index=frame.index) for name, frame in found.items()}
    return pd.DataFrame(rows).T.astype(float)


def metric_areas(part: Part, metric: str, names: Iterable[str]) -> pd.DataFrame:
    """A metric's value by estimator and seed."""
    rows = part.scores
    rows = rows[rows["metric"] == metric]
    table = rows.pivot(index="estimator", columns="seed", values="value").astype(float)
    return table.reindex([name for name in names if name in table.index])


def check_seeds(table: pd.DataFrame) -> None:
    """Refuse what gives no interval."""
    if table.shape[1] < 2:
        raise NotApplicable("1 replicate cannot give an interval; run at least 2 seeds")


def verdicts(part: Part, protocol: str) -> pd.DataFrame:
    """The study's own verdicts under a protocol, by estimator; empty where it has none."""
    table = part.view.verdicts.get(protocol)
    if table is None:
        return pd.DataFrame(columns=["verdict", "advantage", "low", "high"])
    return table.set_index("estimator")


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


def in_points(gain: float, low: float, high: float) -> str:
    """A difference in hundredths with half the width of its interval, e.g. `-3.1 ± 0.4`.

    >>> in_points(-0.031, -0.035, -0.027)
    '-3.1 ± 0.4'
    """
    return f"{100 * gain:.1f} ± {50 * (high - low):.1f}"


def several(count: int, noun: str) -> str:
    """A number with its noun.

    >>> several(1, "replicate"), several(3, "replicate")
    ('1 replicate', '3 replicates')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"
