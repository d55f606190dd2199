"""The report of a study by task and model: a chapter each, from its view of the results."""

from __future__ import annotations

import pandas as pd

from uproar.papers.claims import paper_of
from uproar.report.content import (
    Block,
    Chapter,
    Fold,
    ImageRow,
    Images,
    Part,
    Table,
    answer_part,
    as_text,
    compact,
    cost_part,
    deciding_chart,
    evaluator_blocks,
    few_images,
    pairs_table,
)
from uproar.report.drawing import map_colours
from uproar.report.formatting import NOTHING, clean, level_text, listed, p_value, percent, points, slug, with_interval
from uproar.report.paper_figures import FigureSource, UndrawnFigure, figures_of_papers
from uproar.report.score_report import deciding_values, metric_part, pair_folds
from uproar.report.study_figures import (
    Styles,
    audit_figure,
    best_first,
    curve_figures,
    estimator_styles,
    leak_sentence,
    retraining_figures,
    verdict_figure,
)
from uproar.results.claim_outcome import Judgement
from uproar.results.finding import Finding
from uproar.results.recovery import recovery_words
from uproar.results.study import Results, StudyView
from uproar.statistics.comparisons import pairs_sentence
from uproar.statistics.intervals import Interval
from uproar.wording import counted


def chapters_of(results: Results) -> list[Chapter]:
    """One chapter per task and model."""
    by_name, several = estimator_styles(results), len(results.views) > 1
    return [
        _chapter(view, by_name, f"{place}-{slug([view.task, view.model])}-" if several else "")
        for place, view in enumerate(results.views, 1)
    ]


def _chapter(view: StudyView, by_name: Styles, prefix: str) -> Chapter:
    answer, scores, images = view.answer, view.metric_scores, _images(view)
    judged = {target: own for target, own in view.evaluators.items() if len(own.verdicts)}
    evaluator = [block for target, own in judged.items() for block in evaluator_blocks(target, own)]
    curves, retraining = curve_figures(view, by_name), retraining_figures(view, by_name)
    parts = [
        answer_part(answer),
        Part("Evaluator", tuple(evaluator), "evaluator") if evaluator else None,
        _retrained_part(view, by_name),
        None if scores is None else metric_part(scores, by_name),
        None if images is None else Part("Images", (images,), "images"),
        _pair_part(view),
        _audit_part(view, by_name),
        _claim_part(view.claims),
        _paper_part(view, by_name),
        Part("Curves", tuple(curves), "curves") if curves else None,
        Part("With and without retraining", tuple(retraining), "retraining") if retraining else None,
        cost_part(view.own(view.results.costs)),
    ]
    chart = deciding_chart(answer, view.roles, *deciding_values(answer, view.evaluators, scores, view.verdicts))
    there = tuple(part for part in parts if part is not None)
    few = few_images(images, answer)
    return Chapter(f"{view.task} · {view.model}", prefix, answer, view.quality, chart, few, there)


# retrained networks


def _retrained_part(view: StudyView, by_name: Styles) -> Part | None:
    """Verdicts against random: of retrained networks, and behind one line of the network as it is."""
    protocols = view.results.protocols
    shown: list[Block] = [sentence] if (sentence := leak_sentence(view)) else []
    retrained = [name for name in view.verdicts if protocols[name].retrains]
    others = [name for name in view.verdicts if name not in retrained]
    shown += [verdict_figure(view, name, by_name) for name in retrained]
    shown += [_verdict_table(view, name) for name in retrained]
    folded = [block for name in others for block in (verdict_figure(view, name, by_name), _verdict_table(view, name))]
    shown += [f"{protocols[name].label}: {reason}" for name, reason in view.remarks.items()]
    spent = view.own(view.results.spent)
    for name, rows in spent.groupby("protocol", sort=False) if len(spent) else ():
        closed = rows[~rows["open"]].groupby("analysis")["estimator"]
        steps = [f"decided with {n} replicates: {listed(list(names), 30)}" for n, names in closed]
        still = [f"still open: {listed(list(rows.loc[rows['open'], 'estimator']), 30)}"] if rows["open"].any() else []
        shown.append(f"{protocols[str(name)].label}: {'; '.join([*steps, *still])}.")
    if folded:
        text = "The original network never saw such images and may fail for that reason alone."
        shown.append(Fold("The same without retraining", (text, *folded)))
    return Part("Retrained networks against random", tuple(shown), "verdicts") if shown else None


def _verdict_table(view: StudyView, name: str) -> Table:
    frame, protocol = view.verdicts[name], view.results.protocols[name]
    marks = {(m.protocol, m.estimator): m.text for finding in view.findings for m in finding.marks}
    rows = []
    for row in frame.to_dict("records"):
        advantage = with_interval(row["advantage"], row["low"], row["high"], "points")
        cells = [row["estimator"], row["verdict"], advantage, p_value(row["p_holm"]), f"{row['n']:.0f}"]
        rows.append([*cells, points(row["detectable"], signed=False), marks.get((name, row["estimator"]), "")])
    heads = ["method", "verdict", "advantage [95 % CI]", "p (Holm)", "replicates", "detectable", "audits"]
    table = pd.DataFrame(rows, columns=heads)
    table = table if table["audits"].any() else table.drop(columns="audits")
    unreliable = (
        " Not reliable here: no method is significantly better than random." if name in view.unable_to_judge else ""
    )
    known = f" Agreement with known orders: {recovery_words(name)}." if recovery_words(name) else ""
    caption = f"{protocol.label}: {view.score_name} points against random ({view.task}, {view.model}).{unreliable}"
    note = f"Detectable: a difference that is found four times out of five.{known}"
    return Table(table, caption, f"verdicts-{slug([name])}", note)


def _pair_part(view: StudyView) -> Part | None:
    """Every pair of methods, under every protocol and metric."""
    folds: list[Block] = []
    for target, scores in view.evaluators.items():
        if len(scores.pairs):
            caption = f"Method against method by the evaluator of the {target}, bits."
            title = f"{scores.name}: {pairs_sentence(scores.pairs)}"
            folds.append(Fold(title, (pairs_table(scores.pairs, caption, f"comparisons-evaluator-{target}"),)))
    for name, frame in view.comparisons.items():
        protocol = view.results.protocols[name]
        caption = f"Method against method under {protocol.label}, {view.score_name} points."
        table = pairs_table(frame, caption, f"comparisons-{slug([name])}", "points", protocol.direction)
        folds.append(Fold(f"{protocol.label}: {pairs_sentence(frame)}", (table,)))
    if view.metric_scores is not None:
        folds += pair_folds(view.metric_scores)
    text = "p is adjusted by Holm's method over the pairs of a metric."
    return Part("Method against method", (text, *folds), "pairs") if folds else None


# audits, claims and papers

STATES = {"misleads": "misleads here", "holds": "holds here", "cannot tell": "cannot tell", "skipped": "not answered"}


def _audit_part(view: StudyView, by_name: Styles) -> Part | None:
    """What the audits found, with their figures and tables."""
    if not view.findings:
        return None
    rows = [[one.title, one.question, STATES[one.state], one.reason or one.sentence] for one in view.findings]
    table = Table(
        pd.DataFrame(rows, columns=["audit", "question", "finding", "in short"]), "Audits of the benchmark.", "audits"
    )
    blocks = [block for finding in view.findings for block in _finding_blocks(finding, by_name)]
    return Part("Can the benchmark be trusted here?", (table, *blocks), "audits")


def _finding_blocks(finding: Finding, by_name: Styles) -> list[Block]:
    blocks: list[Block] = [audit_figure(plot, slug([finding.audit]), by_name) for plot in finding.plots]
    tables = [Table(as_text(frame.head(60)), clean(title)) for title, frame in finding.tables.items()]
    details: tuple[Block, ...] = (*map(clean, finding.notes), *tables)
    return [*blocks, Fold(f"{finding.title}: the numbers", details)] if details else blocks


def _claim_part(claims: list[Judgement]) -> Part | None:
    """What became of the claims of papers."""
    if not claims:
        return None
    rows = []
    for one in claims:
        m = one.deciding
        found = [effect(m.interval), m.claimed.replace("-", "−"), m.sample] if m else [one.reason, NOTHING, NOTHING]
        says = f"{one.says} (`{one.claim}`, {one.place})"
        rows.append([says, one.outcome, *found, one.published])
    heads = ["claim", "outcome", "measured", "claimed", "n", "published"]
    text = (
        "A claim holds where the whole interval of its number lies in the claimed range, does not hold here where all "
        "of it lies outside, and is undecided otherwise. `claims.csv` has every number behind each."
    )
    table = Table(pd.DataFrame(rows, columns=heads), "Claims of papers.", "claims")
    return Part("Claims of papers", (text, table), "claims")


def effect(interval: Interval) -> str:
    """A number with its interval.

    >>> effect(Interval(0.1234))
    '+0.123 (no interval)'
    >>> effect(Interval(0.1234, 0.1, 0.2, level=0.9967)).replace("\u00a0", " ")
    '+0.123 (+0.100 to +0.200 at 99.7 %)'
    """
    ends = f"{interval.low:+.3f} to {interval.high:+.3f}{level_text(interval.level, ' at ')}"
    if interval.low != interval.low:
        ends = "no interval"
    return f"{interval.value:+.3f} ({ends})".replace("-", "−")


def _paper_part(view: StudyView, by_name: Styles) -> Part | None:
    """The figures and tables of the papers whose claims were tested, from this study's numbers."""
    papers = list(dict.fromkeys(paper_of(one.claim) for one in view.results.claims))
    drawn, undrawn = figures_of_papers(FigureSource.of(view, by_name), papers) if papers else ((), ())
    blocks: list[Block] = []
    for one in drawn:
        blocks += compact([one.figure])
        if one.table is not None:
            heads = [head or " " * place for place, head in enumerate(one.table.heads, 1)]
            frame = pd.DataFrame(list(one.table.rows), columns=heads)
            caption = f"{one.paper}, {one.place}" if one.figure else f"{one.title} ({one.paper}, {one.place})"
            blocks.append(Table(frame, f"{caption}.", one.name, one.table.note))
    blocks += [f"Not drawn: {paper}, {places}: {reason}." for (paper, reason), places in by_reason(undrawn).items()]
    return Part("As in the papers", tuple(blocks), "papers") if blocks else None


def by_reason(undrawn: tuple[UndrawnFigure, ...]) -> dict[tuple[str, str], str]:
    """The places of figures that could not be drawn, by paper and reason."""
    places: dict[tuple[str, str], list[str]] = {}
    for one in undrawn:
        places.setdefault((clean(one.paper), clean(one.reason)), []).append(one.place)
    return {key: ", ".join(where) for key, where in places.items()}


# images


def _images(view: StudyView) -> Images | None:
    """The study's pictures: maps, and what networks saw under every protocol and fraction."""
    pictures = [picture for picture in view.pictures if picture.maps or picture.changed]
    if not pictures:
        return None
    protocols = view.results.protocols
    rows = []
    for picture in pictures:
        tiles = {"maps": {name: map_colours(values) for name, values in picture.maps.items()}} if picture.maps else {}
        for (protocol, name, fraction), pixels in picture.changed.items():
            declared = protocols[protocol]
            shown = f"{declared.label}: {percent(fraction, 0)} {declared.fraction_means}"
            tiles.setdefault(shown, {})[name] = pixels
        rows.append(ImageRow(clean(picture.caption), picture.image, tiles, {}))
    there = {name for row in rows for by_method in row.tiles.values() for name in by_method}
    ranked = [*view.answer.methods, *(name for p in view.intervals for name in best_first(view, p))]
    order = dict.fromkeys([*(name for name in ranked if name in there), *sorted(there)])
    return Images(tuple(order), tuple(rows))


def problem_part(results: Results) -> Part:
    """Cells without a number, counted by reason, numbers that are none, and notices."""
    frame = results.problems
    blocks: list[Block] = []
    if len(frame):
        blocks.append(Table(as_text(frame[["status", "estimator", "cells", "reason"]]), "Cells without a result."))
    empty = int(results.done["accuracy"].isna().sum())
    if empty:
        blocks.append(f"{counted(empty, 'finished cell')} without a number (NaN): left out of every mean.")
    blocks += [f"- {clean(notice)}" for notice in results.notices]
    return Part("Skipped, failed, noticed", tuple(blocks) or ("Nothing.",), "problems")
