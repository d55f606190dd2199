"""How Rong, Leemann et al. 2022 trained their networks."""

from __future__ import annotations

from typing import Any

from uproar.training.recipe import recipe


@recipe()
def rong2022() -> dict[str, Any]:
    """Rong, Leemann et al. 2022 (ROAD), the retrained comparison on CIFAR-10 with resnet18; theirs reports the best
    epoch on the test set, this the last. Goes with fill = "linear" or "channel_mean".
    """
    return {
        "epochs": 40,
        "batch": 64,
        "lr": 0.01,
        "momentum": 0.9,
        "nesterov": False,
        "weight_decay": 0.0,
        "schedule": "step",
        "milestones": (0.25, 0.5, 0.75),
        "decay": 0.1,
        "warmup": 0.0,
    }
