"""Tensors that callers hand over, checked before anything is computed, and the only loop over batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from uproar.errors import BadInput, BadShape

OVERSHOOT = 0.1
"""How far beyond [0, 1] pixels may lie: resizing with cubic splines leaves some there."""


def check_model(model: Any) -> None:
    """Refuse what is no network, or has weights without values, or such as can be neither frozen nor differentiated."""
    if not isinstance(model, nn.Module):
        raise BadInput(f"The model is a torch.nn.Module, not {type(model).__name__}.")
    for weight in (*model.parameters(), *model.buffers()):
        if weight.is_meta and type(weight.data) is Tensor:  # a subclass keeps its values itself
            raise BadInput(
                "The model is on the meta device, where weights have shapes but no values: load it on the CPU or a GPU."
            )
        if weight.is_inference():
            raise BadInput(
                "The model's weights were made inside torch.inference_mode(), so they can be neither frozen nor "
                "differentiated through: build and load the model outside of it."
            )


def plain(a: Any) -> Any:
    """A tensor with no history, which autograd and in-place work can use; all else as it is."""
    if not isinstance(a, Tensor):
        return a
    with torch.inference_mode(False):
        return a.clone() if a.is_inference() else a.detach()


@contextmanager
def outside_inference_mode() -> Iterator[None]:
    """Inside, gradients can be computed even where the caller is in torch.inference_mode()."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield


def in_single(x: Tensor) -> Tensor:
    """Images in half precision or bfloat16 as float32, in which they are changed; the model gets them as its own."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


MOST_WHOLE = 2**53
"""Whole numbers up to this are exact in double precision."""


def map_values(a: Tensor, name: str = "the map") -> Tensor:
    """Map values as floats in the order they were given: no two that differ become equal.

    float32 and float64 stay as they are; half precision and whole numbers of at most 16 bits become float32, longer
    ones float64. The type depends on that of the map alone, never on the values in a batch.
    """
    if a.dtype in (torch.float32, torch.float64):
        return a
    if a.is_complex():
        raise BadInput(f"{name} has complex values, which have no order.")
    if a.is_floating_point() or a.element_size() <= 2:
        return a.float()
    if a.numel() and max(int(a.max()), -int(a.min())) > MOST_WHOLE:
        raise BadInput(
            f"{name} has whole numbers beyond 2**53, not all exact in double precision: give their ranks instead."
        )
    return a.double()


def check_images(x: Any) -> None:
    """Refuse what are no images: bytes, another number of dimensions, none at all, NaN."""
    if not isinstance(x, Tensor) or x.dim() != 4:
        got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise BadShape(f"Images are a float tensor (n, c, h, w), not {got}.")
    if not x.is_floating_point():
        raise BadInput(f"Images are floats in [0, 1], not {x.dtype}; divide bytes by 255.")
    if len(x) == 0:
        raise BadInput("There are no images: give at least one.")
    if not bool(x.isfinite().all()):
        raise BadInput("The images have NaN or infinite pixels.")


def unusual_pixels(x: Tensor) -> list[str]:
    """What to keep in mind of images that do not lie in [0, 1], in a sentence; nothing of others."""
    low, high = float(x.min()), float(x.max())
    if low >= -OVERSHOOT and high <= 1 + OVERSHOOT:
        return []
    return [
        f"The images run from {low:.3g} to {high:.3g}, not from 0 to 1. If they are normalised, say how: normalise="
        '"imagenet" or (mean, std), on the command line --normalise; divide bytes by 255. As they are, black, grey and '
        "the noise of imputation are numbers in their units."
    ]


def undefined_maps(maps: Mapping[str, Tensor]) -> list[str]:
    """A sentence on each method some of whose maps cannot be ranked: a picture or a mean does not show it."""
    bad = {name: ~torch.isfinite(method_maps).flatten(1).all(1) for name, method_maps in maps.items()}
    return [
        f"{name} has NaN or infinite values in {int(rows.sum())} of {len(rows)} maps."
        for name, rows in bad.items()
        if bool(rows.any())
    ]


def check_like(images: Tensor | None, x: Tensor, name: str) -> None:
    """Refuse other images, such as `train`, of another shape than those in question."""
    if images is not None and images.shape[1:] != x.shape[1:]:
        raise BadShape(f"The images are {tuple(x.shape[1:])} each, but those of {name}= {tuple(images.shape[1:])}.")


def check_batch_size(rows: int | None) -> None:
    """Refuse to take less than one image at a time."""
    if rows is not None and rows < 1:
        raise BadInput(f"batch_size must be at least 1, not {rows}.")


def _whole_numbers(values: Any, what: str) -> Tensor:
    """A tensor of whole numbers, from whatever holds them; anything else is refused."""
    try:
        numbers = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise BadInput(f"{what}, not {values!r}.") from None
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
        raise BadInput(f"{what}, not {str(numbers.dtype).removeprefix('torch.')}.")
    return numbers


def classes_of(values: Any, count: int, what: str) -> Tensor:
    """One class for each of `count` images, from whatever holds whole numbers."""
    classes = _whole_numbers(values, f"The {what} are whole numbers, one per image")
    if classes.shape != (count,):
        raise BadShape(f"There are {count} images but {what} of shape {tuple(classes.shape)}.")
    return classes.long()


def check_training_labels(labels: Tensor, classes: int) -> None:
    """Refuse labels of training images that the model has no outputs for."""
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise BadInput(
            f"The labels of the training images run from {low} to {high}, but the model has {classes} classes."
        )


def boxes_of(values: Any, count: int) -> Tensor:
    """The boxes of `count` images, (n, 4) or (n, m, 4), from whatever holds whole numbers."""
    boxes = _whole_numbers(values, "boxes= are whole numbers x0, y0, x1, y1 for every image")
    if boxes.dim() not in (2, 3) or len(boxes) != count or boxes.shape[-1] != 4:
        raise BadShape(
            f"boxes= are of shape {tuple(boxes.shape)}; for {count} images they must be ({count}, 4), or "
            f"({count}, m, 4) for several in an image."
        )
    return boxes


def colour_of(value: Any, x: Tensor, name: str) -> Tensor | None:
    """A colour, (c,), of the images' kind; a single number stands for all channels."""
    if value is None:
        return None
    try:
        colour = torch.as_tensor(value, dtype=x.dtype).flatten()
    except (TypeError, ValueError, RuntimeError):
        raise BadInput(f"{name}= is a colour, one number per channel, not {value!r}.") from None
    if len(colour) == 1:
        colour = colour.expand(x.shape[1])
    if len(colour) != x.shape[1]:
        raise BadShape(f"{name}= has {len(colour)} numbers, but the images have {x.shape[1]} channels.")
    return colour


# batches

Result = TypeVar("Result")


def spans(n: int, size: int) -> Iterator[slice]:
    """Consecutive slices of at most `size` that cover 0..n-1."""
    if size < 1:
        raise BadInput(f"A batch holds at least one sample, not {size}.")
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def in_batches(function: Callable[..., Result], *columns: Any, size: int) -> Result:
    """`function` over all rows of the columns, joined as if it had been called once.

    Columns are tensors or anything that is sliced by rows; `function` returns a tensor, or a tuple or dict
    of tensors, with one row per sample.
    """
    n = len(columns[0])
    if any(len(column) != n for column in columns):
        lengths = ", ".join(str(len(column)) for column in columns)
        raise BadShape(f"The inputs must have one row per sample each, but have {lengths} rows.")
    if n == 0:
        raise BadInput("There are no samples: give at least one.")
    results: list[Any] = [function(*(column[rows] for column in columns)) for rows in spans(n, size)]
    if len(results) == 1:
        return results[0]
    if isinstance(results[0], dict):
        return {name: torch.cat([result[name] for result in results]) for name in results[0]}  # type: ignore[return-value]
    if isinstance(results[0], tuple):
        return tuple(torch.cat(column) for column in zip(*results, strict=True))  # type: ignore[return-value]
    return torch.cat(results)  # type: ignore[return-value]
