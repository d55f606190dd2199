"""Negative controls: can a protocol or metric tell the methods from random rankings at all?

A judge that puts random rankings among the best says nothing about methods. Every protocol and metric that compares
methods with `random` is checked by one rule, on the tests that it has anyway. Methods are what asks the network:
model-free baselines such as `block_random` are controls, and have no say in it.

passed      at least one method is decidedly better than random.
failed      none is, and either some are decidedly worse (random is among the best), or the data were enough: every
            method's 95 % interval ends below a tenth (`RELEVANT`) of what could be gained over random at most, that is
            the way from random's value to the best that the metric or protocol can give. Such a judge is unable to
            judge here: either all methods fail or it does, and it cannot say which.
undecided   none is decidedly better, and the data are too few to say that no method is.

    view.negative_controls["roar"].state           # one for every protocol and metric that has random
    view.unable_to_judge                           # by protocol or metric: a sentence for each that failed
    results.negative_controls                      # all of them as a table
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal

import pandas as pd

from uproar.errors import UproarError
from uproar.expression import parse
from uproar.metrics.registry import metrics
from uproar.statistics.comparisons import margins
from uproar.statistics.design import BASELINE
from uproar.types import Role
from uproar.wording import counted

State = Literal["passed", "failed", "undecided"]
RELEVANT = 0.1
"""The share of what could be gained over random below which an advantage is too small to matter."""

COLUMNS = {
    "task": "data set",
    "model": "network",
    "measure": "the protocol or metric",
    "control": "passed, failed or undecided: whether it tells any method from random rankings",
    "methods": "how many were compared with random, model-free baselines not counted",
    "better": "how many are decidedly better",
    "worse": "how many are decidedly worse",
    "sentence": "the same in words",
}
"""The columns of `Results.negative_controls`."""


@dataclass(frozen=True)
class NegativeControl:
    """Whether one protocol or metric tells the methods from random rankings."""

    measure: str
    control: State
    methods: int
    better: int
    worse: int
    sentence: str

    @property
    def failed(self) -> bool:
        """Whether the protocol or metric is unable to judge here."""
        return self.control == "failed"

    def as_row(self) -> dict[str, Any]:
        """The columns of a table, without those that say where it was."""
        return asdict(self)


def negative_control(
    measure: str, frame: pd.DataFrame, room: float = math.nan, roles: Mapping[str, Role] = MappingProxyType({})
) -> NegativeControl:
    """The control of one protocol or metric.

    `frame` has one row per method: `side` (1 decidedly better than random, -1 worse, 0 neither) and `high`, the upper
    end of the 95 % interval of its advantage; where it has the column `estimator`, those that `roles` calls baselines
    have no say. `room` is the largest advantage possible, NaN where there is no bound.

    >>> frame = pd.DataFrame({"side": [0, -1], "high": [0.03, -0.01]})
    >>> negative_control("deletion", frame).sentence
    'deletion cannot judge here: no method is decidedly better than random rankings, and 1 of 2 is decidedly worse.'
    """
    methods = frame[frame["p"].notna()] if "p" in frame else frame  # what was not tested says nothing
    if "estimator" in frame:
        methods = methods[
            ~methods["estimator"].map(lambda name: roles.get(name, "method")).isin(["baseline", "random"])
        ]
    state = _state(methods, room)
    better, worse = (int((methods["side"] == side).sum()) for side in (1, -1))
    sentence = f"{measure} {_words(methods, state, better, worse, room)}"
    return NegativeControl(measure, state, len(methods), better, worse, sentence)


def _state(methods: pd.DataFrame, room: float) -> State:
    """The outcome by the methods that were compared with random."""
    if not len(methods):
        return "undecided"
    if (methods["side"] == 1).any():
        return "passed"
    enough = float(methods["high"].max(skipna=False)) < RELEVANT * room
    return "failed" if (methods["side"] == -1).any() or enough else "undecided"


def _words(frame: pd.DataFrame, state: State, better: int, worse: int, room: float) -> str:
    """The outcome in words; `frame` has the methods, `better` and `worse` count some of them."""
    total = len(frame)
    methods = counted(total, "method")
    if not total:
        return "has not tested any method against random rankings."
    if state == "passed":
        return f"tells {better} of {methods} from random rankings as decidedly better."
    if state == "undecided":
        return f"has not told any of {methods} from random rankings: too few data to say more."
    none = "cannot judge here: no method is decidedly better than random rankings, and"
    if worse:
        return f"{none} {worse} of {total} {'is' if worse == 1 else 'are'} decidedly worse."
    largest = float(frame["high"].max(skipna=False))
    most = f"none can be by more than {largest:.2g}" if largest > 0 else "all their intervals lie below random"
    return f"{none} {most}, a tenth of what is possible being {RELEVANT * room:.2g}."


def metric_controls(comparisons: pd.DataFrame, values: pd.DataFrame) -> dict[str, NegativeControl]:
    """The controls of all metrics that judge and have random, from their pairs; `values` has a row per method."""
    controls: dict[str, NegativeControl] = {}
    roles = dict(zip(values["method"], values["role"], strict=True))
    if comparisons.empty or roles.get(BASELINE) != "random":  # somebody's own maps may have that name
        return controls
    for metric, pairs in comparisons.groupby("metric", sort=False):
        against = margins(pairs)
        frame = against[against["baseline"] == BASELINE].rename(columns={"method": "estimator"})
        if len(frame) and not _facts(str(metric)).get("describes"):
            controls[str(metric)] = negative_control(str(metric), frame, _room(str(metric), values), roles)
    return controls


def _room(metric: str, values: pd.DataFrame) -> float:
    """The way from random's value to the best that a metric can give; NaN where its range is open or not known."""
    facts = _facts(metric)
    own = values[(values["metric"] == metric) & (values["method"] == BASELINE)]
    best = facts.get("high" if facts.get("higher_is_better") else "low", math.nan)
    if own.empty or not math.isfinite(best):
        return math.nan
    return abs(float(best) - float(own["value"].iloc[0]))


def _facts(metric: str) -> Mapping[str, Any]:
    """What a metric declares; nothing where it is a plug-in's that is not loaded, or no metric's name."""
    try:
        name = parse(metric).name
    except UproarError:
        return {}
    return metrics[name].facts if name in metrics else {}
