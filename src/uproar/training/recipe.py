"""How a network is trained, as a frozen value whose text is part of every result's identity."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Augmentation = Literal["flip", "shift"]


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
    schedule: Literal["one-cycle", "cosine"] = "one-cycle"
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of all steps in which the learning rate rises to its peak."""
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    augment: tuple[Augmentation, ...] = ()

    def rate(self, done: float) -> float:
        """The learning rate after a share `done` of the training, in [0, 1)."""
        import math

        if done < self.warmup:
            return self.lr * done / self.warmup
        rest = (done - self.warmup) / (1 - self.warmup)
        if self.schedule == "cosine":
            return self.lr * (1 + math.cos(math.pi * rest)) / 2
        return self.lr * (1 - rest)
