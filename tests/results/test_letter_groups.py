"""Letters against brute force on random graphs: who shares one, and that none is too many or too small."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from uproar.results.answer import letter_groups, letters_of


def maximal_sets(n: int, edges: set[tuple[int, int]]) -> list[frozenset[int]]:
    """All largest sets of numbers without an edge, by trying every set."""
    free = []
    for size in range(1, n + 1):
        for some in combinations(range(n), size):
            if not any(pair in edges for pair in combinations(some, 2)):
                free.append(frozenset(some))
    return [one for one in free if not any(one < other for other in free)]


@pytest.mark.parametrize("seed", range(120))
def test_methods_share_a_letter_if_and_only_if_no_pair_is_decided(seed):
    draws = np.random.default_rng(seed)
    n = int(draws.integers(1, 9))
    share = draws.uniform(0, 1)
    edges = {pair for pair in combinations(range(n), 2) if draws.uniform() < share}
    names = [f"m{i}" for i in range(n)]
    groups = letter_groups(names, lambda one, other: (int(one[1:]), int(other[1:])) in edges)
    sets = [frozenset(int(name[1:]) for name in group) for group in groups]
    for i, j in combinations(range(n), 2):
        assert any({i, j} <= one for one in sets) == ((i, j) not in edges)
    assert set(sets) <= set(maximal_sets(n, edges)), "no method could join a group"
    assert set().union(*sets) == set(range(n)), "every method has a letter"
    for one in sets:
        others = [other for other in sets if other != one]
        links = list(combinations(sorted(one), 2)) or [(next(iter(one)),)]
        assert not all(any(set(link) <= other for other in others) for link in links), "a letter that shows nothing new"
    assert sets == sorted(sets, key=sorted), "the letter of the best method first"


def test_letters_follow_the_alphabet_and_go_on_behind_it():
    letters = letters_of([[f"m{i}"] for i in range(54)])
    assert [letters[f"m{i}"] for i in (0, 25, 26, 51, 52, 53)] == ["a", "z", "A", "Z", "a1", "b1"]
    assert letter_groups([], lambda one, other: True) == ()
