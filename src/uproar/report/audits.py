"""The audits of one task and model in the words of the templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from uproar.report.audit_figures import AuditFigure, audit_figure
from uproar.report.figures import Forest
from uproar.report.formatting import NOTHING, clean, number, slug
from uproar.report.style import Style
from uproar.report.svg_charts import audit_chart
from uproar.results.finding import Finding, nothing_against

KINDS = {"misleads": "worse", "holds": "better", "cannot tell": "unclear", "skipped": "skipped"}
WORDS = {"misleads": "misleads here", "holds": "holds here", "cannot tell": "cannot tell", "skipped": "not answered"}
ROWS = 60
"""Rows of a table on the page; all of them are in the files."""


@dataclass(frozen=True)
class AuditPart:
    """One finding with its figures ready to be drawn."""

    finding: Finding
    figures: tuple[AuditFigure, ...]

    @property
    def anchor(self) -> str:
        return f"audit-{slug([self.finding.audit])}"


def audit_parts(findings: list[Finding], looks: Mapping[str, Style]) -> tuple[AuditPart, ...]:
    """The findings in the order in which they were asked for."""
    return tuple(
        AuditPart(found, tuple(audit_figure(p, slug([found.audit]), looks) for p in found.plots)) for found in findings
    )


def audit_view(part: AuditPart, prefix: str, identity: str) -> dict[str, Any]:
    """One finding as the template prints it."""
    found = part.finding
    return {
        "anchor": f"{identity}-{part.anchor}",
        "title": clean(found.title),
        "name": clean(found.audit),
        "question": clean(found.question),
        "kind": KINDS[found.state],
        "state": WORDS[found.state],
        "sentence": clean(found.sentence).removeprefix("Not answered: "),
        "notes": [clean(note) for note in found.notes],
        "marks": [
            {"protocol": m.protocol, "estimator": clean(m.estimator), "text": m.text, "why": clean(m.why)}
            for m in found.marks
        ],
        "figures": [
            {
                "title": f.title,
                "reading": f.reading,
                "stem": f"figures/{prefix}{f.name}",
                "key": prefix + f.name,
                "high": f.plot.kind == "heatmap",
                "rows": len(f.rows),
                "static": audit_chart(f),
            }
            for f in part.figures
        ],
        "tables": [_table(title, frame) for title, frame in found.tables.items()],
    }


def trust_view(parts: tuple[AuditPart, ...], forest: Forest, identity: str) -> dict[str, list[dict[str, str]]] | None:
    """By estimator: what the audits say of its verdict, each linked to its evidence; None without audits."""
    asked = [part for part in parts if part.finding.state != "skipped"]
    if not asked:
        return None
    found: dict[str, list[dict[str, str]]] = {row.label: [] for row in forest.rows}
    for part in asked:
        for mark in part.finding.marks:
            name = clean(mark.estimator)
            if mark.protocol == forest.protocol and name in found:
                where = f"{identity}-{part.anchor}"
                told = {"text": mark.text, "why": clean(mark.why), "anchor": where, "kind": "warned"}
                found[name].append(told)
    quiet = {
        "text": "holds",
        "why": clean(nothing_against(part.finding for part in asked)),
        "anchor": f"{identity}-audits",
        "kind": "better",
    }
    return {name: marks or [quiet] for name, marks in found.items()}


def _table(title: str, frame: pd.DataFrame) -> dict[str, Any]:
    shown = frame.head(ROWS)
    return {
        "title": clean(title),
        "heads": [clean(c).replace("_", " ") for c in frame.columns],
        "rows": [[_cell(v) for v in row] for row in shown.itertuples(index=False)],
        "more": len(frame) - len(shown),
    }


def _cell(value: Any) -> str:
    if value is None or value != value:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(float(value), 4) if isinstance(value, float) else clean(value)
