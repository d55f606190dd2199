"""The program: its commands, and how errors become one sentence and an exit code."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import Annotated

import typer
from rich.markup import escape
from typer.main import get_command

from uproar.cli import audit, claims, data, explain, results, run, score, store
from uproar.cli import listing as look
from uproar.cli import try_estimator as trial
from uproar.cli.console import errors, output
from uproar.cli.interrupt import INTERRUPTED, ending_at_second, what_is_kept
from uproar.cli.options import Command, Group
from uproar.cli.signals import Terminated, ending_signals
from uproar.cli.streams import end_output, lost_output
from uproar.cli.usage import usage_sentence
from uproar.errors import CODE_ERRORS, StoreError, UproarError, one_line, shortened
from uproar.paths import check_working_folder
from uproar.plugins.loading import blamed, line_in_file


def _show_version(asked: bool) -> bool:
    if asked:
        output.print(f"uproar {metadata.version('uproar')}", highlight=False)
        raise typer.Exit
    return asked


app = typer.Typer(
    name="uproar", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich", cls=Group
)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit")
    ] = False,
) -> None:
    """Which attribution method can you trust on your model and data, and can the benchmark itself be trusted?"""


app.command("run", cls=Command)(run.run)
app.command("report", cls=Command)(run.report)
app.command("validate", cls=Command)(run.validate)
app.command("audit", cls=Command)(audit.audit)
app.command("claims", cls=Command)(claims.claims)
app.command("results", cls=Command)(results.results)
app.command("explain", cls=Command)(explain.explain)
app.command("score", cls=Command)(score.score)
app.command("try", cls=Command)(trial.try_estimators)
app.command("ls", cls=Command)(look.ls)
app.command("doctor", cls=Command)(look.doctor)
app.add_typer(data.app, name="data")
app.add_typer(store.app, name="store")


def main(arguments: list[str] | None = None) -> None:
    """Run the program; a user's mistake is one sentence and a non-zero exit."""
    with ending_at_second():
        sys.exit(_exit_code(arguments))


# what typer raises for a wrong command line; newer versions carry their own copy of click
_UsageError = typer.BadParameter.__mro__[2]


def _exit_code(arguments: list[str] | None) -> int:
    try:
        check_working_folder()
        with ending_signals():
            code = app(arguments, standalone_mode=False) or 0
            return _interrupted() if code == INTERRUPTED else code
    except typer.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except Terminated as ended:
        errors.print(f"\n{ended} {escape(what_is_kept())}", soft_wrap=True)
        return ended.exit_code
    except UproarError as error:
        errors.print(f"[bold red]Error:[/] {escape(str(error))}", soft_wrap=True)
        return 3 if isinstance(error, StoreError) else 2
    except _UsageError as error:  # type: ignore[misc]
        if not error.format_message().strip():
            return 2  # no command was given: its help has been printed, there is nothing to add
        said = usage_sentence(error, arguments, get_command(app))
        errors.print(f"[bold red]Error:[/] {escape(said)}", soft_wrap=True)
        return 2
    except CODE_ERRORS as error:
        if lost_output(error):
            return end_output(error)
        if isinstance(error, OSError) and error.filename is not None and not line_in_file(error):
            reason = f"Cannot use {error.filename}: {error.strerror}."
            errors.print(f"[bold red]Error:[/] {escape(shortened(reason))}", soft_wrap=True)
            return 3
        where = line_in_file(error)
        if not where and not isinstance(error, SystemExit):
            raise  # a fault of the program, not of a user's file
        raised = blamed(error) if isinstance(error, SystemExit) else f"{where}, raised {one_line(error)}"
        errors.print(f"[bold red]Error:[/] {escape(raised.rstrip('.'))}.", soft_wrap=True)
        return 2


def _interrupted() -> int:
    errors.print(f"\nStopped. {escape(what_is_kept())}", soft_wrap=True)
    return INTERRUPTED
