"""Maps of a network that has partly forgotten: with every layer drawn anew they say less of the network asked about."""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic import Field
from torch import nn

from uproar.errors import BadOption, NotApplicable
from uproar.estimators.registry import Context, estimator, estimators
from uproar.expression import parse
from uproar.models.redraw import redrawn_copies
from uproar.types import Images, Labels, RawMaps


def _passes(of: str) -> float:
    """The cost of the inner map, and of the pass that finds the order of the layers."""
    call = estimators.complete(parse(of))
    passes = estimators[call.name].facts["passes"]
    return 0.5 + float(passes(**dict(call.options)) if callable(passes) else passes)


@estimator(
    passes=lambda of, layers: _passes(of),
    formula="the map `of` of a copy whose last `layers` layers are drawn anew",
    paper="after Adebayo et al. 2018",
    fails="on purpose: worse with every layer",
)
def randomised(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    of: str = "ig",
    layers: Annotated[int, Field(ge=1)] = 1,
) -> RawMaps:
    """The map of a copy of the network whose last layers, counted from the output, are drawn anew.

    The draws depend on the seed alone: more layers contain fewer.
    """
    from uproar.estimators.explain import raw_maps  # which runs what is declared here

    call = estimators.complete(parse(of))
    entry = estimators[call.name]
    if entry.facts["role"] != "estimator" or entry.facts.get("prepare"):
        raise BadOption(f"randomised: of is an estimator that prepares nothing, such as ig or grad, not {of!r}.")
    copies = redrawn_copies(model, x, context.draws.seed, cascading=True)
    copy = next(itertools.islice(copies, layers - 1, None), None)
    if copy is None:
        raise NotApplicable(f"the network has fewer than {layers} layers with weights")
    return raw_maps(copy, x, target, context, [call])[call]
