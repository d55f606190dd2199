"""`uproar results`: the overview of a folder of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from uproar.cli.console import output
from uproar.cli.next_steps import opened, print_next


def results(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of results, e.g. docs/results")],
) -> int:
    """Make the tables of all claims in FOLDER/index.md again, from the pages that `uproar report --markdown` wrote.

    Only what stands between its two marks is replaced. FOLDER/causes.md, written by hand, explains claims that do
    not hold: the tables link to its headings.
    """
    from uproar.report import write_overview  # tables load slowly

    page = write_overview(folder)
    output.print(f"Overview: [bold]{escape(str(page))}[/]", soft_wrap=True)
    print_next(opened(page))
    return 0
