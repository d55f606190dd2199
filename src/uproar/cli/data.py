"""`uproar data get` and `verify`, `uproar store verify` and `clean`: data sets, and the files behind runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uproar.cli.interrupt import AGAIN, keeping
from uproar.cli.options import Group, Trust, add_command, argument, flag
from uproar.cli.progress import Watch, watched
from uproar.cli.screen import Screen, add_to_json, command, errors, json_wanted, output, print_next, print_table
from uproar.data.locations import download_root
from uproar.errors import BadInput
from uproar.paths import public

if TYPE_CHECKING:
    from uproar.data.download import Listener
    from uproar.store import Store
    from uproar.study.spec import Study

SHOWN = 10
"""Files that are named; the others are counted."""
StoredRun = Annotated[str, argument("RUN", "Folder of a run, e.g. runs/digits, or a store: folder or URL")]


def get_set(name: Annotated[str, argument("NAME", "Data set, e.g. cifar10", "tasks")]) -> int:
    """Download a data set; stopped half-way, the same command goes on from there."""
    from uproar.data.download import get
    from uproar.data.locations import public_dataset

    known = public_dataset(name)
    with watched(f"asking for {name}") as watch, keeping("What was downloaded is kept; " + AGAIN):
        folder, note = get(known, download_root(), download_listener(watch))
    add_to_json(name=name, folder=folder, note=note)
    output.say(f"{name} is in ", (str(folder), "bold"), f". {note}".rstrip())
    print_next(f"{command('data', 'verify', name)} checks it; {command('run', '--task', name)} uses it")
    return 0


def verify_set(name: Annotated[str, argument("NAME", "Data set, e.g. cifar10 or folder(root=photos)", "tasks")]) -> int:
    """Check a data set: published checksums, number of images, and that every picture can be read."""
    from uproar.data.download import verify  # torch loads slowly

    with watched(f"looking for {name}") as watch:
        verification = verify(name, watch.counting("pictures", f"reading {name}"))
    add_to_json(
        name=name,
        folder=verification.folder,
        facts=verification.facts,
        faults=verification.faults,
        unreadable=[{"picture": picture, "reason": reason} for picture, reason in verification.unreadable.items()],
    )
    where = "" if verification.folder is None else f" in {verification.folder}"
    facts = "; ".join(verification.facts) or "cannot be loaded"
    output.say(f"{name}{where}: {facts}.")
    print_some(verification.faults + list(verification.unreadable.values()), "Fault: ")
    if verification.unreadable:
        errors.say("Replace unreadable pictures, or remove them from the set.")
    if not verification.sound:
        return 1
    print_next(f"{command('run', '--task', name)} uses it")
    return 0


def download_listener(watch: Watch) -> Listener:
    """Shows files as they come, in megabytes, or photos as they are counted."""
    listeners: dict[str, Callable[[int, int], None]] = {}

    def listen(what: str, done: int, total: int) -> None:
        if what not in listeners:
            watch.note(what)
            unit, size = ("photos", 1.0) if what == "photos" else ("MB", 1e6)
            listeners[what] = watch.counting(unit, what, size) if total else lambda done, total: None
        listeners[what](done, total)

    return listen


def verify_store(
    run: StoredRun,
    fix: Annotated[bool, flag("--fix", "Set damaged files aside: uproar run RUN regenerates them")] = False,
    trust: Trust = False,
) -> int:
    """Read every file of a store and say which are damaged (exit code 1)."""
    from uproar.store import set_aside
    from uproar.store import verify_store as inventory_of

    store, study = opened(run, trust)
    with watched("verifying") as watch, keeping("Nothing was changed."):
        inventory = inventory_of(store, watch.counting("files", "verifying"))
    rows = [(kind, files, total) for kind, (files, total) in inventory.kinds().items()]
    if inventory.leftovers:
        rows.append(("set aside or unfinished", len(inventory.leftovers), sum(inventory.leftovers.values())))
    columns = ("kind", ">files", ">size")
    print_table(f"Store {public(store.root)}", columns, [(kind, str(n), size_text(total)) for kind, n, total in rows])
    add_to_json(
        store=public(store.root),
        kinds=[{"kind": kind, "files": files, "bytes": total} for kind, files, total in rows],
        damaged=[{"file": name, "reason": reason} for name, reason in inventory.damaged.items()],
    )
    print_some([f"{name}: {reason}" for name, reason in inventory.damaged.items()], "damaged: ")
    if not inventory.damaged:
        output.say("Nothing is damaged.")
        print_next(f"{command('store', 'clean', run)} lists what it does not need")
        return 0
    if fix:
        set_aside(store, inventory)
        output.say("They were set aside.")
    again = f"{command('run', run)} regenerates them" if study is not None else "the next run regenerates them"
    print_next(again if fix else f"{command('store', 'verify', run, '--fix')} sets them aside")
    return 1


def clean_store(
    run: StoredRun, yes: Annotated[bool, flag("--yes", "Remove without asking")] = False, trust: Trust = False
) -> int:
    """Remove what a run does not need of its store: results of other settings, damaged and unfinished files.

    They are listed first, and nothing is removed before you agree. Of a store without a run, results stay. Not for
    stores that a run is writing into.
    """
    from uproar.store import list_store
    from uproar.study.audit import required_results

    store, study = opened(run, trust)
    with watched("looking for what the run needs"), keeping("Nothing was removed."):
        inventory = list_store(store)
        files = dict(inventory.leftovers)
        if study is not None:
            needed = required_results(study)
            files |= {store.name(*item): size for item, size in inventory.items.items() if item not in needed}
    unneeded, whole = sum(files.values()), sum([*inventory.items.values(), *inventory.leftovers.values()])
    add_to_json(store=public(store.root), bytes=whole, removable_bytes=unneeded, removable=list(files), removed=False)
    print_some(list(files), "  ", output)
    output.say(f"{public(store.root)} holds {size_text(whole)}, of which {size_text(unneeded)} are not needed.")
    if not files:
        return 0
    output.say("Other runs that use this store may need them.", style="yellow")
    if not yes and (json_wanted() or not sys.stdin.isatty() or not typer.confirm("Remove them?")):
        output.say("Nothing was removed; --yes removes without asking.")
        return 0
    for name in files:
        store.backend.remove(name)
    add_to_json(removed=True)
    output.say(f"Removed {len(files)} files, {size_text(unneeded)}.")
    return 0


def print_some(lines: list[str], before: str, screen: Screen = errors) -> None:
    """Print the first few of many lines, and how many there are more."""
    for line in lines[:SHOWN]:
        screen.say((before, "red" if screen is errors else ""), line)
    if len(lines) > SHOWN:
        screen.say(f"  and {len(lines) - SHOWN} more")


def opened(run: str, trust: bool = False) -> tuple[Store, Study | None]:
    """The store of a run with its study, or the store at an address without one."""
    from uproar.store import MARKER, Store

    if "://" not in run and (Path(run) / "run.json").exists():
        from uproar.study.record import read_run  # torch loads slowly

        study, address, _ = read_run(Path(run), trust=trust)
        return Store(address), study
    store = Store(run)
    try:
        store.backend.start(MARKER, 1)
    except OSError:
        why = f"it has no run.json and no {MARKER}"
        raise BadInput(f"{run} is neither the folder of a run nor a store: {why}.") from None
    return store, None


def size_text(count: float) -> str:
    """Bytes as people read them."""
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"


data_app = typer.Typer(help="Download and check data sets.", no_args_is_help=True, cls=Group)
add_command(data_app, get_set, "get")
add_command(data_app, verify_set, "verify")
store_app = typer.Typer(help="Check and clean the files behind runs.", no_args_is_help=True, cls=Group)
add_command(store_app, verify_store, "verify")
add_command(store_app, clean_store, "clean")
