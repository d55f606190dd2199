"""`uproar validate`: what a study amounts to, what is there already, and how long the rest would take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from uproar.cli.completion import complete_names
from uproar.cli.console import errors, output, table
from uproar.cli.data import DataRoot
from uproar.cli.json_output import add_to_json
from uproar.cli.next_steps import command, print_next
from uproar.cli.options import Jobs
from uproar.cli.progress import watched
from uproar.cli.run import Out, StoreRoot, folder_and_store
from uproar.cli.study_options import Changes, changing
from uproar.remaining_time import about, duration

if TYPE_CHECKING:
    from uproar.study.cost_estimate import CostEstimate
    from uproar.study.outline import Outline
    from uproar.study.settings import Setting
    from uproar.study.spec import Study


@changing
def validate(
    studies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STUDY…",
            help="Study files or names, whose settings the options replace; "
            "without one, the evaluator, ROAR and KAR on digits",
            show_default=False,
            autocompletion=complete_names("studies"),
        ),
    ] = None,
    *,
    changes: Changes,
    jobs: Jobs = None,
    out: Out = None,
    store: StoreRoot = None,
    data_root: DataRoot = None,
) -> int:
    """Check studies and say what would run, how long it would take, and what is there already or missing.

    Without the data, cells, passes, storage and GPU hours follow from what is known of the set.
    """
    from uproar.study.cost_parts import outlines_by_part
    from uproar.study.executors import workers  # torch loads slowly
    from uproar.study.outline import outline

    given: list[str | None] = [*(studies or (None,))]
    missing = False
    outlines: list[dict[str, object]] = []
    for chosen in [changes.study(text) for text in given]:
        count = workers(jobs, chosen.device)
        with watched(f"counting {chosen.name}"):
            size = outline(chosen)
        _print_outline(chosen, size)
        sizes = outlines_by_part(chosen, size)
        ratio = _print_parts(chosen, sizes)
        rows: list[dict[str, object]] = [
            {"part": name, **asdict(one), "gpu_hours": one.gpu_hours} for name, one in sizes.items()
        ]
        outlines.append({"study": chosen.name, **asdict(size), "gpu_hours": size.gpu_hours})
        outlines[-1] |= {"parts": rows, "retraining_per_evaluator": ratio}
        if not size.missing:
            root = folder_and_store(chosen, out, store)[1]
            cost, seconds = _print_estimate(chosen, root, count)
            for row in rows:
                row["seconds"] = seconds.get(str(row["part"]))
            jobs_by_kind = [{"kind": kind, "jobs": n, "seconds": each} for kind, (n, each) in cost.jobs.items()]
            outlines[-1]["to_do"] = {**asdict(cost), "jobs": jobs_by_kind}
        missing = missing or bool(size.missing)
    add_to_json(studies=outlines)
    runs = [command("run", text) for text in given]
    if missing:
        print_next("the same command again when nothing is missing")
    else:
        print_next(f"{', '.join(runs)}, with the same options, runs {'it' if len(runs) == 1 else 'them'}")
    return 0


def _print_estimate(study: Study, root: str, count: int) -> tuple[CostEstimate, dict[str, float]]:
    """Print what is still to be done and how long it would take on this machine, also each part alone; audits apart."""
    from uproar.storage.store import Store
    from uproar.study.cost_estimate import estimate
    from uproar.study.cost_parts import cost_parts
    from uproar.study.grid import check_fractions

    check_fractions(study, Store(root).root)
    with watched("planning and measuring the networks"):
        rates: dict[Setting, float] = {}
        cost = estimate(study, Store(root), count, rates)
        parts = cost_parts(study) if len(study.protocol_list) > 1 or study.metrics else {}
        alone = {name: estimate(part, Store(root), count, rates).seconds for name, part in parts.items()}
    shape = table(f"Study {study.name}", "what", ">jobs", ">seconds each")
    for kind, (jobs, seconds) in cost.jobs.items():
        shape.add_row(kind, str(jobs), f"{seconds:.2f}")
    output.print(shape)
    beside = " (what audits need beside it not counted)" if study.audits else ""
    output.print(
        f"{cost.cells} cells{beside}: {cost.cached} in the store, {cost.skipped} do not apply, "
        f"{cost.cells - cost.cached - cost.skipped} to do."
    )
    output.print(
        f"{about(cost.seconds).capitalize()} with {count} process{'es' if count > 1 else ''}, "
        f"{cost.megabytes:.0f} MB for the store."
    )
    if len(alone) > 1:
        each = ", ".join(f"{name} {about(part).removeprefix('about ')}" for name, part in alone.items())
        output.print(f"Each part alone, about: {each}.", soft_wrap=True)
    return cost, alone


def _print_outline(study: Study, size: Outline) -> None:
    """Cells, passes, storage and GPU hours of a study with its audits, and what is missing before it can run."""
    from uproar.study.outline import SPEED

    shown = table(f"Study {study.name}: its whole size", "what", ">amount")
    for what, amount in (
        ("cells", f"{size.cells:,}"),
        ("trainings", f"{size.trainings:,}"),
        ("images passed forward and backward in training", _large(size.trained)),
        ("images passed forward and backward for maps", _large(size.explained)),
        ("images passed forward for scores", _large(size.shown)),
        ("storage", _bytes(size.bytes)),
        (f"GPU hours at {SPEED / 1e12:g} TFLOP/s", f"{size.gpu_hours:,.2f}"),
    ):
        shown.add_row(what, amount)
    output.print(shown)
    for note in size.notes:
        output.print(escape(note), soft_wrap=True)
    for sentence in size.missing:
        errors.print(f"[yellow]Missing:[/] {escape(sentence)}", soft_wrap=True)


def _print_parts(study: Study, sizes: Mapping[str, Outline]) -> float | None:
    """What each part of a study takes, side by side; how many times the evaluator retraining takes."""
    from uproar.study.cost_parts import ratio_to_evaluator

    if len(sizes) < 2:
        return None
    shown = table(
        f"Study {study.name}: each part as if alone", "part", ">trainings", ">trained", ">maps", ">shown", ">GPU time"
    )
    for name, one in sizes.items():
        passes = (_short(one.trained), _short(one.explained), _short(one.shown))
        shown.add_row(name, f"{one.trainings:,}", *passes, _gpu_time(3600 * one.gpu_hours))
    output.print(shown)
    output.print(
        "Images passed forward and backward in training and for maps, forward for scores; networks and maps that parts "
        "share count in each.",
        soft_wrap=True,
    )
    ratio = ratio_to_evaluator(sizes)
    if ratio is not None:
        times = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}"
        output.print(f"Retraining takes {times} times as many operations as the evaluator.")
    return ratio


def _gpu_time(seconds: float) -> str:
    """A time of a GPU, in hours where it has some.

    >>> _gpu_time(0.02), _gpu_time(90), _gpu_time(36e6)
    ('0.02 s', '1 min 30 s', '10,000 h')
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    return duration(seconds) if seconds < 100 * 3600 else f"{seconds / 3600:,.0f} h"


def _short(n: float) -> str:
    """A number in few characters.

    >>> _short(950), _short(69.9e9)
    ('950', '69.9 G')
    """
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if n >= unit:
            return f"{n / (1e3 if name == 'k' else unit):.{0 if name == 'k' else 1}f} {name}"
    return f"{n:,.0f}"


def _large(n: float) -> str:
    for unit, name in ((1e9, "billion"), (1e6, "million")):
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return f"{n:,.0f}"


def _bytes(n: float) -> str:
    for unit, name in ((1e12, "TB"), (1e9, "GB")):
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return f"{n / 1e6:.0f} MB"
