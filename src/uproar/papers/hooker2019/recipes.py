"""How Hooker et al. 2019 trained their networks; shares of the training stand for epochs."""

from __future__ import annotations

from typing import Any

from uproar.training.recipe import recipe


@recipe()
def hooker2019() -> dict[str, Any]:
    """Hooker et al. 2019 (ROAR) on ImageNet with resnet50: 90 epochs, warm-up in the first 5, a tenth of the rate
    after 30, 60 and 80, ghost batch norm over 128; label smoothing, decay and augmentation are those of the
    released code. Goes with fill = "mean(images=2000)" and features = "channel".
    """
    return {
        "epochs": 90,
        "batch": 4096,
        "lr": 4.8,
        "momentum": 0.9,
        "nesterov": True,
        "weight_decay": 1e-4,
        "schedule": "step",
        "milestones": (30 / 90, 60 / 90, 80 / 90),
        "decay": 0.1,
        "warmup": 5 / 90,
        "label_smoothing": 0.1,
        "augment": ("resized-crop", "flip"),
        "ghost": 128,
    }


@recipe(name="hooker2019-code")
def released_code() -> dict[str, Any]:
    """The same with the learning rate of the released code, 0.1 per 256 images."""
    return {**hooker2019(), "lr": 1.6}
