"""The program: its commands, and how errors become one sentence and an exit code."""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Annotated, Any

import typer

from uproar.cli.check import check, new
from uproar.cli.data import data_app, store_app
from uproar.cli.explain import explain
from uproar.cli.interrupt import INTERRUPTED, Terminated, end_output, lost_output, orderly_end, what_is_kept
from uproar.cli.ls import ls
from uproar.cli.options import Group, add_command
from uproar.cli.report import compare, report
from uproar.cli.run import audit, run
from uproar.cli.score import choose, score
from uproar.cli.screen import errors, note, output
from uproar.errors import CODE_ERRORS, StoreError, UproarError, did_you_mean, one_line, plainly, shortened
from uproar.paths import check_working_folder
from uproar.plugins import describe_error, line_in_file


def _show_version(wanted: bool) -> bool:
    if wanted:
        output.say(f"uproar {metadata.version('uproar')}")
        raise typer.Exit
    return wanted


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


PANELS: dict[str, tuple[Any, ...]] = {
    "Ask about a network": (choose, explain, score),
    "Run a study": (run, audit, report, compare),
    "Extend and keep": (check, new, ls),
}
for panel, commands in PANELS.items():
    for command in commands:
        add_command(app, command, panel=panel)
app.add_typer(data_app, name="data", rich_help_panel="Extend and keep")
app.add_typer(store_app, name="store", rich_help_panel="Extend and keep")
# what typer raises for a wrong command line; newer versions carry their own copy of click
_UsageError = typer.BadParameter.__mro__[2]


def main(arguments: list[str] | None = None) -> None:
    """Run the program; a user's mistake is one sentence and a non-zero exit."""
    sys.exit(_exit_code(arguments))


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print what Python would warn of as notes, each once."""
    with warnings.catch_warnings():
        warnings.simplefilter("once", UserWarning)
        warnings.showwarning = lambda message, *_: note(str(message))
        yield


def _exit_code(arguments: list[str] | None) -> int:
    try:
        check_working_folder()
        with orderly_end(), warnings_as_notes():
            code = app(arguments, prog_name="uproar", standalone_mode=False) or 0
        return _interrupted() if code == INTERRUPTED else code
    except typer.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except Terminated as ended:
        with contextlib.suppress(OSError):  # a terminal that was closed
            errors.say(f"\n{ended} {what_is_kept()}")
        return ended.exit_code
    except UproarError as error:
        return _refused(str(error), 3 if isinstance(error, StoreError) else 2)
    except _UsageError as error:  # type: ignore[misc]
        if not error.format_message().strip():
            return 2  # no command was given: its help has been printed
        return _refused(_usage_sentence(error, sys.argv[1:] if arguments is None else arguments), 2)
    except CODE_ERRORS as error:
        if lost_output(error):
            return end_output(error)
        line = line_in_file(error)  # of a user's file
        if isinstance(error, SystemExit):
            if line:
                return _refused(f"{describe_error(error).rstrip('.')}.", 2)
            return error.code if isinstance(error.code, int) else int(error.code is not None)  # a shell was answered
        if line:
            return _refused(f"{line}, raised {one_line(error).rstrip('.')}.", 2)
        if isinstance(error, OSError) and error.filename is not None:
            return _refused(shortened(f"Cannot use {error.filename}: {error.strerror}."), 3)
        raise  # a fault of the program


def _refused(sentence: str, code: int) -> int:
    errors.say(("Error: ", "bold red"), sentence)
    return code


def _interrupted() -> int:
    errors.say(f"\nStopped. {what_is_kept()}")
    return INTERRUPTED


def _usage_sentence(error: Any, words: Sequence[str]) -> str:
    """What is wrong with a command line, by the error of its parser, which does not always know the command."""
    parameter, reason = getattr(error, "param", None), plainly(error.message or "").strip().rstrip(".")
    if parameter is not None and reason:
        named = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[-1]
        sentence = f"{named}{'' if reason.startswith('must') else ':'} {reason}"
        if choice := re.fullmatch(r"'(.*)' is not one of '(.*)'", reason):
            sentence += "." + did_you_mean(choice[1], choice[2].split("', '"), 1)
    else:
        sentence = plainly(error.format_message()).strip().rstrip(".")
    path = " ".join(["uproar", *words[:1]]) if error.ctx is None else error.ctx.command_path
    return f"{sentence}{'' if sentence.endswith(('?', '.')) else '.'} See {path} --help."
