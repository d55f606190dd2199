"""Tables of results on a terminal: verdicts, metrics, claims. All columns and digits are in the CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from uproar.cli.console import output, table
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.results.claim_outcome import Judgement
    from uproar.results.scores import Scores
    from uproar.study.collected import Run

UNRELIABLE = "; not reliable here: the negative control failed"
"""Behind the name of a metric that finds no difference between any method and random rankings."""
COLOURS = {1: "green", -1: "red", 0: "yellow"}
"""Of the side of a verdict."""
CLAIMED = {"holds": "green", "does not hold here": "red", "not tested": "dim"}
"""Of outcomes of claims; the others are yellow."""


def number_text(value: float, form: str) -> str:
    """A number in a form, or a dash where there is none."""
    return "–" if value != value else form.format(value)


def p_text(p: float) -> str:
    """A p value."""
    return "<0.001" if p < 0.001 else number_text(p, "{:.3f}")


def print_verdicts(results: Run) -> None:
    """A table per task, model and metric that retrains: every method against random rankings."""
    verdicts = results.verdicts
    if verdicts.empty:
        if any(not results.protocols[name].evaluator for name in results.table["protocol"].unique()):
            output.print("No verdict yet: too few cells are finished.")
        return
    doubts = {tuple(row[:4]): str(row[4]) for row in results.trust.itertuples(index=False)}
    for (task, model, protocol), group in verdicts.groupby(["task", "model", "protocol"], sort=False):
        asked = results.protocols[protocol]
        if asked.evaluator or (asked.variant and not asked.retrains):
            continue
        unreliable = UNRELIABLE * bool((group["control"] == "failed").any())
        score = results.score_names.get(task, "accuracy")
        title = f"{protocol.upper()} on {task} with {model}: area against random, in {score} points{unreliable}"
        shown = table(escape(title), "method", ">advantage", ">95 % CI", ">p (Holm)", "verdict")
        for row in group.itertuples():
            doubt = doubts.get((task, model, protocol, row.estimator), "holds")
            verdict = f"[{COLOURS[row.side]}]{row.verdict}[/]"
            verdict += "" if doubt in ("None", "holds") else f" [red]({escape(doubt)})[/]"
            values = [100 * value for value in (row.advantage, row.low, row.high)]
            shown.add_row(escape(row.estimator), *_estimate(values, "{:+.1f}"), p_text(row.p_holm), verdict)
        output.print(shown)
        output.print(f"{counted(int(group['n'].max()), 'replicate')}.", style="dim", highlight=False)


def _estimate(values: Sequence[float], form: str) -> tuple[str, str]:
    """A value and its interval."""
    value, low, high = (number_text(each, form) for each in values)
    return value, f"{low}…{high}"


def print_metric_tables(scores: Scores, where: str = "") -> None:
    """A table per metric: every method, best first; values of methods that are not ranked in brackets."""
    from uproar.results.recovery import recovery_words

    failed = {metric for metric, control in scores.negative_controls.items() if control.failed}
    for metric, group in scores.table.groupby("metric", sort=False):
        higher = bool(group["higher_is_better"].iloc[0])
        better = "higher is better" if higher else "lower is better"
        known = recovery_words(str(metric), interval=False)
        trust = UNRELIABLE if metric in failed else f"; recovery {known}" * bool(known)
        shared = group["note"].iloc[0] if group["note"].nunique() == 1 else ""
        columns = ("method", ">value", ">95 % CI", ">images", ">undefined", *(() if shared else ("note",)))
        shown = table(f"{metric}{where} ({better}{trust})", *columns)
        for row in group.sort_values(["ranked", "value"], ascending=[False, not higher]).itertuples():
            value, interval = _estimate((row.value, row.low, row.high), "{:.3f}")
            shown.add_row(
                escape(row.method),
                value if row.ranked else f"({value})",
                interval,
                f"{scores.replicates} × {row.n}" if scores.replicates > 1 else str(row.n),
                undefined_share(row.n, row.nan),
                *(() if shared else (escape(row.note),)),
            )
        output.print(shown)
        if shared:
            output.print(escape(f"{metric}: {shared}."), style="dim", soft_wrap=True, highlight=False)


def undefined_share(images: int, undefined: int) -> str:
    """How many values are undefined, with their share where there are any.

    >>> undefined_share(718, 319), undefined_share(718, 1), undefined_share(718, 0)
    ('319 (44 %)', '1 (<1 %)', '0')
    """
    if not undefined:
        return "0"
    share = 100 * undefined / images
    return f"{undefined} ({'<1' if share < 0.5 else f'{share:.0f}'} %)"


def print_claims(judgements: Sequence[Judgement]) -> None:
    """The claims of each paper: the number that decides each; then what could not be tested, by reason."""
    from uproar.results.claim_outcome import tally  # tables load slowly

    several = len({(one.task, one.model) for one in judgements}) > 1
    for paper in dict.fromkeys(one.paper for one in judgements):
        mine = [one for one in judgements if one.paper == paper]
        columns = ("claim", ">effect", ">95 % CI", "claimed", ">n", "outcome")
        shown = table(f"Claims of {escape(paper)}", *columns)
        reasons: dict[str, list[str]] = {}
        for one in mine:
            name = one.claim.partition(":")[2] + (f" ({one.task}, {one.model})" if several else "")
            if one.deciding is None:
                reasons.setdefault(one.reason, []).append(name)
                continue
            measure: Any = one.deciding
            effect = _estimate((measure.interval.value, measure.interval.low, measure.interval.high), "{:+.3f}")
            outcome = f"[{CLAIMED.get(one.outcome, 'yellow')}]{one.outcome}[/]"
            shown.add_row(escape(name), *effect, measure.claimed, measure.sample, outcome)
        if shown.row_count:
            output.print(shown)
        for reason, names in reasons.items():
            output.print(f"[dim]not tested:[/] {escape(', '.join(names))}: {escape(reason)}.")
        output.print(f"{len(mine)} claims of {escape(paper)}: {tally([one.outcome for one in mine])}.")
