"""The small language of names with options: `sg_sq(ig, samples=20)`, `digits`, `cnn-small(width=8)`.

A call has a name, inner calls as arguments, and options. Names may hold letters, digits and `_ - . : /`, so
that `captum:Saliency` and `my_net.py:build` are names too. What follows a prefix may stand in quotes:
`maps:"my maps.npz"`.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from uproar.errors import BadInput

LONGEST = 10_000
"""Characters of an expression."""
DEEPEST = 50
"""Calls or lists inside each other in an expression."""

Value = bool | int | float | str | tuple["Value", ...] | None

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?(?![\w.:/-]))"
    r"|(?P<name>[A-Za-z_]\w*:(?:\"[^\"]*\"|'[^']*')|[A-Za-z_][\w.:/-]*|[./~][\w.:/-]*)"
    r"|(?P<string>\"[^\"]*\"|'[^']*')|(?P<mark>[(),=\[\]]))"
)
_WORDS = {"true": True, "True": True, "false": False, "False": False, "none": None, "None": None}


@dataclass(frozen=True)
class Call:
    """A name with inner calls and options; `str` gives it back in one canonical form."""

    name: str
    args: tuple[Call, ...] = ()
    options: tuple[tuple[str, Value], ...] = ()

    @functools.cached_property
    def _text(self) -> str:
        inside = [str(arg) for arg in self.args] + [f"{k}={shown_value(v)}" for k, v in self.options]
        return f"{self.name}({', '.join(inside)})" if inside else self.name

    def __str__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def walk(self) -> Iterator[Call]:
        """This call and all calls inside it, outermost first."""
        yield self
        for arg in self.args:
            yield from arg.walk()


def parse(text: str) -> Call:
    """The call a text describes.

    >>> str(parse("sg( grad,sigma = 0.1, samples=20 )"))
    'sg(grad, samples=20, sigma=0.1)'
    """
    if not isinstance(text, str):
        raise BadInput(f"Expected a name such as 'grad' or 'sg(grad)', not {text!r}.")
    reader = _Reader(text)
    call = reader.call()
    if reader.token is not None:
        reader.fail(f"nothing more after {str(call)!r}")
    return call


def shown_value(value: Value) -> str:
    """A value as it is written in an expression, which reads it again."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "none"
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z_][\w.:/-]*", value) and value not in _WORDS
        return value if plain else f'"{value}"'
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else repr(value)


class _Reader:
    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise BadInput(f"An expression has at most {LONGEST} characters, not {len(text)}: {text!r}.")
        self.text, self.at, self.depth = text, 0, 0
        self.kind: str | None = None
        self.token: str | None = None
        self.next()

    def next(self) -> None:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            self.kind = self.token = None
            rest = self.text[self.at :].strip()
            if rest:
                self.token = rest[0]
                self.fail("a name, a number, a text in quotes, or one of ( ) , = [ ]")
            return
        self.kind = match.lastgroup
        self.token = match[match.lastgroup or 0]
        self.at = match.end()

    def fail(self, expected: str) -> NoReturn:
        token = "the end" if self.token is None else repr(self.token)
        raise BadInput(f"Cannot read {self.text!r}: expected {expected}, found {token}.")

    def take(self, mark: str) -> None:
        if self.token != mark or self.kind != "mark":
            self.fail(repr(mark))
        self.next()

    def name(self) -> str:
        if self.kind != "name" or self.token is None:
            self.fail("a name")
        token = self.token
        self.next()
        return token

    def call(self) -> Call:
        return self.rest_of_call(self.name())

    def rest_of_call(self, name: str) -> Call:
        args: list[Call] = []
        options: dict[str, Value] = {}
        if self.token == "(":
            self.next()
            with self.inside():
                while self.token != ")":
                    self.argument(args, options)
                    if self.token != ")":
                        self.take(",")
            self.take(")")
        return Call(name, tuple(args), tuple(sorted(options.items())))

    def argument(self, args: list[Call], options: dict[str, Value]) -> None:
        name = self.name()
        if self.token != "=":
            args.append(self.rest_of_call(name))
            return
        self.next()
        if name in options:
            raise BadInput(f"Cannot read {self.text!r}: the option {name} is given twice.")
        options[name] = self.value()

    def value(self) -> Value:
        kind, token = self.kind, self.token
        if token == "[":
            return self.items()
        if token is None or kind == "mark":
            self.fail("a value")
        self.next()
        if kind == "number":
            return self.number(token)
        if kind == "string":
            return token[1:-1]
        return _WORDS.get(token, token)

    def number(self, token: str) -> int | float:
        try:
            number = float(token) if any(c in token for c in ".eE") else int(token)
            if math.isfinite(number) and (isinstance(number, float) or abs(number) < 2**63):
                return number
        except (ValueError, OverflowError):  # more digits than Python reads, or than a float holds
            pass
        raise BadInput(f"Cannot read {self.text!r}: the number {token} is too large.")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """One level deeper."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise BadInput(f"Cannot read {self.text!r}: at most {DEEPEST} calls or lists stand inside each other.")
        yield
        self.depth -= 1

    def items(self) -> tuple[Value, ...]:
        self.take("[")
        values: list[Value] = []
        with self.inside():
            while self.token != "]":
                values.append(self.value())
                if self.token != "]":
                    self.take(",")
        self.take("]")
        return tuple(values)
