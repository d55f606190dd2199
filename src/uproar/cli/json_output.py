"""`--json` of every command: standard output holds one JSON object and nothing else; all that is for people is silent,
progress and notes stay on standard error.

    @with_json
    def ls(...) -> int:
        add_to_json(estimators=rows)        # a table: a list of rows by column name, as in the CSV files

A table is a data frame or a list of rows. Numbers that JSON does not have (NaN, infinity) are null.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from uproar.cli.console import output
from uproar.cli.options import flag

Json = Annotated[bool, flag("--json", text="Print JSON for programs, and nothing else", advanced=True)]

_results: dict[str, object] = {}
"""What the command that runs has found."""


def json_wanted() -> bool:
    """Whether the command that runs prints JSON: what only JSON has need not be computed otherwise."""
    return output.quiet


def add_to_json(**values: object) -> None:
    """Put values into what `--json` prints: a table, a text, a number, a path, or a mapping or list of these."""
    _results.update(values)


def with_json(command: Callable[..., int]) -> Callable[..., int]:
    """A command with the option `--json`."""
    signature = inspect.signature(command, eval_str=True)
    own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values()]
    added = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
    every = [*own, added]

    @functools.wraps(command)
    def printing(**given: Any) -> int:
        return _printed(command, given) if given.pop("json", False) else command(**given)

    printing.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    printing.__annotations__ = {each.name: each.annotation for each in every}
    return printing


def _printed(command: Callable[..., int], given: Mapping[str, Any]) -> int:
    """Run a command in silence and print what it found; what is refused or interrupted prints nothing."""
    _results.clear()
    before, output.quiet = output.quiet, True
    try:
        code = command(**given)
    finally:
        output.quiet = before
    text = json.dumps({name: as_json(value) for name, value in _results.items()}, indent=1, ensure_ascii=False)
    print(text, file=output.file, flush=True)
    return code


def as_json(value: Any) -> Any:
    """A value as JSON has it.

    >>> as_json({"low": float("nan"), "n": 3, "seeds": (0, 1)})
    {'low': None, 'n': 3, 'seeds': [0, 1]}
    """
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return [as_json(row) for row in value.to_dict(orient="records")]
    if isinstance(value, Mapping):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [as_json(each) for each in value]
    if hasattr(value, "item") and not isinstance(value, str):
        return as_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | bool | int | float) else str(value)
