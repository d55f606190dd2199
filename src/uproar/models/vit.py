"""A vision transformer (Dosovitskiy et al. 2021) sized for a CPU; weights are named as in timm."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from uproar.errors import BadOption
from uproar.models.normalise import Normalise
from uproar.models.registry import models

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
