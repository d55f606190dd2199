"""Results by content: a result is the call of a step, named by a hash of everything that it depends on.

A step is a plain function from values to arrays, declared once with `step`. Calling it computes nothing: it names a
`Result`. Its key is the hash of the step, its version, its arguments, some of which are other results, and the version
of torch. What is missing is what the store does not have. Resuming, adding an estimator or a seed, and repair after
damage all follow from that:

    base = base_model(data=Data("digits"), network=Network("cnn-small"), recipe=recipe, seed=0)
    jobs_of(missing([base], store))       # what is still to be made, in jobs
    make(job, store)                      # makes it, in whatever process this is: an outcome for every result
    obtain(base, store).arrays            # made now if need be, and read

Arguments are what JSON can hold, results, tuples of these, or objects with an `identity` (`study/inputs.py`): what they
stand for is loaded by the step, where it runs.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from uproar.errors import CODE_ERRORS, Absent, BadInput, Damaged, NotApplicable, SideEffect, StoreError, one_line
from uproar.models.output_kind import assuming_output
from uproar.plugins import describe_error
from uproar.store import Item, Store, key_of
from uproar.study.devices import deterministic, working_on

T = TypeVar("T")
ATTEMPTS = 3
"""How often a result is tried when the store loses what it is made from meanwhile."""


# a result and the steps that make results


@dataclass(frozen=True)
class Result:
    """What a step gives for some arguments, made or not."""

    step: str
    key: str
    """Where the store keeps it."""
    identity: str = field(compare=False)
    """What it counts as where other results are made from it."""
    group: str = field(compare=False)
    """Equal for results that one call may make together."""
    arguments: Mapping[str, Any] = field(compare=False, repr=False)

    @property
    def folder(self) -> str:
        """The folder of the store that it is kept in."""
        return step_named(self.step).folder

    @functools.cached_property
    def inputs(self) -> tuple[Result, ...]:
        """The results that it is made from."""
        return tuple(dict.fromkeys(value for value in _flat(self.arguments.values()) if isinstance(value, Result)))

    @functools.cached_property
    def plugins(self) -> str:
        """The plug-ins whose functions are called to make it, as one text."""
        values = (value for value in _flat(self.arguments.values()) if not isinstance(value, Result))
        named = (getattr(value, "plugins", ()) for value in values)
        return " ".join(sorted({plugin for plugins in named for plugin in plugins}))

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]


@dataclass(frozen=True)
class Step:
    """A function that makes results."""

    function: Callable[..., Any]
    folder: str
    title: Callable[[Sequence[Result]], str]
    """What is being done, in words."""
    cost: Callable[[Sequence[Result]], float]
    """Expected work, in images passed forward and backward."""
    together: tuple[str, ...]
    """Arguments in which results may differ and still be made by one call, which then gets lists of them."""
    split: Callable[[Sequence[Result]], list[list[Result]]]
    """Results that one call may make, in jobs."""


STEPS: dict[str, Step] = {}


def step_named(name: str) -> Step:
    """A declared step; a process that was only handed its results declares the steps now."""
    if name not in STEPS:
        importlib.import_module("uproar.study.steps")
    return STEPS[name]


def step(
    folder: str,
    *,
    title: Callable[[Sequence[Result]], str],
    cost: Callable[[Sequence[Result]], float],
    version: int = 1,
    together: tuple[str, ...] = (),
    split: Callable[[Sequence[Result]], list[list[Result]]] | int = 1,
    extent: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Result]]:
    """Declare a step: `(**values) -> Item`, or a list of items where some arguments come `together`.

    Raise `version` when the same arguments give other numbers. `split` is how many results are made in one job at most,
    or a function that makes jobs of them. `extent` names arguments that say how much is kept of what is made, such as
    the fractions of a ranking: what is made from it does not depend on them.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Result]:
        name, signature = function.__name__, inspect.signature(function)
        jobs = functools.partial(in_chunks, size=split) if isinstance(split, int) else split
        STEPS[name] = Step(function, folder, title, cost, together, jobs)

        @functools.wraps(function)
        def named(**arguments: Any) -> Result:
            bound = signature.bind(**arguments)
            bound.apply_defaults()
            values = {name: identity_of(value) for name, value in bound.arguments.items()}
            content = {"version": version, **{name: value for name, value in values.items() if name not in extent}}
            identity = key_of(folder, content)
            size = {name: values[name] for name in extent}
            key = f"{identity}-{key_of('extent', size)[:8]}" if extent else identity
            shared = {n: value for n, value in values.items() if n not in together}
            return Result(name, key, identity, key_of(name, shared), bound.arguments)

        return named

    return declare


def identity_of(value: Any) -> Any:
    """What an argument counts as in a key."""
    if isinstance(value, tuple | list):
        return [identity_of(each) for each in value]
    return getattr(value, "identity", value)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """Values and what tuples among them hold."""
    for value in values:
        if isinstance(value, tuple | list):
            yield from _flat(value)
        else:
            yield value


def in_chunks(values: Sequence[T], size: int) -> list[list[T]]:
    """Values in groups of at most `size`."""
    return [list(values[i : i + size]) for i in range(0, len(values), size)]


# how a result ended


@dataclass(frozen=True)
class Done:
    """It is in the store."""


@dataclass(frozen=True)
class Skipped:
    """It does not exist here, for this reason; not an error."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """It went wrong; never kept, tried again next time."""

    reason: str
    traceback: str = ""


@dataclass(frozen=True)
class Lost:
    """What it is made from vanished from the store meanwhile: it is tried again when that is there."""

    reason: str


Outcome = Done | Skipped | Failed | Lost
NO_BASE = "the base model could not be trained"
"""How the reason begins where something failed with its replicate's base network."""


# from results to jobs


def missing(wanted: Iterable[Result], store: Store) -> list[Result]:
    """What must be made for some results, inputs first; those of finished results are not looked at."""
    order: dict[Result, None] = {}
    finished: set[Result] = set()

    def visit(result: Result) -> None:
        if result in order or result in finished:
            return
        if store.has(result.folder, result.key):
            finished.add(result)
            return
        for needed in result.inputs:
            visit(needed)
        order[result] = None

    for result in wanted:
        visit(result)
    return list(order)


def reachable(wanted: Iterable[Result]) -> set[Result]:
    """Some results with everything that they are made from."""
    seen: set[Result] = set()
    rest = list(wanted)
    while rest:
        result = rest.pop()
        if result not in seen:
            seen.add(result)
            rest += result.inputs
    return seen


@dataclass(frozen=True)
class Job:
    """Results that one call makes, in one process."""

    results: tuple[Result, ...]
    device: str = "cpu"
    needs: tuple[str, ...] = ()
    """Jobs that make what its results are made from."""

    number: int = 0
    """Where it stands in the plan: of jobs that are possible, the first is done first."""
    name: str = ""

    @property
    def id(self) -> str:
        """A name of its own, also with fewer results."""
        return self.name or f"{self.step}/{self.results[0].key}"

    def only(self, results: Sequence[Result]) -> Job:
        """The same job for some of its results."""
        return replace(self, results=tuple(results), name=self.id)

    @property
    def step(self) -> str:
        """The step that makes all its results."""
        return self.results[0].step

    @property
    def plugins(self) -> str:
        """The plug-ins whose functions it calls: it runs in a process that does no other jobs."""
        return self.results[0].plugins

    @functools.cached_property
    def cost(self) -> float:
        """Expected work, in images passed forward and backward."""
        try:
            return step_named(self.step).cost(self.results)
        except CODE_ERRORS:  # what does not fit is said by the job itself
            return 1.0

    @property
    def like(self) -> tuple[str, ...]:
        """What decides how long a unit of its work takes."""
        known = (self.results[0].arguments.get(name) for name in ("network", "data"))
        return (self.step, *(value.name for value in known if value is not None))

    @property
    def data(self) -> Any:
        """The images that it is about, where it is about some."""
        return self.results[0].arguments.get("data")

    def __str__(self) -> str:
        return step_named(self.step).title(self.results)


def jobs_of(results: Sequence[Result], device: str = "cpu") -> list[Job]:
    """Jobs for some results, each with those that it waits for; what is cheaper together is one job."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.group, result.plugins), []).append(result)
    parts = [some for group in groups.values() for some in step_named(group[0].step).split(group)]
    order = {result: i for i, result in enumerate(results)}
    parts.sort(key=lambda some: min(order[result] for result in some))
    jobs = [Job(tuple(some), device) for some in parts]
    maker = {result: job.id for job in jobs for result in job.results}
    needs = [dict.fromkeys(maker[n] for r in job.results for n in r.inputs if n in maker) for job in jobs]
    return [replace(job, needs=tuple(needs[i]), number=i) for i, job in enumerate(jobs)]


# making them


class Stored:
    """A result in the store, read when it is first asked for; `Absent` where it is not there."""

    def __init__(self, store: Store, folder: str, key: str) -> None:
        self.store, self.folder, self.key = store, folder, key

    @functools.cached_property
    def item(self) -> Item:
        """All of it, verified."""
        item = self.store.find(self.folder, self.key)
        if item is None:
            raise Absent(f"{self.folder} {self.key} is not there")
        return item

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """Its arrays."""
        return self.item.arrays

    @functools.cached_property
    def facts(self) -> Mapping[str, Any]:
        """What is known of it, read without its arrays."""
        facts = self.store.facts(self.folder, self.key)
        if not facts:
            self.store.faults.absent.add((self.folder, self.key))
            raise Absent(f"{self.folder} {self.key} is not there")
        return facts

    def spans(self, array: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some spans of the bytes of an array, read without the rest."""
        return self.store.spans(self.folder, self.key, array, spans)


def stored(result: Result, store: Store) -> Stored:
    """A result as the store has it."""
    return Stored(store, result.folder, result.key)


@dataclass
class Report:
    """How a job ended: an outcome for each of its results."""

    job: Job
    outcomes: dict[Result, Outcome]
    seconds: float
    notices: list[str] = field(default_factory=list)
    worker: str = ""


FORGET: list[Callable[[], None]] = []
"""What a process holds of data and networks is dropped by calling these: after code of a user has changed something."""


def run_job(job: Job, root: str) -> Report:
    """Carry out a job against the store at `root`; errors become outcomes."""
    began, store = time.perf_counter(), Store(root)
    with working_on(job.device) as device, deterministic(device):
        outcomes = make(job.results, store)
    return Report(job, outcomes, time.perf_counter() - began, store.faults.take_notices())


def make(results: Sequence[Result], store: Store) -> dict[Result, Outcome]:
    """Make results of one step, all together; where that fails, in parts, so that only the guilty one fails."""
    outcome = _attempt(results, store)
    if isinstance(outcome, Done) or len(results) == 1:
        return dict.fromkeys(results, outcome)
    first = step_named(results[0].step).together[0]
    parts: dict[str, list[Result]] = {}
    for result in results:
        parts.setdefault(str(identity_of(result[first])), []).append(result)
    groups = list(parts.values()) if len(parts) > 1 else [[result] for result in results]
    return {result: ended for group in groups for result, ended in make(group, store).items()}


def _attempt(results: Sequence[Result], store: Store) -> Outcome:
    """`Done`, or why not: what code of a user asks for ends its own results. A full disk stops the run."""
    declared, data = step_named(results[0].step), results[0].arguments.get("data")
    began = time.perf_counter()
    try:
        with nullcontext() if data is None else assuming_output(data.output_kind):
            calls = [{name: _value(value, store) for name, value in r.arguments.items()} for r in results]
            values = {
                name: [call[name] for call in calls] if name in declared.together else calls[0][name]
                for name in calls[0]
            }
            items = declared.function(**values) if declared.together else [declared.function(**values)]
    except NotApplicable as error:
        return Skipped(one_line(error))
    except SideEffect as error:
        for forget in FORGET:
            forget()
        return Failed(one_line(error), traceback.format_exc())
    except (Absent, Damaged) as error:
        return Lost(one_line(error))
    except StoreError:
        raise
    except CODE_ERRORS as error:
        return Failed(describe_error(error), traceback.format_exc())
    seconds = (time.perf_counter() - began) / len(results)
    for result, item in zip(results, items, strict=True):
        store.write(result.folder, result.key, Item(item.arrays, {"seconds": seconds, **item.facts}))
    return Done()


def _value(value: Any, store: Store) -> Any:
    """An argument as its step gets it: a result as the store has it."""
    if isinstance(value, Result):
        return stored(value, store)
    if isinstance(value, tuple | list):
        return tuple(_value(each, store) for each in value)
    return value


def obtain(result: Result, store: Store, device: str = "cpu") -> Stored:
    """A result, made in this process where the store does not have it; why it cannot be made is raised."""
    for _ in range(ATTEMPTS):
        for job in jobs_of(missing([result], store), device):
            for outcome in run_job(job, store.root).outcomes.values():
                if isinstance(outcome, Skipped):
                    raise NotApplicable(outcome.reason)
                if isinstance(outcome, Failed):
                    raise BadInput(outcome.reason)
        kept = stored(result, store)
        if store.find(result.folder, result.key) is not None:
            return kept
    raise Absent(f"{result.folder} {result.key} is not there")
