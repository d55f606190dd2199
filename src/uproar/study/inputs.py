"""What every step of a setting starts from: its data, model, estimators and device, each loaded once."""

from __future__ import annotations

import functools

import torch

from uproar.data import Split, Task, load
from uproar.data.derived_tasks import as_one_label
from uproar.devices import choose_device
from uproar.errors import BadInput
from uproar.estimators import Chain, estimators, read_chain
from uproar.metrics.registry import read_metric
from uproar.models import ModelSpec, build
from uproar.models.output_kind import OutputKind
from uproar.protocols import Masks, Protocol, protocol_named
from uproar.protocols.evaluator import judged_rows
from uproar.protocols.mask_assignment import other_replicate
from uproar.storage.store import Store
from uproar.study.cell import Cell, ScoreCell
from uproar.study.settings import ImageRanking, Setting
from uproar.study.targets import output_of_task
from uproar.training import stackable


class Inputs:
    """A setting and the store of its results, with what the setting names."""

    def __init__(self, setting: Setting, store: Store) -> None:
        self.setting, self.store = setting, store
        self.spec = ModelSpec.of(setting.model)
        self._chains: dict[tuple[str, int], Chain] = {}

    def evaluator_spec(self, seed: int) -> ModelSpec:
        """The architecture of a replicate's evaluator."""
        return ModelSpec.of(self.setting.evaluator_model(seed, self.task.shape))

    @functools.cached_property
    def device(self) -> torch.device:
        """Where the networks of this process are."""
        return choose_device(self.setting.device)

    @functools.cached_property
    def task(self) -> Task:
        """The data."""
        task = load(self.setting.task)
        if self.setting.output == "sigmoid" and task.kind == "softmax":
            task = as_one_label(task)
        if self.setting.output not in ("auto", task.kind):
            raise BadInput(
                f"output = {self.setting.output!r} was said, but the labels of {task.name} are those of a {task.kind}."
            )
        return task if self.setting.limit is None else task.limited(self.setting.limit)

    @functools.cached_property
    def output(self) -> OutputKind:
        """What the networks answer with."""
        return output_of_task(self.task)

    def split(self, name: str) -> Split:
        """The train or the test split."""
        return self.task.train if name == "train" else self.task.test

    @functools.cached_property
    def features(self) -> tuple[int, ...]:
        """The shape of what is ranked in an image."""
        return self.task.shape if self.setting.features == "channel" else self.task.shape[1:]

    @functools.cached_property
    def judged_rows(self) -> torch.Tensor:
        """The rows of the test images that evaluators judge."""
        return judged_rows(self.task.test, self.setting.evaluator_images)

    def rows_asked(self, protocol: Protocol) -> torch.Tensor:
        """The rows of the test images that a protocol asks about: those that evaluators judge, or all."""
        return self.judged_rows if protocol.evaluator else torch.arange(len(self.task.test))

    def split_of(self, unit: ScoreCell) -> Split:
        """The images whose maps a metric is asked about: test images, unless it says otherwise."""
        return self.task.train if dict(read_metric(unit.metric).options).get("split") == "train" else self.task.test

    def rows_of(self, unit: ScoreCell) -> torch.Tensor:
        """The rows of the images that a metric is asked about."""
        split = self.split_of(unit)
        return judged_rows(split, unit.images or len(split))

    @functools.cached_property
    def stacks(self) -> bool:
        """Whether the networks of several cells are trained at once."""
        held = not self.task.train.streams and self.setting.recipe.plain
        return held and stackable(build(self.spec, self.task, 0), self.task.shape)

    def chain(self, name: str) -> Chain:
        """An estimator of the study, read once: keys of thousands of cells need it."""
        known = name, estimators.revision
        if known not in self._chains:
            sign, channels = self.setting.sign, self.setting.channels
            self._chains[known] = read_chain(name, sign, channels)  # type: ignore[arg-type]
        return self._chains[known]

    def rankings_of(self, cell: Cell) -> tuple[ImageRanking, ImageRanking]:
        """The rankings that decide what is removed from the training and from the test images of a cell."""
        protocol, chain = protocol_named(cell.protocol), self.chain(cell.estimator)

        def ranking(masks: Masks) -> ImageRanking:
            seed = other_replicate(cell.seed) if masks.by == "other" else cell.seed
            return ImageRanking(chain, seed, masks.by == "cross-fitted" and chain.needs_model)

        return ranking(protocol.train), ranking(protocol.test)
