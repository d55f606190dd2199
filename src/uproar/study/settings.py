"""What one task and model of a study fix for all their cells, and the rankings of their pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from uproar.data import tasks
from uproar.estimators import Chain
from uproar.expression import parse
from uproar.models import ModelSpec
from uproar.protocols.evaluator import JUDGED, begins_explained, default_architecture, evaluator_epochs
from uproar.protocols.mask_assignment import FOLDS
from uproar.removal.fill import fill_code
from uproar.study.spec import Study
from uproar.training import Recipe


@dataclass(frozen=True)
class Setting:
    """What one task and model of a study fix for all their cells."""

    task: str
    model: str
    recipe: Recipe
    fill: str = "mean"
    features: str = "pixel"
    target: str | int = "predicted"
    sign: str = "none"
    channels: str = "sum"
    weights: str | None = None
    pretrained: str | None = None
    limit: int | None = None
    device: str = "cpu"
    output: str = "auto"
    evaluator_models: tuple[str, ...] = ()
    evaluator_images: int = JUDGED

    def evaluator_model(self, seed: int, shape: tuple[int, int, int]) -> str:
        """The architecture of a replicate's evaluator: seeds take them in turn, so that more seeds change none."""
        named = self.evaluator_models or (default_architecture(self.model, shape),)
        return named[seed % len(named)]

    def evaluator_begins_explained(self, seed: int, shape: tuple[int, int, int]) -> bool:
        """Whether a replicate's evaluator begins with the explained network's weights: if it is of its architecture."""
        own, explained = (ModelSpec.of(name).identity for name in (self.evaluator_model(seed, shape), self.model))
        return begins_explained(shape) and own == explained

    def evaluator_epochs(self, seed: int, shape: tuple[int, int, int], images: int) -> int:
        """How often a replicate's evaluator sees each of the training images."""
        return evaluator_epochs(self.recipe, images, self.evaluator_begins_explained(seed, shape))

    @property
    def code(self) -> str:
        """The user's own code behind the names of task, model and fill; it may be edited while Python runs."""
        names = (call.name for call in parse(self.task).walk())
        declared = [tasks[name].code for name in names]
        models = [ModelSpec.of(name).identity.get("source", "") for name in (self.model, *self.evaluator_models)]
        return " ".join([*declared, *models, *fill_code(self.fill).values()])

    @classmethod
    def all_of(cls, study: Study) -> list[Setting]:
        """The settings of a study: every task with every model."""
        common = {one.name: getattr(study, one.name) for one in fields(cls) if one.name not in ("task", "model")}
        return [cls(task, model, **common) for task in study.tasks for model in study.models]


@dataclass(frozen=True)
class ImageRanking:
    """The order of all features of all images of a setting: by which chain, of which replicate's base model."""

    chain: Chain
    seed: int
    crossed: bool = False
    """Cross-fitted: each image is explained by one of two base models that was not trained on it."""

    @property
    def folds(self) -> Sequence[int | None]:
        """The parts of the data that its base models are not trained on; None: trained on all."""
        return range(FOLDS) if self.crossed else (None,)
