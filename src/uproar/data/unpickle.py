"""Pickle files read without running anything: plain values and NumPy arrays, and nothing else.

`pickletools` takes the file apart into its instructions; the few that build dicts, lists, texts, numbers and arrays are
followed here, on a stack of our own. No class is looked up and no function of the file's choice is called.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from uproar.errors import BadInput

_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
_NUMERIC = ("numpy.core.numeric", "numpy._core.numeric")
_NAMES = {
    **{(module, "_reconstruct"): "array" for module in _MULTIARRAY},
    **{(module, "scalar"): "scalar" for module in _MULTIARRAY},
    **{(module, "_frombuffer"): "buffer" for module in _NUMERIC},
    ("numpy", "ndarray"): "class",
    ("numpy", "dtype"): "dtype",
    ("_codecs", "encode"): "encode",
}
"""The only names a file may mention, and what is done here instead of calling them."""

DEEPEST = 50
"""Lists, tuples and dicts inside each other."""
MOST = 5_000_000
"""Values in a file, each counted as often as it is referred to."""

_KINDS = {"b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"}


class _Refused(Exception):
    """The file asks for something that plain data never need."""


@dataclass
class _Name:
    """A name the file mentions, never looked up."""

    role: str


@dataclass
class _Type:
    """A number format under construction."""

    kind: str
    order: str = "|"

    def numpy(self) -> np.dtype:
        """The format as NumPy has it."""
        return np.dtype((self.order if self.order in "<>" else "=") + self.kind)


@dataclass
class _Array:
    """An array whose shape and content are given later."""

    content: np.ndarray | None = None


_MARK = object()


def read_pickle(file: Path) -> Any:
    """What a pickle file holds: dicts, lists, tuples, bytes, texts, numbers and arrays. Old texts come as bytes."""
    try:
        return _Settler().settled(_Machine().run(file.read_bytes()))
    except FileNotFoundError:
        raise BadInput(f"There is no {file.name} in {file.parent}.") from None
    except _Refused as error:
        raise BadInput(f"{file} is not a pickle of plain data: it asks for {error}, which is not run.") from None
    except MemoryError:
        raise BadInput(f"{file} does not fit into memory.") from None
    except (ArithmeticError, ValueError, LookupError, TypeError, AttributeError, OSError) as error:
        raise BadInput(f"{file} is not a whole pickle file ({error}).") from None


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        for number, (code, argument, _) in enumerate(pickletools.genops(content)):
            if number > 2 * MOST:
                raise _Refused(f"more than {2 * MOST} instructions")
            name = code.name
            if name == "STOP":
                return self.stack.pop()
            if name in _PUSH:
                self.stack.append(_PUSH[name](argument))
            elif name in _DO:
                _DO[name](self, argument)
            elif name not in ("PROTO", "FRAME"):
                raise _Refused(f"the instruction {name}")
        raise ValueError("it ends too early")

    def since_mark(self) -> list[Any]:
        """What was put on the stack since the last mark, taken off with it."""
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:  # no further than what is taken off
            place -= 1
            if place < 0:
                raise ValueError("it ends a list that it did not begin")
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items

    def extend(self, items: Sequence[Any]) -> None:
        self.stack[-1].extend(items)

    def set_items(self, items: Sequence[Any]) -> None:
        self.stack[-1].update(_dict(items))

    def name(self, module: str, name: str) -> None:
        if (module, name) not in _NAMES:
            raise _Refused(f"{module}.{name}")
        self.stack.append(_Name(_NAMES[module, name]))

    def tuple_of(self, count: int) -> None:
        if len(self.stack) < count:
            raise ValueError("it takes more than there is")
        items = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        self.stack.append(items)

    def remember(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def reduce(self) -> None:
        arguments = self.stack.pop()
        name = self.stack.pop()
        made = _MAKE.get(name.role) if isinstance(name, _Name) else None
        if made is None:
            raise _Refused("a call")
        self.stack.append(made(*arguments))

    def build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, _Type):
            target.order = _text(state[1])
        elif isinstance(target, _Array):
            _, shape, kind, by_columns, content = state
            target.content = _array(content, kind, shape, "F" if by_columns else "C")
        else:
            raise _Refused("the state of an object")


def _dict(items: Sequence[Any]) -> dict[Any, Any]:
    for key in items[::2]:
        if not isinstance(key, bytes | str | int | float | None):
            raise _Refused(f"a {type(key).__name__} as the key of a dict")
    return dict(zip(items[::2], items[1::2], strict=True))


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _type(kind: Any, *_: Any) -> _Type:
    if _text(kind) not in _KINDS:
        raise _Refused(f"values of type {_text(kind)!r}")
    return _Type(_text(kind))


def _array(content: Any, kind: _Type, shape: Any, order: Any) -> np.ndarray:
    if not isinstance(kind, _Type) or not isinstance(content, bytes | bytearray):
        raise _Refused("an array of objects")
    values = np.frombuffer(bytes(content), kind.numpy())
    return values.reshape(shape, order="F" if _text(order) == "F" else "C")


_MAKE: dict[str, Callable[..., Any]] = {
    "array": lambda *_: _Array(),
    "buffer": _array,
    "scalar": lambda kind, content: _array(content, kind, (), "C").item(),
    "dtype": _type,
    "encode": lambda text, *_: text.encode("latin-1"),
}

_PUSH: dict[str, Callable[[Any], Any]] = {
    "MARK": lambda _: _MARK,
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_DICT": lambda _: {},
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4"), lambda v: v),
    **dict.fromkeys(("BINFLOAT", "FLOAT"), lambda v: v),
    **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"), lambda v: v),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), lambda v: v),
    **dict.fromkeys(("BINSTRING", "SHORT_BINSTRING", "STRING"), lambda v: v.encode("latin-1")),
}

_DO: dict[str, Callable[[_Machine, Any], None]] = {
    "APPEND": lambda m, _: m.extend([m.stack.pop()]),
    "APPENDS": lambda m, _: m.extend(m.since_mark()),
    "SETITEM": lambda m, _: m.set_items([m.stack.pop(-2), m.stack.pop()]),
    "SETITEMS": lambda m, _: m.set_items(m.since_mark()),
    "DICT": lambda m, _: m.stack.append(_dict(m.since_mark())),
    "LIST": lambda m, _: m.stack.append(m.since_mark()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.since_mark())),
    "TUPLE1": lambda m, _: m.tuple_of(1),
    "TUPLE2": lambda m, _: m.tuple_of(2),
    "TUPLE3": lambda m, _: m.tuple_of(3),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda m, place: m.remember(place)),
    "MEMOIZE": lambda m, _: m.remember(len(m.memo)),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda m, place: m.stack.append(m.memo[place])),
    "GLOBAL": lambda m, names: m.name(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.name(_text(m.stack.pop(-2)), _text(m.stack.pop())),
    "REDUCE": lambda m, _: m.reduce(),
    "BUILD": lambda m, _: m.build(),
}


class _Settler:
    """Puts arrays in place of what stood for them, and refuses what refers to itself, is too deep or too large.

    A value that is referred to from many places is settled once, but counts every time: whoever walks through the
    result meets it as often.
    """

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, int]] = {}
        self.open: set[int] = set()

    def settled(self, value: Any) -> Any:
        """The value with arrays in place of what stood for them."""
        return self._sized(value, 0)[0]

    def _sized(self, value: Any, depth: int) -> tuple[Any, int]:
        if isinstance(value, _Array):
            if value.content is None:
                raise ValueError("an array has no content")
            return value.content, 1
        if isinstance(value, _Name | _Type):
            raise _Refused("a class as a value")
        if not isinstance(value, dict | list | tuple):
            return value, 1
        if id(value) not in self.known:
            self.known[id(value)] = self._container(value, depth + 1)
        return self.known[id(value)]

    def _container(self, value: dict | list | tuple, depth: int) -> tuple[Any, int]:
        if id(value) in self.open:
            raise _Refused("a value inside itself")
        if depth > DEEPEST:
            raise _Refused(f"more than {DEEPEST} lists inside each other")
        self.open.add(id(value))
        items = list(value.values()) if isinstance(value, dict) else value
        parts = [self._sized(item, depth) for item in items]
        self.open.discard(id(value))
        count = 1 + sum(size for _, size in parts)
        if count > MOST:
            raise _Refused(f"more than {MOST} values")
        inner = [item for item, _ in parts]
        if isinstance(value, dict):
            return dict(zip(value, inner, strict=True)), count
        return (inner if isinstance(value, list) else tuple(inner)), count
