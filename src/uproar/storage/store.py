"""Results by key, whole or absent: the store is the resume.

An item is a file `<kind>/<first two of key>/<key>.safetensors` (see `itemfile`), written atomically (see
`backends`): a reader sees the whole file or none. Whatever is read of it is verified first, facts and parts of arrays
too; a file that is not the item asked for is set aside, noted, and made again by whoever needs it.
Nothing is ever unpickled. Several runs may use one store at the same time.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from uproar.errors import Absent, Damaged, StoreError
from uproar.storage.backends import UNFINISHED, backend_at, public
from uproar.storage.itemfile import (
    FORMAT,
    ArrayLayout,
    Header,
    Item,
    Unsound,
    chunk_runs,
    decode_item,
    encode_item,
    header_size,
    read_header,
)

__all__ = ["FORMAT", "Faults", "Item", "Store", "key_of"]

KEYS = 1
"""Raised when results with the same inputs are no longer the same: all are then made anew."""
MARKER = "FORMAT.json"
SUFFIX = ".safetensors"
DAMAGED = ".damaged"
HEADER = 1 << 14
"""Bytes read at first when only the header of an item is wanted; most are smaller."""


@functools.cache
def torch_version() -> str:
    """Such as 2.8.0: numbers of another version may differ."""
    return metadata.version("torch").partition("+")[0]


def key_of(kind: str, inputs: Mapping[str, Any]) -> str:
    """The identity of a result: a hash of everything it depends on, the version of torch included.

    >>> key_of("model", {"seed": 0, "task": "digits"}) == key_of("model", {"task": "digits", "seed": 0})
    True
    """
    text = json.dumps([kind, KEYS, torch_version(), inputs], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


class Faults:
    """Damaged and absent items of one store in this process, shared by its `Store` objects."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        """A sentence for each damaged file; see `take_notices`."""
        self.damaged: set[tuple[str, str]] = set()
        """Items (kind, key) that were damaged when last read."""
        self.absent: set[tuple[str, str]] = set()
        """Items that were not there when last read."""

    def take_notices(self) -> list[str]:
        """The sentences so far, which are then forgotten."""
        notices, self.notices = self.notices, []
        return notices

    def forget_lost(self) -> None:
        """Forget which items were damaged or absent."""
        self.damaged.clear()
        self.absent.clear()


_faults: weakref.WeakValueDictionary[str, Faults] = weakref.WeakValueDictionary()


class Store:
    """Items in a folder, or behind an fsspec URL such as `s3://bucket/study`."""

    def __init__(self, root: str | Path) -> None:
        self.backend = backend_at(root)
        self.faults = _faults.setdefault(self.root, Faults())
        self._headers: dict[str, Header] = {}
        self.marker_damaged = False
        """Whether the file that tells a store was found damaged; whoever writes next writes it anew."""
        self._begun = self._is_store()

    @property
    def root(self) -> str:
        """Where it is, as another process can open it."""
        return self.backend.root

    def begin(self) -> None:
        """Write the marker of a store if there is none yet: reading alone leaves no trace."""
        if self._begun:
            return
        try:
            self.backend.write(MARKER, json.dumps(_marker(FORMAT)).encode())
        except OSError as error:
            raise self._unusable(error) from None
        self._begun = True

    def _unusable(self, error: OSError) -> StoreError:
        reason = error.strerror or error
        return StoreError(
            f"Cannot use {public(self.root)} as a store: {reason}; choose another place (--store, --out)."
        )

    def _is_store(self) -> bool:
        """Whether there is a store of this format already; one that cannot be read is refused."""
        try:
            version = _format(self.backend.start(MARKER, 1000))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._unusable(error) from None
        if version is None:
            if not self._has_items():
                raise StoreError(
                    f"{self.backend.full(MARKER)} is not a store's marker; choose an empty folder with --store."
                )
            notice = f"{self.backend.full(MARKER)} is damaged; the results beside it are not."
            if notice not in self.faults.notices:
                self.faults.notices.append(notice)
            self.marker_damaged = True
            return False
        if version != FORMAT:
            raise StoreError(
                f"The store {public(self.root)} was written by another version of uproar (format {version}, this one "
                f"reads {FORMAT}); use that version or choose another folder with --store."
            )
        return True

    def _has_items(self) -> bool:
        """Whether some file at this place is a sound item."""
        for name in self.backend.names(""):
            kind, _, key = name.removesuffix(SUFFIX).partition("/")
            key = key.rpartition("/")[2]
            if name != self.name(kind, key):
                continue
            try:
                self._read_header(name, kind, key)
                return True
            except (Unsound, OSError):
                continue
        return False

    def name(self, kind: str, key: str) -> str:
        """Where an item is below the root, or would be."""
        return f"{kind}/{key[:2]}/{key}{SUFFIX}"

    def has(self, kind: str, key: str) -> bool:
        """Whether an item is there (not whether it is sound: reading tells)."""
        return self.backend.has(self.name(kind, key))

    def keys(self, kind: str, prefix: str = "") -> Iterator[str]:
        """The keys of a kind's items that start with `prefix`."""
        folder = f"{kind}/{prefix[:2]}" if len(prefix) >= 2 else kind
        for name in self.backend.names(folder):
            key = name.rpartition("/")[2].removesuffix(SUFFIX)
            if name.endswith(SUFFIX) and key.startswith(prefix):
                yield key

    def intact(self, kind: str, key: str) -> bool:
        """Whether an item is there and its header is sound; arrays are verified when they are read."""
        return self._header(kind, key) is not None

    def facts(self, kind: str, key: str) -> dict[str, Any]:
        """An item's facts alone, verified without reading its arrays; empty if it is absent or damaged."""
        header = self._header(kind, key)
        return {} if header is None else header.facts

    def _header(self, kind: str, key: str) -> Header | None:
        name = self.name(kind, key)
        try:
            return self._read_header(name, kind, key)
        except FileNotFoundError:
            return None
        except (Unsound, OSError) as error:
            self._set_aside(kind, key, error)
            return None

    def _read_header(self, name: str, kind: str, key: str) -> Header:
        start = self.backend.start(name, HEADER)
        size = header_size(start)
        if len(start) < size:
            start = self.backend.start(name, size)
        return read_header(start, kind, key)

    def spans(self, kind: str, key: str, array: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some spans (start, stop) of the bytes of an item's array, verified without reading the rest.

        `Damaged` if they are not what was written, and the file is set aside; `Absent` if it is not there.
        """
        name = self.name(kind, key)
        remembered = name in self._headers
        try:
            return self._spans(name, kind, key, array, spans)
        except FileNotFoundError:
            self._headers.pop(name, None)
            self.faults.absent.add((kind, key))
            raise Absent(f"{self.backend.full(name)} is not there") from None
        except (Unsound, OSError) as error:
            self._headers.pop(name, None)
            if remembered:  # the file may have been made anew since its header was read
                return self.spans(kind, key, array, spans)
            raise self._set_aside(kind, key, error) from None

    def _spans(self, name: str, kind: str, key: str, array: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        if name not in self._headers:
            self._headers[name] = self._read_header(name, kind, key)
        layout = self._headers[name].arrays.get(array)
        if layout is None:
            raise Damaged(f"{self.backend.full(name)} cannot be read: it has no array {array}")
        if any(b > layout.stop - layout.start for _, b in spans):
            raise Damaged(f"{self.backend.full(name)} ends early")
        return self._verified(name, layout, spans)

    def _verified(self, name: str, layout: ArrayLayout, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Spans of an array's bytes, read by whole chunks."""
        runs = chunk_runs(spans, layout.stop - layout.start)
        places = [(layout.start + a, layout.start + b) for a, b in runs]
        contents = self.backend.spans(name, places)
        for (a, b), content in zip(runs, contents, strict=True):
            if len(content) != b - a:
                raise Unsound("ends early")
            layout.verify(a, content)
        parts = []
        for a, b in spans:
            first, content = next((r, c) for (r, stop), c in zip(runs, contents, strict=True) if r <= a and b <= stop)
            parts.append(bytes(content[a - first : b - first]))
        return parts

    def read(self, kind: str, key: str) -> Item:
        """An item, verified; `Damaged` if it is not what was written, `Absent` if it is not there."""
        name = self.name(kind, key)
        try:
            return decode_item(self.backend.content(name), kind, key)
        except FileNotFoundError:
            raise Absent(f"{self.backend.full(name)} is not there") from None
        except (Unsound, OSError) as error:
            raise self._damaged(name, error) from error

    def _damaged(self, name: str, error: BaseException) -> Damaged:
        reason = str(error) if isinstance(error, Unsound) else "cannot be read"
        return Damaged(f"{self.backend.full(name)} {reason}")

    def write(self, kind: str, key: str, item: Item, flush: bool = True) -> None:
        """Keep an item; it is there as a whole or, after any failure, not at all.

        Without `flush`, for what is made faster than a disk confirms it: where the machine is cut off soon after, the
        file may be found damaged, and the item is made again.
        """
        name = self.name(kind, key)
        self._headers.pop(name, None)
        self.begin()
        try:
            self.backend.write(name, encode_item(kind, key, item), flush)
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(
                f"Cannot write {self.backend.full(name)}: {reason}; what is finished is kept, and the same command "
                "goes on from there."
            ) from None
        self.faults.damaged.discard((kind, key))
        self.faults.absent.discard((kind, key))

    def find(self, kind: str, key: str) -> Item | None:
        """An item, or None if it is absent or damaged; a damaged file is set aside and noted."""
        self._headers.pop(self.name(kind, key), None)
        try:
            return self.read(kind, key)
        except Absent:
            self.faults.absent.add((kind, key))
        except Damaged as damage:
            self._set_aside(kind, key, damage.__cause__ or damage)
        return None

    def _set_aside(self, kind: str, key: str, error: BaseException) -> Damaged:
        """Take a file that is not the item asked for out of the way, and note it."""
        name = self.name(kind, key)
        self._headers.pop(name, None)
        damage = self._damaged(name, error)
        self.faults.damaged.add((kind, key))
        self.faults.notices.append(f"{damage}: set aside and made again.")
        self.backend.set_aside(name, name.removesuffix(SUFFIX) + DAMAGED)
        return damage

    def once(self, kind: str, key: str, make: Callable[[], Item]) -> Item:
        """The item under a key, made now if it is not there."""
        item = self.find(kind, key)
        if item is None:
            item = make()
            self.write(kind, key, item)
        return item


def _marker(version: int) -> dict[str, Any]:
    """What tells a store, with a digest: another number by damage is not another version."""
    text = json.dumps(["uproar store", version])
    return {"format": version, "digest": hashlib.sha256(text.encode()).hexdigest()[:16]}


def _format(content: bytes) -> int | None:
    """The format that a marker names; None if it is damaged or something else."""
    try:
        marker = json.loads(content)
        version, digest = marker["format"], marker.get("digest")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if type(version) is not int or version < 1:
        return None
    return version if digest == _marker(version)["digest"] else None


# what a store holds: results by kind, damaged files, and leftovers


_ITEM = re.compile(r"(?P<kind>[^/.]+)/(?P<start>[^/]{1,2})/(?P<key>[^/.]+)(?P<suffix>\.[a-z]+)")


@dataclass(frozen=True)
class Inventory:
    """The files of a store; names are below its root.

    >>> store = Store("memory://inventory")
    >>> store.write("cell", "ab12", Item({}, {"accuracy": 0.5}))
    >>> inventory = verify_store(store)
    >>> list(inventory.items), inventory.damaged
    ([('cell', 'ab12')], {})
    """

    items: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Results, by kind and key, with their bytes; sound ones where they were verified."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Files that are not the result whose name they bear, with the reason; only where they were verified."""
    leftovers: Mapping[str, int] = field(default_factory=dict)
    """Files that were set aside, or that a killed process left unfinished, with their bytes."""

    def kinds(self) -> dict[str, tuple[int, int]]:
        """Files and bytes of the results, by kind."""
        sums: dict[str, tuple[int, int]] = {}
        for (kind, _), size in self.items.items():
            files, total = sums.get(kind, (0, 0))
            sums[kind] = files + 1, total + size
        return dict(sorted(sums.items()))


def list_store(store: Store) -> Inventory:
    """What is there, by name alone; files that no store writes are not looked at."""
    items, leftovers = {}, {}
    for name, size in store.backend.sizes().items():
        match = _ITEM.fullmatch(name)
        if name == MARKER:
            continue
        if name.startswith(f"{UNFINISHED}/"):
            leftovers[name] = size
        elif match and match["key"].startswith(match["start"]):
            if match["suffix"] == SUFFIX:
                items[match["kind"], match["key"]] = size
            elif match["suffix"] == DAMAGED:
                leftovers[name] = size
    return Inventory(items, leftovers=leftovers)


def verify_store(store: Store, listen: Callable[[int, int], None] = lambda *_: None) -> Inventory:
    """What is there, every byte of every result verified; nothing is changed. `listen(done, total)` counts files."""
    every = list_store(store)
    sound = {}
    damaged = {MARKER: "does not match its digest"} if store.marker_damaged else {}
    for done, ((kind, key), size) in enumerate(every.items.items(), 1):
        name = store.name(kind, key)
        try:
            store.read(kind, key)
            sound[kind, key] = size
        except Absent:
            pass  # another process has just moved it
        except Damaged as error:
            damaged[name] = str(error).removeprefix(store.backend.full(name)).strip()
        listen(done, len(every.items))
    return Inventory(sound, damaged, every.leftovers)


def set_aside(store: Store, inventory: Inventory) -> None:
    """Take the damaged files out of the way, so that whoever needs them makes them again; a marker is overwritten."""
    for name in inventory.damaged.keys() - {MARKER}:
        store.backend.set_aside(name, name.removesuffix(SUFFIX) + DAMAGED)


def copy_results(sources: Sequence[Store], target: Store, listen: Callable[[int, int], None] = lambda *_: None) -> None:
    """Copy every sound result of some stores into another that lacks it; a damaged one is made again when needed."""
    there = list_store(target).items
    items = {item: store for store in reversed(sources) for item in list_store(store).items if item not in there}
    for done, ((kind, key), store) in enumerate(items.items(), 1):
        for source in (store, *sources):  # another store may have it sound
            try:
                target.write(kind, key, source.read(kind, key))
                break
            except (Absent, Damaged):
                continue
        listen(done, len(items))
