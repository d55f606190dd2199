"""A card for every metric: what it says, its range, what knowing nothing and knowing everything get, its cost.

The words come from the declarations, the numbers are measured on a small case whose important pixels are known.
`python -m uproar.metrics.cards > docs/metrics.md` writes them all down.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from uproar.expression import Call, Value
from uproar.metrics.base import metrics
from uproar.registry import Entry

OPEN, CLOSE = "<!-- measured -->", "<!-- end of measured -->"
SHAPE = (3, 224, 224)
"""The images for which costs are stated."""


@dataclass(frozen=True)
class Measured:
    """What a metric gave on the built-in case; NaN where it gave nothing."""

    random: float
    spread: float
    """Standard deviation of `random` over sets of random maps."""
    gradient: float
    oracle: float
    undefined: int
    """Images without a value, for the oracle's maps."""
    maps: int
    """Maps that the metric had made for each image."""


@dataclass(frozen=True)
class Card:
    """One metric's facts, and what was measured if it was."""

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
    shown: float
    """Changed images shown to the model per image."""
    whole: bool
    """Whether the number of a data set is a statistic of all images together, not a mean."""
    measured: Measured | None = None


def cards(names: Iterable[str] | None = None, *, measure: bool = True) -> list[Card]:
    """The cards of some metrics, by default of all that are declared; `measure=False` leaves the numbers out."""
    entries = [metrics[name] for name in (metrics if names is None else names)]
    found: dict[str, Measured] = {}
    if measure:
        from uproar.metrics.measure import measured

        found = measured([entry.name for entry in entries])
    return [_card(entry, found.get(entry.name)) for entry in entries]


def own() -> list[str]:
    """The metrics of this package, without those of plugins."""
    return [e.name for e in metrics.values() if e.function.__module__.startswith("uproar.")]


def shown(entry: Entry, shape: tuple[int, ...] = SHAPE) -> float:
    """Changed images shown to the model per image, with the default options."""
    from uproar.metrics.changes import Unchanged

    options = entry.bind()
    asks, beside = entry.facts["asks"], entry.facts["forwards"]
    changes = set(asks(shape, **options)) if asks else set()
    fresh = [change for change in changes if not isinstance(change, Unchanged)]
    return len(fresh) + (beside(**options) if callable(beside) else beside)


def _card(entry: Entry, measured: Measured | None) -> Card:
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
        shown=shown(entry),
        whole=facts["whole"] is not None,
        measured=measured,
    )


def to_markdown(cards: Iterable[Card]) -> str:
    """One page with all cards: the measured numbers as a table, then the words, by subject."""
    listed = sorted(cards, key=lambda card: (card.module, card.name))
    parts = [_INTRO]
    if any(card.measured for card in listed):
        parts.append(_measured_table(listed))
    for module, group in groupby(listed, key=lambda card: card.module):
        parts.append(f"## {_subject(module)}")
        parts.extend(map(_section, group))
    return "\n\n".join(parts) + "\n"


def without_numbers(page: str) -> str:
    """The page without its measured part: what follows from the declarations alone."""
    before, _, rest = page.partition(f"{OPEN}\n")
    return before + rest.partition(f"{CLOSE}\n\n")[2] if rest else page


_INTRO = """# Metrics

Written by `python -m uproar.metrics.cards > docs/metrics.md` from the declarations in `src/uproar/metrics` and
`src/uproar/released`; do not edit. [Add a metric](add-a-metric.md) says how one is declared. A metric gives one value
per image, and NaN where it is not defined there; those images are counted and left out. "Shown" is the number of
changed images that the model sees per image of 224×224 pixels with the default options; what several metrics ask for is
shown once."""

_TABLE = """## Measured

On the built-in task `planted(train=2048, test=128)` with `cnn-small`: a glyph of nine bright pixels on noise, 16×16
pixels in all. *Random* is the mean over five sets of random maps (± standard deviation between sets), *gradient* the
plain signed gradient, *oracle* the map that is 1 on the glyph's pixels and 0 elsewhere. The oracle is often, but not
always, the best that can be had: the network may rest on less than the glyph, or on more. A metric that does not put
random, gradient and oracle in this order is not thereby wrong, but it asks something else.

| metric | better | random | gradient | oracle | undefined | maps made |
|---|---|---|---|---|---|---|
"""


def _measured_table(cards: list[Card]) -> str:
    lines = []
    for card in cards:
        m = card.measured
        if m is not None:
            better = "higher" if card.higher_is_better else "lower"
            random = f"{_number(m.random)} ± {_number(m.spread)}" if m.random == m.random else "–"
            lines.append(
                f"| {_link(card)} | {better} | {random} | {_number(m.gradient)} | {_number(m.oracle)} "
                f"| {m.undefined or ''} | {m.maps or ''} |"
            )
    return f"{OPEN}\n{_TABLE}" + "\n".join(lines) + f"\n{CLOSE}"


def _section(card: Card) -> str:
    better = "Higher" if card.higher_is_better else "Lower"
    facts = [
        f"{better} is better; from {_bound(card.low)} to {_bound(card.high)}.",
        f"Random maps: {card.chance}." if card.chance else "",
        f"Formula: {card.formula}." if card.formula else "",
        f"Options: `{Call(card.name, (), card.options)}`." if card.options else "",
        f"Shown: {card.shown:g}." if card.shown else "",
        "The number of a data set is a statistic of all its images together, not their mean." if card.whole else "",
        f"Needs {card.needs}." if card.needs else "",
        f"Beware: {card.biases}." if card.biases else "",
        f"Paper: {card.paper}." if card.paper else "",
    ]
    return f"### {card.name}\n\n{card.summary}\n\n" + "\n".join(f"* {f}" for f in facts if f)


def _subject(module: str) -> str:
    """What a module is about: the first sentence of its docstring."""
    text = importlib.import_module(module).__doc__ or module
    return text.strip().partition("\n")[0].partition(". ")[0].rstrip(".")


def _link(card: Card) -> str:
    anchor = "".join(c for c in card.name if c.isalnum() or c in "_-")
    return f"[{card.name}](#{anchor})"


def _bound(value: float) -> str:
    return "any size" if math.isinf(value) else f"{value:g}"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    sys.stdout.write(to_markdown(cards(own())))
