"""The board of metrics as data and as the part of its page that follows from the data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from uproar.results.board import COLUMNS, Card, cards


def board_page(table: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    """What the board says, in Markdown: a row per metric, the higher of the lower τ first."""
    head = ["metric", "τ whole order", "τ top k", "held out", "degraded", "trusted", "impostors that fool it"]
    head += ["adversaries that fool it"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for card in cards(table):
        held_out = ", ".join(f"{card.tau(by, 'held-out').value:.2f}" for by in ("order", "top"))
        cells = [f"`{card.metric}`", _with_ends(card, "order"), _with_ends(card, "top"), held_out]
        cells += [f"{card.tau('degraded').value:.2f}", "yes" if card.trusted else "no"]
        cells += [_fooled(card, impostors=True), _fooled(card, impostors=False)]
        lines.append(f"| {' | '.join(cells)} |".replace("-0.", "−0."))
    made = (
        f"Made by `{facts['command']}` with uproar {facts['version']}, torch {facts['torch']}, Python "
        f"{facts['python']}; {facts['minutes']} minutes of processor time. In brackets the 95 % interval over kinds of "
        "networks; *held out*: both τ on the held-out networks alone; beside a map, on how many networks it fools the "
        "metric."
    )
    return "\n".join([made, "", *lines, ""])


def _with_ends(card: Card, by: str) -> str:
    tau = card.tau(by)
    ends = f" ({tau.low:.2f} … {tau.high:.2f})" if math.isfinite(tau.low) else ""
    return f"{tau.value:.2f}{ends}"


def _fooled(card: Card, impostors: bool) -> str:
    by_map = card.fooled_by(impostors)
    return ", ".join(f"`{name}` {len(where)}" for name, where in by_map.items()) or "–"


def board_json(table: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    """The same as data, a row a line."""
    rows = [
        json.dumps([None if isinstance(v, float) and not math.isfinite(v) else v for v in row], ensure_ascii=False)
        for row in table.round(4)[[*COLUMNS]].to_numpy(dtype=object).tolist()
    ]
    head = json.dumps({**facts, "columns": [*COLUMNS]}, ensure_ascii=False)[:-1]
    return head + ', "rows": [\n' + ",\n".join(rows) + "\n]}\n"
