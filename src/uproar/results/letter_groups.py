"""Compact letter display: letters such that two methods share one if and only if their difference is not significant.

Insert and absorb (Piepho 2004): all methods begin with one letter; every significant pair splits the letters that
both have, and a letter whose methods all have another letter in common is absorbed. A letter is left out where the
others show all that it shows.

Piepho, H.-P. (2004). An algorithm for a letter-based representation of all-pairwise comparisons. Journal of
Computational and Graphical Statistics 13(2), 456-466.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

LETTERS = string.ascii_lowercase + string.ascii_uppercase

Members = frozenset[int]


def letter_groups(names: Sequence[str], decided: Callable[[str, str], bool]) -> tuple[tuple[str, ...], ...]:
    """The methods of each letter, in the order of `names`; the letter of the best method first.

    `names` are best first, and `decided` says of two whether they are significantly different. Every group is a
    largest possible one: no further method could join it.

    >>> apart = {("ig", "grad")}
    >>> letter_groups(["ig", "lrp", "grad"], lambda one, other: (one, other) in apart)
    (('ig', 'lrp'), ('lrp', 'grad'))
    """
    pairs = [(i, j) for i, j in combinations(range(len(names)), 2) if decided(names[i], names[j])]
    groups = [frozenset(range(len(names)))] if names else []
    for i, j in pairs:
        split = [part for one in groups for part in (_split(one, i, j) if {i, j} <= one else (one,))]
        groups = _absorbed(split)
    return tuple(tuple(names[i] for i in one) for one in sorted(map(sorted, _needed(groups))))


def letters_of(groups: Sequence[Sequence[str]]) -> Mapping[str, str]:
    """The letters of every method, in the order of the alphabet.

    >>> letters_of([["ig", "lrp"], ["lrp", "grad"]])
    {'ig': 'a', 'lrp': 'ab', 'grad': 'b'}
    """
    letters: dict[str, str] = {}
    for number, group in enumerate(groups):
        for name in group:
            letters[name] = letters.get(name, "") + _letter(number)
    return letters


def _letter(number: int) -> str:
    """a … z, A … Z, then with numbers: a1, b1, …"""
    rounds, place = divmod(number, len(LETTERS))
    return LETTERS[place] + (str(rounds) if rounds else "")


def _split(group: Members, i: int, j: int) -> tuple[Members, Members]:
    return group - {i}, group - {j}


def _absorbed(groups: Iterable[Members]) -> list[Members]:
    """The groups that lie in no other."""
    several = list(dict.fromkeys(groups))
    return [one for one in several if not any(one < other for other in several)]


def _needed(groups: Sequence[Members]) -> list[Members]:
    """The groups without those all of whose pairs, or whose only method, are in others too; the last are left first."""
    kept = sorted(groups, key=sorted)
    for one in reversed(list(kept)):
        others = [other for other in kept if other != one]
        links = combinations(sorted(one), 2) if len(one) > 1 else [tuple(one)]
        if all(any(set(link) <= other for other in others) for link in links):
            kept = others
    return kept
