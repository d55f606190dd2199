"""Images as people have them, and the network made to take them in [0, 1].

    x, labels = read_given(loader)                                   # DataLoader, array, data set, folder
    with taking_pixels(model, x, "imagenet") as (network, pixels):   # pixels lie in [0, 1], network normalises them
        ...

Whatever was given as already normalised is brought back to [0, 1], and the network gets the normalisation as its first
step: black, grey and the noise of imputation mean the same for every network, and maps are of the same pixels.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from uproar.data.user_images import read_images
from uproar.errors import BadInput, BadShape
from uproar.models.forward import device_of, dtype_of
from uproar.models.normalise import FIXED, Preprocess, normalised_input
from uproar.tensors import check_images, plain, unusual_pixels

IMAGES, LABELS = ("pixel_values", "image", "images", "img", "x"), ("label", "labels", "target", "y")
"""What the images and the labels are called in batches that are dictionaries."""


def read_given(images: Any, limit: int | None = None, seed: int = 0) -> tuple[Tensor, Tensor | None]:
    """The images (n, c, h, w), at most `limit`, and their labels where they come with one class each.

    `images` is a tensor or an array, a pair of images and labels, a folder or array file, a data set (of torch or of
    Hugging Face), or anything that gives batches, such as a DataLoader. Of a folder or data set, the images are drawn
    at random; batches are taken in their order.
    """
    if isinstance(images, str | Path):
        x, _, labels = read_images(images, limit, mixed=seed)
        return x, labels
    if isinstance(images, Tensor | np.ndarray):
        return _batch(images)[:limit], None
    if isinstance(images, tuple) and len(images) == 2 and all(isinstance(a, Tensor | np.ndarray) for a in images):
        return _batch(images[0])[:limit], torch.as_tensor(images[1])[:limit]
    indexed = hasattr(images, "__getitem__") and hasattr(images, "__len__") and not isinstance(images, Sequence)
    if indexed and not isinstance(images, Mapping):  # a data set
        rows = np.random.default_rng(seed).permutation(len(images)).tolist()[:limit]
        images = map(images.__getitem__, rows)
    if isinstance(images, Mapping) or not isinstance(images, Iterable):
        raise BadInput(
            "Images are a tensor or an array (n, c, h, w), a folder, a data set, or batches such as of a DataLoader, "
            f"not {type(images).__name__}."
        )
    batches: list[Tensor] = []
    all_labels: list[Tensor | None] = []
    count = 0
    for item in images:
        pixels, label = _item(item)
        batches.append(_batch(pixels))
        all_labels.append(None if label is None else torch.as_tensor(label).reshape(-1))
        count += len(batches[-1])
        if limit is not None and count >= limit:
            break
    if not batches:
        raise BadInput("There are no images: give at least one.")
    if len({tuple(batch.shape[1:]) for batch in batches}) > 1:
        raise BadShape("The images have several sizes, and a network sees one: resize them in the transform.")
    classes = [label for label in all_labels if label is not None and not label.is_floating_point()]
    known = torch.cat(classes) if classes else None
    x = torch.cat(batches)
    return x[:limit], None if known is None or len(known) != len(x) else known[:limit].long()


def _item(item: Any) -> tuple[Any, Any]:
    """The images and labels of what a data set or a loader gives."""
    if isinstance(item, Mapping):
        pixels = next((item[name] for name in IMAGES if name in item), None)
        if pixels is None:
            raise BadInput(f"No images in {', '.join(map(str, item))}: they are looked for under {', '.join(IMAGES)}.")
        return pixels, next((item[name] for name in LABELS if name in item), None)
    if isinstance(item, tuple | list):
        return item[0], item[1] if len(item) > 1 else None
    return item, None


def _batch(pixels: Any) -> Tensor:
    """Images (n, c, h, w) as floats: bytes are divided by 255, pictures of PIL and arrays (…, h, w, c) are turned."""
    turned = not isinstance(pixels, Tensor)
    if hasattr(pixels, "convert"):  # a picture
        pixels = pixels if pixels.mode == "L" else pixels.convert("RGB")
    try:
        array = torch.from_numpy(np.array(pixels)) if turned else pixels
    except TypeError:
        raise BadInput(f"Images are tensors, arrays or pictures, not {type(pixels).__name__}.") from None
    if array.dim() == 3 and (array.shape[0] in (1, 3) or (turned and array.shape[2] in (1, 3))):
        array = array[None]  # one image
    if array.dim() in (2, 3):
        array = array.reshape(-1, 1, *array.shape[-2:])  # no channels
    if turned and array.dim() == 4 and array.shape[1] not in (1, 3) and array.shape[3] in (1, 3):
        array = array.permute(0, 3, 1, 2)
    x = plain(array)
    return x / 255 if x.dtype == torch.uint8 else x.float() if x.dtype == torch.float64 and turned else x


def normalisation(choice: Any) -> Preprocess | None:
    """What a user says of normalisation: a name, (mean, std), a transform of torchvision, weights, an image processor.

    >>> normalisation("imagenet").mean.flatten()
    tensor([0.4850, 0.4560, 0.4060])
    >>> normalisation((0.5, 0.25)).std.flatten()
    tensor([0.2500])
    """
    if isinstance(choice, str) and re.fullmatch(r"[-\d.,e ]+", choice):
        numbers = [float(number) for number in choice.split(",")]
        choice = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
    if isinstance(choice, str):
        if choice not in FIXED or choice == "caffe":
            names = ", ".join(name for name in FIXED if name != "caffe")
            raise BadInput(f"normalise= is one of {names}, a pair (mean, std) or a transform, not {choice!r}.")
        return None if choice == "none" else Preprocess(*FIXED[choice])
    if choice is None:
        return None
    if isinstance(choice, tuple | list) and len(choice) == 2:
        mean, std = (torch.as_tensor(values, dtype=torch.float).flatten().tolist() for values in choice)
        return Preprocess(tuple(mean), tuple(std))
    preprocess = _found_in(choice)
    if preprocess is None:
        raise BadInput(
            f"normalise= is a name, a pair (mean, std) or a transform, and {choice!r:.80} names no mean and std."
        )
    return preprocess


def _found_in(source: Any) -> Preprocess | None:
    """Mean and standard deviation that an object carries: a transform, weights of torchvision, an image processor."""
    if hasattr(source, "image_mean"):
        return Preprocess.of_processor(source)
    if hasattr(source, "mean") and hasattr(source, "std") and not isinstance(source, Tensor | np.ndarray):
        return normalisation((source.mean, source.std))
    steps = getattr(source, "transforms", None)
    if steps is None:
        return None
    parts = [steps()] if callable(steps) and not isinstance(steps, nn.Module) else steps
    return next((preprocess for step in parts if (preprocess := _found_in(step)) is not None), None)


def found_normalisation(model: nn.Module, source: Any) -> Preprocess | None:
    """The normalisation that a loader's data set, a network of timm or of Hugging Face says it has; None without."""
    data = getattr(source, "dataset", source)
    transform = getattr(data, "transform", None)
    if transform is not None and (preprocess := _found_in(transform)) is not None:
        return preprocess
    if getattr(model, "pretrained_cfg", None):
        return Preprocess.of_timm(model)
    name = getattr(getattr(model, "config", None), "_name_or_path", "")
    if not name:
        return None
    try:
        AutoImageProcessor = importlib.import_module("transformers").AutoImageProcessor
        return Preprocess.of_processor(AutoImageProcessor.from_pretrained(name, local_files_only=True))
    except (ImportError, OSError, ValueError):
        return None


@contextmanager
def taking_pixels(
    model: nn.Module, x: Tensor, normalise: Any = None, source: Any = None
) -> Iterator[tuple[nn.Module, Tensor]]:
    """The network as one that takes images in [0, 1], and the images as such; it is given back as it came.

    Images beyond [0, 1] are taken as normalised: as `normalise` says, or as the network or its data say.
    """
    check_images(x)
    x = plain(x)
    step, outside = normalisation(normalise), bool(unusual_pixels(x))
    if step is None and outside and normalise is None:
        step = found_normalisation(model, source)
    if step is None:
        yield model, x
        return
    step = step.to(device_of(model), dtype_of(model))
    with normalised_input(model, step) as network:
        yield network, pixels_of(x, step)


def pixels_of(x: Tensor, step: Preprocess | None) -> Tensor:
    """Images in [0, 1]: the normalisation of those that lie beyond it is undone."""
    if step is None or not unusual_pixels(x):
        return x
    if len(step.mean.flatten()) not in (1, x.shape[1]):
        raise BadInput(f"normalise= is for {len(step.mean.flatten())} channels, and the images have {x.shape[1]}.")
    pixels = (x * step.std.to(x) + step.mean.to(x)) / step.scale
    if unusual_pixels(pixels):
        low, high = float(pixels.min()), float(pixels.max())
        raise BadInput(f"normalise= does not fit: undone, the images run from {low:.3g} to {high:.3g}, not 0 to 1.")
    return pixels.clamp(0, 1)
