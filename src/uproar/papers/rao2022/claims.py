"""Claims of Rao, Böhle and Schiele, "Towards better understanding attribution methods"."""

from __future__ import annotations

from uproar.claims.evidence import ClaimEvidence
from uproar.claims.registry import claims_of, every, part
from uproar.errors import NotApplicable
from uproar.expression import parse
from uproar.results.claim_outcome import Decision, Measure

declare = claims_of("rao2022", __file__)

METRIC = "grid_pointing"
GRADIENTS = ("grad", "grad_input", "ig")
PERFECT, FAR = 0.98, 0.75
"""Share of the positive relevance in the right cell from which it counts as all, and below which as far from it."""


def _mosaics(evidence: ClaimEvidence, disconnected: bool) -> str:
    """The metric, on mosaics with a network that sees one cell alone, or with a usual one."""
    if (parse(evidence.view.model).name == "disconnected") != disconnected:
        wanted = (
            "a network that sees one cell alone (disconnected)" if disconnected else "a network that sees all cells"
        )
        raise NotApplicable(f"the study has no mosaics with {wanted}")
    return evidence.metric(METRIC)


def _share(
    evidence: ClaimEvidence, metric: str, name: str, above: float = -float("inf"), below: float = 2.0
) -> Measure:
    """The share of positive relevance in the right cell, with the interval of the table of metrics."""
    values = evidence.per_replicate(metric, evidence.estimator(name))
    return evidence.over_images(f"{metric} of {name}", values, limits=(0.0, 1.0), above=above, below=below)


@declare("difull-gradient")
def difull_gradient(evidence: ClaimEvidence) -> Decision:
    """Each gradient-based method with a network that reads one cell."""
    metric = _mosaics(evidence, disconnected=True)
    shares = (part(_share, evidence, metric, name, above=PERFECT) for name in evidence.available(GRADIENTS))
    return every(*shares, *evidence.absent(GRADIENTS))


@declare("difull-cam")
def difull_cam(evidence: ClaimEvidence) -> Decision:
    """Grad-CAM with a network that reads one cell."""
    return every(_share(evidence, _mosaics(evidence, disconnected=True), "grad_cam", below=FAR))


@declare("grid-cam")
def grid_cam(evidence: ClaimEvidence) -> Decision:
    """Grad-CAM against the gradient, mosaic by mosaic."""
    return every(evidence.gap(_mosaics(evidence, disconnected=False), "grad_cam", "grad", above=0.0))


@declare("smooth")
def smooth(evidence: ClaimEvidence) -> Decision:
    """Integrated gradients with the filter and without, mosaic by mosaic."""
    return every(evidence.gap(_mosaics(evidence, disconnected=False), "gaussian(ig)", "ig", above=0.0))
