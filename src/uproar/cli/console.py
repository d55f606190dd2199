"""Where the program prints, and how lists on the command line are read."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich.console import Console

from uproar.cli.tables import table
from uproar.errors import BadInput

__all__ = ["duration", "errors", "listed", "output", "some", "table"]

output = Console()
errors = Console(stderr=True)


def listed(values: list[str] | None) -> list[str] | None:
    """`a,b(c=1,d=2)` and repeated options as one list: commas inside brackets do not split.

    >>> listed(["grad,sg(ig, samples=20)", "random"])
    ['grad', 'sg(ig, samples=20)', 'random']
    """
    if not values:
        return None
    found: list[str] = []
    for value in values:
        depth, start = 0, 0
        for i, letter in enumerate(value + ","):
            depth += (letter in "([") - (letter in ")]")
            if i == len(value) or (letter == "," and depth == 0):
                found.append(value[start:i].strip())
                start = i + 1
    return [name for name in found if name]


def some(option: str, values: list[str] | None, default: Iterable[str]) -> list[str]:
    """What an option lists, or the default without it; a list of nothing is refused."""
    found = listed(values)
    if found is None:
        return list(default)
    if not found:
        raise BadInput(f"{option} takes one name or more, separated by commas, not {values[0]!r}.")  # type: ignore[index]
    return found


def check_size(size: int | None, images: str | None) -> None:
    """Refuse a --size that no picture can have, or for a task, which says its own size."""
    if size is not None and size < 1:
        raise BadInput(f"--size must be at least 1, not {size}.")
    if size is not None and images is None:
        raise BadInput(
            f"--size scales pictures given as IMAGES; a task has an option: folder(root=…, size={size})."
        )


def duration(seconds: float | None) -> str:
    """Seconds as people say them.

    >>> duration(8), duration(75), duration(7300), duration(None)
    ('8 s', '1 min 15 s', '2 h 01 min', 'unknown')
    """
    if seconds is None or math.isnan(seconds):
        return "unknown"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
