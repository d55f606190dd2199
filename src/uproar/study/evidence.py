"""Results of studies as audits read them: tables, and on demand the log probabilities, maps and masks behind them."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import scipy
import torch

from uproar.audits import registry
from uproar.data import Task
from uproar.errors import Absent, Damaged, NotApplicable
from uproar.metrics.probe import fractions_of
from uproar.metrics.registry import read_metric
from uproar.results.view import StudyView
from uproar.storage.store import Item, Store
from uproar.study.bench import Bench, bench_for
from uproar.study.cell import Cell, Outcome, ScoreCell, Unit
from uproar.study.collect import collect
from uproar.study.settings import ImageRanking, Setting
from uproar.study.spec import Study
from uproar.study.trials import trials_in


class StudyEvidence(registry.StudyEvidence):
    """The results of one study for one task and model."""

    def __init__(self, study: Study, store: Store, outcomes: Mapping[Unit, Outcome] | None = None) -> None:
        self.study, self._store, self._outcomes = study, store, outcomes or {}

    @functools.cached_property
    def _bench(self) -> Bench:
        (setting,) = Setting.all_of(self.study)
        return bench_for(setting, self._store.root)

    @property
    def task(self) -> Task:
        """The data."""
        return self._bench.task

    @property
    def estimators(self) -> tuple[str, ...]:
        """The chains by name, in the order of the study."""
        return tuple(chain.name for chain in self.study.chains)

    @functools.cached_property
    def view(self) -> StudyView:
        """Its results: curves, areas and the study's own verdicts."""
        results = collect(self.study, self._store, self._outcomes, with_pictures=False)
        return results.view(self._bench.setting.task, self._bench.spec.name)

    def answers(self, protocol: str, estimator: str, fraction: float, seed: int) -> np.ndarray:
        """Log probabilities of the test images, (n, classes), float64."""
        setting = self._bench.setting
        cell = Cell(setting.task, setting.model, estimator, protocol, fraction, seed)
        item = self._bench.cells.find(cell)
        if item is None:
            raise NotApplicable(f"the cell {cell} is not finished")
        return _log_probabilities(item)

    def base_answers(self, seed: int) -> np.ndarray:
        """Log probabilities that the network which is explained gives the unchanged test images."""
        item = self._store.find("model", self._bench.keys.model(seed))
        if item is None:
            raise NotApplicable(f"the base network of seed {seed} is not finished")
        return _log_probabilities(item)

    def responses(self, metric: str, estimator: str, seed: int) -> Mapping[str, np.ndarray]:
        """A metric's values per test image (`value`), and what else it keeps (`curve`, ...)."""
        setting = self._bench.setting
        name = str(read_metric(metric))
        unit = ScoreCell(setting.task, setting.model, estimator, name, seed)
        item = self._store.find("score", self._bench.keys.score(unit))
        if item is None:
            raise NotApplicable(f"{unit} is not finished")
        return item.arrays

    def axis(self, metric: str) -> tuple[float, ...]:
        """Where the points of a metric's curves lie."""
        return fractions_of(read_metric(metric), self.task.shape)

    def maps(self, estimator: str, seed: int) -> np.ndarray:
        """The maps of the test images, (n, h, w), each scaled so that its largest size is 1."""
        chain = self._bench.chain(estimator)
        maps = self._bench.rankings.test_maps(chain, seed)
        if maps is not None:
            return maps.sum(1) if maps.ndim == 4 else maps
        raise NotApplicable(f"the maps of {estimator} for seed {seed} are not in the store")

    def removed(self, estimator: str, seed: int, fraction: float, split: str = "test") -> np.ndarray:
        """The first share of the order of every image of a split, bool (n, h, w)."""
        chosen = self.task.train if split == "train" else self.task.test
        chain = self._bench.chain(estimator)
        try:
            gone = self._bench.rankings.important(ImageRanking(chain, seed), fraction, chosen, make=False)
        except (Absent, Damaged):
            raise NotApplicable(f"{estimator} was not ranked for seed {seed} at t={fraction:g}") from None
        return torch.as_tensor(gone).numpy()


def _log_probabilities(item: Item) -> np.ndarray:
    return scipy.special.log_softmax(item.arrays["test_scores"].astype(np.float64), axis=1)


class Evidence(registry.Evidence):
    """The study an audit judges, and the parts it asked for, by name."""

    def __init__(
        self,
        studies: Mapping[str, Study],
        store: Store,
        outcomes: Mapping[Unit, Outcome] | None = None,
        trials: registry.Trials | None = None,
    ) -> None:
        self.study = next(iter(studies.values()))
        self._store, self._trials = store, trials
        self._parts = {name: StudyEvidence(study, store, outcomes) for name, study in studies.items()}

    def __getitem__(self, part: str) -> StudyEvidence:
        return self._parts[part]

    @property
    def trials(self) -> Mapping[str, np.ndarray]:
        """The values of the trials it asked for, (trials,) each."""
        return {} if self._trials is None else trials_in(self._trials, self._store)
