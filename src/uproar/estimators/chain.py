"""A chain: everything between a model and an order, spelled out.

signed map → transforms and ensembles → sign → channels reduced → filters. The order of these steps is fixed; an
expression that says another order is refused. The whole chain, defaults included, is part of a result's identity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from uproar.errors import BadInput, BadOption
from uproar.estimators.registry import COMMON_NAMES, estimators, run
from uproar.expression import Call, parse
from uproar.seeds import Draws
from uproar.statistics.design import BASELINE
from uproar.types import Role

if TYPE_CHECKING:
    from uproar.estimators.adapters import StoredMaps

Sign = Literal["none", "abs", "sq", "relu"]
Channels = Literal["sum", "mean", "max"]

SIGNS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda a: a,
    "abs": torch.abs,
    "sq": torch.square,
    "relu": torch.relu,
}
CHANNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda a: a.sum(1),
    "mean": lambda a: a.mean(1),
    "max": lambda a: a.amax(1),
}


@dataclass(frozen=True)
class Chain:
    """One named way from a model to one number per pixel."""

    name: str
    """As the user wrote it, in canonical form, defaults left out."""
    raw: Call
    """The signed map with every option written out."""
    filters: tuple[Call, ...] = ()
    """Filters of the reduced map, innermost first."""
    sign: Sign = "none"
    channels: Channels = "sum"

    @property
    def leaves(self) -> list[Call]:
        """The estimators inside, without transforms."""
        return [call for call in self.raw.walk() if not call.args]

    def facts(self, name: str, default: Any = None) -> list[Any]:
        """A fact of each estimator inside."""
        return [estimators[leaf.name].facts.get(name, default) for leaf in self.leaves]

    @property
    def needs_model(self) -> bool:
        """Whether the map depends on the model at all."""
        return any(self.facts("model", True))

    @property
    def role(self) -> Role:
        """What it is: a method asks the model, or its maps were made before; truth is told pixels or the class."""
        if any(self.facts("informed")):
            return "truth"
        if self.needs_model or self.files:
            return "method"
        return "random" if self.raw.name == BASELINE and not self.filters else "baseline"

    @property
    def prepares(self) -> bool:
        """Whether something is made once for a model before images are explained."""
        return any(self.facts("prepare"))

    @property
    def knows_channels(self) -> bool:
        """Whether the signed map has one value per colour channel."""
        return all(self.facts("channels", True))

    @property
    def is_direct(self) -> bool:
        """Whether this is a control that removes without ranking."""
        return estimators[self.raw.name].facts["role"] == "direct"

    @property
    def files(self) -> list[StoredMaps]:
        """The files of finished maps inside, which no model and no other image can change."""
        return [stored for stored in self.facts("stored") if stored is not None]

    @property
    def class_blind(self) -> bool:
        """Whether the map does not depend on the class asked for."""
        return not any(self.facts("by_class", True))

    @property
    def passes(self) -> float:
        """Cost per image in forward-and-backward passes, if this chain is evaluated alone."""

        def cost(call: Call) -> float:
            facts = estimators[call.name].facts
            options: dict[str, Any] = dict(call.options)
            inside = sum(map(cost, call.args))
            if facts["role"] == "ensemble":
                return float(options["samples"] * inside)
            if call.args:
                return inside
            return float(facts["passes"](**options) if callable(facts["passes"]) else facts["passes"])

        return cost(self.raw)

    @property
    def identity(self) -> dict[str, Any]:
        """What two chains share that give the same numbers."""

        def by_content(call: Call) -> Call:
            """The call with files of maps named by their content, wherever they lie."""
            stored = estimators[call.name].facts.get("stored")
            name = call.name if stored is None else f"maps:{stored.digest}"
            return Call(name, tuple(map(by_content, call.args)), call.options)

        raw = by_content(self.raw)
        versions = {}
        for old, new in zip(self.raw.walk(), raw.walk(), strict=True):
            entry = estimators[old.name]
            of = entry.facts.get("of")  # what it is made from counts where that is a user's
            inner = estimators[of].code if of else ""
            versions[new.name] = f"{entry.version} of {inner}" if inner else entry.version
        own = {f.name: code for f in self.filters if (code := estimators[f.name].code)}
        return {
            "raw": str(raw),
            "filters": [str(f) for f in self.filters],
            "sign": self.sign,
            "channels": self.channels,
            "versions": versions | own,
        }

    def reduced(self, raw: Tensor, draws: Draws | None = None) -> Tensor:
        """The signed map (n, d, h, w) as one number per pixel, (n, h, w)."""
        return self.filtered(CHANNELS[self.channels](SIGNS[self.sign](raw)), draws)

    def per_channel(self, raw: Tensor, draws: Draws | None = None) -> Tensor:
        """The signed map as one number per channel value; filters apply to each channel."""
        signed = SIGNS[self.sign](raw)
        each = None if draws is None else draws.copies(range(signed.shape[1]))
        return self.filtered(signed.flatten(0, 1), each).view_as(signed)

    def filtered(self, a: Tensor, draws: Draws | None = None) -> Tensor:
        """The filters applied to reduced maps; without draws, those of samples 0, 1, ... of seed 0."""
        for call in self.filters:
            entry = estimators[call.name]
            own = (draws or Draws.of(0, len(a)),) if "draws" in entry.inputs else ()
            a = run(entry, [a, *own], entry.bind(**dict(call.options)))
        return a


def read_chain(text: str | Chain, sign: Sign = "none", channels: Channels = "sum") -> Chain:
    """The chain an expression names; every name and option is checked here.

    >>> read_chain("gaussian(sg_sq(ig, samples=20))").name
    'gaussian(sg_sq(ig, samples=20))'
    """
    if isinstance(text, Chain):
        return text
    for kind, value, known in (("sign", sign, SIGNS), ("channels", channels, CHANNELS)):
        if value not in known:
            raise BadOption(f"{kind} must be one of {', '.join(known)}, not {value!r}.")
    call = parse(text)
    filters: list[Call] = []
    rest = _without_common_names(call)
    while estimators[rest.name].facts["role"] == "postprocess":
        _one_argument(rest)
        filters.append(estimators.complete(Call(rest.name, (), rest.options)))
        rest = rest.args[0]
    raw = _complete(rest, outermost=True)
    if filters and estimators[raw.name].facts["role"] == "direct":
        raise BadInput(f"{raw.name} removes without ranking; there is no map for {filters[0].name}.")
    return Chain(str(_plain(call)), raw, tuple(reversed(filters)), sign, channels)


def _without_common_names(call: Call) -> Call:
    """The call with common names written out; options of such a name are those of the outermost call it stands for.

    >>> str(_without_common_names(parse("gaussian(smoothgrad(samples=50))")))
    'gaussian(sg(abs(grad), samples=50))'
    """
    inner = tuple(map(_without_common_names, call.args))
    if call.name not in COMMON_NAMES:
        return Call(call.name, inner, call.options)
    if inner:
        raise BadInput(f"{call.name} takes options such as name=value, not {inner[0]}.")
    meant = parse(COMMON_NAMES[call.name])
    return Call(meant.name, meant.args, call.options)


def require_maps(chains: list[Chain]) -> list[Chain]:
    """The chains, if each has a map: a control that removes without ranking has none."""
    for chain in chains:
        if chain.is_direct:
            raise BadInput(
                f"{chain.name} removes pixels without ranking them, so it has no map to show or score; a study "
                "(uproar run) compares it."
            )
    return chains


def families(chains: Sequence[Chain]) -> list[list[Chain]]:
    """Chains grouped so that those that share passes of the model are together."""

    def work(call: Call, where: str) -> set[str]:
        """Which estimators are asked at which points."""
        facts = estimators[call.name].facts
        if facts["role"] == "ensemble":
            where = f"{where}+{noise_of(call)}"
        if call.args:
            return set().union(*(work(arg, where) for arg in call.args))
        return {f"{facts.get('of') or call}@{where}"}

    groups: list[tuple[set[str], list[Chain]]] = []
    for chain in chains:
        shared, members = work(chain.raw, "clean"), [chain]
        for group in [group for group in groups if group[0] & shared]:
            groups.remove(group)
            shared, members = shared | group[0], group[1] + members
        groups.append((shared, members))
    return [members for _, members in groups]


def noise_of(call: Call) -> Call:
    """The noise of an ensemble, without what it averages: equal for ensembles that can share a pass."""
    return Call("noise", (), call.options)


def _one_argument(call: Call) -> None:
    if len(call.args) != 1:
        got = "nothing" if not call.args else f"{len(call.args)} things"
        raise BadInput(f"{call.name} is applied to one estimator, e.g. {call.name}(grad); got {got}.")


def _complete(call: Call, outermost: bool = False) -> Call:
    entry = estimators[call.name]
    role = entry.facts["role"]
    if role == "postprocess":
        raise BadInput(
            f"{call.name} filters the finished map, so it must be outermost: "
            f"write {call.name}(...(...)), not ...({call})."
        )
    if role == "direct" and not outermost:
        raise BadInput(f"{call.name} removes without ranking; nothing can be applied to it.")
    if role in ("transform", "ensemble"):
        _one_argument(call)
    elif call.args:
        raise BadInput(f"{call.name} takes options such as name=value, not {call.args[0]}.")
    inner = tuple(_complete(arg) for arg in call.args)
    facts = {each.name: estimators[each.name].facts for arg in inner for each in arg.walk()}
    finished = [name for name, each in facts.items() if each.get("stored") is not None]
    if role == "ensemble" and finished:
        raise BadInput(
            f"{call.name} needs maps of noisy images, but {finished[0]} holds those of the images as they are; "
            "apply it where the maps are made."
        )
    return entry.complete(Call(call.name, inner, call.options))


def _plain(call: Call) -> Call:
    if call.name in COMMON_NAMES:
        return call
    entry = estimators[call.name]
    full = entry.bind(**dict(call.options))
    kept = [(k, full[k]) for k, _ in call.options if full[k] != entry.options[k].default]
    return Call(call.name, tuple(_plain(arg) for arg in call.args), tuple(sorted(kept)))
