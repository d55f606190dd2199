"""The program: its commands, and how errors become one sentence and an exit code."""

from __future__ import annotations

import sys

import click
import typer

from uproar.cli import explain, look, run
from uproar.cli.console import errors
from uproar.errors import StoreError, UproarError

app = typer.Typer(
    name="uproar",
    help="Which attribution method can you trust on your model and data, "
    "and can the benchmark itself be trusted?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("run")(run.run)
app.command("report")(run.report)
app.command("validate")(run.validate)
app.command("explain")(explain.explain)
app.command("ls")(look.ls)
app.command("doctor")(look.doctor)


def main(arguments: list[str] | None = None) -> None:
    """Run the program; a user's mistake is one sentence and a non-zero exit."""
    sys.exit(_exit_code(arguments))


def _exit_code(arguments: list[str] | None) -> int:
    try:
        return app(arguments, standalone_mode=False) or 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except StoreError as error:
        errors.print(f"[bold red]Error:[/] {_plain(error)}", soft_wrap=True)
        return 3
    except UproarError as error:
        errors.print(f"[bold red]Error:[/] {_plain(error)}", soft_wrap=True)
        return 2
    except (KeyboardInterrupt, click.exceptions.Abort):
        errors.print("\nStopped. What was finished is kept; the same command goes on from there.")
        return 130


def _plain(error: Exception) -> str:
    from rich.markup import escape

    return escape(str(error))
