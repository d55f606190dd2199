"""Where the program prints: sentences, tables that keep every number whole, `--json`; how lists of names are read.

With `--json` standard output holds one JSON object and nothing else: all that is for people is silent, progress and
notes stay on standard error. A table there is a list of rows by column name, as in the CSV files; numbers that JSON
does not have (NaN, infinity) are null.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from uproar.errors import BadInput
from uproar.paths import public_command

NARROWEST = 10
"""Columns of letters that a column of text keeps before a table becomes a list."""
Part = str | tuple[str, str]
"""A text, or one with its style."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def without_controls(text: str) -> str:
    """A text without codes that move the cursor, set colours or ring the bell: names come from anybody's files.

    >>> without_controls("a\\x1b[31mb")
    'a[31mb'
    """
    return _CONTROLS.sub("", text)


def styled(*parts: Part, style: str = "") -> Text:
    """A text of parts that may each have a style; nothing in it is read as markup or as a code of the terminal."""
    pairs = [(item, "") if isinstance(item, str) else item for item in parts]
    return Text.assemble(*((without_controls(text), part_style) for text, part_style in pairs), style=style)


class Screen(Console):
    """Standard output or standard error."""

    @property
    def on_terminal(self) -> bool:
        """Whether a person reads it; with FORCE_COLOR a pipe is coloured like a terminal, but is none."""
        return self.is_terminal and self.file.isatty()

    def say(self, *parts: Part, style: str = "", indent: str = "") -> None:
        """Print a sentence. On a terminal lines break between words and never in a path, which can be copied.

        Through pipes it is one line.
        """
        text = styled(indent, *parts, style=style)
        if self.on_terminal:
            lines = text.plain.split("\n")
            text.plain = "\n".join(
                textwrap.fill(
                    line, self.width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
                )
                for line in lines
            )
        self.print(text, soft_wrap=True, highlight=False)


output = Screen()
errors = Screen(stderr=True)


def note(*sentences: str) -> None:
    """Print sentences that a person should keep in mind, on standard error."""
    for sentence in sentences:
        errors.say(("Note: ", "yellow"), sentence)


def print_file(what: str, path: str | Path) -> None:
    """Print where a file was written."""
    output.say(f"{what}: ", (str(path), "bold"))


def print_next(*steps: str) -> None:
    """Print what a person may want to do next; nothing if there is nothing to say."""
    text = "; ".join(step for step in steps if step)
    if text:
        output.say(("Next: ", "dim"), text)


def command(*words: str | Path | None) -> str:
    """A command line that can be pasted into a shell, without secrets; words that are None are left out."""
    return public_command(["uproar", *(str(word) for word in words if word is not None)])


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print a table whose text gives way to its numbers; where even that does not do, a list of its rows.

    Columns that start with > hold numbers and those with = names, neither of which is broken.
    """
    headers = [column.lstrip(">=") for column in columns]
    whole = [column[0] in ">=" for column in columns]
    cells = [[cell if isinstance(cell, Text) else styled(cell) for cell in row] for row in rows]
    shown = Table(header_style="bold")
    least = 3 * len(columns) + 1  # a border and two spaces for each column
    for position, (column, header) in enumerate(zip(columns, headers, strict=True)):
        longest = max((len(line) for row in cells for line in row[position].plain.split("\n")), default=0)
        width = max(longest, *map(len, header.split()), 0)  # a header is broken where numbers are narrower
        least += width if whole[position] else min(NARROWEST, max(longest, len(header)))
        shown.add_column(
            Text(header, no_wrap=False),
            justify="right" if column[0] == ">" else "left",
            no_wrap=whole[position],
            overflow="fold",
            max_width=width if whole[position] else None,
        )
    output.print(styled(title, style="bold"))  # not the table's own title, which would be as narrow as the table
    if least <= output.width:
        for row in cells:
            shown.add_row(*row)
        output.print(shown)
        return
    for row in cells:
        output.print(row[0])
        for header, cell in zip(headers[1:], row[1:], strict=True):
            if cell.plain:
                output.print(Text.assemble("  ", (header, "dim"), " ", cell), overflow="fold")


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
