"""Which layers of a network a method can look at, and which one each family of methods takes by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from uproar.errors import NotApplicable
from uproar.estimators.featuremaps import middle_feature_map, pyramid
from uproar.estimators.layers import default_layer, first_tensor, recorded, two_versions
from uproar.estimators.token_grid import grid_of
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


FAMILIES: dict[str, Callable[[nn.Module, Images], list[str]]] = {
    "CAM": lambda model, x: [default_layer(model, x)],
    "iba": lambda model, x: [middle_feature_map(model, x[:2]).name],
    "tame": lambda model, x: [each.name for each in pyramid(model, x[:2], 3)],
}
"""By family of methods: the layers it takes where none is named."""


def layer_candidates(model: nn.Module, x: Images) -> tuple[list[Candidate], dict[str, str]]:
    """The layers whose output has places of the image, in the order made, and why a family has no default."""
    with borrowed(model):
        defaults, refusals = _defaults(model, x)
        record, _ = recorded(model, two_versions(x))
    modules, found = dict(model.named_modules()), []
    for name, calls in record.calls.items():
        made = first_tensor(calls[-1][0])
        extra = record.extra_tokens(made.shape[1]) if isinstance(made, Tensor) and made.dim() == 3 else None
        grid = grid_of(made, 2, (x.shape[2], x.shape[3]), record.sizes, extra)
        if grid is not None and grid.rows * grid.columns > 1:
            owners = tuple(family for family, names in defaults.items() if name in names)
            channels, shape = grid.maps(made).shape[1], tuple(made.shape[1:])
            found.append(
                Candidate(name, type(modules[name]).__name__, shape, channels, (grid.rows, grid.columns), owners)
            )
    return found, refusals


def _defaults(model: nn.Module, x: Images) -> tuple[dict[str, list[str]], dict[str, str]]:
    names, refusals = {}, {}
    for family, choose in FAMILIES.items():
        try:
            names[family] = choose(model, x)
        except NotApplicable as reason:
            refusals[family] = str(reason)
    return names, refusals
