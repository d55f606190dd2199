"""Images of the user's own: a folder of picture files, or an array file."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from uproar.arrays import KINDS, read_arrays
from uproar.data.cropping import CentreCrop
from uproar.errors import BadInput, BadShape
from uproar.paths import user_path

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")


NamedImages = tuple[Tensor, list[str], Tensor | None]
"""Images with their names, and labels where there are any."""


def read_images(
    path: str | Path, limit: int | None = None, size: int | None = None, mixed: int | None = None
) -> NamedImages:
    """Images as floats in [0, 1], (n, c, h, w), with names, and labels where a file holds them; at most `limit`.

    A folder gives its picture files by name, which must be of one size, or are scaled and cut to `size` × `size`
    pixels. Where it has none, but folders of pictures, these are the classes, numbered by name, which take turns. An
    array file gives `images`, or its only array: (n, c, h, w), (n, h, w, c) or (n, h, w), bytes or floats in [0, 1].

    With a seed in `mixed`, what comes by name or in the order of a file comes in an order drawn by lot instead, classes
    by turns where there are labels: files are often sorted by class, and the first ones are then no sample.
    """
    place = user_path(path)
    if place.is_dir():
        pictures = _in_folder(place)
        flat = mixed is not None and all(label is None for _, label in pictures)
        pictures = [pictures[i] for i in _mixed(len(pictures), None, mixed)] if flat else pictures
        pictures = pictures[:limit]
        x, names, _ = _stacked([file for file, _ in pictures], size)
        classes = [label for _, label in pictures if label is not None]
        return x, names, torch.tensor(classes) if classes else None
    if place.suffix in KINDS:
        if size is not None:
            raise BadInput(f"--size is for pictures; {place.name} holds arrays, which are taken as they are.")
        x, names, labels = _from_arrays(place)
        rows = list(range(len(x))) if mixed is None else _mixed(len(x), labels, mixed)
        rows = rows[:limit]
        return x[rows], [names[i] for i in rows], None if labels is None else labels[rows]
    if place.suffix.lower() in PICTURES and place.is_file():
        return _stacked([place], size)
    if not place.exists():
        raise BadInput(f"There is no file or folder {path}.")
    raise BadInput(f"{path} is neither a folder of pictures nor a picture nor one of {', '.join(KINDS)}.")


def _mixed(n: int, labels: Tensor | None, seed: int | None) -> list[int]:
    """Rows in an order drawn by lot; where each has a class, the classes take turns.

    >>> [int(label) for label in torch.tensor([5, 5, 5, 7])[_mixed(4, torch.tensor([5, 5, 5, 7]), 0)]]
    [5, 7, 5, 5]
    """
    order = np.random.default_rng(seed).permutation(n).tolist()
    if labels is None or labels.ndim != 1:
        return order
    by_class: dict[int, list[int]] = {}
    for row in order:
        by_class.setdefault(int(labels[row]), []).append(row)
    turns = zip_longest(*(by_class[label] for label in sorted(by_class)))
    return [row for turn in turns for row in turn if row is not None]


def count_images(path: str | Path) -> int:
    """How many images a folder or file has, without decoding pictures."""
    place = user_path(path)
    if place.is_dir():
        return len(_in_folder(place))
    return len(_from_arrays(place)[0]) if place.suffix in KINDS else 1


def count_classes(path: str | Path) -> int | None:
    """How many folders of pictures a folder without pictures has; None of anything else."""
    place = user_path(path)
    if not place.is_dir() or _pictures(place):
        return None
    return len(_class_folders(place)) or None


def _in_folder(folder: Path) -> list[tuple[Path, int | None]]:
    """The pictures of a folder, or by turns those of its class folders, each with its label where there is one."""
    files: list[tuple[Path, int | None]] = [(file, None) for file in _pictures(folder)]
    if not files:
        by_class = [[(file, k) for file in files] for k, files in enumerate(_class_folders(folder).values())]
        files = [file for turn in zip_longest(*by_class) for file in turn if file is not None]
    if not files:
        raise BadInput(f"There are no pictures ({', '.join(PICTURES)}) in {folder}, nor in folders in it.")
    return files


def _class_folders(folder: Path) -> dict[str, list[Path]]:
    """The pictures of every folder in a folder, by name; of none where there are no pictures at all."""
    inner = sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith("."))
    found = {f.name: _pictures(f) for f in inner}
    return found if any(found.values()) else {}


def _pictures(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.suffix.lower() in PICTURES)


def _stacked(files: list[Path], size: int | None) -> NamedImages:
    names = [file.stem for file in files]
    if size is not None:
        crop = CentreCrop(size)
        framed = np.stack([crop.picture(file) for file in files])
        return torch.from_numpy(framed).float() / 255, names, None
    pixels = [_picture(file) for file in files]
    _check_sizes(files, pixels)
    stack = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous()
    return stack.float() / 255, names, None


def _check_sizes(files: list[Path], pixels: list[np.ndarray]) -> None:
    """Refuse pictures of several sizes, with what was seen and what to do."""
    first = {f"{one.shape[1]}x{one.shape[0]}": file.name for file, one in zip(files, pixels, strict=True)}
    if len(first) == 1:
        return
    seen = [f"{name} is {size}" for size, name in list(first.items())[:3]]
    more = f" and {len(first) - 3} more" if len(first) > 3 else ""
    raise BadShape(
        f"The pictures have {len(first)} sizes ({', '.join(seen)}{more}), and a network sees one: give --size 224 to "
        "scale each and keep the middle 224x224 pixels."
    )


def _picture(file: Path) -> np.ndarray:
    try:
        with Image.open(file) as picture:
            return np.asarray(picture.convert("RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise BadInput(f"{file} cannot be read as a picture: {error}.") from None


def _from_arrays(file: Path) -> tuple[Tensor, list[str], Tensor | None]:
    arrays = read_arrays(file)
    if "images" not in arrays and len(arrays) != 1:
        raise BadInput(f"{file.name} holds {', '.join(arrays)}; one of its arrays must be called 'images'.")
    x = arrays.get("images", next(iter(arrays.values())))
    if x.dtype.kind not in "fiub":
        raise BadInput(f"The images in {file.name} are numbers, not {x.dtype}.")
    if x.ndim == 3:
        x = x[:, None]
    if x.ndim == 4 and x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim != 4 or not len(x):
        raise BadShape(f"The images in {file.name} must be (n, c, h, w), not {x.shape}.")
    pixels = torch.from_numpy(np.ascontiguousarray(x)).float()
    if not pixels.isfinite().all():
        raise BadInput(f"The images in {file.name} have NaN or infinite pixels.")
    if x.dtype == np.uint8:
        pixels = pixels / 255
    elif float(pixels.min()) < 0 or float(pixels.max()) > 1:
        raise BadInput(
            f"The images in {file.name} run from {float(pixels.min()):.3g} to {float(pixels.max()):.3g}; they must lie "
            "in [0, 1] (a model normalises inside itself)."
        )
    labels = torch.from_numpy(arrays["labels"].astype(np.int64)) if "labels" in arrays else None
    return pixels, [str(i) for i in range(len(pixels))], labels
