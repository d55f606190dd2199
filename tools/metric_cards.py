"""A card for every metric: what it says, its range, its cost, from the declarations.

`python tools/metric_cards.py > docs/metrics.md` writes them all down.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from uproar.expression import Call, Value
from uproar.guard import is_builtin
from uproar.metrics.changes import Unchanged
from uproar.metrics.registry import QUESTIONS, TrueTo, metrics, uses_order
from uproar.protocols import PROTOCOLS
from uproar.registry import Entry
from uproar.results.recovery import recovery_words
from uproar.study.judge_suite import judging_protocols
from uproar.types import KINDS

SHAPE = (3, 224, 224)
"""The images for which costs are stated."""


@dataclass(frozen=True)
class Card:
    """One metric's facts."""

    name: str
    module: str
    summary: str
    higher_is_better: bool
    low: float
    high: float
    options: tuple[tuple[str, Value], ...]
    formula: str
    chance: str
    biases: str
    paper: str
    needs: str
    kinds: str
    """The kinds of outputs that it serves, where these are not all."""
    shown: float
    """Changed images shown to the model per image."""
    uses: str
    """`order` or `values`: what of the map counts, with the default options."""
    true_to: TrueTo
    """Which question it answers."""
    is_statistic: bool
    """Whether the number of a data set is a statistic of all images together, not a mean."""

    @property
    def recovery(self) -> str:
        """What the board of judges says of it."""
        return recovery_fact(self.name)


def recovery_fact(judge: str) -> str:
    """How well a metric or protocol recovers known orders; or nothing."""
    words = recovery_words(judge)
    return f"[Recovery of known orders](metric-board.md): {words}." if words else ""


def cards(names: Iterable[str] | None = None) -> list[Card]:
    """The cards of some metrics, by default of all that are declared."""
    return [_card(metrics[name]) for name in (metrics if names is None else names)]


def own() -> list[str]:
    """The metrics of this package, without those of plugins."""
    return [entry.name for entry in metrics.values() if is_builtin(entry.function)]


def shown(entry: Entry, shape: tuple[int, ...] = SHAPE) -> int:
    """Changed images shown to the model per image, with the default options."""
    asks = entry.facts["asks"]
    changes = set(asks(shape, **entry.bind())) if asks else set()
    return sum(not isinstance(change, Unchanged) for change in changes)


def _card(entry: Entry) -> Card:
    facts = entry.facts
    return Card(
        name=entry.name,
        module=entry.function.__module__,
        summary=entry.summary,
        higher_is_better=facts["higher_is_better"],
        low=facts["low"],
        high=facts["high"],
        options=entry.complete(Call(entry.name)).options,
        formula=facts["formula"],
        chance=facts["chance"],
        biases=facts["biases"],
        paper=facts["paper"],
        needs=facts["needs"],
        kinds="" if len(facts["kinds"]) == len(KINDS) else " and ".join(facts["kinds"]),
        shown=shown(entry),
        uses="order" if uses_order(entry.name) else "values",
        true_to=facts["true_to"],
        is_statistic=facts["statistic"] is not None,
    )


def to_markdown(cards: Iterable[Card]) -> str:
    """One page with all cards, by subject."""
    listed = sorted(cards, key=lambda card: (card.module, card.name))
    parts = [_INTRO]
    for module, group in groupby(listed, key=lambda card: card.module):
        parts.append(f"## {_subject(module)}")
        parts.extend(map(_section, group))
    parts += ["## Protocols", _PROTOCOLS, *map(_protocol_section, judging_protocols())]
    return "\n\n".join(parts) + "\n"


_INTRO = """# Metrics

Written by `python tools/metric_cards.py > docs/metrics.md` from the declarations in `src/uproar/metrics` and
`src/uproar/released`; do not edit. [Add a metric](add-a-metric.md) says how one is declared. A metric gives one value
per image, and NaN where it is not defined there; those images are counted and left out. "Shown" is the number of
changed images that the model sees per image of 224×224 pixels with the default options; what several metrics ask for is
shown once."""


def _section(card: Card) -> str:
    better = "Higher" if card.higher_is_better else "Lower"
    facts = [
        f"{better} is better; from {_bound(card.low)} to {_bound(card.high)}.",
        f"Random maps: {card.chance}." if card.chance != "that of a random map" else "",
        f"Formula: {card.formula}." if card.formula else "",
        f"Options: `{Call(card.name, (), card.options)}`." if card.options else "",
        f"Shown: {card.shown:g}." if card.shown else "",
        card.recovery,
        "Uses the values of the map, not only their order." if card.uses == "values" else "",
        "The number of a data set is a statistic of all its images together, not their mean."
        if card.is_statistic
        else "",
        f"Needs {card.needs}." if card.needs else "",
        f"Serves {card.kinds} outputs." if card.kinds else "",
        f"Beware: {card.biases}." if card.biases else "",
        f"Paper: {card.paper}." if card.paper else "",
    ]
    return f"### {card.name}\n\n{card.summary}\n\n" + "\n".join(f"* {f}" for f in facts if f)


_PROTOCOLS = """Protocols judge estimators too, by networks that see images with pixels removed or kept.
[How ROAR works](how-roar-works.md) and [the evaluator](evaluator.md) say how; `uproar ls protocols` also has those that
are controls of others."""


def _protocol_section(name: str) -> str:
    protocol = PROTOCOLS[name]
    better = "bits of own minus shifted masks, higher" if protocol.evaluator else "accuracy, lower"
    better = "accuracy, higher" if protocol.keeps and not protocol.evaluator else better
    facts = [
        f"Better is: {better}.",
        f"True to {QUESTIONS[protocol.true_to]}.",
        "Trains a network per estimator and fraction." if protocol.retrains else "",
        recovery_fact(name),
    ]
    summary = protocol.summary[:1].upper() + protocol.summary[1:]
    return f"### {name}\n\n{summary}.\n\n" + "\n".join(f"* {f}" for f in facts if f)


def _subject(module: str) -> str:
    """What a module is about: the first sentence of its docstring."""
    text = importlib.import_module(module).__doc__ or module
    return text.strip().partition("\n")[0].partition(". ")[0].rstrip(".")


def _bound(value: float) -> str:
    return "any size" if math.isinf(value) else f"{value:g}"


if __name__ == "__main__":
    sys.stdout.write(to_markdown(cards(own())))
