"""Tables and names as Markdown that is also readable as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from uproar.report.formatting import NOTHING, clean


def text(words: object) -> str:
    """Words in which nothing is taken for markup.

    >>> text("a|b <i> 5_6")
    'a\\\\|b &lt;i&gt; 5\\\\_6'
    """
    escapes = {ord("<"): "&lt;", ord(">"): "&gt;"} | {ord(letter): f"\\{letter}" for letter in "\\|_*`[]"}
    return clean(words).translate(escapes)


def code(name: object) -> str:
    """A name as it is typed.

    >>> code("sg_sq(grad)")
    '`sg_sq(grad)`'
    """
    typed = clean(name).replace("`", "'").replace("|", "\\|")
    return f"`{typed}`" if typed else NOTHING


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; heads that start with > are of numbers and stand at the right. Cells are Markdown already.

    >>> print(table(["name", ">n"], [["a", "1"]]))
    | name | n |
    |---|--:|
    | a | 1 |
    """
    marks = ["--:" if head.startswith(">") else "---" for head in heads]
    lines = [[head.removeprefix(">") for head in heads], *rows]
    shown = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([shown[0], "|" + "|".join(marks) + "|", *shown[1:]])


def anchor(heading: str) -> str:
    """The address of a heading inside its page, as the usual viewers make it.

    >>> anchor("`author2030:sg-sq` on Fashion-MNIST")
    'author2030sg-sq-on-fashion-mnist'
    """
    kept = [c for c in heading.strip().lower() if c.isalnum() or c in " -_"]
    return "".join(kept).replace(" ", "-")
