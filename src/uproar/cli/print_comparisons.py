"""Method against method on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape
from rich.table import Table

from uproar.cli.console import output, table
from uproar.cli.options import HOW, option
from uproar.cli.table_cells import number_text, print_notes, test_cells
from uproar.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

Compare = Annotated[
    str | None, option(panel=HOW, takes="METHOD", text="Print this method against each other, e.g. mine")
]


def print_comparisons(frame: pd.DataFrame, protocols: Mapping[str, float], compare: str | None = None) -> None:
    """Method against method: a sentence per protocol and metric, or a table of one method against each other.

    `protocols` are the error rates by protocol; what is not among them is a metric.
    """
    from uproar.statistics.comparisons import comparisons_with, pairs_sentence
    from uproar.statistics.design import ALPHA

    places = [name for name in ("task", "model") if name in frame]
    several = bool(places) and len(frame[places].drop_duplicates()) > 1
    for names, group in frame.groupby([*places, "measure"], sort=False):
        measure = str(names[-1])
        of = "replicates" if measure in protocols else "images"
        name = measure.upper() if measure in protocols else measure
        where = f" on {names[0]} with {names[1]}" if several else ""
        if compare is None:
            output.print(escape(f"{name}{where}: {pairs_sentence(group, of)}."), soft_wrap=True)
        elif compare in {*group["better"], *group["worse"]}:
            own = comparisons_with(group, compare, of, protocols.get(measure, ALPHA))
            output.print(_against(f"{name}{where}", own, compare, of))
            print_notes((row.worse if row.better == compare else row.better, row.note) for row in own.itertuples())


def check_compared(name: str, known: Iterable[str]) -> None:
    """Refuse to compare with a method that is not there."""
    there = list(dict.fromkeys(known))
    if name not in there:
        raise BadInput(f"--compare {name}: there is no such method; there are {', '.join(there) or 'none'}.")


def _against(measure: str, own: pd.DataFrame, name: str, of: str) -> Table:
    """One method against each other, corrected over these pairs alone."""
    scale, form = (100, "{:+.1f}") if of == "replicates" else (1, "{:+.3f}")
    lead = ">lead, points" if of == "replicates" else ">lead"
    shown = table(
        f"{escape(measure)}: how far {escape(name)} leads, paired over {of} (Holm over {len(own)} pairs)",
        "against",
        lead,
        ">95 % interval",
        ">df",
        ">p",
        ">p (Holm)",
        ">n",
        "verdict",
    )
    for row in own.itertuples():
        ahead = row.better == name
        towards = scale * (1 if ahead == (row.difference >= 0) else -1)
        low, high = sorted((towards * row.low, towards * row.high))
        decided = row.side == 1
        words = "better" if ahead else "worse"
        shown.add_row(
            escape(row.worse if ahead else row.better),
            number_text(towards * row.difference, form),
            f"{number_text(low, form)}…{number_text(high, form)}",
            *test_cells(row.df, row.p, row.p_holm),
            str(row.n) if row.replicates in (1, row.n) else f"{row.replicates} × {row.n}",
            f"[{'green' if ahead else 'red'}]{words}[/]" if decided else "[yellow]cannot tell[/]",
        )
    return shown
