"""A study's estimators with filters around them: what `blur` and `variation` run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from uproar.errors import NotApplicable
from uproar.estimators import Chain, read_chain
from uproar.expression import Call, parse

if TYPE_CHECKING:
    from uproar.study.spec import Study

SMOOTH_CONTROL = "random_blurred"
SQUARES = ("sq", "sg_sq", "var")
"""Transforms whose maps are squares already."""


@dataclass(frozen=True)
class Filters:
    """A Gaussian and a maximum filter with their sizes."""

    sigma: float = 1.0
    size: int = 3

    def named(self, name: str) -> dict[str, str]:
        """The names of a filtered estimator by filter.

        >>> Filters().named("grad")
        {'max': 'max(grad)', 'gaussian': 'gaussian(grad)'}
        """
        inner = parse(name)
        calls = {
            "max": Call("max", (inner,), (("size", self.size),)),
            "gaussian": Call("gaussian", (inner,), (("sigma", float(self.sigma)),)),
        }
        return {kind: read_chain(str(call)).name for kind, call in calls.items()}


def plain_names(study: Study) -> tuple[str, ...]:
    """The estimators that can be filtered and are not yet; refused where the random ranking is the only one."""
    names = tuple(chain.name for chain in study.chains if _plain(chain))
    if len(names) < 2:
        raise NotApplicable(
            f"none of {', '.join(study.estimators)} is a plain map that can be filtered; add one, e.g. grad"
        )
    return names


def left_out(study: Study) -> tuple[str, ...]:
    """Why some estimators were not filtered, a sentence each."""
    reasons = []
    for chain in study.chains:
        if chain.filters or chain.name.startswith(SMOOTH_CONTROL):
            reasons.append(f"{chain.name} was left out: it is smooth already.")
        elif chain.is_direct:
            reasons.append(f"{chain.name} was left out: it removes without a map to filter.")
    return tuple(reasons)


def squared(names: Iterable[str]) -> dict[str, str]:
    """Estimators of the model by the name of their square; those that are squares already stand for themselves.

    >>> squared(["grad", "sq(grad)", "sg_sq(ig)", "sobel"])
    {'grad': 'sq(grad)', 'sq(grad)': 'sq(grad)', 'sg_sq(ig)': 'sg_sq(ig)'}
    """
    chains = {name: read_chain(name) for name in names}
    return {
        name: name if chain.raw.name in SQUARES else f"sq({name})"
        for name, chain in chains.items()
        if chain.needs_model
    }


def _plain(chain: Chain) -> bool:
    return not (chain.filters or chain.is_direct or chain.name.startswith(SMOOTH_CONTROL))
