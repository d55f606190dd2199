"""The steps of a study: train, explain, retrain, evaluate, score. Each is a function of what it depends on.

Each step asks the store first, and makes what is missing, inputs included: a lost or damaged file costs time, nothing
else. `Bench` has all of them, one built on the other:

    identity     what each result depends on: its key
    bases        the networks that are explained
    explaining   the order of all pixels under an estimator
    retraining   changed images, fresh networks, their answers
    steps        metrics of the maps, which need no retraining
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from uproar.errors import NotApplicable
from uproar.estimators import Chain, Context, explain_chains
from uproar.expression import Call
from uproar.metrics import Batch, metrics
from uproar.metrics.base import Responses, read_metric
from uproar.metrics.probe import evaluate, joined, summarise
from uproar.models import MemoryBudget
from uproar.models.borrow import device_of
from uproar.models.remote_device import callable_from_cpu, explain_on_device
from uproar.removal.fill import fill_code
from uproar.removal.order import tied_pixels
from uproar.seeds import Draws
from uproar.statistics.bootstrap import bootstrap
from uproar.storage.store import Item, Store, key_of
from uproar.study.cell import Scored, by_estimator
from uproar.study.retraining import Retraining
from uproar.study.settings import Setting
from uproar.training import predict

SCORED = 64
"""Images scored at a time, at most."""

RESAMPLES = "resampled"
"""The array of a score item that holds the metric's number for many resamples of the images."""


class Bench(Retraining):
    """All steps of one setting on one store."""

    def score_key(self, unit: Scored) -> str:
        """One metric of one chain's maps of the test images."""
        call = metrics.complete(read_metric(unit.metric))
        chain = self.chain(unit.estimator)
        inputs = {
            "chain": chain.identity,
            "metric": str(call),
            "version": metrics[call.name].version,
            "model": self.model_key(unit.seed),
            "target": self.setting.target,
            "seed": unit.seed,
            "resamples": RESAMPLES,
            **fill_code(dict(call.options).get("fill")),
        }
        return key_of("score", {**self._annotated, **inputs})

    def score(self, units: Sequence[Scored]) -> None:
        """Metrics of the maps of all test images, under chains of one replicate that share passes.

        Each changed image is shown to the model once.
        """
        seed, asked = units[0].seed, by_estimator(units)
        chains = [self.chain(name) for name in asked]
        for chain in chains:
            if chain.is_direct:
                raise NotApplicable(f"{chain.name} removes without ranking, so there is no map to score")
        model = self.base(seed)[0]
        calls = {name: [read_metric(unit.metric) for unit in own] for name, own in asked.items()}
        states = self._states(model, chains, seed)
        parts: dict[str, list[dict[str, Responses]]] = {name: [] for name in asked}
        ties: dict[str, list[Tensor]] = {name: [] for name in asked}
        shown, started = dict.fromkeys(asked, 0), time.perf_counter()

        def scored(span: slice, rows: int) -> list[tuple[dict[str, Responses], int, Tensor]]:
            batches = self._batches(model, chains, seed, span, states)
            return [
                (*evaluate(own, batch, rows), tied_pixels(batch.maps))
                for own, batch in zip(calls.values(), batches, strict=True)
            ]

        budget = MemoryBudget.of(model, self.task.test.read(slice(0, 2)))
        for found in budget.over(len(self.task.test), SCORED, scored):
            for name, (responses, passed, tied_in) in zip(asked, found, strict=True):
                parts[name].append(responses)
                ties[name].append(tied_in)
                shown[name] += passed
        seconds = (time.perf_counter() - started) / len(units)
        for name, own in asked.items():
            everything, tied = joined(parts[name]), float(torch.cat(ties[name]).mean())
            for unit, call in zip(own, calls[name], strict=True):
                facts = {"tied": tied, "seconds": seconds, "forwards": shown[name]}
                self._keep(unit, call, everything[str(call)], facts)

    def _keep(self, unit: Scored, call: Call, kept: Responses, facts: dict[str, Any]) -> None:
        arrays = {name: value.contiguous().numpy() for name, value in kept.items()}
        arrays[RESAMPLES] = bootstrap(call, kept)
        item = Item(arrays, _jsonable({**summarise(call, kept), **facts}))
        self.store.write("score", self.score_key(unit), item)

    def _batches(
        self, model: nn.Module, chains: Sequence[Chain], seed: int, rows: slice, states: dict[str, Any]
    ) -> list[Batch]:
        """Some test images with their maps under each chain; the maps share passes."""
        test = self.task.test
        x, y, truth = test.read(rows), test.labels[rows], test.truth(rows)
        draws = Draws.of(seed, range(rows.start, rows.stop), "test")
        clean = predict(model, x)
        context = Context(draws, self.task.mean, self.task.train, truth, states, test)
        target = clean.argmax(1) if self.setting.target == "predicted" else y

        def explains(chain: Chain) -> Callable[..., Tensor]:
            @explain_on_device
            def explain(other: nn.Module, images: Tensor, classes: Tensor, own: Draws) -> Tensor:
                around = Context(own, self.task.mean, self.task.train, None, states)
                return explain_chains(other, images, classes, around, [chain])[0]

            return explain

        place, asked = device_of(model), callable_from_cpu(model)
        made = explain_chains(model, x.to(place), target.to(place), context, list(chains))
        maps = [own.to(x.device) for own in made]  # each in its own precision
        return [
            Batch(
                asked,
                x,
                y,
                own,
                clean,
                draws,
                self.task.mean,
                truth,
                explain=None if chain.files else explains(chain),
                boxed=test.boxed(rows),
            )
            for chain, own in zip(chains, maps, strict=True)
        ]


def _jsonable(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts as JSON can hold them: a number that is not defined becomes null."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in facts.items()}


@functools.lru_cache(maxsize=4)
def _bench(setting: Setting, root: str, code: str) -> Bench:
    return Bench(setting, Store(root))


def bench_for(setting: Setting, root: str) -> Bench:
    """The bench of a setting in this process: its data and models are loaded once, until a user's code changes."""
    return _bench(setting, root, setting.code)


bench_for.cache_clear = _bench.cache_clear  # type: ignore[attr-defined]
