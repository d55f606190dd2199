"""Results on a terminal: verdicts, metrics, findings, claims, and where the report is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from uproar.cli.console import errors, output, table
from uproar.cli.json_output import add_to_json, json_wanted
from uproar.cli.next_steps import RESUME, after_run, print_next
from uproar.cli.options import HOW, option
from uproar.errors import BadInput
from uproar.statistics.design import BASELINE
from uproar.wording import counted

if TYPE_CHECKING:
    import pandas as pd

    from uproar.results.answer import Answer
    from uproar.results.claim_outcome import Judgement, Measure
    from uproar.results.evaluator import EvaluatorScores
    from uproar.results.finding import Finding
    from uproar.results.judges import Judge
    from uproar.results.scores import Scores
    from uproar.runs.run import Run

Compare = Annotated[
    str | None, option(panel=HOW, takes="METHOD", text="Print this method against each other, e.g. mine")
]
STATES = {"misleads": "red", "holds": "green", "cannot tell": "yellow", "skipped": "dim"}
UNABLE = "; unable to judge here: the negative control failed"
"""Behind the name of a protocol or metric that tells no method from random rankings."""
OUTCOMES = {"holds": "green", "does not hold here": "red", "undecided": "yellow", "not asked": "dim"}


def print_results(results: Run, compare: str | None = None) -> None:
    """The results of a run as tables and sentences; `compare` asks for one estimator against each other."""
    for view in results.views:
        print_unable(
            view.unable_to_judge.values(), f"{view.task} with {view.model}: " if len(results.views) > 1 else ""
        )
    for (task, model), quality in results.quality.items():
        where = f"{task} with {model}: " if len(results.quality) > 1 else ""
        output.print(escape(f"{where}{quality.sentence}"), soft_wrap=True)
    for view in results.views:
        for judged in view.evaluators.values():
            print_evaluator(judged, f" on {view.task} with {view.model}")
    _print_verdicts(results)
    for (task, model), scores in results.metric_scores.items():
        print_metric_tables(scores, f" on {task} with {model}")
    protocols = dict.fromkeys(results.protocols, results.comparison_alpha)
    comparisons = results.comparisons
    comparisons = comparisons[~comparisons["measure"].isin(_without_retraining(results))]
    print_comparisons(comparisons, protocols, compare)
    print_findings(results.findings)
    print_claims(results.claims)
    _print_spent(results)


def print_unable(sentences: Iterable[str], where: str = "") -> None:
    """Which protocols and metrics cannot tell any method from random rankings: before what they say."""
    for sentence in sentences:
        output.print(f"[red]Negative control failed:[/] {escape(where + sentence)}", soft_wrap=True)


def _without_retraining(results: Run) -> list[str]:
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


def _print_verdicts(results: Run) -> None:
    verdicts = results.verdicts
    if verdicts.empty:
        by_accuracy = [name for name in results.table["protocol"].unique() if not results.protocols[name].evaluator]
        if by_accuracy:
            output.print("No verdict yet: too few cells are finished.")
        return
    doubts = {tuple(row[:4]): row[4] for row in results.trust.itertuples(index=False)}
    for (task, model, protocol), group in verdicts.groupby(["task", "model", "protocol"], sort=False):
        if protocol in _without_retraining(results):
            continue
        unable = (group["control"] == "failed").any()
        shown_table = table(
            f"{protocol.upper()} on {task} with {model}: area against random, in {_score(results, task)} points"
            f"{UNABLE if unable else _recovery(protocol)}",
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
            low, high = (_number(100 * end, "{:+.1f}") for end in (row.low, row.high))
            shown_table.add_row(
                escape(row.estimator),
                _number(100 * row.advantage, "{:+.1f}"),
                f"{low}…{high}",
                *_test(row.df, row.p, row.p_holm),
                f"[{colour}]{row.verdict}[/]" + _doubt(doubts.get((task, model, protocol, row.estimator))),
            )
        output.print(shown_table)
        output.print(escape(_basis(group)), style="dim")
        _print_notes(zip(group["estimator"], group["note"], strict=True))
        if "adjusted" in group:
            output.print(escape(_stopped_early(group)), style="dim")


def print_evaluator(scores: EvaluatorScores, where: str = "") -> None:
    """Every verdict of an evaluator: a method's lead over random, and over the network-free ranking beaten least."""
    verdicts = scores.verdicts
    if verdicts.empty:
        return
    unable = UNABLE if scores.negative_control.failed else ""
    names = ("method, verdict", "against", ">lead", ">95 % interval", ">df", ">p", ">p (Holm)")
    shown = table(escape(f"{scores.name}{where}: lead in bits of its score{unable}"), *names)
    for row in verdicts.to_dict("records"):
        leads = (
            (BASELINE, "over_random", "over_random_p", "p_random"),
            (row["network_free"], "margin", "margin_p", "p_network_free"),
        )
        colour = "green" if row["side"] > 0 else "red" if row["side"] < 0 else "yellow"
        words = (escape(row["estimator"]), f"[{colour}]{row['verdict']}[/]")
        for word, (other, lead, alone, adjusted) in zip(words, leads, strict=True):
            low, high = (_number(row[f"{lead}_{end}"], "{:+.2f}") for end in ("low", "high"))
            test = _test(row[f"{lead}_df"], row[alone], row[adjusted])
            against = escape(other) if isinstance(other, str) else "–"
            shown.add_row(word, against, _number(row[lead], "{:+.2f}"), f"{low}…{high}", *test)
    output.print(shown)
    first = verdicts.iloc[0]
    output.print(f"{counted(first['replicates'], 'replicate')} of {first['n']} images.", style="dim", highlight=False)
    _print_notes(zip(verdicts["estimator"], verdicts["note"], strict=True))


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


def _print_notes(noted: Iterable[tuple[str, str]]) -> None:
    """What is said of single rows of a table, under it; rows of one note together."""
    names: dict[str, list[str]] = {}
    for name, note in noted:
        names.setdefault(note, []).append(name)
    for note, some in names.items():
        if note:
            output.print(escape(f"{', '.join(some)}: {note}."), style="dim", highlight=False)


def _test(df: float, p: float, p_holm: float) -> tuple[str, str, str]:
    """Degrees of freedom, p alone and p adjusted by Holm's method."""
    alone, adjusted = ("<0.001" if one < 0.001 else _number(one, "{:.3f}") for one in (p, p_holm))
    return _number(df, "{:.1f}"), alone, adjusted


def undefined_share(images: int, undefined: int) -> str:
    """How many values are undefined, with their share where there are any.

    >>> undefined_share(718, 319), undefined_share(718, 1), undefined_share(718, 0)
    ('319 (44 %)', '1 (<1 %)', '0')
    """
    if not undefined:
        return "0"
    share = 100 * undefined / images
    return f"{undefined} ({'<1' if share < 0.5 else f'{share:.0f}'} %)"


def _print_spent(results: Run) -> None:
    """Which verdicts are still open in a study that ran until it was decided, and what was spent on them."""
    spent = results.spent
    for (task, model, protocol), group in spent.groupby(["task", "model", "protocol"], sort=False):
        still = [f"{row.estimator} ({row.replicates})" for row in group[group["open"]].itertuples()]
        decided = int((~group["open"]).sum())
        rest = f"; still open: {', '.join(still)}" if still else ""
        output.print(escape(f"{protocol} on {task} with {model}: {decided} verdicts settled{rest}."))


def _doubt(trust: str | None) -> str:
    """What the audits say against a verdict, beside it."""
    return "" if trust in (None, "holds") else f" [red]({escape(str(trust))})[/]"


def print_metric_tables(scores: Scores, where: str = "") -> None:
    """A table per metric: every method, best first; values of methods that are not ranked in brackets."""
    failed = {metric for metric, one in scores.negative_controls.items() if one.failed}
    for metric, group in scores.table.groupby("metric", sort=False):
        higher = bool(group["higher_is_better"].iloc[0])
        better = "higher is better" if higher else "lower is better"
        shared = group["note"].iloc[0] if group["note"].nunique() == 1 else ""
        columns = ("method", ">value", ">95 % interval", ">images", ">undefined", *(() if shared else ("note",)))
        shown = table(f"{metric}{where} ({better}{UNABLE if metric in failed else _recovery(str(metric))})", *columns)
        for row in group.sort_values(["ranked", "value"], ascending=[False, not higher]).itertuples():
            value, low, high = (_number(v, "{:.3f}") for v in (row.value, row.low, row.high))
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


def _recovery(judge: str) -> str:
    """How well a metric or protocol recovers known orders, behind its name, where the board has asked it."""
    from uproar.results.recovery import recovery_words

    words = recovery_words(judge, interval=False)
    return f"; recovery {words}" if words else ""


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
            _print_notes((row.worse if row.better == compare else row.better, row.note) for row in own.itertuples())


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
            _number(towards * row.difference, form),
            f"{_number(low, form)}…{_number(high, form)}",
            *_test(row.df, row.p, row.p_holm),
            str(row.n) if row.replicates in (1, row.n) else f"{row.replicates} × {row.n}",
            f"[{'green' if ahead else 'red'}]{words}[/]" if decided else "[yellow]cannot tell[/]",
        )
    return shown


def _number(value: float, form: str) -> str:
    return "–" if value != value else form.format(value)


def print_findings(findings: Sequence[Finding]) -> None:
    """Each audit's question and its answer in a sentence."""
    for finding in findings:
        colour = STATES[finding.state]
        output.print(f"[bold]{escape(finding.title)}[/] ({escape(finding.audit)}): {escape(finding.question)}")
        output.print(Padding(f"[{colour}]{finding.state}:[/] {escape(finding.sentence)}", (0, 0, 0, 2)))


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
            _print_notes((_short(one), one.deciding.interval.note) for one in some if one.deciding)
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
        outcome = f"[{OUTCOMES[one.outcome]}]{one.outcome}[/]"
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


MARKS = {"better": "[green]▲[/]", "unclear": "[yellow]○ {}[/]", "no better": "[red]▼ {}[/]", "worse": "[red]▼ {}[/]"}
"""A placing on a terminal; the ranking behind it holds the method back."""


def print_answers(answers: Sequence[Answer]) -> None:
    """Every method against the best network-free ranking, under the judges that are able to judge."""
    for answer in answers:
        able = [judge for judge in answer.judges if judge.votes]
        if not able or not answer.methods:
            continue
        where = f" on {answer.task} with {answer.model}" if len(answers) > 1 else ""
        known = "; recovery of known orders in brackets" * any(judge.known is not None for judge in able)
        marks = "▲ better than every network-free ranking, ○ not decidedly better than that one, ▼ no better than it"
        title = f"{marks}{escape(where)}{known}"
        shown = table(title, "method", ">group", *map(_judge_column, able), "flags")
        for method in answer.methods:
            placings = [answer.placing(method, judge) for judge in able]
            cells = ["–" if one is None else MARKS[one.level].format(escape(one.control)) for one in placings]
            flags = ", ".join(flag.kind for flag in answer.flags.get(method, ()))
            shown.add_row(escape(method), str(answer.group_of(method)), *cells, flags)
        output.print(shown)


def _judge_column(judge: Judge) -> str:
    """A judge above its column, with how well it recovers known orders."""
    known = "" if judge.known is None else f" ({judge.known.recovery.value:.2f})"
    return escape(f"{judge.label}{known}")


def print_headline(sentence: str, details: Sequence[str]) -> None:
    """The answer in a sentence, and below it what supports and limits it."""
    output.print(f"[bold]{escape(sentence)}[/]", soft_wrap=True, highlight=False)
    for line in details:
        output.print(Padding(f"[dim]{escape(line)}[/]", (0, 0, 0, 2)), highlight=False)


def finish(results: Run, page: Path, folder: Path, resume: str = RESUME) -> int:
    """Print the headline, what went wrong, where the report is and what may come next; the exit code.

    `resume` says what makes the cells that are missing.
    """
    from uproar.report.headline import headlines

    _add_run_to_json(results, page)
    print_answers(results.answers)
    for headline, answer in zip(headlines(results), results.answers, strict=True):
        print_headline(headline, answer.details)
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
    print_next(*after_run(results, page, folder, resume))
    return 1 if failed or missing or results.lost else 0


def _add_run_to_json(results: Run, page: Path) -> None:
    """The tables of a run as its CSV files have them, the answers, what is missing or failed, and the report."""
    if not json_wanted():
        return
    from uproar.report.headline import headlines
    from uproar.report.tables import run_tables

    add_to_json(
        report=page,
        answers=[
            _answer(answer, headline) for answer, headline in zip(results.answers, headlines(results), strict=True)
        ],
        **run_tables(results, results.verdicts),
        problems=results.problems,
    )


def add_scores_to_json(scores: Scores, page: Path) -> None:
    """The tables of scores as their CSV files have them, the answer, and the report."""
    if not json_wanted():
        return
    from uproar.report.headline import score_headline

    add_to_json(
        report=page,
        answers=[_answer(scores.answer, score_headline(scores))],
        scores=scores.table,
        comparisons=scores.comparisons,
    )


def _answer(answer: Answer, headline: str) -> dict[str, object]:
    """Which method to use, in a sentence, by name and as a table of all methods."""
    about = {name: getattr(answer, name) for name in ("task", "model", "recommended", "details")}
    return {**about, "sentence": headline, "methods": answer.table}
