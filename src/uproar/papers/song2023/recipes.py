"""How Song et al. 2023 trained their networks."""

from __future__ import annotations

from typing import Any

from uproar.training.recipe import recipe


@recipe(name="song2023-svhn")
def svhn() -> dict[str, Any]:
    """Song et al. 2023 on SVHN with resnet18."""
    return {
        "epochs": 50,
        "batch": 128,
        "lr": 0.1,
        "momentum": 0.9,
        "nesterov": False,
        "weight_decay": 1e-4,
        "schedule": "cosine",
        "warmup": 0.0,
        "augment": ("crop", "flip"),
    }


@recipe(name="song2023-cifar")
def cifar() -> dict[str, Any]:
    """Song et al. 2023 (pitfalls of ROAR) on CIFAR-10 with resnet18: 50 epochs, cosine to zero; crops and flips are
    those of the released configuration.
    """
    return {**svhn(), "weight_decay": 5e-4}


@recipe(name="song2023-cub")
def cub() -> dict[str, Any]:
    """Song et al. 2023 on CUB-200 with resnet50: every training starts from ImageNet weights, given as
    pretrained = FILE, which is a deviation from remove-and-retrain.
    """
    return {**svhn(), "batch": 32, "lr": 0.01, "init": "pretrained"}
