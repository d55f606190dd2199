"""The reference pages of the documentation site, made by asking the package: Python names, commands, registries.

    python tools/reference_pages.py docs/reference

`docs/conf.py` calls it before every build. The pages are not kept under version control: they cannot be out of date.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import cards

import uproar
from uproar import extend
from uproar.cli.app import app
from uproar.cli.listings import tables_of

RESULTS = {
    "uproar.study.collected": ["Run"],
    "uproar.results.answer": ["Answer"],
    "uproar.results.finding": ["Finding"],
    "uproar.report.mapsheet": ["MapSheet"],
}
"""Classes that functions return and users read, by module."""

DECORATORS = ("estimator", "metric", "task", "direct", "check")
"""Functions of the package that declare something, or check what was declared."""
SHARED = {"--data-root", "--json"}
"""Options that are described once for all commands."""
LISTS = ("tasks", "models", "fills", "recipes")
"""Kinds of which a page lists all names."""


def write_pages(folder: Path) -> list[Path]:
    """Write every reference page into a folder; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"functions": functions_page(), "results": results_page(), "extend": extend_page(), "commands": commands()}
    pages |= {"estimators": cards.estimators_page(), "transforms": cards.transforms_page()}
    pages |= {"metrics": cards.metrics_page(), "metric-variants": cards.variants_page(), "lists": lists()}
    for name, text in pages.items():
        file = folder / f"{name}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
    return [folder / f"{name}.md" for name in pages]


def functions_page() -> str:
    """The public functions of the package."""
    parts = [described(f"uproar.{name}", thing) for name, thing in public(False).items() if name not in DECORATORS]
    return "\n\n".join(["# Functions", "Everything to call after `import uproar`.", *parts]) + "\n"


def public(classes: bool) -> dict[str, Any]:
    """The public names of the package that are classes, or those that are not."""
    named = {name: getattr(uproar, name) for name in uproar.__all__}
    return {name: thing for name, thing in named.items() if inspect.isclass(thing) is classes}


def results_page() -> str:
    """The classes that functions take and return."""
    parts = [
        "# Classes",
        "What functions take and return. In a notebook each result shows itself.",
        *(described(f"uproar.{name}", thing) for name, thing in public(True).items() if name != "Run"),
    ]
    for module, names in RESULTS.items():
        loaded = __import__(module, fromlist=names)
        parts += [described(f"{module}.{name}", getattr(loaded, name)) for name in names]
    return "\n\n".join(parts) + "\n"


def extend_page() -> str:
    """The decorators for plug-ins."""
    parts = ["# Decorators for plug-ins", "`from uproar import extend`; see [Extend](../extend.md)."]
    parts += [described(f"uproar.{name}", getattr(uproar, name)) for name in DECORATORS]
    names = [name for name in extend.__all__ if name not in uproar.__all__ and name != "Finding"]
    parts += [described(f"uproar.extend.{name}", getattr(extend, name)) for name in names]
    return "\n\n".join(parts) + "\n"


def described(path: str, thing: Any) -> str:
    """A function or class as a directive of Sphinx's Python domain, its docstring read as Markdown."""
    if inspect.isclass(thing):
        members = "\n\n".join(members_of(thing))
        body = f"{markdown(thing.__doc__)}\n\n{members}"
        return f"::::{{py:class}} {path}\n{body}\n::::"
    return f"::::{{py:function}} {path}{signature(thing)}\n{markdown(thing.__doc__)}\n::::"


def members_of(cls: type) -> Iterator[str]:
    """The fields, properties and methods that a class itself declares, and those of bases within the package."""
    documented = field_docs(cls)
    if is_dataclass(cls):
        for one in fields(cls):
            if not one.name.startswith("_"):
                kind = str(one.type).replace("'", "")
                yield f":::{{py:attribute}} {one.name}\n:type: {kind}\n{documented.get(one.name, '')}\n:::"
    for name, (member, how) in public_members(cls).items():
        head = f"{name}{signature(member)}" if how == "method" else name
        yield f":::{{py:{how}}} {head}\n{markdown(member.__doc__)}\n:::"


def public_members(cls: type) -> dict[str, tuple[Any, str]]:
    """Documented properties and methods by name, with the directive for each."""
    result: dict[str, tuple[Any, str]] = {}
    for base in reversed([c for c in cls.__mro__ if c.__module__.startswith("uproar")]):
        for name, member in vars(base).items():
            plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if name.startswith("_") or not getattr(plain, "__doc__", None):
                continue
            if inspect.isfunction(plain):
                result[name] = (plain, "method")
            elif isinstance(plain, property) or type(plain).__name__ == "cached_property":
                result[name] = (plain, "property")
    return result


def field_docs(cls: type) -> dict[str, str]:
    """The strings below the fields of a class and its bases, by name of the field."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("uproar"):
            pattern = r'^    (\w+): [^\n]*(?:\n        [^\n]*)*?\n    """(.*?)"""'
            result = re.findall(pattern, inspect.getsource(base), re.M | re.S)
            docs |= {name: " ".join(text.split()) for name, text in result}
    return docs


def signature(function: Callable[..., Any]) -> str:
    """The arguments of a function with types and defaults; a default that is a function is shown as dots."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return "()"
    parts, starred = [], False
    for one in parameters:
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not starred:
            parts, starred = [*parts, "*"], True
        starred = starred or one.kind is one.VAR_POSITIONAL
        parts.append(_parameter(one))
    return f"({', '.join(parts)})"


def _parameter(one: inspect.Parameter) -> str:
    star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    text = star + one.name
    if one.annotation is not one.empty:
        kind = one.annotation if isinstance(one.annotation, str) else inspect.formatannotation(one.annotation)
        text += f": {kind}"
    if one.default is one.empty:
        return text
    value = repr(one.default)
    return f"{text} = {'...' if '<' in value or len(value) > 60 else value}"


def markdown(docstring: str | None) -> str:
    """A docstring as Markdown: examples and aligned columns become code blocks."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(docstring or ""))
    return "\n\n".join(_paragraph(text) for text in paragraphs)


def _paragraph(text: str) -> str:
    lines = inspect.cleandoc(text).split("\n")
    if lines[0].startswith(">>>"):
        return "\n".join(["```pycon", *lines, "```"])
    if len(lines) > 1 and (text.startswith("    ") or all(re.search(r"\S {2,}\S|^ ", line) for line in lines)):
        return "\n".join(["```text", *lines, "```"])
    return "\n".join(lines)


def commands() -> str:
    """Every command with its arguments and options."""
    from typer.main import get_command

    exits = "[the command line](../command-line.md#exit-codes)"
    head = (
        f"Every command of `uproar`, as `uproar COMMAND --help` describes it. What the exit codes mean: {exits}.\n\n"
        "Most commands also take `--data-root FOLDER` (where [data sets](../data.md) are) and `--json` (print JSON)."
    )
    parts = ["# Options of commands", head]
    for words, command in _walk((), get_command(app)):
        parts += [f"## uproar {' '.join(words)}", plain(command.help or ""), *_options(command)]
    return "\n\n".join(parts) + "\n"


def _walk(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield words, command
        return
    for name, below in inner.items():
        yield from _walk((*words, name), below)


def _options(command: Any) -> list[str]:
    """A table of arguments and options; nothing for a command without any."""
    rows = []
    for parameter in command.params:
        if SHARED.intersection(parameter.opts):
            continue
        is_option = parameter.opts[0].startswith("-")
        metavar = f" {parameter.metavar}" if parameter.metavar else ""
        shown = ", ".join(parameter.opts) + metavar if is_option else parameter.metavar or parameter.name
        rows.append([f"`{shown}`", plain(parameter.help or "")])
    return [table(["argument or option", "what it is"], rows)] if rows else []


def plain(text: str) -> str:
    """Help without the markup of the terminal.

    >>> plain("Write here  [dim]\\\\[default: runs/NAME][/]")
    'Write here (default: runs/NAME)'
    """
    text = re.sub(r"\s*\[dim\]\\\[(default: .*?)\]\[/\]", r" (\1)", text)
    return re.sub(r"(?<![\w`])<(\w+)>", r"`<\1>`", re.sub(r"\[/?\w*\]", "", text)).strip()


def lists() -> str:
    """Everything of some kinds, as `uproar ls` lists it."""
    parts = ["# Lists", "Data sets, networks, fills and recipes, as `uproar ls KIND` lists them."]
    for kind in LISTS:
        parts.append(f"## {kind.capitalize()}")
        for listed in tables_of(kind):
            parts.append(table(listed["columns"], [[f"`{row[0]}`", *row[1:]] for row in listed["rows"]]))
    return "\n\n".join(parts) + "\n"


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines)


def _cell(value: str) -> str:
    escaped = value.replace("|", r"\|").replace("\n", " ")
    return escaped if escaped.startswith("`") else escaped.replace("*", r"\*").replace("_", r"\_").replace("<", "&lt;")


if __name__ == "__main__":
    for page in write_pages(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference")):
        print(page)
