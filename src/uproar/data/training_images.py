"""Training images of the user's own, with labels: a folder of pictures per class, or an array file."""

from __future__ import annotations

from pathlib import Path

from uproar.arrays import KINDS
from uproar.data.cropping import CentreCrop
from uproar.data.photographs import FileList, class_folders, excluded_files
from uproar.data.task import Split
from uproar.data.user_images import read_images
from uproar.errors import BadInput, BadShape
from uproar.paths import user_path

WAYS = "a folder with one folder of pictures per class, or an array file with 'images' and 'labels'"
"""How training images are given."""


def read_training_images(path: str | Path, shape: tuple[int, int, int]) -> Split:
    """Training images of shape (c, h, w) with their labels.

    Classes are numbered by the names of their folders in rising order, as the outputs of the network are. Pictures are
    scaled and cut to the shape, and decoded when they are read.
    """
    place = user_path(path)
    if place.is_dir():
        split = _in_class_folders(place, shape)
    elif place.suffix in KINDS:
        x, _, labels = read_images(place)
        if labels is None:
            raise BadInput(f"{path} holds no 'labels': give {WAYS}.")
        split = Split("train", x, labels)
    else:
        fault = "is neither a folder nor an array file" if place.exists() else "is not there"
        raise BadInput(f"{path}, for the training images, {fault}: give {WAYS}.")
    if split.shape != shape:
        raise BadShape(
            f"The training images in {path} are {split.shape} (channels, rows, columns), the images {shape}."
        )
    return split


def _in_class_folders(place: Path, shape: tuple[int, int, int]) -> Split:
    classes = class_folders(place)
    if len(classes) < 2:
        raise BadInput(f"{place} has {len(classes)} class folders: give {WAYS}.")
    _, height, width = shape
    if height != width:
        raise BadInput(
            f"The images are {height}x{width} pixels, and pictures are cut to squares: give the training images as an "
            "array file with 'images' and 'labels'."
        )
    files = FileList(place)
    for number, name in enumerate(classes):
        files.add_folder(name, number)
    return files.without(excluded_files(place)).split("train", CentreCrop(height))
