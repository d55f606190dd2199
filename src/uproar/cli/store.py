"""`uproar store verify`, `repair` and `clean`: the files behind a run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from uproar.cli.completion import complete_runs
from uproar.cli.console import errors, note, output, table
from uproar.cli.data import DataRoot
from uproar.cli.interrupt import AGAIN, keeping
from uproar.cli.json_output import add_to_json, json_wanted, with_json
from uproar.cli.next_steps import command, print_next
from uproar.cli.options import HOW, Command, Group, Jobs, Moved, Trust, flag
from uproar.cli.progress import of_study, watched
from uproar.errors import BadInput
from uproar.storage.urls import public

if TYPE_CHECKING:
    from uproar.storage.inventory import Inventory
    from uproar.storage.store import Store
    from uproar.study.spec import Study

SHOWN = 10
"""Files that are named; the others are counted."""

app = typer.Typer(help="Check, repair and clean the files behind a run.", no_args_is_help=True, cls=Group)

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        show_default=False,
        help="Folder of a run, e.g. runs/digits, or a store: folder or URL",
        autocompletion=complete_runs,
    ),
]


@app.command("verify", cls=Command)
@with_json
def verify(run: Run, trust: Trust = False) -> int:
    """Read every file and say what is there and what is damaged; nothing is changed. Exit 1 if something is."""
    store, _ = opened_store(run, trust=trust)
    inventory = _verified(store)
    _print_damaged(inventory)
    if inventory.damaged:
        print_next(f"{command('store', 'repair', run)} makes the damaged files again")
    else:
        print_next(f"{command('store', 'clean', run)} lists what no run needs")
    return 1 if inventory.damaged else 0


@app.command("repair", cls=Command)
@with_json
def repair(run: Run, jobs: Jobs = None, weights: Moved = None, trust: Trust = False, data_root: DataRoot = None) -> int:
    """Set damaged files aside and make again whatever the run lacks; its report is written anew."""
    from uproar.cli.print_results import finish
    from uproar.runs.execute import run_to_end
    from uproar.runs.folder import read_run, write_run  # torch loads slowly
    from uproar.storage.inventory import set_aside

    folder = Path(run)
    if not (folder / "run.json").exists():
        raise BadInput(
            f"{run} is not the folder of a run, so that nobody knows what to make: give one with a run.json."
        )
    study, place, facts = read_run(folder, weights, trust=trust)
    store, _ = opened_store(run, weights, trust)
    inventory = _verified(store)
    _print_damaged(inventory)
    set_aside(store, inventory)
    with watched("planning") as watch, keeping(f"Finished cells are in {public(place)}; {AGAIN}"):
        done = run_to_end(study, place, jobs, of_study(watch))
    results = done.results.with_facts(facts)
    write_run(folder, study, place, facts)
    note(*results.notices)
    return finish(results, results.report(folder), folder)


@app.command("clean", cls=Command)
@with_json
def clean(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN…",
            show_default=False,
            help="Folders of all runs that use the store; or the store itself",
            autocompletion=complete_runs,
        ),
    ],
    yes: Annotated[bool, flag("--yes", panel=HOW, text="Remove without asking")] = False,
    weights: Moved = None,
    trust: Trust = False,
    data_root: DataRoot = None,
) -> int:
    """List what no run needs, then remove it: other studies' results, files set aside or left unfinished.

    Nothing is removed before you agree. Not to be used while a run writes into the store.
    """
    from uproar.storage.inventory import list_store

    opened = [opened_store(run, weights, trust) for run in runs]
    store = opened[0][0]
    if any(other.root != store.root for other, _ in opened):
        raise BadInput(f"{' and '.join(runs)} use different stores: clean one after the other.")
    inventory = list_store(store)
    needed = needed_by([study for _, study in opened if study is not None], store)
    unneeded = {
        store.name(*item): size for item, size in inventory.items.items() if needed is not None and not needed(item)
    }
    removable = {**unneeded, **inventory.leftovers}
    add_to_json(store=public(store.root), removable=_rows(removable), removed=False)
    if not removable:
        output.print(f"Nothing to remove from {escape(public(store.root))}.", soft_wrap=True)
        return 0
    if unneeded:
        several = "these runs need" if len(runs) > 1 else f"{runs[0]} needs"
        _print_files(f"Results that nothing in what {several} is made of", unneeded)
        output.print(
            "Studies of other folders that use this store may need them: name those folders too.", style="yellow"
        )
    _print_files("Files set aside or left unfinished", inventory.leftovers)
    if not is_confirmed(yes):
        return 0
    for name in removable:
        store.backend.remove(name)
    add_to_json(removed=True)
    total = size_text(sum(removable.values()))
    output.print(f"Removed {len(removable)} files, {total}, from {escape(public(store.root))}.", soft_wrap=True)
    return 0


def is_confirmed(yes: bool) -> bool:
    """Whether what was listed may be removed: said beforehand, or asked for on a terminal; a program is not asked."""
    if yes or (sys.stdin.isatty() and not json_wanted() and typer.confirm("Remove them?")):
        return True
    output.print("Nothing was removed; --yes removes without asking.")
    return False


def _rows(files: Mapping[str, int]) -> list[dict[str, object]]:
    return [{"file": name, "bytes": size} for name, size in files.items()]


def opened_store(run: str, weights: str | None = None, trust: bool = False) -> tuple[Store, Study | None]:
    """The store of a run with its study, or the store at an address without one."""
    from uproar.storage.store import MARKER, Store

    if "://" not in run and (Path(run) / "run.json").exists():
        from uproar.runs.folder import read_run  # torch loads slowly

        study, place, _ = read_run(Path(run), weights, trust=trust)
        return Store(place), study
    store = Store(run)
    try:
        store.backend.start(MARKER, 1)
    except OSError:
        raise BadInput(
            f"{run} is neither the folder of a run nor a store: it has no run.json and no {MARKER}."
        ) from None
    return store, None


def needed_by(studies: list[Study], store: Store) -> Callable[[tuple[str, str]], bool] | None:
    """Whether an item is needed by some study; None without any, for then nobody knows."""
    if not studies:
        return None
    from uproar.study.required_results import required_results

    every = [required_results(study, store) for study in studies]
    return lambda item: any(item in needs for needs in every)


def _verified(store: Store) -> Inventory:
    """What is there, verified and printed."""
    from uproar.storage.inventory import verify_store

    with watched("verifying") as watch, keeping("Nothing was changed."):
        inventory = verify_store(store, watch.counting("files", "verifying"))
    shown = table(f"Store {public(store.root)}", "kind", ">files", ">size")
    rows = [(kind, files, total) for kind, (files, total) in inventory.kinds().items()]
    for title, others in (("older format", inventory.outdated), ("set aside or unfinished", inventory.leftovers)):
        if others:
            rows.append((title, len(others), sum(others.values())))
    for kind, files, total in rows:
        shown.add_row(kind, str(files), size_text(total))
    add_to_json(
        store=public(store.root),
        kinds=[{"kind": kind, "files": files, "bytes": total} for kind, files, total in rows],
        damaged=[{"file": name, "reason": reason} for name, reason in inventory.damaged.items()],
    )
    output.print(shown)
    return inventory


def _print_damaged(inventory: Inventory) -> None:
    for name, reason in list(inventory.damaged.items())[:SHOWN]:
        errors.print(f"[red]damaged[/] {escape(name)}: {escape(reason)}", soft_wrap=True)
    more = len(inventory.damaged) - SHOWN
    if more > 0:
        errors.print(f"[red]damaged[/] and {more} more.")
    if not inventory.damaged:
        output.print("Nothing is damaged.")


def _print_files(title: str, files: Mapping[str, int]) -> None:
    if not files:
        return
    output.print(f"{title}: {len(files)} files, {size_text(sum(files.values()))}")
    for name in list(files)[:SHOWN]:
        output.print(f"  {escape(name)}", soft_wrap=True)
    if len(files) > SHOWN:
        output.print(f"  and {len(files) - SHOWN} more")


def size_text(count: float) -> str:
    """Bytes as people read them."""
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"
