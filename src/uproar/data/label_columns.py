"""Several labels or values of a picture, from the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from uproar.errors import BadInput, BadOption

Row = tuple[float, ...]
"""The labels 0 and 1, or the values, of one picture."""


@dataclass(frozen=True)
class LabelColumns:
    """What the pictures of a table have in place of a class: a row for each, and the name of every column."""

    names: tuple[str, ...]
    rows: list[Row]


def flags(file: Path, columns: Sequence[str], texts: Callable[[str], list[str]]) -> LabelColumns:
    """Labels with a column each, 0 or 1; `texts` reads a column."""
    known = {"0": 0, "1": 1, "false": 0, "true": 1, "no": 0, "yes": 1}

    def flag(line: int, column: str, text: str) -> int:
        if text.lower() not in known:
            raise BadInput(f"{file}, line {line}: the label {column!r} must be 0 or 1, not {text!r}.")
        return known[text.lower()]

    return _columns(columns, texts, flag)


def numbers(file: Path, columns: Sequence[str], texts: Callable[[str], list[str]]) -> LabelColumns:
    """Values with a column each; `texts` reads a column."""

    def number(line: int, column: str, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise BadInput(f"{file}, line {line}: {column!r} must be a number, not {text!r}.") from None

    return _columns(columns, texts, number)


def _columns(
    columns: Sequence[str], texts: Callable[[str], list[str]], read: Callable[[int, str, str], float]
) -> LabelColumns:
    """Columns of text read as numbers; lines are counted as in the file, whose first is the header."""
    result = [[read(line, column, text) for line, text in enumerate(texts(column), 2)] for column in columns]
    return LabelColumns(tuple(columns), list(zip(*result, strict=True)))


def separated(texts: Sequence[str], separator: str) -> LabelColumns:
    """Labels named in one column, parted by a separator; a picture without any has an empty text there."""
    if not separator.strip():
        raise BadOption("folder: separator= is what parts the labels in the column of labels, such as ';'.")
    sets = [{name.strip() for name in text.split(separator)} - {""} for text in texts]
    names = tuple(sorted(set().union(*sets)))
    return LabelColumns(names, [tuple(int(name in some) for name in names) for some in sets])
