"""The baseline: several random rankings per replicate that count as one estimator, whose numbers are their means.

A study ranks pixels at random several times in every replicate (`random`, `random(draw=1)`, ...). Its tables hold every
one of them; comparisons, pages, audits and claims see `random` alone, which these functions make of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from uproar.statistics.design import BASELINE

PLACES = ("task", "model", "protocol", "fraction", "metric", "seed", "image")
"""The columns that say which number of an estimator a row holds."""
FINISHED = "done"


def merge_baseline(table: pd.DataFrame, further: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """A table in which the random rankings of a replicate are one row, `random`, with the mean of their `values`.

    `further` names the rankings beside `random`. Rows that differ in anything but the estimator, the values and what
    describes a single row are rows of their own; rankings that are not finished do not count, and where none is, the
    row is that of `random` itself.

    >>> rows = [("random", 0, 0.8), ("random(draw=1)", 0, 0.6), ("grad", 0, 0.5)]
    >>> table = pd.DataFrame(rows, columns=["estimator", "seed", "value"])
    >>> merge_baseline(table, ["random(draw=1)"], ["value"]).round(3).to_numpy().tolist()
    [['random', 0, 0.7], ['grad', 0, 0.5]]
    """
    extra = table["estimator"].isin(list(further))
    if not extra.any():
        return table
    places = [name for name in PLACES if name in table]
    random = extra | (table["estimator"] == BASELINE)
    rows = table[random]
    finished = rows[rows["status"] == FINISHED] if "status" in table else rows
    means = finished.groupby(places, sort=False, observed=True)[list(values)].transform("mean")
    first = pd.concat([finished, rows]).drop_duplicates(places)
    baseline = first.assign(estimator=BASELINE, **{name: means[name].reindex(first.index) for name in values})
    merged = pd.concat([table[~random], baseline]).sort_index()
    return merged.astype({"estimator": table["estimator"].dtype})


def rankings_in(table: pd.DataFrame, further: Sequence[str]) -> int:
    """How many random rankings are finished in the replicate of a table that has the fewest."""
    names = [BASELINE, *further]
    done = table[table["estimator"].isin(names) & (table["status"] == FINISHED)]
    return int(done.groupby("seed")["estimator"].nunique().min()) if len(done) else 0
