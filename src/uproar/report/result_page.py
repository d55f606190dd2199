"""A finished run as a page to keep under version control: what was run, the claims, the tables, the figures.

The same run gives the same bytes: nothing is dated, and numbers are those of the store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from uproar.report.anonymous import folders_of, placeless, without
from uproar.report.document import Chapter, chapters_of
from uproar.report.figures import Figure, Pictures
from uproar.report.formatting import NOTHING, count, number, p_value, points, slug, span
from uproar.report.markdown import code, table, text
from uproar.report.printing import draw
from uproar.report.score_table import Cell
from uproar.report.tables import table_files
from uproar.results.judgement import OUTCOMES, Judgement
from uproar.results.study import Results

KEPT = ("claims.csv", "verdicts.csv", "metric_values.csv", "audits.csv")
"""The tables that are kept beside a page; the larger ones can be made again from the store."""
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


def _image(name: str, chapter: Chapter, figure: Figure, title: str) -> str:
    return f"![{text(title)}]({name}/{chapter.name(figure)}.{_kind(figure)})"


def facts_of(results: Results, study: StudyText) -> dict[str, Any]:
    """What was run, on what, how often, how long."""
    known, wall = results.provenance, results.provenance.get("wall", {})
    both = (results.own_cells, results.scores)
    images = sorted({int(n) for t in (results.done, results.scores) for n in t["images"] if n > 0})
    status = pd.concat([t["status"] for t in both])
    return {
        "study": str(results.study.get("name", "study")),
        "summary": study.summary,
        "command": placeless(str(known.get("command", ""))),
        "tasks": list(dict.fromkeys(task for task, _ in results.settings)),
        "models": list(dict.fromkeys(model for _, model in results.settings)),
        "weights": Path(str(results.study.get("weights") or "")).name,
        "estimators": len({e for t in both for e in t["estimator"]}),
        "replicates": len({s for t in both for s in t["seed"]}),
        "test_images": images,
        "cells": {str(k): int(v) for k, v in status.value_counts(sort=False).items()},
        "wall_seconds": wall.get("seconds", known.get("seconds")),
        "stopped_sessions": wall.get("begun", 1) - wall.get("ended", 1),
        "work_seconds": {k: round(v, 1) for k, v in results.work.items()},
        "executor": known.get("executor", ""),
        "versions": dict(known.get("versions", {})),
        "python": known.get("python", ""),
        "machine": known.get("machine", ""),
        "data": dict(known.get("data", {})),
        "settings": known.get("study", ""),
    }


def _page(name: str, results: Results, study: StudyText, chapters: Sequence[Chapter], files: Sequence[str]) -> str:
    facts = facts_of(results, study)
    several = len(chapters) > 1
    parts = [f"# {text(facts['study'])}", text(study.summary), *_networks(chapters)]
    parts += ["## What was run", _facts(facts)]
    if study.file:
        parts += ["The study file:", f"```toml\n{study.file.strip()}\n```"]
    if results.claims:
        parts += ["## Claims", *_claims(results.claims)]
    for chapter in chapters:
        own = f" ({text(chapter.section.name)})" if several else ""
        parts += _paper_figures(name, chapter, own)
        parts += [*_verdicts(chapter, own), *_metrics(chapter, own), *_audits(name, chapter, own)]
    parts += _not_drawn(chapters)
    parts += _problems(results)
    linked = [f"[{file.partition('/')[2]}]({file})" for file in files if file.endswith(("csv", "json"))]
    parts += ["## Tables", f"With all digits: {', '.join(linked)}."]
    return "\n\n".join(part for part in parts if part) + "\n"


def _networks(chapters: Sequence[Chapter]) -> list[str]:
    """How good the explained networks are, and a warning where that is too little."""
    parts = []
    for chapter in chapters:
        if chapter.quality is not None:
            where = f"{text(chapter.section.name)}: " if len(chapters) > 1 else ""
            parts.append(f"{where}{text(chapter.quality.sentence)}")
            if chapter.quality.warning:
                parts.append(f"**Weak network.** {text(chapter.quality.warning)}")
    return parts


def _facts(facts: Mapping[str, Any]) -> str:
    work = facts["work_seconds"]
    stopped = facts["stopped_sessions"]
    rows = [
        ("command", code(facts["command"])),
        ("data", ", ".join(map(code, facts["tasks"]))),
        (
            "network",
            ", ".join(map(code, facts["models"])) + (f" with {code(facts['weights'])}" if facts["weights"] else ""),
        ),
        ("test images", ", ".join(map(str, facts["test_images"])) or NOTHING),
        ("replicates", str(facts["replicates"])),
        ("estimators", str(facts["estimators"])),
        ("cells", ", ".join(f"{n} {state}" for state, n in facts["cells"].items()) or NOTHING),
        (
            "wall time",
            duration(facts["wall_seconds"]) + (f", without {count(stopped, 'stopped session')}" if stopped > 0 else ""),
        ),
        (
            "time inside the work, all processes together, audits apart",
            f"{duration(sum(work.values()))} ({', '.join(f'{k} {duration(v)}' for k, v in work.items() if v)})"
            if any(work.values())
            else NOTHING,
        ),
        ("run by", text(f"{facts['executor']}, {facts['machine']}".strip(", "))),
        ("versions", text(", ".join(f"{k} {v}" for k, v in facts["versions"].items()) + f", Python {facts['python']}")),
        ("fingerprint of the data", ", ".join(code(str(v)[:16]) for v in facts["data"].values())),
        ("fingerprint of the settings", code(str(facts["settings"])[:16])),
    ]
    return table(["what", "value"], rows)


def duration(seconds: float | None) -> str:
    """Seconds as people say them.

    >>> duration(8.2), duration(75), duration(7300), duration(None)
    ('8 s', '1 min 15 s', '2 h 01 min', '–')
    """
    if seconds is None:
        return NOTHING
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


# claims


def tally(outcomes: Sequence[str]) -> str:
    """How many claims came to what.

    >>> tally(["holds", "undecided", "holds"]), tally(["does not hold here"])
    ('2 hold, 1 undecided', '1 does not hold here')
    """
    several = {"holds": "hold", "does not hold here": "do not hold here"}
    counts = {outcome: outcomes.count(outcome) for outcome in OUTCOMES}
    return ", ".join(f"{n} {several.get(o, o) if n > 1 else o}" for o, n in counts.items() if n)


def _claims(claims: Sequence[Judgement]) -> list[str]:
    asked = [one for one in claims if one.deciding is not None]
    several = len({(one.task, one.model) for one in asked}) > 1
    heads = ["claim", "outcome", "found, 95 % interval", "claimed", "n", "published", "where"]
    rows = [_claim_row(one, several) for one in asked]
    parts = [
        f"{count(len(claims), 'claim')}: {tally([one.outcome for one in claims])}. "
        "A claim holds where the whole interval lies in the claimed range, does not hold here where all of it lies "
        "outside, and is undecided otherwise. Of a claim with several numbers the one that decides is shown; all are "
        "in `claims.csv`.",
        table(heads, rows) if rows else "",
    ]
    reasons: dict[str, list[str]] = {}
    for one in claims:
        if one.deciding is None:
            reasons.setdefault(one.reason, []).append(code(one.claim))
    if reasons:
        lines = [f"* {', '.join(names)}: {text(reason)}." for reason, names in reasons.items()]
        parts += ["Not asked:", "\n".join(lines)]
    return parts


def _claim_row(one: Judgement, several: bool) -> list[str]:
    assert one.deciding is not None, "only what was asked has a row"
    where = f", on {code(one.task)} with {code(one.model)}" if several else ""
    m = one.deciding
    return [
        f"{text(one.says)} {code(one.claim)}{where}",
        f"**{one.outcome}**",
        f"{effect(m.effect, m.low, m.high)}: {text(m.what)}",
        m.claimed.replace("-", "−"),
        f"{m.n} {m.of}",
        text(one.published),
        text(one.place),
    ]


def effect(value: float, low: float, high: float) -> str:
    """A number with its interval.

    >>> effect(0.1234, 0.1, float("nan"))
    '+0.123 (+0.100 to –)'
    """
    ends = [NOTHING if end != end else f"{end:+.3f}" for end in (low, high)]
    return f"{value:+.3f} ({ends[0]} to {ends[1]})".replace("-", "−")


# figures and tables


def _paper_figures(name: str, chapter: Chapter, own: str) -> list[str]:
    if not chapter.paper_figures:
        return []
    parts = [f"## As in the paper{own}"]
    for one in chapter.paper_figures:
        parts += [f"### {text(one.title)}", f"*{text(one.paper)}, {text(one.place)}.* {text(one.reading)}"]
        if one.figure is not None:
            parts.append(_image(name, chapter, one.figure, one.title))
        if one.table is not None:
            heads = [text(head) for head in one.table.heads]
            rows = [[text(cell) for cell in row] for row in one.table.rows]
            parts.append(table([heads[0], *(f">{head}" for head in heads[1:])], rows))
            parts += [text(one.table.note)] if one.table.note else []
    return parts


def _not_drawn(chapters: Sequence[Chapter]) -> list[str]:
    """The figures of the papers that no task and model of the study could draw, by reason."""
    drawn_places = {(one.paper, one.place) for chapter in chapters for one in chapter.paper_figures}
    reasons: dict[tuple[str, str], str] = {}
    for one in (m for chapter in chapters for m in chapter.undrawn):
        if (one.paper, one.place) not in drawn_places:
            reasons.setdefault((one.paper, one.place), one.reason)
    by_reason: dict[tuple[str, str], list[str]] = {}
    for (paper, place), reason in reasons.items():
        by_reason.setdefault((paper, reason), []).append(place)
    lines = [
        f"* {text(paper)}, {text(', '.join(places))}: {text(reason)}." for (paper, reason), places in by_reason.items()
    ]
    return ["## Figures of the papers that are not drawn", "\n".join(lines)] if lines else []


def _verdicts(chapter: Chapter, own: str) -> list[str]:
    verdicts = [one for one in chapter.verdicts if one.protocol.retrains]
    parts = [f"## Better than random?{own}"] if verdicts else []
    for one in verdicts:
        rows = [
            [
                code(row["estimator"]),
                points(row["advantage"]),
                span(row["low"], row["high"]),
                p_value(row["p_holm"]),
                str(row["n"]),
                str(row["verdict"]),
            ]
            for row in one.rows
        ]
        heads = ["estimator", ">advantage, accuracy points", ">95 % interval", ">p (Holm)", ">n", "verdict"]
        parts += [f"### {one.protocol.label}: {text(one.figure.title)}", table(heads, rows)]
    return parts


def _metrics(chapter: Chapter, own: str) -> list[str]:
    if chapter.metrics is None:
        return []
    scores = chapter.metrics.table
    rows = []
    for metric in scores.metrics:
        cells = [scores.cells.get((method, metric.name)) for method in scores.methods]
        rows.append([f"{code(metric.name)} {metric.arrow}", *map(_metric_cell, cells)])
    brackets = " In brackets: not ranked, since the metric is undefined for more than a tenth of the images."
    some_unranked = any(cell.value is not None and not cell.ranked for cell in scores.cells.values())
    return [
        f"## Metrics without retraining{own}",
        f"Mean over {scores.basis}; ↑ higher is better, ↓ lower is better. Intervals are in `metric_values.csv`."
        + brackets * some_unranked,
        table(["metric", *(f">{code(m)}" for m in scores.methods)], rows),
    ]


def _metric_cell(cell: Cell | None) -> str:
    """A value with its undefined share, in brackets where it is not ranked."""
    if cell is None or cell.value is None:
        return NOTHING if cell is None or not cell.nan else f"{NOTHING}, {cell.undefined}"
    value = number(cell.value, 3)
    return f"{value if cell.ranked else f'({value})'}{f', {cell.undefined}' if cell.nan else ''}"


def _audits(name: str, chapter: Chapter, own: str) -> list[str]:
    if not chapter.audits:
        return []
    rows = [
        [text(p.finding.title), text(p.finding.question), p.finding.state, text(p.finding.sentence)]
        for p in chapter.audits
    ]
    parts = [f"## Audits{own}", table(["audit", "question", "state", "finding"], rows)]
    for figure in (figure for part in chapter.audits for figure in part.figures):
        parts += [f"### {text(figure.title)}", text(figure.reading), _image(name, chapter, figure, figure.title)]
    return parts


def _problems(results: Results) -> list[str]:
    rows = [
        [row.status, code(row.estimator), str(row.cells), text(row.reason)] for row in results.problems.itertuples()
    ]
    notices = [f"* {text(notice)}" for notice in results.notices]
    parts = ["## What is missing", table(["state", "estimator", ">cells", "reason"], rows)] if rows else []
    return [*parts, *(["## Notices", "\n".join(notices)] if notices else [])]
