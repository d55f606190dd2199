"""A command line that cannot be read, in a sentence: what was wrong, what was given, where to look."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from uproar.errors import plainly


def usage_sentence(error: Any, arguments: Sequence[str] | None, program: Any) -> str:
    """What is wrong with a command line; `error` is what the parser of `program`, a group of commands, raised."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parameter = getattr(error, "param", None)
    reason = plainly(str(error.message or "")).strip().rstrip(".")
    if parameter is None or not reason:
        said = plainly(error.format_message()).strip().rstrip(".")
    elif reason.startswith("must"):
        option, given = _given(parameter, words)
        said = f"{option} {reason}" + (f", not {given!r}" if given is not None else "")
    else:
        said = f"{_given(parameter, words)[0]}: {reason}"
    return f"{said}. See {' '.join(['uproar', *_command(words, program), '--help'])}."


def _command(words: Sequence[str], program: Any) -> list[str]:
    """The names of commands that a command line begins with; not every error of the parser knows its command."""
    found: list[str] = []
    for word in words:
        program = getattr(program, "commands", {}).get(word)
        if program is None:
            break
        found.append(word)
    return found


def _given(parameter: Any, words: Sequence[str]) -> tuple[str, str | None]:
    """The option as it was written, and what was given for it."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name), None
    for place in reversed(range(len(words))):  # the last one counts
        option, equals, value = words[place].partition("=")
        if option in parameter.opts:
            return option, value if equals else next(iter(words[place + 1 :]), None)
    return str(parameter.opts[-1]), None
