"""Group-sequential verdicts: interim analyses at growing numbers of replicates; the first that decides counts.

Analyses are planned at n = 3, 5, 8, 13, 20 replicates, as far as the study has them, and each spends an equal share of
the error budget, so that all of them together err no more often than one test would. An estimator that is decided
leaves; the rest go on, and only they are tested at the next analysis. That keeps the family-wise error: as long as
nothing was decided wrongly, all estimators that equal the baseline are still among those tested, and Holm's method over
these controls the share of the analysis. An advantage that ends a design early is too large on average, since chance
helped to end it: `allow_for_stopping` makes up for that. docs/statistics.md shows both by simulation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike

from uproar.statistics.design import ALPHA, BASELINE, INTERIM_ANALYSES
from uproar.statistics.student_t import Numbers
from uproar.statistics.verdicts import compare


def sequential(
    table: pd.DataFrame,
    baseline: str = BASELINE,
    higher_is_better: bool = False,
    alpha: float = ALPHA,
    analyses: Sequence[int] = INTERIM_ANALYSES,
) -> pd.DataFrame:
    """The verdicts of `compare`, each as of the interim analysis that decided it (column `analysis`), best first.

    `adjusted` is the advantage with an allowance for having stopped early, the advantage itself for who went on to the
    last analysis.

    Replicates count in the order of their numbers. An analysis is made when every estimator that is still undecided,
    and the baseline, have whole curves for as many replicates; who is undecided after the last one stays "cannot tell".
    Fewer replicates than the first analysis asks for are shown as they are, without a verdict.
    """
    replicates = sorted(table["replicate"].unique())
    remaining = set(table["estimator"]) - {baseline}
    parts: list[pd.DataFrame] = []
    last: pd.DataFrame | None = None
    for n in analyses:
        part = table[table["estimator"].isin({*remaining, baseline}) & table["replicate"].isin(replicates[:n])]
        if not remaining or len(replicates) < n or not _complete(part, {*remaining, baseline}, n):
            break
        verdicts = compare(part, baseline, higher_is_better, alpha, analyses).assign(analysis=n)
        early = n < analyses[-1]
        verdicts["adjusted"] = _allowed_for(verdicts) if early else verdicts["advantage"]
        decided = verdicts["side"] != 0
        parts.append(verdicts[decided])
        last = verdicts[~decided]
        remaining -= set(verdicts.loc[decided, "estimator"])
    if last is None:
        last = compare(table, baseline, higher_is_better, alpha / len(analyses)).assign(analysis=0, side=0)
        last["adjusted"] = last["advantage"]
        last["verdict"] = f"cannot tell before {analyses[0]} whole replicates"
    parts.append(last[last["estimator"].isin(remaining)])
    result = pd.concat([part for part in parts if len(part)], ignore_index=True)
    return result.sort_values("advantage", ascending=False, ignore_index=True)


def allow_for_stopping(effect: ArrayLike, se: ArrayLike, critical: ArrayLike) -> Numbers:
    """The effect that makes the observed one, given that it was found, as likely too large as too small.

    An effect counts as found where it is larger than `critical` standard errors. The median of what is then observed
    lies above the truth; this is the truth whose median is what was observed, between 0 and that, by a normal
    distribution with the standard error.

    >>> allow_for_stopping([6.0, 3.1, -6.0], 1.0, 3.0).round(2).tolist()
    [6.0, 0.12, -6.0]
    """
    z, c = np.broadcast_arrays(np.abs(effect) / np.asarray(se, dtype=float), np.asarray(critical, dtype=float))
    low, high = np.zeros_like(z), z.copy()
    for _ in range(60):
        middle = (low + high) / 2
        power = scipy.stats.norm.sf(c - middle) + scipy.stats.norm.cdf(-c - middle)
        above = scipy.stats.norm.sf(z - middle) > power / 2
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(np.sign(effect) * (low + high) / 2 * se)


def _allowed_for(verdicts: pd.DataFrame) -> pd.Series:
    """The advantages of one analysis, those that it decided with the allowance for stopping."""
    tests = verdicts["p"].notna().sum()
    step = verdicts["p"].rank(method="first") - 1  # Holm's
    level = verdicts.attrs["alpha"] / (tests - step)
    critical = scipy.stats.t.isf(level / 2, verdicts["df"])
    adjusted = allow_for_stopping(verdicts["advantage"], verdicts["se"], critical)
    return verdicts["advantage"].where(verdicts["side"] == 0, adjusted)


def undecided_estimators(verdicts: pd.DataFrame) -> list[str]:
    """The estimators that cannot be told from the baseline yet."""
    return list(verdicts.loc[verdicts["side"] == 0, "estimator"])


def _complete(table: pd.DataFrame, names: set[str], n: int) -> bool:
    """Whether everyone has every fraction in all n replicates."""
    fractions = table["fraction"].nunique()
    counts = table.dropna(subset="value").groupby("estimator").size()
    return all(counts.get(name, 0) >= n * fractions for name in names)
