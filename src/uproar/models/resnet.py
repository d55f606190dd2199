"""Residual networks of the papers, with the names of weights under which they are published.

Each takes images in [0, 1] and normalises them itself; every ReLU is a module of its own, so that methods that change
what a ReLU does can reach each of them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.models.normalise import NetworkNormalise, Normalisation
from uproar.models.registry import models
from uproar.registry import options_of

Width = Annotated[int, Field(ge=1)]
Stem = Literal["auto", "imagenet", "cifar"]
Variant = Literal["torchvision", "caffe"]
Shape = tuple[int, int, int]

LARGEST_SMALL = 64
"""Images up to this size get the CIFAR stem by default: the other would leave them two pixels wide."""


class BasicBlock(nn.Module):
    """x plus two 3×3 convolutions of x."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int, shortcut: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = shortcut
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """x plus a 1×1, a 3×3 and a 1×1 convolution of x, the last four times as wide."""

    expansion = 4
    stride_first = False
    """Whether the stride is that of the first convolution, as in Caffe, and not of the second."""

    def __init__(self, inputs: int, width: int, stride: int, shortcut: nn.Module | None) -> None:
        super().__init__()
        first, second = (stride, 1) if self.stride_first else (1, stride)
        self.conv1 = nn.Conv2d(inputs, width, 1, first, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(width, width, 3, second, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU()
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = shortcut
        self.relu3 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu2(self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x))))))
        return self.relu3(self.bn3(self.conv3(out)) + (x if self.downsample is None else self.downsample(x)))


class CaffeBottleneck(Bottleneck):
    """A bottleneck with its stride on the first convolution."""

    stride_first = True


Block = type[BasicBlock] | type[Bottleneck]


class ResNet(nn.Module):
    """Four stages, each twice as wide and half as large as the one before."""

    def __init__(
        self,
        block: Block,
        depths: tuple[int, ...],
        normalise: nn.Module,
        shape: Shape,
        classes: int,
        width: int,
        stem: Stem,
    ) -> None:
        super().__init__()
        self.normalise = normalise
        small = small_images(shape, stem)
        size, stride, padding = (3, 1, 1) if small else (7, 2, 3)
        self.conv1 = nn.Conv2d(shape[0], width, size, stride, padding, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        inputs = width
        for number, depth in enumerate(depths):
            stage = _stage(block, inputs, width * 2**number, depth, 1 if number == 0 else 2)
            self.add_module(f"layer{number + 1}", stage)
            inputs = width * 2**number * block.expansion
        self.stages = len(depths)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(inputs, classes)
        _initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(self.normalise(x)))))
        for number in range(self.stages):
            x = self.get_submodule(f"layer{number + 1}")(x)
        return self.fc(self.flatten(self.avgpool(x)))


def _stage(block: Block, inputs: int, width: int, depth: int, stride: int, padded: bool = False) -> nn.Sequential:
    """Blocks of one width; the first changes the size, with a shortcut of a 1×1 convolution or of padding."""
    outputs = width * block.expansion
    shortcut: nn.Module | None = None
    if (stride != 1 or inputs != outputs) and padded:
        shortcut = PaddedShortcut(outputs - inputs)
    elif stride != 1 or inputs != outputs:
        shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
    rest = [block(outputs, width, 1, None) for _ in range(depth - 1)]
    return nn.Sequential(block(inputs, width, stride, shortcut), *rest)


class PaddedShortcut(nn.Module):
    """A shortcut without weights: every other pixel, and channels of zeros around those there are."""

    def __init__(self, more: int) -> None:
        super().__init__()
        self.more = more

    def forward(self, x: Tensor) -> Tensor:
        before = self.more // 2
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, before, self.more - before))


class CifarResNet(nn.Module):
    """Three stages of n basic blocks, 6n + 2 layers, with shortcuts without weights (He et al. 2016, option A)."""

    def __init__(self, normalise: nn.Module, depth: int, channels: int, classes: int, width: int) -> None:
        super().__init__()
        self.normalise = normalise
        self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.layer1 = _stage(BasicBlock, width, width, depth, 1, padded=True)
        self.layer2 = _stage(BasicBlock, width, 2 * width, depth, 2, padded=True)
        self.layer3 = _stage(BasicBlock, 2 * width, 4 * width, depth, 2, padded=True)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.linear = nn.Linear(4 * width, classes)
        _initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(self.normalise(x))))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(self.flatten(self.avgpool(x)))


def _initialise(network: nn.Module) -> None:
    """Normal weights with the variance that keeps gradients as large as they are (He et al. 2015)."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def small_images(shape: Shape, stem: Stem) -> bool:
    """Whether a network is built for small images: as told, or by their size."""
    return stem == "cifar" or (stem == "auto" and max(shape[1:]) <= LARGEST_SMALL)


@models.declare(size="11.2 million weights")
def resnet18(
    shape: Shape,
    classes: int,
    mean: Tensor,
    std: Tensor,
    *,
    stem: Stem = "auto",
    width: Width = 64,
    normalise: Normalisation = "auto",
) -> nn.Module:
    """ResNet-18 (He et al. 2016) with torchvision's names of weights; up to 64×64 pixels with the CIFAR stem."""
    return ResNet(BasicBlock, (2, 2, 2, 2), NetworkNormalise(normalise, mean, std), shape, classes, width, stem)


@models.declare(size="23.5 million weights")
def resnet50(
    shape: Shape,
    classes: int,
    mean: Tensor,
    std: Tensor,
    *,
    stem: Stem = "auto",
    width: Width = 64,
    normalise: Normalisation = "auto",
    variant: Variant = "torchvision",
) -> nn.Module:
    """ResNet-50 (He et al. 2016) with torchvision's names of weights; `variant=caffe` for weights from Caffe or Keras.

    The Caffe variant has its strides on the first convolution of a block, a larger epsilon in its batch norms, and
    takes images blue first from 0 to 255.
    """
    caffe = variant == "caffe"
    first = NetworkNormalise("caffe" if caffe and normalise == "auto" else normalise, mean, std)
    network = ResNet(CaffeBottleneck if caffe else Bottleneck, (3, 4, 6, 3), first, shape, classes, width, stem)
    for module in network.modules():
        if caffe and isinstance(module, nn.BatchNorm2d):
            module.eps = 1e-3
    return network


@models.declare("resnet-tiny", size="0.7 million weights")
@options_of(resnet18, stem="cifar", width=16)
def resnet_tiny(shape: Shape, classes: int, mean: Tensor, std: Tensor, **options: Any) -> nn.Module:
    """Eight residual blocks, 16 to 128 channels wide: the tiny ResNet of Li et al. 2024, whose widths are not given."""
    return resnet18(shape, classes, mean, std, **options)


@models.declare(size="0.27 million weights")
def resnet20(
    shape: Shape, classes: int, mean: Tensor, std: Tensor, *, width: Width = 16, normalise: Normalisation = "auto"
) -> nn.Module:
    """ResNet-20 for CIFAR (He et al. 2016): three stages of three blocks, shortcuts without weights."""
    return CifarResNet(NetworkNormalise(normalise, mean, std), 3, shape[0], classes, width)


@models.declare(size="0.85 million weights")
@options_of(resnet20)
def resnet56(shape: Shape, classes: int, mean: Tensor, std: Tensor, **options: Any) -> nn.Module:
    """ResNet-56 for CIFAR (He et al. 2016): three stages of nine blocks, shortcuts without weights."""
    return CifarResNet(NetworkNormalise(options["normalise"], mean, std), 9, shape[0], classes, options["width"])


# VGG-16, with the names of weights under which torchvision publishes it

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
            first = [nn.Linear(49 * channels, hidden), nn.ReLU(), nn.Dropout()]
            second = [nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout()]
            self.classifier = nn.Sequential(*first, *second, nn.Linear(hidden, classes))
        _initialise(self)

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
