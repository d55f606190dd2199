"""A finished run as a page to keep under version control: what was run, the claims, the tables, the figures.

The same run gives the same bytes: nothing is dated, and numbers are those of the store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from uproar import remaining_time
from uproar.report.anonymous import folders_of, without, without_paths
from uproar.report.answer import as_markdown
from uproar.report.claims import claim_test
from uproar.report.document import Chapter, chapters_of
from uproar.report.figures import Figure, Pictures
from uproar.report.formatting import (
    NOTHING,
    degrees,
    known,
    level_text,
    number,
    p_value,
    points,
    slug,
    span,
    stopped_early,
)
from uproar.report.markdown import code, text
from uproar.report.page import TEMPLATES
from uproar.report.printing import draw
from uproar.report.score_table import Cell
from uproar.report.tables import table_files
from uproar.results.claim_outcome import tally
from uproar.results.recovery import recovery_words
from uproar.results.study import Results
from uproar.statistics.intervals import Interval
from uproar.wording import counted

KEPT = (
    *("claims.csv", "evaluator.csv", "evaluator_scores.csv", "evaluator_comparisons.csv"),
    *("results.csv", "verdicts.csv", "comparisons.csv", "metric_values.csv", "audits.csv"),
)
"""The tables that are kept beside a page, verdicts and pairs with the cells they follow from; values per image, which
are larger, are in the folder of the run, and can be made again from the store."""
FACTS = "facts.json"


@dataclass(frozen=True)
class StudyText:
    """What a page says of a run beside its results."""

    summary: str
    """The study in a sentence or two."""
    file: str
    """The text of the study file; empty where there was none."""


def result_files(results: Results, study: StudyText) -> dict[str, bytes]:
    """The page and everything it links to, by place in the folder of results; the page comes last."""
    name = slug([str(results.study.get("name", "study"))])
    chapters = chapters_of(results)
    tables = table_files(results, chapters)
    files = {f"{name}/{kept}": tables[kept] for kept in KEPT if kept in tables}
    if not len(results.done):
        files.pop(f"{name}/verdicts.csv", None)
    for chapter in chapters:
        shown = [one.figure for one in chapter.paper_figures if one.figure is not None]
        for figure in (*shown, *(figure for part in chapter.audits for figure in part.figures)):
            drawing = draw(figure, chapter.name(figure), (_kind(figure),))
            files |= {f"{name}/{file}": content for file, content in drawing.files.items()}
    facts = facts_of(results, study)
    files[f"{name}/{FACTS}"] = (json.dumps(facts, indent=1, ensure_ascii=False) + "\n").encode()
    page = _page(name, results, study, chapters, sorted(files))
    whole = {**files, f"{name}.md": page.encode()}
    folders = folders_of(results)
    return {place: without(folders, content) for place, content in whole.items()}


def linked_files(page: Path) -> set[str]:
    """The files in a page's own folder that it links to, by place in the folder of results; none if it is not there."""
    if not page.is_file():
        return set()
    return set(re.findall(rf"\]\(({re.escape(page.stem)}/[^)/]+)\)", page.read_text("utf-8")))


def _kind(figure: Figure) -> str:
    return "png" if isinstance(figure.plots[0], Pictures) else "svg"


def facts_of(results: Results, study: StudyText) -> dict[str, Any]:
    """What was run, on what, how often, how long."""
    recorded, wall = results.provenance, results.provenance.get("wall", {})
    both = (results.own_cells, results.scores)
    status = pd.concat([t["status"] for t in both])
    return {
        "study": str(results.study.get("name", "study")),
        "summary": study.summary,
        "command": without_paths(str(recorded.get("command", ""))),
        "tasks": list(dict.fromkeys(task for task, _ in results.settings)),
        "models": list(dict.fromkeys(model for _, model in results.settings)),
        "weights": Path(str(results.study.get("weights") or "")).name,
        "estimators": len({e for t in both for e in t["estimator"]} - {*results.further_rankings}),
        "replicates": len({s for t in both for s in t["seed"]}),
        "test_images": results.test_images,
        "cells": {str(k): int(v) for k, v in status.value_counts(sort=False).items()},
        "wall_seconds": wall.get("seconds", recorded.get("seconds")),
        "stopped_sessions": wall.get("begun", 1) - wall.get("ended", 1),
        "work_seconds": {k: round(v, 1) for k, v in results.work.items()},
        "executor": recorded.get("executor", ""),
        "versions": dict(recorded.get("versions", {})),
        "python": recorded.get("python", ""),
        "machine": recorded.get("machine", ""),
        "data": dict(recorded.get("data", {})),
        "settings": recorded.get("study", ""),
    }


def _page(name: str, results: Results, study: StudyText, chapters: Sequence[Chapter], files: Sequence[str]) -> str:
    """The Markdown page; `name` is that of its folder."""

    def image(chapter: Chapter, figure: Figure, title: str) -> str:
        return f"![{text(title)}]({name}/{chapter.name(figure)}.{_kind(figure)})"

    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(
        loader=loader,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "as_markdown": as_markdown,
        "recovery": recovery_words,
        "code": code,
        "duration": duration,
        "groups": _groups,
        "known": known,
        "metric_cell": _metric_cell,
        "degrees": degrees,
        "p_value": p_value,
        "points": points,
        "stopped_early": stopped_early,
        "text": text,
    }
    tested = {(one.task, one.model) for one in results.claims if one.deciding is not None}
    return environment.get_template("results.md").render(
        facts=facts_of(results, study),
        study=study,
        chapters=chapters,
        several=len(chapters) > 1,
        claims=results.claims,
        several_claims=len(tested) > 1,
        undrawn=_undrawn(chapters),
        problems=results.problems.to_dict("records"),
        notices=results.notices,
        links=[f"[{file.partition('/')[2]}]({file})" for file in files if file.endswith(("csv", "json"))],
        image=image,
        NOTHING=NOTHING,
        counted=counted,
        effect=effect,
        claim_test=claim_test,
        span=span,
        tally=tally,
        work_time=_work_time,
    )


def _groups(rows: Iterable[Any], attribute: str) -> list[tuple[str, list[Any]]]:
    """Rows by one of their attributes, in the order in which its values come."""
    groups: dict[str, list[Any]] = {}
    for row in rows:
        groups.setdefault(getattr(row, attribute), []).append(row)
    return list(groups.items())


def _work_time(seconds: Mapping[str, float]) -> str:
    """The sum of what was worked, and its parts."""
    parts = ", ".join(f"{name} {duration(own)}" for name, own in seconds.items() if own)
    return f"{duration(sum(seconds.values()))} ({parts})" if parts else NOTHING


def _undrawn(chapters: Sequence[Chapter]) -> dict[tuple[str, str], list[str]]:
    """The figures of the papers that no task and model of the study could draw, by paper and reason."""
    drawn = {(one.paper, one.place) for chapter in chapters for one in chapter.paper_figures}
    reasons: dict[tuple[str, str], str] = {}
    for one in (one for chapter in chapters for one in chapter.undrawn):
        if (one.paper, one.place) not in drawn:
            reasons.setdefault((one.paper, one.place), one.reason)
    places: dict[tuple[str, str], list[str]] = {}
    for (paper, place), reason in reasons.items():
        places.setdefault((paper, reason), []).append(place)
    return places


def _metric_cell(cell: Cell | None) -> str:
    """A value with its undefined share, in brackets where it is not ranked."""
    if cell is None or cell.value is None:
        return NOTHING if cell is None or not cell.nan else f"{NOTHING}, {cell.undefined}"
    value = number(cell.value, 3)
    return f"{value if cell.ranked else f'({value})'}{f', {cell.undefined}' if cell.nan else ''}"


def duration(seconds: float | None) -> str:
    """Seconds as people say them, a dash where they were not measured."""
    return NOTHING if seconds is None else remaining_time.duration(seconds)


def effect(interval: Interval) -> str:
    """A number with its interval.

    >>> effect(Interval(0.1234)), effect(Interval(0.1234, note="nothing varies"))
    ('+0.123 (no interval)', '+0.123 (no interval: nothing varies)')
    >>> effect(Interval(0.1234, 0.1, 0.2, level=0.9967)).replace("\u00a0", " ")
    '+0.123 (+0.100 to +0.200 at 99.7 %)'
    """
    ends = f"{interval.low:+.3f} to {interval.high:+.3f}{level_text(interval.level, ' at ')}"
    if interval.low != interval.low:
        ends = f"no interval: {interval.note}" if interval.note else "no interval"
    return f"{interval.value:+.3f} ({ends})".replace("-", "−")
