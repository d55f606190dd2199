"""`uproar ls` and `uproar doctor`."""

from __future__ import annotations

import inspect
import os
import platform
from enum import StrEnum
from importlib import metadata
from typing import Annotated

import torch
import typer
from rich.markup import escape

from uproar import devices
from uproar.cli.console import output, table
from uproar.cli.data import DataRoot
from uproar.data import tasks
from uproar.data.catalogue import CATALOGUE
from uproar.data.places import find
from uproar.estimators import estimators
from uproar.extend import load_plugin
from uproar.metrics import metrics
from uproar.models import models
from uproar.protocols import PROTOCOLS
from uproar.registry import Entry, Registry
from uproar.removal import fills
from uproar.study.execute import default_jobs
from uproar.study.shipped import shipped, summary
from uproar.training.papers import RECIPES


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


_REGISTRIES: dict[str, Registry] = {
    "estimators": estimators,
    "tasks": tasks,
    "models": models,
    "fills": fills,
}


def ls(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help="What to list")] = Kind.estimators,
    plugin: Annotated[
        list[str] | None, typer.Option(help="File with estimators of your own")
    ] = None,
    data_root: DataRoot = None,
) -> int:
    """List what there is, with options and their defaults."""
    for file in plugin or ():
        load_plugin(file)
    if kind is Kind.protocols:
        shown = table("protocols", "name", "what it does", "better is")
        for protocol in PROTOCOLS.values():
            better = "higher accuracy" if protocol.higher_is_better else "lower accuracy"
            shown.add_row(protocol.name, protocol.summary, better)
        output.print(shown)
        return 0
    if kind is Kind.metrics:
        _show_metrics()
        return 0
    if kind is Kind.audits:
        _show_audits()
        return 0
    if kind is Kind.claims:
        _show_claims()
        return 0
    if kind is Kind.studies:
        shown = table("studies", "name", "what it is")
        for study, path in shipped().items():
            shown.add_row(study, escape(summary(path.read_text(encoding="utf-8"))))
        output.print(shown)
        output.print("Run one with: uproar run NAME; what it takes: uproar validate NAME.")
        return 0
    if kind is Kind.recipes:
        shown = table("recipes", "name", "what it is")
        for name, recipe in RECIPES.items():
            shown.add_row(name, escape(recipe.summary))
        output.print(shown)
        return 0
    entries = _REGISTRIES[kind.value].values()
    roles = {"estimator": "estimators", "direct": "controls that are not rankings",
             "transform": "transforms, e.g. sq(grad)", "ensemble": "ensembles, e.g. sg(grad)",
             "classes": "maps that do not depend on the class asked for, e.g. class_sum(grad)",
             "postprocess": "filters, outermost, e.g. gaussian(sq(grad))"}  # fmt: skip
    if kind is Kind.tasks:
        _show_tasks(entries)
        return 0
    if kind is not Kind.estimators:
        _show(kind.value, entries)
        return 0
    for role, title in roles.items():
        _show(title, [entry for entry in entries if entry.facts.get("role") == role])
    return 0


def _show(title: str, entries: list[Entry]) -> None:
    shown = table(title, "name", "options", "what it is")
    for entry in entries:
        options = ", ".join(f"{name}={_default(p.default)}" for name, p in entry.options.items())
        shown.add_row(entry.name, escape(options), escape(entry.summary))
    output.print(shown)


def _show_tasks(entries: list[Entry]) -> None:
    shown = table("tasks", "name", "where", "what it is")
    shown.columns[1].overflow = "fold"
    for entry in entries:
        known = CATALOGUE.get(entry.name)
        place = None if known is None else find(known)
        where = "–" if known is None else "not found" if place is None else str(place)
        facts = [f"{entry.summary} {str(entry.facts.get('images', '')).capitalize()}.".strip()]
        facts += [f"Options: {', '.join(entry.options)}."] if entry.options else []
        shown.add_row(entry.name, escape(where), escape(" ".join(facts)))
    output.print(shown)
    output.print(
        "Get one with: uproar data get NAME. Also hf:NAME, any set of Hugging Face datasets."
    )


def _show_metrics() -> None:
    shown = table("metrics", "name", "better", "what it is")
    for entry in metrics.values():
        facts = entry.facts
        lines = [
            f"{entry.summary} From {facts['low']:g} to {facts['high']:g}; a random map gets {facts['chance']}."
        ]
        lines += [f"Needs {facts['needs']}."] if facts["needs"] else []
        lines += [f"Options: {', '.join(entry.options)}."] if entry.options else []
        better = "higher" if facts["higher_is_better"] else "lower"
        shown.add_row(entry.name, better, escape(" ".join(lines)))
    output.print(shown)


def _show_audits() -> None:
    from uproar.audits import audits

    shown = table("audits", "name", "question", "options")
    for entry in audits.values():
        lines = [entry.facts["question"], entry.summary]
        lines += [f"Needs {entry.facts['needs']}."] if entry.facts["needs"] else []
        options = ", ".join(f"{n}={_default(p.default)}" for n, p in entry.options.items())
        shown.add_row(entry.name, escape(" ".join(lines)), escape(options))
    output.print(shown)


def _show_claims() -> None:
    from uproar.claims import PAPERS, claims_named

    shown = table("claims", "name", "what it says", "published")
    for one in claims_named(tuple(PAPERS)):
        says = f"{one.says} ({one.paper}, {one.place})"
        shown.add_row(one.name, escape(says), escape(one.published))
    output.print(shown)


def _default(value: object) -> str:
    if value is inspect.Parameter.empty:
        return "…"
    return str(value).lower() if isinstance(value, bool) else str(value)


def doctor() -> int:
    """Say what this installation and machine have: versions, threads, devices."""
    shown = table("uproar", "what", "found")
    for name in ("uproar", "torch", "numpy", "scipy", "pandas", "plotly", "captum", "ray"):
        try:
            shown.add_row(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            shown.add_row(name, "[dim]not installed (optional)[/]")
    shown.add_row("python", f"{platform.python_version()} on {platform.platform()}")
    shown.add_row("processes by default", f"{default_jobs('auto')} ({os.cpu_count()} cores)")
    shown.add_row("torch threads", str(torch.get_num_threads()))
    shown.add_row("devices", ", ".join(devices.found()))
    here = [name for name, known in CATALOGUE.items() if find(known) is not None]
    shown.add_row("data sets found", ", ".join(here) or "none: see uproar ls tasks")
    output.print(shown)
    return 0
