"""What speaks against a method beside its score: its mask encodes the class, it ignores the network, it is unstable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from uproar.errors import UproarError
from uproar.expression import parse
from uproar.results.controls import network_free

if TYPE_CHECKING:
    from uproar.results.evaluator import EvaluatorScores
    from uproar.results.scores import Scores

Kind = Literal["encodes", "fails sanity", "unstable"]

DISQUALIFYING: tuple[Kind, ...] = ("fails sanity",)
"""A method with one of these is not recommended, whatever its score."""
DISQUALIFYING_RETRAINED: tuple[Kind, ...] = ("fails sanity", "encodes")
"""The same where retrained networks decide, which can read what a mask tells of the class; other judges cannot."""


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


def flags_of_scores(scores: Scores) -> list[Flag]:
    """The flags that metrics raise: maps that stay the same for a fresh network, or change with the slightest noise."""
    flags = []
    for row in scores.table.itertuples():
        kind, limit, words = LIMITS.get(_name(str(row.metric)), ("unstable", float("inf"), ""))
        if row.low > limit and not network_free(str(row.method)):
            value = f"{row.value:.2f} ({row.low:.2f} to {row.high:.2f})"
            flags.append(Flag(str(row.method), kind, words.format(value)))
    return flags


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
