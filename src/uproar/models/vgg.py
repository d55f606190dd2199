"""VGG-16, with the names of weights under which torchvision publishes it."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from uproar.models.normalise import NetworkNormalise, Normalisation
from uproar.models.registry import models
from uproar.models.resnet import Shape, Width, small_images

STAGES = ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3))
"""Of each stage: how many times as wide as the first, and how many convolutions; then the size is halved."""


class VGG(nn.Module):
    """Convolutions in five stages, then a head: three linear layers, or one for small images."""

    def __init__(self, normalise: nn.Module, channels: int, classes: int, width: int, norm: bool, small: bool) -> None:
        super().__init__()
        self.normalise = normalise
        layers: list[nn.Module] = []
        for times, depth in STAGES:
            for _ in range(depth):
                layers.append(nn.Conv2d(channels, times * width, 3, padding=1))
                layers += [nn.BatchNorm2d(times * width)] if norm else []
                layers.append(nn.ReLU())
                channels = times * width
            # rounding up lets images smaller than 32×32 through; for multiples of 32 it changes nothing
            layers.append(nn.MaxPool2d(2, 2, ceil_mode=small))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1 if small else 7)
        self.flatten = nn.Flatten()
        hidden = 64 * width
        self.classifier: nn.Module = nn.Linear(channels, classes)
        if not small:
            self.classifier = nn.Sequential(
                nn.Linear(49 * channels, hidden),
                nn.ReLU(),
                nn.Dropout(),
                nn.Linear(hidden, hidden),
                nn.ReLU(),
                nn.Dropout(),
                nn.Linear(hidden, classes),
            )
        for module in self.modules():
            if isinstance(module, nn.Conv2d) and module.bias is not None:
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self.features(self.normalise(x)))
        return self.classifier(self.flatten(x))


@models.declare(size="138 million weights; 15 million with the head for small images")
def vgg16(
    shape: Shape,
    classes: int,
    mean: Tensor,
    std: Tensor,
    *,
    norm: bool = True,
    head: Literal["auto", "imagenet", "cifar"] = "auto",
    width: Width = 64,
    normalise: Normalisation = "auto",
) -> nn.Module:
    """VGG-16 (Simonyan & Zisserman 2015), with batch norm or without; one linear layer on top up to 64×64 pixels."""
    small = small_images(shape, head)
    return VGG(NetworkNormalise(normalise, mean, std), shape[0], classes, width, norm, small)
