"""`uproar claims`: what became of the claims of papers in a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from uproar.cli.console import listed, output, table
from uproar.cli.data import DataRoot

if TYPE_CHECKING:
    from uproar.judgement import Judgement, Measure

COLOURS = {
    "holds": "green", "does not hold here": "red", "undecided": "yellow", "not asked": "dim",
}  # fmt: skip


def claims(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, e.g. runs/hooker2019-tiny")],
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--claims", metavar="A,B,…",
            help="Papers or single claims  [default: the study's own, else all]",
        ),
    ] = None,
    data_root: DataRoot = None,
) -> int:  # fmt: skip
    """Test the claims of papers on what a run found: n, effect, interval, outcome. Nothing is run."""
    from uproar.claims import PAPERS, judge
    from uproar.cli.run import gathered, recall
    from uproar.study.progress import left_in

    study, place, facts = recall(folder)
    chosen = listed(names) or study.claims or tuple(PAPERS)
    found = gathered(study, place, left_in(folder), facts)
    print_claims(judge(found, chosen))
    return 0


def print_claims(judgements: Sequence[Judgement]) -> None:
    """The tables of claims, by paper, task and model; then what could not be asked, by reason."""
    several = len({(one.task, one.model) for one in judgements}) > 1
    for paper in dict.fromkeys(one.paper for one in judgements):
        mine = [one for one in judgements if one.paper == paper]
        asked = [one for one in mine if one.deciding is not None]
        for task, model in dict.fromkeys((one.task, one.model) for one in asked):
            where = f" on {task} with {model}" if several else ""
            some = [one for one in asked if (one.task, one.model) == (task, model)]
            output.print(_table(f"Claims of {paper}{where}", some))
        reasons: dict[str, list[str]] = {}
        for one in mine:
            if one.deciding is None:
                reasons.setdefault(one.reason, []).append(_short(one))
        for reason, names in reasons.items():
            output.print(f"[dim]not asked[/] {escape(', '.join(names))}: {escape(reason)}.")
        counts = {outcome: sum(one.outcome == outcome for one in mine) for outcome in COLOURS}
        said = ", ".join(f"{n} {outcome}" for outcome, n in counts.items() if n)
        output.print(f"{len(mine)} claims of {escape(paper)}: {said}.")


def _table(title: str, judgements: Sequence[Judgement]) -> Table:
    shown = table(escape(title), "claim", ">effect, 95 % interval", "claimed", ">n", "outcome")
    for one in judgements:
        m = one.deciding
        assert m is not None, "only what was asked is shown"
        outcome = f"[{COLOURS[one.outcome]}]{one.outcome}[/]"
        shown.add_row(escape(_short(one)), _numbers(m), m.claimed, f"{m.n} {m.of}", outcome)
    return shown


def _short(one: Judgement) -> str:
    return one.claim.partition(":")[2]


def _numbers(measure: Measure) -> str:
    ends = ("–" if end != end else f"{end:+.3f}" for end in (measure.low, measure.high))
    return f"{measure.effect:+.3f}\n{' to '.join(ends)}"
