"""Claims of Song, Cha and Seo, "On pitfalls of RemOve-And-Retrain: data processing inequality perspective".

They are data (claims.toml); this module has the measures that no other paper needs: lines through estimators over
the total variation of their maps, and the theorems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from uproar.audits.filtered import SQUARES
from uproar.audits.theorems import theorem_one, theorem_two
from uproar.claims.evidence import ClaimEvidence
from uproar.claims.measures import ROAR, Parts, measure, rates_of
from uproar.claims.names import without_options
from uproar.claims.registry import read_claims
from uproar.estimators import read_chain
from uproar.results.claim_outcome import Measure, Missing, Range
from uproar.statistics.intervals import Interval

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


read_claims("song2023", __file__)
