"""Group-sequential verdicts: interim analyses at growing numbers of replicates; the first that decides counts.

Analyses are planned at n = 3, 5, 8, 13, 20 replicates, and each spends an equal share of the error budget, so that all
of them together err no more often than one test would. An estimator that is decided leaves; the rest go on, and only
they are tested at the next analysis. That keeps the family-wise error: as long as nothing was decided wrongly, all
estimators that equal the baseline are still among those tested, and Holm's method over these controls the share of the
analysis. docs/statistics.md shows it by simulation.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from uproar.statistics.design import ALPHA, BASELINE, INTERIM_ANALYSES
from uproar.statistics.verdicts import compare


def sequential(
    table: pd.DataFrame,
    baseline: str = BASELINE,
    higher_is_better: bool = False,
    alpha: float = ALPHA,
    analyses: Sequence[int] = INTERIM_ANALYSES,
) -> pd.DataFrame:
    """The verdicts of `compare`, each as of the interim analysis that decided it (column `look`), best first.

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
        if not remaining or len(replicates) < n or not _whole(part, {*remaining, baseline}, n):
            break
        verdicts = compare(part, baseline, higher_is_better, alpha, analyses).assign(look=n)
        decided = verdicts["side"] != 0
        parts.append(verdicts[decided])
        last = verdicts[~decided]
        remaining -= set(verdicts.loc[decided, "estimator"])
    if last is None:
        last = compare(table, baseline, higher_is_better, alpha / len(analyses)).assign(look=0, side=0)
        last["verdict"] = f"cannot tell before {analyses[0]} whole replicates"
    parts.append(last[last["estimator"].isin(remaining)])
    result = pd.concat([part for part in parts if len(part)], ignore_index=True)
    return result.sort_values("advantage", ascending=False, ignore_index=True)


def undecided(verdicts: pd.DataFrame) -> list[str]:
    """The estimators that cannot be told from the baseline yet."""
    return list(verdicts.loc[verdicts["side"] == 0, "estimator"])


def _whole(table: pd.DataFrame, names: set[str], n: int) -> bool:
    """Whether everyone has every fraction in all n replicates."""
    fractions = table["fraction"].nunique()
    counts = table.dropna(subset="value").groupby("estimator").size()
    return all(counts.get(name, 0) >= n * fractions for name in names)
