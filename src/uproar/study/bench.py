"""The steps of a study in one setting: train, explain, rank, retrain, evaluate, score.

Each step is a function of what it depends on. It asks the store first, and makes what is missing, inputs included: a
lost or damaged file costs time, nothing else.
"""

from __future__ import annotations

import functools

import torch

from uproar.data import Task
from uproar.estimators import Chain
from uproar.models import ModelSpec
from uproar.store import Store
from uproar.study.base_models import BaseModels
from uproar.study.changed_images import FillContexts
from uproar.study.evaluators import Evaluators
from uproar.study.metric_scores import MetricScores
from uproar.study.rankings import Explainer, Rankings
from uproar.study.retraining import Cells
from uproar.study.settings import Inputs, Keys, Setting


class Bench:
    """All steps of one setting on one store, each an object that uses those before it.

    inputs         the data, the model, the estimators, as the setting names them
    keys           what each result depends on
    base_models    the networks that are explained
    explainer      maps, and the rankings of pixels made from them
    rankings       the rankings in the store
    evaluators     the networks that judge estimators without having seen their masks
    cells          changed images, retrained networks, their accuracy
    metric_scores  metrics of the maps, which need no retraining
    """

    def __init__(self, setting: Setting, store: Store) -> None:
        self.setting, self.store = setting, store
        self.forget()

    def forget(self) -> None:
        """Drop all data and networks; they are loaded anew when they are next needed."""
        self.inputs = Inputs(self.setting, self.store)
        self.keys = Keys(self.inputs)
        self.base_models = BaseModels(self.inputs, self.keys)
        self.explainer = Explainer(self.inputs, self.keys, self.base_models)
        self.rankings = Rankings(self.inputs, self.keys, self.explainer)
        self.evaluators = Evaluators(self.inputs, self.keys, self.base_models, FillContexts(self.inputs))
        self.cells = Cells(self.inputs, self.keys, self.base_models, self.rankings, self.evaluators)
        self.metric_scores = MetricScores(self.inputs, self.keys, self.base_models)

    @property
    def task(self) -> Task:
        """The data."""
        return self.inputs.task

    @property
    def spec(self) -> ModelSpec:
        """The model."""
        return self.inputs.spec

    @property
    def device(self) -> torch.device:
        """Where the networks of this process are."""
        return self.inputs.device

    def chain(self, name: str) -> Chain:
        """An estimator of the study."""
        return self.inputs.chain(name)


@functools.lru_cache(maxsize=4)
def _bench(setting: Setting, root: str, code: str) -> Bench:
    return Bench(setting, Store(root))


def bench_for(setting: Setting, root: str) -> Bench:
    """The bench of a setting in this process: its data and models are loaded once, until a user's code changes."""
    return _bench(setting, root, setting.code)


bench_for.cache_clear = _bench.cache_clear  # type: ignore[attr-defined]
