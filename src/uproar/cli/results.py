"""Results on a terminal: tables, the recommendation, what went wrong. All columns and digits are in the CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from uproar.cli.screen import (
    add_to_json,
    command,
    errors,
    json_wanted,
    output,
    print_file,
    print_next,
    print_table,
    styled,
)
from uproar.statistics.design import LEAST_REPLICATES
from uproar.wording import counted

if TYPE_CHECKING:
    from rich.text import Text

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
        output.say(f"{task} with {model}: " * (len(results.quality) > 1), quality.sentence)
    print_verdicts(results)
    for (task, model), scores in results.metric_scores.items():
        print_metric_tables(scores, f" on {task} with {model}")
    print_findings(results.findings)
    print_claims(results.claims)
    for (task, model, metric), group in results.spent.groupby(["task", "model", "metric"], sort=False):
        undecided = [f"{row.estimator} ({row.replicates})" for row in group[group["open"]].itertuples()]
        rest = f"; still open: {', '.join(undecided)}" if undecided else ""
        output.say(f"{metric} on {task} with {model}: {(~group['open']).sum()} verdicts settled{rest}.")


def print_verdicts(results: Run) -> None:
    """A table per task, model and metric that retrains: every method against random rankings."""
    from uproar.metrics.retraining import RETRAININGS

    verdicts = results.verdicts
    if verdicts.empty:
        if results.cells["metric"].isin(RETRAININGS).any():
            output.say("No verdict yet: too few cells are finished.")
        return
    doubts = {tuple(row[:4]): str(row[4]) for row in results.trust.itertuples(index=False)}
    for (task, model, metric), group in verdicts.groupby(["task", "model", "metric"], sort=False):
        declared = RETRAININGS[metric]
        if declared.variant and not declared.retrains:
            continue
        unreliable = UNRELIABLE * bool((group["control"] == "failed").any())
        points = results.score_names.get(task, "accuracy")
        rows = []
        for row in group.itertuples():
            doubt = doubts.get((task, model, metric, row.estimator), "holds")
            verdict = styled((row.verdict, SIDES[row.side]))
            if doubt not in ("None", "holds"):
                verdict.append(f" ({doubt})", "red")
            interval = interval_text(100 * row.low, 100 * row.high, "{:+.1f}")
            advantage = number_text(100 * row.advantage, "{:+.1f}")
            rows.append((row.estimator, advantage, interval, p_text(row.p_holm), verdict))
        print_table(
            f"{metric.upper()} on {task} with {model}: area against random, in {points} points{unreliable}",
            ("method", ">advantage", ">95 % CI", ">p (Holm)", "verdict"),
            rows,
        )
        output.say(f"{counted(int(group['n'].max()), 'seed')}.", style="dim")


def print_metric_tables(scores: Scores, where: str = "") -> None:
    """A table per metric: every method, best first; values of methods that are not ranked in brackets."""
    from uproar.results.board import card_words
    from uproar.results.scores import metric_labels

    labels = metric_labels(scores.table["metric"])
    failed = {metric for metric, control in scores.negative_controls.items() if control.state == "failed"}
    for metric, group in scores.table.groupby("metric", sort=False):
        higher, label = bool(group["higher_is_better"].iloc[0]), labels[str(metric)]
        known = card_words(str(metric))
        trust = UNRELIABLE if metric in failed else f"; τ {known}" * bool(known)
        undefined, several = bool(group["nan"].any()), group["note"].nunique() > 1
        rows = []
        for row in group.sort_values(["ranked", "value"], ascending=[False, not higher]).itertuples():
            value = number_text(row.value, "{:.3f}")
            cells = [row.method, value if row.ranked else f"({value})", interval_text(row.low, row.high, "{:.3f}")]
            cells += [f"{scores.replicates} × {row.n}" if scores.replicates > 1 else str(row.n)]
            rows.append([*cells, *[str(row.nan)] * undefined, *[row.note] * several])
        print_table(
            f"{label}{where} ({'higher' if higher else 'lower'} is better{trust})",
            ("method", ">value", ">95 % CI", ">images", *[">undefined"] * undefined, *["note"] * several),
            rows,
        )
        if not several and group["note"].iloc[0]:
            output.say(f"{label}: {group['note'].iloc[0]}.", style="dim")


def print_findings(findings: Sequence[Finding]) -> None:
    """Each audit's question and what it found."""
    for finding in findings:
        output.say((finding.title, "bold"), f" ({finding.audit}): {finding.question}")
        output.say((f"{finding.state}: ", STATES[finding.state]), finding.sentence, indent="  ")


def print_claims(judgements: Sequence[Judgement]) -> None:
    """The claims of each paper: the number that decides each; then what could not be tested, by reason."""
    from uproar.results.claim_outcome import tally  # tables load slowly

    several = len({(claim.task, claim.model) for claim in judgements}) > 1
    for paper in dict.fromkeys(claim.paper for claim in judgements):
        claims = [claim for claim in judgements if claim.paper == paper]
        rows: list[tuple[str | Text, ...]] = []
        reasons: dict[str, list[str]] = {}
        for claim in claims:
            name = claim.claim.partition(":")[2] + (f" ({claim.task}, {claim.model})" if several else "")
            if claim.deciding is None:
                reasons.setdefault(claim.reason, []).append(name)
                continue
            measure = claim.deciding
            value, low, high = measure.interval.value, measure.interval.low, measure.interval.high
            effect, interval = number_text(value, "{:+.3f}"), interval_text(low, high, "{:+.3f}")
            outcome = styled((claim.outcome, OUTCOMES.get(claim.outcome, "yellow")))
            rows.append((name, effect, interval, measure.claimed, measure.sample, outcome))
        if rows:
            columns = ("claim", ">effect", ">95 % CI", "claimed", ">n", "outcome")
            print_table(f"Claims of {paper}", columns, rows)
        for reason, names in reasons.items():
            output.say(("not tested: ", "dim"), f"{', '.join(names)}: {reason}.")
        output.say(f"{len(claims)} claims of {paper}: {tally([claim.outcome for claim in claims])}.")


def print_answers(answers: Sequence[Answer]) -> None:
    """Every method against the model-free baselines, under the metrics that are reliable here; the recommendation."""
    from uproar.report.formatting import clean  # tables load slowly

    for answer in answers:
        where = f" on {answer.task} with {answer.model}" if len(answers) > 1 else ""
        metrics = [metric for metric in answer.metrics if not metric.unreliable]
        if not metrics or not answer.methods:
            continue
        warned = any(answer.table["warnings"])
        rows = []
        for row in answer.table.itertuples():
            marks = []
            for standing in (metric.standings.get(row.method) for metric in metrics):
                beaten = standing is not None and standing.better
                missed = ("–", "") if standing is None else (f"○ {standing.baseline}", "yellow")
                marks.append(styled(("▲", "green") if beaten else missed))
            rows.append((row.method, row.group, *marks, *[row.warnings] * warned))
        headings = [metric.label for metric in metrics]
        print_table(f"Methods by metric{where}", ("method", "group", *headings, *["warnings"] * warned), rows)
        output.say("▲ beats every model-free baseline significantly; ○ does not beat the one named.", style="dim")
        output.say("Methods that share a letter (group) are not significantly different.", style="dim")
    for answer in answers:
        if len(answers) > 1:
            output.say(clean(f"{answer.task} with {answer.model}:"))
        for line in answer.details:
            output.say(clean(line), style="dim", indent="  ")
        for line in answer.lines:
            output.say(clean(line), style="bold")


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
            errors.say((row.status, "yellow"), f" {row.estimator} ({row.cells} cells): {row.reason}")
    failed, missing = status_count(results, "failed"), status_count(results, "missing")
    if missing or results.lost:
        what = f"{missing} results are not there yet" if missing else f"{results.lost} results are lost"
        errors.say(("missing", "yellow"), f" {what} in {results.store}.")
    print_file("Report", page)
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
