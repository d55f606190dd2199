"""Results on a terminal: what a run found, and where the report is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding

from uproar.cli.console import errors, output
from uproar.cli.json_output import add_to_json, json_wanted
from uproar.cli.next_steps import after_run, print_next
from uproar.cli.print_answers import print_answers, print_headline
from uproar.cli.print_tables import print_claims, print_metric_tables, print_verdicts

if TYPE_CHECKING:
    from uproar.results.answer import Answer
    from uproar.results.finding import Finding
    from uproar.results.scores import Scores
    from uproar.study.collected import Run

STATES = {"misleads": "red", "holds": "green", "cannot tell": "yellow", "skipped": "dim"}


def print_results(results: Run) -> None:
    """The results of a run as tables and sentences."""
    for (task, model), quality in results.quality.items():
        where = f"{task} with {model}: " if len(results.quality) > 1 else ""
        output.print(escape(f"{where}{quality.sentence}"), soft_wrap=True)
    print_verdicts(results)
    for (task, model), scores in results.metric_scores.items():
        print_metric_tables(scores, f" on {task} with {model}")
    print_findings(results.findings)
    print_claims(results.claims)
    _print_spent(results)


def _print_spent(results: Run) -> None:
    """Which verdicts are still open in a study that ran until it was decided, and what was spent on them."""
    spent = results.spent
    for (task, model, protocol), group in spent.groupby(["task", "model", "protocol"], sort=False):
        still = [f"{row.estimator} ({row.replicates})" for row in group[group["open"]].itertuples()]
        decided = int((~group["open"]).sum())
        rest = f"; still open: {', '.join(still)}" if still else ""
        output.print(escape(f"{protocol} on {task} with {model}: {decided} verdicts settled{rest}."))


def print_findings(findings: Sequence[Finding]) -> None:
    """Each audit's question and its answer in a sentence."""
    for finding in findings:
        colour = STATES[finding.state]
        output.print(f"[bold]{escape(finding.title)}[/] ({escape(finding.audit)}): {escape(finding.question)}")
        output.print(Padding(f"[{colour}]{finding.state}:[/] {escape(finding.sentence)}", (0, 0, 0, 2)))


def finish(results: Run, page: Path, folder: Path) -> int:
    """Print the headline, what went wrong, where the report is and what may come next; the exit code."""
    _add_run_to_json(results, page)
    print_answers(results.answers)
    for answer in results.answers:
        print_headline(answer, len(results.answers) > 1)
    failed = int((results.table["status"] == "failed").sum() + (results.scores["status"] == "failed").sum())
    for row in results.problems.itertuples():
        if row.status != "missing":
            errors.print(
                f"[yellow]{row.status}[/] {escape(row.estimator)} ({row.cells} cells): {escape(row.reason)}",
                soft_wrap=True,
            )
    missing = int((results.table["status"] == "missing").sum() + (results.scores["status"] == "missing").sum())
    if missing:
        errors.print(f"[yellow]missing[/] {missing} cells have no result in {escape(results.place)}.", soft_wrap=True)
    elif results.lost:
        errors.print(f"[yellow]missing[/] {results.lost} results of {escape(results.place)} are lost.", soft_wrap=True)
    output.print(f"Report: [bold]{escape(str(page))}[/]", soft_wrap=True)
    print_next(*after_run(results, page, folder))
    return 1 if failed or missing or results.lost else 0


def _add_run_to_json(results: Run, page: Path) -> None:
    """The tables of a run as its CSV files have them, the answers, what is missing or failed, and the report."""
    if not json_wanted():
        return
    from uproar.report.tables import study_tables

    add_to_json(
        report=page,
        answers=[_answer(answer) for answer in results.answers],
        **study_tables(results),
        problems=results.problems,
    )


def add_scores_to_json(scores: Scores, page: Path) -> None:
    """The tables of scores as their CSV files have them, the answer, and the report."""
    if not json_wanted():
        return
    add_to_json(report=page, answers=[_answer(scores.answer)], scores=scores.table, comparisons=scores.comparisons)


def _answer(answer: Answer) -> dict[str, object]:
    """Which methods to use, in a sentence, by name and as a table of all methods."""
    about = {name: getattr(answer, name) for name in ("task", "model", "recommended", "sentence", "details")}
    return {**about, "methods": answer.table}
