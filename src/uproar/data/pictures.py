"""Images of the user's own: a folder of picture files, or an array file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from uproar.arrays import KINDS, read_arrays
from uproar.errors import BadInput, BadShape
from uproar.paths import user_path

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")


def read_images(path: str | Path) -> tuple[Tensor, list[str], Tensor | None]:
    """Images as floats in [0, 1], (n, c, h, w), with names, and labels where a file holds them.

    A folder gives its picture files by name, which must be of one size. An array file gives `images`, or its only
    array: (n, c, h, w), (n, h, w, c) or (n, h, w), bytes or floats in [0, 1].
    """
    place = user_path(path)
    if place.is_dir():
        return _from_folder(place)
    if place.suffix in KINDS:
        return _from_arrays(place)
    if place.suffix.lower() in PICTURES and place.is_file():
        return _stacked([place])
    if not place.exists():
        raise BadInput(f"There is no file or folder {path}.")
    raise BadInput(
        f"{path} is neither a folder of pictures nor a picture nor one of {', '.join(KINDS)}."
    )


def _from_folder(folder: Path) -> tuple[Tensor, list[str], None]:
    files = sorted(f for f in folder.iterdir() if f.suffix.lower() in PICTURES)
    if not files:
        raise BadInput(f"There are no pictures ({', '.join(PICTURES)}) in {folder}.")
    return _stacked(files)


def _stacked(files: list[Path]) -> tuple[Tensor, list[str], None]:
    pixels = [_picture(file) for file in files]
    first = pixels[0].shape
    for file, one in zip(files, pixels, strict=True):
        if one.shape != first:
            raise BadShape(
                f"{file.name} is {one.shape[1]}x{one.shape[0]}, but {files[0].name} is {first[1]}x{first[0]}; "
                "resize the pictures to one size first."
            )
    stack = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous()
    return stack.float() / 255, [file.stem for file in files], None


def _picture(file: Path) -> np.ndarray:
    try:
        with Image.open(file) as picture:
            return np.asarray(picture.convert("RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise BadInput(f"{file} cannot be read as a picture: {error}.") from None


def _from_arrays(file: Path) -> tuple[Tensor, list[str], Tensor | None]:
    arrays = read_arrays(file)
    if "images" not in arrays and len(arrays) != 1:
        raise BadInput(
            f"{file.name} holds {', '.join(arrays)}; one of its arrays must be called 'images'."
        )
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
