"""What the registries hold, as tables of text. `python -m uproar.cli.listings` writes them beside this file.

`uproar ls` and shells that complete names read that file, since the registries import torch.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Sequence
from typing import Any

from uproar.audits import audits
from uproar.cli.ls import LISTED
from uproar.cli.options import LISTINGS
from uproar.data import tasks
from uproar.estimators import estimators
from uproar.estimators.registry import COMMON_NAMES
from uproar.expression import shown_value
from uproar.metrics import metrics
from uproar.metrics.registry import CHECKS
from uproar.models import models
from uproar.papers import papers, shipped_studies, title_of
from uproar.papers.claims import claims_named, papers_with_claims
from uproar.papers.exhibits import exhibits
from uproar.registry import Entry
from uproar.removal import fills
from uproar.results.board import card_of
from uproar.study.spec import summary
from uproar.training.recipe import recipes

Table = dict[str, Any]
ROLES = {
    "estimator": "estimators",
    "direct": "controls that are not rankings",
    "transform": "transforms, e.g. sq(grad)",
    "ensemble": "ensembles, e.g. sg(grad)",
    "postprocess": "filters, outermost, e.g. gaussian(sq(grad))",
}
"""Titles of the tables of estimators."""
KINDS = {
    "evaluator": "metrics by an evaluator (a study, or choose with training images)",
    "retraining": "metrics by networks on changed images (a study)",
    "maps": "metrics of maps, no training",
}
"""Titles of the tables of metrics."""


def tables_of(kind: str) -> list[Table]:
    """The tables that list everything of a kind, plug-ins included."""
    if kind == "estimators":
        common = _table("common names", "name, what it is", COMMON_NAMES.items())
        by_role = {title: [e for e in estimators.values() if e.facts.get("role") == r] for r, title in ROLES.items()}
        return [*(_entries(title, entries) for title, entries in by_role.items()), common]
    if kind == "models":
        return [_entries(kind, models.values())]
    if kind == "fills":
        return [_entries(kind, fills.values())]
    if kind == "papers":
        shown = {f"{key}: {title_of(key)}": [each.row for each in exhibits(key)] for key in papers()}
        return [_table(title, "shows, what", rows) for title, rows in shown.items() if rows]
    if kind == "metrics":
        by_kind = {title: [_metric(e) for e in metrics.values() if e.facts["kind"] == k] for k, title in KINDS.items()}
        columns = "name, better, τ (order; top), what it is"
        checks = _table("checks of some test images, which raise warnings", "name, metric", CHECKS.items())
        return [*(_table(title, columns, rows) for title, rows in by_kind.items()), checks]
    if kind == "tasks":
        facts = [(e, f"{e.summary} {str(e.facts.get('images', '')).capitalize()}.".strip()) for e in tasks.values()]
        return [_table(kind, "name, what it is", [(e.name, f"{text}{_option_names(e)}") for e, text in facts])]
    if kind == "audits":
        rows = [(e.name, f"{e.facts['question']} {e.summary}{_needs(e)}", _options(e)) for e in audits.values()]
        return [_table(kind, "name, question, options", rows)]
    if kind == "recipes":
        docs = {entry.name: " ".join((entry.function.__doc__ or "").split()) for entry in recipes.values()}
        return [_table(kind, "name, what it is", docs.items())]
    if kind == "claims":
        claims = claims_named(tuple(papers_with_claims()))
        rows = [(claim.name, f"{claim.says} ({claim.paper}, {claim.place})", claim.published) for claim in claims]
        return [_table(kind, "name, what it says, published", rows)]
    texts = {name: summary(path.read_text(encoding="utf-8")) for name, path in shipped_studies().items()}
    return [_table(kind, "name, what it is", texts.items())]


def _table(title: str, columns: str, rows: Any) -> Table:
    return {"title": title, "columns": columns.split(", "), "rows": [list(row) for row in rows]}


def _entries(title: str, entries: Sequence[Entry]) -> Table:
    return _table(title, "name, options, what it is", [(e.name, _options(e), e.summary) for e in entries])


def _metric(entry: Entry) -> tuple[str, str, str, str]:
    """Its name, direction, agreement with known orders (with a mark where it is trusted), and what it is."""
    facts, card = entry.facts, card_of(entry.name)
    text = f"{entry.summary} True to the {facts['true_to']}." if facts["true_to"] else entry.summary
    if facts["kind"] == "maps":
        text += f" From {facts['low']:g} to {facts['high']:g}; a random map gets {facts['chance']}.{_needs(entry)}"
    known = "–"
    if card is not None:
        known = f"{card.tau('order').value:.2f}; {card.tau('top').value:.2f}{' ✓' * card.trusted}".replace("-", "−")
    return entry.name, "higher" if facts["higher_is_better"] else "lower", known, text + _option_names(entry)


def _needs(entry: Entry) -> str:
    return f" Needs {entry.facts['needs']}." if entry.facts["needs"] else ""


def _option_names(entry: Entry) -> str:
    return f" Options: {', '.join(entry.options)}." if entry.options else ""


def _options(entry: Entry) -> str:
    """The options of an entry with their defaults, as expressions read them."""
    parts = []
    for name, option in entry.options.items():
        plain = option.default is None or isinstance(option.default, bool | int | float | str | tuple)
        default = shown_value(option.default) if plain else str(option.default)
        parts.append(f"{name}={'…' if option.default is inspect.Parameter.empty else default}")
    return ", ".join(parts)


def listings_text() -> str:
    """The content of the file that comes with the package: a row a line, so that changes are read easily."""
    text = json.dumps({kind: tables_of(kind) for kind in LISTED}, indent=1, ensure_ascii=False)
    row = r'\[\n +("[^\n]*"(?:,\n +"[^\n]*")*)\n +\]'
    return re.sub(row, lambda match: "[" + re.sub(r"\n +", " ", match[1]) + "]", text) + "\n"


if __name__ == "__main__":
    LISTINGS.write_text(listings_text(), encoding="utf-8")
