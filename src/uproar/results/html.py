"""What results show of themselves in a notebook (`_repr_html_`): a sentence first, then the tables behind it."""

from __future__ import annotations

import html
from collections.abc import Iterable

import pandas as pd

ROWS = 40
"""Rows of a table that are shown; the rest is counted."""


def block(sentences: Iterable[str], *parts: pd.DataFrame | Iterable[str]) -> str:
    """Sentences in bold, then tables and lists, with all text escaped."""
    lines = [f"<p><strong>{html.escape(text)}</strong></p>" for text in sentences]
    for piece in parts:
        lines.append(table_html(piece) if isinstance(piece, pd.DataFrame) else _list(piece))
    return f'<div class="uproar">{"".join(lines)}</div>'


def table_html(frame: pd.DataFrame) -> str:
    """A table with its text escaped, its numbers short, and no more than `ROWS` rows; nothing for an empty one."""
    if frame.empty:
        return ""
    body: str = frame.head(ROWS).to_html(index=False, escape=True, border=0, na_rep="", float_format="{:.3g}".format)
    rest = len(frame) - ROWS
    return body + (f"<p>and {rest} more rows</p>" if rest > 0 else "")


def _list(sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{html.escape(text)}</li>" for text in sentences if text)
    return f"<ul>{items}</ul>" if items else ""
