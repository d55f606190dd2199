"""Metrics of maps: every metric of a study for every test image, under chains that share passes."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from uproar.data import Split
from uproar.errors import NotApplicable
from uproar.estimators import Chain, Context, explain_chains
from uproar.metrics import Batch
from uproar.metrics.evaluation import Evaluation, evaluate_methods
from uproar.metrics.registry import read_metric
from uproar.models import MemoryBudget
from uproar.models.forward import callable_from_cpu, device_of, explain_on_device
from uproar.seeds import Draws
from uproar.store import Item
from uproar.study.base_models import BaseModels
from uproar.study.cell import ScoreCell, by_estimator
from uproar.study.settings import Inputs, Keys, explained_targets, followed_targets
from uproar.training import FineTuning, predict


class MetricScores:
    """The metrics of a setting's maps; they need no retraining."""

    def __init__(self, inputs: Inputs, keys: Keys, base_models: BaseModels) -> None:
        self.inputs, self.keys, self.base_models = inputs, keys, base_models

    def compute(self, units: Sequence[ScoreCell]) -> None:
        """Metrics of maps under chains of one replicate that share passes; those of training images come after."""
        for split in (self.inputs.task.test, self.inputs.task.train):
            if own := [unit for unit in units if self.inputs.split_of(unit) is split]:
                self._compute(own)

    def _compute(self, units: Sequence[ScoreCell]) -> None:
        """Metrics of the maps of the same images; each changed image is shown to the model once."""
        seed, by_chain, rows = units[0].seed, by_estimator(units), self.inputs.rows_of(units[0])
        split = self.inputs.split_of(units[0])
        chains = [self.inputs.chain(name) for name in by_chain]
        for chain in chains:
            if chain.is_direct:
                raise NotApplicable(f"{chain.name} removes without ranking, so there is no map to score")
        model = self.base_models.get(seed)[0]
        calls = {name: [read_metric(unit.metric) for unit in own] for name, own in by_chain.items()}
        states = self.base_models.states(model, chains, seed)
        fine_tuned = self._fine_tuned(seed)
        started = time.perf_counter()
        methods = evaluate_methods(
            calls,
            [list(by_chain)],
            lambda _, part: [
                replace(batch, fine_tuned=fine_tuned)
                for batch in self._batches(model, chains, seed, split, rows[part], states)
            ],
            len(rows),
            MemoryBudget.of(model, self.inputs.task.test.read(slice(0, 2))),
        )
        seconds = (time.perf_counter() - started) / len(units)
        for name, own in by_chain.items():
            for unit, call in zip(own, calls[name], strict=True):
                one = Evaluation.of(call, methods[name].responses[str(call)], methods[name].tied)
                facts = {**one.facts, "seconds": seconds, "forwards": methods[name].shown}
                self.inputs.store.write("score", self.keys.score(unit), Item(one.arrays, _jsonable(facts)))

    def _fine_tuned(self, seed: int) -> Callable[[FineTuning], nn.Module]:
        """Gives the fine-tuned copies of a base model; training images are read when the first is asked for."""
        copies = functools.cache(lambda: self.base_models.fine_tuned(seed))
        return functools.cache(lambda tuning: callable_from_cpu(copies()(tuning)))

    def _batches(
        self, model: nn.Module, chains: Sequence[Chain], seed: int, split: Split, rows: Tensor, states: dict[str, Any]
    ) -> list[Batch]:
        """Some images with their maps under each chain; the maps share passes."""
        x, y, truth = split.read(rows), split.labels[rows], split.truth(rows)
        draws = Draws.of(seed, rows, split.name)
        clean = predict(model, x)
        context = Context(draws, self.inputs.task.mean, self.inputs.task.train, truth, states, split)
        asked = self.inputs.setting.target
        target, y = explained_targets(asked, clean, y), followed_targets(asked, clean, y)

        def explains(chain: Chain) -> Callable[..., Tensor]:
            @explain_on_device
            def explain(other: nn.Module, images: Tensor, classes: Tensor, own: Draws) -> Tensor:
                around = Context(own, self.inputs.task.mean, self.inputs.task.train, None, states)
                return explain_chains(other, images, classes, around, [chain])[0]

            return explain

        device = device_of(model)
        made = explain_chains(model, x.to(device), target.to(device), context, list(chains))
        maps = [own.to(x.device) for own in made]  # each in its own precision
        return [
            Batch(
                callable_from_cpu(model),
                x,
                y,
                own,
                clean,
                draws,
                self.inputs.task.mean,
                truth,
                explain=None if chain.files else explains(chain),
                boxed=split.boxed(rows),
            )
            for chain, own in zip(chains, maps, strict=True)
        ]


def _jsonable(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts as JSON can hold them: a number that is not defined becomes null."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in facts.items()}
