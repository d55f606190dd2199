"""`uproar view`: a run in the browser, from verdict to evidence."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from uproar.cli.checks import check_folder, check_run
from uproar.cli.console import output, print_file
from uproar.cli.data import DataRoot
from uproar.cli.interrupt import keeping
from uproar.cli.json_output import add_to_json, json_wanted
from uproar.cli.next_steps import open_page_hint, print_next
from uproar.cli.options import HOW, WHERE, Moved, RunFolder, Stored, Trust, flag, option
from uproar.cli.progress import watched
from uproar.errors import BadInput

if TYPE_CHECKING:
    from uproar.study.spec import Study


def view(
    folder: RunFolder,
    out: Annotated[
        Path | None,
        option(
            panel=WHERE,
            takes="FOLDER",
            text="Write the viewer here, for any web server or to open from disk, and end",
            default="it is served on this machine until Ctrl-C",
        ),
    ] = None,
    images: Annotated[
        int | None, option(panel=HOW, takes="N", text="At most so many test images, the first ones", default="all")
    ] = None,
    port: Annotated[int, option(panel=HOW, takes="N", text="Serve on this port", default="a free one")] = 0,
    no_browser: Annotated[bool, flag("--no-browser", panel=HOW, text="Print the address and open no browser")] = False,
    weights: Moved = None,
    store: Stored = None,
    trust: Trust = False,
    data_root: DataRoot = None,
) -> int:
    """Show a run in the browser, also while it runs: method, fraction, image, map, what every network said of it."""
    if json_wanted() and out is None:
        raise BadInput("--json goes with --out FOLDER: a viewer that is served has only its address to tell.")
    _check(folder, out, images, port)
    from uproar.runs.folder import read_run  # torch loads slowly

    chosen, root, facts = read_run(folder, weights, store, trust)
    if out is not None:
        return _write(folder, chosen, root, facts, out, images)
    return _serve(folder, chosen, root, facts, images, port, no_browser)


def _check(folder: Path, out: Path | None, images: int | None, port: int) -> None:
    if out is not None:
        check_folder(out)
    if images is not None and images < 1:
        raise BadInput(f"--images must be at least 1, not {images}.")
    if not 0 <= port < 65536:
        raise BadInput(f"--port must be between 0 and 65535, not {port}.")
    from uproar.runs.open import holds_scores

    if holds_scores(folder):
        raise BadInput(f"{folder} holds scores and no run: its page is {folder / 'scores.html'}.")
    check_run(folder)


def _write(folder: Path, study: Study, root: str, facts: dict[str, Any], out: Path, images: int | None) -> int:
    from uproar.runs.open import run_in
    from uproar.viewer.folder import write_folder
    from uproar.viewer.live import content_of

    with watched("collecting the results") as watch, keeping("What was written is there; the same command goes on."):
        page = write_folder(content_of(run_in(folder, study, root, facts), images), out, watch.say)
    add_to_json(viewer=page)
    print_file("Viewer", page)
    print_next(open_page_hint(page))
    return 0


def _serve(
    folder: Path, study: Study, root: str, facts: dict[str, Any], images: int | None, port: int, no_browser: bool
) -> int:
    from uproar.viewer.live import LiveRun
    from uproar.viewer.server import Server

    with watched("collecting the results"):
        server = Server(LiveRun(folder, study, root, facts, images), port)
    output.print(f"{server.address}  (Ctrl-C ends it)", highlight=False, soft_wrap=True)
    if not no_browser and _has_display():
        webbrowser.open(server.address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        output.print("\nEnded.")
    finally:
        server.server_close()
    return 0


def _has_display() -> bool:
    """Whether a browser has a window to open in: one in the terminal would take its place."""
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
