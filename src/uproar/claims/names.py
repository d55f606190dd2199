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
