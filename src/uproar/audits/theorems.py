"""Exact mutual information of small joint distributions, by enumeration: Theorems 3.1 and 3.2 of Song et al.

A distribution is a list of outcomes with their probabilities; an outcome gives every variable its value.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

Outcome = Mapping[str, Hashable]
Distribution = Sequence[tuple[Fraction, Outcome]]


def uniform(outcomes: Iterable[Outcome]) -> Distribution:
    """All outcomes, equally likely."""
    listed = list(outcomes)
    return [(Fraction(1, len(listed)), outcome) for outcome in listed]


def given(joint: Distribution, **values: Hashable) -> Distribution:
    """The distribution given the values of some variables."""
    left = [(p, o) for p, o in joint if all(o[name] == value for name, value in values.items())]
    total = sum(p for p, _ in left)
    return [(p / total, outcome) for p, outcome in left]


def entropy(joint: Distribution, *names: str) -> float:
    """Bits of the variables together.

    >>> entropy(uniform([{"coin": 0}, {"coin": 1}]), "coin")
    1.0
    """
    shares: dict[tuple[Any, ...], Fraction] = defaultdict(Fraction)
    for p, outcome in joint:
        shares[tuple(outcome[name] for name in names)] += p
    return -sum(float(p) * math.log2(p) for p in shares.values() if p)


def information(joint: Distribution, a: str, b: str, beside: str | None = None) -> float:
    """Bits that a and b share, I(a; b), or given a third variable, I(a; b | beside)."""
    known = () if beside is None else (beside,)
    return entropy(joint, a, *known) + entropy(joint, b, *known) - entropy(joint, a, b, *known) - entropy(joint, *known)


def erased(x: tuple[int, int], attribution: tuple[float, float]) -> tuple[int, int]:
    """Two pixels without the more important one: ROAR at t = 1/2."""
    first, second = x
    return (0, second) if attribution[0] > attribution[1] else (first, 0)


def better_by_knowing_less() -> Distribution:
    """The distribution of Theorem 3.2: Y is the first of two random pixels, Z the one that the explainer marks.

    The attribution A points at pixel Z. Post-processing makes of every A the same Ã, which points at the first pixel.
    """
    outcomes = []
    for x1, x2, z in itertools.product((0, 1), (0, 1), (1, 2)):
        a = (2.0, 1.0) if z == 1 else (1.0, 2.0)
        processed = (a[0] + a[1], a[0] + a[1] - 0.5)
        x = (x1, x2)
        outcomes.append(
            {"X": x, "Y": x1, "Z": z, "A": a, "Ã": processed, "X'": erased(x, a), "X̃'": erased(x, processed)}
        )
    return uniform(outcomes)


def theorem_two() -> dict[str, float]:
    """The quantities of Theorem 3.2, in bits."""
    joint = better_by_knowing_less()
    return {
        "I(Z; A | X)": information(joint, "Z", "A", "X"),
        "I(Z; Ã | X)": information(joint, "Z", "Ã", "X"),
        "I(X'; Y | Z = 2)": information(given(joint, Z=2), "X'", "Y"),
        "I(X'; Y)": information(joint, "X'", "Y"),
        "I(X̃'; Y)": information(joint, "X̃'", "Y"),
    }


@functools.cache
def theorem_one() -> Mapping[str, float]:
    """Theorem 3.1 for every way to post-process four attributions: the largest gain, in bits.

    The explainer's attribution depends on Z and on the image. No processing of the attribution alone may raise what it
    tells of Z given the image, and the changed image may not tell more than the attribution it was made from.
    """
    values = ((2.0, 1.0), (1.0, 2.0), (3.0, 0.0), (0.0, 3.0))
    gains = {"I(Z; Ã | X) − I(Z; A | X)": -math.inf, "I(Z; X̃' | X) − I(Z; Ã | X)": -math.inf}
    for k in itertools.product(range(4), repeat=4):
        outcomes = []
        for x1, x2, z in itertools.product((0, 1), (0, 1), range(3)):
            a = (z + x1) % 4
            processed = values[k[a]]
            changed = erased((x1, x2), processed)
            outcomes.append({"X": (x1, x2), "Z": z, "A": a, "Ã": processed, "X̃'": changed})
        joint = uniform(outcomes)
        bits = {name: information(joint, "Z", name, "X") for name in ("A", "Ã", "X̃'")}
        for title, gain in zip(gains, (bits["Ã"] - bits["A"], bits["X̃'"] - bits["Ã"]), strict=True):
            gains[title] = max(gains[title], gain)
    return gains
