"""Results by key, whole or absent: the store is the resume.

An item is a safetensors file `<kind>/<first two of key>/<key>.safetensors` that holds arrays, facts as JSON in the
header, and a digest of both. It appears at once (see `place`), so that a reader sees the whole file or none, and is
checked against its digest when read. Nothing is ever unpickled. Several runs may use one store at the same time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from uproar.errors import Damaged, StoreError
from uproar.place import place_at

FORMAT = 1
"""Raised when items written by this version cannot be read by an older one."""
MARKER = "FORMAT.json"
SUFFIX = ".safetensors"
HEADER = 1 << 14
"""Bytes read at first when only the facts of an item are wanted; most headers are smaller."""
LARGEST_HEADER = 100_000_000
"""What safetensors itself accepts."""


def key_of(kind: str, inputs: Mapping[str, Any]) -> str:
    """The identity of a result: a hash of everything it depends on.

    >>> key_of("model", {"seed": 0, "task": "digits"}) == key_of("model", {"task": "digits", "seed": 0})
    True
    """
    text = json.dumps([kind, FORMAT, inputs], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


@dataclass(frozen=True)
class Item:
    """What is kept under a key: arrays, and facts that JSON can hold."""

    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def digest(self) -> str:
        """A hash of everything in the item."""
        total = hashlib.sha256(json.dumps(self.facts, sort_keys=True).encode())
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            total.update(f"{name}{array.dtype}{array.shape}".encode())
            total.update(array.reshape(-1).view(np.uint8).data)
        return total.hexdigest()


class Store:
    """Items in a folder, or behind an fsspec URL such as `s3://bucket/study`."""

    def __init__(self, root: str | Path) -> None:
        self.place = place_at(root)
        self.notices: list[str] = []
        self._layouts: dict[str, dict[str, tuple[int, int]]] = {}
        self._begun = self._found()

    @property
    def root(self) -> str:
        """Where it is, as another process can open it."""
        return self.place.root

    def begin(self) -> None:
        """Make the place a store if it is none yet. Until then nothing is written: what only looks leaves no trace."""
        if self._begun:
            return
        try:
            self.place.write(MARKER, json.dumps({"format": FORMAT}).encode())
        except OSError as error:
            raise self._unusable(error) from None
        self._begun = True

    def _unusable(self, error: OSError) -> StoreError:
        reason = error.strerror or error
        return StoreError(
            f"Cannot use {self.root} as a store: {reason}; choose another place (--store, --out)."
        )

    def _found(self) -> bool:
        """Whether there is a store already, of a version that can be read."""
        try:
            found = json.loads(self.place.start(MARKER, 1000))["format"]
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._unusable(error) from None
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                f"{self.place.full(MARKER)} is not a store's marker; choose an empty folder with --store."
            ) from None
        if found > FORMAT:
            raise StoreError(
                f"The store {self.root} was written by a newer uproar (format {found}, this one reads "
                f"{FORMAT}); update uproar or choose another folder with --store."
            )
        return True

    def name(self, kind: str, key: str) -> str:
        """Where an item is below the root, or would be."""
        return f"{kind}/{key[:2]}/{key}{SUFFIX}"

    def has(self, kind: str, key: str) -> bool:
        """Whether an item is there (not whether it is sound: reading tells)."""
        return self.place.has(self.name(kind, key))

    def keys(self, kind: str, prefix: str = "") -> Iterator[str]:
        """The keys of a kind's items that start with `prefix`."""
        folder = f"{kind}/{prefix[:2]}" if len(prefix) >= 2 else kind
        for name in self.place.names(folder):
            key = name.rpartition("/")[2].removesuffix(SUFFIX)
            if name.endswith(SUFFIX) and key.startswith(prefix):
                yield key

    def facts(self, kind: str, key: str) -> dict[str, Any]:
        """An item's facts alone, unchecked and cheap; empty if it is absent or damaged."""
        try:
            return json.loads(self._header(self.name(kind, key))[0]["__metadata__"]["facts"])
        except (KeyError, ValueError, TypeError, OSError):
            return {}

    def _header(self, name: str) -> tuple[dict[str, Any], int]:
        """The header of a file, and where its arrays begin."""
        start = self.place.start(name, HEADER)
        size = 8 + int.from_bytes(start[:8], "little")
        if len(start) < size < LARGEST_HEADER:
            start = self.place.start(name, size)
        return json.loads(start[8:size]), size

    def spans(
        self, kind: str, key: str, array: str, spans: Sequence[tuple[int, int]]
    ) -> list[bytes]:
        """Some spans (start, stop) of the bytes of an item's array, read without the rest and unchecked."""
        name = self.name(kind, key)
        try:
            if name not in self._layouts:
                header, begin = self._header(name)
                self._layouts[name] = {
                    array: (begin + facts["data_offsets"][0], begin + facts["data_offsets"][1])
                    for array, facts in header.items()
                    if array != "__metadata__"
                }
            first, last = self._layouts[name][array]
            found = self.place.spans(name, [(first + a, min(first + b, last)) for a, b in spans])
        except FileNotFoundError:
            self._layouts.pop(name, None)
            raise KeyError(key) from None
        except (KeyError, ValueError, TypeError, OSError):
            self._layouts.pop(name, None)
            raise Damaged(f"{self.place.full(name)} cannot be read") from None
        if any(len(piece) != b - a for piece, (a, b) in zip(found, spans, strict=True)):
            raise Damaged(f"{self.place.full(name)} ends early")
        return found

    def read(self, kind: str, key: str) -> Item:
        """An item, checked; `Damaged` if it is not what was written, `KeyError` if it is absent."""
        name = self.name(kind, key)
        try:
            header, arrays = _parts(self.place.source(name))
            item = Item(arrays, json.loads(header["facts"]))
        except FileNotFoundError:
            raise KeyError(key) from None
        except (safetensors.SafetensorError, KeyError, ValueError, OSError):
            raise Damaged(f"{self.place.full(name)} cannot be read") from None
        if item.digest() != header.get("digest"):
            raise Damaged(f"{self.place.full(name)} does not match its digest")
        return item

    def write(self, kind: str, key: str, item: Item) -> None:
        """Keep an item; it is there as a whole or, after any failure, not at all."""
        arrays = {name: np.ascontiguousarray(array) for name, array in item.arrays.items()}
        header = {"facts": json.dumps(item.facts, sort_keys=True), "digest": item.digest()}
        name = self.name(kind, key)
        self._layouts.pop(name, None)
        self.begin()
        try:
            self.place.write(name, safetensors.numpy.save(arrays, metadata=header))
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(
                f"Cannot write {self.place.full(name)}: {reason}; what is finished is kept, and the same command "
                "goes on from there."
            ) from None

    def find(self, kind: str, key: str) -> Item | None:
        """An item, or None if it is absent or damaged; a damaged file is set aside and noticed."""
        self._layouts.pop(self.name(kind, key), None)
        try:
            return self.read(kind, key)
        except KeyError:
            return None
        except Damaged as error:
            self.notices.append(f"{error}: set aside and made again.")
            name = self.name(kind, key)
            self.place.set_aside(name, name.removesuffix(SUFFIX) + ".damaged")
            return None

    def once(self, kind: str, key: str, make: Callable[[], Item]) -> Item:
        """The item under a key, made now if it is not there."""
        item = self.find(kind, key)
        if item is None:
            item = make()
            self.write(kind, key, item)
        return item


def _parts(source: Path | bytes) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The header and the arrays of a safetensors file; one on disk is mapped rather than read twice."""
    if isinstance(source, Path):
        with safetensors.safe_open(source, framework="numpy") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    arrays = safetensors.numpy.load(source)
    return json.loads(source[8 : 8 + int.from_bytes(source[:8], "little")])["__metadata__"], arrays
