"""A card for every metric: what it says, its range, what knowing nothing and knowing everything get, its cost.

The words come from the declarations, the numbers are measured on a small case whose important pixels are known.
`python tools/metric_cards.py > docs/metrics.md` writes them all down.
"""

from __future__ import annotations

import importlib
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch
from torch import Tensor, nn

from uproar.containment import is_builtin
from uproar.data import load
from uproar.errors import NotApplicable
from uproar.expression import Call, Value
from uproar.metrics.changes import Unchanged
from uproar.metrics.probe import evaluate, summarise
from uproar.metrics.registry import QUESTIONS, Batch, TrueTo, metrics, uses_order
from uproar.models import ModelSpec, borrowed, build
from uproar.protocols import PROTOCOLS
from uproar.registry import Entry
from uproar.results.recovery import recovery_words, trust
from uproar.seeds import Draws
from uproar.study.judge_suite import judging_protocols
from uproar.training import Recipe, fit, predict
from uproar.training.finetune import FineTunedCopies
from uproar.types import KINDS, Images, Labels, Maps

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
    measured: Measured | None = None

    @property
    def recovery(self) -> str:
        """What the board of judges says of it."""
        return recovery_fact(self.name)


def recovery_fact(judge: str) -> str:
    """How well a metric or protocol recovers known orders, what it does not see and what it rewards; or nothing."""
    known, words = trust(judge), recovery_words(judge)
    if known is None or not words:
        return ""
    blind = f"; blind to {', '.join(known.blind)}" if known.blind else ""
    rewards = f"; rewards {', '.join(known.rewards)}" if known.rewards else ""
    return f"[Recovery of known orders](metric-board.md): {words}{blind}{rewards}."


def cards(names: Iterable[str] | None = None, *, measure: bool = True) -> list[Card]:
    """The cards of some metrics, by default of all that are declared; `measure=False` leaves the numbers out."""
    entries = [metrics[name] for name in (metrics if names is None else names)]
    numbers = measured([entry.name for entry in entries]) if measure else {}
    return [_card(entry, numbers.get(entry.name)) for entry in entries]


def own() -> list[str]:
    """The metrics of this package, without those of plugins."""
    return [entry.name for entry in metrics.values() if is_builtin(entry.function)]


def shown(entry: Entry, shape: tuple[int, ...] = SHAPE) -> float:
    """Changed images shown to the model per image, with the default options."""
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
        kinds="" if len(facts["kinds"]) == len(KINDS) else " and ".join(facts["kinds"]),
        shown=shown(entry),
        uses="order" if uses_order(entry.name) else "values",
        true_to=facts["true_to"],
        is_statistic=facts["statistic"] is not None,
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
    parts += ["## Protocols", _PROTOCOLS, *map(_protocol_section, judging_protocols())]
    return "\n\n".join(parts) + "\n"


def without_numbers(page: str) -> str:
    """The page without its measured part: what follows from the declarations alone."""
    before, _, rest = page.partition(f"{OPEN}\n")
    return before + rest.partition(f"{CLOSE}\n\n")[2] if rest else page


_INTRO = """# Metrics

Written by `python tools/metric_cards.py > docs/metrics.md` from the declarations in `src/uproar/metrics` and
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
        f"True to {QUESTIONS[card.true_to]}." if card.true_to else "",
        f"Random maps: {card.chance}." if card.chance else "",
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


def _link(card: Card) -> str:
    anchor = "".join(c for c in card.name if c.isalnum() or c in "_-")
    return f"[{card.name}](#{anchor})"


def _bound(value: float) -> str:
    return "any size" if math.isinf(value) else f"{value:g}"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"


# the numbers

TASK, MODEL, SETS = "planted(train=2048, test=128)", "cnn-small", 5

Explain = Callable[[nn.Module, Images, Labels, Draws], Maps]


def measured(names: Sequence[str], sets: int = SETS, base: Batch | None = None) -> dict[str, Measured]:
    """What each metric gives with its default options, by default on the built-in case."""
    base = case() if base is None else base
    return {name: _measure(name, base, sets) for name in names}


def case(task: str = TASK, epochs: int = 12) -> Batch:
    """The test images of the built-in task around a network trained on it; its maps are the oracle's."""
    data = load(task)
    model = build(ModelSpec.of(MODEL), data, 0)
    fit(model, data.train.read(slice(None)), data.train.labels, Recipe(epochs=epochs), 0)
    x, truth = data.test.read(slice(None)), data.test.truth(slice(None))
    assert truth is not None
    return Batch(
        model,
        x,
        data.test.labels,
        truth.float(),
        predict(model, x),
        Draws.of(0, len(x)),
        data.mean,
        truth,
        boxed=data.test.boxed(slice(None)),
        fine_tuned=FineTunedCopies(model, data.train.read(slice(None)), data.train.labels, data.mean, 0),
    )


def _measure(name: str, base: Batch, sets: int) -> Measured:
    randoms = [_value(name, replace(base, draws=Draws.of(seed, len(base.x))), random_map)[0] for seed in range(sets)]
    gradient, _, _ = _value(name, base, gradient_map)
    oracle, undefined, maps = _value(name, base, oracle_of(base))
    spread = statistics.stdev(randoms) if sets > 1 else math.nan
    return Measured(statistics.fmean(randoms), spread, gradient, oracle, undefined, maps)


def _value(name: str, base: Batch, explain: Explain) -> tuple[float, int, int]:
    """The metric's number, how many images have none, and how many maps it had made per image."""
    calls = 0

    def counted(model: nn.Module, x: Images, target: Labels, draws: Draws) -> Maps:
        nonlocal calls
        calls += 1
        return explain(model, x, target, draws)

    maps = explain(base.model, base.x, base.target, base.draws)
    call = Call(name)
    try:
        responses, _ = evaluate([call], replace(base, maps=maps, explain=counted))
    except NotApplicable:
        return math.nan, len(base.x), calls
    summary = summarise(call, responses[str(call)])
    return summary["value"], summary["nan"], calls


def random_map(model: nn.Module, x: Images, target: Labels, draws: Draws) -> Maps:
    """Uniform numbers."""
    return draws.uniform("random ranking", *x.shape[2:])


def gradient_map(model: nn.Module, x: Images, target: Labels, draws: Draws) -> Maps:
    """Gradient of the target class's score, summed over channels."""
    with borrowed(model), torch.enable_grad():
        x = x.detach().clone().requires_grad_()
        scores: Tensor = model(x).gather(1, target[:, None]).sum()
        (gradient,) = torch.autograd.grad(scores, x)
    return gradient.sum(1)


def oracle_of(base: Batch) -> Explain:
    """An estimator that returns the known important pixels of the samples, whatever it is shown."""
    truth = base.truth
    assert truth is not None

    def oracle(model: nn.Module, x: Images, target: Labels, draws: Draws) -> Maps:
        return truth[[row[0] for row in draws.rows]].float()

    return oracle


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.stdout.write(to_markdown(cards(own())))
