"""Forward passes: class scores of images in any memory layout and precision; a model that refuses them is named."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from uproar.errors import BadInput, BadShape, UproarError, one_line

Reader = Callable[[Any, int], Tensor]
"""`(answer, rows) -> scores`: the scores (n, k) in what a model returned for so many images."""

_reader: ContextVar[Reader | None] = ContextVar("reader of model answers", default=None)


_answers_read: ContextVar[list[nn.Module] | None] = ContextVar("models inside whose answers were read", default=None)
"""A module that holds the model and calls `forward` itself returns scores: these are not read a second time."""


@contextmanager
def read_by(reader: Reader | None) -> Iterator[None]:
    """Inside, `forward` reads the answers of models by this function; None is `extract_class_scores`."""
    token = _reader.set(reader)
    try:
        yield
    finally:
        _reader.reset(token)


def forward(model: nn.Module, x: Tensor) -> Tensor:
    """The model's class scores (n, k) for images in any memory layout and precision.

    Images are given in the model's own precision; scores in half precision are given as float32. Many networks end in
    `x.view(len(x), -1)`, which refuses feature maps that are laid out channels last: such a view is then a copy. A
    model that cannot take the images at all is refused in one sentence.
    """
    reader = _reader.get()
    if reader is None:
        return extract_class_scores(raw_output(model, in_model_dtype(model, x)), len(x))
    around: list[nn.Module] | None = _answers_read.get()
    inside: list[nn.Module] = []
    token = _answers_read.set(inside)
    try:
        answer = raw_output(model, in_model_dtype(model, x))
    finally:
        _answers_read.reset(token)
    if around is not None:
        around.append(model)
    return extract_class_scores(answer, len(x)) if inside else reader(answer, len(x))


def extract_class_scores(output: Any, rows: int) -> Tensor:
    """The class scores (n, k) in whatever a model returned: the one place that decides.

    They are a tensor, or the attribute or key `logits`, or the only tensor (n, k) in a tuple, list or dict; anything
    else is refused. One number per image, (n,), is one score each.
    """
    scores = output if isinstance(output, Tensor) else _logits_in(output, rows)
    scores = scores[:, None] if scores.dim() == 1 else scores
    if scores.dim() != 2 or len(scores) != rows:
        raise BadShape(
            f"The model must return one row of class scores per image, ({rows}, classes), not {tuple(scores.shape)}."
        )
    if not scores.is_floating_point():
        raise BadInput(f"The model must return class scores as floats, not {scores.dtype}.")
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores


def _logits_in(output: Any, rows: int) -> Tensor:
    named = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if isinstance(named, Tensor):
        return named
    parts: list[Any] = []
    if isinstance(output, Mapping):
        parts = list(output.values())
    elif isinstance(output, tuple | list):
        parts = list(output)
    tensors = [p for p in parts if isinstance(p, Tensor) and p.dim() in (1, 2) and len(p) == rows]
    candidates = [p for p in tensors if p.dim() == 2] or tensors
    if len(candidates) == 1:
        return candidates[0]
    several = f" with {len(candidates)} tensors of one row per image" if len(candidates) > 1 else ""
    raise BadInput(
        f"The model must return a tensor of class scores, not {type(output).__name__}{several}: wrap it in a module "
        "that returns the scores alone."
    )


class ScoresOnly(nn.Module):
    """A model that returns more than class scores, or in another precision, as one that returns them alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return forward(self.model, x)


def returning_scores(model: nn.Module, x: Tensor) -> nn.Module:
    """The model for code that calls it itself: as it is if it takes and returns plain tensors, else in `ScoresOnly`."""
    if _reader.get() is not None:
        return ScoresOnly(model)
    with torch.no_grad():
        output = model(in_model_dtype(model, x))  # a fault of the model stays what it is
    plain = isinstance(output, Tensor) and output.dtype == x.dtype and dtype_of(model) in (None, x.dtype)
    return model if plain else ScoresOnly(model)


def dtype_of(model: nn.Module) -> torch.dtype | None:
    """The precision of a model's weights: that of the first of them; None without weights."""
    return next((w.dtype for w in model.parameters() if w.is_floating_point()), None)


def in_model_dtype(model: nn.Module, x: Tensor) -> Tensor:
    """Images in the precision of the model."""
    wanted = dtype_of(model)
    return x if wanted is None or x.dtype == wanted else x.to(wanted)


def raw_output(model: nn.Module, x: Tensor) -> Any:
    """What the model returns for images in any memory layout, of whatever type and shape."""
    if needs_contiguous_input(model):
        # by way of one dimension: images of one channel count as contiguous in either layout
        x = x.contiguous().view(-1).view(x.shape)
    if model in _VIEWING:
        with CopiedViews():
            return model(x)
    try:
        return model(x)
    except UproarError:
        raise
    except (TypeError, RuntimeError, ValueError) as error:
        if "view size is not compatible" not in str(error):
            raise _refusal(x, error) from error
    _VIEWING.add(model)
    return raw_output(model, x)


def needs_contiguous_input(model: nn.Module) -> bool:
    """Whether the model has a strided 1×1 convolution over fewer than eight channels.

    Channels last, its backward pass writes past its memory (oneDNN as shipped with torch 2.13, on a processor with
    AVX2), which kills the process or, worse, does not.
    """
    if model not in _PLAIN:
        _PLAIN[model] = any(
            isinstance(part, nn.Conv2d)
            and set(part.kernel_size) == {1}
            and max(part.stride) > 1
            and part.in_channels // part.groups < 8
            for part in model.modules()
        )
    return _PLAIN[model]


_PLAIN: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()


def _refusal(x: Tensor, error: Exception) -> Exception:
    if "out of memory" in str(error):
        return error
    lacking = isinstance(error, TypeError) and "missing" in str(error) and "argument" in str(error)
    hint = "; in Python inputs= gives it what it takes beside images, else wrap it in a module that holds them"
    said = f"The model cannot take {x.dtype} images of shape {tuple(x.shape)} on {x.device}: {one_line(error)}"
    return BadInput(said + hint * lacking)


_VIEWING: weakref.WeakSet[nn.Module] = weakref.WeakSet()
"""Models that were seen to make such a view: from then on views are copied at once."""


class CopiedViews(TorchFunctionMode):
    """Inside, a view that the memory layout does not allow is a copy."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        copying = _COPYING.get(func)
        if copying is None or kwargs:
            return func(*args, **(kwargs or {}))
        try:
            return func(*args)
        except RuntimeError:
            return copying(*args)


_COPYING: dict[Callable, Callable] = {Tensor.view: Tensor.reshape, Tensor.view_as: Tensor.reshape_as}
