"""Pages of cards for the documentation site: what each estimator and metric is, needs and costs, from its declaration.

`reference_pages.py` writes them. A card has at most 60 words beside formula and options.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from uproar.estimators.registry import COMMON_NAMES, estimators
from uproar.expression import shown_value
from uproar.metrics.changes import Unchanged
from uproar.metrics.registry import metrics
from uproar.registry import Entry, Registry
from uproar.results.board import card_words
from uproar.types import KINDS

FAMILIES = {
    "gradient": "Gradients",
    "decomposition": "Scores decomposed over pixels",
    "cam": "Class activation maps",
    "attention": "Attention of transformers",
    "perturbation": "Perturbations",
    "extremal": "Perturbations",
    "bottleneck": "Bottlenecks and trained attention",
    "control": "Controls: they never look at the network",
}
"""Titles of estimators, by the module that declares them."""
ROLES = {
    "direct": "Controls without a ranking",
    "transform": "Transforms of the signed map",
    "ensemble": "Ensembles over noisy copies",
    "classes": "Maps that do not depend on the class",
    "postprocess": "Filters of the finished map",
}
MOST = 60
"""Words of a card, beside its formula and options."""
IMAGE = (3, 224, 224)
"""The shape of images for which the costs of metrics are stated."""


def builtin(registry: Registry) -> list[Entry]:
    """The entries that the package lists, without those of plug-ins and of the board of metrics."""
    folders = ("uproar.estimators.", "uproar.metrics.")
    return [entry for entry in registry.values() if entry.function.__module__.startswith(folders)]


def estimators_page() -> str:
    """All estimators by family."""
    head = (
        "# Estimators\n\n![Maps of every estimator for three images](../images/estimators.png)\n\n"
        "Red pixels speak for the class, blue pixels against it. `f_c` is the score of the class, `p_c` its "
        "probability, `x` the image, `x₀` a baseline. A pass is one forward and backward pass of an image; a forward "
        "pass counts half. Options have the defaults shown. See also [transforms and controls](transforms.md)."
    )
    return head + "\n\n" + _cards((e for e in builtin(estimators) if not is_helper(e)), family_of, estimator_card)


def transforms_page() -> str:
    """Transforms, ensembles, filters and controls, and common names."""
    common = ", ".join(f"`{name}` = `{meaning}`" for name, meaning in COMMON_NAMES.items())
    head = (
        "# Transforms and controls\n\nTransforms, ensembles and filters make estimators of estimators: "
        "`gaussian(sg_sq(ig, samples=20))`. Controls never look at the network.\n\n"
        f"Common names: {common}. As in Captum, `saliency` and `smoothgrad` are absolute; `grad` and `sg(grad)` are "
        "signed."
    )
    return head + "\n\n" + _cards(filter(is_helper, builtin(estimators)), family_of, estimator_card)


def metrics_page() -> str:
    """All metrics by subject, after those that train networks; those of released code have a page of their own."""
    head = (
        "# Metrics\n\nA metric gives one value per image, or NaN where it is not defined; NaNs are counted and left "
        "out. *Changed images* are those shown to the network per image of 224² pixels. τ is that of [the "
        "board](../board.md). [Variants](metric-variants.md) follow released code of others."
    )
    plain = [entry for entry in metrics_of_maps() if ":" not in entry.name]
    return "\n\n".join([head, trained(":"), _cards(plain, subject_of, metric_card)])


def metrics_of_maps() -> list[Entry]:
    """The metrics that need no study."""
    return [entry for entry in builtin(metrics) if entry.facts["kind"] == "maps"]


def trained(without: str) -> str:
    """A table of metrics that train networks, of those whose names lack some text."""
    entries = [entry for entry in builtin(metrics) if entry.facts["kind"] != "maps" and without not in entry.name]
    better = {True: "higher", False: "lower"}
    rows = [f"| `{one.name}` | {one.summary} | {better[one.facts['higher_is_better']]} |" for one in entries]
    return "\n".join(
        ["## Metrics that train networks", "", "| metric | what it does | better is |", "|---|---|---|", *rows]
    )


def variants_page() -> str:
    """Metrics as released code computes them."""
    head = (
        "# Variants of metrics\n\nMetrics as the code released with papers computes them, and controls of metrics that "
        "train networks. What is not said is as in the [metric](metrics.md) before the colon."
    )
    released = [entry for entry in metrics_of_maps() if ":" in entry.name]
    return "\n\n".join([head, trained("shifted"), _cards(released, subject_of, metric_card)])


def is_helper(entry: Entry) -> bool:
    """Whether an estimator is a transform, a filter or a control."""
    return entry.facts["role"] in ROLES or family_of(entry).startswith("Controls")


def _cards(entries: Iterable[Entry], title: Callable[[Entry], str], card: Callable[[Entry], str]) -> str:
    order = [*dict.fromkeys(FAMILIES.values()), *ROLES.values()]
    position = {name: number for number, name in enumerate(order)}
    listed = sorted(entries, key=lambda entry: (position.get(title(entry), -1), title(entry), entry.name))
    parts = []
    for name, group in groupby(listed, key=title):
        parts += [f"## {name}", *map(card, group)]
    return "\n\n".join(parts) + "\n"


def family_of(entry: Entry) -> str:
    """The title under which an estimator stands."""
    module = entry.function.__module__
    return ROLES.get(entry.facts["role"]) or next(title for name, title in FAMILIES.items() if name in module)


def subject_of(entry: Entry) -> str:
    """What the module of a metric is about: the first sentence of its docstring."""
    text = importlib.import_module(entry.function.__module__).__doc__ or ""
    return text.strip().partition("\n")[0].partition(". ")[0].rstrip(".")


def estimator_card(entry: Entry) -> str:
    """What an estimator is, its formula, what it needs and costs, where it fails."""
    facts = entry.facts
    passes: Any = facts.get("passes")
    passes = passes(**entry.bind()) if callable(passes) else passes
    return _card(
        entry,
        _code(facts.get("formula")),
        f"{passes:g} {'passes' if passes > 1 else 'pass'}" if passes else "",
        f"Needs {facts['needs']}" if facts.get("needs") else "",
        str(facts.get("paper") or ""),
        f"Fails: {facts['fails']}" if facts.get("fails") else "",
    )


def metric_card(entry: Entry) -> str:
    """What a metric says, its direction and range, its cost, its place on the board, and what to beware of."""
    facts = entry.facts
    changes = set(facts["asks"](IMAGE, **entry.bind())) if facts["asks"] else set()
    shown = sum(not isinstance(change, Unchanged) for change in changes)
    better = "Higher" if facts["higher_is_better"] else "Lower"
    order = card_words(entry.name)
    return _card(
        entry,
        f"{better} is better, from {_bound(facts['low'])} to {_bound(facts['high'])}",
        _code(facts["formula"]),
        f"Changed images: {shown}" if shown else "",
        f"τ with the [known order](../board.md): {order}" if order else "",
        f"Needs {facts['needs']}" if facts["needs"] else "",
        f"{' and '.join(facts['kinds']).capitalize()} only" if len(facts["kinds"]) < len(KINDS) else "",
        facts["paper"],
        *([f"Beware: {facts['biases']}"] if facts["biases"] and ":" not in entry.name else []),
    )


def _card(entry: Entry, *facts: str) -> str:
    """Facts in sentences. The last one is cut between its clauses where the card would become too long."""
    options = " ".join(f"`{name}={_default(value)}`" for name, value in entry.bind().items())
    ending = f" Options: {options}." if options else ""
    sentences = [f"**`{entry.name}`** {_sentence(entry.summary)}", *(_sentence(fact) for fact in facts if fact)]
    while words(" ".join(sentences) + ending) > MOST:
        *sentences, last = sentences
        sentences += [_sentence(last.rpartition(";")[0])] if ";" in last else []
    return " ".join(sentences) + ending


def words(text: str) -> int:
    """How many words a text has beside code."""
    return len(re.sub(r"`[^`]*`", "", text).split())


def _code(text: str | None) -> str:
    return f"`{text.replace('`', '')}`" if text else ""


def _default(value: Any) -> str:
    return shown_value(value) if value is None or isinstance(value, bool | int | float | str | tuple) else str(value)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}{'' if text.endswith('?') else '.'}"


def _bound(value: float) -> str:
    return "any size" if math.isinf(value) else f"{value:g}"
