"""What the registries hold, as tables of text. `python -m uproar.cli.listings` writes them beside this file.

`uproar ls` reads that file, since the registries import torch.
"""

from __future__ import annotations

import inspect
import json
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
    registries = {"models": models, "fills": fills}
    if kind in registries:
        return [_entries(kind, registries[kind].values())]
    if kind == "estimators":
        by_role = [(title, [e for e in estimators.values() if e.facts.get("role") == r]) for r, title in ROLES.items()]
        common = _table("common names", ["name", "what it is"], [list(pair) for pair in COMMON_NAMES.items()])
        return [*(_entries(title, entries) for title, entries in by_role), common]
    if kind == "papers":
        shown = {key: exhibits(key) for key in papers()}
        return [
            _table(f"{key}: {title_of(key)}", ["shows", "what"], [one.row for one in own]) for key, own in shown.items()
        ]
    if kind == "metrics":
        by_kind = [(title, [e for e in metrics.values() if e.facts["kind"] == k]) for k, title in KINDS.items()]
        rows = [list(pair) for pair in CHECKS.items()]
        checks = _table("checks of some test images, which raise warnings", ["name", "metric"], rows)
        return [*(_metrics(title, entries) for title, entries in by_kind), checks]
    columns, rows = ["name", "what it is"], []
    if kind == "tasks":
        for entry in tasks.values():
            parts = [f"{entry.summary} {str(entry.facts.get('images', '')).capitalize()}.".strip()]
            parts += [f"Options: {', '.join(entry.options)}."] if entry.options else []
            rows.append([entry.name, " ".join(parts)])
    elif kind == "audits":
        columns = ["name", "question", "options"]
        for entry in audits.values():
            parts = [entry.facts["question"], entry.summary]
            parts += [f"Needs {entry.facts['needs']}."] if entry.facts["needs"] else []
            rows.append([entry.name, " ".join(parts), _options(entry)])
    elif kind == "recipes":
        rows = [[entry.name, " ".join((entry.function.__doc__ or "").split())] for entry in recipes.values()]
    elif kind == "claims":
        columns = ["name", "what it says", "published"]
        for claim in claims_named(tuple(papers_with_claims())):
            rows.append([claim.name, f"{claim.says} ({claim.paper}, {claim.place})", claim.published])
    else:
        rows = [[name, summary(path.read_text(encoding="utf-8"))] for name, path in shipped_studies().items()]
    return [_table(kind, columns, rows)]


def _metrics(title: str, entries: list[Entry]) -> Table:
    rows = []
    for entry in entries:
        facts, parts = entry.facts, [entry.summary]
        if facts["kind"] == "maps":
            parts.append(f"From {facts['low']:g} to {facts['high']:g}; a random map gets {facts['chance']}.")
            parts += [f"Needs {facts['needs']}."] if facts["needs"] else []
        parts += [f"Options: {', '.join(entry.options)}."] if entry.options else []
        better = "higher" if facts["higher_is_better"] else "lower"
        rows.append([entry.name, better, facts["true_to"], _known_order(entry.name), " ".join(parts)])
    return _table(title, ["name", "better", "true to", "τ (order, top)", "what it is"], rows)


def _table(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    return {"title": title, "columns": columns, "rows": rows}


def _entries(title: str, entries: list[Entry]) -> Table:
    rows = [[entry.name, _options(entry), entry.summary] for entry in entries]
    return _table(title, ["name", "options", "what it is"], rows)


def _options(entry: Entry) -> str:
    """The options of an entry with their defaults, as expressions read them."""
    parts = []
    for name, option in entry.options.items():
        plain = option.default is None or isinstance(option.default, bool | int | float | str | tuple)
        default = shown_value(option.default) if plain else str(option.default)
        parts.append(f"{name}={'…' if option.default is inspect.Parameter.empty else default}")
    return ", ".join(parts)


def _known_order(metric: str) -> str:
    """τ with the known order of methods, over the whole order and at the top, with a mark where it is trusted."""
    card = card_of(metric)
    if card is None:
        return "–"
    return f"{card.tau('order').value:.2f}, {card.tau('top').value:.2f}{' ✓' * card.trusted}".replace("-", "−")


def listings_text() -> str:
    """The content of the file that comes with the package: a row a line, so that changes are read easily."""
    return json.dumps({kind.value: tables_of(kind.value) for kind in LISTED}, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    LISTINGS.write_text(listings_text(), encoding="utf-8")
