"""What one task and model of a study fix for all their cells, and how the order of their pixels came about."""

from __future__ import annotations

from dataclasses import dataclass

from uproar.data import tasks
from uproar.estimators import Chain
from uproar.expression import parse
from uproar.models import ModelSpec
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
    target: str = "predicted"
    sign: str = "none"
    channels: str = "sum"
    weights: str | None = None
    pretrained: str | None = None
    limit: int | None = None
    device: str = "cpu"

    @property
    def code(self) -> str:
        """The user's own code behind the names of task, model and fill; it may be edited while Python runs."""
        names = (call.name for call in parse(self.task).walk())
        declared = [tasks[name].code for name in names]
        model = ModelSpec.of(self.model).identity.get("source", "")
        return " ".join([*declared, model, *fill_code(self.fill).values()])

    @classmethod
    def all_of(cls, study: Study) -> list[Setting]:
        """The settings of a study: every task with every model."""
        common = {
            name: getattr(study, name)
            for name in (
                "recipe",
                "fill",
                "features",
                "target",
                "sign",
                "channels",
                "weights",
                "pretrained",
                "limit",
                "device",
            )
        }
        return [cls(task, model, **common) for task in study.tasks for model in study.models]


@dataclass(frozen=True)
class ImageRanking:
    """The ranking of all images of a setting: by which chain, of which replicate's base model.

    `crossed`: each image was explained by one of two base models that has not seen it.
    """

    chain: Chain
    seed: int
    crossed: bool = False
