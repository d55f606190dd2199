"""Forward passes: class scores of images in any memory layout and precision; a model that refuses them is named."""

from __future__ import annotations

import contextlib
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from uproar.errors import BadInput, BadShape, UproarError, one_line
from uproar.guard import HOOKS
from uproar.tensors import plain

Reader = Callable[[Any, int], Tensor]
"""`(answer, rows) -> scores`: the scores (n, k) in what a model returned for so many images."""

_reader: ContextVar[Reader | None] = ContextVar("reader of model answers", default=None)


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
    reader, answer = _reader.get(), raw_output(model, x)
    if reader is None or isinstance(model, ScoresOnly):  # which has read the answer already
        return extract_class_scores(answer, len(x))
    return reader(answer, len(x))


def extract_class_scores(output: Any, rows: int) -> Tensor:
    """The class scores (n, k) in whatever a model returned: the one place that decides.

    They are a tensor, or the attribute or key `logits`, or the only tensor (n, k) in a tuple, list or dict; anything
    else is refused. One number per image, (n,), is one score each.
    """
    scores = output
    if not isinstance(output, Tensor):
        scores = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if not isinstance(scores, Tensor):
        parts = output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple | list) else ()
        tensors = [p for p in parts if isinstance(p, Tensor) and p.dim() in (1, 2) and len(p) == rows]
        candidates = [p for p in tensors if p.dim() == 2] or tensors
        if len(candidates) != 1:
            several = f" with {len(candidates)} tensors of one row per image" if len(candidates) > 1 else ""
            raise BadInput(
                f"The model must return a tensor of class scores, not {type(output).__name__}{several}: wrap it in a "
                "module that returns the scores alone."
            )
        scores = candidates[0]
    scores = scores[:, None] if scores.dim() == 1 else scores
    if scores.dim() != 2 or len(scores) != rows:
        raise BadShape(
            f"The model must return one row of class scores per image, ({rows}, classes), not {tuple(scores.shape)}."
        )
    if not scores.is_floating_point():
        raise BadInput(f"The model must return class scores as floats, not {scores.dtype}.")
    return scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores


class ScoresOnly(nn.Module):
    """A model as one that takes images wherever they are, and returns class scores alone, there."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return forward(self.model, x.to(device_of(self.model))).to(x.device)


def returning_scores(model: nn.Module, x: Tensor) -> nn.Module:
    """The model for code that calls it itself: as it is if it takes and returns plain tensors, else in `ScoresOnly`."""
    if _reader.get() is not None:
        return ScoresOnly(model)
    dtype = dtype_of(model)
    with torch.no_grad():
        output = model(x if dtype is None else x.to(dtype))  # a fault of the model stays what it is
    plain = isinstance(output, Tensor) and output.dtype == x.dtype and dtype in (None, x.dtype)
    return model if plain else ScoresOnly(model)


def dtype_of(model: nn.Module) -> torch.dtype | None:
    """The precision of a model's weights: that of the first of them; None without weights."""
    return next((w.dtype for w in model.parameters() if w.is_floating_point()), None)


def raw_output(model: nn.Module, x: Tensor) -> Any:
    """What the model returns for images in any memory layout and precision, of whatever type and shape."""
    wanted = dtype_of(model)
    if wanted is not None and x.dtype != wanted:
        x = x.to(wanted)
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
        said = str(error)
        if "out of memory" in said:
            raise
        if "view size is not compatible" not in said:
            refusal = (
                f"The model cannot take {x.dtype} images of shape {tuple(x.shape)} on {x.device}: {one_line(error)}"
            )
            if isinstance(error, TypeError) and "missing" in said and "argument" in said:
                refusal += "; in Python inputs= gives it what it takes beside images, "
                refusal += "else wrap it in a module that holds them"
            raise BadInput(refusal) from error
    _VIEWING.add(model)
    return raw_output(model, x)


def needs_contiguous_input(model: nn.Module) -> bool:
    """Whether the model has a strided 1×1 convolution over fewer than eight channels.

    Channels last, its backward pass writes past its memory (oneDNN as shipped with torch 2.13, on a processor with
    AVX2), which kills the process or, worse, does not.
    """
    if model not in _PLAIN:
        _PLAIN[model] = any(
            isinstance(module, nn.Conv2d)
            and set(module.kernel_size) == {1}
            and max(module.stride) > 1
            and module.in_channels // module.groups < 8
            for module in model.modules()
        )
    return _PLAIN[model]


_PLAIN: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()

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


# A model is borrowed: put in evaluation, frozen, and given back exactly as it came, also after an error.


@contextmanager
def borrowed(model: nn.Module) -> Iterator[nn.Module]:
    """The model in evaluation mode with frozen weights; modes, flags and hooks come back afterwards.

    Frozen weights also make a backward pass cheaper: only the gradient of the input is computed.
    """
    modules, parameters = list(model.modules()), list(model.parameters())
    modes = [module.training for module in modules]
    flags = [parameter.requires_grad for parameter in parameters]
    tables = [table for module in modules for name in HOOKS if (table := getattr(module, name, None)) is not None]
    hooks = [OrderedDict(table) if table else None for table in tables]
    try:
        model.eval()
        for parameter, flag in zip(parameters, flags, strict=True):
            if flag:
                parameter.requires_grad_(False)
        yield model
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
        for parameter, flag in zip(parameters, flags, strict=True):
            if parameter.requires_grad != flag:
                parameter.requires_grad_(flag)
        for table, before in zip(tables, hooks, strict=True):
            if table or before:
                table.clear()
                table.update(before or {})


def device_of(model: nn.Module) -> torch.device:
    """The device a model's weights are on; without weights, the CPU."""
    return next((weight.device for weight in model.parameters()), torch.device("cpu"))


# Models with several inputs: the images are changed and explained, all else is held fixed.
#
# Inside `holding(model, inputs)` the model is called with the other inputs beside the images. A tensor with one row
# stands for all images, one with a row for each image belongs to that image, and anything else is given as it is.

GivenInputs = Mapping[str, Any] | Sequence[Any] | None
"""By the name of the argument, or in order behind the images."""


@dataclass
class HeldInputs:
    """The inputs of a model beside the images, of which there are so many."""

    values: dict[int | str, Any]
    """By place behind the images, or by the name of the argument."""
    images: int
    image: int | None = None
    """The image that is asked about, where inputs belong to images."""

    @classmethod
    def of(cls, inputs: Any, images: int, image: int | None = None) -> HeldInputs:
        """The inputs as they were given, refused where they are none."""
        if isinstance(inputs, Tensor | str) or not isinstance(inputs, Mapping | Sequence):
            raise BadInput(
                "inputs= are the model's inputs beside the images, by name ({'age': ages}) or in order ([ages]), not "
                f"{type(inputs).__name__}."
            )
        pairs = inputs.items() if isinstance(inputs, Mapping) else enumerate(inputs)
        return cls({key: plain(value) for key, value in pairs}, images, image)

    @property
    def by_image(self) -> bool:
        """Whether some belong to single images."""
        return any(_rows(value) == self.images > 1 for value in self.values.values())

    def beside(self, count: int) -> dict[int | str, Any]:
        """What the model gets beside `count` images, which are versions of one image where inputs belong to images."""
        values = {}
        for key, value in self.values.items():
            rows = _rows(value)
            if rows == self.images > 1:
                if self.image is None:
                    raise BadInput("An input that belongs to single images was asked for without saying of which.")
                value, rows = value[self.image : self.image + 1], 1
            values[key] = value.expand(count, *value.shape[1:]) if rows == 1 else value
        return values

    @property
    def odd(self) -> list[str]:
        """Which have neither one row nor one for each image: right only for a model that takes them as they are."""
        rows = {str(key): _rows(value) for key, value in self.values.items()}
        return [f"{key!r} has {count}" for key, count in rows.items() if count not in (None, 1, self.images)]


def _rows(value: Any) -> int | None:
    return len(value) if isinstance(value, Tensor) and value.dim() else None


@contextmanager
def holding(model: nn.Module, held: HeldInputs | None) -> Iterator[None]:
    """Inside, the model gets these inputs beside the images, however it is called; its layers keep their names."""
    if held is None:
        yield
        return

    def add(
        _module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values = held.beside(len(inputs[0]))
        positional = [value for key, value in values.items() if isinstance(key, int)]
        return (*inputs, *positional), {**named, **{n: value for n, value in values.items() if isinstance(n, str)}}

    hook = model.register_forward_pre_hook(add, with_kwargs=True)
    try:
        yield
    except BadInput as error:
        if not held.odd or error.__cause__ is None:
            raise
        raise BadInput(
            f"The model refuses its inputs=: of these, {', '.join(held.odd)} rows where 1 (for all images) or "
            f"{held.images} (one for each image) are expected."
        ) from error
    finally:
        hook.remove()


# A network on another device, called with tensors on the CPU.


def unwrap_remote(model: nn.Module) -> nn.Module:
    """The network itself, on its own device."""
    return model.model if isinstance(model, ScoresOnly) else model


def callable_from_cpu(model: nn.Module) -> nn.Module:
    """The model as one that takes images on the CPU: itself, if it is there."""
    return model if device_of(model).type == "cpu" else ScoresOnly(model)


def explain_on_device(explain: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`explain(model, images, classes, draws)` on the model's device, called with tensors on the CPU."""

    def explained(model: nn.Module, images: Tensor, classes: Tensor, *more: Any) -> Tensor:
        network = unwrap_remote(model)
        device = device_of(network)
        return explain(network, images.to(device), classes.to(device), *more).to(images.device)

    return explained


# How many images go through a model at once: as many as speed it up and memory holds, fewer when memory runs out. No
# result depends on the number, so it may be chosen by looking at the machine, and changed on the way.

Result = TypeVar("Result")

ON_CPU, ON_DEVICE = 128, 512
"""Rows beyond which more are no faster."""
SHARE = 0.25
"""Of the free memory that the outputs of all layers together may take; copies and gradients need the rest."""
OUT_OF_MEMORY = (torch.OutOfMemoryError, MemoryError)

_limit: ContextVar[int | None] = ContextVar("rows at most", default=None)


class MemoryBudget:
    """Rows per pass of one model on one kind of images; halved each time memory runs out.

    `short` says that memory, not time, decides how many.
    """

    def __init__(self, rows: int, short: bool = False) -> None:
        self.rows, self.short = max(rows, 1), short

    @classmethod
    def of(cls, model: nn.Module, x: Tensor) -> MemoryBudget:
        """The budget for images like these, from one pass of two of them and the memory that is free now."""
        device = device_of(model)
        most = ON_CPU if device.type == "cpu" else ON_DEVICE
        free = free_bytes(device)
        fits = most if free is None else int(SHARE * free) // max(bytes_per_image(model, x), 1)
        return cls(min(most, fits), short=fits < most)

    def run(self, work: Callable[[int], Result]) -> Result:
        """`work(rows)`, again with half the rows as often as memory runs out."""
        while True:
            token = _limit.set(self.rows if self.short else None)
            try:
                return work(self.rows)
            except OUT_OF_MEMORY:
                if self.rows == 1:
                    raise
                self.rows, self.short = self.rows // 2, True
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
            finally:
                _limit.reset(token)

    def over(self, n: int, most: int, work: Callable[[slice, int], Result]) -> Iterator[Result]:
        """`work(span, rows)` over 0..n-1 in spans of at most `most` and `rows`; one that fails is done in halves."""
        start = 0

        def next_span(rows: int) -> tuple[int, Result]:
            span = slice(start, min(start + min(most, rows), n))
            return span.stop, work(span, rows)

        while start < n:
            start, result = self.run(next_span)
            yield result


def rows_within_budget(rows: int) -> int:
    """`rows`, or fewer where memory is short: for those that choose their rows deep inside a `MemoryBudget`."""
    limit = _limit.get()
    return rows if limit is None else min(rows, limit)


def bytes_per_image(model: nn.Module, x: Tensor) -> int:
    """What one image takes on its way through the model: the images and the outputs of all layers together."""
    pair = x[:2] if len(x) > 1 else torch.cat([x[:1], x[:1]])
    total = pair.numel() * pair.element_size()

    def add(_: nn.Module, __: Any, output: Any) -> None:
        nonlocal total
        if isinstance(output, Tensor):
            total += output.numel() * output.element_size()

    leaves = [
        leaf for leaf in model.modules() if not list(leaf.children()) and not isinstance(leaf, torch.jit.ScriptModule)
    ]  # a scripted module has no hooks: only its images are counted
    with borrowed(model), torch.inference_mode():
        for leaf in leaves:
            leaf.register_forward_hook(add)
        forward(model, pair.to(device_of(model)))
    return total // 2


def free_bytes(device: torch.device, group: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Memory that can be taken on a device now, and in the group of a container; None where nobody says."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    sizes: list[int] = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with contextlib.suppress(OSError, ValueError):
        most, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        sizes.append(max(most - used, 0))
    return min(sizes, default=None) if device.type == "cpu" else None
