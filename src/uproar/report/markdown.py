"""A run as a Markdown page to keep under version control: what was run, then the parts of the report.

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

from uproar.report.content import Block, Chapter, Images, Table, flat_facts
from uproar.report.figures import Figure
from uproar.report.formatting import NOTHING, clean, slug
from uproar.report.page import problems_of
from uproar.report.tables import table_files
from uproar.results.claim_outcome import tally
from uproar.results.study import Results
from uproar.wording import duration

KEPT = (
    *("claims.csv", "evaluator.csv", "evaluator_scores.csv"),
    *("results.csv", "verdicts.csv", "comparisons.csv", "metric_values.csv", "audits.csv"),
)
"""The tables that are kept beside a page, verdicts and pairs with the cells they follow from; values per image, which
are larger, are in the folder of the run."""
FACTS = "facts.json"


@dataclass(frozen=True)
class StudyText:
    """What a page says of a run beside its results."""

    summary: str
    """The study in a sentence or two."""
    file: str
    """The text of the study file; empty where there was none."""


def text(words: object) -> str:
    """Words in which nothing is taken for markup, but names in backquotes are code.

    >>> text("a|b <i> 5_6 `x_1`")
    'a\\\\|b &lt;i&gt; 5\\\\_6 `x_1`'
    """
    escapes = {ord("<"): "&lt;", ord(">"): "&gt;"} | {ord(letter): f"\\{letter}" for letter in "\\|_*[]"}
    pieces = re.split(r"(`[^`]*`)", clean(words))
    return "".join(code(p[1:-1]) if i % 2 else p.translate(escapes).replace("`", "'") for i, p in enumerate(pieces))


def code(name: object) -> str:
    """A name as it is typed.

    >>> code("sg_sq(grad)")
    '`sg_sq(grad)`'
    """
    typed = clean(name).replace("`", "'").replace("|", "\\|")
    return f"`{typed}`" if typed else NOTHING


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; heads that start with > are of numbers and stand at the right. Cells are Markdown already.

    >>> print(table(["name", ">n"], [["a", "1"]]))
    | name | n |
    |---|--:|
    | a | 1 |
    """
    marks = ["--:" if head.startswith(">") else "---" for head in heads]
    lines = [[head.removeprefix(">") for head in heads], *rows]
    shown = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([shown[0], "|" + "|".join(marks) + "|", *shown[1:]])


def result_files(
    results: Results, study: StudyText, chapters: Sequence[Chapter], figures: Mapping[str, bytes]
) -> dict[str, bytes]:
    """The page and everything it links to, by place in the folder of results; the page comes last."""
    name = slug([str(results.study.get("name", "study"))])
    tables = table_files(results)
    files = {f"{name}/{kept}": tables[kept] for kept in KEPT if kept in tables}
    facts = facts_of(results, study)
    files[f"{name}/{FACTS}"] = (json.dumps(facts, indent=1, ensure_ascii=False) + "\n").encode()
    links = ", ".join(f"[{file.partition('/')[2]}]({file})" for file in sorted(files))
    lines = [f"# {text(facts['study'])}", text(study.summary)]
    for chapter in chapters:
        place = f"{text(chapter.name)}: " if len(chapters) > 1 else ""
        lines.append(f"**{place}{text(chapter.answer.sentence)}**")
        if chapter.quality is not None:
            lines.append(" ".join(text(words) for words in (chapter.quality.sentence, chapter.quality.warning or "")))
    lines += ["## What was run", table(["what", "value"], [[text(k), text(v)] for k, v in flat_facts(facts)])]
    lines += [f"```toml\n{study.file.strip()}\n```"] if study.file else []
    for chapter in chapters:
        place = f" ({text(chapter.name)})" if len(chapters) > 1 else ""
        for part in (*chapter.paper, *chapter.parts):
            blocks = [line for block in part.blocks for line in _lines(block, name, chapter.prefix)]
            lines += [f"## {part.title}{place}", *blocks] if blocks else []
    problems = [line for block in problems_of(results) for line in _lines(block, name, "")]
    lines += ["## Skipped, failed, noticed", *problems] if problems else []
    lines += ["## Tables", f"With all digits: {links}."]
    shown = set(re.findall(rf"\({re.escape(name)}/([^)]+)\.svg\)", "\n".join(lines)))
    files |= {f"{name}/{figure}.svg": content for figure, content in figures.items() if figure in shown}
    return {**files, f"{name}.md": ("\n\n".join(line for line in lines if line) + "\n").encode()}


def _lines(block: Block, folder: str, prefix: str) -> list[str]:
    """A block as paragraphs; images stay on the HTML page."""
    if isinstance(block, str):
        return [text(block)]
    if isinstance(block, Figure):
        return [
            f"![{text(block.title)}]({folder}/{prefix}{block.name}.svg)",
            f"*{text(block.title)}.* {text(block.reading)}",
        ]
    if isinstance(block, Images):
        return []
    return [text(block.caption), _table(block), text(block.note)]


def _table(block: Table) -> str:
    heads = [(">" * block.numeric(i)) + text(head) for i, head in enumerate(block.frame.columns)]
    return table(heads, [[text(cell) for cell in row] for row in block.frame.itertuples(index=False)])


def linked_files(page: Path) -> set[str]:
    """The files in a page's own folder that it links to, by place in the folder of results; none if it is not there."""
    if not page.is_file():
        return set()
    return set(re.findall(rf"\]\(({re.escape(page.stem)}/[^)/]+)\)", page.read_text("utf-8")))


def facts_of(results: Results, study: StudyText) -> dict[str, Any]:
    """What was run, on what, how often, how long."""
    recorded, wall = results.provenance, results.provenance.get("wall", {})
    both = (results.own_cells, results.scores)
    status = pd.concat([t["status"] for t in both])
    seconds = wall.get("seconds", recorded.get("seconds"))
    return {
        "study": str(results.study.get("name", "study")),
        "tasks": list(dict.fromkeys(task for task, _ in results.settings)),
        "models": list(dict.fromkeys(model for _, model in results.settings)),
        "weights": Path(str(results.study.get("weights") or "")).name,
        "estimators": len({e for t in both for e in t["estimator"]} - {*results.further_rankings}),
        "replicates": len({s for t in both for s in t["seed"]}),
        "test_images": results.test_images,
        "cells": {str(k): int(v) for k, v in status.value_counts(sort=False).items()},
        "claims": tally([one.outcome for one in results.claims]),
        "wall_time": NOTHING if seconds is None else duration(seconds),
        "executor": recorded.get("executor", ""),
        "versions": dict(recorded.get("versions", {})),
        "python": recorded.get("python", ""),
        "machine": recorded.get("machine", ""),
        "data": dict(recorded.get("data", {})),
        "settings": recorded.get("study", ""),
    }
