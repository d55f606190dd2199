"""Measures of Song et al. that no other paper needs.

Lines through estimators over the total variation of their maps, and Theorems 3.1 and 3.2, which are checked by
enumerating small joint distributions.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import pandas as pd

from uproar.audits.blur import SQUARES
from uproar.estimators import read_chain
from uproar.papers.evidence import ClaimEvidence, without_options
from uproar.papers.measures import ROAR, Parts, measure, rates_of
from uproar.results.claim_outcome import Measure, Missing, Range
from uproar.statistics.intervals import Interval

# Song et al.: lines over total variation

Of = Literal["maps", "masks"]
VARIATION, MASKS = "total_variation", "removed_variation"
BLOCKS = ("block_random", "block_random_free")
RATES = (0.1, 0.3, 0.5)
"""Of the paper's figures."""
LINEAR = 0.5
"""R² from which a line counts as strong, a correlation of .7."""


@dataclass(frozen=True)
class Line:
    """A line through estimators: total variation and accuracy by name, and its R²; `excluded` are not on it."""

    x: Mapping[str, float]
    y: Mapping[str, float]
    r2: Measure
    excluded: tuple[str, ...]


def variation_lines(
    evidence: ClaimEvidence, squared: bool, of: Of = "maps", baselines: bool = False
) -> dict[float, Line]:
    """The line of accuracy under ROAR over total variation at every rate, through unfiltered estimators.

    Of the maps, or of the masks of what is removed at that rate. What knows no model is not on the line unless
    `baselines` asks for it; random blocks never are, the paper has them in a table of their own.
    """
    return {t: _line(evidence, squared, of, baselines, t) for t in rates_of(evidence, RATES)}


def _line(evidence: ClaimEvidence, squared: bool, of: Of, baselines: bool, t: float) -> Line:
    variation = variation_by_name(evidence, of, t)
    chosen = [n for n in evidence.available(variation, ROAR) if _unfiltered(n, squared)]
    if squared:
        chosen = [n for n in chosen if f"sq({n})" not in chosen]
    reached = {n: evidence.accuracy(ROAR, n) for n in chosen}
    y = pd.DataFrame({n: reached[n][t] for n in chosen if t in reached[n]})
    x = pd.Series({n: variation[n] for n in y}, dtype=float)
    excluded = [n for n in y if n in BLOCKS or not (baselines or read_chain(n).needs_model)]
    what = f"R² of accuracy over total variation of {of} at {t:g}"
    r2 = evidence.line(what, x.drop(excluded), y, above=LINEAR)
    return Line(dict(x), dict(y.mean()), r2, tuple(excluded))


def variation_by_name(evidence: ClaimEvidence, of: Of = "maps", t: float = 0.0) -> dict[str, float]:
    """Mean total variation of the maps, or of the masks at a rate, by estimator without options."""
    metric = evidence.metric(VARIATION) if of == "maps" else evidence.metric(MASKS, fraction=t)
    names = evidence.values[evidence.values["metric"] == metric]["estimator"].unique()
    return {without_options(str(n)): -float(evidence.per_image(metric, str(n)).mean()) for n in names}


def _unfiltered(name: str, squared: bool) -> bool:
    """Whether an estimator is plain, and squared or not as wanted; for a control that is not squared any is right."""
    chain = read_chain(name)
    square = chain.raw.name in SQUARES
    return not chain.filters and (square == squared or not (square or chain.needs_model))


@measure
def variation_line(
    evidence: ClaimEvidence,
    claimed: Range,
    *,
    through: Sequence[str],
    squared: bool,
    of: Of = "maps",
    baselines: Sequence[str] = (),
) -> Parts:
    """R² of accuracy over total variation at every rate; `through` and `baselines` are what the paper's lines have."""
    lines = variation_lines(evidence, squared, of, bool(baselines))
    rates = [Missing(f"the study has no {ROAR} at {t:g}") for t in RATES if t not in lines]
    return [*(line.r2 for line in lines.values()), *evidence.absent((*through, *baselines), ROAR), *rates]


# Song et al.: the theorems

Outcome = Mapping[str, Hashable]
Distribution = Sequence[tuple[Fraction, Outcome]]
"""Outcomes, each with a value for every variable, and their probabilities."""


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


def shared_bits(joint: Distribution, a: str, b: str, beside: str | None = None) -> float:
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
        "I(Z; A | X)": shared_bits(joint, "Z", "A", "X"),
        "I(Z; Ã | X)": shared_bits(joint, "Z", "Ã", "X"),
        "I(X'; Y | Z = 2)": shared_bits(given(joint, Z=2), "X'", "Y"),
        "I(X'; Y)": shared_bits(joint, "X'", "Y"),
        "I(X̃'; Y)": shared_bits(joint, "X̃'", "Y"),
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
        bits = {name: shared_bits(joint, "Z", name, "X") for name in ("A", "Ã", "X̃'")}
        for title, gain in zip(gains, (bits["Ã"] - bits["A"], bits["X̃'"] - bits["Ã"]), strict=True):
            gains[title] = max(gains[title], gain)
    return gains


def _counted(what: str, bits: float, claimed: Range) -> Measure:
    """An enumerated number: it has no spread, and no data behind it."""
    return Measure(f"{what}, bits", Interval(bits, bits, bits, n=1), "enumeration", **claimed)


@measure
def theorem_1(evidence: ClaimEvidence, claimed: Range) -> Parts:
    """The largest gain over every processing of a small world, enumerated; rounding aside it is not positive."""
    return [_counted(name, bits, claimed) for name, bits in theorem_one().items()]


@measure
def theorem_2(evidence: ClaimEvidence, claimed: Range) -> Parts:
    """What the proof's world loses about the model, and what its score gains, enumerated."""
    bits = theorem_two()
    lost = bits["I(Z; A | X)"] - bits["I(Z; Ã | X)"]
    gained = bits["I(X'; Y)"] - bits["I(X̃'; Y)"]
    return [
        _counted("information about the model lost by processing", lost, claimed),
        _counted("information about the model left", bits["I(Z; Ã | X)"], Range(below=1e-9)),
        _counted("information about the class removed by processing (a better score)", gained, claimed),
    ]
