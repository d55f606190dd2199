"""Estimators that do not apply to a network are left out by name, and the others go on without them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from uproar.errors import BadInput, NotApplicable, one_line
from uproar.estimators import Chain
from uproar.study.maps import MapMaker, Piece, Subject

Made = TypeVar("Made")


def with_applicable(
    subject: Subject, chains: Sequence[Chain], make: Callable[[list[Chain]], Made], controls: Collection[str] = ()
) -> tuple[Made, list[str]]:
    """What `make` gives for all chains, or for those that apply, and a sentence on each that does not.

    Refused where nothing is left but `controls`, which are no answer alone. Chains are tried only after `make` failed:
    what some of them learn from training images takes long.
    """
    try:
        return make(list(chains)), []
    except NotApplicable:
        reasons = inapplicable(subject, chains)
        if not reasons:
            raise
    kept = [chain for chain in chains if chain.name not in reasons]
    if all(chain.name in controls for chain in kept):
        listed = "; ".join(f"{name} ({why})" for name, why in reasons.items())
        raise BadInput(f"No estimator applies to this network: {listed}; choose another, see uproar ls estimators.")
    return make(kept), [f"{name} is left out: {why}." for name, why in reasons.items()]


def inapplicable(subject: Subject, chains: Sequence[Chain]) -> dict[str, str]:
    """The chains that cannot explain the first image, each with the reason."""
    rows = slice(0, 1)
    first = replace(subject, x=subject.x[rows], target=subject.target[rows], context=subject.context[rows])
    reasons = {}
    for chain in chains:
        try:
            MapMaker(first, [chain]).make(Piece((chain,), rows, (), False, 1.0))
        except NotApplicable as error:
            reasons[chain.name] = one_line(error).rstrip(".")
    return reasons
