"""Chains evaluated together: every pass of the model serves all chains that can use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from uproar.errors import BadMap, NotApplicable
from uproar.estimators.chain import Chain, noise_of
from uproar.estimators.class_scores import rows_for
from uproar.estimators.registry import Context, estimators, run
from uproar.estimators.transforms import add_noise
from uproar.expression import Call
from uproar.guard import guarded_call, is_builtin
from uproar.models.forward import ScoresOnly, borrowed
from uproar.models.output_kind import (
    SOFTMAX,
    Output,
    OutputKind,
    assumed_output,
    recognise_output,
    require_kind,
    sum_tolerance,
)
from uproar.tensors import in_batches, map_values
from uproar.training import predict
from uproar.types import KINDS, Images, Labels

BATCH = 64


class SharedMaps:
    """The signed maps of some calls at one batch of images, each computed once."""

    def __init__(self, model: nn.Module, x: Images, target: Labels, context: Context, wanted: Sequence[Call]) -> None:
        self.model, self.x, self.target, self.context = model, x, target, context
        self.wanted = wanted
        self.known: dict[Call, Tensor] = {}
        self.moments: dict[tuple[Call, Call], tuple[Tensor, Tensor]] = {}

    def __getitem__(self, call: Call) -> Tensor:
        if call not in self.known:
            entry, options = estimators[call.name], dict(call.options)
            role = entry.facts["role"]
            if role == "transform":
                maps = run(entry, [self[call.args[0]]], options)
            elif role == "ensemble":
                maps = run(entry, self._moments(call), options)
            else:
                maps = self._estimated(call)
            self.known[call] = _checked(maps, call, self.x)
        return self.known[call]

    def _estimated(self, call: Call) -> Any:
        """What the function of an estimator returns."""
        entry = estimators[call.name]
        given: dict[str, Any] = {}
        if "context" in entry.inputs:
            given["context"] = self.context
        if "base" in entry.inputs:
            given["base"] = self[estimators.complete(Call(entry.facts["of"]))]
        if "state" in entry.inputs:
            given["state"] = self.context.states[str(call)]
        # a function of the user finds the scores that `target` counts in what the model returns
        plain = assumed_output().is_plain or is_builtin(entry.function)
        model = self.model if plain else ScoresOnly(self.model)
        try:
            return run(entry, [model, self.x, self.target], given | dict(call.options), model)
        except RuntimeError as error:
            if "not supported on ScriptModules" not in str(error):
                raise
            raise NotApplicable(
                f"{call.name} looks inside the model, and a scripted one (torch.jit) does not let anyone in"
            ) from error

    def _moments(self, call: Call) -> tuple[Tensor, Tensor]:
        """Mean and variance over noisy copies; the first to ask pays for all that share the noise."""
        noise, base = noise_of(call), call.args[0]
        if (noise, base) not in self.moments:
            samples: Any = dict(noise.options)["samples"]
            # what all chains want under this noise, each once
            ensembles = [ensemble for wanted in self.wanted for ensemble in _outer_ensembles(wanted)]
            bases = list(dict.fromkeys(each.args[0] for each in ensembles if noise_of(each) == noise)) or [base]
            moments = in_batches(
                lambda x, target, context: self._noisy(noise, bases, x, target, context),
                self.x,
                self.target,
                self.context,
                size=max(2, rows_for(self.x) // samples),
            )
            for i, each in enumerate(bases):
                self.moments[noise, each] = moments[2 * i], moments[2 * i + 1]
        return self.moments[noise, base]

    def _noisy(self, noise: Call, bases: list[Call], x: Images, target: Labels, context: Context) -> tuple[Tensor, ...]:
        """Mean and variance of the maps of every base, one after the other, for a few images."""
        options: dict[str, Any] = dict(noise.options)
        samples = options["samples"]
        copies = add_noise(x, context.draws, **options)
        # by base: the first map, and sums of differences from it and of their squares, small where maps hardly vary
        sums: list[tuple[Tensor, Tensor, Tensor]] = []
        step = max(1, rows_for(x) // len(x))
        for first in range(0, samples, step):
            part = copies[:, first : first + step]
            numbers = range(first, first + part.shape[1])
            classes = target.repeat_interleave(len(numbers))
            point = SharedMaps(self.model, part.flatten(0, 1), classes, context.copies(numbers), bases)
            for i, base in enumerate(bases):
                maps = point[base].unflatten(0, (len(x), -1))
                if first == 0:
                    start = maps[:, 0].clone()
                    sums.append((start, torch.zeros_like(start), torch.zeros_like(start)))
                start, total, squares = sums[i]
                for copy in maps.unbind(1):
                    difference = copy - start
                    total += difference
                    squares.addcmul_(difference, difference)
        moments: list[Tensor] = []
        for start, total, squares in sums:
            shift = total / samples
            moments += [start + shift, (squares / samples - shift.square()).clamp_min(0)]
        return tuple(moments)


def output_for(
    model: nn.Module, x: Images, chains: Sequence[Chain], batch_size: int = BATCH, output: Output = "auto"
) -> OutputKind:
    """What the model's answers are taken for while these chains are evaluated, `output` being what was said of them.

    Where nothing was said and no chain needs probabilities, the model is not run, and its scores are explained as
    they are. A chain that does not serve the kind is refused by name.
    """
    leaves = [leaf for chain in chains for leaf in chain.leaves]
    probable = [leaf for leaf in leaves if dict(leaf.options).get("score") == "probability"]
    probable += [leaf for leaf in leaves if estimators[leaf.name].facts.get("softmax", False)]
    if output == "auto" and not probable:
        return SOFTMAX
    answers = predict(model, x, batch_size)
    kind = recognise_output(model, x, answers, output, sum_tolerance(model))
    check_kind(chains, kind)
    return kind


def check_kind(chains: Sequence[Chain], kind: OutputKind) -> None:
    """Refuse estimators that do not serve a kind of output, by name and with the reason."""
    _check_calls([chain.raw for chain in chains], kind)


def _check_calls(calls: Sequence[Call], kind: OutputKind) -> None:
    for leaf in (leaf for call in calls for leaf in call.walk()):
        served = estimators[leaf.name].facts.get("kinds", KINDS)
        require_kind(leaf.name, served, kind.kind, "it follows a probability, and values have none")


def raw_maps(
    model: nn.Module, x: Images, target: Labels, context: Context, calls: Sequence[Call], batch_size: int = BATCH
) -> dict[Call, Tensor]:
    """The signed maps of several calls for all images, with shared passes, independent of the batch."""

    def batch(x: Images, target: Labels, context: Context) -> dict[Call, Tensor]:
        point = SharedMaps(model, x, target, context, calls)
        return {call: map_values(point[call], call.name) for call in calls}

    _check_calls(calls, assumed_output())
    with borrowed(model), torch.no_grad():
        return in_batches(batch, x, target, context, size=batch_size)


def explain_chains(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    chains: Sequence[Chain],
    batch_size: int = BATCH,
    features: str = "pixel",
) -> list[Tensor]:
    """One map per chain: (n, h, w), or (n, c, h, w) where channel values are ranked on their own."""
    calls = list(dict.fromkeys(chain.raw for chain in chains))
    raw = raw_maps(model, x, target, context, calls, batch_size)
    if features == "channel":
        return [chain.per_channel(raw[chain.raw], context.draws) for chain in chains]
    return [chain.reduced(raw[chain.raw], context.draws) for chain in chains]


def prepare_states(model: nn.Module, context: Context, chains: Sequence[Chain]) -> Mapping[str, dict[str, Tensor]]:
    """What the `prepare` functions of the chains' estimators make, by complete expression."""
    leaves = {leaf for chain in chains for leaf in chain.leaves}
    states = {}
    for leaf in leaves:
        prepare = estimators[leaf.name].facts.get("prepare")
        if prepare:
            owner = f"The preparation of the estimator {leaf.name}"
            states[str(leaf)] = guarded_call(owner, prepare, [model, context], dict(leaf.options), model)
    return states


def _outer_ensembles(call: Call) -> list[Call]:
    """The ensembles met first on the way in: those inside another see other images."""
    role = estimators[call.name].facts["role"]
    if role == "ensemble":
        return [call]
    return [ensemble for arg in call.args for ensemble in _outer_ensembles(arg)]


def _checked(maps: Any, call: Call, x: Images) -> Tensor:
    """The map, if it is one: a tensor with the image's rows and columns and 1 or c channels."""
    n, c, h, w = x.shape
    if isinstance(maps, Tensor) and maps.shape == (n, h, w):
        maps = maps[:, None]
    if not isinstance(maps, Tensor) or maps.shape not in ((n, c, h, w), (n, 1, h, w)):
        got = tuple(maps.shape) if isinstance(maps, Tensor) else type(maps).__name__
        raise BadMap(f"{call.name} returned {got} for images {(n, c, h, w)}; it must be one map each.")
    if maps.is_complex():
        raise BadMap(f"{call.name} returned complex numbers, which have no order; return real ones.")
    return maps.detach() if maps.is_floating_point() else maps.float()
