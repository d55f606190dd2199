"""`uproar ls`: what there is, versions, devices."""

from __future__ import annotations

import os
import platform
from enum import StrEnum
from importlib import metadata
from typing import Annotated, Any

from uproar.cli.options import Plugins, argument, listing, load_plugins
from uproar.cli.screen import add_to_json, print_next, print_table
from uproar.data.locations import CATALOGUE, find

NEXT = {
    "estimators": "uproar explain --estimators grad,ig shows maps; uproar check 'sg(grad)' checks one",
    "tasks": "uproar data get NAME downloads one; hf:NAME is any set of Hugging Face datasets",
    "models": "uproar run --model NAME; your own: --model net.py:build",
    "fills": "uproar run --fill NAME",
    "metrics": "uproar run --metrics A,B uses them; ✓ trusted by the board",
    "audits": "uproar audit FOLDER --audits NAME,NAME, for the folder of a run",
    "recipes": "uproar run --recipe NAME",
    "claims": "uproar report FOLDER --claims NAME, for the folder of a run",
    "papers": "uproar run NAME --figure N (or --table N) runs what a figure needs, in minutes, and draws it",
    "studies": "uproar run NAME runs one; uproar run NAME --dry-run says how long it takes",
}
"""What can be listed, and what can be done with the names."""
LISTED = tuple(NEXT)
Kind = StrEnum("Kind", [*LISTED, "versions"])  # type: ignore[misc]  # typer offers these words


def ls(
    kind: Annotated[Kind | None, argument("KIND", f"What to list: {', '.join(Kind)}")] = None, plugin: Plugins = None
) -> int:
    """List what there is, with options and defaults; versions, devices, data sets."""
    if kind == "versions":
        return list_versions()
    if kind is None:
        names = {each: [row[0] for table in tables(each, plugin) for row in table["rows"]] for each in LISTED}
        counts = [(each, str(len(known)), ", ".join(known[:4])) for each, known in names.items()]
        print_table("uproar ls KIND", ("kind", ">number", "for example"), counts)
        add_to_json(kinds=[{"kind": each, "number": len(known)} for each, known in names.items()])
        print_next("uproar ls estimators; uproar ls versions says what this machine has")
        return 0
    entries: list[dict[str, str]] = []
    for table in tables(kind, plugin):
        columns, rows = table["columns"], table["rows"]
        if kind == "tasks":
            columns = [columns[0], "where", *columns[1:]]
            rows = [[name, place_of(name), *rest] for name, *rest in rows]
        keys = [column.replace(" ", "_") for column in columns]
        entries += [{"group": table["title"], **dict(zip(keys, row, strict=True))} for row in rows]
        print_table(table["title"], [f"={columns[0]}", *columns[1:]], rows)
    add_to_json(**{str(kind): entries})
    print_next(NEXT[kind])
    return 0


def tables(kind: str, plugins: list[str] | None) -> list[dict[str, Any]]:
    """The tables of a kind: from the file in the package, or from the registries if a plug-in adds to them."""
    if not plugins and not any(group.startswith("uproar.") for group in metadata.entry_points().groups):
        return listing(kind)
    from uproar.cli.listings import tables_of  # torch loads slowly

    load_plugins(plugins)
    return tables_of(kind)


def place_of(task: str) -> str:
    """Where the files of a task are, if it needs any."""
    known = CATALOGUE.get(task)
    if known is None:
        return "–"
    return str(find(known) or "not found")


def list_versions() -> int:
    """What this installation and machine have: versions, threads, devices, data sets."""
    import torch

    from uproar.study import devices
    from uproar.study.devices import default_jobs

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
    print_table("uproar", ("what", "found"), list(rows.items()))
    add_to_json(versions=[{"what": name, "found": value} for name, value in rows.items()])
    print_next("uproar choose --task digits says which method to use for a small network")
    return 0
