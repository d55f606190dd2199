"""Networks sized for a CPU. Each normalises its input itself: images come in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from uproar.data.planted import GRID, PLACES, RuleName
from uproar.errors import BadInput, BadOption
from uproar.models.normalise import Normalise
from uproar.models.registry import models

Width = Annotated[int, Field(ge=1)]


class Block(nn.Sequential):
    """3×3 convolution, batch norm, ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
        )


class SmallCNN(nn.Sequential):
    """Normalisation, blocks that halve the image, average pooling to at most 2×2, a linear layer."""

    def __init__(self, normalise: Normalise, blocks: list[Block], pool: tuple[int, int], classes: int):
        flat = nn.Sequential(nn.AdaptiveAvgPool2d(pool), nn.Flatten())
        channels: Any = blocks[-1][0].out_channels
        super().__init__(normalise, *blocks, flat, nn.Linear(channels * pool[0] * pool[1], classes))
        self.pool = pool

    @property
    def blocks(self) -> list[Any]:
        """The convolutional blocks, in order: each a convolution, a batch norm and a ReLU."""
        return [block for block in self if isinstance(block, Block)]


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


# networks whose weights are set by hand, so that it is known exactly which pixels they use
# Each averages the pixels of 4×4 squares, scales the averages so that a missing part is about 0 and a bright one
# about 1, and computes its rule from a few of them by a linear layer, ReLUs and another linear layer. All other
# squares have the weight 0: whatever stands there changes no output. Nothing is trained: the weights take no
# gradients.

Unit = tuple[Sequence[float], float, float]
"""A hidden unit: weights of the parts, bias, and what it adds to the score of class 1."""

GAIN = 6.0
"""The score of class 1 is this times the rule's value − ½: probabilities from about 0.05 to 0.95."""
_STEP: list[Unit] = [((4.0,), -1.0, 1.0), ((4.0,), -2.0, -1.0)]
"""0 up to a quarter, 1 from a half on: flat wherever a part is missing or there."""

UNITS: dict[str, list[Unit]] = {
    "and": [((1, 1), -1, 1)],
    "or": [((1, 1), 0, 1), ((1, 1), -1, -1)],
    "xor": [((1, -1), 0, 1), ((-1, 1), 0, 1)],
    "saturating": _STEP,
}
LINEAR = (2.0, 1.0, -2.0)


@models.declare("hand-set", size="its rule's units")
def hand_set(
    shape: tuple[int, int, int],
    classes: int,
    *,
    rule: RuleName = "and",
    noise: Annotated[float, Field(ge=0, le=1)] = 0.5,
) -> nn.Module:
    """A network of the task `hand-set` that uses the parts of its rule and nothing else; it is not trained."""
    channels, h, w = shape
    if classes != 2 or min(h, w) < 4 * GRID:
        raise BadInput(
            f"hand-set is a network for two classes and images from 16×16 pixels on, such as those of the task "
            f"hand-set; this task has {classes} classes and {h}×{w} pixels."
        )
    # the mean of each square: 0 for noise alone, 1 for a bright part, on average
    side = GRID * (min(h, w) // (4 * GRID))
    dark, bright = noise / 2, 0.6 + 0.4 * noise / 2
    averages = nn.Conv2d(channels, 1, side, side)
    nn.init.constant_(averages.weight, 1 / (channels * side**2 * (bright - dark)))
    nn.init.constant_(averages.bias, -dark / (bright - dark))  # type: ignore[arg-type]
    if rule == "linear":
        first = nn.Linear(GRID**2, 2)
        first.weight.data = torch.stack([torch.zeros(GRID**2), GAIN * _spread(LINEAR)])
        first.bias.data = torch.tensor([0.0, -GAIN / 2])
        return nn.Sequential(averages, nn.Flatten(), first).requires_grad_(False)
    units = UNITS[rule]
    first, second = nn.Linear(GRID**2, len(units)), nn.Linear(len(units), 2)
    first.weight.data = torch.stack([_spread(weights) for weights, _, _ in units])
    first.bias.data = torch.tensor([float(bias) for _, bias, _ in units])
    out = GAIN * torch.tensor([float(adds) for _, _, adds in units])
    second.weight.data = torch.stack([torch.zeros_like(out), out])
    second.bias.data = torch.tensor([0.0, -GAIN / 2])
    return nn.Sequential(averages, nn.Flatten(), first, nn.ReLU(), second).requires_grad_(False)


def _spread(weights: Sequence[float]) -> Tensor:
    """The weights of parts as weights of all squares."""
    row = torch.zeros(GRID**2)
    for square, weight in zip(PLACES, weights, strict=False):
        row[square] = weight
    return row


# A vision transformer (Dosovitskiy et al. 2021) sized for a CPU; weights are named as in timm.

Count = Annotated[int, Field(ge=1)]


class PatchEmbedding(nn.Module):
    """One token per patch: a convolution whose stride is its size; what does not fill a patch at the edge is zeros."""

    def __init__(self, channels: int, width: int, patch: int) -> None:
        super().__init__()
        self.patch = patch
        self.proj = nn.Conv2d(channels, width, patch, stride=patch)

    def forward(self, x: Tensor) -> Tensor:
        rows, columns = (-side % self.patch for side in x.shape[2:])
        x = nn.functional.pad(x, (0, columns, 0, rows)) if rows or columns else x
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    """Self-attention of several heads: softmax(q kᵀ / √d) v."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()
        weights = (q * self.scale @ k.transpose(-2, -1)).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """Two linear layers with a GELU between them, four times as wide inside."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


class TransformerBlock(nn.Module):
    """Attention and two linear layers, each after a layer norm and added to what comes in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.norm2, self.mlp = nn.LayerNorm(width), Mlp(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Class token, registers and patches through transformer blocks; the class token gives the scores."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        classes: int,
        normalise: Normalise,
        patch: int,
        width: int,
        depth: int,
        heads: int,
        registers: int,
    ) -> None:
        super().__init__()
        self.normalise = normalise
        self.patch_embed = PatchEmbedding(shape[0], width, patch)
        patches = -(-shape[1] // patch) * -(-shape[2] // patch)
        self.cls_token = nn.Parameter(0.5 * torch.randn(1, 1, width))
        self.reg_token = nn.Parameter(0.02 * torch.randn(1, registers, width)) if registers else None
        self.pos_embed = nn.Parameter(0.5 * torch.randn(1, patches, width))
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patch_embed(self.normalise(x)) + self.pos_embed
        extra = [self.cls_token] if self.reg_token is None else [self.cls_token, self.reg_token]
        tokens = torch.cat([*(token.expand(len(x), -1, -1) for token in extra), patches], 1)
        return self.head(self.norm(self.blocks(tokens))[:, 0])


@models.declare("vit-small", size="about 200 thousand weights on 8×8 images")
def vit_small(
    shape: tuple[int, int, int],
    classes: int,
    mean: Tensor,
    std: Tensor,
    *,
    patch: Count | None = None,
    width: Count = 64,
    depth: Count = 4,
    heads: Count = 4,
    registers: Annotated[int, Field(ge=0)] = 0,
) -> nn.Module:
    """A vision transformer: patches of an eighth of the image, or of 2 pixels at least; pre-norm blocks, a class token.

    `patch` is the side of a patch in pixels, `registers` the number of tokens that stand for no patch beside the class
    token. Train it with recipe=vit-small: SGD at the default rate learns slowly here.
    """
    if width % heads:
        raise BadOption(f"vit-small: width={width} cannot be shared among heads={heads}; width must be a multiple.")
    side = patch or max(2, max(shape[1:]) // 8)
    return VisionTransformer(shape, classes, Normalise(mean, std), side, width, depth, heads, registers)
