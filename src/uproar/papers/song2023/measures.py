"""Measures of Song et al. that no other paper needs.

Lines through estimators over the total variation of their maps, and Theorems 3.1 and 3.2, which are checked by
enumerating small joint distributions.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from uproar.audits.blur import SQUARES
from uproar.errors import NotApplicable
from uproar.estimators import read_chain
from uproar.papers.evidence import ClaimEvidence, measured, without_options
from uproar.papers.measures import ROAR, Parts, measure, rates_of
from uproar.results.claim_outcome import Measure, Missing, Range
from uproar.statistics.correlation import line_interval
from uproar.statistics.intervals import Interval

# Song et al.: lines over total variation

Of = Literal["maps", "masks"]
VARIATION, MASKS = "total_variation", "removed_variation"
BLOCKS = ("block_random", "block_random_free")
RATES = (0.1, 0.3, 0.5)
"""Of the paper's figures."""


@dataclass(frozen=True)
class Line:
    """A line through estimators: total variation and accuracy by name, and its R²; `excluded` are not on it."""

    x: Mapping[str, float]
    y: Mapping[str, float]
    r2: Measure
    excluded: tuple[str, ...]


def variation_lines(
    evidence: ClaimEvidence, squared: bool, of: Of = "maps", baselines: bool = False, claimed: Range | None = None
) -> dict[float, Line]:
    """The line of accuracy under ROAR over total variation at every rate, through unfiltered estimators.

    Of the maps, or of the masks of what is removed at that rate. What knows no model is not on the line unless
    `baselines` asks for it; random blocks never are, the paper has them in a table of their own.
    """
    return {t: _line(evidence, squared, of, baselines, t, claimed or Range()) for t in rates_of(evidence, RATES)}


def _line(evidence: ClaimEvidence, squared: bool, of: Of, baselines: bool, t: float, claimed: Range) -> Line:
    variation = variation_by_name(evidence, of, t)
    chosen = [n for n in evidence.available(variation, ROAR) if _unfiltered(n, squared)]
    if squared:
        chosen = [n for n in chosen if f"sq({n})" not in chosen]
    reached = {n: evidence.accuracy(ROAR, n) for n in chosen}
    y = pd.DataFrame({n: reached[n][t] for n in chosen if t in reached[n]})
    x = pd.Series({n: variation[n] for n in y}, dtype=float)
    excluded = [n for n in y if n in BLOCKS or not (baselines or read_chain(n).needs_model)]
    what = f"R² of accuracy over total variation of {of} at {t:g}"
    x_on = x.drop(excluded)
    if len(x_on) < 5:
        raise NotApplicable(f"{len(x_on)} estimators are too few for a line; use at least 5")
    interval = line_interval(x_on.to_numpy(float), y[x_on.index].dropna().to_numpy(float))
    r2 = replace(measured(what, interval, "replicates", claimed), alpha=evidence.results.comparison_alpha)
    return Line(dict(x), dict(y.mean()), r2, tuple(excluded))


def variation_by_name(evidence: ClaimEvidence, of: Of = "maps", t: float = 0.0) -> dict[str, float]:
    """Mean total variation of the maps, or of the masks at a rate, by estimator without options."""
    metric = evidence.metric(VARIATION) if of == "maps" else evidence.metric(MASKS, fraction=t)
    rows = evidence.view.image_scores
    names = rows[rows["metric"] == metric]["estimator"].unique()
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
    lines = variation_lines(evidence, squared, of, bool(baselines), claimed)
    rates = [Missing(f"the study has no {ROAR} at {t:g}") for t in RATES if t not in lines]
    return [*(line.r2 for line in lines.values()), *evidence.absent((*through, *baselines), ROAR), *rates]


# the theorems, enumerated in small worlds


def shared_bits(world: pd.DataFrame, a: str, b: str, beside: str | None = None) -> float:
    """Bits that a and b share, I(a; b), or given a third variable, I(a; b | beside).

    >>> coins = pd.DataFrame({"first": [0, 0, 1, 1], "second": [0, 1, 0, 1], "both": [0, 1, 2, 3]})
    >>> shared_bits(coins, "first", "second"), shared_bits(coins, "first", "second", "both")
    (0.0, 0.0)
    >>> shared_bits(coins, "first", "both")
    1.0
    """
    known = [beside] if beside else []
    parts = [[a, *known], [b, *known], [a, b, *known], known]
    first, second, both, rest = (_entropy(world, names) for names in parts)
    return first + second - both - rest


def _entropy(world: pd.DataFrame, names: Sequence[str]) -> float:
    if not names:
        return 0.0
    counts = Counter(zip(*(world[name] for name in names), strict=True))  # eight times as fast as a groupby
    shares = np.array([*counts.values()]) / len(world)
    return float(-(shares * np.log2(shares)).sum())


def erased(x: tuple[int, int], attribution: tuple[float, float]) -> tuple[int, int]:
    """Two pixels without the more important one: ROAR at t = 1/2."""
    first, second = x
    return (0, second) if attribution[0] > attribution[1] else (first, 0)


def theorem_two_world() -> pd.DataFrame:
    """The world of Theorem 3.2: Y is the first of two random pixels, Z the one that the explainer marks.

    The attribution A points at pixel Z. Post-processing makes of every A the same Ã, which points at the first pixel.
    """
    rows = []
    for x1, x2, z in itertools.product((0, 1), (0, 1), (1, 2)):
        x, a, processed = (x1, x2), (2.0, 1.0) if z == 1 else (1.0, 2.0), (3.0, 2.5)
        rows.append({"X": x, "Y": x1, "Z": z, "A": a, "Ã": processed, "X'": erased(x, a), "X̃'": erased(x, processed)})
    return pd.DataFrame(rows)


@functools.cache
def theorem_one_gains() -> Mapping[str, float]:
    """Theorem 3.1 for every way to post-process four attributions: the largest gain, in bits.

    The attribution depends on Z and on the image. No processing of the attribution alone may raise what it tells of Z
    given the image, and the changed image may not tell more than the attribution it was made from.
    """
    values = ((2.0, 1.0), (1.0, 2.0), (3.0, 0.0), (0.0, 3.0))
    gains = {"I(Z; Ã | X) − I(Z; A | X)": -math.inf, "I(Z; X̃' | X) − I(Z; Ã | X)": -math.inf}
    for processing in itertools.product(values, repeat=4):
        rows = []
        for x1, x2, z in itertools.product((0, 1), (0, 1), range(3)):
            a = (z + x1) % 4
            changed = erased((x1, x2), processing[a])
            rows.append({"X": (x1, x2), "Z": z, "A": a, "Ã": processing[a], "X̃'": changed})
        plain, processed, image = (shared_bits(pd.DataFrame(rows), "Z", name, "X") for name in ("A", "Ã", "X̃'"))
        for title, gain in zip(gains, (processed - plain, image - processed), strict=True):
            gains[title] = max(gains[title], gain)
    return gains


def _counted(what: str, bits: float, claimed: Range) -> Measure:
    """An enumerated number: it has no spread, and no data behind it."""
    return Measure(f"{what}, bits", Interval(bits, bits, bits, n=1), "enumeration", **claimed)


@measure
def theorem_1(evidence: ClaimEvidence, claimed: Range) -> Parts:
    """The largest gain over every processing of a small world; rounding aside it is not positive."""
    return [_counted(name, bits, claimed) for name, bits in theorem_one_gains().items()]


@measure
def theorem_2(evidence: ClaimEvidence, claimed: Range) -> Parts:
    """What the proof's world loses about the model, and what its score gains."""
    world = theorem_two_world()
    left = shared_bits(world, "Z", "Ã", "X")
    gained = shared_bits(world, "X'", "Y") - shared_bits(world, "X̃'", "Y")
    return [
        _counted("information about the model lost by processing", shared_bits(world, "Z", "A", "X") - left, claimed),
        _counted("information about the model left", left, Range(below=1e-9)),
        _counted("information about the class removed by processing (a better score)", gained, claimed),
    ]
