"""Networks sized for a CPU. Each normalises its input itself: images come in [0, 1]."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

from uproar.models.normalise import Normalise
from uproar.models.registry import models

Width = Annotated[int, Field(ge=1)]


class Block(nn.Sequential):
    """3×3 convolution, batch norm, ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
        )

    @property
    def convolution(self) -> nn.Conv2d:
        """The first of the three."""
        return self[0]  # type: ignore[return-value]

    @property
    def norm(self) -> nn.BatchNorm2d:
        """The second of the three."""
        return self[1]  # type: ignore[return-value]


class SmallCNN(nn.Sequential):
    """Normalisation, blocks that halve the image, average pooling to at most 2×2, a linear layer."""

    def __init__(self, normalise: Normalise, blocks: list[Block], pool: tuple[int, int], classes: int):
        flat = nn.Sequential(nn.AdaptiveAvgPool2d(pool), nn.Flatten())
        head = nn.Linear(blocks[-1].convolution.out_channels * pool[0] * pool[1], classes)
        super().__init__(normalise, *blocks, flat, head)
        self.pool = pool

    @property
    def normalise(self) -> nn.Module:
        """What makes the input's mean 0 and its variance 1."""
        return self[0]

    @property
    def blocks(self) -> list[Block]:
        """The convolutional blocks, in order."""
        return [part for part in self if isinstance(part, Block)]

    @property
    def head(self) -> nn.Linear:
        """The linear layer that gives the class scores."""
        return self[-1]  # type: ignore[return-value]


@models.declare("cnn-small", size="about 6 thousand weights on 8×8 images")
def cnn_small(shape: tuple[int, int, int], classes: int, mean: Tensor, std: Tensor, *, width: Width = 16) -> nn.Module:
    """Strided convolutions down to 4×4 or less, each twice as wide, then a linear layer.

    Striding from the first layer on makes a training step several times cheaper on a CPU than pooling later.
    """
    channels, h, w = shape
    blocks: list[Block] = []
    while len(blocks) < 2 or max(h, w) > 4:
        blocks.append(Block(channels, width, stride=2))
        channels, width, h, w = width, 2 * width, -(-h // 2), -(-w // 2)
    return SmallCNN(Normalise(mean, std), blocks, (min(h, 2), min(w, 2)), classes)


class Residual(nn.Module):
    """x + two convolutions of x; the shortcut is a 1×1 convolution where the size changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = Block(inputs, outputs, stride)
        self.second = nn.Sequential(nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.second(self.first(x)) + self.shortcut(x))


@models.declare("resnet-small", size="about 45 thousand weights")
def resnet_small(
    shape: tuple[int, int, int], classes: int, mean: Tensor, std: Tensor, *, width: Width = 16
) -> nn.Module:
    """A stem at full resolution, three residual blocks of which two halve the size, average pooling."""
    return nn.Sequential(
        Normalise(mean, std),
        Block(shape[0], width),
        Residual(width, width, 1),
        Residual(width, 2 * width, 2),
        Residual(2 * width, 2 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, classes),
    )


@models.declare("resnet-half", size="about 22 thousand weights")
def resnet_half(
    shape: tuple[int, int, int], classes: int, mean: Tensor, std: Tensor, *, width: Width = 16
) -> nn.Module:
    """A stem of 6×6 windows that halves the size, two residual blocks with average pooling between them.

    A quarter of the cost of resnet-small, and as even: every pixel is in nine windows of the stem.
    """
    sides = [(6, 2, 2) if size > 1 else (1, 1, 0) for size in shape[1:]]
    kernel, stride, padding = ((first, second) for first, second in zip(*sides, strict=True))
    stem = nn.Conv2d(shape[0], width, kernel, stride, padding, bias=False)
    return nn.Sequential(
        Normalise(mean, std),
        nn.Sequential(stem, nn.BatchNorm2d(width), nn.ReLU()),
        Residual(width, width, 1),
        nn.AvgPool2d(2, ceil_mode=True),
        Residual(width, 2 * width, 1),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


@models.declare("vgg-small", size="about 41 thousand weights on 28×28 images")
def vgg_small(shape: tuple[int, int, int], classes: int, mean: Tensor, std: Tensor, *, width: Width = 12) -> nn.Module:
    """A convolution at full resolution, then pairs of convolutions behind max pooling, down to 8×8 or less.

    No convolution strides: every pixel is seen by as many windows as its neighbours.
    """
    channels, h, w = shape
    layers: list[nn.Module] = [Normalise(mean, std), Block(channels, width)]
    while len(layers) == 2 or max(h, w) > 8:
        layers += [nn.MaxPool2d(2, ceil_mode=True), Block(width, 2 * width), Block(2 * width, 2 * width)]
        width, h, w = 2 * width, -(-h // 2), -(-w // 2)
    pool = min(h, 2), min(w, 2)
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(pool), nn.Flatten(), nn.Linear(width * pool[0] * pool[1], classes)
    )
