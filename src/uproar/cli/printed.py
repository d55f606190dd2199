"""Results on a terminal: verdicts, metrics, findings, claims, and where the report is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from uproar.cli.console import errors, output, table
from uproar.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

    from uproar.finding import Finding
    from uproar.judgement import Judgement, Measure
    from uproar.runs import Run

STATES = {"misleads": "red", "holds": "green", "cannot tell": "yellow", "skipped": "dim"}


OUTCOMES = {
    "holds": "green", "does not hold here": "red", "undecided": "yellow", "not asked": "dim",
}  # fmt: skip


def print_results(results: Run, compare: str | None = None) -> None:
    """Everything a run found, as tables and sentences; `compare` asks for one estimator against each other."""
    for (task, model), quality in results.quality.items():
        where = f"{task} with {model}: " if len(results.quality) > 1 else ""
        output.print(escape(f"{where}{quality.sentence}"), soft_wrap=True)
    _print_verdicts(results)
    _print_scores(results)
    print_comparisons(results.comparisons, results.higher_is_better, compare)
    print_findings(results.findings)
    print_claims(results.claims)
    _print_spent(results)


def _print_verdicts(results: Run) -> None:
    verdicts = results.verdicts
    if verdicts.empty:
        if len(results.table):
            output.print("No verdict yet: too few cells are finished.")
        return
    doubts = {tuple(row[:4]): row[4] for row in results.trust.itertuples(index=False)}
    for (task, model, protocol), group in verdicts.groupby(
        ["task", "model", "protocol"], sort=False
    ):
        if protocol.endswith(":no-retrain"):
            continue
        shown_table = table(
            f"{protocol.upper()} on {task} with {model}: area against random, in accuracy points",
            "estimator", ">advantage", ">95 % interval", ">p (Holm)", "verdict",
        )  # fmt: skip
        for row in group.itertuples():
            colour = {"b": "green", "w": "red"}.get(row.verdict[0], "yellow")
            low, high = (_number(100 * end, "{:+.1f}") for end in (row.low, row.high))
            p = "<0.001" if row.p_holm < 0.001 else _number(row.p_holm, "{:.3f}")
            shown_table.add_row(
                escape(row.estimator), _number(100 * row.advantage, "{:+.1f}"), f"{low}…{high}", p,
                f"[{colour}]{row.verdict}[/]" + _doubt(doubts.get((task, model, protocol, row.estimator))),
            )  # fmt: skip
        output.print(shown_table)


def _print_spent(results: Run) -> None:
    """Which verdicts are still open in a study that ran until it was decided, and what was spent on them."""
    spent = results.spent
    for (task, model, protocol), group in spent.groupby(["task", "model", "protocol"], sort=False):
        still = [f"{row.estimator} ({row.replicates})" for row in group[group["open"]].itertuples()]
        decided = int((~group["open"]).sum())
        rest = f"; still open: {', '.join(still)}" if still else ""
        output.print(
            escape(f"{protocol} on {task} with {model}: {decided} verdicts settled{rest}.")
        )


def _doubt(trust: str | None) -> str:
    """What the audits say against a verdict, beside it."""
    return "" if trust in (None, "holds") else f" [red]({escape(str(trust))})[/]"


def _print_scores(results: Run) -> None:
    done = results.scores[results.scores["status"] == "done"]
    for (task, model, metric), group in done.groupby(["task", "model", "metric"], sort=False):
        higher = bool(group["higher_is_better"].iloc[0])
        better = "higher is better" if higher else "lower is better"
        shown_table = table(
            f"{metric} on {task} with {model} ({better})", "estimator", ">mean", ">replicates"
        )
        means = group.groupby("estimator")["value"].agg(["mean", "size"])
        for row in means.sort_values("mean", ascending=not higher).itertuples():
            shown_table.add_row(escape(str(row.Index)), _number(row[1], "{:.3f}"), str(row[2]))
        output.print(shown_table)


def print_comparisons(
    frame: pd.DataFrame, protocols: Mapping[str, bool], compare: str | None = None
) -> None:
    """Method against method: a sentence per protocol and metric, or a table of one method against each other."""
    from uproar.metrics.comparisons import pairs_sentence

    if compare is not None:
        _check_known(frame, compare)
    for (task, model, measure), group in frame.groupby(["task", "model", "measure"], sort=False):
        if measure.endswith(":no-retrain"):
            continue
        of = "replicates" if measure in protocols else "images"
        name = measure.upper() if measure in protocols else measure
        where = f" on {task} with {model}" if frame["task"].nunique() * frame["model"].nunique() > 1 else ""  # fmt: skip
        if compare is None:
            output.print(escape(f"{name}{where}: {pairs_sentence(group, of)}."), soft_wrap=True)
        elif compare in {*group["better"], *group["worse"]}:
            output.print(_against(f"{name}{where}", group, compare, of))


def _check_known(frame: pd.DataFrame, name: str) -> None:
    known = dict.fromkeys([*frame["better"], *frame["worse"]])
    if name not in known:
        raise BadInput(
            f"--compare {name}: there is no such method to compare; there are {', '.join(known) or 'no pairs'}."
        )


def _against(measure: str, group: pd.DataFrame, name: str, of: str) -> Table:
    """One method against each other, corrected over these pairs alone."""
    from uproar.metrics.comparisons import comparisons_with

    own = comparisons_with(group, name, of)
    shown = table(
        f"{escape(measure)}: {escape(name)} against each other (Holm over these {len(own)})",
        "against", ">difference", ">95 % interval", ">p (Holm)", ">n", "verdict",
    )  # fmt: skip
    for row in own.itertuples():
        sign = 1 if row.better == name else -1
        low, high = sorted((sign * row.low, sign * row.high))
        p = "<0.001" if row.p_holm < 0.001 else _number(row.p_holm, "{:.3f}")
        colour = "yellow" if not row.verdict.endswith(" better") else "green" if sign > 0 else "red"
        shown.add_row(
            escape(row.worse if sign > 0 else row.better), _number(sign * row.difference, "{:+.3f}"),
            f"{_number(low, '{:+.3f}')}…{_number(high, '{:+.3f}')}", p, str(row.n), f"[{colour}]{escape(row.verdict)}[/]",
        )  # fmt: skip
    return shown


def _number(value: float, form: str) -> str:
    return "–" if value != value else form.format(value)


def print_findings(findings: Sequence[Finding]) -> None:
    """Each audit's question and its answer in a sentence."""
    for found in findings:
        colour = STATES[found.state]
        output.print(
            f"[bold]{escape(found.title)}[/] ({escape(found.audit)}): {escape(found.question)}"
        )
        output.print(Padding(f"[{colour}]{found.state}[/] {escape(found.sentence)}", (0, 0, 0, 2)))


def print_claims(judgements: Sequence[Judgement]) -> None:
    """The tables of claims, by paper, task and model; then what could not be asked, by reason."""
    several = len({(one.task, one.model) for one in judgements}) > 1
    for paper in dict.fromkeys(one.paper for one in judgements):
        mine = [one for one in judgements if one.paper == paper]
        asked = [one for one in mine if one.deciding is not None]
        for task, model in dict.fromkeys((one.task, one.model) for one in asked):
            where = f" on {task} with {model}" if several else ""
            some = [one for one in asked if (one.task, one.model) == (task, model)]
            output.print(_claim_table(f"Claims of {paper}{where}", some))
        reasons: dict[str, list[str]] = {}
        for one in mine:
            if one.deciding is None:
                reasons.setdefault(one.reason, []).append(_short(one))
        for reason, names in reasons.items():
            output.print(f"[dim]not asked[/] {escape(', '.join(names))}: {escape(reason)}.")
        counts = {outcome: sum(one.outcome == outcome for one in mine) for outcome in OUTCOMES}
        said = ", ".join(f"{n} {outcome}" for outcome, n in counts.items() if n)
        output.print(f"{len(mine)} claims of {escape(paper)}: {said}.")


def _claim_table(title: str, judgements: Sequence[Judgement]) -> Table:
    shown = table(escape(title), "claim", ">effect, 95 % interval", "claimed", ">n", "outcome")
    for one in judgements:
        m = one.deciding
        assert m is not None, "only what was asked is shown"
        outcome = f"[{OUTCOMES[one.outcome]}]{one.outcome}[/]"
        shown.add_row(escape(_short(one)), _effect(m), m.claimed, f"{m.n} {m.of}", outcome)
    return shown


def _short(one: Judgement) -> str:
    return one.claim.partition(":")[2]


def _effect(measure: Measure) -> str:
    ends = ("–" if end != end else f"{end:+.3f}" for end in (measure.low, measure.high))
    return f"{measure.effect:+.3f}\n{' to '.join(ends)}"


def finish(results: Run, page: Path) -> int:
    """Say what went wrong and where the report is; the exit code."""
    failed = int(
        (results.table["status"] == "failed").sum() + (results.scores["status"] == "failed").sum()
    )
    for row in results.problems.itertuples():
        if row.status != "missing":
            errors.print(
                f"[yellow]{row.status}[/] {escape(row.estimator)} ({row.cells} cells): "
                f"{escape(row.reason)}", soft_wrap=True,
            )  # fmt: skip
    output.print(f"Report: [bold]{escape(str(page))}[/]", soft_wrap=True)
    return 1 if failed else 0
