"""How a network is trained, as a frozen value whose text is part of every result's identity."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from uproar.errors import BadInput
from uproar.registry import Registry

recipes = Registry("recipe", "uproar.recipes", ("uproar.training.recipe", "uproar.papers.recipes"))

Augmentation = Literal["flip", "shift", "crop", "resized-crop"]
Share = Annotated[float, Field(gt=0, lt=1)]


def recipe(*, name: str | None = None) -> Callable[[Callable], Callable]:
    """Declare `() -> settings` under the function's name: how the networks of a paper were trained.

    Its docstring says where it comes from, what belongs to it, and where it departs from the paper. Shares of the
    training stand for epochs, so that a shorter training keeps its shape.
    """
    return recipes.declare(name)


class Recipe(BaseModel):
    """Settings of one training.

    The defaults give `cnn-small` 98.9 ± 0.3 % on digits (5 seeds) in about half a second on one core.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: Annotated[int, Field(ge=1)] = 12
    batch: Annotated[int, Field(ge=2)] = 64
    lr: Annotated[float, Field(gt=0)] = 0.1
    """Peak learning rate."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = True
    weight_decay: Annotated[float, Field(ge=0)] = 5e-4
    schedule: Literal["one-cycle", "cosine", "step", "constant"] = "one-cycle"
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of all steps in which the learning rate rises to its peak."""
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    augment: tuple[Augmentation, ...] = ()
    name: str | None = None
    """The paper's recipe that this one started from; says nothing that the other settings do not say."""
    optimizer: Literal["sgd", "adam"] = "sgd"
    milestones: tuple[Share, ...] = ()
    """Shares of the training after which the learning rate falls, for schedule = "step"."""
    decay: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """What the learning rate is multiplied with at each milestone."""
    ghost: Annotated[int, Field(ge=2)] | None = None
    """Images over which batch norms take their statistics, where a batch has more."""
    precision: Literal["full", "mixed"] = "full"
    """mixed: convolutions and products in bfloat16, for GPUs; weights and sums stay in float32."""
    init: Literal["random", "pretrained"] = "random"
    """pretrained: every training starts from given weights. A deviation: what a network has learned before is not
    forgotten because pixels are removed."""

    @model_validator(mode="before")
    @classmethod
    def _from_paper(cls, settings: Any) -> Any:
        if isinstance(settings, str):
            settings = {"name": settings}
        if isinstance(settings, dict) and settings.get("name") is not None:
            return {**recipes[str(settings["name"])].function(), **settings}
        return settings

    @model_validator(mode="after")
    def _steps_have_milestones(self) -> Recipe:
        if (self.schedule == "step") != bool(self.milestones):
            raise BadInput(
                'schedule = "step" and milestones go together: milestones = [0.5, 0.75] lets the learning rate fall '
                "after half and three quarters of the training."
            )
        return self

    @classmethod
    def named(cls, name: str, **changes: Any) -> Recipe:
        """A declared recipe with some settings changed."""
        return cls(**{**recipes[name].function(), "name": name, **changes})

    @property
    def identity(self) -> dict[str, Any]:
        """What two trainings with equal results share."""
        return self.model_dump(mode="json", exclude={"name"})

    @property
    def title(self) -> str:
        """The recipe's name with what differs from the paper's, or its settings that are not the default."""
        usual = Recipe() if self.name is None else Recipe.named(self.name)
        changed = [
            f"{name}={value}"
            for name, value in self.model_dump(mode="json").items()
            if getattr(usual, name) != getattr(self, name)
        ]
        return " with ".join(text for text in (self.name or "default", ", ".join(changed)) if text)

    @property
    def plain(self) -> bool:
        """Whether it is SGD at full precision with statistics over whole batches and images that stay in place."""
        usual = self.optimizer == "sgd" and self.precision == "full" and self.ghost is None
        return usual and not {"crop", "resized-crop"} & set(self.augment)

    def rate(self, done: float) -> float:
        """The learning rate after a share `done` of the training, in [0, 1)."""
        if done < self.warmup:
            return self.lr * done / self.warmup
        if self.schedule == "constant":
            return self.lr
        if self.schedule == "step":
            return self.lr * self.decay ** sum(done >= share for share in self.milestones)
        rest = (done - self.warmup) / (1 - self.warmup)
        if self.schedule == "cosine":
            return self.lr * (1 + math.cos(math.pi * rest)) / 2
        return self.lr * (1 - rest)


# recipes of networks that the default recipe does not suit


@recipe(name="vit-small")
def vit_small() -> dict[str, Any]:
    """For vit-small: Adam at 0.003 with warm-up and cosine decay; 97.8 % on digits (one seed). Larger sets need fewer
    epochs: recipe = { name = "vit-small", epochs = 3, batch = 128, lr = 0.002 }.
    """
    return {"optimizer": "adam", "lr": 3e-3, "weight_decay": 0.0, "schedule": "cosine", "batch": 32}
