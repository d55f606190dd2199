"""Where the program prints, and how lists on the command line are read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from uproar.cli.terminal_tables import table, without_controls
from uproar.errors import BadInput

__all__ = ["errors", "note", "output", "print_file", "some", "split_list", "table"]


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
            rendering: dict[str, Any] = {name: options.get(name) for name in ("markup", "highlight")}
            texts = [self.render_str(o, **rendering) if isinstance(o, str) else o for o in objects]
            objects = tuple(wrap_words(o, self.width) if isinstance(o, Text) else o for o in texts)
        super().print(*objects, soft_wrap=soft_wrap, **options)


def wrap_words(text: Text, width: int) -> Text:
    """A text with line ends in place of spaces, so that lines fit, but for words that are wider.

    >>> wrap_words(Text("to be found in /a/long/path now"), 12).plain
    'to be found\\nin\\n/a/long/path\\nnow'
    """
    lines: list[str] = []
    for line in text.plain.split("\n"):
        room = 0
        for i, word in enumerate(line.split(" ")):
            fits = i > 0 and cell_len(word) < room
            lines.append(f" {word}" if fits else f"\n{word}")
            room = (room if fits else width + 1) - cell_len(word) - 1
    text.plain = "".join(lines).removeprefix("\n")
    return text


output = Screen()
errors = Screen(stderr=True)


def note(*sentences: str) -> None:
    """Print sentences that a person should keep in mind, on standard error."""
    for sentence in sentences:
        errors.print(f"[yellow]Note:[/] {escape(sentence)}", soft_wrap=True)


def print_file(what: str, path: str | Path) -> None:
    """Print where a file was written."""
    output.print(f"{escape(what)}: [bold]{escape(str(path))}[/]", soft_wrap=True)


def split_list(values: list[str] | None) -> list[str] | None:
    """`a,b(c=1,d=2)` and repeated options as one list: commas inside brackets do not split.

    >>> split_list(["grad,sg(ig, samples=20)", "random"])
    ['grad', 'sg(ig, samples=20)', 'random']
    """
    if not values:
        return None
    names: list[str] = []
    for value in values:
        depth, start = 0, 0
        for i, letter in enumerate(value + ","):
            depth += (letter in "([") - (letter in ")]")
            if i == len(value) or (letter == "," and depth == 0):
                names.append(value[start:i].strip())
                start = i + 1
    return [name for name in names if name]


def some(option: str, values: list[str] | None, default: Iterable[str]) -> list[str]:
    """What an option lists, or the default without it; a list of nothing is refused."""
    names = split_list(values)
    if names is None:
        return list(default)
    if not names:
        raise BadInput(f"{option} takes one name or more, separated by commas, not {values[0]!r}.")  # type: ignore[index]
    return names
