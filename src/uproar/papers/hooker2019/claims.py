"""Claims of Hooker et al. 2019, "A benchmark for interpretability methods in deep neural networks".

Places and numbers are those of the first version of the paper, which evaluates ImageNet alone; VarGrad came with the
NeurIPS version.

Random removal, the ranking of estimators under ROAR and KAR, and what retraining is for. The ranking is also asked of
`decoupled` ROAR, where masks cannot give the class away: on small data a leak can hide what the paper saw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

import pandas as pd

from uproar.claims.evidence import ClaimEvidence
from uproar.claims.registry import Test, claim, claims_of, every, part, read_texts
from uproar.errors import NotApplicable
from uproar.results.claim_outcome import Decision, Measure, Missing, Range
from uproar.statistics.design import BASELINE

SINGLE = ("grad", "ig", "guided_backprop")
SG_GB = "sg(guided_backprop)"
ROAR, KAR, UNTRAINED, CONTROLLED = "roar", "kar", "roar:no-retrain", "decoupled"

ALONE = "where masks cannot give the class away (decoupled ROAR)"

NEGLIGIBLE = 0.01
"""One accuracy point: an advantage that is surely smaller counts as none."""
FAR = 0.05
"""Five points, mean over the curve, count as far better."""

declare = claims_of("hooker2019", __file__)


def _kept(fraction: float, above: float) -> Test:
    """Of what plain training learns beyond chance, the share that is left after random removal, by replicate."""

    def test(evidence: ClaimEvidence) -> Decision:
        name = next(iter(evidence.available(("bernoulli",), ROAR)), BASELINE)
        removed, plain = evidence.at(ROAR, name, fraction), evidence.at(ROAR, BASELINE, 0.0)
        kept = (removed - evidence.chance) / (plain - evidence.chance)
        what = f"share of the accuracy beyond chance left by random removal of {100 * fraction:.0f} %"
        return every(evidence.over_replicates(what, kept, above=above))

    return test


declare("random-90")(_kept(0.9, above=0.5))
declare("random-99")(_kept(0.99, above=0.25))


# the ranking, asked twice: of ROAR as published, and of decoupled ROAR as `NAME-controlled`


Parts = Callable[[ClaimEvidence, str], Sequence[Measure | Missing]]
"""The parts of a claim under a protocol."""


def _ranking(what: str, parts: Parts) -> None:
    """Declare a claim on the ranking under both protocols; all of `parts(evidence, protocol)` must hold."""
    text = read_texts(__file__)[what]

    def under(protocol: str) -> Test:
        return lambda evidence: every(*parts(evidence, protocol))

    for suffix, protocol, where, published in (
        ("", ROAR, "under ROAR", text["published"]),
        ("-controlled", CONTROLLED, ALONE, "the paper has no such control"),
    ):
        says = text["says"].format(where=where)
        claim(f"hooker2019:{what}{suffix}", place=text["place"], says=says, published=published)(under(protocol))


def _against_random(how: str, **claimed: Unpack[Range]) -> Parts:
    """Every wrapped estimate against random."""
    return lambda evidence, protocol: [part(evidence.area, protocol, f"{how}({name})", **claimed) for name in SINGLE]


def _against_base(how: str, *but: str, **claimed: Unpack[Range]) -> Parts:
    """Every wrapped estimate against its own base."""
    return lambda evidence, protocol: [
        part(evidence.area, protocol, f"{how}({name})", name, **claimed) for name in SINGLE if name not in but
    ]


def _single(evidence: ClaimEvidence, protocol: str) -> Sequence[Measure | Missing]:
    return [part(evidence.area, protocol, name, below=NEGLIGIBLE) for name in SINGLE]


def _grad_like_ig(evidence: ClaimEvidence, protocol: str) -> Sequence[Measure]:
    return [evidence.area(protocol, "ig", "grad", at=0.9, above=-0.02, below=0.02)]


def _sg_gb(evidence: ClaimEvidence, protocol: str) -> Sequence[Measure]:
    return [evidence.area(protocol, SG_GB, "guided_backprop", above=0.0)]


_ranking("single", _single)
_ranking("grad-like-ig", _grad_like_ig)
_ranking("sg", _against_base("sg", "guided_backprop", below=NEGLIGIBLE))
_ranking("sg-gb", _sg_gb)
_ranking("sg-random", _against_random("sg", below=NEGLIGIBLE))
_ranking("sq", _against_base("sq", above=0.0, below=0.1))  # a little: less than ten points, as the published gains are
_ranking("sq-random", _against_random("sq", above=0.0))
_ranking("sg-sq", _against_random("sg_sq", above=FAR))
_ranking("var", _against_random("var", above=FAR))


# ROAR against KAR, and retraining


def _widest(evidence: ClaimEvidence, protocol: str, names: Sequence[str]) -> tuple[float, pd.Series]:
    """The fraction at which estimators differ most on average, and their range there by replicate.

    Where nothing is removed, or all is kept, they share one training: that is no fraction of theirs.
    """
    curves = {name: evidence.accuracy(protocol, name) for name in names}
    shared = sorted(set.intersection(*(set(curve.columns) for curve in curves.values())))
    ranges = {}
    plain = evidence.results.protocols[protocol].plain
    for t in (t for t in shared if t != plain):
        table = pd.DataFrame({name: curve[t] for name, curve in curves.items()})
        ranges[float(t)] = table.max(axis=1) - table.min(axis=1)
    if not ranges:
        raise NotApplicable(f"no fraction of {protocol} is finished for {', '.join(names)}")
    return max(ranges.items(), key=lambda one: one[1].mean())


@declare("kar")
def kar(evidence: ClaimEvidence) -> Decision:
    """Range over estimators at the fraction where they differ most, ROAR's minus KAR's, replicate by replicate."""
    wanted = [*SINGLE, *(f"sg_sq({name})" for name in SINGLE)]
    names = evidence.available(evidence.available(wanted, ROAR), KAR)
    if len(names) < 3:
        raise NotApplicable(f"{len(names)} estimators have both ROAR and KAR; use at least 3")
    (removed, roar), (kept, kar_) = (_widest(evidence, protocol, names) for protocol in (ROAR, KAR))
    what = f"range over {len(names)} estimators: roar at {removed:g} minus kar at {kept:g}, accuracy"
    absent = [*evidence.absent(wanted, ROAR), *evidence.absent(wanted, KAR)]
    return every(evidence.over_replicates(what, roar - kar_, above=0.0), *absent)


@declare("retrain")
def retrain(evidence: ClaimEvidence) -> Decision:
    """The original network minus the retrained one, at every fraction and in the mean of them."""
    names = evidence.available(SINGLE, UNTRAINED)
    return every(*(m for name in names for m in _falls(evidence, name)), *evidence.absent(SINGLE, UNTRAINED))


def _falls(evidence: ClaimEvidence, name: str) -> list[Measure]:
    after, before = evidence.accuracy(UNTRAINED, name), evidence.accuracy(ROAR, name)
    shared = [t for t in before.columns if t in after.columns and t > 0]
    if not shared:
        raise NotApplicable(f"{name} has no fraction with and without retraining")
    gaps = after[shared] - before[shared]
    what = f"{name}: without retraining minus with, accuracy"
    at_each = [evidence.over_replicates(f"{what} at {t:g}", gaps[t], below=0.0) for t in shared]
    return [*at_each, evidence.over_replicates(what, gaps.mean(axis=1), below=-FAR)]
