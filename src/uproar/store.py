"""Results by kind and key, whole or absent: the store is the resume.

An item is a file `<kind>/<first two of key>/<key>.safetensors`, written atomically (see `backends`): a reader sees the
whole file or none. Its metadata hold one text with kind, key, format, facts, and for every array its type, shape and
the digests of its chunks; and the digest of that text. So facts are verified by the header alone, and rows of a shard
by the chunks they lie in. A file that is not the item asked for is set aside, noted, and computed again by whoever
needs it. Nothing is ever unpickled. Several runs may use one store at the same time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from uproar.backends import UNFINISHED, backend_at
from uproar.errors import Absent, Damaged, StoreError
from uproar.paths import public

KEYS = 1
"""Raised when results with the same inputs are no longer the same: all are then computed again."""
FORMAT = 3
"""Raised when files written by this version cannot be read by an older one, or the other way round."""
MARKER = "FORMAT.json"
SUFFIX = ".safetensors"
DAMAGED = ".damaged"
HEADER = 1 << 14
"""Bytes read at first when only the header of an item is wanted; most are smaller."""
LARGEST_HEADER = 100_000_000
"""What safetensors itself accepts."""
CHUNK = 1 << 14
"""Bytes of an array under one digest."""
DIGITS = 16
"""Hexadecimal digits of a chunk's digest: 64 bits tell damage, which is no attack."""


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
    return _digest(text)[:40]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# the file of an item


@dataclass(frozen=True)
class Item:
    """What is kept under a key: arrays, and facts that JSON can hold."""

    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


class Layout(NamedTuple):
    """Where an array lies in its file, and what its bytes must be."""

    dtype: np.dtype
    shape: tuple[int, ...]
    start: int
    stop: int
    digests: str
    """Of all chunks, one behind the other."""


class Header(NamedTuple):
    """What a verified header says."""

    facts: dict[str, Any]
    arrays: dict[str, Layout]


class Unsound(ValueError):
    """The bytes are not those of the item that was asked for; the message is the end of a sentence."""


def chunk_digests(content: bytes | memoryview) -> str:
    """The digests of consecutive chunks."""
    view = memoryview(content)
    chunks = (view[i : i + CHUNK] for i in range(0, len(view), CHUNK))
    return "".join(hashlib.sha256(chunk).hexdigest()[:DIGITS] for chunk in chunks)


def encode_item(kind: str, key: str, item: Item) -> bytes:
    """An item as the content of its file."""
    arrays = {name: np.asarray(a, a.dtype.newbyteorder("<"), order="C") for name, a in item.arrays.items()}
    known = {name: [a.dtype.str, list(a.shape), chunk_digests(a.tobytes())] for name, a in arrays.items()}
    what = {"format": FORMAT, "kind": kind, "key": key, "facts": item.facts, "arrays": known}
    text = json.dumps(what, sort_keys=True)
    return safetensors.numpy.save(arrays, {"item": text, "digest": _digest(text)})


def header_size(start: bytes | bytearray) -> int:
    """Where the arrays of a file begin, from its first bytes."""
    size = 8 + int.from_bytes(start[:8], "little")
    if len(start) < 8 or size > LARGEST_HEADER:
        raise Unsound("cannot be read")
    return size


def read_header(start: bytes | bytearray, kind: str, key: str) -> Header:
    """The header of the file of an item, verified; `start` are its first bytes, at least all of the header."""
    size = header_size(start)
    try:
        header = json.loads(bytes(start[8:size]))
        text = header["__metadata__"]["item"]
        if _digest(text) != header["__metadata__"]["digest"]:
            raise Unsound("does not match its digest")
        what = json.loads(text)
        if what["format"] != FORMAT:
            raise Unsound("was written by another version")
        if (what["kind"], what["key"]) != (kind, key):
            raise Unsound(f"holds another result ({what['kind']} {what['key']})")
        # no digest covers where arrays lie, so this must be what types and shapes say: one behind the other
        offsets = {name: tuple(header[name]["data_offsets"]) for name in what["arrays"]}
        layouts, end = {}, size
        for name in sorted(offsets, key=offsets.__getitem__):
            dtype, shape, digests = what["arrays"][name]
            start_of, end = end, end + math.prod(shape) * np.dtype(dtype).itemsize
            if offsets[name] != (start_of - size, end - size):
                raise Unsound("cannot be read")
            layouts[name] = Layout(np.dtype(dtype), tuple(shape), start_of, end, digests)
        return Header(what["facts"], layouts)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise error if isinstance(error, Unsound) else Unsound("cannot be read") from None


def decode_item(content: bytearray, kind: str, key: str) -> Item:
    """The item in a file, every byte of it verified."""
    header, arrays = read_header(content, kind, key), {}
    for name, layout in header.arrays.items():
        values = memoryview(content)[layout.start : layout.stop]
        if chunk_digests(values) != layout.digests:
            raise Unsound("does not match its digest")
        arrays[name] = np.frombuffer(values, layout.dtype).reshape(layout.shape)
    return Item(arrays, header.facts)


# the store


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
        if not self._begun:
            with self._usable():
                self.backend.write(MARKER, _marker(FORMAT))
            self._begun = True

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(
                f"Cannot use {public(self.root)} as a store: {reason}; choose another place (--store, --out)."
            ) from None

    def _is_store(self) -> bool:
        """Whether there is a store of this format already; one that cannot be read is refused."""
        with self._usable():
            try:
                content = self.backend.start(MARKER, 1000)
            except FileNotFoundError:
                return False
        if content == _marker(FORMAT):
            return True
        number = re.match(rb'\{"format": (\d+)', content)
        if number and content == _marker(int(number[1])):
            raise StoreError(
                f"The store {public(self.root)} was written by another version of uproar (format {int(number[1])}, "
                f"this one reads {FORMAT}); use that version or choose another folder with --store."
            )
        if not list_store(self).items:
            raise StoreError(
                f"{self.backend.full(MARKER)} is not a store's marker; choose an empty folder with --store."
            )
        notice = f"{self.backend.full(MARKER)} is damaged; the results beside it are not."
        if notice not in self.faults.notices:
            self.faults.notices.append(notice)
        self.marker_damaged = True
        return False

    def name(self, kind: str, key: str) -> str:
        """Where an item is below the root, or would be."""
        return f"{kind}/{key[:2]}/{key}{SUFFIX}"

    def has(self, kind: str, key: str) -> bool:
        """Whether an item is there (not whether it is sound: reading tells)."""
        return self.backend.has(self.name(kind, key))

    def keys(self, kind: str) -> list[str]:
        """The keys of a kind's items."""
        names = (name.rpartition("/")[2] for name in self.backend.sizes(kind))
        return [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]

    def facts(self, kind: str, key: str) -> dict[str, Any]:
        """An item's facts alone, verified without reading its arrays; empty if it is absent or damaged."""
        try:
            with self._translated(kind, key):
                return self._read_header(kind, key).facts
        except Absent:
            return {}
        except Damaged as damage:
            self._set_aside(kind, key, damage)
            return {}

    def _read_header(self, kind: str, key: str) -> Header:
        name = self.name(kind, key)
        start = self.backend.start(name, HEADER)
        size = header_size(start)
        return read_header(start if len(start) >= size else self.backend.start(name, size), kind, key)

    def spans(self, kind: str, key: str, array: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some spans (start, stop) of the bytes of an item's array, verified without reading the rest.

        `Damaged` if they are not what was written, and the file is set aside; `Absent` if it is not there.
        """
        name = self.name(kind, key)
        remembered = self._headers.pop(name, None)
        try:
            with self._translated(kind, key):
                header = remembered or self._read_header(kind, key)
                pieces = self._pieces(name, header.arrays.get(array), spans)
        except Absent:
            self.faults.absent.add((kind, key))
            raise
        except Damaged as damage:
            if remembered is not None:  # the file may have been made anew since its header was read
                return self.spans(kind, key, array, spans)
            self._set_aside(kind, key, damage)
            raise
        self._headers[name] = header
        return pieces

    def _pieces(self, name: str, layout: Layout | None, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Spans of an array's bytes, from the chunks that they lie in; chunks side by side are read together."""
        if layout is None or any(stop > layout.stop - layout.start for _, stop in spans):
            raise Unsound("ends early")
        needed = [range(start // CHUNK, -(-stop // CHUNK)) for start, stop in spans]
        runs: list[list[int]] = []
        for chunk in sorted(set().union(*needed)):
            if runs and chunk == runs[-1][-1] + 1:
                runs[-1].append(chunk)
            else:
                runs.append([chunk])
        places = [
            (layout.start + run[0] * CHUNK, min(layout.start + (run[-1] + 1) * CHUNK, layout.stop)) for run in runs
        ]
        chunks = {}
        for run, content in zip(runs, self.backend.spans(name, places), strict=True):
            if chunk_digests(content) != layout.digests[run[0] * DIGITS : (run[-1] + 1) * DIGITS]:
                raise Unsound("does not match its digest")
            chunks.update({chunk: content[i * CHUNK : (i + 1) * CHUNK] for i, chunk in enumerate(run)})
        wholes = (b"".join(chunks[chunk] for chunk in some) for some in needed)
        return [whole[start % CHUNK :][: stop - start] for whole, (start, stop) in zip(wholes, spans, strict=True)]

    def read(self, kind: str, key: str) -> Item:
        """An item, verified; `Damaged` if it is not what was written, `Absent` if it is not there."""
        with self._translated(kind, key):
            return decode_item(self.backend.content(self.name(kind, key)), kind, key)

    @contextlib.contextmanager
    def _translated(self, kind: str, key: str) -> Iterator[None]:
        """Errors of reading an item as `Absent` or `Damaged`."""
        shown = self.backend.full(self.name(kind, key))
        try:
            yield
        except FileNotFoundError:
            raise Absent(f"{shown} is not there") from None
        except (Unsound, OSError) as error:
            raise Damaged(f"{shown} {error if isinstance(error, Unsound) else 'cannot be read'}") from error

    def write(self, kind: str, key: str, item: Item, flush: bool = True) -> None:
        """Keep an item; it is there as a whole or, after any failure, not at all.

        Without `flush`, for what is made faster than a disk confirms it: where the machine is cut off soon after, the
        file may be found damaged, and the item is computed again.
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
            self._set_aside(kind, key, damage)
        return None

    def _set_aside(self, kind: str, key: str, damage: Damaged) -> None:
        """Take a file that is not the item asked for out of the way, and note it."""
        name = self.name(kind, key)
        self._headers.pop(name, None)
        self.faults.damaged.add((kind, key))
        self.faults.notices.append(f"{damage}: set aside and computed again.")
        self.backend.set_aside(name, name.removesuffix(SUFFIX) + DAMAGED)

    def once(self, kind: str, key: str, make: Callable[[], Item]) -> Item:
        """The item under a key, made now if it is not there."""
        item = self.find(kind, key)
        if item is None:
            item = make()
            self.write(kind, key, item)
        return item


def _marker(version: int) -> bytes:
    """What tells a store, with a digest: another number by damage is not another version."""
    digest = _digest(json.dumps(["uproar store", version]))[:16]
    return json.dumps({"format": version, "digest": digest}).encode()


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

    items: Mapping[tuple[str, str], int]
    """Results, by kind and key, with their bytes; sound ones where they were verified."""
    leftovers: Mapping[str, int]
    """Files that were set aside, or that a killed process left unfinished, with their bytes."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Files that are not the result whose name they bear, with the reason; only where they were verified."""

    def kinds(self) -> dict[str, tuple[int, int]]:
        """Files and bytes of the results, by kind."""
        sums: dict[str, tuple[int, int]] = {}
        for (kind, _), size in sorted(self.items.items()):
            files, total = sums.get(kind, (0, 0))
            sums[kind] = files + 1, total + size
        return sums


def list_store(store: Store) -> Inventory:
    """What is there, by name alone; files that no store writes are not looked at."""
    items, leftovers = {}, {}
    for name, size in store.backend.sizes().items():
        match = _ITEM.fullmatch(name)
        if name.startswith(f"{UNFINISHED}/") or (match and match["suffix"] == DAMAGED):
            leftovers[name] = size
        elif match and match["suffix"] == SUFFIX and match["key"].startswith(match["start"]):
            items[match["kind"], match["key"]] = size
    return Inventory(items, leftovers)


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
    return Inventory(sound, every.leftovers, damaged)


def set_aside(store: Store, inventory: Inventory) -> None:
    """Take the damaged files out of the way, so that whoever needs them makes them again; a marker is overwritten."""
    for name in inventory.damaged.keys() - {MARKER}:
        store.backend.set_aside(name, name.removesuffix(SUFFIX) + DAMAGED)


def copy_results(sources: Sequence[Store], target: Store, listen: Callable[[int, int], None] = lambda *_: None) -> None:
    """Copy every sound result of some stores into another that lacks it; damaged ones are computed when needed."""
    existing = list_store(target).items
    items = {item: store for store in reversed(sources) for item in list_store(store).items if item not in existing}
    for done, ((kind, key), store) in enumerate(items.items(), 1):
        for source in (store, *sources):  # another store may have it sound
            with contextlib.suppress(Absent, Damaged):
                target.write(kind, key, source.read(kind, key))
                break
        listen(done, len(items))
