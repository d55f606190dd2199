"""Verdicts on pairs of methods under one metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from uproar.metrics.twoway import holm


def with_verdicts(
    pairs: Iterable[Mapping[str, Any]], unranked: Mapping[str, str],
    unclear: Callable[[Mapping[str, Any]], str],
) -> list[dict[str, Any]]:  # fmt: skip
    """The pairs, each with `better`, `worse` and `p`, with `p_holm` and `verdict` beside them.

    `unranked` says why a method is not ranked, `unclear` what is said of a pair without a difference that is shown.
    Holm's correction goes over the pairs of ranked methods.
    """
    rows = [dict(row) for row in pairs]
    whys = [unranked.get(row["better"]) or unranked.get(row["worse"]) for row in rows]
    tested = [np.nan if why else row["p"] for row, why in zip(rows, whys, strict=True)]
    for row, why, p in zip(rows, whys, holm(np.array(tested, dtype=float)), strict=True):
        row["p_holm"] = float(p)
        row["verdict"] = why or (f"{row['better']} better" if p < 0.05 else unclear(row))
    return rows
