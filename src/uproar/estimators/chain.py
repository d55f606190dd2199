"""A chain: everything between a model and an order, spelled out.

signed map → transforms and ensembles → sign → channels reduced → filters. The order of these steps is fixed; an
expression that says another order is refused. The whole chain, defaults included, is part of a result's identity.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
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
    def leaf(self) -> Call:
        """The estimator inside, without transforms."""
        *_, leaf = self.raw.walk()
        return leaf

    @property
    def facts(self) -> Mapping[str, Any]:
        """What is declared of the estimator inside."""
        return estimators[self.leaf.name].facts

    @property
    def needs_model(self) -> bool:
        """Whether the map depends on the model at all."""
        return bool(self.facts.get("model", True))

    @property
    def role(self) -> Role:
        """What it is: a method asks the model, or its maps were made before; truth is told pixels or the class."""
        facts = self.facts
        if facts.get("informed"):
            return "truth"
        if facts.get("model", True) or facts.get("stored") is not None:
            return "method"
        return "random" if self.raw.name == BASELINE and not self.filters else "baseline"

    @property
    def is_direct(self) -> bool:
        """Whether this is a control that removes without ranking."""
        return bool(self.facts["role"] == "direct")

    @property
    def files(self) -> list[StoredMaps]:
        """The file of finished maps inside, if there is one: no model and no other image can change these."""
        stored = self.facts.get("stored")
        return [] if stored is None else [stored]

    @property
    def passes(self) -> float:
        """Cost per image in forward-and-backward passes, if this chain is evaluated alone."""
        cost = 1.0
        for call in self.raw.walk():
            facts, options = estimators[call.name].facts, dict[str, Any](call.options)
            if facts["role"] == "ensemble":
                cost *= options["samples"]
            elif not call.args:
                cost *= facts["passes"](**options) if callable(facts["passes"]) else facts["passes"]
        return cost

    @property
    def identity(self) -> dict[str, Any]:
        """What two chains share that give the same numbers; a file of maps is named by its content."""
        leaf, stored = self.leaf, self.facts.get("stored")
        content = leaf.name if stored is None else f"maps:{stored.digest}"
        versions = {content if call is leaf else call.name: estimators[call.name].version for call in self.raw.walk()}
        of = self.facts.get("of")  # what it is made from counts where that is a user's
        if of and (code := estimators[of].code):
            versions[content] = f"{versions[content]} of {code}"
        filter_versions = {f.name: code for f in self.filters if (code := estimators[f.name].code)}
        return {
            "raw": str(self.raw).replace(leaf.name, content) if stored else str(self.raw),
            "filters": [str(f) for f in self.filters],
            "sign": self.sign,
            "channels": self.channels,
            "versions": versions | filter_versions,
        }

    def reduced(self, raw: Tensor, draws: Draws | None = None, per_channel: bool = False) -> Tensor:
        """The signed map (n, d, h, w) as one number per pixel, (n, h, w), or per channel value; filters apply to each.

        Without draws, those of samples 0, 1, ... of seed 0.
        """
        signed = SIGNS[self.sign](raw)
        a = signed.flatten(0, 1) if per_channel else CHANNELS[self.channels](signed)
        for call in self.filters:
            entry, inputs = estimators[call.name], list[Any]([a])
            if "draws" in entry.inputs:
                each = draws or Draws.of(0, len(raw))
                inputs.append(each.copies(range(signed.shape[1])) if per_channel else each)
            a = run(entry, inputs, entry.bind(**dict(call.options)))
        return a.view_as(signed) if per_channel else a


def read_chain(text: str | Chain, sign: Sign = "none", channels: Channels = "sum") -> Chain:
    """The chain an expression names; every name and option is checked here.

    >>> read_chain("gaussian(sg_sq(ig, samples=20))").name
    'gaussian(sg_sq(ig, samples=20))'
    >>> str(read_chain("gaussian(smoothgrad(samples=50))").raw)
    'sg(abs(grad), samples=50, sigma=0.15, unit=range)'
    """
    if isinstance(text, Chain):
        return text
    for kind, value, known in (("sign", sign, SIGNS), ("channels", channels, CHANNELS)):
        if value not in known:
            raise BadOption(f"{kind} must be one of {', '.join(known)}, not {value!r}.")
    steps: list[Call] = []  # outermost first, without what they are applied to
    names: list[Call] = []
    waiting: tuple[Call, ...] = (parse(text),)
    common = False
    while waiting:
        call = waiting[0]
        if not common:
            names.append(Call(call.name, (), call.options))
        if call.name in COMMON_NAMES:  # its options are those of the outermost call it stands for
            meant, common = parse(COMMON_NAMES[call.name]), True
            if call.args:
                raise BadInput(f"{call.name} takes options such as name=value, not {call.args[0]}.")
            call = Call(meant.name, meant.args, call.options)
        entry = estimators[call.name]
        role = entry.facts["role"]
        if role == "postprocess" and steps and estimators[steps[-1].name].facts["role"] != "postprocess":
            raise BadInput(
                f"{call.name} filters the finished map, so it must be outermost: "
                f"write {call.name}(...(...)), not ...({call})."
            )
        if role == "direct" and steps:
            raise BadInput(f"{call.name} removes without ranking; nothing can be applied to it.")
        if role in ("estimator", "direct") and call.args:
            raise BadInput(f"{call.name} takes options such as name=value, not {call.args[0]}.")
        if role not in ("estimator", "direct") and len(call.args) != 1:
            got = f"{len(call.args)} things" if call.args else "nothing"
            raise BadInput(f"{call.name} is applied to one estimator, e.g. {call.name}(grad); got {got}.")
        noisy = [step.name for step in steps if estimators[step.name].facts["role"] == "ensemble"]
        if entry.facts.get("stored") is not None and noisy:
            raise BadInput(
                f"{noisy[-1]} needs maps of noisy images, but {call.name} holds those of the images as they are; "
                "apply it where the maps are made."
            )
        steps.append(entry.complete(Call(call.name, (), call.options)))
        if not common:  # options that are defaults are left out of the name
            written = {k for k, _ in call.options}
            kept = [(k, v) for k, v in steps[-1].options if k in written and v != entry.options[k].default]
            names[-1] = Call(call.name, (), tuple(kept))
        waiting = call.args
    filters = [step for step in steps if estimators[step.name].facts["role"] == "postprocess"]
    raw, name = nested(steps[len(filters) :]), nested(names)
    return Chain(str(name), raw, tuple(reversed(filters)), sign, channels)


def nested(steps: Sequence[Call]) -> Call:
    """Each call applied to the next."""
    return functools.reduce(lambda inner, call: Call(call.name, (inner,), call.options), reversed(steps))


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
    groups: dict[tuple[str, ...], list[Chain]] = {}
    for chain in chains:
        noises = [call.options for call in chain.raw.walk() if estimators[call.name].facts["role"] == "ensemble"]
        groups.setdefault((chain.facts.get("of") or str(chain.leaf), *map(str, noises)), []).append(chain)
    return list(groups.values())


def noise_of(call: Call) -> Call:
    """The noise of an ensemble, without what it averages: equal for ensembles that can share a pass."""
    return Call("noise", (), call.options)
