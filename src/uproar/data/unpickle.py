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
        return _settled(_Machine().run(file.read_bytes()))
    except FileNotFoundError:
        raise BadInput(f"There is no {file.name} in {file.parent}.") from None
    except _Refused as error:
        raise BadInput(
            f"{file} is not a pickle of plain data: it asks for {error}, which is not run."
        ) from None
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OSError) as error:
        raise BadInput(f"{file} is not a whole pickle file ({error}).") from None


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        for code, argument, _ in pickletools.genops(content):
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
        place = max(i for i, item in enumerate(self.stack) if item is _MARK)
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
}  # fmt: skip

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
}  # fmt: skip


def _settled(value: Any) -> Any:
    """The value with arrays in place of what stood for them."""
    if isinstance(value, _Array):
        if value.content is None:
            raise ValueError("an array has no content")
        return value.content
    if isinstance(value, dict):
        return {_settled(key): _settled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_settled(item) for item in value)
    if isinstance(value, _Name | _Type):
        raise _Refused("a class as a value")
    return value
