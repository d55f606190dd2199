"""Compact letter display: letters such that two methods share one if and only if their difference is not significant.

Insert and absorb (Piepho 2004): all methods begin with one letter; every significant pair splits the letters that
both have, and a letter whose methods all have another letter in common is absorbed. A letter is left out where the
others show all that it shows.

Piepho, H.-P. (2004). An algorithm for a letter-based representation of all-pairwise comparisons. Journal of
Computational and Graphical Statistics 13(2), 456-466.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

LETTERS = string.ascii_lowercase + string.ascii_uppercase


def letter_groups(names: Sequence[str], decided: Callable[[str, str], bool]) -> tuple[tuple[str, ...], ...]:
    """The methods of each letter, in the order of `names`; the letter of the best method first.

    `names` are best first, and `decided` says of two whether they are significantly different. Every group is a
    largest possible one: no further method could join it.

    >>> apart = {("ig", "grad")}
    >>> letter_groups(["ig", "lrp", "grad"], lambda one, other: (one, other) in apart)
    (('ig', 'lrp'), ('lrp', 'grad'))
    """
    groups = [frozenset(range(len(names)))] if names else []
    for i, j in combinations(range(len(names)), 2):
        if decided(names[i], names[j]):
            split = [part for one in groups for part in ((one - {i}, one - {j}) if {i, j} <= one else (one,))]
            groups = [one for one in dict.fromkeys(split) if not any(one < other for other in split)]
    kept = sorted(groups, key=sorted)
    for one in reversed(list(kept)):  # a letter whose pairs, or whose only method, others have too is not needed
        others = [other for other in kept if other != one]
        links: list[tuple[int, ...]] = [*combinations(sorted(one), 2)] or [tuple(one)]
        if all(any(set(link) <= other for other in others) for link in links):
            kept = others
    return tuple(tuple(names[i] for i in one) for one in sorted(map(sorted, kept)))


def letters_of(groups: Sequence[Sequence[str]]) -> Mapping[str, str]:
    """The letters of every method, in the order of the alphabet: a … z, A … Z, then a1, b1, …

    >>> letters_of([["ig", "lrp"], ["lrp", "grad"]])
    {'ig': 'a', 'lrp': 'ab', 'grad': 'b'}
    """
    letters: dict[str, str] = {}
    for number, group in enumerate(groups):
        rounds, place = divmod(number, len(LETTERS))
        for name in group:
            letters[name] = letters.get(name, "") + LETTERS[place] + (str(rounds) if rounds else "")
    return letters
