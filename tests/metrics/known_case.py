"""What metrics give on a small case whose important pixels are known: to random maps, gradients and the truth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from uproar.data import load
from uproar.errors import NotApplicable
from uproar.expression import Call
from uproar.metrics.changes import Batch
from uproar.metrics.probe import evaluate, summarise
from uproar.models import ModelSpec, borrowed, build
from uproar.seeds import Draws
from uproar.training import Recipe, fit, predict
from uproar.training.finetune import FineTunedCopies
from uproar.types import Images, Labels, Maps


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
