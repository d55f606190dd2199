"""The files of data behind the viewer: an index of the run, and by task and model columns and sheets of pictures.

    index                       verdicts, accuracies, names: what the page needs before anything is asked for
    s0-base                     labels, and what the explained networks say of the unchanged images
    s0-answers-P-M              classes and bits under protocol P and method M: replicates x fractions x images
    s0-values-M                 values of method M: metrics x replicates x images
    s0-images-C, s0-thumbs-C    the images, a chunk of them
    s0-maps-M-R-C               maps of method M and replicate R
    s0-levels-M-R-C             at which fraction each pixel goes
    s0-changed-M-F-K-C          changed images, where the fill is not one colour (K: 1 the important pixels are kept)

Each is made when it is asked for; `names` lists all of them, for a folder that holds everything.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from uproar.report.section import sections_of
from uproar.runs.run import Run
from uproar.study.image_evidence import ImageEvidence
from uproar.viewer.index import setting_index
from uproar.viewer.packing import THUMBNAIL, bits_column, column, script, sheet, shrunk, signed_bytes

CHUNK, CHUNK_BYTES = 256, 2**21
"""Images in a file: so many, or as many as have so many bytes."""
ABSENT = {"absent": True}
"""What the store does not have."""


@dataclass(frozen=True)
class Content:
    """All files of data of a run, by name."""

    run: Run
    evidence: tuple[ImageEvidence, ...]
    """By task and model, in the order of the run's views."""
    live: bool = False
    version: int = 0
    """Counts up while a run goes on."""

    def names(self) -> Iterator[str]:
        """Every file, the index first."""
        yield "index"
        for place, one in enumerate(self.evidence):
            yield from (f"s{place}-{name}" for name in _setting_names(one))

    def file(self, name: str) -> bytes | None:
        """A file of data; None where there is none of that name."""
        made = self.index if name == "index" else self._of_setting(name)
        return None if made is None else script(name, made)

    @functools.cached_property
    def index(self) -> dict[str, Any]:
        """What the page needs before anything is asked for."""
        sections = sections_of(self.run)
        views = zip(self.run.views, sections, self.evidence, strict=True)
        settings = [{**setting_index(*parts), "chunk": chunk_size(parts[2])} for parts in views]
        return {
            "study": str(self.run.study.get("name", "study")),
            "settings": settings,
            "notices": list(self.run.notices),
            "live": self.live,
            "version": self.version,
        }

    def _of_setting(self, name: str) -> dict[str, Any] | None:
        place, _, rest = name.removeprefix("s").partition("-")
        kind, *numbers = rest.split("-")
        makers: dict[str, Callable[..., dict[str, Any]]] = {
            "base": _base,
            "answers": _answers,
            "values": _values,
            "images": _images,
            "thumbs": _thumbs,
            "maps": _maps,
            "levels": _levels,
            "changed": _changed,
        }
        try:
            one, given = self.evidence[_index(place)], [_index(number) for number in numbers]
            return makers[kind](one, *given)
        except (IndexError, KeyError, TypeError, ValueError):
            return None


def _index(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(text)
    return int(text)


def chunk_size(one: ImageEvidence) -> int:
    """Images in a file of pictures."""
    return max(1, min(CHUNK, CHUNK_BYTES // math.prod(one.bench.task.shape)))


def _rows(one: ImageEvidence, chunk: int) -> slice:
    size = chunk_size(one)
    if chunk * size >= one.count:
        raise IndexError(chunk)
    return slice(chunk * size, min((chunk + 1) * size, one.count))


def _setting_names(one: ImageEvidence) -> Iterator[str]:
    chunks, methods, seeds = range(-(-one.count // chunk_size(one))), range(len(one.methods)), len(one.study.seeds)
    yield "base"
    yield from (f"answers-{p}-{m}" for p in range(len(one.protocols)) for m in methods)
    yield from (f"values-{m}" for m in methods if one.study.metric_names)
    for chunk in chunks:
        yield f"images-{chunk}"
        if has_thumbnails(one):
            yield f"thumbs-{chunk}"
        for m in methods:
            yield from (f"{kind}-{m}-{r}-{chunk}" for r in range(seeds) for kind in ("maps", "levels"))
            if one.constant_fill is None:
                yield from (f"changed-{m}-{f}-{k}-{chunk}" for f in range(len(one.study.fractions)) for k in (0, 1))


def has_thumbnails(one: ImageEvidence) -> bool:
    """Whether images are larger than what a list shows."""
    return max(one.bench.task.shape[1:]) > THUMBNAIL


# the files of one task and model


def _base(one: ImageEvidence) -> dict[str, Any]:
    said, bits = one.base_answers()
    return {"labels": column(one.labels), "titles": one.titles, "classes": column(said), "bits": bits_column(bits)}


def _answers(one: ImageEvidence, protocol: int, method: int) -> dict[str, Any]:
    said, bits = one.answers(one.protocols[protocol], one.methods[method])
    return {"classes": column(said), "bits": bits_column(bits)} if np.isfinite(bits).any() else ABSENT


def _values(one: ImageEvidence, method: int) -> dict[str, Any]:
    values = one.values(one.methods[method]) if one.study.metric_names else np.empty(0)
    return {"values": column(values)} if np.isfinite(values).any() else ABSENT


def _images(one: ImageEvidence, chunk: int) -> dict[str, Any]:
    return sheet(one.pixels(_rows(one, chunk)))


def _thumbs(one: ImageEvidence, chunk: int) -> dict[str, Any]:
    return sheet(shrunk(one.pixels(_rows(one, chunk))))


def _maps(one: ImageEvidence, method: int, replicate: int, chunk: int) -> dict[str, Any]:
    maps = one.maps(one.methods[method], one.study.seeds[replicate], _rows(one, chunk))
    return ABSENT if maps is None else sheet(signed_bytes(maps))


def _levels(one: ImageEvidence, method: int, replicate: int, chunk: int) -> dict[str, Any]:
    levels = one.levels(one.methods[method], one.study.seeds[replicate], _rows(one, chunk))
    return ABSENT if levels is None else sheet(levels)


def _changed(one: ImageEvidence, method: int, fraction: int, keeps: int, chunk: int) -> dict[str, Any]:
    rows = _rows(one, chunk)
    shown = one.changed(one.methods[method], one.study.fractions[fraction], bool(keeps), rows)
    return ABSENT if shown is None else sheet(shown)
