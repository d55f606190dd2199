"""Claims of papers on a terminal: the number that decides each, and why others were not asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from uproar.cli.console import output, table
from uproar.cli.table_cells import print_notes

if TYPE_CHECKING:
    from uproar.results.claim_outcome import Judgement, Measure

COLOURS = {"holds": "green", "does not hold here": "red", "not asked": "dim"}
"""Of outcomes; the others, and those of claims asked in part, are yellow."""


def print_claims(judgements: Sequence[Judgement]) -> None:
    """The tables of claims, by paper, task and model; then what could not be asked, by reason."""
    from uproar.results.claim_outcome import tally  # tables load slowly

    several = len({(one.task, one.model) for one in judgements}) > 1
    for paper in dict.fromkeys(one.paper for one in judgements):
        mine = [one for one in judgements if one.paper == paper]
        tested = [one for one in mine if one.deciding is not None]
        for task, model in dict.fromkeys((one.task, one.model) for one in tested):
            where = f" on {task} with {model}" if several else ""
            some = [one for one in tested if (one.task, one.model) == (task, model)]
            output.print(_claim_table(f"Claims of {paper}{where}", some))
            print_notes((_short(one), one.deciding.interval.note) for one in some if one.deciding)
        reasons: dict[str, list[str]] = {}
        for one in mine:
            if one.deciding is None:
                reasons.setdefault(one.reason, []).append(_short(one))
        for reason, names in reasons.items():
            output.print(f"[dim]not asked:[/] {escape(', '.join(names))}: {escape(reason)}.")
        output.print(f"{len(mine)} claims of {escape(paper)}: {tally([one.outcome for one in mine])}.")


def _claim_table(title: str, judgements: Sequence[Judgement]) -> Table:
    shown = table(escape(title), "claim", ">effect, interval, test", "claimed", ">n", "outcome")
    for one in judgements:
        m = one.deciding
        assert m is not None, "only tested claims are shown"
        outcome = f"[{COLOURS.get(one.outcome, 'yellow')}]{one.outcome}[/]"
        shown.add_row(escape(_short(one)), _effect(m), m.claimed, m.sample, outcome)
    return shown


def _short(one: Judgement) -> str:
    return one.claim.partition(":")[2]


def _effect(measure: Measure) -> str:
    """A claim's number, its interval, and the test against the claimed range."""
    from uproar.report.claims import claim_test  # reports load slowly
    from uproar.report.formatting import level_text

    interval = measure.interval
    ends = f"{interval.low:+.3f} to {interval.high:+.3f}{level_text(interval.level, ' at ')}"
    lines = (f"{interval.value:+.3f}", "no interval" if interval.low != interval.low else ends, claim_test(measure))
    return "\n".join(line for line in lines if line)
