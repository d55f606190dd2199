"""`uproar clean`: what the stores of all runs in a folder hold, and what of it no study needs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from uproar.cli.console import note, output, table
from uproar.cli.data import DataRoot
from uproar.cli.interrupt import keeping
from uproar.cli.json_output import add_to_json
from uproar.cli.next_steps import command, print_next
from uproar.cli.options import HOW, WHAT, Trust, flag
from uproar.cli.progress import watched
from uproar.cli.store import is_confirmed, needed_by, opened_store, size_text
from uproar.errors import BadInput, UproarError

if TYPE_CHECKING:
    from uproar.storage.store import Store
    from uproar.study.spec import Study

NOT_REMOVED = "Nothing was removed."


@dataclass
class StoreContent:
    """A store below the folder: who uses it, and what of it may go."""

    store: Store
    runs: list[str] = field(default_factory=list)
    studies: list[Study] = field(default_factory=list)
    unreadable: str = ""
    """Why nobody can say what a run of it needs."""
    bytes: int = 0
    removable: dict[str, int] = field(default_factory=dict)

    @property
    def used_by(self) -> str:
        """The runs, or that there are none."""
        return ", ".join(self.runs) or "no run: maps to go on from (--maps)"

    @property
    def row(self) -> dict[str, object]:
        """The store as a row of a table."""
        sizes = {"bytes": self.bytes, "removable_bytes": sum(self.removable.values())}
        return {"store": self.store.root, "runs": self.runs, **sizes, "removable_files": len(self.removable)}


def clean(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder with the runs, e.g. runs", show_default=False)
    ] = Path("runs"),
    maps: Annotated[
        bool,
        flag(
            "--maps", panel=WHAT, text="Also what uproar score, choose and explain keep, to go on from when asked again"
        ),
    ] = False,
    yes: Annotated[bool, flag("--yes", panel=HOW, text="Remove without asking")] = False,
    trust: Trust = False,
    data_root: DataRoot = None,
) -> int:
    """Say what the stores of all runs in a folder hold and how much of it no study needs, then remove that.

    Nothing is removed before you agree. Reports stay. Not to be used while a run writes into one of the stores.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a folder: name the one that holds your runs.")
    with watched("looking for runs") as watch, keeping(NOT_REMOVED):
        contents = list(_contents(folder, trust))
        for done, content in enumerate(contents, 1):
            _look_through(content, maps)
            watch.count(done, len(contents), "stores", doing="looking through")
    note(*(f"{content.store.root} is left alone: {content.unreadable}" for content in contents if content.unreadable))
    _print(folder, contents)
    rows = [content.row for content in contents]
    add_to_json(stores=rows, removed=False)
    if not any(content.removable for content in contents):
        output.print("Nothing to remove.")
        return 0
    output.print("A study of another folder that uses one of these stores may need it.", style="yellow", soft_wrap=True)
    if not is_confirmed(yes):
        print_next(f"{command('store', 'clean', contents[0].runs[0])} lists files" if contents[0].runs else "")
        return 0
    _remove(contents)
    return 0


def _contents(folder: Path, trust: bool) -> Iterator[StoreContent]:
    """Every store below a folder with the runs that use it; stores elsewhere are not ours to clean."""
    runs, stores = _found(folder)
    contents = {str(path.resolve()): StoreContent(opened_store(str(path))[0]) for path in stores}
    for run in runs:
        try:
            store, study = opened_store(str(run), trust=trust)
        except UproarError as error:
            for content in _perhaps_of(run, contents):
                content.runs.append(str(run))
                content.unreadable = str(error)
            continue
        used = contents.get(os.path.realpath(store.root))
        if used is not None:
            used.runs.append(str(run))
            used.studies += [] if study is None else [study]
    yield from contents.values()


def _perhaps_of(run: Path, contents: Mapping[str, StoreContent]) -> list[StoreContent]:
    """The stores that a run which cannot be opened may use: the ones it names, or any if it names none."""
    from uproar.runs.record import read_record  # torch loads slowly

    try:
        named = (run / "store", read_record(run).store)
    except UproarError:
        return list(contents.values())
    places = dict.fromkeys(os.path.realpath(place) for place in named)
    return [contents[place] for place in places if place in contents]


def _found(folder: Path) -> tuple[list[Path], list[Path]]:
    """The folders of runs and the stores below a folder; what a store holds is not searched."""
    from uproar.storage.store import MARKER

    runs, stores = [], []
    for place, below, files in os.walk(folder):
        below.sort()
        if MARKER in files:
            stores.append(Path(place))
            below.clear()
        elif "run.json" in files:
            runs.append(Path(place))
    return runs, stores


def _look_through(content: StoreContent, maps: bool) -> None:
    """Find out what a store holds, and what of it no run needs."""
    from uproar.storage.inventory import list_store

    inventory = list_store(content.store)
    content.bytes = sum(content.store.backend.sizes().values())
    if content.unreadable:
        return
    content.removable = dict(inventory.leftovers)
    needed = needed_by(content.studies, content.store)
    for item, size in inventory.items.items():
        if maps if needed is None else not needed(item):
            content.removable[content.store.name(*item)] = size


def _print(folder: Path, contents: list[StoreContent]) -> None:
    shown = table(f"Stores in {folder}", "store", "used by", ">size", ">not needed")
    for content in contents:
        removable = sum(content.removable.values())
        name = os.path.relpath(content.store.root)
        shown.add_row(escape(name), escape(content.used_by), size_text(content.bytes), size_text(removable))
    output.print(shown)
    everything = sum(content.bytes for content in contents)
    removable = sum(sum(content.removable.values()) for content in contents)
    output.print(f"{size_text(everything)} in all, {size_text(removable)} of it needed by no study.")


def _remove(contents: list[StoreContent]) -> None:
    files = 0
    for content in contents:
        for name in content.removable:
            content.store.backend.remove(name)
            files += 1
    add_to_json(removed=True)
    total = sum(sum(content.removable.values()) for content in contents)
    output.print(f"Removed {files} files, {size_text(total)}.")
