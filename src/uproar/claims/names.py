"""Names of estimators and metrics, whatever options a study gives them."""

from __future__ import annotations

import functools
from typing import Any

from uproar.expression import Call, parse
from uproar.metrics.registry import family_of, metrics, read_metric


@functools.lru_cache(maxsize=512)
def without_options(name: str) -> str:
    """An estimator's name without options.

    >>> without_options("gaussian(sg_sq(ig(steps=50), samples=20), sigma=2.0)")
    'gaussian(sg_sq(ig))'
    """

    def stripped(call: Call) -> Call:
        return Call(call.name, tuple(stripped(arg) for arg in call.args), ())

    return str(stripped(parse(name)))


@functools.lru_cache(maxsize=256)
def options_of(metric: str) -> tuple[str, dict[str, Any]]:
    """The metric that it is or is a variant of, and all its options."""
    call = read_metric(metric)
    entry = metrics[call.name]
    return family_of(call.name), entry.bind(**dict(call.options))


@functools.lru_cache(maxsize=256)
def read_higher(metric: str) -> bool:
    """Whether higher values of a metric are better."""
    return bool(metrics[read_metric(metric).name].facts["higher_is_better"])


@functools.lru_cache(maxsize=256)
def read_limits(metric: str) -> tuple[float, float]:
    """The range of a metric, turned so that higher values are better.

    >>> read_limits("deletion")
    (-1.0, 0.0)
    """
    facts = metrics[read_metric(metric).name].facts
    low, high = float(facts["low"]), float(facts["high"])
    return (low, high) if read_higher(metric) else (-high + 0.0, -low + 0.0)


def gain_limits(*metrics_: str) -> tuple[float, float]:
    """The range of a difference of two values of the same metric, or of two of these.

    >>> gain_limits("insertion")
    (-1.0, 1.0)
    """
    low, high = zip(*map(read_limits, metrics_), strict=True)
    return min(low) - max(high), max(high) - min(low)
