"""A run as a Markdown page to keep under version control: what was run, then the parts of the report.

The same run gives the same bytes: nothing is dated, and numbers are those of the store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from uproar.report.content import Block, Chapter, Images, Table, facts_table
from uproar.report.figures import Figure
from uproar.report.formatting import NOTHING, clean, slug
from uproar.report.page import problems_of
from uproar.report.tables import LARGE, table_files
from uproar.results.claim_outcome import tally
from uproar.results.study import Results
from uproar.wording import duration

FACTS = "facts.json"


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


def table(block: Table) -> str:
    """A table; numbers stand at the right.

    >>> print(table(Table(pd.DataFrame({"name": ["a"], "n": ["1"]}))))
    | name | n |
    |---|--:|
    | a | 1 |
    """
    frame = block.frame
    marks = ["--:" if block.numeric(column) else "---" for column in range(len(frame.columns))]
    shown = ["| " + " | ".join(map(text, line)) + " |" for line in (frame.columns, *frame.itertuples(index=False))]
    return "\n".join([shown[0], "|" + "|".join(marks) + "|", *shown[1:]])


def result_files(
    results: Results, summary: str, file: str, chapters: Sequence[Chapter], figures: Mapping[str, bytes]
) -> dict[str, bytes]:
    """The page and everything it links to, by place in the folder of results; the page comes last.

    `summary` says in a sentence what the study is, `file` is the text of the study file.
    """
    name = slug([str(results.study.get("name", "study"))])
    tables = {csv: rows for csv, rows in table_files(results).items() if csv.partition(".")[0] not in LARGE}
    files = {f"{name}/{csv}": rows for csv, rows in tables.items() if "/" not in csv}
    facts = facts_of(results)
    files[f"{name}/{FACTS}"] = (json.dumps(facts, indent=1, ensure_ascii=False) + "\n").encode()
    links = ", ".join(f"[{file.partition('/')[2]}]({file})" for file in sorted(files))
    lines = [f"# {text(facts['study'])}", text(summary)]
    for chapter in chapters:
        heading = f"{text(chapter.name)}: " if len(chapters) > 1 else ""
        lines.append(f"**{heading}{text(chapter.answer.sentence)}**")
        if chapter.quality is not None:
            lines.append(" ".join(text(words) for words in (chapter.quality.sentence, chapter.quality.warning or "")))
    lines += ["## What was run", table(facts_table(facts))]
    lines += [f"```toml\n{file.strip()}\n```"] if file else []
    for chapter in chapters:
        suffix = f" ({text(chapter.name)})" if len(chapters) > 1 else ""
        for section in (*chapter.paper, *chapter.parts):
            blocks = [line for block in section.blocks for line in _lines(block, name, chapter.prefix)]
            lines += [f"## {section.title}{suffix}", *blocks] if blocks else []
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
    return [text(block.caption), table(block), text(block.note)]


def facts_of(results: Results) -> dict[str, Any]:
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
        "claims": tally([claim.outcome for claim in results.claims]),
        "wall_time": NOTHING if seconds is None else duration(seconds),
        "executor": recorded.get("executor", ""),
        "versions": dict(recorded.get("versions", {})),
        "python": recorded.get("python", ""),
        "machine": recorded.get("machine", ""),
        "data": dict(recorded.get("data", {})),
        "settings": recorded.get("study", ""),
    }
