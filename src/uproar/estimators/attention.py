"""Maps from a transformer's attention weights and their gradients, however its attention is written.

The scores are read from the tokens whose row of the last attention has a gradient: a class token, or all patches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from uproar.errors import NotApplicable
from uproar.estimators.cam import upsample
from uproar.estimators.class_scores import (
    FUSED,
    MULTI_HEAD,
    SOFTMAX,
    attention_in_steps,
    class_scores,
    gradients,
    is_attention,
    tracked,
)
from uproar.estimators.layers import TokenGrid, first_tensor, forward_hooks, module_named, recorded, with_first_tensor
from uproar.estimators.registry import estimator
from uproar.models.forward import extract_class_scores, forward, raw_output
from uproar.types import Images, Labels, RawMaps

_NEEDS = (
    "attention of all tokens to all others, as in a ViT: softmax, scaled_dot_product_attention or nn.MultiheadAttention"
)
_HEADS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda weights: weights.mean(1),
    "max": lambda weights: weights.amax(1),
    "min": lambda weights: weights.amin(1),
}


class AttentionRecord(TorchFunctionMode):
    """Inside, the attention weights of a model are kept as they are made, layer by layer, as parts of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[Tensor] = []

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func in (FUSED, MULTI_HEAD):
            return attention_in_steps(self._run, func, args, kwargs)
        return self._run(func, *args, **kwargs)

    def _run(self, func: Callable, *args: Any, **kwargs: Any) -> Any:
        output = func(*args, **kwargs)
        if func in SOFTMAX and is_attention(output, args, kwargs):
            self.weights.append(output)
        return output


def weights_per_image(weights: Tensor, images: int) -> Tensor:
    """Attention weights as (images, heads, tokens, tokens); refused where tokens attend within windows only."""
    if weights.dim() == 3 and len(weights) % images == 0:
        weights = weights.unflatten(0, (images, -1))
    if weights.dim() != 4 or len(weights) != images:
        raise NotApplicable(
            "attention is followed from layer to layer, and the tokens of this model attend within windows of the image"
        )
    return weights


@estimator(
    passes=0.5,
    needs=_NEEDS,
    channels=False,
    by_class=False,
    formula="row of the class token in Π_l (Ā_l + I) / 2, Ā_l = attention of layer l over its heads",
    paper="Abnar and Zuidema 2020",
    fails="the same map for every class; what the values and the other layers do is left out",
)
def attention_rollout(
    model: nn.Module, x: Images, target: Labels, *, heads: Literal["mean", "max", "min"] = "mean"
) -> RawMaps:
    """Attention rollout: attention followed through all layers back to the patches, residuals counted as half.

    `heads` says what is taken of a layer's heads. Where the scores are read from all patches, it is the mean of
    their rows.
    """
    tokens = token_structure(model, x)
    with AttentionRecord() as record:
        forward(model, x)
    row = tokens.start(x)
    for weights in reversed(record.weights):
        mixed = _HEADS[heads](weights_per_image(weights.detach(), len(x)))
        row = row / (1 + mixed.sum(-1))
        # one row times a matrix: a product of matrices would give the rows of all tokens, unasked
        row = row + torch.matmul(row[:, None], mixed)[:, 0]
    return tokens.map_of(row, x)


@estimator(
    passes=1,
    needs=_NEEDS,
    channels=False,
    formula="row of the class token in R, R ← R + Ā_l R, Ā_l = mean over heads of max(A_l ⊙ ∂f_c / ∂A_l, 0)",
    paper="Chefer et al. 2021",
    fails="what the two linear layers of a block do is left out",
)
def grad_attention(model: nn.Module, x: Images, target: Labels) -> RawMaps:
    """Gradient × attention, followed through all layers: only attention that raises the score is passed on."""
    tokens = token_structure(model, x)
    with torch.enable_grad(), AttentionRecord() as record:
        total = class_scores(model, tracked(x), target).sum()
    slopes = list(torch.autograd.grad(total, record.weights))
    row = tokens.start(x)
    while slopes:  # from the last layer to the first; what was used makes room for the next
        raised = weights_per_image(torch.mul(record.weights.pop().detach(), slopes.pop()).clamp_min_(0), len(x))
        row = row + torch.matmul(row[:, None, None], raised)[:, :, 0].mean(1)
    return tokens.map_of(row, x)


@estimator(
    passes=1,
    needs=f"{_NEEDS}; blocks with one attention each",
    channels=False,
    formula="mean over layers, heads and queries of max(∂s_l / ∂A_l, 0), s_l = the score if layer l were the last",
    paper="Bousselham et al. 2024",
    fails="early layers are asked by the last layer's classifier, which was not trained for them",
)
def legrad(model: nn.Module, x: Images, target: Labels) -> RawMaps:
    """LeGrad: how much each layer's attention to a patch would raise the score that is read from that layer."""
    tokens = token_structure(model, x)
    blocks = [module_named(model, name) for name in tokens.blocks]
    with torch.enable_grad(), AttentionRecord() as record, _outputs_joined(blocks):
        output = raw_output(model, tracked(x))
        every = extract_class_scores(output, len(blocks) * len(x))
        score = every.gather(1, target.repeat(len(blocks))[:, None]).sum()
    total = torch.zeros(len(x), record.weights[0].shape[-1], device=x.device)
    for gradient in torch.autograd.grad(score, record.weights):
        total = total + weights_per_image(gradient.clamp_min(0), len(x)).mean((1, 2))
    return tokens.map_of(total / len(blocks), x)


@dataclass(frozen=True)
class TokenStructure:
    """The tokens of a transformer: the grid of its patches, the tokens that scores are read from, and its blocks."""

    grid: TokenGrid
    read: tuple[int, ...]
    blocks: tuple[str, ...]
    tokens: int

    def start(self, x: Images) -> Tensor:
        """The row that is followed back from the last layer, (n, tokens): even over the tokens that are read."""
        row = torch.zeros(self.tokens)
        row[list(self.read)] = 1 / len(self.read)
        return row.to(x.device).repeat(len(x), 1)

    def map_of(self, values: Tensor, x: Images) -> RawMaps:
        """One value per token, (n, tokens), as a map of the image."""
        return upsample(self.grid.maps(values[:, :, None].to(x)), x)


def token_structure(model: nn.Module, x: Images) -> TokenStructure:
    """What is seen by running the model once; refused where no tokens of the whole image attend."""
    attention = AttentionRecord()
    record = recorded(model, x[[0, 0]], attention)
    if not attention.weights:
        raise NotApplicable("attention is needed, and none was met in this model")
    weights = [weights_per_image(each, 2) for each in attention.weights]
    count = weights[0].shape[-1]
    if any(each.shape[-1] != count for each in weights):
        raise NotApplicable("attention is followed from layer to layer, and this model's layers have other tokens")
    grid = record.grid(x.new_empty(2, count, 1))
    if grid is None:
        raise NotApplicable(f"the {count} tokens of this model are no grid of patches of the image")
    (slope,) = gradients(record.total, weights[-1:], "its last attention")
    used = torch.nonzero((slope != 0).any(-1).any(1).any(0))[:, 0].tolist()
    blocks: list[str] = []
    for layer in range(len(weights)):  # the outermost module that holds this attention alone and gives all tokens back
        holding = [
            name
            for name, (*_, call) in record.calls.items()
            if (call.attentions_before, call.attentions) == (layer, layer + 1)
            and getattr(first_tensor(call.output), "shape", ())[:2] == (2, count)
        ]
        blocks += holding[-1:]
    return TokenStructure(grid, tuple(used or range(count)), tuple(blocks), count)


@contextmanager
def _outputs_joined(blocks: list[nn.Module]) -> Iterator[None]:
    """Inside, what follows the last block sees the outputs of all blocks, one after the other as further images.

    A block's own graph starts at its input, so that the score of a layer reaches the attention of that layer alone.
    """
    outputs: list[Tensor] = []

    def keep(module: nn.Module, _inputs: Any, output: Any) -> Any:
        outputs.append(first_tensor(output))
        onwards = torch.cat(outputs) if module is blocks[-1] else outputs[-1].detach().requires_grad_()
        return with_first_tensor(output, onwards)

    if not blocks:
        raise NotApplicable("no module of this model holds one attention layer and gives all tokens back")
    with forward_hooks([(block, keep) for block in blocks]):
        yield
