"""How Li et al. 2024 trained their networks."""

from __future__ import annotations

from typing import Any

from uproar.training.recipe import recipe


@recipe()
def li2024() -> dict[str, Any]:
    """Li et al. 2024 (soundness and completeness), appendix C, on CIFAR-10 with resnet-tiny."""
    return {
        "epochs": 35,
        "batch": 256,
        "lr": 1e-3,
        "weight_decay": 1e-4,
        "optimizer": "adam",
        "schedule": "constant",
        "warmup": 0.0,
    }
