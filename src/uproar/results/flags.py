"""What speaks against a method beside its score: its mask encodes the class, it ignores the network, it is unstable."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from uproar.errors import UproarError
from uproar.expression import parse
from uproar.results.controls import network_free
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.results.evaluator import EvaluatorScores
    from uproar.results.scores import Scores

Kind = Literal["encodes", "fails sanity", "unstable"]

DISQUALIFYING: tuple[Kind, ...] = ("fails sanity",)
"""A method with one of these is not recommended, whatever its score."""
DISQUALIFYING_RETRAINED: tuple[Kind, ...] = ("fails sanity", "encodes")
"""The same where retrained networks decide, which can read what a mask tells of the class; other judges cannot."""


CHECKS: Mapping[Kind, tuple[str, str]] = {
    "fails sanity": ("sanity", "`--metrics randomisation`"),
    "unstable": ("stability", "`--metrics sensitivity_max`"),
    "encodes": ("encoding", "`uproar run --protocols evaluator,evaluator:encoding`"),
}
"""By flag: the check that raises it, and the option that asks for the check."""


@dataclass(frozen=True)
class Flag:
    """One thing against a method."""

    method: str
    kind: Kind
    why: str
    """The number behind it."""


LIMITS: Mapping[str, tuple[Kind, float, str]] = {
    "randomisation": ("fails sanity", 0.5, "similarity {} to maps of a network with fresh weights"),
    "sensitivity_max": ("unstable", 1.0, "changes by {} times its own size under noise that nobody sees"),
}
"""By metric: the flag of a method whose whole interval lies above a limit, the limit, and what it means."""

ENOUGH_IMAGES = 59
"""Images that raise a flag, whatever the interval, where all of them lie above the limit: fewer than 5 % of all images
then lie below it, at 95 % confidence (.95⁵⁹ < .05). Intervals of values at the end of a metric's range are long, since
other networks may behave differently; a flag is about the maps of these networks."""


def flags_of_scores(scores: Scores) -> list[Flag]:
    """The flags that metrics raise: maps that stay the same for a fresh network, or change with the slightest noise."""
    flags = []
    for row in scores.table.itertuples():
        kind, limit, words = LIMITS.get(_name(str(row.metric)), ("unstable", float("inf"), ""))
        least, images = float(getattr(row, "least", math.nan)), int(row.n) - int(row.nan)
        every = least > limit and images >= ENOUGH_IMAGES
        if (row.low > limit or every) and not network_free(str(row.method)):
            seen = f"{row.low:.2f} to {row.high:.2f}" if row.low > limit else f"at least {least:.2f} in every image"
            flags.append(Flag(str(row.method), kind, words.format(f"{row.value:.2f} ({seen})")))
    return flags


def check_sentences(scores: Scores) -> list[str]:
    """What the checks among some scores found, a sentence each: the range of values, and the limit."""
    found: dict[str, list[tuple[float, int]]] = {}
    for row in scores.table.itertuples():
        if math.isfinite(row.value) and not network_free(str(row.method)):
            found.setdefault(_name(str(row.metric)), []).append((float(row.value), int(row.n)))
    return [_check_sentence(metric, found[metric], scores.replicates) for metric in LIMITS if metric in found]


def _check_sentence(metric: str, found: list[tuple[float, int]], replicates: int) -> str:
    kind, limit, words = LIMITS[metric]
    values = [value for value, _ in found]
    measured = words.format(f"{min(values):.2f} to {max(values):.2f}").replace("-", "−")
    several = f" in each of {replicates} replicates" if replicates > 1 else ""
    return (
        f"Check of {CHECKS[kind][0]} ({counted(len(found), 'method')}, {max(n for _, n in found)} images{several}): "
        f"{measured}; {kind} where it is decidedly above {limit:g}."
    )


def flags_of_encoding(evaluator: EvaluatorScores | None) -> list[Flag]:
    """Methods whose masks tell more of the class than the pixels they show, by the evaluator's measure."""
    if evaluator is None or evaluator.encoding.empty:
        return []
    flags = []
    for row in evaluator.encoding.itertuples():
        if row.encodes and row.kind == "method":
            told = f"its masks tell {row.encoding:.2f} bits (at least {row.low:.2f}) more"
            flags.append(Flag(str(row.estimator), "encodes", told))
    return flags


def checked_by_scores(scores: Scores) -> dict[Kind, frozenset[str]]:
    """The methods that the metrics of `LIMITS` have a value of, by the flag that they would have raised."""
    known = scores.table[scores.table["value"].notna()]
    by_metric = known["metric"].map(lambda metric: _name(str(metric)))
    return {
        kind: frozenset(known.loc[by_metric == metric, "method"].map(str)) for metric, (kind, _, _) in LIMITS.items()
    }


def checked_by_encoding(evaluator: EvaluatorScores | None) -> dict[Kind, frozenset[str]]:
    """The methods whose encoding was measured."""
    if evaluator is None or evaluator.encoding.empty:
        return {}
    return {"encodes": frozenset(evaluator.encoding["estimator"].map(str))}


def not_checked_words(kinds: Sequence[Kind]) -> str:
    """The checks that were not asked for, in words: all three, or which.

    >>> not_checked_words(["unstable"]), not_checked_words(list(CHECKS)), not_checked_words([])
    ('not checked: stability', 'not checked', '')
    """
    if len(kinds) == len(CHECKS):
        return "not checked"
    return f"not checked: {', '.join(CHECKS[kind][0] for kind in kinds)}" if kinds else ""


def _name(metric: str) -> str:
    try:
        return parse(metric).name
    except UproarError:
        return metric


def by_method(flags: Iterable[Flag]) -> dict[str, tuple[Flag, ...]]:
    """The flags of each method, each kind once."""
    result: dict[str, dict[str, Flag]] = {}
    for flag in flags:
        result.setdefault(flag.method, {}).setdefault(flag.kind, flag)
    return {method: tuple(each.values()) for method, each in result.items()}
