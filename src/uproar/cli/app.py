"""The program: its commands, and how errors become one sentence and an exit code."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.main import get_command

from uproar.cli import audit, check, choose, compare, data, explain, ls, new, report, run, score, store
from uproar.cli.console import errors, output
from uproar.cli.interrupt import (
    INTERRUPTED,
    Terminated,
    end_output,
    ending_at_second,
    ending_signals,
    lost_output,
    what_is_kept,
)
from uproar.cli.json_output import with_json
from uproar.cli.options import Command, Group
from uproar.errors import CODE_ERRORS, StoreError, UproarError, one_line, plainly, shortened
from uproar.paths import check_working_folder
from uproar.plugins import describe_error, line_in_file


def _show_version(wanted: bool) -> bool:
    if wanted:
        output.print(f"uproar {metadata.version('uproar')}", highlight=False)
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


ASK, RUN, EXTEND = "Ask about a network", "Run a study", "Extend and keep"
for panel, commands in (
    (ASK, (choose.choose, explain.explain, score.score)),
    (RUN, (run.run, audit.audit, report.report, compare.compare)),
    (EXTEND, (check.check, new.new, ls.ls)),
):
    for command in commands:
        app.command(command.__name__, cls=Command, rich_help_panel=panel)(with_json(command))
app.add_typer(data.app, name="data", rich_help_panel=EXTEND)
app.add_typer(store.app, name="store", rich_help_panel=EXTEND)


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
        with contextlib.suppress(OSError):  # a terminal that was closed
            errors.print(f"\n{ended} {escape(what_is_kept())}", soft_wrap=True)
        return ended.exit_code
    except UproarError as error:
        return _refused(str(error), 3 if isinstance(error, StoreError) else 2)
    except _UsageError as error:  # type: ignore[misc]
        if not error.format_message().strip():
            return 2  # no command was given: its help has been printed, there is nothing to add
        return _refused(_usage_sentence(error, arguments, get_command(app)), 2)
    except CODE_ERRORS as error:
        if lost_output(error):
            return end_output(error)
        if isinstance(error, SystemExit) and not line_in_file(error):  # of the library that completes words for shells
            return error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error, OSError) and error.filename is not None and not line_in_file(error):
            return _refused(shortened(f"Cannot use {error.filename}: {error.strerror}."), 3)
        where = line_in_file(error)
        if not where and not isinstance(error, SystemExit):
            raise  # a fault of the program, not of a user's file
        raised = describe_error(error) if isinstance(error, SystemExit) else f"{where}, raised {one_line(error)}"
        return _refused(f"{raised.rstrip('.')}.", 2)


def _refused(sentence: str, code: int) -> int:
    errors.print(f"[bold red]Error:[/] {escape(sentence)}", soft_wrap=True)
    return code


def _interrupted() -> int:
    errors.print(f"\nStopped. {escape(what_is_kept())}", soft_wrap=True)
    return INTERRUPTED


def _usage_sentence(error: Any, arguments: Sequence[str] | None, program: Any) -> str:
    """What is wrong with a command line; `error` is what the parser of `program`, a group of commands, raised."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parameter = getattr(error, "param", None)
    reason = plainly(str(error.message or "")).strip().rstrip(".")
    if parameter is None or not reason:
        sentence = plainly(error.format_message()).strip().rstrip(".")
    elif reason.startswith("must"):
        option, given = _given(parameter, words)
        sentence = f"{option} {reason}" + (f", not {given!r}" if given is not None else "")
    else:
        sentence = f"{_given(parameter, words)[0]}: {reason}"
    end = "" if sentence.endswith("?") else "."
    return f"{sentence}{end} See {' '.join(['uproar', *_command(words, program), '--help'])}."


def _command(words: Sequence[str], program: Any) -> list[str]:
    """The names of commands that a command line begins with; not every error of the parser knows its command."""
    names: list[str] = []
    for word in words:
        program = getattr(program, "commands", {}).get(word)
        if program is None:
            break
        names.append(word)
    return names


def _given(parameter: Any, words: Sequence[str]) -> tuple[str, str | None]:
    """The option as it was written, and what was given for it."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name), None
    for place in reversed(range(len(words))):  # the last one counts
        option, equals, value = words[place].partition("=")
        if option in parameter.opts:
            return option, value if equals else next(iter(words[place + 1 :]), None)
    return str(parameter.opts[-1]), None
