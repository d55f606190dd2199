"""Class scores, their gradients with respect to the image, and backward passes with other rules than gradients."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from uproar.errors import BadInput, NotApplicable
from uproar.models.forward import forward, rows_within_budget
from uproar.models.output_kind import assumed_output, scores_or_values
from uproar.tensors import spans
from uproar.types import Images, Labels

Score = Literal["probability", "logit"]

_ROWS, _TINY_VALUES, _VALUES = 256, 2**16, 2**21


def rows_for(x: Images) -> int:
    """Rows per pass when each image is evaluated at many points: 256, more of tiny images and fewer of large ones.

    It bounds memory whatever the batch; on a CPU more rows are no faster. Fewer where memory is short.
    """
    values = max(1, x[0].numel())
    return max(2, rows_within_budget(min(max(_ROWS, _TINY_VALUES // values), _VALUES // values)))


def class_scores(model: nn.Module, x: Images, target: Labels, score: Score = "logit") -> Tensor:
    """The score of each image's own target class, (n,); of a regression its value."""
    out = forward(model, x)
    out = scores_or_values(out) if score == "probability" else out
    if len(target) and (int(target.min()) < 0 or int(target.max()) >= out.shape[1]):
        noun = {"softmax": "classes", "sigmoid": "labels", "regression": "components"}[assumed_output().kind]
        raise BadInput(
            f"The target {noun} run from {int(target.min())} to {int(target.max())}, but the model "
            f"has {out.shape[1]} {noun} (0 to {out.shape[1] - 1})."
        )
    return out.gather(1, target[:, None])[:, 0]


def input_gradient(model: nn.Module, x: Images, target: Labels) -> Tensor:
    """Gradient of each image's target score with respect to that image alone."""
    with torch.enable_grad():
        x = tracked(x)
        total = class_scores(model, x, target).sum()
    return gradients(total, [x])[0].contiguous()


def tracked(x: Images) -> Tensor:
    """The images as the start of a graph, in the memory layout that is faster."""
    return x.detach().clone(memory_format=torch.channels_last).requires_grad_()


def gradients(total: Tensor, inputs: Sequence[Tensor], of: str = "the image") -> tuple[Tensor, ...]:
    """Gradients of a sum of scores, None where it does not depend on an input; the first one is needed."""
    slopes = torch.autograd.grad(total, inputs, allow_unused=True) if total.requires_grad else (None,)
    if slopes[0] is None:
        raise BadInput(f"The model's scores do not depend on {of} in a differentiable way.")
    return slopes


def sum_over_points(function: Callable[[int, int], Tensor], points: int, x: Images, share: float = 1.0) -> Tensor:
    """Sum of `function(first, last)`, the maps of versions first..last-1, (n, last - first, ...), over all versions.

    Versions are evaluated several at a time, as memory allows. `share` is the part of the usual rows to use where a
    version costs more than one.
    """
    together = max(1, int(share * rows_for(x)) // len(x))
    parts = (function(chunk.start, chunk.stop).sum(1) for chunk in spans(points, together))
    return sum(parts, torch.zeros(()))


def target_scores(model: nn.Module, x: Images, target: Labels, score: Score) -> Float[Tensor, " n"]:
    """Probability or logit of each image's target, in double precision; of a regression its value.

    A probability close to 1 has no digits left in single precision, so that all small changes would be ties.
    """
    # the layout that is faster, and whose convolutions do not depend on the number of images
    return class_scores(model, x.contiguous(memory_format=torch.channels_last), target, score).double()


def scores_of_versions(
    model: nn.Module,
    x: Images,
    target: Labels,
    score: Score,
    count: int,
    versions: Callable[[int, int], Float[Tensor, "n m c h w"]],
) -> Float[Tensor, "n {count}"]:
    """Target scores of all versions of every image; `versions(first, last)` makes some of them at a time."""
    chunks = spans(count, max(1, rows_for(x) // len(x)))
    return torch.cat([scores_of(model, versions(chunk.start, chunk.stop), target, score) for chunk in chunks], 1)


def scores_of(
    model: nn.Module, versions: Float[Tensor, "n m c h w"], target: Labels, score: Score
) -> Float[Tensor, "n m"]:
    """Target scores of versions that are there already."""
    repeated = target.repeat_interleave(versions.shape[1])
    return target_scores(model, versions.flatten(0, 1), repeated, score).view(versions.shape[:2])


# Backward passes with rules of ours: single operations of a running model get another way back
# Operations are caught where torch dispatches them, so modules, functional calls, shared and in-place ones are all the
# same. Afterwards the graph of the scores is read: an operation that neither has a rule nor is allowed as it is, is
# refused by name. So scripted, compiled and self-made operations cannot slip through with their plain gradient.

Rule = Callable[[Callable, tuple, dict[str, Any]], Any]
"""(function, arguments, keywords) -> what the function would return, with another way back."""

MOVES = frozenset(
    [
        *("AccumulateGrad", "Alias", "AsStrided", "Cat", "ChannelShuffle", "Clone", "ConstantPadNd", "Expand"),
        *("Flip", "Gather", "Index", "IndexSelect", "Permute", "PixelShuffle", "PixelUnshuffle", "ReflectionPad2D"),
        *("Repeat", "ReplicationPad2D", "ReshapeAlias", "Roll", "Select", "Slice", "Split", "SplitWithSizes"),
        *("Squeeze", "Stack", "T", "ToCopy", "Transpose", "Unbind", "UnsafeSplit", "UnsafeView", "Unsqueeze"),
        *("UpsampleNearest2D", "View"),
    ]
)
"""Operations of a graph that only move or copy values: their gradient is right for any rule."""

ONE_FACTOR = frozenset({"Addmm", "Bmm", "Convolution", "CudnnBatchNorm", "Div", "Mm", "Mul", "NativeBatchNorm"})
"""Operations that are linear as long as only one of their operands depends on the image."""

_NOT_IN_PLACE = ("requires_grad_", "detach_", "share_memory_")


class _Rewired(torch.autograd.Function):
    """A value computed from inputs, with `back(gradient) -> a gradient for each input` as its way back."""

    @staticmethod
    def forward(ctx: Any, value: tuple[Tensor], back: Callable, *inputs: Tensor) -> Tensor:
        ctx.back = back
        return value[0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, None, *ctx.back(gradient)


def with_backward(value: Tensor, back: Callable[[Tensor], tuple[Tensor, ...]], *inputs: Tensor) -> Tensor:
    """`value` as if computed from `inputs`; in a backward pass `back` says what each of them gets."""
    # in a tuple, the value is not itself an input of the operation
    return _Rewired.apply((value.detach(),), back, *inputs)


class Interception(TorchFunctionMode):
    """A model run with rules for some operations, by name without trailing underscores.

    Nothing happens in place inside: an in-place operation works on a copy, and whoever holds the old tensor is given
    the new one, so that a rule can rely on the values it has seen.
    """

    def __init__(self, method: str, rules: Mapping[str, Rule], allowed: Iterable[str] = ()) -> None:
        super().__init__()
        self.method, self.rules, self.allowed = method, dict(rules), MOVES.union(allowed)
        if "softmax" in rules:  # attention is taken apart into steps that have rules
            steps = functools.partial(attention_in_steps, self.run)
            self.rules |= dict.fromkeys(("scaled_dot_product_attention", "multi_head_attention_forward"), steps)
        self.replaced: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        args, kwargs = self._now(args), self._now(kwargs or {})
        if not args and "input" in kwargs:
            args = (kwargs.pop("input"),)
        name, old = func.__name__, None
        ending = name.endswith("_") and not name.endswith("__") and name not in _NOT_IN_PLACE
        if args and isinstance(args[0], Tensor) and (ending or kwargs.get("inplace") or name == "__setitem__"):
            old = args[0] if image_dependent(args) else None
        if old is not None:
            args, kwargs = ((old.clone(), *args[1:]), {**kwargs, **dict.fromkeys(kwargs.keys() & {"inplace"}, False)})
        result = self.run(func, *args, **kwargs)
        if old is not None:
            # item assignment returns nothing
            result = args[0] if result is None else result
            self.replaced[id(old)] = (old, result)
        return result

    def run(self, func: Callable, *args: Any, **kwargs: Any) -> Any:
        """An operation, or a step of one that was taken apart, with the rule for it."""
        rule = self.rules.get(func.__name__.rstrip("_")) if image_dependent(args, kwargs) else None
        return rule(func, args, kwargs) if rule else func(*args, **kwargs)

    def _now(self, value: Any) -> Any:
        """The arguments, with tensors that were changed in place as they are now."""
        if isinstance(value, Tensor):
            while id(value) in self.replaced:
                value = self.replaced[id(value)][1]
            return value
        if type(value) in (tuple, list):
            return type(value)(self._now(each) for each in value)
        if type(value) is dict:
            return {name: self._now(each) for name, each in value.items()}
        return value

    def scores(self, model: nn.Module, x: Images, target: Labels) -> Tensor:
        """The class scores with the rules in their graph; refused where that would not be this model."""
        try:
            with torch.enable_grad(), self:
                scores = class_scores(model, x, target)
        finally:
            self.replaced.clear()
        if scores.grad_fn is None:
            raise BadInput("The model's scores do not depend on the image in a differentiable way.")
        for node in graph(scores.grad_fn):
            name, by_batch = operation(node), bool(getattr(node, "_saved_training", False))
            several = sum(before is not None for before, _ in node.next_functions) > 1
            if name != "_Rewired" and (name not in self.allowed or (several and name in ONE_FACTOR) or by_batch):
                why = " of two activations" if several and name in self.allowed else ""
                why = " with statistics of the batch or image" if by_batch else why
                raise NotApplicable(f"{self.method} has no rule for the operation {name!r}{why} in this model")
        with torch.no_grad():
            plain = class_scores(model, x[:2].detach(), target[:2])
        if not torch.allclose(plain, scores[:2].detach(), rtol=1e-3, atol=1e-4, equal_nan=True):
            raise NotApplicable(f"{self.method} cannot follow this model's in-place changes of tensor views")
        return scores


def image_dependent(*arguments: Any) -> list[Tensor]:
    """The tensors among the arguments that depend on the image (a borrowed model's weights are frozen)."""
    tensors: list[Tensor] = []
    for each in arguments:
        if isinstance(each, Tensor):
            tensors += [each] if each.requires_grad else []
        elif isinstance(each, dict):
            tensors += image_dependent(*each.values())
        elif isinstance(each, list | tuple):
            tensors += image_dependent(*each)
    return tensors


def scale_and_shift(args: tuple, kwargs: dict[str, Any]) -> tuple[Tensor, Tensor] | None:
    """What a batch norm with these arguments multiplies each channel with and adds; None without running statistics."""
    names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    arguments = dict(zip(names, args, strict=False)) | kwargs
    mean, var = arguments.get("running_mean"), arguments.get("running_var")
    if mean is None or var is None or arguments.get("training"):
        return None
    scale = torch.rsqrt(var + arguments.get("eps", 1e-5))
    scale = scale if arguments.get("weight") is None else scale * arguments["weight"]
    return scale, -mean * scale + (0.0 if arguments.get("bias") is None else arguments["bias"])


def graph(start: Any) -> list[Any]:
    """All operations that the start depends on."""
    seen: dict[Any, None] = {}
    open_ = [start]
    while open_:
        node = open_.pop()
        if node is not None and node not in seen:
            seen[node] = None
            open_.extend(before for before, _ in node.next_functions)
    return list(seen)


def operation(node: Any) -> str:
    """`torch::autograd::AccumulateGrad` and `SqueezeBackward1` as AccumulateGrad and Squeeze."""
    return re.sub(r"(Backward)?\d*$", "", node.name().rpartition(":")[2])


# attention in single steps: fused and multi-head attention keep no weights, and have no rule as a whole

Run = Callable[..., Any]
"""`run(function, *arguments, **keywords)`: how a step is computed; methods with rules of their own apply them here."""

SOFTMAX = frozenset({torch.softmax, Tensor.softmax, F.softmax})
FUSED = F.scaled_dot_product_attention
MULTI_HEAD = F.multi_head_attention_forward


def is_attention(output: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether what a softmax made are attention weights: (…, tokens, tokens), each row a share of all keys."""
    if not isinstance(output, Tensor) or output.dim() < 3:
        return False
    axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return axis in (-1, output.dim() - 1) and output.shape[-1] == output.shape[-2] > 1


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
        key, value = (tensor.repeat_interleave(times, -3) for tensor in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    logits = run(torch.matmul, run(torch.mul, query, factor), key.transpose(-2, -1))
    mask = torch.ones_like(logits[0, 0], dtype=torch.bool).tril() if is_causal and attn_mask is None else attn_mask
    if mask is not None and mask.dtype is torch.bool:
        mask = torch.zeros_like(mask, dtype=logits.dtype).masked_fill(~mask, float("-inf"))
    weights = run(torch.softmax, logits if mask is None else run(torch.add, logits, mask), -1)
    return run(torch.matmul, weights, value), weights


def attention_in_steps(run: Run, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What fused or multi-head attention returns, the latter for tokens (tokens, n, features)."""
    if func is FUSED:
        return explicit_attention(run, *args, **kwargs)[0]
    call = inspect.signature(MULTI_HEAD).bind(*args, **kwargs)
    call.apply_defaults()
    arguments = SimpleNamespace(**call.arguments)
    rare = (arguments.bias_k, arguments.bias_v, arguments.key_padding_mask, arguments.static_k, arguments.static_v)
    if arguments.query.dim() != 3 or arguments.add_zero_attn or any(each is not None for each in rare):
        raise NotApplicable("nn.MultiheadAttention is followed without padding masks, added keys and zero attention")
    weights = (arguments.q_proj_weight, arguments.k_proj_weight, arguments.v_proj_weight)
    weights = weights if arguments.in_proj_weight is None else arguments.in_proj_weight.chunk(3)
    biases = (None, None, None) if arguments.in_proj_bias is None else arguments.in_proj_bias.chunk(3)
    query, key, value = (
        run(F.linear, tokens, weight, bias).unflatten(2, (arguments.num_heads, -1)).permute(1, 2, 0, 3)
        for tokens, weight, bias in zip((arguments.query, arguments.key, arguments.value), weights, biases, strict=True)
    )
    mask = arguments.attn_mask
    if mask is not None and mask.dim() == 3:
        mask = mask.unflatten(0, (-1, arguments.num_heads))
    if mask is not None and mask.dtype is torch.bool:
        mask = ~mask  # here True is what may not be attended to
    attended, shares = explicit_attention(run, query, key, value, mask, is_causal=arguments.is_causal)
    out = run(F.linear, attended.permute(2, 0, 1, 3).flatten(2), arguments.out_proj_weight, arguments.out_proj_bias)
    if not arguments.need_weights:
        return out, None
    return out, shares.mean(1) if arguments.average_attn_weights else shares
