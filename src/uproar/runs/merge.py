"""Merging of runs: studies that differ only in what they list become one, and their results one store.

Results are kept by the hash of what they depend on, so that nothing can be mixed up: equal results are one file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from uproar.errors import Absent, BadInput, Damaged
from uproar.results.difference import differing_settings
from uproar.runs.folder import read_run, write_run
from uproar.runs.open import open_folder
from uproar.runs.run import Run
from uproar.storage.inventory import list_store
from uproar.storage.store import Store
from uproar.study.spec import Study, study_of
from uproar.wording import series, setting_text

LISTS = (
    "tasks",
    "models",
    "estimators",
    "protocols",
    "metrics",
    "checks",
    "audits",
    "claims",
    "fractions",
    "random_fractions",
    "evaluator_fractions",
    "seeds",
    "plugins",
)
"""Settings that are united; all others must be equal."""
FREE = ("name", "device", "resources")
"""Settings that are no part of any result: those of the first run are taken."""


def merge_runs(
    folders: Sequence[Path],
    out: Path,
    facts: Mapping[str, Any] | None = None,
    trust: bool = False,
    listen: Callable[[int, int], None] = lambda *_: None,
) -> Run:
    """The run in `out` that asks for all that the runs in `folders` ask for, and has all that they have.

    `listen(done, total)` counts the results that are copied. What no run has is missing, and `uproar run` makes it.
    """
    if len({folder.resolve() for folder in folders}) < max(2, len(folders)):
        raise BadInput("Two runs or more are merged: name their folders, each once.")
    if out.exists() and any(out.iterdir()):
        raise BadInput(f"{out} is there already: the merged run goes into a new folder.")
    runs = [read_run(folder, trust=trust) for folder in folders]
    study = united_study([study for study, _, _ in runs], folders)
    place = str(out / "store")
    copy_results([Store(store) for _, store, _ in runs], Store(place), listen)
    write_run(out, study, place, {**runs[0][2], **(facts or {})})
    return open_folder(out)


def united_study(studies: Sequence[Study], folders: Sequence[Path]) -> Study:
    """One study that asks for what all of them ask for; refused where they differ in what results depend on."""
    first, *others = [study.model_dump(mode="json") for study in studies]
    for settings, folder in zip(others, folders[1:], strict=True):
        fixed = [
            {name: value for name, value in one.items() if name not in (*LISTS, *FREE)} for one in (first, settings)
        ]
        differing = [
            f"{name} ({setting_text(a)} and {setting_text(b)})" for name, (a, b) in differing_settings(*fixed).items()
        ]
        if differing:
            raise BadInput(f"{folders[0]} and {folder} cannot be merged: their studies differ in {series(differing)}.")
    lists = {name: list(dict.fromkeys(v for s in (first, *others) for v in s[name])) for name in LISTS}
    for name in ("fractions", "random_fractions", "evaluator_fractions", "seeds"):
        lists[name] = sorted(lists[name])
    return study_of({**first, **lists})


def copy_results(sources: Sequence[Store], target: Store, listen: Callable[[int, int], None] = lambda *_: None) -> None:
    """Copy every sound result of some stores into another; a damaged one is left out, and made again when needed."""
    items = {item: store for store in reversed(sources) for item in list_store(store).items}
    for done, ((kind, key), store) in enumerate(items.items(), 1):
        for source in (store, *sources):  # another store may have it sound
            try:
                target.write(kind, key, source.read(kind, key))
                break
            except (Absent, Damaged):
                continue
        listen(done, len(items))
