"""Claims of Hooker et al. 2019, "A benchmark for interpretability methods in deep neural networks".

Places and numbers are those of the first version of the paper, which evaluates ImageNet alone; VarGrad came with the
NeurIPS version.

Random removal, the ranking of estimators under ROAR and KAR, and what retraining is for. The ranking is also asked of
`decoupled` ROAR, where masks cannot give the class away: on small data a leak can hide what the paper saw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from uproar.claims.base import claim, every
from uproar.claims.evidence import ClaimEvidence
from uproar.errors import NotApplicable
from uproar.results.judgement import Decision, Measure
from uproar.statistics.design import BASELINE

SINGLE = ("grad", "ig", "guided_backprop")
SG_GB = "sg(guided_backprop)"
ROAR, KAR, UNTRAINED, CONTROLLED = "roar", "kar", "roar:no-retrain", "decoupled"

ALONE = "where masks cannot give the class away (decoupled ROAR)"

Test = Callable[[ClaimEvidence, str], Decision]
"""What a ranking says under a protocol."""

NEGLIGIBLE = 0.01
"""One accuracy point: an advantage that is surely smaller counts as none."""
FAR = 0.05
"""Five points, mean over the curve, count as far better."""


def _wrapped(evidence: ClaimEvidence, how: str, protocol: str) -> list[str]:
    return evidence.there([f"{how}({name})" for name in SINGLE], protocol)


def _kept(evidence: ClaimEvidence, fraction: float) -> pd.Series:
    """Of what plain training learns beyond chance, the share that is left after random removal."""
    removed, plain = evidence.at(ROAR, BASELINE, fraction), evidence.at(ROAR, BASELINE, 0.0)
    return (removed - evidence.chance) / (plain - evidence.chance)


@claim(
    "hooker2019:random-90",
    place="sections 1, 4.1 and 4.2.1",
    says="With a random 90 % of the input removed, a retrained network keeps more than half of what it learned beyond "
    "chance.",
    published="63.71 ± 0.13 % of 76.16 ± 0.15 %",
)
def random_90(evidence: ClaimEvidence) -> Decision:
    """The share kept, replicate by replicate."""
    what = "share of the accuracy beyond chance left by random removal of 90 %"
    return every(evidence.over_replicates(what, _kept(evidence, 0.9), above=0.5))


@claim(
    "hooker2019:random-99",
    place="section 4.2.1",
    says="Even with a random 99 % removed, more than a quarter of what was learned beyond chance is left.",
    published="45.40 % of 76.16 %",
)
def random_99(evidence: ClaimEvidence) -> Decision:
    """The share kept, replicate by replicate."""
    what = "share of the accuracy beyond chance left by random removal of 99 %"
    return every(evidence.over_replicates(what, _kept(evidence, 0.99), above=0.25))


def ranking(name: str, *, place: str, says: str, published: str) -> Callable[[Test], Test]:
    """Declare a claim on the ranking twice: of ROAR as published, and of decoupled ROAR as `NAME-controlled`.

    `{where}` in what it says becomes the words for either.
    """

    def keep(test: Test) -> Test:
        for suffix, protocol, where, numbers in (
            ("", ROAR, "under ROAR", published),
            ("-controlled", CONTROLLED, ALONE, "the paper has no such control"),
        ):
            declared = claim(name + suffix, place=place, says=says.format(where=where), published=numbers)
            declared(_asked(test, protocol))
        return test

    return keep


def _asked(test: Test, protocol: str) -> Callable[[ClaimEvidence], Decision]:
    def asked(evidence: ClaimEvidence) -> Decision:
        return test(evidence, protocol)

    asked.__doc__ = test.__doc__
    return asked


def _no_better(evidence: ClaimEvidence, names: Sequence[str], protocol: str) -> Decision:
    return every(*(evidence.area(protocol, name, below=NEGLIGIBLE) for name in names))


def _far_better(evidence: ClaimEvidence, how: str, protocol: str) -> Decision:
    names = _wrapped(evidence, how, protocol)
    return every(*(evidence.area(protocol, name, above=FAR) for name in names))


@ranking(
    "hooker2019:single",
    place="section 4.2.3, Figure 5",
    says="Gradient, integrated gradients and guided backprop rank pixels no better than a random order {where}.",
    published="at 90 %: Grad 67.76, IG 67.52, random 63.71; worse than random at all fractions",
)
def single(evidence: ClaimEvidence, protocol: str) -> Decision:
    """Their areas against random."""
    return _no_better(evidence, evidence.there(SINGLE, protocol), protocol)


@ranking(
    "hooker2019:grad-like-ig",
    place="section 4.2.3",
    says="Without a transform, gradient and integrated gradients hardly differ, even at 90 %, {where}.",
    published="67.76 and 67.52 %",
)
def grad_like_ig(evidence: ClaimEvidence, protocol: str) -> Decision:
    """Their difference at 90 %."""
    return every(evidence.area(protocol, "ig", "grad", at=0.9, above=-0.02, below=0.02))


@ranking(
    "hooker2019:sg",
    place="section 4.2.4, Figure 6",
    says="Averaging over noise (SG) makes gradient and integrated gradients no better than they are alone {where}.",
    published="at 90 %: SG-Grad 2.52 and SG-IG 2.6 points worse",
)
def sg(evidence: ClaimEvidence, protocol: str) -> Decision:
    """SG against its own base."""
    names = [n for n in _wrapped(evidence, "sg", protocol) if n != SG_GB]
    return every(*(evidence.area(protocol, n, n[3:-1], below=NEGLIGIBLE) for n in names))


@ranking(
    "hooker2019:sg-gb",
    place="section 4.2.4, Figure 6",
    says="Averaging over noise (SG) improves guided backprop {where}.",
    published="4.13 points better at 90 %, better at every fraction",
)
def sg_gb(evidence: ClaimEvidence, protocol: str) -> Decision:
    """SG-GB against GB."""
    return every(evidence.area(protocol, SG_GB, "guided_backprop", above=0.0))


@ranking(
    "hooker2019:sg-random",
    place="section 4.2.4, Figure 6",
    says="Averaging over noise (SG) leaves estimators no better than a random order {where}.",
    published="below random at almost all fractions",
)
def sg_random(evidence: ClaimEvidence, protocol: str) -> Decision:
    """SG against random."""
    return _no_better(evidence, _wrapped(evidence, "sg", protocol), protocol)


@ranking(
    "hooker2019:sq",
    place="section 4.2.5, Figure 6",
    says="Squaring alone (SQ) improves every estimator by a little {where}.",
    published="at 90 %: SQ-Grad 5.45 points better than Grad, SQ-GB 8.43 ± 0.97 better than GB",
)
def sq(evidence: ClaimEvidence, protocol: str) -> Decision:
    """SQ against its own base; a little is less than ten points, mean over the curve, as the published gains are."""
    names = _wrapped(evidence, "sq", protocol)
    return every(*(evidence.area(protocol, n, n[3:-1], above=0.0, below=0.1) for n in names))


@ranking(
    "hooker2019:sq-random",
    place="section 4.2.5, Figure 6",
    says="Squared estimates (SQ) are slightly better than a random order {where}.",
    published="slightly better",
)
def sq_random(evidence: ClaimEvidence, protocol: str) -> Decision:
    """SQ against random."""
    names = _wrapped(evidence, "sq", protocol)
    return every(*(evidence.area(protocol, n, above=0.0) for n in names))


@ranking(
    "hooker2019:sg-sq",
    place="section 4.2.3, Figure 5",
    says="Squared and averaged estimates (SG-SQ) are far better than a random order {where}.",
    published="at 90 %: SG-SQ-Grad 10.78 ± 7.85, SG-SQ-GB 17 ± 3.45, random 63.71 ± 0.13",
)
def sg_sq(evidence: ClaimEvidence, protocol: str) -> Decision:
    """SG-SQ against random."""
    return _far_better(evidence, "sg_sq", protocol)


@ranking(
    "hooker2019:var",
    place="NeurIPS 2019 version, abstract",
    says="The variance over noise (VarGrad) is far better than a random order {where}.",
    published="far better, as SG-SQ",
)
def var(evidence: ClaimEvidence, protocol: str) -> Decision:
    """VAR against random."""
    return _far_better(evidence, "var", protocol)


def _widest(evidence: ClaimEvidence, protocol: str, names: Sequence[str]) -> tuple[float, pd.Series]:
    """The fraction at which estimators differ most on average, and their range there by replicate."""
    curves = {name: evidence.accuracy(protocol, name) for name in names}
    shared = sorted(set.intersection(*(set(curve.columns) for curve in curves.values())))
    ranges = {}
    for t in shared:
        table = pd.DataFrame({name: curve[t] for name, curve in curves.items()})
        ranges[float(t)] = table.max(axis=1) - table.min(axis=1)
    if not ranges:
        raise NotApplicable(f"no fraction of {protocol} is finished for {', '.join(names)}")
    return max(ranges.items(), key=lambda one: one[1].mean())


@claim(
    "hooker2019:kar",
    place="section 4.2.2, Figure 5",
    says="Keeping (KAR) separates estimators less than removing (ROAR), each where it separates them most.",
    published="7.08 points at 10 % kept against 59.6 at 90 % removed",
)
def kar(evidence: ClaimEvidence) -> Decision:
    """Range over estimators at the fraction where they differ most, ROAR's minus KAR's, replicate by replicate."""
    names = evidence.there([*SINGLE, *_wrapped(evidence, "sg_sq", ROAR)], ROAR)
    names = evidence.there(names, KAR)
    if len(names) < 3:
        raise NotApplicable(f"{len(names)} estimators have both ROAR and KAR; use at least 3")
    (removed, roar), (kept, kar_) = (_widest(evidence, protocol, names) for protocol in (ROAR, KAR))
    what = f"range over {len(names)} estimators: roar at {removed:g} minus kar at {kept:g}, accuracy"
    return every(evidence.over_replicates(what, roar - kar_, above=0.0))


@claim(
    "hooker2019:retrain",
    place="section 3.3, Figure 4",
    says="Without retraining accuracy falls far further than with it, and further at every fraction.",
    published="far further at all fractions (figure)",
)
def retrain(evidence: ClaimEvidence) -> Decision:
    """The original network minus the retrained one, at every fraction and in the mean of them."""
    return every(*(m for name in evidence.there(SINGLE, UNTRAINED) for m in _falls(evidence, name)))


def _falls(evidence: ClaimEvidence, name: str) -> list[Measure]:
    after, before = evidence.accuracy(UNTRAINED, name), evidence.accuracy(ROAR, name)
    shared = [t for t in before.columns if t in after.columns and t > 0]
    if not shared:
        raise NotApplicable(f"{name} has no fraction with and without retraining")
    gaps = after[shared] - before[shared]
    what = f"{name}: without retraining minus with, accuracy"
    at_each = [evidence.over_replicates(f"{what} at {t:g}", gaps[t], below=0.0) for t in shared]
    return [*at_each, evidence.over_replicates(what, gaps.mean(axis=1), below=-FAR)]
