"""How the networks of the papers were trained; shares of the training stand for epochs."""

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
def hooker_released() -> dict[str, Any]:
    """The same with the learning rate of the released code, 0.1 per 256 images."""
    return {**hooker2019(), "lr": 1.6}


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


@recipe(name="song2023-svhn")
def song_svhn() -> dict[str, Any]:
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
def song_cifar() -> dict[str, Any]:
    """Song et al. 2023 (pitfalls of ROAR) on CIFAR-10 with resnet18: 50 epochs, cosine to zero; crops and flips are
    those of the released configuration.
    """
    return {**song_svhn(), "weight_decay": 5e-4}


@recipe(name="song2023-cub")
def song_cub() -> dict[str, Any]:
    """Song et al. 2023 on CUB-200 with resnet50: every training starts from ImageNet weights, given as
    pretrained = FILE, which is a deviation from remove-and-retrain.
    """
    return {**song_svhn(), "batch": 32, "lr": 0.01, "init": "pretrained"}
