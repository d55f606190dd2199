"""Named functions with facts about them: how estimators, tasks, models and fills are declared."""

from __future__ import annotations

import functools
import inspect
import itertools
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, get_type_hints

import pydantic

from uproar.errors import CODE_ERRORS, BadInput, BadOption, UproarError, one_line, plainly, unknown
from uproar.expression import Call, Value
from uproar.plugins import PREFIX, code_of, declaring_module


@dataclass(frozen=True)
class Entry:
    """A function under a name; its keyword-only arguments are its options."""

    kind: str
    name: str
    function: Callable[..., Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    module: str = ""
    """The module that declares it."""
    installed: bool = False
    """Whether an installed package declares it, by an entry point."""

    @functools.cached_property
    def code(self) -> str:
        """A hash of the user's code that declares it, with all that this loads; empty for what uproar declares."""
        return code_of(self.module, self.function) if self.module else ""

    @property
    def plugin(self) -> str:
        """The user's file or the package that declares it; empty for uproar's own and for functions of a session."""
        return self.module if self.installed or self.module.startswith(PREFIX) else ""

    @property
    def version(self) -> Any:
        """What tells it from what it was when stored results were made."""
        return self.code or self.facts.get("version", 1)

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @functools.cached_property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options with their defaults."""
        return {p.name: p for p in inspect.signature(self.function).parameters.values() if p.kind is p.KEYWORD_ONLY}

    @functools.cached_property
    def inputs(self) -> tuple[str, ...]:
        """The names of the positional arguments."""
        return tuple(
            p.name for p in inspect.signature(self.function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD
        )

    @functools.cached_property
    def _readers(self) -> dict[str, Callable[[Any], Any]]:
        """What checks the values of options, each made when it is first needed."""
        return {}

    def bind(self, **arguments: Any) -> dict[str, Any]:
        """All options with their values; unknown names and impossible values are refused here."""
        for name in arguments:
            if name not in self.options:
                allowed = ", ".join(self.options) or "no options"
                raise BadOption(f"{self.name} takes no option {name!r}; it takes {allowed}.")
        values = {}
        for name, parameter in self.options.items():
            if name not in arguments:
                if parameter.default is parameter.empty:
                    raise BadOption(f"{self.name} needs the option {name!r}.")
                values[name] = parameter.default
                continue
            if name not in self._readers:  # kept, since making one takes longer than all else here
                hint = option_types(self.function).get(name, Any)
                self._readers[name] = pydantic.TypeAdapter(hint).validate_python
            try:
                values[name] = self._readers[name](arguments[name])
            except pydantic.ValidationError as error:
                reason = plainly(error.errors()[0]["msg"])
                raise BadOption(f"{self.name}: {name} {reason}, not {arguments[name]!r}.") from None
        return values

    def complete(self, call: Call) -> Call:
        """The call with every option written out, so that a default is part of an identity."""
        options: dict[str, Value] = self.bind(**dict(call.options))
        return Call(call.name, call.args, tuple(sorted(options.items())))


def options_of(other: Callable[..., Any], **defaults: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of another function behind one's own, with other `defaults`, for one that takes `**options`.

    >>> def area(curve, *, steps: int = 10, fill: str = "mean"): ...
    >>> @options_of(area, fill="blur")
    ... def mirrored(curve, **options):
    ...     return options
    >>> mirrored([], steps=5), list(inspect.signature(mirrored).parameters)
    ({'steps': 5, 'fill': 'blur'}, ['curve', 'steps', 'fill'])
    """
    theirs = [p for p in inspect.signature(other).parameters.values() if p.kind is p.KEYWORD_ONLY]
    options = [p.replace(default=defaults.get(p.name, p.default)) for p in theirs]
    values = {p.name: p.default for p in options}

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]

        @functools.wraps(function)
        def with_options(*inputs: Any, **arguments: Any) -> Any:
            return function(*inputs, **{**values, **arguments})

        with_options.__signature__ = signature.replace(parameters=[*parameters, *options])  # type: ignore[attr-defined]
        with_options.options_of = other  # type: ignore[attr-defined]
        return with_options

    return declare


def option_types(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of a function's options, also of those that it has from another."""
    other = getattr(function, "options_of", None)
    return {**({} if other is None else option_types(other)), **get_type_hints(function, include_extras=True)}


load_later: list[Callable[[], object]] = []
"""What loads the plug-ins of a process, when a name is asked for that nobody else has declared."""


class Registry:
    """All entries of one kind, found by name; packages add theirs through entry points."""

    def __init__(self, kind: str, group: str | None = None, modules: tuple[str, ...] = ()) -> None:
        """`modules` declare entries of the package itself; they are imported before the first lookup.

        `*` stands for every module of a package: `uproar.audits.*`, or `uproar.papers.*.figures`.
        """
        self.kind = kind
        self._group = group
        self._waiting = modules
        self._entries: dict[str, Entry] = {}
        self._by_module: dict[str, dict[str, Entry]] = {}
        self.revision = 0
        """Rises with every declaration: what was read by name before may mean something else since."""
        self.makers: dict[str, Callable[[str], Entry]] = {}
        """By prefix: makes the entry of a name that starts with it, e.g. `captum:Saliency`."""
        self.aliases: Mapping[str, str] = {}
        """Further names, each with the expression it stands for: nobody may declare them."""

    def add(self, name: str, function: Callable[..., Any], **facts: Any) -> Entry:
        """Declare `function` under `name`."""
        module = declaring_module(function)
        if module.partition(".")[0] != "uproar":
            self._import_modules()  # a name of the package is taken before anybody else asks for it
        if name in self.aliases:
            raise BadInput(f"{name!r} is another name of the {self.kind} {self.aliases[name]}; choose another one.")
        known = self._entries.get(name)
        if known is not None and _origin(known.module) != _origin(module):
            raise BadInput(
                f"The {self.kind} {name!r} of {_shown(module)} would replace the one of {_shown(known.module)}; choose "
                "another name."
            )
        entry = Entry(self.kind, name, function, facts, module)
        self._entries[name] = entry
        self.revision += 1
        self._by_module.setdefault(module, {})[name] = entry
        return entry

    def remove(self, name: str) -> None:
        """Take back a declaration."""
        del self._entries[name]
        self.revision += 1

    def redeclare(self, module: str) -> list[Entry]:
        """What a module declares, in force again if another text of it has replaced it since."""
        declared = self._by_module.get(module, {})
        entries = {name: replace(entry) for name, entry in declared.items()}  # hashes are known when all is loaded
        self._entries.update(entries)
        self.revision += 1
        return [entries[name] for name in sorted(entries)]

    def declare(
        self, name: str | None = None, takes: tuple[str, ...] = (), **facts: Any
    ) -> Callable[[Callable], Callable]:
        """Decorator: declare a function under its own name, or another; `takes` are the inputs that it may have."""

        def keep(function: Callable) -> Callable:
            entry = Entry(self.kind, name or function.__name__, function)
            if takes and (others := [parameter for parameter in entry.inputs if parameter not in takes]):
                role = str(facts.get("role", self.kind))
                raise BadInput(
                    f"{entry.name}: {'an' if role[0] in 'ae' else 'a'} {role} takes {', '.join(takes)} and options "
                    f"after a *, not {others[0]!r}."
                )
            return self.add(entry.name, function, **facts).function

        return keep

    def __getitem__(self, name: str) -> Entry:
        self._import_modules()
        for prefix, make in self.makers.items():
            if name.startswith(prefix):
                return make(name)
        if name not in self._entries:
            self.load_entry_points()
        while name not in self._entries and load_later:
            load_later.pop(0)()
        if name not in self._entries:
            raise unknown(self.kind, name, [*self._entries, *self.aliases])
        return self._entries[name]

    def __contains__(self, name: str) -> bool:
        self.load_entry_points()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        self.load_entry_points()
        return iter(sorted(self._entries))

    def values(self) -> list[Entry]:
        """All entries by name."""
        return [self._entries[name] for name in self]

    def complete(self, call: Call) -> Call:
        """The call with every option written out."""
        return self[call.name].complete(call)

    def load_entry_points(self) -> None:
        """Import what installed packages declare, once."""
        self._import_modules()
        for point in metadata.entry_points(group=self._group) if self._group else ():
            try:
                function = point.load()
            except UproarError:
                raise
            except CODE_ERRORS as error:
                raise BadInput(
                    f"The {self.kind} {point.name!r} of an installed package ({point.value}) cannot be loaded: "
                    f"{one_line(error)}"
                ) from error
            if point.name not in self._entries:
                self.add(point.name, function)
            self._entries[point.name] = replace(self._entries[point.name], installed=True)
        self._group = None

    def _import_modules(self) -> None:
        waiting, self._waiting = self._waiting, ()
        for module in itertools.chain.from_iterable(map(_matching, waiting)):
            import_module(module)


def _matching(pattern: str) -> list[str]:
    """The modules that a pattern stands for, by name.

    >>> _matching("uproar.registry"), "uproar.audits.sanity" in _matching("uproar.audits.*")
    (['uproar.registry'], True)
    """
    package, star, rest = pattern.partition(".*")
    if not star:
        return [pattern]
    inside = pkgutil.iter_modules(import_module(package).__path__)
    candidates = [f"{package}.{info.name}{rest}" for info in inside if info.ispkg or not rest]
    return [module for module in candidates if find_spec(module) is not None]


def _origin(module: str) -> str:
    """Where something is declared; an edited user's file is still the same place."""
    return module.rpartition("_")[0] if module.startswith(PREFIX) else module


def _shown(module: str) -> str:
    """A module as a person knows it.

    >>> _shown("uproar.estimators.gradient"), _shown("uproar_file_my_method_0123456789abcdef")
    ('uproar.estimators.gradient', 'my_method.py')
    """
    return f"{_origin(module).removeprefix(PREFIX)}.py" if module.startswith(PREFIX) else module
