"""Tables that keep every number whole, however narrow the terminal is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

NARROWEST = 10
"""Columns of letters that a column of text keeps before the table becomes a list."""


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def without_controls(text: str) -> str:
    """A text without codes that move the cursor, set colours or ring the bell: names come from anybody's files.

    >>> without_controls("a\\x1b[31mb")
    'a[31mb'
    """
    return _CONTROLS.sub("", text)


def table(title: str, *columns: str) -> Table:
    """An empty table in the program's style; columns that start with > hold numbers."""
    empty = NumberTable(title=title, title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        if column.startswith(">"):
            empty.add_column(column.removeprefix(">"), justify="right", no_wrap=True)
        else:
            empty.add_column(column, overflow="fold")
    return empty


class NumberTable(Table):
    """A table whose text columns give way to its numbers; where even that does not do, a list of its rows."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType | Segment]:
        for column in self.columns:
            if column.no_wrap:
                column.header = _broken(str(column.header), _width(column))
        if self._least_width() <= options.max_width:
            yield from super().__rich_console__(console, options)
        else:
            yield from self._rows_as_lists()

    def _least_width(self) -> int:
        least = [
            max(_width(column), _longest_line(str(column.header)))
            if column.no_wrap
            else max(column.min_width or 0, min(NARROWEST, max(_width(column), len(str(column.header)))))
            for column in self.columns
        ]
        return sum(least) + 3 * len(least) + 1  # a border and two spaces for each column

    def _rows_as_lists(self) -> Iterator[Text]:
        """Each row under its name, a line for each of its cells."""
        yield Text(str(self.title), style="bold")
        names = [" ".join(str(column.header).split()) for column in self.columns]
        for cells in zip_longest(*(column.cells for column in self.columns), fillvalue=""):
            texts = [_text(cell) for cell in cells]
            yield texts[0]
            for name, text in zip(names[1:], texts[1:], strict=True):
                if text.plain:
                    value = Text(" ").join(text.split("\n"))
                    yield Text.assemble("  ", (name, "dim"), " ", value, overflow="fold")


def _text(cell: object) -> Text:
    return Text.from_markup(without_controls(cell)) if isinstance(cell, str) else Text(str(cell))


def _longest_line(text: str) -> int:
    return max((len(line) for line in text.split("\n")), default=0)


def _width(column: Column) -> int:
    """How wide the cells of a column are."""
    return max((_longest_line(_text(cell).plain) for cell in column.cells), default=0)


def _broken(header: str, width: int) -> str:
    """A header on several lines, where on one it would be wider than the numbers below it.

    >>> _broken("95 % interval", 8), _broken("n", 3)
    ('95 %\\ninterval', 'n')
    """
    lines = [""]
    for word in header.split():
        longer = f"{lines[-1]} {word}".strip()
        if len(longer) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(lines)
