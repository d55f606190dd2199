"""What the registries hold, as tables of text. `python -m uproar.cli.listings` writes them beside this file.

`uproar ls` reads that file, since the registries import torch.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

from uproar.audits import audits
from uproar.cli.completion import LISTINGS
from uproar.cli.ls import LISTED
from uproar.data import tasks
from uproar.estimators import estimators
from uproar.estimators.registry import COMMON_NAMES
from uproar.expression import shown_value
from uproar.metrics import metrics
from uproar.models import models
from uproar.papers.claims import claims_named, papers_with_claims
from uproar.protocols import PROTOCOLS
from uproar.registry import Entry
from uproar.removal import fills
from uproar.results.recovery import trust
from uproar.study.spec import shipped_studies, summary
from uproar.training.recipe import recipes

Table = dict[str, Any]

ROLES = {
    "estimator": "estimators",
    "direct": "controls that are not rankings",
    "transform": "transforms, e.g. sq(grad)",
    "ensemble": "ensembles, e.g. sg(grad)",
    "classes": "maps that do not depend on the class asked for, e.g. class_sum(grad)",
    "postprocess": "filters, outermost, e.g. gaussian(sq(grad))",
}
"""Titles of the tables of estimators."""


def tables_of(kind: str) -> list[Table]:
    """The tables that list everything of a kind, plug-ins included."""
    return _TABLES[kind]()


def _table(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    return {"title": title, "columns": columns, "rows": rows}


def _estimators() -> list[Table]:
    entries = estimators.values()
    groups = {title: [entry for entry in entries if entry.facts.get("role") == role] for role, title in ROLES.items()}
    common = _table("common names", ["name", "what it is"], [list(pair) for pair in COMMON_NAMES.items()])
    return [*(_entries(title, group) for title, group in groups.items()), common]


def _entries(title: str, entries: list[Entry]) -> Table:
    rows = [[entry.name, _options(entry), entry.summary] for entry in entries]
    return _table(title, ["name", "options", "what it is"], rows)


def _options(entry: Entry) -> str:
    return ", ".join(f"{name}={_default(p.default)}" for name, p in entry.options.items())


def _default(value: object) -> str:
    if value is inspect.Parameter.empty:
        return "…"
    if value is None or isinstance(value, bool | int | float | str | tuple):
        return shown_value(value)
    return str(value)


def _tasks() -> list[Table]:
    rows = []
    for entry in tasks.values():
        facts = [f"{entry.summary} {str(entry.facts.get('images', '')).capitalize()}.".strip()]
        facts += [f"Options: {', '.join(entry.options)}."] if entry.options else []
        rows.append([entry.name, " ".join(facts)])
    return [_table("tasks", ["name", "what it is"], rows)]


def _metrics() -> list[Table]:
    rows = []
    for entry in metrics.values():
        facts = entry.facts
        lines = [f"{entry.summary} From {facts['low']:g} to {facts['high']:g}; a random map gets {facts['chance']}."]
        lines += [f"Needs {facts['needs']}."] if facts["needs"] else []
        lines += [f"Options: {', '.join(entry.options)}."] if entry.options else []
        better = "higher" if facts["higher_is_better"] else "lower"
        rows.append([entry.name, better, facts.get("true_to", ""), _recovery(entry.name), " ".join(lines)])
    return [_table("metrics", ["name", "better", "true to", "recovery", "what it is"], rows)]


def _recovery(judge: str) -> str:
    """How well a metric or protocol recovers known orders, with a mark where it is trusted."""
    known = trust(judge)
    return "–" if known is None else f"{known.recovery.value:.2f}{' ✓' * known.trusted}".replace("-", "−")


def _protocols() -> list[Table]:
    rows = []
    for protocol in PROTOCOLS.values():
        better = "higher accuracy" if protocol.higher_is_better else "lower accuracy"
        rows.append([protocol.name, protocol.summary, better, protocol.true_to, _recovery(protocol.name)])
    return [_table("protocols", ["name", "what it does", "better is", "true to", "recovery"], rows)]


def _audits() -> list[Table]:
    rows = []
    for entry in audits.values():
        lines = [entry.facts["question"], entry.summary]
        lines += [f"Needs {entry.facts['needs']}."] if entry.facts["needs"] else []
        rows.append([entry.name, " ".join(lines), _options(entry)])
    return [_table("audits", ["name", "question", "options"], rows)]


def _recipes() -> list[Table]:
    rows = [[entry.name, " ".join((entry.function.__doc__ or "").split())] for entry in recipes.values()]
    return [_table("recipes", ["name", "what it is"], rows)]


def _claims() -> list[Table]:
    rows = [
        [one.name, f"{one.says} ({one.paper}, {one.place})", one.published]
        for one in claims_named(tuple(papers_with_claims()))
    ]
    return [_table("claims", ["name", "what it says", "published"], rows)]


def _studies() -> list[Table]:
    rows = [[name, summary(path.read_text(encoding="utf-8"))] for name, path in shipped_studies().items()]
    return [_table("studies", ["name", "what it is"], rows)]


_TABLES: dict[str, Callable[[], list[Table]]] = {
    "estimators": _estimators,
    "tasks": _tasks,
    "models": lambda: [_entries("models", models.values())],
    "fills": lambda: [_entries("fills", fills.values())],
    "metrics": _metrics,
    "protocols": _protocols,
    "audits": _audits,
    "recipes": _recipes,
    "claims": _claims,
    "studies": _studies,
}


def listings_text() -> str:
    """The content of the file that comes with the package: a row a line, so that changes are read easily."""
    return json.dumps({kind.value: tables_of(kind.value) for kind in LISTED}, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    LISTINGS.write_text(listings_text(), encoding="utf-8")
