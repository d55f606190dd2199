"""What a shell offers when Tab is pressed: names from the listing in the package, without torch.

uproar --install-completion                 # bash, zsh, fish or PowerShell, once
uproar explain --estimators grad,sg(i<Tab>  # ig, input_x_gradient
"""

from __future__ import annotations

import functools
import json
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

LISTINGS = Path(__file__).with_name("listings.json")
"""What the package itself declares; written by `python -m uproar.cli.listings`, and a test says if it is old."""
SHOWN = 60
"""Letters of what is told of a name: the library that prints it breaks longer lines, which shells take for names."""
Offered = list[tuple[str, str]]
"""Words with what they are, which some shells show beside them."""


@functools.cache
def listed_names(kind: str) -> Offered:
    """Every name of a kind, with what it is."""
    tables = json.loads(LISTINGS.read_text(encoding="utf-8"))[kind]
    return [(row[0], _summary(table["columns"], row)) for table in tables for row in table["rows"]]


def _summary(columns: list[str], row: list[str]) -> str:
    told = dict(zip(columns, row, strict=True))
    text = next((told[name] for name in ("what it is", "what it does", "question", "what it says") if name in told), "")
    first = text.partition(". ")[0].rstrip(".")
    return textwrap.shorten(first, SHOWN, placeholder=" …")


def complete_names(*kinds: str) -> Callable[[str], Offered]:
    """Offers names of some kinds for the last one of a list or of an expression.

    >>> [name for name, _ in complete_names("metrics")("road,dele")][0]
    'road,deletion'
    """

    def complete(incomplete: str) -> Offered:
        before, last = re.fullmatch(r"(.*[,(\s])?(.*)", incomplete, re.DOTALL).groups(default="")  # type: ignore[union-attr]
        known = [pair for kind in kinds for pair in listed_names(kind)]
        return [(before + name, told) for name, told in known if name.startswith(last)]

    return complete


def complete_runs(incomplete: str) -> Offered:
    """Offers the folders of runs below the current one, or below what has been typed."""
    start = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    places = [start] if incomplete else [start, Path("runs")]
    folders = _folders(places)
    return [(name, "") for name in dict.fromkeys(folders) if name.startswith(incomplete)]


def _folders(places: Iterable[Path]) -> list[str]:
    """Folders in some folders that are runs, or that have runs in them."""
    return [
        str(folder)
        for place in places
        for folder in sorted(place.glob("*"))
        if (folder / "run.json").is_file() or next(folder.glob("*/run.json"), None)
    ]
