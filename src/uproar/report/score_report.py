"""What metrics say of methods, as parts of a report: values, curves, values per image, images, and how to read each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from uproar.errors import UproarError
from uproar.expression import parse
from uproar.metrics import metrics
from uproar.metrics.registry import QUESTIONS, Axis
from uproar.registry import Entry
from uproar.report.content import (
    Block,
    Chapter,
    Fold,
    ImageRow,
    Images,
    Part,
    Table,
    answer_part,
    compact,
    cost_part,
    deciding_chart,
    evaluator_blocks,
    facts_table,
    few_images,
    pairs_table,
)
from uproar.report.drawing import as_bytes, map_colours, scaled_map
from uproar.report.figures import (
    Chart,
    Figure,
    Forest,
    ForestRow,
    Series,
    Style,
    limits_of,
    number_or_none,
    numbers,
    styles,
)
from uproar.report.formatting import LEVEL, NOTHING, clean, number, shortened, slug, with_interval
from uproar.results.answer import Answer
from uproar.results.evaluator import EvaluatorScores
from uproar.results.recovery import recovery_words
from uproar.results.scores import Curves, Scores
from uproar.statistics.design import BASELINE
from uproar.wording import counted

FILES = {
    "scores.csv": "one row per method and metric",
    "comparisons.csv": "one row per metric and pair of methods",
    "per_image.parquet": "one row per method, metric and image",
}


def score_chapter(scores: Scores) -> Chapter:
    """The report of scores alone."""
    by_name, answer = styles(scores.table["method"]), scores.answer
    evaluators = scores.evaluators
    images = score_images(scores)
    judged = [b for t, own in evaluators.items() if len(own.verdicts) for b in evaluator_blocks(t, own)]
    notices = [f"- {clean(notice)}" for notice in scores.notices]
    record: tuple[Block, ...] = (*notices, facts_table(scores.provenance, "How these numbers were computed."))
    parts = [
        answer_part(answer),
        Part("Evaluator", tuple(judged), "evaluator") if judged else None,
        metric_part(scores, by_name),
        None if images is None else Part("Images", (images,), "images"),
        pair_part(scores),
        cost_part(scores.costs),
        Part("Provenance", record, "record"),
    ]
    chart = deciding_chart(answer, scores.roles, *deciding_values(answer, evaluators, scores, {}))
    few = few_images(images, answer)
    return Chapter("", "", answer, scores.quality, chart, few, tuple(part for part in parts if part is not None))


def deciding_values(
    answer: Answer,
    evaluators: Mapping[str, EvaluatorScores],
    scores: Scores | None,
    verdicts: Mapping[str, pd.DataFrame],
) -> tuple[pd.DataFrame, str, str]:
    """The values of every method and baseline by the metric that decides, or would; its name and unit."""
    columns = ["name", "value", "low", "high"]
    for metric in (answer.choice.deciding or answer.metrics)[:1]:
        label = f"{metric.label}{' (not reliable here)' * bool(metric.unreliable)}"
        if "evaluator" in metric.name:
            target = "label" if metric.name == "evaluator" else "answer"
            table = evaluators[target].table
            shown = table.rename(columns={"estimator": "name", "score": "value"})
            unit = f"bits of the {'label' if target == 'label' else 'prediction'} found"
            return shown[columns], label, unit
        if scores is not None and metric.name in set(scores.table["metric"]):
            rows = scores.table[scores.table["metric"] == metric.name].rename(columns={"method": "name"})
            higher = bool(rows["higher_is_better"].iloc[0])
            unit = f"{shortened(metric.label)} ({'higher' if higher else 'lower'} is better)"
            return rows.sort_values("value", ascending=not higher)[columns], label, unit
        if metric.name in verdicts:
            frame = verdicts[metric.name].rename(columns={"estimator": "name", "advantage": "value"})
            random = pd.DataFrame([{"name": BASELINE, "value": 0.0}])
            rows = pd.concat([frame[columns], random], ignore_index=True)
            rows[columns[1:]] *= 100
            return rows, label, "points better than random"
    return pd.DataFrame(columns=columns), "", ""


# metrics


def entry_of(metric: str) -> Entry | None:
    """What is declared under a metric's name; None for one that is not known here."""
    try:
        return metrics[parse(metric).name]
    except UproarError:
        return None


def _higher(scores: Scores) -> dict[str, bool]:
    """By metric, in the order in which they were asked for: whether higher is better."""
    return {str(m): bool(h) for m, h in zip(scores.table["metric"], scores.table["higher_is_better"], strict=True)}


def _arrow(higher: bool) -> str:
    return "↑" if higher else "↓"


def basis_of(scores: Scores) -> str:
    """What the numbers rest on, in words."""
    images = counted(int(scores.table["n"].max()) if len(scores.table) else 0, "image")
    return images if scores.replicates == 1 else f"{scores.replicates} replicates of {images}"


def metric_part(scores: Scores, by_name: Mapping[str, Style]) -> Part | None:
    """Values, curves and values per image of all metrics, and how to read each of them."""
    if scores.table.empty:
        return None
    curves = metric_curves(scores, by_name)
    blocks = [
        "↑ higher is better, ↓ lower is better.",
        values_figure(scores, by_name),
        values_table(scores),
        *curves.values(),
        Fold("Values of single images", (spread,)) if (spread := spread_figure(scores, by_name)) else None,
        Fold("How to read each metric", (guide_table(scores),)),
    ]
    return Part("Metrics without retraining", compact(blocks), "metrics")


def values_figure(scores: Scores, by_name: Mapping[str, Style]) -> Figure | None:
    """Every method's value under every metric, a forest per metric; None where there are no values."""
    forests = []
    for metric, higher in _higher(scores).items():
        own = scores.table[scores.table["metric"] == metric]
        rows = tuple(
            ForestRow.of(row.method, by_name[row.method], row.value, row.low, row.high, bool(row.ranked))
            for row in own.itertuples()
        )
        limits = limits_of(v for row in rows for v in (row.value, row.low, row.high))
        forests.append(Forest(rows, limits, title=f"{shortened(metric, 24)} {_arrow(higher)}"))
    if not any(row.value is not None for forest in forests for row in forest.rows):
        return None
    reading = (
        "Hollow: not ranked, undefined for more than a tenth of the images." if not scores.table["ranked"].all() else ""
    )
    return Figure(tuple(forests), 4, "metric-values", f"Values with {LEVEL} CI over {basis_of(scores)}", reading)


def values_table(scores: Scores) -> Table:
    """Methods by metrics: value and interval; a star for one that is significantly better than every other."""
    failed = {metric for metric, one in scores.negative_controls.items() if one.failed}
    sole = {metric: _sole(scores, metric) for metric in _higher(scores)}
    cells = {(row.method, row.metric): _value(row, sole[row.metric]) for row in scores.table.itertuples()}
    heads = {
        metric: f"{metric} {_arrow(higher)}{' (not reliable here)' * (metric in failed)}"
        for metric, higher in _higher(scores).items()
    }
    methods = list(dict.fromkeys(scores.table["method"]))
    columns = {head: [cells.get((m, metric), NOTHING) for m in methods] for metric, head in heads.items()}
    notes = ["* significantly better than every other method."] if any(sole.values()) else []
    if not scores.table["ranked"].all():
        notes.append("In brackets: not ranked, undefined for more than a tenth of the images.")
    notes += [f"{metric}: {note}." for metric, note in _notes(scores)]
    caption = f"Mean over {basis_of(scores)} with 95 % CI."
    return Table(pd.DataFrame({"method": methods, **columns}), caption, "metrics", " ".join(notes))


def _sole(scores: Scores, metric: str) -> str:
    """The method that is significantly better than every other, if there is one."""
    own = scores.table[(scores.table["metric"] == metric) & scores.table["ranked"]]
    pairs = scores.comparisons[(scores.comparisons["metric"] == metric) & (scores.comparisons["side"] == 1)]
    wins = pairs["better"].value_counts()
    return next((str(m) for m, n in wins.items() if n == len(own) - 1), "") if len(own) > 1 else ""


def _value(row: Any, sole: str) -> str:
    text = with_interval(number_or_none(row.value), number_or_none(row.low), number_or_none(row.high))
    text = text if row.ranked or text == NOTHING else f"({text})"
    return f"{text}{'*' * (row.method == sole)}{f', {row.nan} of {row.n} undefined' if row.nan else ''}"


def _notes(scores: Scores) -> list[tuple[str, str]]:
    """What is noted of the values of a metric, each once."""
    rows = scores.table[scores.table["note"].astype(bool) & scores.table["ranked"]]
    return list(dict.fromkeys((str(row.metric), clean(row.note)) for row in rows.itertuples()))


def metric_curves(scores: Scores, by_name: Mapping[str, Style]) -> dict[str, Figure]:
    """The mean curves with bands, by metric, of those that have any."""
    figures = {}
    for metric, higher in _higher(scores).items():
        if metric in scores.curves:
            series = curve_series(scores.curves[metric], by_name)
            if series:
                figures[metric] = _curve_figure(scores, metric, higher, series)
    return figures


def curve_series(curves: Curves, by_name: Mapping[str, Style]) -> tuple[Series, ...]:
    """One line per method with any point."""
    x, series = tuple(round(float(t), 6) for t in curves.fractions), []
    for method, line in curves.lines.items():
        if np.isfinite(line.mean).any():
            sides = (line.mean, line.mean - line.half, line.mean + line.half)
            y, low, high = (numbers(np.round(side, 5)) for side in sides)
            style = by_name.get(method) or styles([method])[method]
            series.append(Series(method, style, x, y, low, high, tuple(line.n.tolist()), reference=method == BASELINE))
    return tuple(series)


def _curve_figure(scores: Scores, metric: str, higher: bool, series: tuple[Series, ...]) -> Figure:
    entry = entry_of(metric)
    axis = entry.facts.get("axis") if entry is not None else None
    x, y, remark, falls, level = "fraction", "value", "", False, None
    if isinstance(axis, Axis) and entry is not None:
        options = entry.bind(**dict(parse(metric).options))
        by = str(options.get("by", "probability"))
        words = {"by": by, "score": by if by == "accuracy" else f"{by} of the target"}
        x, y, remark = (text.format(**words) for text in (axis.x, axis.y, axis.remark))
        falls, level = axis.falls, options.get(axis.level)
    level = level if isinstance(level, float) else None  # several levels are not one line
    ends = limits_of([level, *(v for s in series for side in (s.y, s.low, s.high) for v in side)])
    across = (1.0, 0.0) if falls else None
    chart = Chart("", series, x, y, ends, across, percent=(True, False), level=level, level_label="level")
    better = "" if falls else f"The {'higher' if higher else 'lower'} the line, the better. "
    reading = f"{better}Mean over {basis_of(scores)}; bands: {LEVEL} CI. {remark}".strip()
    return Figure((chart,), 3, f"{stem_of(scores, metric)}-curves", f"{metric} {_arrow(higher)}", reading, metric)


def stem_of(scores: Scores, metric: str) -> str:
    """A piece of a file name for a metric, no two the same in any spelling."""
    stems = [slug([name]).lower() for name in _higher(scores)]
    place = list(_higher(scores)).index(metric)
    before = stems[:place].count(stems[place])
    return f"{stems[place]}-{before + 1}" if before else stems[place]


def spread_figure(scores: Scores, by_name: Mapping[str, Style]) -> Figure | None:
    """The values per image of every metric that has any: boxes, or bars where an image is only right or wrong."""
    forests = []
    for metric, own in scores.per_image.dropna(subset="value").groupby("metric", sort=False):
        rows = []
        for method, part in own.groupby("method", sort=False):
            values = part["value"].to_numpy(dtype=float)
            quantiles = tuple(float(v) for v in np.quantile(values, (0.05, 0.25, 0.5, 0.75, 0.95)))
            rows.append(ForestRow(str(method), by_name[str(method)], float(values.mean()), quantiles=quantiles))
        title = shortened(str(metric), 26)
        if own["value"].isin([0.0, 1.0]).all():
            forests.append(Forest(tuple(rows), (0.0, 1.0), "share of images with 1", title, "bars"))
        else:
            limits = limits_of(v for row in rows for v in (*(row.quantiles or ()), row.value))
            forests.append(Forest(tuple(rows), limits, "", title, "boxes"))
    reading = "Box: the middle half of the images, line: median, dot: mean, whiskers: 5 % to 95 %."
    return Figure(tuple(forests), 4, "per-image", "Values of single images", reading) if forests else None


def guide_table(scores: Scores) -> Table:
    """How each metric is to be read, and what it favours."""
    rows = []
    for metric, higher in _higher(scores).items():
        entry = entry_of(metric)
        facts = {} if entry is None else entry.facts
        ends = (facts.get("low", math.nan), facts.get("high", math.nan))
        low, high = ("any size" if math.isinf(end) else number(end).replace("-", "−") for end in ends)
        row = {
            "metric": metric,
            "what it is": "No metric of this name is declared here." if entry is None else entry.summary,
            "better": "higher" if higher else "lower",
            "range": f"{low} to {high}",
            "measures": QUESTIONS.get(facts.get("true_to", ""), NOTHING),
            "agreement with known orders": "" if facts.get("describes") else recovery_words(metric) or NOTHING,
            "random maps get": facts.get("chance") or NOTHING,
            "beware": facts.get("biases") or NOTHING,
        }
        rows.append({name: clean(value) for name, value in row.items()})
    return Table(pd.DataFrame(rows))


def pair_part(scores: Scores) -> Part | None:
    """Every pair of methods under every metric."""
    if scores.comparisons.empty:
        return None
    rounds = int(scores.comparisons["analyses"].max()) if "analyses" in scores.comparisons else 1
    text = "Differences are paired over images; p is adjusted by Holm's method over the pairs of a metric"
    text += f" and for {rounds} planned analyses." if rounds > 1 else "."
    return Part("Method against method", (text, *pair_folds(scores)), "pairs")


def pair_folds(scores: Scores) -> Iterable[Block]:
    """The pairs of each metric behind one line."""
    for metric, rows in scores.comparisons.groupby("metric", sort=False):
        caption = f"Method against method under {metric} ({basis_of(scores)})."
        table = pairs_table(rows, caption, f"comparisons-{stem_of(scores, str(metric))}")
        decided = int((rows["side"] == 1).sum())
        yield Fold(f"{metric}: {decided} of {counted(len(rows), 'pair')} significantly different", (table,))


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
        words = [f"image {i}", *map(clean, scores.titles[i : i + 1])]
        words += [clean(one.words) for one in scores.predictions[i : i + 1]]
        maps = {m: map_colours(scaled_map(np.asarray(own[i], float))) for m, own in scores.maps.items() if i < len(own)}
        rows.append(
            ImageRow(", ".join(word for word in words if word), as_bytes(image), {"maps": maps}, values.get(i, {}))
        )
    return Images(tuple(scores.maps), tuple(rows))
