"""Verdicts from looks at growing numbers of replicates: each estimator is judged at the first look that decides it.

Looks are planned at n = 3, 5, 8, 13, 20 replicates, and each spends an equal share of the error budget, so that all of
them together err no more often than one test would. An estimator that is decided leaves; the rest go on, and only they
are tested at the next look. That keeps the family-wise error: as long as nothing was decided wrongly, all estimators
that equal random are still among those tested, and Holm's method over these controls the look's share.
docs/statistics.md shows it by simulation.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from uproar.statistics.design import BASELINE, INTERIM_ANALYSES
from uproar.statistics.verdicts import compare


def sequential(
    table: pd.DataFrame,
    baseline: str = BASELINE,
    higher_is_better: bool = False,
    alpha: float = 0.05,
    looks: Sequence[int] = INTERIM_ANALYSES,
) -> pd.DataFrame:
    """The verdicts of `compare`, each as of the look that decided it (column `look`), best first.

    Replicates count in the order of their numbers. A look is taken when every estimator that is still open, and the
    baseline, have whole curves for as many replicates; who is open after the last look taken stays "cannot tell".
    Fewer replicates than the first look asks for are shown as they are, without a verdict.
    """
    replicates = sorted(table["replicate"].unique())
    names = [name for name in dict.fromkeys(table["estimator"]) if name != baseline]
    frames: list[pd.DataFrame] = []
    last: pd.DataFrame | None = None
    still = set(names)
    for n in looks:
        part = _first(table, [*still, baseline], replicates[:n])
        if not still or len(replicates) < n or not _whole(part, still | {baseline}, n):
            break
        found = compare(part, baseline, higher_is_better, alpha, looks).assign(look=n)
        decided = found["side"] != 0
        frames.append(found[decided])
        last = found[~decided]
        still -= set(found.loc[decided, "estimator"])
    if last is None:
        last = compare(table, baseline, higher_is_better, alpha / len(looks)).assign(look=0)
        last = last.assign(verdict=f"cannot tell before {looks[0]} whole replicates", side=0)
    frames.append(last[last["estimator"].isin(still)])
    kept = [frame for frame in frames if len(frame)]
    result = pd.concat(kept, ignore_index=True)
    return result.sort_values("advantage", ascending=False, ignore_index=True)


def undecided(verdicts: pd.DataFrame) -> list[str]:
    """The estimators that are still open."""
    return list(verdicts.loc[verdicts["side"] == 0, "estimator"])


def _first(table: pd.DataFrame, names: Sequence[str], replicates: Sequence[object]) -> pd.DataFrame:
    return table[table["estimator"].isin(names) & table["replicate"].isin(list(replicates))]


def _whole(table: pd.DataFrame, names: set[str], n: int) -> bool:
    """Whether everyone has every fraction in all n replicates."""
    fractions = table["fraction"].nunique()
    counts = table.dropna(subset="value").groupby("estimator").size()
    return all(counts.get(name, 0) >= n * fractions for name in names)
