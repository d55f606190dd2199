"""The registry of tasks and how a name becomes a Task."""

from __future__ import annotations

from uproar.data.task import Task
from uproar.errors import CODE_ERRORS, BadInput, UproarError, one_line
from uproar.expression import Call, parse
from uproar.plugins import line_in_file
from uproar.registry import Entry, Registry

_MODULES = ("derived_tasks", "user_images", "huggingface", "photographs", "planted", "small_sets")
tasks = Registry("task", "uproar.tasks", tuple(f"uproar.data.{module}" for module in _MODULES))


def load(name: str) -> Task:
    """The task a text names, e.g. `digits`, `planted(size=16)` or `semi-natural(cifar100)`."""
    return _load(parse(name))


def check_task(name: str) -> None:
    """Refuse a text that cannot name a task, without loading anything."""
    for call in parse(name).walk():
        _entry(call)


def _load(call: Call) -> Task:
    entry = _entry(call)
    inner = [_load(arg) for arg in call.args]
    try:
        task = entry.function(*inner, **entry.bind(**dict(call.options)))
    except UproarError:
        raise
    except CODE_ERRORS as error:
        where = line_in_file(error)
        if not where:
            raise
        raise BadInput(f"The task {call.name} cannot be loaded: {where}: {one_line(error)}") from error
    if not isinstance(task, Task):
        raise BadInput(f"The task {call.name} must return a uproar.Task, not {type(task).__name__}.")
    return task


def _entry(call: Call) -> Entry:
    """The entry of a call whose inner tasks and options fit it."""
    entry = tasks[call.name]
    if call.args and not entry.inputs:
        raise BadInput(f"The task {call.name!r} takes options such as size=16, not {call.args[0]}.")
    if len(call.args) != len(entry.inputs):
        raise BadInput(
            f"The task {call.name!r} is made of {len(entry.inputs)} other, e.g. {call.name}(digits); "
            f"{len(call.args)} were given."
        )
    entry.bind(**dict(call.options))
    return entry
