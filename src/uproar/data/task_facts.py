"""What is known of a task without its files: how many images, of what size, how many classes, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from uproar.data.catalogue import CATALOGUE, public_dataset
from uproar.data.locations import find, missing_message
from uproar.data.registry import load, tasks
from uproar.errors import BadInput, one_line
from uproar.expression import Call, parse


@dataclass(frozen=True)
class TaskFacts:
    """The size of a task. `missing` says what must be there before it can be loaded; empty where all is."""

    train: int
    test: int
    classes: int
    shape: tuple[int, int, int]
    missing: str = ""


def task_facts(name: str) -> TaskFacts:
    """The size of the task a text names; only what is made up or part of the package is loaded.

    >>> task_facts("imagenet(test=5000, size=96)").test, task_facts("semi-natural(cifar100)").shape
    (5000, (3, 32, 32))
    """
    return _facts(parse(name))


def _facts(call: Call) -> TaskFacts:
    if call.args and call.name in ("semi-natural", "blank", "backdoor"):  # as many images, as large, as those inside
        return _facts(call.args[0])
    if call.name not in CATALOGUE:
        return _loaded(call)
    known = public_dataset(call.name)
    options = tasks[call.name].bind(**dict(call.options))
    classes = len(options.get("only", ())) or known.classes
    train, test = (
        options.get(split) or n * classes // known.classes
        for split, n in zip(("train", "test"), known.counts, strict=True)
    )
    c, h, w = known.shape
    size = options.get("size")
    shape = (c, h, w) if size is None else (c, size, size)
    root = options.get("root")
    absent = "" if find(known, root) is not None else missing_message(known, root)
    return TaskFacts(train, test, classes, shape, absent)


def _loaded(call: Call) -> TaskFacts:
    try:
        task = load(str(call))
    except BadInput as error:
        raise BadInput(f"The size of {call} is not known without its files: {one_line(error)}") from None
    return TaskFacts(len(task.train), len(task.test), len(task.classes), task.shape)


def limit_facts(size: TaskFacts, limit: int | None) -> TaskFacts:
    """The size with at most so many images in each split."""
    if limit is None:
        return size
    return replace(size, train=min(size.train, limit), test=min(size.test, limit))
