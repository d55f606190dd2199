"""Where the program prints: sentences, tables that keep every number whole, `--json`; how lists of names are read.

With `--json` standard output holds one JSON object and nothing else: all that is for people is silent, progress and
notes stay on standard error. A table there is a list of rows by column name, as in the CSV files; numbers that JSON
does not have (NaN, infinity) are null.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from uproar.errors import BadInput
from uproar.paths import public_command

NARROWEST = 10
"""Columns of letters that a column of text keeps before a table becomes a list."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def without_controls(text: str) -> str:
    """A text without codes that move the cursor, set colours or ring the bell: names come from anybody's files.

    >>> without_controls("a\\x1b[31mb")
    'a[31mb'
    """
    return _CONTROLS.sub("", text)


class Screen(Console):
    """A console whose long sentences (`soft_wrap=True`) are broken between words on a terminal, and nowhere else.

    A path is never broken: it can be copied. Through pipes a sentence is one line.
    """

    @property
    def on_terminal(self) -> bool:
        """Whether a person reads it; with FORCE_COLOR a pipe is coloured like a terminal, but is none."""
        return self.is_terminal and self.file.isatty()

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(without_controls(text), **options)

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        if soft_wrap and self.on_terminal:
            style = {name: options.get(name) for name in ("markup", "highlight")}
            texts = [self.render_str(text, **style) for text in objects]
            for text in texts:
                lines = text.plain.split("\n")
                text.plain = "\n".join(
                    textwrap.fill(line, self.width, break_long_words=False, break_on_hyphens=False) for line in lines
                )
            objects = tuple(texts)
        super().print(*objects, soft_wrap=soft_wrap, **options)


output = Screen()
errors = Screen(stderr=True)


def note(*sentences: str) -> None:
    """Print sentences that a person should keep in mind, on standard error."""
    for sentence in sentences:
        errors.print(f"[yellow]Note:[/] {escape(sentence)}", soft_wrap=True)


def print_file(what: str, path: str | Path) -> None:
    """Print where a file was written."""
    output.print(f"{escape(what)}: [bold]{escape(str(path))}[/]", soft_wrap=True)


def print_next(*steps: str) -> None:
    """Print what a person may want to do next; nothing if there is nothing to say."""
    text = "; ".join(step for step in steps if step)
    if text:
        output.print(f"[dim]Next:[/] {escape(text)}", soft_wrap=True, highlight=False)


def command(*words: str | Path | None) -> str:
    """A command line that can be pasted into a shell, without secrets; words that are None are left out."""
    return public_command(["uproar", *(str(word) for word in words if word is not None)])


class NumberTable(Table):
    """A table whose text columns give way to its numbers; where even that does not do, a list of its rows."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*(Text.from_markup(without_controls(cell)) for cell in cells), **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType | Segment]:
        least = 3 * len(self.columns) + 1  # a border and two spaces for each column
        for column in self.columns:
            widths = [len(line) for cell in column.cells for line in str(cell).split("\n")]
            if column.no_wrap:  # its header is broken where on one line it would be wider than the numbers
                column.max_width = max([*widths, *map(len, str(column.header).split())])
                least += column.max_width
            else:
                least += max(column.min_width or 0, min(NARROWEST, max([*widths, len(str(column.header))])))
        if least <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        yield Text(str(self.title), style="bold")
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            yield cells[0]
            for column, cell in zip(self.columns[1:], cells[1:], strict=True):
                if str(cell):
                    yield Text.assemble("  ", (str(column.header), "dim"), " ", cell, overflow="fold")


def table(title: str, *columns: str) -> Table:
    """An empty table in the program's style; columns that start with > hold numbers."""
    empty = NumberTable(title=title, title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        number = column.startswith(">")
        header = Text(column.removeprefix(">"), no_wrap=False)
        empty.add_column(header, justify="right" if number else "left", no_wrap=number, overflow="fold")
    return empty


def split_list(values: list[str] | None) -> list[str] | None:
    """`a,b(c=1,d=2)` and repeated options as one list: commas inside brackets do not split.

    >>> split_list(["grad,sg(ig, samples=20)", "random"])
    ['grad', 'sg(ig, samples=20)', 'random']
    """
    if not values:
        return None
    names, depth = [""], 0
    for letter in ",".join(values):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            names.append("")
        else:
            names[-1] += letter
    return [name.strip() for name in names if name.strip()]


def some(option: str, values: list[str] | None, default: Iterable[str]) -> list[str]:
    """What an option lists, or the default without it; a list of nothing is refused."""
    names = split_list(values)
    if names is None:
        return list(default)
    if not names:
        raise BadInput(f"{option} takes one name or more, separated by commas, not {values[0]!r}.")  # type: ignore[index]
    return names


_results: dict[str, object] = {}
"""What the command that runs has found."""


def json_wanted() -> bool:
    """Whether the command that runs prints JSON: what only JSON has need not be computed otherwise."""
    return output.quiet


def add_to_json(**values: object) -> None:
    """Put values into what `--json` prints: a table, a text, a number, a path, or a mapping or list of these."""
    _results.update(values)


def print_json(command: Callable[[], int]) -> int:
    """Run a command in silence and print what it found; what is refused or interrupted prints nothing."""
    _results.clear()
    before, output.quiet = output.quiet, True
    try:
        code = command()
    finally:
        output.quiet = before
    print(json.dumps(as_json(_results), indent=1, ensure_ascii=False), file=output.file, flush=True)
    return code


def as_json(value: Any) -> Any:
    """A value as JSON has it.

    >>> as_json({"low": float("nan"), "n": 3, "seeds": (0, 1)})
    {'low': None, 'n': 3, 'seeds': [0, 1]}
    """
    from pydantic_core import to_jsonable_python

    def plain(other: Any) -> Any:
        if hasattr(other, "columns"):
            return other.to_dict(orient="records")
        return other.item() if hasattr(other, "item") else str(other)

    return to_jsonable_python(value, inf_nan_mode="null", fallback=plain)
