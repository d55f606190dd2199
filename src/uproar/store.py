"""Results by key, whole or absent: the store is the resume.

An item is a safetensors file `<kind>/<first two of key>/<key>.safetensors` that holds arrays, facts as JSON in the
header, and a digest of both. It appears by atomic rename, so that a reader sees the whole file or none, and is
checked against its digest when read. Nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from uproar.errors import Damaged, StoreError

FORMAT = 1
"""Raised when items written by this version cannot be read by an older one."""


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
    """A folder of items."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).expanduser()
        self.notices: list[str] = []
        self._open()

    def _open(self) -> None:
        marker = self.root / "FORMAT.json"
        try:
            if not marker.exists():
                self.root.mkdir(parents=True, exist_ok=True)
                write_file(marker, json.dumps({"format": FORMAT}).encode())
            found = json.loads(marker.read_text())["format"]
        except OSError as error:
            raise StoreError(
                f"Cannot use {self.root} as a store: {error.strerror or error}; choose another place "
                "with --store."
            ) from None
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                f"{marker} is not a store's marker; choose an empty folder with --store."
            ) from None
        if found > FORMAT:
            raise StoreError(
                f"The store {self.root} was written by a newer uproar (format {found}, this one reads "
                f"{FORMAT}); update uproar or choose another folder with --store."
            )

    def path(self, kind: str, key: str) -> Path:
        """Where an item is, or would be."""
        return self.root / kind / key[:2] / f"{key}.safetensors"

    def has(self, kind: str, key: str) -> bool:
        """Whether an item is there (not whether it is sound: reading tells)."""
        return self.path(kind, key).exists()

    def keys(self, kind: str, prefix: str = "") -> Iterator[str]:
        """The keys of a kind's items that start with `prefix`."""
        folder = prefix[:2] if len(prefix) >= 2 else "*"
        for path in sorted((self.root / kind).glob(f"{folder}/{prefix}*.safetensors")):
            yield path.stem

    def facts(self, kind: str, key: str) -> dict[str, Any]:
        """An item's facts alone, unchecked and cheap; empty if it is absent or damaged."""
        try:
            with safetensors.safe_open(self.path(kind, key), framework="numpy") as file:
                return json.loads((file.metadata() or {})["facts"])
        except (safetensors.SafetensorError, KeyError, ValueError, OSError):
            return {}

    def read(self, kind: str, key: str) -> Item:
        """An item, checked; `Damaged` if it is not what was written, `KeyError` if it is absent."""
        path = self.path(kind, key)
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                header = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            item = Item(arrays, json.loads(header["facts"]))
        except FileNotFoundError:
            raise KeyError(key) from None
        except (safetensors.SafetensorError, KeyError, ValueError, OSError):
            raise Damaged(f"{path} cannot be read") from None
        if item.digest() != header.get("digest"):
            raise Damaged(f"{path} does not match its digest")
        return item

    def write(self, kind: str, key: str, item: Item) -> None:
        """Keep an item; it is there as a whole or, after any failure, not at all."""
        arrays = {name: np.ascontiguousarray(array) for name, array in item.arrays.items()}
        header = {"facts": json.dumps(item.facts, sort_keys=True), "digest": item.digest()}
        path = self.path(kind, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, safetensors.numpy.save(arrays, metadata=header))
        except OSError as error:
            raise StoreError(f"Cannot write {path}: {error.strerror or error}.") from None

    def find(self, kind: str, key: str) -> Item | None:
        """An item, or None if it is absent or damaged; a damaged file is set aside and noticed."""
        try:
            return self.read(kind, key)
        except KeyError:
            return None
        except Damaged as error:
            self.notices.append(f"{error}: set aside and made again.")
            path = self.path(kind, key)
            with contextlib.suppress(OSError):
                path.replace(path.with_suffix(".damaged"))
            return None

    def once(self, kind: str, key: str, make: Callable[[], Item]) -> Item:
        """The item under a key, made now if it is not there."""
        item = self.find(kind, key)
        if item is None:
            item = make()
            self.write(kind, key, item)
        return item


def write_file(path: Path, content: bytes) -> None:
    """The whole file or nothing: written beside its place, flushed, then renamed."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
