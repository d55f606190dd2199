"""The file of one stored result: which one it is, its facts and its arrays, all under digests.

A file is a safetensors file, so that other programs can open it. Its metadata hold one text that says what the file is
(kind, key, format), the facts, and for every array its type, shape and the digests of its chunks; and the digest of
that text. So the header alone verifies what the item is and what is known of it, and any part of an array is verified
by the chunks it lies in.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FORMAT = 2
"""Raised when files written by this version cannot be read by an older one, or the other way round."""
CHUNK = 1 << 14
"""Bytes of an array under one digest."""
DIGITS = 16
"""Hexadecimal digits of a chunk's digest: 64 bits tell damage, which is no attack."""
DTYPES = {
    **{f"f{size}": f"F{8 * size}" for size in (2, 4, 8)},
    **{f"{sign}{size}": f"{sign.upper()}{8 * size}" for sign in "iu" for size in (1, 2, 4, 8)},
    "b1": "BOOL",
}
"""The names that safetensors has for types of numbers, by NumPy's."""
LARGEST_HEADER = 100_000_000
"""What safetensors itself accepts."""


class Unsound(ValueError):
    """The bytes are not those of the item that was asked for; the message is the end of a sentence."""


@dataclass(frozen=True)
class Item:
    """What is kept under a key: arrays, and facts that JSON can hold."""

    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ArrayLayout:
    """Where an array lies in its file, and what its bytes must be."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int
    digests: str
    """Of all chunks, one behind the other."""

    def verify(self, start: int, content: bytes | bytearray | memoryview) -> None:
        """Refuse bytes that are not those of the whole chunks from byte `start` of the array on."""
        digests, first = chunk_digests(content), start // CHUNK * DIGITS
        if self.digests[first : first + len(digests)] != digests:
            raise Unsound("does not match its digest")


@dataclass(frozen=True)
class Header:
    """What a verified header says."""

    facts: dict[str, Any]
    arrays: dict[str, ArrayLayout]


def chunk_digests(content: bytes | bytearray | memoryview) -> str:
    """The digests of consecutive chunks."""
    view = memoryview(content)
    parts = (view[i : i + CHUNK] for i in range(0, len(view), CHUNK))
    return "".join(hashlib.sha256(part).hexdigest()[:DIGITS] for part in parts)


def encode_item(kind: str, key: str, item: Item) -> bytes:
    """An item as the content of its file."""
    arrays = {name: _little_endian(array) for name, array in item.arrays.items()}
    contents = {name: array.tobytes() for name, array in arrays.items()}
    known = {name: [a.dtype.str, list(a.shape), chunk_digests(contents[name])] for name, a in arrays.items()}
    what = {"format": FORMAT, "kind": kind, "key": key, "facts": item.facts, "arrays": known}
    text = json.dumps(what, sort_keys=True)
    return _safetensors(arrays, contents, {"item": text, "digest": _digest(text)})


def _safetensors(arrays: Mapping[str, np.ndarray], contents: Mapping[str, bytes], metadata: Mapping[str, str]) -> bytes:
    """A safetensors file: the length of its header, the header, and the arrays one behind the other.

    Laid out as the library does it: the widest numbers first, so that all begin at multiples of their width. Its own
    function takes as long as everything else that is done for a small item.
    """
    header: dict[str, Any] = {"__metadata__": metadata}
    names, end = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name)), 0
    for name in names:
        start, end = end, end + len(contents[name])
        dtype = DTYPES[arrays[name].dtype.str[1:]]
        header[name] = {"dtype": dtype, "shape": arrays[name].shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *(contents[name] for name in names)])


def _little_endian(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array


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
        whole = json.loads(bytes(start[8:size]))
        metadata = whole["__metadata__"]
        text = metadata["item"]
        if _digest(text) != metadata["digest"]:
            raise Unsound("does not match its digest")
        what = json.loads(text)
        if what["format"] != FORMAT:
            raise Unsound("was written by another version")
        if (what["kind"], what["key"]) != (kind, key):
            raise Unsound(f"holds another result ({what['kind']} {what['key']})")
        places = {name: whole[name]["data_offsets"] for name in what["arrays"]}
        return Header(what["facts"], _layouts(what["arrays"], places, size))
    except Unsound:
        raise
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, RecursionError):
        raise Unsound("cannot be read") from None


def _layouts(known: Mapping[str, Any], places: Mapping[str, Any], first: int) -> dict[str, ArrayLayout]:
    """Where arrays lie that follow each other from byte `first` of a file on; nothing is known of `places` yet.

    No digest covers their `places` in the header, so these must be what types and shapes say.
    """
    layouts, end = {}, 0
    for name in sorted(known, key=lambda name: tuple(places[name])):
        dtype, shape, digests = known[name]
        start, end = end, end + math.prod(shape) * np.dtype(dtype).itemsize
        if list(places[name]) != [start, end]:
            raise Unsound("cannot be read")
        layouts[name] = ArrayLayout(dtype, tuple(shape), first + start, first + end, digests)
    return layouts


def decode_item(content: bytearray, kind: str, key: str) -> Item:
    """The item in a file, every byte of it verified."""
    header = read_header(content, kind, key)
    return Item({name: _array(content, a) for name, a in header.arrays.items()}, header.facts)


def _array(content: bytearray, layout: ArrayLayout) -> np.ndarray:
    part = memoryview(content)[layout.start : layout.stop]
    dtype, size = np.dtype(layout.dtype), int(np.prod(layout.shape, dtype=np.int64))
    if len(part) != size * dtype.itemsize or len(layout.digests) != DIGITS * -(-len(part) // CHUNK):
        raise Unsound("cannot be read")
    layout.verify(0, part)
    return np.frombuffer(part, dtype).reshape(layout.shape)


def chunk_runs(spans: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """The fewest runs of whole chunks, as spans of an array's bytes, that cover some spans of them.

    >>> chunk_runs([(5, 9), (CHUNK + 1, CHUNK + 2), (9 * CHUNK, 9 * CHUNK + 1)], 10 * CHUNK - 3)
    [(0, 32768), (147456, 163837)]
    """
    runs: list[tuple[int, int]] = []
    for a, b in sorted((a // CHUNK, -(-b // CHUNK)) for a, b in spans):
        if runs and a <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(b, runs[-1][1]))
        else:
            runs.append((a, b))
    return [(a * CHUNK, min(b * CHUNK, size)) for a, b in runs]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
