"""Small transformers for tests: one written in three ways, and one whose attention is set by hand."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """Pre-norm attention of two heads and two linear layers; `how` says in which words the attention is written."""

    def __init__(self, how: str, width: int = 8) -> None:
        super().__init__()
        self.how, self.norm1, self.norm2 = how, nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width))

    def attended(self, x):
        if self.how == "module":
            return self.attention(x, x, x, need_weights=False)[0]
        a = self.attention
        qkv = F.linear(x, a.in_proj_weight, a.in_proj_bias).unflatten(2, (3, 2, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind()
        if self.how == "fused":
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            out = torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-1) @ v
        return a.out_proj(out.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attended(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Written(nn.Module):
    """A transformer with a class token on patches of 2 × 2; the same seed gives the same weights whatever `how`."""

    def __init__(self, how: str, pooled: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed, self.token = nn.Conv2d(3, 8, 2, stride=2), nn.Parameter(torch.randn(1, 1, 8))
        self.blocks = nn.Sequential(Block(how), Block(how))
        self.norm, self.head, self.pooled = nn.LayerNorm(8), nn.Linear(8, 3), pooled
        self.eval().requires_grad_(False)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = x if self.pooled else torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        x = self.norm(self.blocks(x))
        return self.head(x.mean(1) if self.pooled else x[:, 0])


class HandSet(nn.Module):
    """One attention with given weights: the class token sees Σ_j a_j (mean of patch j), class 0 has that as its score."""

    def __init__(self, logits: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.embed = nn.AvgPool2d(2)
        self.logits, self.values = logits, values
        self.block = nn.Identity()

    def forward(self, x):
        patches = self.embed(x).mean(1).flatten(1)[:, :, None]
        tokens = torch.cat([torch.zeros_like(patches[:, :1]), patches], 1)
        weights = torch.softmax(self.logits.expand(len(x), 1, -1, -1) + 0 * tokens[:, None], -1)
        score = (weights[:, 0] @ (tokens * self.values[:, None]))[:, 0, 0]
        return torch.stack([score, -score], 1)
