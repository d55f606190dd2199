"""A card for every estimator: formula, options with their ranges, cost, what it needs and where it fails.

Everything is read from the declarations. `python tools/estimator_cards.py > docs/estimators.md` writes it down.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pydantic

from uproar.estimators.gradient import Baseline
from uproar.estimators.registry import COMMON_NAMES, estimators
from uproar.expression import Call
from uproar.guard import is_builtin
from uproar.registry import Entry, option_types
from uproar.types import KINDS

FAMILIES = {
    "Gradients": ("gradient",),
    "Scores decomposed over pixels": ("decomposition",),
    "Class activation maps": ("cam",),
    "Attention of transformers": ("attention",),
    "Parts of the image taken away": ("perturbation", "extremal"),
    "Bottlenecks and trained attention": ("bottleneck",),
    "Controls": ("control",),
}
"""Estimators by the module that declares them."""
ROLES = {
    "direct": "Controls without a ranking",
    "transform": "Transforms of the signed map",
    "ensemble": "Transforms over noisy copies",
    "classes": "Maps that do not depend on the class asked for",
    "postprocess": "Filters of the finished map",
}
OTHERS = "Others"
ORDER = [*FAMILIES, OTHERS, *ROLES.values()]

_REACH = {
    "direct": "Says itself which pixels go, at every fraction: there is no map.",
    "transform": "Applied to a signed map, value by value: as many channels as that has, at no cost.",
    "ensemble": "As many channels as what it is applied to.",
    "classes": "As many channels as what it is applied to.",
    "postprocess": "Applied to the map after its channels are reduced, outermost, at no cost.",
}


@dataclass(frozen=True)
class Option:
    """An option with its default, as an expression has it, and the values it may take, in words."""

    text: str
    values: str


@dataclass(frozen=True)
class Card:
    """The facts of one entry of the registry."""

    name: str
    family: str
    formula: str
    text: str
    """The first paragraph of the docstring."""
    options: tuple[Option, ...]
    cost: str
    passes: float | None
    """Forward-and-backward passes per image at the defaults; None where it depends on what is inside."""
    needs: str
    reach: str
    """How many numbers there are per pixel."""
    fails: str
    paper: str


def own() -> list[str]:
    """The estimators of this package, without those of plugins."""
    return [entry.name for entry in estimators.values() if is_builtin(entry.function)]


def cards(names: Iterable[str] | None = None) -> list[Card]:
    """The cards of some entries, by default of all that are declared, by family and name."""
    result = [card(estimators[name]) for name in (estimators if names is None else names)]
    return sorted(result, key=lambda each: (ORDER.index(each.family), each.name))


def card(entry: Entry) -> Card:
    """The card of one entry."""
    facts, passes = entry.facts, _passes(entry)
    hints = option_types(entry.function)
    channels = "One value per colour channel." if facts.get("channels") else "One value per pixel."
    return Card(
        name=entry.name,
        family=_family(entry),
        formula=facts.get("formula", ""),
        text=_paragraph(entry),
        options=tuple(_option(name, p.default, hints.get(name, Any)) for name, p in entry.options.items()),
        cost=_cost(entry, passes),
        passes=passes,
        needs=_needs(entry, hints),
        reach=_REACH.get(facts["role"], channels),
        fails=facts.get("fails", ""),
        paper=facts.get("paper", ""),
    )


def _family(entry: Entry) -> str:
    if entry.facts["role"] in ROLES:
        return ROLES[entry.facts["role"]]
    module = entry.function.__module__.rpartition(".")[2]
    return next((title for title, modules in FAMILIES.items() if module in modules), OTHERS)


def _paragraph(entry: Entry) -> str:
    text = inspect.getdoc(entry.function) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _passes(entry: Entry) -> float | None:
    passes = entry.facts.get("passes")
    return passes(**entry.bind()) if callable(passes) else passes


def _cost(entry: Entry, passes: float | None) -> str:
    if entry.facts["role"] == "ensemble":
        return f"`samples` ({entry.options['samples'].default}) times that of what it is applied to"
    if entry.facts["role"] == "classes":
        times = entry.facts["times"](2) > 1
        return ("the number of classes times that" if times else "that") + " of what it is applied to"
    if entry.facts.get("model") is False:
        return "nothing, as the model is never looked at"
    if not passes:
        return ""
    amount = "1 pass per image" if passes == 1 else f"{passes:g} passes per image"
    deciding = [name for name in _deciding(entry.facts["passes"]) if name in entry.options]
    if deciding:
        amount += f" at the defaults; {_listed(deciding, 'and')} decide{'s' * (len(deciding) == 1)}"
    shared = f", shared with `{entry.facts['of']}`" if entry.facts.get("of") else ""
    return amount + shared


def _deciding(passes: Any) -> list[str]:
    """The options that a cost depends on: the arguments that its function names."""
    if not callable(passes):
        return []
    parameters = inspect.signature(passes).parameters.values()
    return [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]


def _needs(entry: Entry, hints: Mapping[str, Any]) -> str:
    """What must be there: of the model, of the data, and of the time before the first image."""
    facts = entry.facts
    model = facts["role"] == "estimator" and facts.get("model", True)
    needs = [facts.get("needs") or ("class scores alone" if model else "")]
    needs += [
        f"the training images' mean colour (for `{name}=mean`)"
        for name, parameter in entry.options.items()
        if hints.get(name) == Baseline and parameter.default == "mean"
    ]
    needs += ["a preparation, once per model"] if facts.get("prepare") else []
    kinds = facts.get("kinds", KINDS)
    needs += [f"{' or '.join(kinds)} outputs"] if len(kinds) < len(KINDS) else []
    return "; ".join(filter(None, needs))


def _option(name: str, default: Any, hint: Any) -> Option:
    call = Call(name) if default is inspect.Parameter.empty else Call("", (), ((name, default),))
    try:
        schema = pydantic.TypeAdapter(hint).json_schema()
    except pydantic.errors.PydanticUserError:  # a type that only the author of a plugin knows
        schema = {}
    return Option(str(call).strip("()"), in_words(schema))


def in_words(schema: Mapping[str, Any]) -> str:
    """The values that a JSON schema allows.

    >>> in_words({"type": "integer", "minimum": 1, "maximum": 10_000})
    'whole number from 1 to 10,000'
    >>> in_words({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]})
    'number > 0, or `none`'
    """
    if "anyOf" in schema:
        return ", or ".join(in_words(each) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return _listed(schema.get("enum", [schema.get("const")]), "or")
    kind = schema.get("type", "any value")
    if kind == "array":
        least = schema.get("minItems", 0)
        of = in_words(schema.get("items", {}))
        return f"list of at least {least}: {of}" if least else f"list: {of}"
    words = {"integer": "whole number", "boolean": "`true` or `false`", "string": "text", "null": "`none`"}
    return f"{words.get(kind, kind)} {_bounds(schema)}".rstrip()


def _bounds(schema: Mapping[str, Any]) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f"from {schema['minimum']:,.12g} to {schema['maximum']:,.12g}"
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    result = [f"{sign} {schema[key]:,.12g}" for key, sign in signs.items() if key in schema]
    return " and ".join(result)


def _listed(names: Iterable[Any], joining: str) -> str:
    *first, last = (f"`{name}`" for name in names)
    return f"{', '.join(first)} {joining} {last}" if first else last


def to_markdown(cards: Iterable[Card]) -> str:
    """One page: a table of all cards by family, then the cards."""
    listed = sorted(cards, key=lambda each: (ORDER.index(each.family), each.name))
    common = "\n".join(f"| `{name}` | `{meant}` |" for name, meant in COMMON_NAMES.items())
    parts = [_INTRO, f"{_COMMON}\n\n| name | stands for |\n|---|---|\n{common}", _overview(listed)]
    for family, group in groupby(listed, key=lambda each: each.family):
        parts.append(f"## {family}")
        parts.extend(map(_section, group))
    return "\n\n".join(parts) + "\n"


_INTRO = """# Estimators

Written by `python tools/estimator_cards.py > docs/estimators.md` from the declarations in `src/uproar/estimators`;
do not edit. [Add an estimator](add-an-estimator.md) says how one is declared.

![Maps of every estimator for three images](images/estimators.png)

The maps of every estimator, with its default options, for three images of the built-in task `planted` and a small
trained network (`python benchmarks/estimators.py --gallery docs/images/estimators.png`): red speaks for the class, blue
against it, each map scaled alone. The pixels that count are those of `oracle`.

In the formulas `f_c` is the score (logit) of the class explained, `p_c` its probability, `x` the image, `x₀` the
baseline. Cost is in forward-and-backward passes per image; a forward pass alone counts half. Options are written in an
expression such as `sg_sq(ig(steps=50), samples=20)`; those left out have the value shown."""


_COMMON = """Common names stand wherever an expression does, with the options of what they stand for, e.g.
`smoothgrad(samples=50)`. As in Captum, `saliency` is the size of the gradient and `smoothgrad` the mean of that size
over noisy copies; `grad` and `sg(grad)` are the signed versions."""


def _overview(cards: list[Card]) -> str:
    head = "| | passes | values |\n|---|---|---|"
    lines = [head]
    for family, group in groupby(cards, key=lambda each: each.family):
        lines.append(f"| **{family}** | | |")
        for each in group:
            passes = "" if each.passes is None else f"{each.passes:g}"
            values = {"One value per colour channel.": "channel", "One value per pixel.": "pixel"}
            lines.append(f"| [{each.name}](#{each.name}) | {passes} | {values.get(each.reach, '')} |")
    return "\n".join(lines)


def _section(card: Card) -> str:
    facts = [
        f"Formula: `{card.formula}`" if card.formula else "",
        f"Needs: {card.needs}." if card.needs else "",
        f"Fails: {card.fails}." if card.fails else "",
        f"Paper: {card.paper.rstrip('.')}." if card.paper else "",
    ]
    text = f"### {card.name}\n\n{card.text}\n\n" + "\n".join(f"* {f}" for f in facts if f)
    options = "; ".join(f"`{option.text}` ({option.values})" for option in card.options)
    return f"{text}\n* Options: {options}." if options else text


if __name__ == "__main__":
    sys.stdout.write(to_markdown(cards(own())))
