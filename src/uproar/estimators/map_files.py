"""Maps made elsewhere as an estimator: `maps:grad.safetensors`, with arrays `train` and `test`.

The maps are (n, h, w), or (n, c, h, w) with one value per channel, in the order of the task's images. Where the file
also has `train_labels` or `test_labels`, they must be the task's: maps in another order are then refused. What is
kept of results depends on the file's content, not on its name or place.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from uproar.arrays import Rows
from uproar.checks import map_values
from uproar.data.task import Split
from uproar.errors import BadInput, BadMap, NotApplicable
from uproar.estimators.registry import Context
from uproar.plugins import file_at
from uproar.registry import Entry
from uproar.types import Images, Labels, RawMaps

PREFIX = "maps:"
SPLITS = ("train", "test")


class StoredMaps:
    """A file of finished maps: read by rows, known by its content."""

    def __init__(self, name: str, file: Path) -> None:
        self.name, self.path = name, path_in(name)
        self._rows = Rows(file)
        self._asked: dict[str, tuple[Split, str | None]] = {}
        with file.open("rb") as content:
            self.digest = hashlib.file_digest(content, "sha256").hexdigest()[:40]
        self.shapes = {s: self._rows.shapes[s] for s in SPLITS if s in self._rows.shapes}
        if not self.shapes:
            held = ", ".join(map(repr, self._rows.shapes)) or "nothing"
            raise BadInput(f"{name} must hold arrays 'train' and 'test'; it holds {held}.")
        for split, shape in self.shapes.items():
            if len(shape) not in (3, 4):
                raise BadInput(f"{name}: the {split} maps must be (n, h, w) or (n, c, h, w), not {shape}.")

    @property
    def has_channels(self) -> bool:
        """Whether there is one value per colour channel."""
        return all(len(shape) == 4 and shape[1] > 1 for shape in self.shapes.values())

    def mismatch(self, split: Split) -> str | None:
        """Why these are not the maps of a split's images, if they are not."""
        known = self._asked.get(split.name)
        if known is None or known[0] is not split:
            known = self._asked[split.name] = (split, self._misfit(split))
        return known[1]

    def _misfit(self, split: Split) -> str | None:
        shape, images = self.shapes.get(split.name), split.shape
        if shape is None:
            return f"{self.name} holds no maps of the {split.name} images"
        allowed = {(*images[1:],), (1, *images[1:]), images}
        if shape[1:] not in allowed:
            return f"{self.name}: the {split.name} maps are {shape[1:]}, but the images {images}"
        rows = self._numbers(split)
        if rows is None:
            whole = "" if split.part is None else f" ({split.part.whole} without the limit)"
            return f"{self.name} has {shape[0]} {split.name} maps for {len(split)} {split.name} images{whole}"
        name, held = f"{split.name}_labels", self._rows.shapes
        if name not in held:
            return None
        if held[name] != shape[:1]:
            return f"{self.name}: {name} is {held[name]}, but there are {shape[0]} maps"
        differ = int((self._rows.read(name, range(shape[0]))[rows].long() != split.labels).sum())
        if not differ:
            return None
        return (
            f"{self.name}: {differ} of {len(split)} {split.name} labels are not the task's, so the maps are of other "
            "images or in another order"
        )

    def _numbers(self, split: Split) -> Tensor | None:
        """The row of the file for each sample of a split; a limited split finds its own in a file for the whole one."""
        count = self.shapes[split.name][0]
        if count == len(split):
            return torch.arange(count)
        if split.part is not None and count == split.part.whole:
            return split.part.rows
        return None

    def read(self, split: Split, index: Sequence[int]) -> RawMaps:
        """The maps of some samples of a split, (n, c, h, w) or (n, 1, h, w)."""
        rows = self._numbers(split)
        assert rows is not None  # `mismatch` was asked
        maps = self._rows.read(split.name, rows[list(index)].tolist())
        maps = map_values(maps, self.name)
        bad = ~torch.isfinite(maps).flatten(1).all(1)
        if bool(bad.any()):
            first = int(rows[index[int(bad.nonzero()[0])]])
            raise BadMap(f"{self.name}: the map of {split.name} image {first} has NaN or infinite values.")
        return maps[:, None] if maps.dim() == 3 else maps


def path_in(name: str) -> str:
    """The path in `maps:PATH`, which may stand in quotes."""
    return name.removeprefix(PREFIX).strip("\"'")


def name_of(path: Path) -> str:
    """The estimator that a file of maps is, as an expression names it."""
    plain = re.fullmatch(r"[\w.:/-]+", str(path))
    return f"{PREFIX}{path}" if plain else f'{PREFIX}"{path}"'


def maps_entry(name: str) -> Entry:
    """The estimator that gives the maps of a file; a file that was changed is another one."""
    file = file_at(path_in(name))
    try:
        now = file.stat()
    except OSError:
        raise BadInput(f"There is no file {path_in(name)}.") from None
    return _entry(name, file, (file.resolve(), now.st_size, now.st_mtime_ns))


@functools.lru_cache(maxsize=64)
def _entry(name: str, file: Path, state: tuple[Path, int, int]) -> Entry:
    stored = StoredMaps(name, file)

    def estimate(model: nn.Module, x: Images, target: Labels, context: Context) -> RawMaps:
        split = context.samples
        if split is None:
            raise NotApplicable(
                f"{name} holds finished maps of a task's images, none of changed images, other images or other models"
            )
        reason = stored.mismatch(split)
        if reason is not None:
            raise NotApplicable(reason)
        return stored.read(split, [row[0] for row in context.draws.rows]).to(x.device)

    estimate.__doc__ = "Maps made elsewhere."
    facts = {
        "role": "estimator",
        "passes": 0,
        "needs": "the images the maps were made for",
        "model": False,
        "channels": stored.has_channels,
        "formula": "as the file has it",
        "fails": "says nothing of how the maps were made",
        "stored": stored,
    }
    return Entry("estimator", name, estimate, facts)
