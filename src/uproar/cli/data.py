"""`uproar data get` and `uproar data verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from uproar.cli.completion import complete_names
from uproar.cli.console import errors, output, print_file
from uproar.cli.interrupt import AGAIN, keeping
from uproar.cli.json_output import add_to_json, with_json
from uproar.cli.next_steps import command, print_next
from uproar.cli.options import Command, DataRoot, Group, flag
from uproar.cli.progress import Watch, watched
from uproar.data.locations import download_root

if TYPE_CHECKING:
    from uproar.data.download import Listener

SHOWN = 10
"""Unreadable pictures that are named; the others are counted."""


app = typer.Typer(help="Download and check data sets.", no_args_is_help=True, cls=Group)


@app.command("get", cls=Command)
@with_json
def get_set(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Data set, e.g. cifar10", show_default=False, autocompletion=complete_names("tasks")
        ),
    ],
    data_root: DataRoot = None,
) -> int:
    """Download a data set; stopped half-way, the same command goes on from there."""
    from uproar.data.download import get
    from uproar.data.locations import public_dataset

    known = public_dataset(name)
    with watched(f"asking for {name}") as watch, keeping("What was downloaded is kept; " + AGAIN):
        folder, note = get(known, download_root(), _listener(watch))
    add_to_json(name=name, folder=folder, note=note)
    output.print(f"{name} is in [bold]{escape(str(folder))}[/]. {note}".rstrip(), soft_wrap=True)
    print_next(f"{command('data', 'verify', name)} checks it; {command('run', '--task', name)} uses it")
    return 0


@app.command("verify", cls=Command)
@with_json
def verify_set(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Data set, e.g. cifar10 or folder(root=photos)", autocompletion=complete_names("tasks")
        ),
    ],
    leave: Annotated[bool, flag("--leave-out", text="List unreadable pictures as left out of the set")] = False,
    data_root: DataRoot = None,
) -> int:
    """Check a data set: published checksums, number of images, and that every picture can be read."""
    from uproar.data.download import exclude_unreadable, verify  # torch loads slowly

    with watched(f"looking for {name}") as watch:
        verification = verify(name, watch.counting("pictures", f"reading {name}"))
    add_to_json(
        name=name,
        folder=verification.folder,
        facts=verification.facts,
        faults=verification.faults,
        unreadable=[{"picture": picture, "reason": reason} for picture, reason in verification.unreadable.items()],
    )
    place = "" if verification.folder is None else f" in {verification.folder}"
    facts = "; ".join(verification.facts) or "cannot be loaded"
    output.print(escape(f"{name}{place}: {facts}."), soft_wrap=True)
    for fault in verification.faults + list(verification.unreadable.values())[:SHOWN]:
        errors.print(f"[bold red]Fault:[/] {escape(fault)}", soft_wrap=True)
    if len(verification.unreadable) > SHOWN:
        errors.print(f"… and {len(verification.unreadable) - SHOWN} more unreadable pictures.")
    if not verification.unreadable:
        if verification.sound:
            print_next(f"{command('run', '--task', name)} uses it")
        return 0 if verification.sound else 1
    if not leave:
        errors.print("Replace them, or leave them out with --leave-out.")
        return 1
    listed = exclude_unreadable(verification)
    print_file(f"{len(verification.unreadable)} pictures are left out from now on", listed)
    return 1 if verification.faults else 0


def _listener(watch: Watch) -> Listener:
    """Shows files as they come, in megabytes, or in files where those are counted."""
    now, shown = "", None

    def listen(what: str, done: int, total: int) -> None:
        nonlocal now, shown
        if what != now:
            now = what
            watch.note(what)
            photos = what == "photos"
            unit, size = ("photos", 1.0) if photos else ("MB", 1e6)
            shown = watch.counting(unit, what, size) if total else None
        if shown is not None:
            shown(done, total)

    return listen
