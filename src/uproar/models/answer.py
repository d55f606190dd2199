"""A model asked about images: in any memory layout, and with one sentence where it cannot answer."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from uproar.errors import BadInput, UproarError, one_line


def called(model: nn.Module, x: Tensor) -> Any:
    """`model(x)` for images in any memory layout, also where the model asks for a `view` that layout does not allow.

    Many networks end in `x.view(len(x), -1)`, which refuses feature maps that are laid out channels last. A model that
    cannot take the images at all is refused in one sentence.
    """
    if needs_plain_layout(model):
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
    return called(model, x)


def needs_plain_layout(model: nn.Module) -> bool:
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
    return BadInput(
        f"The model cannot take {x.dtype} images of shape {tuple(x.shape)} on {x.device}: {one_line(error)}"
    )


_VIEWING: weakref.WeakSet[nn.Module] = weakref.WeakSet()
"""Models that were met with such a view: from then on they take the detour at once."""


class CopiedViews(TorchFunctionMode):
    """Inside, a view that the memory layout does not allow is a copy."""

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        copying = _COPYING.get(func)
        if copying is None or kwargs:
            return func(*args, **(kwargs or {}))
        try:
            return func(*args)
        except RuntimeError:
            return copying(*args)


_COPYING: dict[Callable, Callable] = {
    Tensor.view: Tensor.reshape,
    Tensor.view_as: Tensor.reshape_as,
}
