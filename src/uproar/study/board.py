"""The board: which metrics order real methods as the known use of the input orders them, and which maps fool them.

What is right and when a metric is trusted was written down before anything was run (docs/board.md). Every network of
the board is a study like any other, and what is read here is its table alone. The networks, the known use and the maps
that should not win are declared in `board_suite.py`, the held-out networks in `board_heldout.py`, those of real
pictures in `board_natural.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from uproar.errors import BadInput
from uproar.estimators import read_chain
from uproar.metrics.evaluator import EVALUATORS
from uproar.metrics.registry import metrics, sign_of
from uproar.metrics.retraining import RETRAININGS
from uproar.results.board import COLUMNS, IMPOSTORS
from uproar.study.board_heldout import HELD_OUT
from uproar.study.board_natural import NATURAL
from uproar.study.board_suite import DEVELOPMENT
from uproar.study.sessions import run
from uproar.study.spec import METHODS

APART = 0.05
"""The difference of two maps from which their known order counts."""
WORSE = 0.9
"""A map that reaches no more than this, over the whole order and at the top, is no truth."""
DEGRADED = {
    kind: tuple(f"degraded(kind={kind}, level={level})" for level in (0.25, 0.5, 0.75)) for kind in ("noise", "missing")
}
"""By kind, maps that are worse and worse than the truth."""
OPTIMISED = tuple(f"greedy(against={against})" for against in ("deletion", "insertion", "road", "evaluator"))
TELLING = ("label_cue", "degraded(kind=encoder, level=1)", "other_image")
"""Masks that tell the class, and the truth of another image."""

RETRAINED = tuple(name for name, metric in RETRAININGS.items() if metric.retrains)
ROAR_FRACTIONS = (0.1,)
"""Shares at which networks are trained anew; most networks of the board use a tenth of the image."""


@dataclass(frozen=True)
class Network:
    """A network whose use of the input is known."""

    part: str
    task: str
    model: str
    weights: tuple[float, ...] = ()
    """How much its parts count, where that is not alike."""

    @property
    def name(self) -> str:
        """As the board calls it."""
        return f"{self.model} on {self.task.partition('(')[0]}" if "hand-set" not in self.model else self.model

    @property
    def options(self) -> str:
        """What the known use is asked with."""
        return f"(weights={[*self.weights]})" if self.weights else ""

    @property
    def trained(self) -> bool:
        """Whether its weights are trained; ROAR needs that."""
        return not self.model.startswith(("additive", "hand-set"))


def networks(part: str) -> list[Network]:
    """The networks of a part of the board."""
    rows = {"development": DEVELOPMENT, "held-out": HELD_OUT, "natural": NATURAL}[part]
    return [Network(part, *row) for row in rows]


def study_of_network(
    network: Network, methods: Sequence[str], metrics: Sequence[str], seeds: int, more: Mapping[str, Any]
) -> dict[str, Any]:
    """The study that scores maps of a network by metrics, and by how right they are."""
    right = [f"{name}{network.options}" for name in ("whole_order", "top_k")]
    return {
        "name": "board",
        "tasks": network.task,
        "models": network.model,
        "estimators": [*methods, f"known_use{network.options}"],
        "baselines": [name for name in IMPOSTORS if name != "random"],
        "metrics": [*right, *metrics],
        "fractions": ROAR_FRACTIONS,
        "random_rankings": 1,
        "seeds": seeds,
        **more,
    }


def board_rows(
    network: Network,
    metrics: Sequence[str],
    seeds: int,
    store: str | Path,
    jobs: int = 1,
    optimised: Sequence[str] = OPTIMISED,
    combined: Mapping[str, Sequence[str]] | None = None,
    say: Callable[[str], None] = lambda _: None,
    **more: Any,
) -> list[dict[str, Any]]:
    """The rows of the board for one network: a row per metric, as `results.board.COLUMNS` says.

    `combined` are metrics made of others, by the mean rank of a map among all maps.
    """
    maps = ["random", *METHODS, *itertools.chain(*DEGRADED.values()), *TELLING]
    retrained = [name for name in metrics if name in RETRAINED and network.trained]
    rest = [name for name in metrics if name not in RETRAINED]
    # retraining explains the training images, too: without the maps that are optimised image by image
    groups = [([*maps, *optimised], rest), (maps, retrained)]
    studies = [study_of_network(network, names_of_maps, names, seeds, more) for names_of_maps, names in groups if names]
    tables = [run(study, store=store, jobs=jobs).table for study in studies]
    table = pd.concat(tables, ignore_index=True).drop_duplicates()
    failed = table[table["status"].isin(["failed", "skipped"])].drop_duplicates(["metric", "method"])
    for row in failed.drop_duplicates("metric").itertuples():
        say(f"{network.name}: {row.metric} of {row.method}: {row.reason}")
    return rows_of(values_of(table), network, combined or {})


def values_of(table: pd.DataFrame) -> pd.DataFrame:
    """One value per metric, seed and method from a study's table: means over images and fractions, larger is better."""
    done = table[(table["status"] == "done") & table["value"].notna()]
    wide = done.groupby(["metric", "replicate", "method"], sort=False)["value"].mean().unstack("method")
    signs = [direction(metric) for metric in wide.index.get_level_values("metric")]
    return wide.mul(signs, axis=0)


def direction(metric: str) -> int:
    """1 where larger values of a metric are better, −1 where smaller ones are; an evaluator's bits are better large."""
    return sign_of(metric)


def rows_of(values: pd.DataFrame, network: Network, combined: Mapping[str, Sequence[str]] = {}) -> list[dict[str, Any]]:
    """What the values of all maps under all metrics say of each metric; see the top of the file."""
    order, top = (values.xs(f"{name}{network.options}", level="metric") for name in ("whole_order", "top_k"))
    by_metric = {
        str(metric): values_of_maps.droplevel("metric")
        for metric, values_of_maps in values.groupby(level="metric", sort=False)
        if not str(metric).startswith(("whole_order", "top_k"))
    }
    for name, parts in combined.items():
        if set(parts) <= set(by_metric):
            by_metric[name] = sum(by_metric[name_of_metric].rank(axis=1, pct=True) for name_of_metric in parts) / len(
                parts
            )
    truth = f"known_use{network.options}"
    rows = []
    for metric, values_of_maps in by_metric.items():
        if not values_of_maps.notna().any(axis=None):
            continue
        degraded = [
            agreement(values_of_maps, [order], itertools.combinations((truth, *map(_canonical, maps)), 2))
            for maps in DEGRADED.values()
        ]
        worse = [
            name
            for name in values_of_maps.columns
            if name not in METHODS and name != truth and max(order[name].mean(), top[name].mean()) <= WORSE
        ]
        above = values_of_maps[worse].gt(values_of_maps[truth] + 1e-9, axis=0).sum()
        rows.append(
            {
                "metric": metric,
                "part": network.part,
                "network": network.name,
                "order": agreement(values_of_maps, [order], itertools.combinations(METHODS, 2)),
                "top": agreement(values_of_maps, [top], itertools.combinations(METHODS, 2)),
                "baselines": agreement(values_of_maps, [order, top], itertools.product(METHODS, IMPOSTORS)),
                "degraded": float(np.nanmean(degraded)) if np.isfinite(degraded).any() else float("nan"),
                "fooled": [name for name in worse if 2 * above[name] > len(values_of_maps)],
                "seeds": len(values_of_maps),
            }
        )
    return rows


def _canonical(name: str) -> str:
    """A map as tables name it."""
    return read_chain(name).name


def agreement(values: pd.DataFrame, known: Sequence[pd.DataFrame], pairs: Iterable[tuple[str, str]]) -> float:
    """τ over the pairs of maps whose known difference counts, mean over seeds; NaN where there is none.

    Where several orders are `known`, pairs count on which they agree. A metric that gives both maps of a pair the same
    value has it neither right nor wrong.
    """
    taus = []
    pairs = [pair for pair in pairs if all(name in table for name in pair for table in (values, *known))]
    for seed in values.index:
        sides = []
        for first, second in pairs:
            right = [table.loc[seed, first] - table.loc[seed, second] for table in known]
            lead_by_metric = values.loc[seed, first] - values.loc[seed, second]
            side = next((side for side in (1, -1) if all(side * lead >= APART for lead in right)), 0)
            if side and np.isfinite(lead_by_metric):
                sides.append(side * np.sign(lead_by_metric) * (abs(lead_by_metric) > 1e-9))
        taus += [float(np.mean(sides))] if sides else []
    return float(np.mean(taus)) if taus else float("nan")


def board(
    metrics: Sequence[str],
    which: Sequence[Network],
    store: str | Path,
    seeds: int = 5,
    say: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> pd.DataFrame:
    """The board of some metrics on some networks; an error where nothing could be measured."""
    check_metrics(metrics)
    problems: list[str] = []
    rows = [
        row for network in which for row in board_rows(network, metrics, seeds, store, say=problems.append, **options)
    ]
    for sentence in problems:
        say(sentence)
    if not rows:
        raise BadInput(" ".join(problems) or f"{', '.join(metrics)}: no value for any map (all are NaN).")
    return pd.DataFrame(rows, columns=[*COLUMNS])


def check_metrics(names: Sequence[str]) -> None:
    """Refuse what says nothing of a map: controls, and metrics that ask how an estimator behaves."""
    for name in names:
        if name in RETRAININGS:
            if not RETRAININGS[name].judges:
                raise BadInput(f"{name} is a control of a metric: see uproar ls metrics.")
        elif name not in EVALUATORS and "an estimator" in metrics[name.partition("(")[0]].facts["needs"]:
            raise BadInput(f"{name} asks how an estimator behaves, not whether a map is right: it cannot be tested.")
