"""Results on a terminal: tables, the recommendation, what went wrong. All columns and digits are in the CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.padding import Padding

from uproar.cli.screen import add_to_json, command, errors, json_wanted, output, print_next, table
from uproar.statistics.design import LEAST_REPLICATES
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.results.answer import Answer
    from uproar.results.claim_outcome import Judgement
    from uproar.results.finding import Finding
    from uproar.results.scores import Scores
    from uproar.study.collected import Run

UNRELIABLE = "; not reliable here: the negative control failed"
"""Behind the name of a metric that finds no difference between any method and random rankings."""
SIDES = {1: "green", -1: "red", 0: "yellow"}
"""Colours of verdicts: better, worse, not significantly different."""
STATES = {"misleads": "red", "holds": "green", "cannot tell": "yellow", "skipped": "dim"}
"""Colours of what audits found."""
OUTCOMES = {"holds": "green", "does not hold here": "red", "not tested": "dim"}
"""Colours of what became of claims; the others are yellow."""


def number_text(value: float, form: str) -> str:
    """A number in a form, or a dash where there is none."""
    return "–" if value != value else form.format(value)


def interval_text(low: float, high: float, form: str) -> str:
    """An interval on a line."""
    return f"{number_text(low, form)}…{number_text(high, form)}"


def p_text(p: float) -> str:
    """A p value."""
    return "<0.001" if p < 0.001 else number_text(p, "{:.3f}")


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
    for (task, model, metric), group in results.spent.groupby(["task", "model", "protocol"], sort=False):
        undecided = [f"{row.estimator} ({row.replicates})" for row in group[group["open"]].itertuples()]
        rest = f"; still open: {', '.join(undecided)}" if undecided else ""
        output.print(escape(f"{metric} on {task} with {model}: {(~group['open']).sum()} verdicts settled{rest}."))


def print_verdicts(results: Run) -> None:
    """A table per task, model and metric that retrains: every method against random rankings."""
    verdicts = results.verdicts
    if verdicts.empty:
        if results.cells["protocol"].isin(results.protocols).any():
            output.print("No verdict yet: too few cells are finished.")
        return
    doubts = {tuple(row[:4]): str(row[4]) for row in results.trust.itertuples(index=False)}
    for (task, model, metric), group in verdicts.groupby(["task", "model", "protocol"], sort=False):
        protocol = results.protocols[metric]
        if protocol.variant and not protocol.retrains:
            continue
        unreliable = UNRELIABLE * bool((group["control"] == "failed").any())
        points = results.score_names.get(task, "accuracy")
        title = f"{metric.upper()} on {task} with {model}: area against random, in {points} points{unreliable}"
        shown = table(escape(title), "method", ">advantage", ">95 % CI", ">p (Holm)", "verdict")
        for row in group.itertuples():
            doubt = doubts.get((task, model, metric, row.estimator), "holds")
            verdict = f"[{SIDES[row.side]}]{row.verdict}[/]"
            verdict += "" if doubt in ("None", "holds") else f" [red]({escape(doubt)})[/]"
            advantage = number_text(100 * row.advantage, "{:+.1f}")
            interval = interval_text(100 * row.low, 100 * row.high, "{:+.1f}")
            shown.add_row(escape(row.estimator), advantage, interval, p_text(row.p_holm), verdict)
        output.print(shown)
        output.print(f"{counted(int(group['n'].max()), 'seed')}.", style="dim", highlight=False)


def print_metric_tables(scores: Scores, where: str = "") -> None:
    """A table per metric: every method, best first; values of methods that are not ranked in brackets."""
    from uproar.results.board import card_words
    from uproar.results.scores import metric_labels

    labels = metric_labels(scores.table["metric"])
    failed = {metric for metric, control in scores.negative_controls.items() if control.state == "failed"}
    for metric, group in scores.table.groupby("metric", sort=False):
        higher = bool(group["higher_is_better"].iloc[0])
        known = card_words(str(metric))
        trust = UNRELIABLE if metric in failed else f"; τ {known}" * bool(known)
        shared = group["note"].iloc[0] if group["note"].nunique() == 1 else None
        columns = ("method", ">value", ">95 % CI", ">images", ">undefined", *(("note",) if shared is None else ()))
        label = labels[str(metric)]
        shown = table(f"{label}{where} ({'higher' if higher else 'lower'} is better{trust})", *columns)
        for row in group.sort_values(["ranked", "value"], ascending=[False, not higher]).itertuples():
            value = number_text(row.value, "{:.3f}")
            shown.add_row(
                escape(row.method),
                value if row.ranked else f"({value})",
                interval_text(row.low, row.high, "{:.3f}"),
                f"{scores.replicates} × {row.n}" if scores.replicates > 1 else str(row.n),
                undefined_share(row.n, row.nan),
                *((escape(row.note),) if shared is None else ()),
            )
        output.print(shown)
        if shared:
            output.print(escape(f"{label}: {shared}."), style="dim", soft_wrap=True, highlight=False)


def undefined_share(images: int, undefined: int) -> str:
    """How many values are undefined, with their share where there are any.

    >>> undefined_share(718, 319), undefined_share(718, 1), undefined_share(718, 0)
    ('319 (44 %)', '1 (<1 %)', '0')
    """
    if not undefined:
        return "0"
    share = 100 * undefined / images
    return f"{undefined} ({'<1' if share < 0.5 else f'{share:.0f}'} %)"


def print_findings(findings: Sequence[Finding]) -> None:
    """Each audit's question and what it found."""
    for finding in findings:
        output.print(f"[bold]{escape(finding.title)}[/] ({escape(finding.audit)}): {escape(finding.question)}")
        state = f"[{STATES[finding.state]}]{finding.state}:[/]"
        output.print(Padding(f"{state} {escape(finding.sentence)}", (0, 0, 0, 2)))


def print_claims(judgements: Sequence[Judgement]) -> None:
    """The claims of each paper: the number that decides each; then what could not be tested, by reason."""
    from uproar.results.claim_outcome import tally  # tables load slowly

    several = len({(claim.task, claim.model) for claim in judgements}) > 1
    for paper in dict.fromkeys(claim.paper for claim in judgements):
        claims = [claim for claim in judgements if claim.paper == paper]
        shown = table(f"Claims of {escape(paper)}", "claim", ">effect", ">95 % CI", "claimed", ">n", "outcome")
        reasons: dict[str, list[str]] = {}
        for claim in claims:
            name = claim.claim.partition(":")[2] + (f" ({claim.task}, {claim.model})" if several else "")
            if claim.deciding is None:
                reasons.setdefault(claim.reason, []).append(name)
                continue
            measure: Any = claim.deciding
            effect = number_text(measure.interval.value, "{:+.3f}")
            interval = interval_text(measure.interval.low, measure.interval.high, "{:+.3f}")
            outcome = f"[{OUTCOMES.get(claim.outcome, 'yellow')}]{claim.outcome}[/]"
            shown.add_row(escape(name), effect, interval, measure.claimed, measure.sample, outcome)
        if shown.row_count:
            output.print(shown)
        for reason, names in reasons.items():
            output.print(f"[dim]not tested:[/] {escape(', '.join(names))}: {escape(reason)}.")
        output.print(f"{len(claims)} claims of {escape(paper)}: {tally([claim.outcome for claim in claims])}.")


def print_answers(answers: Sequence[Answer]) -> None:
    """Every method against the model-free baselines, under the metrics that are reliable here; the recommendation."""
    from uproar.report.formatting import clean  # tables load slowly

    for answer in answers:
        where = f" on {answer.task} with {answer.model}" if len(answers) > 1 else ""
        metrics = [metric for metric in answer.metrics if not metric.unreliable]
        if not metrics or not answer.methods:
            continue
        warned = any(answer.table["warnings"])
        headings = [escape(metric.label) for metric in metrics]
        shown = table(f"Methods by metric{escape(where)}", "method", "group", *headings, *["warnings"] * warned)
        for row in answer.table.itertuples():
            marks = []
            for standing in (metric.standings.get(row.method) for metric in metrics):
                beaten = standing is not None and standing.better
                missed = "–" if standing is None else f"[yellow]○ {escape(standing.baseline)}[/]"
                marks.append("[green]▲[/]" if beaten else missed)
            shown.add_row(escape(row.method), row.group, *marks, *[row.warnings] * warned)
        output.print(shown)
        output.print("▲ beats every model-free baseline significantly; ○ does not beat the one named.", style="dim")
        output.print("Methods that share a letter (group) are not significantly different.", style="dim")
    for answer in answers:
        if len(answers) > 1:
            output.print(escape(clean(f"{answer.task} with {answer.model}:")), soft_wrap=True, highlight=False)
        for line in answer.details:
            output.print(Padding(f"[dim]{escape(clean(line))}[/]", (0, 0, 0, 2)), highlight=False)
        for line in answer.lines:
            output.print(f"[bold]{escape(clean(line))}[/]", soft_wrap=True, highlight=False)


def answer_to_json(answer: Answer) -> dict[str, object]:
    """Which methods to use, in a sentence, by name and as a table of all methods."""
    about = {name: getattr(answer, name) for name in ("task", "model", "recommended", "sentence", "details")}
    return {**about, "methods": answer.table}


def add_scores_to_json(scores: Scores, page: Path) -> None:
    """The tables of scores as their CSV files have them, the recommendation, and the report."""
    if json_wanted():
        answers = [answer_to_json(scores.answer)]
        add_to_json(report=page, answers=answers, scores=scores.table, comparisons=scores.comparisons)


def finish(results: Run, page: Path, folder: Path) -> int:
    """Print the recommendation, what went wrong, where the report is and what may come next; the exit code."""
    if json_wanted():
        from uproar.report.tables import study_tables

        answers = [answer_to_json(answer) for answer in results.answers]
        add_to_json(report=page, answers=answers, **study_tables(results), problems=results.problems)
    print_answers(results.answers)
    for row in results.problems.itertuples():
        if row.status != "missing":
            problem = f"[yellow]{row.status}[/] {escape(row.estimator)} ({row.cells} cells): {escape(row.reason)}"
            errors.print(problem, soft_wrap=True)
    failed, missing = status_count(results, "failed"), status_count(results, "missing")
    if missing:
        errors.print(f"[yellow]missing[/] {missing} cells have no result in {escape(results.place)}.", soft_wrap=True)
    elif results.lost:
        errors.print(f"[yellow]missing[/] {results.lost} results of {escape(results.place)} are lost.", soft_wrap=True)
    output.print(f"Report: [bold]{escape(str(page))}[/]", soft_wrap=True)
    steps = [f"open {page}"]
    retrained = len(results.cells) > 0
    if "missing" in set(results.problems["status"]):
        steps.append(f"{command('run', folder)} resumes what is missing")
    elif retrained and results.cells["seed"].nunique() < LEAST_REPLICATES:
        steps.append(f"the same command with --seeds {LEAST_REPLICATES} adds seeds, for verdicts")
    elif retrained and not results.findings:
        steps.append(f"{command('audit', folder)} checks whether these scores mislead")
    print_next(*steps)
    return 1 if failed or missing or results.lost else 0


def status_count(results: Run, status: str) -> int:
    """How many cells of a run, retrained or not, ended so."""
    return int((results.cells["status"] == status).sum() + (results.scores["status"] == status).sum())
