"""What results show of themselves in a notebook: the sentence first, then the table behind it.

Each function returns the HTML of one object; the objects call it from `_repr_html_`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from uproar.results.answer import Answer
    from uproar.results.finding import Finding
    from uproar.results.scores import Scores
    from uproar.results.study import Results

ROWS = 40
"""Rows of a table that are shown; the rest is counted."""


def answer_html(answer: Answer) -> str:
    """The sentence, the table of methods by judges, and what supports and limits the answer."""
    table = answer.table.drop(columns=["recommended"], errors="ignore")
    return _block(_sentence(answer.sentence), table_html(table), _list(answer.details))


def scores_html(scores: Scores) -> str:
    """What scores say together, then every method under every metric with its interval."""
    wide = pd.DataFrame()
    if len(scores.table):
        rows = scores.table.assign(shown=[_with_interval(*row) for row in _interval_rows(scores.table)])
        wide = rows.pivot(index="method", columns="metric", values="shown").reset_index()
        wide = wide[["method", *dict.fromkeys(rows["metric"])]]
    quality = [] if scores.quality is None else [scores.quality.sentence]
    return _block(_sentence(scores.answer.sentence), table_html(wide), _list([*quality, *scores.notices]))


def results_html(results: Results) -> str:
    """The answer for each task and model, the verdicts against random, the findings, and what is not finished."""
    several = len(results.views) > 1
    parts = []
    for view in results.views:
        place = f"{view.task} with {view.model}: " if several else ""
        parts.append(_sentence(place + view.answer.sentence))
    shown = ["task", "model", "protocol", "estimator", "advantage", "low", "high", "n", "verdict"]
    verdicts = results.verdicts
    parts.append(table_html(verdicts[[name for name in shown if name in verdicts]]))
    parts.append(_list([f"{one.audit}: {one.state}. {one.sentence}" for one in results.findings]))
    parts.append(_list([f"{one.claim}: {one.outcome}. {one.says}" for one in results.claims]))
    if len(results.problems):
        parts.append(table_html(results.problems))
    return _block(*parts)


def finding_html(finding: Finding) -> str:
    """The question of an audit, its state and sentence, then its tables."""
    head = f"{finding.title or finding.audit}: {finding.state}. {finding.sentence or finding.reason}"
    tables = [_caption(title) + table_html(frame) for title, frame in finding.tables.items()]
    return _block(_sentence(head), _list([finding.question, *finding.notes]), *tables)


def table_html(frame: pd.DataFrame) -> str:
    """A table with its text escaped, its numbers short, and no more than `ROWS` rows; nothing for an empty one."""
    if frame.empty:
        return ""
    body: str = frame.head(ROWS).to_html(index=False, escape=True, border=0, na_rep="", float_format="{:.3g}".format)
    rest = len(frame) - ROWS
    return body + (f"<p>and {rest} more rows</p>" if rest > 0 else "")


def _interval_rows(table: pd.DataFrame) -> Iterable[tuple[float, float, float]]:
    return zip(table["value"], table["low"], table["high"], strict=True)


def _with_interval(value: float, low: float, high: float) -> str:
    """A value with its interval.

    >>> _with_interval(0.5, 0.41, 0.59), _with_interval(0.5, float("nan"), float("nan"))
    ('0.5 [0.41, 0.59]', '0.5')
    """
    return f"{value:.3g}" if low != low else f"{value:.3g} [{low:.3g}, {high:.3g}]"


def _block(*parts: str) -> str:
    return f'<div class="uproar">{"".join(parts)}</div>'


def _sentence(text: str) -> str:
    return f"<p><strong>{html.escape(text)}</strong></p>"


def _caption(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _list(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{html.escape(text)}</li>" for text in sentences if text)
    return f"<ul>{items}</ul>" if items else ""
