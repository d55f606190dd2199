"""The report of a study or of scores: the recommendation first, then a part for every question that a reader may have.

why         every method under every metric
shortcut    whether the network and the data disagree about what matters
maps        images, their maps, and what changed images look like
curves      what is left when more and more pixels are removed or kept
benchmarks  what retraining (ROAR, KAR) and audits say, and why it may contradict itself
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from uproar.metrics.registry import QUESTIONS
from uproar.metrics.retraining import RETRAININGS
from uproar.papers.claims import paper_of
from uproar.report.content import MAPS, Block, Chapter, ImageRow, Images, Part, Table, as_text
from uproar.report.drawing import as_bytes, scaled_map
from uproar.report.figures import CHOSEN, MUTED, REFERENCE, Figure, Forest, ForestRow, limits_of, styles
from uproar.report.formatting import NOTHING, clean, level_text, listed, number, percent, shortened, slug, with_interval
from uproar.report.paper_figures import FigureSource, figures_of_papers
from uproar.report.study_figures import (
    Styles,
    audit_figure,
    curve_figures,
    entry_of,
    estimator_styles,
    metric_curves,
    verdict_figure,
)
from uproar.results.answer import Answer
from uproar.results.board import card_words
from uproar.results.claim_outcome import tally
from uproar.results.evaluator import EvaluatorScores
from uproar.results.evidence import Evidence
from uproar.results.finding import Finding
from uproar.results.quality import NetworkQuality, Prediction
from uproar.results.scores import Scores
from uproar.results.study import Results, StudyView
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval
from uproar.wording import counted, duration, series

GREEN, BLACK, GREY = CHOSEN, REFERENCE, MUTED
EVALUATED = {"evaluator": "label", "evaluator:model": "answer"}
"""What the evaluators predict, by metric."""
COSTS = {
    "passes": "passes per image",
    "milliseconds_per_image": "ms per image",
    "constant_maps": "constant maps",
    "layers": "looks at layer",
}


def chapters_of(results: Results | Scores) -> list[Chapter]:
    """One chapter per task and model of a study, or one for scores."""
    if isinstance(results, Scores):
        measured = measured_by(results.answer, results.evaluators, results)
        why = why_part(results.answer, measured, results.costs, {}, results, results.quality)
        curves = metric_curves(results, styles(results.table["method"])).values()
        return [_chapter(results.answer, results.quality, measured, why, score_images(results), curves)]
    by_name, several = estimator_styles(results), len(results.views) > 1
    return [
        study_chapter(view, by_name, f"{number}-{slug([view.task, view.model])}-" if several else "")
        for number, view in enumerate(results.views, 1)
    ]


def study_chapter(view: StudyView, by_name: Styles, prefix: str = "") -> Chapter:
    """The report of one task and model."""
    answer, scores = view.answer, view.metric_scores
    measured = measured_by(answer, view.evaluators, scores, view.verdicts, view.score_name)
    why = why_part(answer, measured, view.rows_here(view.results.costs), _marks(view), scores, view.quality)
    curves = [*curve_figures(view, by_name), *(metric_curves(scores, by_name).values() if scores is not None else ())]
    wall = view.results.provenance.get("wall", {}).get("seconds")
    return _chapter(
        *(answer, view.quality, measured, why, _images(view), curves, _benchmark_part(view, by_name)),
        name=f"{view.task} · {view.model}",
        prefix=prefix,
        question=f"Which attribution method shows what `{view.model}` uses on `{view.task}`?",
        basis=", ".join(text for text in (basis_of(answer), duration(wall) if wall else "") if text),
        paper=tuple(section for section in (_exhibit_part(view, by_name), _claim_part(view)) if section is not None),
    )


def _chapter(
    answer: Answer,
    quality: NetworkQuality | None,
    measured: Sequence[Measured],
    why: Part | None,
    images: Images | None,
    curves: Collection[Figure],
    benchmarks: Part | None = None,
    **about: Any,
) -> Chapter:
    parts = [
        why,
        shortcut_part(answer),
        None if images is None else Part("Maps of single images", (images,), "maps"),
        Part("Curves: scores as pixels are removed or kept", tuple(curves), "curves") if curves else None,
        benchmarks,
    ]
    return Chapter(
        answer,
        quality,
        deciding_chart(answer, measured),
        few_images(images, answer, measured),
        tuple(section for section in parts if section is not None),
        **{"basis": basis_of(answer), **about},
    )


def basis_of(answer: Answer) -> str:
    """How many methods and baselines were compared, on how many images and runs."""
    if not answer.metrics:
        return ""
    first = answer.metrics[0]
    baselines = len({name for metric in answer.metrics for name in metric.values if name in metric.baselines})
    counts = [counted(len(answer.methods), "method"), counted(baselines, "baseline")]
    counts += [counted(first.images, "image")] if first.images else []
    counts += [counted(first.replicates, "run")] if first.replicates > 1 else []
    return ", ".join(counts)


# every method under every metric


@dataclass(frozen=True)
class Measured:
    """Every method and baseline under one metric."""

    name: str
    label: str
    unit: str
    values: pd.DataFrame
    """Columns name, value, low, high; the best first."""
    notes: Mapping[str, str]
    """By name, behind a value: images where it is undefined."""
    unranked: frozenset[str] = frozenset()
    """Names that are undefined for too many images to be ranked."""
    evidence: Evidence | None = None
    """What the recommendation makes of it; None where it recommends nothing."""

    @property
    def points(self) -> bool:
        """Whether values are differences of accuracies, shown in points."""
        return self.evidence is not None and self.evidence.kind == "retrained"

    @property
    def head(self) -> str:
        """The head of its column."""
        unreliable = self.evidence is not None and self.evidence.unreliable
        return f"{self.label}{' (not reliable here)' * bool(unreliable)}"

    def cell(self, name: str) -> str:
        """A value with its interval, marked where it is significantly better than every baseline."""
        rows = self.values[self.values["name"] == name]
        if rows.empty:
            return NOTHING
        value, low, high = rows.iloc[0][["value", "low", "high"]]
        text = with_interval(value, low, high, self.points)
        text = f"({text})" if name in self.unranked and text != NOTHING else text
        standing = self.evidence.standings.get(name) if self.evidence is not None else None
        return f"{'▲ ' * bool(standing and standing.better)}{text}{self.notes.get(name, '')}"


def measured_by(
    answer: Answer,
    evaluators: Mapping[str, EvaluatorScores],
    scores: Scores | None,
    verdicts: Mapping[str, pd.DataFrame] = MappingProxyType({}),
    score_name: str = "accuracy",
) -> list[Measured]:
    """The metrics in the order in which they decide, then those that recommend nothing."""
    columns, measured = ["name", "value", "low", "high"], []
    known = {metric.name: metric for metric in answer.metrics}
    scored = [] if scores is None else list(dict.fromkeys(map(str, scores.table["metric"])))
    for name in dict.fromkeys([*known, *scored]):
        evidence = known.get(name)
        if evidence is not None and name in EVALUATED:
            rows = evaluators[EVALUATED[name]].table.rename(columns={"estimator": "name", "score": "value"})
            unit = f"bits of the {'label' if EVALUATED[name] == 'label' else 'prediction'} found"
            measured.append(Measured(name, evidence.label, unit, rows[columns], {}, evidence=evidence))
        elif scores is not None and name in scored:
            rows = scores.table[scores.table["metric"] == name].rename(columns={"method": "name"})
            higher = bool(rows["higher_is_better"].iloc[0])
            undefined = {r.name: f", {r.nan} of {r.n} undefined" for r in rows.itertuples(index=False) if r.nan}
            unranked = frozenset(rows.loc[~rows["ranked"].astype(bool), "name"])
            rows = rows.sort_values("value", ascending=not higher)[columns]
            short = name if evidence is None else evidence.label  # with settings only where a metric is there twice
            label, better = (f"{short} ↑", "higher") if higher else (f"{short} ↓", "lower")
            unit = f"{shortened(short)} ({better} is better)"
            measured.append(Measured(name, label, unit, rows, undefined, unranked, evidence))
        elif evidence is not None and name in verdicts:
            rows = verdicts[name].rename(columns={"estimator": "name", "advantage": "value"})[columns]
            rows = pd.concat([rows, pd.DataFrame([{"name": BASELINE, "value": 0.0}])], ignore_index=True)
            unit = f"{score_name} points against random"
            measured.append(Measured(name, evidence.label, unit, rows, {}, evidence=evidence))
    return measured


def deciding_chart(answer: Answer, measured: Sequence[Measured]) -> Figure | None:
    """Every method by the metrics that decide, or by the first where none does; baselines are a grey band.

    Recommended methods are green, those that are better than every baseline black, all others grey: the chart says what
    the recommendation says.
    """
    names = {metric.name for metric in answer.choice.deciding}
    recommending = [measure for measure in measured if measure.evidence is not None]
    shown = [measure for measure in recommending if measure.name in names] or recommending[:1]
    forests, baselines = [], dict[str, None]()
    for measure in shown:
        values = measure.values.dropna(subset="value")
        values = values.assign(**{c: values[c] * (100 if measure.points else 1) for c in ("value", "low", "high")})
        free = values[~values["name"].isin(answer.methods)]
        band = (free["value"].min(), free["value"].max()) if len(free) else None
        baselines |= dict.fromkeys(free["name"])
        rows = []
        for row in values[values["name"].isin(answer.methods)].itertuples():
            qualified = BLACK if row.name in answer.choice.qualified else GREY
            style = GREEN if row.name in answer.recommended else qualified
            rows.append(ForestRow(str(row.name), style, row.value, row.low, row.high))
        limits = limits_of([*(v for row in rows for v in (row.value, row.low, row.high)), *(band or ())])
        title = measure.label if len(shown) > 1 else ""
        forests.append(Forest(tuple(rows), limits, f"{measure.unit}, 95 % CI", title, band=band))
    if not any(forest.rows for forest in forests):
        return None
    grey = f"Grey band: model-free baselines ({', '.join(baselines)}). " if baselines else ""
    grey += "Grey points: not significantly better than all of them." if baselines and answer.choice.qualified else ""
    title = f"Every method by {series([measure.head for measure in shown])}"
    return Figure(tuple(forests), len(forests), "deciding", title, grey)


def why_part(
    answer: Answer,
    measured: Sequence[Measured],
    costs: pd.DataFrame,
    marks: Mapping[tuple[str, str], str],
    scores: Scores | None,
    quality: Any,
) -> Part | None:
    """The table of methods and baselines by metrics and costs, what decides, and how to read each metric."""
    table = methods_table(answer, measured, costs, marks)
    blocks: list[Block] = [table] if len(table.frame) else []
    blocks += [*([quality.sentence] if quality else []), *answer.details]
    if scores is not None and len(scores.table):
        notes = scores.table[scores.table["note"].astype(bool) & scores.table["ranked"]]
        blocks += dict.fromkeys(f"{row.metric}: {clean(row.note)}." for row in notes.itertuples())
        blocks.append(guide_table(scores))
    return Part("Why: every method under every metric", tuple(blocks), "why") if blocks else None


def methods_table(
    answer: Answer, measured: Sequence[Measured], costs: pd.DataFrame, marks: Mapping[tuple[str, str], str]
) -> Table:
    """Methods, the best first, then baselines, by metrics and costs."""
    names = list(
        dict.fromkeys([*answer.methods, *(str(name) for measure in measured for name in measure.values["name"])])
    )
    known = answer.table.set_index("method") if answer.methods else pd.DataFrame()
    columns: dict[str, list[str]] = {"method": [f"{name} ✓" if name in answer.recommended else name for name in names]}
    for column, head in (("group", "rank group"), ("warnings", "warnings")):
        if len(known) and known[column].any():
            columns[head] = [known[column].get(name, "") for name in names]
    for measure in measured:
        against = {name: f" ({mark})" for (metric, name), mark in marks.items() if metric == measure.name}
        columns[measure.head] = [measure.cell(name) + against.get(name, "") for name in names]
    by_method = costs.set_index("estimator") if "estimator" in costs else pd.DataFrame()
    for column in (column for column in COSTS if column in by_method):
        if by_method[column].notna().any() and set(by_method[column]) not in ({0}, {""}):
            values = by_method[column].round(2) if column == "milliseconds_per_image" else by_method[column]
            shown = as_text(values.astype(object).to_frame()).iloc[:, 0].set_axis(by_method.index)
            columns[COSTS[column]] = [str(shown.get(name, NOTHING)) for name in names]
    units: dict[str, list[str]] = {}
    for measure in measured:
        if measure.label[-1] not in "↑↓":
            units.setdefault(measure.unit, []).append(measure.label)
    notes = {
        "▲ significantly better than every model-free baseline. ✓ recommended.": len(known),
        "Methods that share a letter are not significantly different.": "rank group" in columns,
        "In brackets: not ranked, undefined for more than a tenth of the images.": any(m.unranked for m in measured),
        "".join(f"{series(labels)}: {unit}. " for unit, labels in units.items()).strip(): len(units),
    }
    note = " ".join(text for text, applies in notes.items() if applies)
    return Table(pd.DataFrame(columns), "Methods and baselines by metric, with 95 % CI.", "methods", note)


def guide_table(scores: Scores) -> Table:
    """How each metric is to be read, and what it favours."""
    rows = []
    for metric, higher in dict(zip(scores.table["metric"], scores.table["higher_is_better"], strict=True)).items():
        entry = entry_of(str(metric))
        facts = {} if entry is None else entry.facts
        ends = (facts.get("low", math.nan), facts.get("high", math.nan))
        low, high = ("any size" if math.isinf(end) else number(end).replace("-", "−") for end in ends)
        row = {
            "metric": metric,
            "what it is": "No metric of this name is declared here." if entry is None else entry.summary,
            "better": "higher" if higher else "lower",
            "range": f"{low} to {high}",
            "measures": QUESTIONS.get(facts.get("true_to", ""), NOTHING),
            "τ with the known order": "" if facts.get("describes") else card_words(str(metric)) or NOTHING,
            "random maps get": facts.get("chance") or NOTHING,
            "beware": facts.get("biases") or NOTHING,
        }
        rows.append({name: clean(value) for name, value in row.items()})
    return Table(pd.DataFrame(rows), "How to read each metric.")


# a shortcut


def shortcut_part(answer: Answer) -> Part | None:
    """What evaluators of the network's answers and of the label lose with the pixels that each method ranks first."""
    lost = {metric.kind: metric.lost for metric in answer.metrics}
    network, label = lost.get("evaluator", {}), lost.get("label evaluator", {})
    methods = [name for name in answer.methods if name in network and name in label]
    if not methods:
        return None
    shares = [by_name[name] for by_name in (network, label) for name in methods]
    limits = limits_of(100 * end for share in shares for end in (share.value, share.low, share.high))
    forests = []
    for title, by_name in (("the network's prediction", network), ("the label", label)):
        rows = []
        for name in methods:
            style, share = GREEN if name in answer.recommended else BLACK, by_name[name]
            rows.append(ForestRow(name, style, 100 * share.value, 100 * share.low, 100 * share.high))
        forests.append(Forest(tuple(rows), limits, "percent lost", title))
    best = methods[0]
    sentence = (
        f"No sign of a shortcut: without the pixels that `{best}` ranks first, {percent(network[best].value, 0)} of "
        f"what can be known about the network's prediction is lost, and {percent(label[best].value, 0)} of the label."
    )
    text = (
        "A network with a shortcut (a watermark, a corner) loses its prediction when those pixels are removed, while "
        "the label can still be recognised."
    )
    figure = Figure(tuple(forests), 2, "shortcut", "Information lost without a method's top pixels")
    blocks = (answer.lines[0] if answer.choice.shortcut else sentence, text, figure)
    return Part("Shortcut? Where network and data disagree", blocks, "shortcut")


# images


def _browser(answer: Answer, names: Sequence[str], rows: Sequence[ImageRow]) -> Images:
    """Images with the recommended methods first, then the others, then baselines."""
    ranked = dict.fromkeys([*answer.recommended, *answer.methods, *names])
    methods = tuple(name for name in ranked if name in names)
    marks = {name: "" if name in answer.methods else "(baseline)" for name in methods if answer.methods}
    marks |= {name: "✗" for name in answer.methods if name not in answer.choice.qualified}
    return Images(methods, tuple(rows), marks | dict.fromkeys(answer.recommended, "✓"))


def few_images(images: Images | None, answer: Answer, measured: Sequence[Measured], most: int = 3) -> Images | None:
    """Some images with the maps of the recommended method, the best baseline and a rejected method."""
    if images is None or not measured:
        return None
    ranked = [str(name) for name in measured[0].values["name"] if name != BASELINE]
    baseline = [name for name in (*ranked, BASELINE) if name not in answer.methods and name in images.methods]
    rejected = [name for name in reversed(answer.methods) if name not in answer.choice.qualified]
    wanted = [*answer.recommended[:1], *baseline[:1], *rejected[:1], *answer.methods]
    methods = tuple(dict.fromkeys(name for name in wanted if name in images.methods))[:3]
    rows = [
        ImageRow(row.label if row.answer == "right" else row.caption, row.pixels, {MAPS: row.tiles[MAPS]}, {})
        for row in images.rows
        if MAPS in row.tiles
    ]
    return Images(methods, tuple(rows[:most]), images.marks) if rows and methods else None


def _images(view: StudyView) -> Images | None:
    """The study's pictures: maps, and what networks saw under every metric and fraction."""
    metrics, rows = RETRAININGS, []
    for picture in view.pictures:
        maps = {name: _from_zero(values) for name, values in picture.maps.items()}
        tiles: dict[str, dict[str, np.ndarray]] = {MAPS: maps} if maps else {}
        for (metric, name, fraction), pixels in picture.changed.items():
            declared = metrics[metric]
            shown = f"{declared.label}: {percent(fraction, 0)} {declared.fraction_means}"
            tiles.setdefault(shown, {})[name] = pixels
        if tiles:
            answer, scores = _right(picture.label, picture.predicted), _found_on(view, picture.row)
            rows.append(ImageRow(clean(picture.caption), picture.image, tiles, scores, clean(picture.label), answer))
    names = {name for row in rows for by_method in row.tiles.values() for name in by_method}
    return _browser(view.answer, sorted(names), rows) if rows else None


def _found_on(view: StudyView, row: int | None) -> dict[str, dict[str, float]]:
    """What each method finds on one test image by the evaluator of the network's answers, mean over the runs."""
    scores = view.evaluators.get("answer")
    if scores is None or row is None:
        return {}
    images = {name: scores.axes(values)[1] == row for name, values in scores.measurements.items()}
    values = {name: values.by_image.ravel()[images[name]] for name, values in scores.measurements.items()}
    return {"evaluator": {name: float(np.nanmean(bits)) for name, bits in values.items() if np.isfinite(bits).any()}}


def _from_zero(values: np.ndarray) -> np.ndarray:
    """A map as it is; one without any value above zero, such as a distance, from zero on: its order is what counts."""
    finite = values[np.isfinite(values)]
    if not len(finite) or finite.max() > 0 or finite.min() == finite.max():
        return values
    return np.asarray((values - finite.min()) / (finite.max() - finite.min()))


def _right(label: str, predicted: Prediction | None) -> str:
    """Whether a network is right about an image; empty where that is not known."""
    if not label or predicted is None or predicted.name is None:
        return ""
    return "right" if clean(predicted.name) == clean(label) else "wrong"


def score_images(scores: Scores) -> Images | None:
    """The kept images with their maps, and what each metric says of them."""
    if scores.images is None or not len(scores.images) or not scores.maps:
        return None
    values: dict[int, dict[str, dict[str, float]]] = {}
    kept = scores.per_image[scores.per_image["image"] < len(scores.images)]
    for row in kept.itertuples():
        values.setdefault(int(row.image), {}).setdefault(str(row.metric), {})[str(row.method)] = float(row.value)
    rows = []
    for i, image in enumerate(scores.images):
        title = clean(scores.titles[i]) if i < len(scores.titles) else ""
        predicted = scores.predictions[i] if i < len(scores.predictions) else None
        words = [f"image {i}", title, "" if predicted is None else clean(predicted.words)]
        maps = {
            m: _from_zero(scaled_map(np.asarray(method_maps[i], float)))
            for m, method_maps in scores.maps.items()
            if i < len(method_maps)
        }
        caption = ", ".join(word for word in words if word)
        rows.append(
            ImageRow(caption, as_bytes(image), {MAPS: maps}, values.get(i, {}), title, _right(title, predicted))
        )
    return _browser(scores.answer, list(scores.maps), rows)


# what the papers' benchmarks say


def _benchmark_part(view: StudyView, by_name: Styles) -> Part | None:
    """Retrained networks and the network as it is against random, whether they contradict each other, and audits."""
    metrics, blocks = RETRAININGS, list[Block]()
    retrained = [name for name in view.verdicts if metrics[name].retrains]
    if retrained:
        blocks.append(
            "ROAR removes the pixels that a method ranks first from all images and trains again: a good method costs "
            "more accuracy than a random ranking. KAR keeps only these pixels: a good method keeps more."
        )
    blocks += [sentence] if (sentence := leak_sentence(view)) else []
    if view.verdicts:
        blocks.append(verdict_figure(view, by_name))
    blocks += [f"{metrics[name].label}: {reason}" for name, reason in view.remarks.items()]
    spent = view.rows_here(view.results.spent)
    for name, rows in spent.groupby("metric", sort=False) if len(spent) else ():
        closed = rows[~rows["open"]].groupby("analysis")["estimator"]
        steps = [f"decided with {n} replicates: {listed(list(names), 30)}" for n, names in closed]
        still = [f"still open: {listed(list(rows.loc[rows['open'], 'estimator']), 30)}"] if rows["open"].any() else []
        blocks.append(f"{metrics[str(name)].label}: {'; '.join([*steps, *still])}.")
    blocks += _audit_blocks(view.findings, by_name)
    return Part("What the papers' benchmarks say", tuple(blocks), "benchmarks") if blocks else None


def leak_sentence(view: StudyView) -> str:
    """How many methods are worse than random when pixels are removed and better when they are kept: a leak."""
    metrics = RETRAININGS
    sides: dict[str, set[tuple[bool, int]]] = {}
    for name, frame in view.verdicts.items():
        for row in frame.itertuples() if metrics[name].retrains else ():
            if view.roles.get(row.estimator, "method") == "method":
                sides.setdefault(str(row.estimator), set()).add((metrics[name].higher_is_better, int(row.side)))
    both = [name for name, signs in sides.items() if {(False, -1), (True, 1)} <= signs]
    if not both:
        return ""
    return (
        f"They contradict each other: {len(both)} of {len(sides)} methods are worse than random when their "
        "pixels are removed and better when they are kept. The shape of the removed area tells the retrained network "
        "the class: the masks leak the label."
    )


STATES = {"misleads": "misleads here", "holds": "holds here", "cannot tell": "cannot tell", "skipped": "not answered"}


def _marks(view: StudyView) -> dict[tuple[str, str], str]:
    """What audits say against the value of a method under a metric."""
    return {(mark.metric, mark.estimator): mark.text for finding in view.findings for mark in finding.marks}


def _audit_blocks(findings: Sequence[Finding], by_name: Styles) -> list[Block]:
    """What the audits found, with their figures; their tables are CSV files."""
    if not findings:
        return []
    rows = [
        [finding.title, finding.question, STATES[finding.state], finding.reason or finding.sentence]
        for finding in findings
    ]
    heads = ["audit", "question", "finding", "in short"]
    blocks: list[Block] = [Table(pd.DataFrame(rows, columns=heads), "Audits of the benchmark.", "audits")]
    for finding in findings:
        blocks += [audit_figure(plot, slug([finding.audit]), by_name) for plot in finding.plots]
        blocks += [f"{finding.title}: {clean(note)}" for note in finding.notes]
    return blocks


# papers


def paper_title(results: Results) -> str:
    """What the page of a study of papers is called; empty for all other studies."""
    papers = list(dict.fromkeys(claim.paper for claim in results.claims))
    return f"{' and '.join(papers)}, reproduced" if papers else ""


def _claim_part(view: StudyView) -> Part | None:
    """What became of the claims of papers."""
    if not view.claims:
        return None
    rows = []
    for claim in view.claims:
        m = claim.deciding
        cells = [claim.reason, NOTHING, NOTHING, NOTHING]
        if m:
            cells = [effect(m.interval), m.claimed.replace("-", "−"), m.sample, m.as_published or NOTHING]
        rows.append([f"{claim.says} (`{claim.claim}`, {claim.place})", claim.outcome, *cells, claim.published])
    heads = ["claim", "same direction?", "measured", "claimed", "n", "as large as published?", "published"]
    text = (
        "A claim holds where the whole interval of its number lies in the claimed range, does not hold here where all "
        "of it lies outside, and is undecided otherwise. `claims.csv` has every number behind each."
    )
    summary = f"{counted(len(rows), 'claim')}: {tally([claim.outcome for claim in view.claims])}."
    table = Table(pd.DataFrame(rows, columns=heads), "Claims of papers.", "claims")
    return Part("Claims", (summary, text, table), "claims")


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


def _exhibit_part(view: StudyView, by_name: Styles) -> Part | None:
    """The figures and tables of the papers whose claims were tested, from this study's numbers."""
    papers = list(dict.fromkeys(paper_of(claim.claim) for claim in view.results.claims))
    if not papers:
        return None
    drawn, undrawn = figures_of_papers(FigureSource.of(view, by_name), papers)
    blocks: list[Block] = []
    for drawing in drawn:
        blocks += [drawing.figure] if drawing.figure is not None else []
        if drawing.table is not None:
            heads = [head or " " * number for number, head in enumerate(drawing.table.heads, 1)]
            frame = pd.DataFrame(list(drawing.table.rows), columns=heads)
            source = f"{drawing.paper}, {drawing.location}"
            caption = source if drawing.figure else f"{drawing.title} ({source})"
            blocks.append(Table(frame, f"{caption}.", drawing.name, drawing.table.note))
    blocks += [f"Not drawn: {paper}, {', '.join(places)}: {reason}." for (paper, reason), places in undrawn.items()]
    return Part("Figures and tables as in the papers", tuple(blocks), "papers") if blocks else None
