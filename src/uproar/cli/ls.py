"""`uproar ls` and `uproar doctor`."""

from __future__ import annotations

import json
from enum import StrEnum
from importlib import metadata
from typing import Annotated, Any

import typer
from rich.markup import escape

from uproar.cli.completion import LISTINGS
from uproar.cli.console import output, table
from uproar.cli.data import DataRoot
from uproar.cli.json_output import add_to_json
from uproar.cli.next_steps import print_next
from uproar.cli.options import Plugins
from uproar.data.catalogue import CATALOGUE
from uproar.data.locations import find


class Kind(StrEnum):
    """What can be listed."""

    estimators = "estimators"
    tasks = "tasks"
    models = "models"
    fills = "fills"
    metrics = "metrics"
    protocols = "protocols"
    audits = "audits"
    recipes = "recipes"
    claims = "claims"
    studies = "studies"


NEXT = {
    "estimators": "uproar explain --estimators grad,ig shows maps; uproar try 'sg(grad)' checks one",
    "tasks": "uproar data get NAME downloads one; hf:NAME is any set of Hugging Face datasets",
    "models": "uproar run --model NAME; your own: --model net.py:build",
    "fills": "uproar run --fill NAME",
    "metrics": "uproar score --metrics NAME,NAME; ✓ recovers known orders: uproar judge",
    "protocols": "uproar run --protocols NAME,NAME; ✓ recovers known orders: uproar judge",
    "audits": "uproar audit FOLDER --audits NAME,NAME, for the folder of a run",
    "recipes": "uproar run --recipe NAME",
    "claims": "uproar claims FOLDER --claims NAME, for the folder of a run",
    "studies": "uproar validate NAME says what one takes; uproar run NAME runs it",
}
"""What can be done with the names of a list."""


def ls(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help=f"What to list: {', '.join(Kind)}")] = Kind.estimators,
    plugin: Plugins = None,
    data_root: DataRoot = None,
) -> int:
    """List what there is, with options and their defaults."""
    entries: list[dict[str, str]] = []
    for listing in _tables(kind.value, plugin or []):
        columns, rows = listing["columns"], listing["rows"]
        if kind is Kind.tasks:
            columns = [columns[0], "where", *columns[1:]]
            rows = [[name, _where(name), *rest] for name, *rest in rows]
        names = [column.replace(" ", "_") for column in columns]
        entries += [{"group": listing["title"], **dict(zip(names, row, strict=True))} for row in rows]
        shown = table(listing["title"], *columns)
        shown.columns[0].no_wrap = True
        shown.columns[-1].min_width = max((len(word) for row in rows for word in row[-1].split()), default=0)
        for row in rows:
            shown.add_row(*map(escape, row))
        output.print(shown)
    add_to_json(**{kind.value: entries})
    print_next(NEXT[kind.value])
    return 0


def _tables(kind: str, plugins: list[str]) -> list[dict[str, Any]]:
    """The tables of a kind: from the file in the package, or from the registries if anything else adds to them."""
    if not plugins and not _others_declare():
        return list(json.loads(LISTINGS.read_text(encoding="utf-8"))[kind])
    from uproar.cli.listings import tables_of  # torch loads slowly
    from uproar.extend import load_plugin

    for file in plugins:
        load_plugin(file)
    return tables_of(kind)


def _others_declare() -> bool:
    """Whether an installed package declares anything through an entry point."""
    return any(group.startswith("uproar.") for group in metadata.entry_points().groups)


def _where(task: str) -> str:
    known = CATALOGUE.get(task)
    place = None if known is None else find(known)
    return "–" if known is None else "not found" if place is None else str(place)


def doctor() -> int:
    """Say what this installation and machine have: versions, threads, devices."""
    import os
    import platform

    import torch

    from uproar import devices
    from uproar.study.executors import default_jobs

    rows: dict[str, str] = {}
    for name in ("uproar", "torch", "numpy", "scipy", "pandas", "matplotlib", "captum", "ray", "submitit"):
        try:
            rows[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            rows[name] = "not installed (optional)"
    rows["python"] = f"{platform.python_version()} on {platform.platform()}"
    rows["processes by default"] = f"{default_jobs('auto')} ({os.cpu_count()} cores)"
    rows["torch threads"] = str(torch.get_num_threads())
    rows["devices"] = ", ".join(devices.available())
    here = [name for name, known in CATALOGUE.items() if find(known) is not None]
    rows["data sets found"] = ", ".join(here) or "none: see uproar ls tasks"
    shown = table("uproar", "what", "found")
    for name, value in rows.items():
        shown.add_row(name, f"[dim]{value}[/]" if value.endswith("(optional)") else escape(value))
    add_to_json(doctor=[{"what": name, "found": value} for name, value in rows.items()])
    output.print(shown)
    print_next("uproar run compares ten estimators on the built-in digits")
    return 0
