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
            n, c, h, w = self.x.shape
            if isinstance(maps, Tensor) and maps.shape == (n, h, w):
                maps = maps[:, None]
            if not isinstance(maps, Tensor) or maps.shape not in ((n, c, h, w), (n, 1, h, w)):
                got = tuple(maps.shape) if isinstance(maps, Tensor) else type(maps).__name__
                raise BadMap(f"{call.name} returned {got} for images {(n, c, h, w)}; it must be one map each.")
            self.known[call] = map_values(maps.detach(), call.name)
        return self.known[call]

    def _estimated(self, call: Call) -> Any:
        """What the function of an estimator returns."""
        entry = estimators[call.name]
        arguments: dict[str, Any] = {}
        if "context" in entry.inputs:
            arguments["context"] = self.context
        if "base" in entry.inputs:
            arguments["base"] = self[estimators.complete(Call(entry.facts["of"]))]
        if "state" in entry.inputs:
            arguments["state"] = self.context.states[str(call)]
        # a function of the user finds the scores that `target` counts in what the model returns
        plain = assumed_output().is_plain or is_builtin(entry.function)
        model = self.model if plain else ScoresOnly(self.model)
        try:
            return run(entry, [model, self.x, self.target], arguments | dict(call.options), model)
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
            # what all chains want under this noise, each once; an ensemble inside another sees other images
            roles = {each: estimators[each.name].facts["role"] for wanted in self.wanted for each in wanted.walk()}
            ensembles = [next((e for e in wanted.walk() if roles[e] == "ensemble"), None) for wanted in self.wanted]
            bases = list(dict.fromkeys(e.args[0] for e in ensembles if e and noise_of(e) == noise)) or [base]
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
            chunk = copies[:, first : first + step]
            numbers = range(first, first + chunk.shape[1])
            classes = target.repeat_interleave(len(numbers))
            point = SharedMaps(self.model, chunk.flatten(0, 1), classes, context.copies(numbers), bases)
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
    probable = (
        dict(chain.leaf.options).get("score") == "probability" or chain.facts.get("softmax") for chain in chains
    )
    if output == "auto" and not any(probable):
        return SOFTMAX
    answers = predict(model, x, batch_size)
    kind = recognise_output(model, x, answers, output, sum_tolerance(model))
    check_kind([chain.raw for chain in chains], kind)
    return kind


def check_kind(calls: Sequence[Call], kind: OutputKind) -> None:
    """Refuse estimators that do not serve a kind of output, by name and with the reason."""
    for leaf in (leaf for call in calls for leaf in call.walk()):
        served = estimators[leaf.name].facts.get("kinds", KINDS)
        require_kind(leaf.name, served, kind.kind, "it follows a probability, and values have none")


def raw_maps(
    model: nn.Module, x: Images, target: Labels, context: Context, calls: Sequence[Call], batch_size: int = BATCH
) -> dict[Call, Tensor]:
    """The signed maps of several calls for all images, with shared passes, independent of the batch."""

    def batch(x: Images, target: Labels, context: Context) -> dict[Call, Tensor]:
        point = SharedMaps(model, x, target, context, calls)
        return {call: point[call] for call in calls}

    check_kind(calls, assumed_output())
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
    return [chain.reduced(raw[chain.raw], context.draws, features == "channel") for chain in chains]


def prepare_states(model: nn.Module, context: Context, chains: Sequence[Chain]) -> Mapping[str, dict[str, Tensor]]:
    """What the `prepare` functions of the chains' estimators make, by complete expression."""
    states = {}
    for leaf, prepare in {chain.leaf: chain.facts.get("prepare") for chain in chains}.items():
        if prepare:
            owner = f"The preparation of the estimator {leaf.name}"
            states[str(leaf)] = guarded_call(owner, prepare, [model, context], dict(leaf.options), model)
    return states
