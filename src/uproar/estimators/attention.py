"""Attention inside a running model: the weights of every layer, with their graph, however the layer is written.

Three spellings are caught where torch dispatches them: a softmax over keys, the fused `scaled_dot_product_attention`,
and `nn.MultiheadAttention`. The last two are computed in single steps here, since they keep no weights; the numbers
are the same up to rounding. The model is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from uproar.errors import NotApplicable

# tokens as places of the image: which of them stand for patches, and in how many rows and columns
# The grid is that of a convolution's output (the patch embedding, or halvings of it where patches are merged);
# without one, that of square patches of a whole number of pixels. Tokens beyond the grid are class token and
# registers: those that are equal for two images before anything is attended to, or else the first ones.


Size = tuple[int, int]

MOST_EXTRA = 32
"""Class token, registers and the like, at most."""


@dataclass(frozen=True)
class TokenGrid:
    """How an output becomes feature maps: tokens (n, t, k), channels last (n, rows, columns, k), or as it is."""

    rows: int
    columns: int
    layout: str = "channels first"
    places: tuple[int, ...] | None = None
    """Of tokens: those that stand for patches, row by row."""

    def maps(self, output: Tensor) -> Tensor:
        """The output as feature maps (n, k, rows, columns)."""
        if self.layout == "channels last":
            return output.permute(0, 3, 1, 2)
        if self.layout == "tokens":
            return output[:, list(self.places or ())].transpose(1, 2).unflatten(2, (self.rows, self.columns))
        return output

    def put(self, output: Tensor, maps: Tensor) -> Tensor:
        """The output with its feature maps replaced; class token and registers stay."""
        if self.layout == "channels last":
            return maps.permute(0, 2, 3, 1)
        if self.layout == "tokens":
            return output.index_copy(
                1, torch.tensor(self.places, device=output.device), maps.flatten(2).transpose(1, 2)
            )
        return maps


def grid_of(output: Any, images: int, image: Size, convolutions: Iterable[Size], extra: tuple[int, ...] | None = None):
    """The grid of a module's output, or None: `extra` are the tokens that stand for no patch, where that was seen."""
    if not isinstance(output, Tensor) or len(output) != images:
        return None
    if output.dim() == 4:
        first, last = (_fits((output.shape[i], output.shape[i + 1]), image) for i in (2, 1))
        if last and not first:
            return TokenGrid(output.shape[1], output.shape[2], "channels last")
        return TokenGrid(output.shape[2], output.shape[3])
    if output.dim() != 3:
        return None
    size = token_rows_and_columns(output.shape[1], image, convolutions)
    if size is None:
        return None
    tokens, patches = output.shape[1], size[0] * size[1]
    if extra is not None and len(extra) == tokens - patches:
        return TokenGrid(*size, "tokens", tuple(i for i in range(tokens) if i not in extra))
    return TokenGrid(*size, "tokens", tuple(range(tokens - patches, tokens)))


def token_rows_and_columns(tokens: int, image: Size, convolutions: Iterable[Size] = ()) -> Size | None:
    """Rows and columns of the patches among so many tokens.

    >>> token_rows_and_columns(197, (224, 224)), token_rows_and_columns(21, (12, 20), [(4, 5)])
    ((14, 14), (4, 5))
    >>> token_rows_and_columns(49, (224, 224), [(56, 56)])  # patches merged three times
    (7, 7)
    """
    seen = list(convolutions)
    merged = [half for size in seen for half in _halvings(size)]
    for candidates, most in ((seen, MOST_EXTRA), (merged, 1), (list(_square_patches(image)), MOST_EXTRA)):
        fitting = [(tokens - r * c, (r, c)) for r, c in candidates if 1 < r * c <= tokens]
        extra, size = min(fitting, default=(tokens, (0, 0)))
        if extra <= min(most, size[0] * size[1]):
            return size
    return None


def _halvings(size: Size) -> Iterator[Size]:
    while True:
        yield size
        if max(size) == 1:
            return
        size = (-(-size[0] // 2), -(-size[1] // 2))


def _square_patches(image: Size) -> Iterator[Size]:
    for side in range(1, max(image) + 1):
        yield -(-image[0] // side), -(-image[1] // side)
        yield image[0] // side, image[1] // side


def _fits(size: Size, image: Size) -> bool:
    """Whether rows and columns are those of the image in steps of one size."""
    return size[0] > 1 and size in set(_square_patches(image))


Run = Callable[..., Any]
"""`run(function, *arguments, **keywords)`: how a step is computed; methods with rules of their own apply them here."""

SOFTMAX = frozenset({torch.softmax, Tensor.softmax, F.softmax})
FUSED = F.scaled_dot_product_attention
MULTI_HEAD = F.multi_head_attention_forward
_RECORDED = SOFTMAX | {FUSED, MULTI_HEAD}


def is_attention(made: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether what a softmax made are attention weights: (…, tokens, tokens), each row a share of all keys."""
    if not isinstance(made, Tensor) or made.dim() < 3:
        return False
    axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return axis in (-1, made.dim() - 1) and made.shape[-1] == made.shape[-2] > 1


def explicit_attention(
    run: Run,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Tensor]:
    """`scaled_dot_product_attention` in single steps: what is attended, and the weights; (…, heads, tokens, d)."""
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (part.repeat_interleave(times, -3) for part in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    logits = run(torch.matmul, run(torch.mul, query, factor), key.transpose(-2, -1))
    mask = torch.ones_like(logits[0, 0], dtype=torch.bool).tril() if is_causal and attn_mask is None else attn_mask
    if mask is not None and mask.dtype is torch.bool:
        mask = torch.zeros_like(mask, dtype=logits.dtype).masked_fill(~mask, float("-inf"))
    weights = run(torch.softmax, logits if mask is None else run(torch.add, logits, mask), -1)
    return run(torch.matmul, weights, value), weights


def explicit_multi_head(
    run: Run,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    heads: int,
    weight: Tensor | None,
    bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_weight: Tensor,
    out_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """`multi_head_attention_forward` in single steps, for tokens (tokens, n, features)."""
    rare = (bias_k, bias_v, key_padding_mask, static_k, static_v)
    if query.dim() != 3 or add_zero_attn or any(each is not None for each in rare):
        raise NotApplicable("nn.MultiheadAttention is followed without padding masks, added keys and zero attention")
    own = (q_proj_weight, k_proj_weight, v_proj_weight)
    weights = own if weight is None else weight.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    q, k, v = (
        run(F.linear, given, w, b).unflatten(2, (heads, -1)).permute(1, 2, 0, 3)
        for given, w, b in zip((query, key, value), weights, biases, strict=True)
    )
    mask = attn_mask.unflatten(0, (-1, heads)) if attn_mask is not None and attn_mask.dim() == 3 else attn_mask
    if mask is not None and mask.dtype is torch.bool:
        mask = ~mask  # here True is what may not be attended to
    attended, shares = explicit_attention(run, q, k, v, mask, is_causal=is_causal)
    out = run(F.linear, attended.permute(2, 0, 1, 3).flatten(2), out_weight, out_bias)
    if not need_weights:
        return out, None
    return out, shares.mean(1) if average_attn_weights else shares


class AttentionRecord(TorchFunctionMode):
    """Inside, the attention weights of a model are kept as they are made, layer by layer, as parts of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[Tensor] = []

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func not in _RECORDED:
            return func(*args, **kwargs)
        if func is FUSED:
            return explicit_attention(self._run, *args, **kwargs)[0]
        if func is MULTI_HEAD:
            return explicit_multi_head(self._run, *args, **multi_head_arguments(kwargs))
        return self._run(func, *args, **kwargs)

    def _run(self, func: Callable, *args: Any, **kwargs: Any) -> Any:
        made = func(*args, **kwargs)
        if func in SOFTMAX and is_attention(made, args, kwargs):
            self.weights.append(made)
        return made


_NAMES = {
    "embed_dim_to_check": "embed_dim",
    "num_heads": "heads",
    "in_proj_weight": "weight",
    "in_proj_bias": "bias",
    "out_proj_weight": "out_weight",
    "out_proj_bias": "out_bias",
}


def multi_head_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords of `multi_head_attention_forward` by the names of `explicit_multi_head`."""
    return {_NAMES.get(name, name): value for name, value in kwargs.items()}


def weights_per_image(weights: Tensor, images: int) -> Tensor:
    """Attention weights as (images, heads, tokens, tokens); refused where tokens attend within windows only."""
    if weights.dim() == 3 and len(weights) % images == 0:
        weights = weights.unflatten(0, (images, -1))
    if weights.dim() != 4 or len(weights) != images:
        raise NotApplicable(
            "attention is followed from layer to layer, and the tokens of this model attend within windows of the image"
        )
    return weights
