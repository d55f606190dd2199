"""Verdicts on a terminal: of protocols against random rankings, of evaluators, and the tables of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from uproar.cli.console import output, table
from uproar.cli.table_cells import UNABLE, number_text, print_notes, recovery_suffix, test_cells
from uproar.statistics.design import BASELINE
from uproar.wording import counted

if TYPE_CHECKING:
    import pandas as pd

    from uproar.results.evaluator import EvaluatorScores
    from uproar.results.scores import Scores
    from uproar.runs.run import Run


def print_verdicts(results: Run) -> None:
    """A table per task, model and protocol that retrains: every estimator against random rankings."""
    verdicts = results.verdicts
    if verdicts.empty:
        by_accuracy = [name for name in results.table["protocol"].unique() if not results.protocols[name].evaluator]
        if by_accuracy:
            output.print("No verdict yet: too few cells are finished.")
        return
    doubts = {tuple(row[:4]): row[4] for row in results.trust.itertuples(index=False)}
    for (task, model, protocol), group in verdicts.groupby(["task", "model", "protocol"], sort=False):
        if protocol in without_retraining(results):
            continue
        unable = (group["control"] == "failed").any()
        shown_table = table(
            f"{protocol.upper()} on {task} with {model}: area against random, in {_score(results, task)} points"
            f"{UNABLE if unable else recovery_suffix(protocol)}",
            "estimator",
            ">advantage",
            ">95 % interval",
            ">df",
            ">p",
            ">p (Holm)",
            "verdict",
        )
        for row in group.itertuples():
            colour = {1: "green", -1: "red", 0: "yellow"}[row.side]
            low, high = (number_text(100 * end, "{:+.1f}") for end in (row.low, row.high))
            shown_table.add_row(
                escape(row.estimator),
                number_text(100 * row.advantage, "{:+.1f}"),
                f"{low}…{high}",
                *test_cells(row.df, row.p, row.p_holm),
                f"[{colour}]{row.verdict}[/]" + _doubt(doubts.get((task, model, protocol, row.estimator))),
            )
        output.print(shown_table)
        output.print(escape(_basis(group)), style="dim")
        print_notes(zip(group["estimator"], group["note"], strict=True))
        if "adjusted" in group:
            output.print(escape(_stopped_early(group)), style="dim")


def without_retraining(results: Run) -> list[str]:
    """The variants that ask the original network, which stand beside the retrained ones in the report alone, and the
    evaluators, whose verdicts are by their score."""
    return [
        name
        for name, protocol in results.protocols.items()
        if protocol.evaluator or (protocol.variant and not protocol.retrains)
    ]


def _score(results: Run, task: str) -> str:
    """What networks of a task are judged by."""
    return results.score_names.get(task, "accuracy")


def _stopped_early(verdicts: pd.DataFrame) -> str:
    """That advantages which ended a design early are too large, with what is left of each when that is allowed for."""
    early = verdicts[verdicts["adjusted"].notna() & (verdicts["adjusted"] != verdicts["advantage"])]
    intervals = "Intervals hold together over all interim analyses with 95 %"
    if early.empty:
        return f"{intervals}."
    left = ", ".join(f"{row.estimator} {100 * row.adjusted:+.1f}" for row in early.itertuples())
    return f"{intervals}; advantages decided early are optimistic, allowing for stopping early: {left}."


def _basis(verdicts: pd.DataFrame) -> str:
    """What the verdicts of a protocol rest on, in numbers."""
    n, first = verdicts["n"].max(), verdicts.iloc[0]
    images = f", {first['images']:.0f} test images" if first["images"] == first["images"] else ""
    count = int(first["random_rankings"])
    rankings = f"{count} random ranking{'s' * (count != 1)} each"
    return f"{n} replicates, {rankings}{images}."


def _doubt(trust: str | None) -> str:
    """What the audits say against a verdict, beside it."""
    return "" if trust in (None, "holds") else f" [red]({escape(str(trust))})[/]"


ONE_SIDED = (
    "p against a network-free ranking is that of being better, and 1 where the method is not ahead; p against random "
    "and all intervals are two-sided."
)


def print_evaluator(scores: EvaluatorScores, where: str = "") -> None:
    """Every verdict of an evaluator: a method's lead over random, and over the best network-free ranking.

    The test beside the second lead is that of beating all of them, by the one beaten least clearly.
    """
    verdicts = scores.verdicts
    if verdicts.empty:
        return
    unable = UNABLE if scores.negative_control.failed else ""
    names = ("method, verdict", "against", ">lead", ">95 % interval", ">df", ">p", ">p (Holm)")
    shown = table(escape(f"{scores.name}{where}: lead in bits of its score{unable}"), *names)
    for row in verdicts.to_dict("records"):
        leads = (
            (BASELINE, "over_random", "over_random_df", "over_random_p", "p_random"),
            (row["best_network_free"], "over_best", "margin_df", "margin_p", "p_network_free"),
        )
        colour = "green" if row["side"] > 0 else "red" if row["side"] < 0 else "yellow"
        words = (escape(row["estimator"]), f"[{colour}]{row['verdict']}[/]")
        for word, (other, lead, df, alone, adjusted) in zip(words, leads, strict=True):
            low, high = (number_text(row[f"{lead}_{end}"], "{:+.2f}") for end in ("low", "high"))
            test = test_cells(row[df], row[alone], row[adjusted])
            against = escape(other) if isinstance(other, str) else "–"
            shown.add_row(word, against, number_text(row[lead], "{:+.2f}"), f"{low}…{high}", *test)
    output.print(shown)
    first = verdicts.iloc[0]
    output.print(
        f"{counted(int(first['replicates']), 'replicate')} of {first['n']} images.", style="dim", highlight=False
    )
    if (verdicts["margin"] <= 0).any():
        output.print(ONE_SIDED, style="dim", soft_wrap=True, highlight=False)
    others = verdicts[verdicts["network_free"].notna() & (verdicts["network_free"] != verdicts["best_network_free"])]
    decides = "p of beating every network-free ranking is against"
    print_notes((row.estimator, f"{decides} {row.network_free}") for row in others.itertuples())
    print_notes(zip(verdicts["estimator"], verdicts["note"], strict=True))


def print_metric_tables(scores: Scores, where: str = "") -> None:
    """A table per metric: every method, best first; values of methods that are not ranked in brackets."""
    failed = {metric for metric, one in scores.negative_controls.items() if one.failed}
    for metric, group in scores.table.groupby("metric", sort=False):
        higher = bool(group["higher_is_better"].iloc[0])
        better = "higher is better" if higher else "lower is better"
        shared = group["note"].iloc[0] if group["note"].nunique() == 1 else ""
        columns = ("method", ">value", ">95 % interval", ">images", ">undefined", *(() if shared else ("note",)))
        shown = table(
            f"{metric}{where} ({better}{UNABLE if metric in failed else recovery_suffix(str(metric))})", *columns
        )
        for row in group.sort_values(["ranked", "value"], ascending=[False, not higher]).itertuples():
            value, low, high = (number_text(v, "{:.3f}") for v in (row.value, row.low, row.high))
            shown.add_row(
                escape(row.method),
                value if row.ranked else f"({value})",
                f"{low} … {high}",
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
