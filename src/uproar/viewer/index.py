"""What the page knows of a task and model before anything is asked for: names, verdicts, accuracies."""

from __future__ import annotations

from typing import Any

import pandas as pd

from uproar.metrics import metrics
from uproar.metrics.registry import read_metric
from uproar.protocols import Protocol
from uproar.report.answer import AnswerPart, answer_part
from uproar.report.formatting import clean
from uproar.report.section import Section
from uproar.report.style import REFERENCE
from uproar.results.view import StudyView
from uproar.study.image_evidence import ImageEvidence


def setting_index(view: StudyView, section: Section, one: ImageEvidence) -> dict[str, Any]:
    """Everything that is small, of one task and model."""
    task, answer = one.bench.task, answer_part(view.answer, section.styles)
    channels, high, wide = task.shape
    return {
        "task": view.task,
        "model": view.model,
        "sentence": view.answer.sentence,
        "details": list(view.answer.details),
        "network": "" if view.quality is None else view.quality.sentence,
        "warning": "" if view.quality is None or view.quality.warning is None else view.quality.warning,
        "images": one.count,
        "images_in_run": len(task.test),
        "classes": list(task.classes) if one.has_classes else [],
        "shape": [high, wide, 3 if channels == 3 else 1],
        "fractions": list(one.study.fractions),
        "seeds": list(one.study.seeds),
        "fill": {"name": one.study.fill, "colour": one.constant_fill},
        "judges": [[judge.label, judge.able, judge.why] for judge in answer.columns],
        "methods": _methods(answer, section, one),
        "protocols": [_protocol(view, p, one) for p in one.protocols],
        "metrics": [_metric(name) for name in one.study.metric_names],
    }


def _methods(answer: AnswerPart, section: Section, one: ImageEvidence) -> list[dict[str, Any]]:
    """Every method with how it is drawn, its letters, and what every judge says of it."""
    rows = {row.method: row for row in answer.rows}
    places = {row.method: place for place, row in enumerate(answer.rows)}
    judges = [column.label for column in answer.columns]
    made = []
    for chain in one.methods:
        style, row = section.styles.get(clean(chain.name), REFERENCE), rows.get(clean(chain.name))
        cells = [] if row is None else [None if c is None else [c.kind, c.words, c.control] for c in row.cells]
        made.append(
            {
                "name": chain.name,
                "light": style.light,
                "dark": style.dark,
                "group": "" if row is None else row.group,
                "place": None if row is None else places[row.method],
                "begins": row is not None and row.begins,
                "standing": "" if row is None else row.standing,
                "judged": {judge: cell for judge, cell in zip(judges, cells, strict=False) if cell is not None},
                "flags": [] if row is None else [[flag.kind, flag.why] for flag in row.flags],
                "not_checked": "" if row is None else row.not_checked,
                "network_free": chain.is_network_free,
            }
        )
    return made


def _protocol(view: StudyView, protocol: Protocol, one: ImageEvidence) -> dict[str, Any]:
    """A protocol with the mean accuracy of every method at every fraction, and its verdicts."""
    frame, verdicts = view.intervals.get(protocol.name), view.verdicts.get(protocol.name)
    rows = () if frame is None else frame.itertuples()
    means = {(str(r.estimator), round(float(r.fraction), 9)): r.mean for r in rows}
    return {
        "name": protocol.name,
        "label": protocol.label,
        "keeps": protocol.keeps,
        "summary": protocol.summary,
        "target": protocol.target if protocol.evaluator else "label",
        "own_mask": protocol.test.of == "own",
        "higher_is_better": protocol.higher_is_better,
        "accuracy": [[means.get((c.name, round(t, 9))) for t in one.study.fractions] for c in one.methods],
        "verdicts": {} if verdicts is None else _verdicts(verdicts),
    }


def _verdicts(frame: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(r.estimator): [int(r.side), str(r.verdict), float(r.advantage)] for r in frame.itertuples()}


def _metric(name: str) -> dict[str, Any]:
    entry = metrics[read_metric(name).name]
    return {"name": name, "higher_is_better": entry.facts["higher_is_better"]}
