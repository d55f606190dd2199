"""Which layers of a network a method can look at, and which one each family of methods takes by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from uproar.errors import NotApplicable
from uproar.estimators.attention import grid_of
from uproar.estimators.chain import Chain
from uproar.estimators.featuremaps import bottleneck_layers, pyramid_layers
from uproar.estimators.layers import cam_layers, first_tensor, recorded, two_versions
from uproar.estimators.registry import estimators
from uproar.expression import Call
from uproar.models.borrow import borrowed
from uproar.types import Images


@dataclass(frozen=True)
class Candidate:
    """A layer by name: its module's class, its output's shape for one image, its grid, and whose default it is."""

    name: str
    module: str
    shape: tuple[int, ...]
    channels: int
    grid: tuple[int, int]
    default_of: tuple[str, ...] = ()


FAMILIES: dict[str, Callable[[nn.Module, Images], Sequence[str]]] = {
    "CAM": cam_layers,
    "iba": bottleneck_layers,
    "tame": pyramid_layers,
}
"""By family of methods: the layers it takes where none is named."""


def layer_candidates(model: nn.Module, x: Images) -> tuple[list[Candidate], dict[str, str]]:
    """The layers whose output has places of the image, in the order made, and why a family has no default."""
    with borrowed(model):
        defaults, refusals = _defaults(model, x)
        record, _ = recorded(model, two_versions(x))
    modules, candidates = dict(model.named_modules()), []
    for name, calls in record.calls.items():
        made = first_tensor(calls[-1][0])
        extra = record.extra_tokens(made.shape[1]) if isinstance(made, Tensor) and made.dim() == 3 else None
        grid = grid_of(made, 2, (x.shape[2], x.shape[3]), record.sizes, extra)
        if grid is not None and grid.rows * grid.columns > 1:
            owners = tuple(family for family, names in defaults.items() if name in names)
            channels, shape = grid.maps(made).shape[1], tuple(made.shape[1:])
            candidates.append(
                Candidate(name, type(modules[name]).__name__, shape, channels, (grid.rows, grid.columns), owners)
            )
    return candidates, refusals


def _defaults(model: nn.Module, x: Images) -> tuple[dict[str, list[str]], dict[str, str]]:
    names, refusals = {}, {}
    for family, choose in FAMILIES.items():
        try:
            names[family] = list(choose(model, x[:2]))
        except NotApplicable as reason:
            refusals[family] = str(reason)
    return names, refusals


def chosen_layers(model: nn.Module, x: Images, chains: Sequence[Chain]) -> dict[str, tuple[str, ...]]:
    """By chain: the layers that its estimators look at, named in it or found by their rule; only chains that do."""

    @functools.cache
    def found_by(rule: Callable[[nn.Module, Images], Sequence[str]]) -> tuple[str, ...]:
        with borrowed(model):
            return tuple(rule(model, x[:2]))

    layers = {chain.name: [n for leaf in chain.leaves for n in _of_leaf(leaf, found_by)] for chain in chains}
    return {name: tuple(dict.fromkeys(candidates)) for name, candidates in layers.items() if candidates}


def _of_leaf(leaf: Call, found_by: Callable[..., tuple[str, ...]]) -> tuple[str, ...]:
    """The layers of one estimator; none where it does not look at layers, or where its rule finds none."""
    rule, options = estimators[leaf.name].facts.get("default_layers"), dict(leaf.options)
    if rule is None:
        return ()
    named = options.get("layer") or options.get("layers")
    if named:
        return (str(named),) if isinstance(named, str | int) else tuple(map(str, named))  # type: ignore[arg-type]
    try:
        return found_by(rule)
    except NotApplicable:
        return ()
