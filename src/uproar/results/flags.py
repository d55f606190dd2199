"""Warnings about a method beside its score: its maps ignore the weights, or change with the slightest noise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from uproar.errors import UproarError
from uproar.expression import parse

if TYPE_CHECKING:
    from uproar.results.scores import Scores

Kind = Literal["fails sanity", "unstable"]


@dataclass(frozen=True)
class Flag:
    """One warning about a method. It does not forbid to recommend it: a network that sees one corner alone sees the
    same corner with fresh weights, so that correct maps hardly change."""

    method: str
    kind: Kind
    why: str
    """The number behind it."""


LIMITS: Mapping[str, tuple[Kind, float, str]] = {
    "randomisation": ("fails sanity", 0.5, "similarity {} to maps of the network with fresh weights"),
    "sensitivity_max": ("unstable", 1.0, "changes by {} times its size under invisible noise"),
}
"""By metric: the warning about a method whose median over images lies above a limit, the limit, and what it means."""


def flags_of_scores(scores: Scores) -> list[Flag]:
    """The warnings that metrics raise. The median counts: a few images can carry any mean."""
    flags = []
    for (metric, method), median in _medians(scores).items():
        kind, limit, words = LIMITS[metric]
        if median > limit:
            flags.append(Flag(method, kind, words.format(f"{median:.2f} (median over images)")))
    return flags


def check_sentences(scores: Scores) -> list[str]:
    """What the checks among some scores found, a sentence each: the range of medians, and the limit."""
    sentences, medians = [], _medians(scores)
    for metric, (kind, limit, words) in LIMITS.items():
        values = [median for (name, _), median in medians.items() if name == metric]
        if values:
            found = words.format(f"{min(values):.2f} to {max(values):.2f}").replace("-", "−")
            sentences.append(f"Check ({len(values)} methods, medians over images): {found}; {kind} above {limit:g}.")
    return sentences


def _medians(scores: Scores) -> dict[tuple[str, str], float]:
    """The median over images of every metric that warns, by metric and method."""
    rows = scores.table[scores.table["role"].eq("method") & scores.table["median"].notna()]
    named = [(_name(str(row.metric)), str(row.method), float(row.median)) for row in rows.itertuples()]
    return {(metric, method): median for metric, method, median in named if metric in LIMITS}


def _name(metric: str) -> str:
    try:
        return parse(metric).name
    except UproarError:
        return metric


def by_method(flags: Iterable[Flag]) -> dict[str, tuple[Flag, ...]]:
    """The warnings of each method, each kind once."""
    result: dict[str, dict[str, Flag]] = {}
    for flag in flags:
        result.setdefault(flag.method, {}).setdefault(flag.kind, flag)
    return {method: tuple(each.values()) for method, each in result.items()}
