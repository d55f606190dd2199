"""The registry of tasks and how a name becomes a Task."""

from __future__ import annotations

from uproar.data.task import Task
from uproar.errors import BadInput
from uproar.expression import parse
from uproar.registry import Registry

tasks = Registry("task", "uproar.tasks")


def load(name: str) -> Task:
    """The task a text names, e.g. `digits` or `planted(size=16)`."""
    call = parse(name)
    if call.args:
        raise BadInput(f"The task {call.name!r} takes options such as size=16, not {call.args[0]}.")
    entry = tasks[call.name]
    return entry.function(**entry.bind(**dict(call.options)))
