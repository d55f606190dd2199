"""Does the ranking of the estimators survive another seed, fill, model, fraction or subset of the images?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from uproar.audits.registry import OWN, Evidence, StudyEvidence, Style, audit, bars, conclude
from uproar.errors import NotApplicable
from uproar.expression import parse
from uproar.metrics.retraining import retraining_named
from uproar.results.finding import Finding, Mark, Plot, State
from uproar.seeds import key
from uproar.statistics.comparisons import compare
from uproar.statistics.correlation import kendall
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Numbers as Array
from uproar.statistics.intervals import area
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.study.spec import Study

IMAGES = 20
"""Test images below which halves say nothing."""
AGREES = 0.5
"""Kendall's τ from which two rankings count as alike: three of four pairs in the same order."""


def _studies(study: Study, *, metric: str, fill: str, models: tuple[str, ...]) -> Mapping[str, Study]:
    """The study under one metric; with another fill, and with other models."""
    if models and study.weights is not None:
        raise NotApplicable("the weights are given for one model; leave out weights or models")
    base = study.with_changes(metrics=(metric,))
    parts = {"base": base}
    if fill != "same":
        parts["fill"] = base.with_changes(fill=_other(study, fill))
    return parts | {f"model {name}": base.with_changes(models=(name,)) for name in models}


def _other(study: Study, fill: str) -> str:
    if fill != "other":
        return fill
    return "mean" if parse(study.fill).name == "linear" else "linear"


@audit(
    title="Stability",
    question="Does the ranking of the estimators survive another seed, fill, model, fraction or subset of images?",
    studies=_studies,
    needs=f"at least 2 seeds, 3 estimators with random, and {IMAGES} test images",
)
def stability(
    evidence: Evidence, *, metric: Literal["roar", "kar"] = "roar", fill: str = "other", models: tuple[str, ...] = ()
) -> Finding:
    """Seeds and test images are drawn anew; the ranking is compared with that of other settings.

    `fill="other"` retrains once more with the linear fill (with the mean where the study has the linear one),
    `fill="same"` leaves that out; `models=["resnet-small"]` adds other networks.
    """
    sign = retraining_named(metric).direction
    base = _outcomes(evidence["base"], metric)
    estimators, _, seeds, images = base.right.shape
    if seeds < 2:
        raise NotApplicable("1 replicate does not tell how much a ranking wavers; run at least 2 seeds")
    if estimators < 3:
        raise NotApplicable(f"{counted(estimators, 'estimator')} with random make no ranking; use at least 3")
    if images < IMAGES:
        raise NotApplicable(f"{counted(images, 'test image')} are too few to be drawn anew; use at least {IMAGES}")
    changes = {f"{100 * t:g} % alone": base.at(t) for t in base.fractions} if len(base.fractions) > 1 else {}
    if fill != "same":
        changes[f"fill {_other(evidence.study, fill)}"] = _outcomes(evidence["fill"], metric)
    changes |= {f"model {name}": _outcomes(evidence[f"model {name}"], metric) for name in models}
    draws = resampled_means(base.values)
    better = decided_pairs(base, sign)
    table, turned = compare_rankings(base, changes, draws, better, sign)
    return Finding(
        state(table, turned, better),
        _sentence(table, turned, better, base),
        plots=(_bars(table),),
        tables={
            "agreement of rankings": table,
            "pairs that turn round": pd.DataFrame(
                turned, columns=["what changes", "better in the study", "better then"]
            ),
        },
        marks=marks(evidence[OWN].verdicts(metric), turned, metric),
        notes=(
            "Kendall's τ is 1 for the same order and 0 for unrelated ones. Intervals: 1000 draws of seeds and test "
            "images; between seeds and between halves of the images, the range that was seen.",
        ),
    )


@dataclass(frozen=True)
class Outcomes:
    """Which test images were classified right, (estimators, fractions, seeds, images)."""

    names: tuple[str, ...]
    fractions: tuple[float, ...]
    right: Array

    @property
    def values(self) -> Array:
        """The area under each image's curve, (estimators, seeds, images)."""
        return area(list(self.fractions), np.moveaxis(self.right, 1, -1))

    @property
    def means(self) -> Array:
        """Mean over seeds and images, (estimators,)."""
        return np.asarray(self.values.mean((1, 2)))

    def at(self, fraction: float) -> Outcomes:
        """One fraction alone."""
        column = self.fractions.index(fraction)
        return Outcomes(self.names, (fraction,), self.right[:, column : column + 1])

    def of(self, names: Sequence[str]) -> Outcomes:
        """Some of the estimators."""
        rows = [self.names.index(name) for name in names]
        return Outcomes(tuple(names), self.fractions, self.right[rows])


def _outcomes(evidence: StudyEvidence, metric: str) -> Outcomes:
    """What every estimator with all its cells left right; those with a gap are left out."""
    labels = evidence.task.test.labels.numpy()
    fractions = tuple(t for t in sorted(evidence.study.fractions) if 0 < t < 1)
    correct = {}
    for name in evidence.estimators:
        try:
            correct[name] = [
                [evidence.answers(metric, name, t, s).argmax(1) == labels for s in evidence.study.seeds]
                for t in fractions
            ]
        except NotApplicable:
            continue
    if not correct or not fractions:
        raise NotApplicable("no estimator has all its cells; see the report's list of problems")
    return Outcomes(tuple(correct), fractions, np.array(list(correct.values()), dtype=float))


Turn = tuple[str, str, str]
"""What changes, and the two estimators: the first is better in the study, and worse then."""


def compare_rankings(
    base: Outcomes, changes: Mapping[str, Outcomes], draws: Array, better: np.ndarray, sign: int
) -> tuple[pd.DataFrame, list[Turn]]:
    """How far rankings under other conditions agree with the study's, and the pairs that significantly turn round."""
    by_seed = base.values.mean(2).T
    seeds = [kendall(a, b) for a, b in itertools.combinations(by_seed, 2)]
    images = _halves(base.values.mean(1))
    rows = [
        ("another seed", np.mean(seeds), min(seeds), max(seeds), 0),
        ("another half of the images", images.mean(), images.min(), images.max(), 0),
    ]
    turned: list[Turn] = []
    for what, other in changes.items():
        names = [name for name in base.names if name in other.names]
        rows_of = [base.names.index(name) for name in names]
        same = other.of(names)
        again = resampled_means(same.values)
        tau = kendall(draws[:, rows_of], again)
        turns = better[np.ix_(rows_of, rows_of)] * decided_pairs(same, sign) < 0
        mine = [(what, names[i], names[j]) for i, j in np.argwhere(turns) if better[rows_of[i], rows_of[j]] > 0]
        turned += mine
        point = kendall(base.means[rows_of], same.means)
        rows.append((what, point, *np.quantile(tau, [0.025, 0.975]), len(mine)))
    columns = ["what changes", "tau", "low", "high", "pairs that turn round"]
    table = pd.DataFrame(rows, columns=columns)
    return table.astype({"tau": float, "low": float, "high": float}), turned


def resampled_means(values: Array, draws: int = 1000) -> Array:
    """Means over seeds and images of (estimators, seeds, images) values, for resampled seeds and images, (draws, e)."""
    _, seeds, images = values.shape
    random = np.random.default_rng(key("seeds and images", seeds, images))
    means = []
    for _ in range(draws):
        by_image = values[:, random.integers(seeds, size=seeds)].mean(1)
        means.append(by_image[:, random.integers(images, size=images)].mean(1))
    return np.array(means)


def decided_pairs(outcomes: Outcomes, sign: int) -> np.ndarray:
    """1 where the row is significantly better than the column, -1 where worse, else 0, (estimators, estimators)."""
    names = outcomes.names
    side = np.zeros((len(names), len(names)), dtype=np.int64)
    pairs = compare(dict(zip(names, outcomes.values, strict=True)), higher_is_better=sign > 0)
    for row in pairs.itertuples():
        side[names.index(row.better), names.index(row.worse)] = row.side
    return side - side.T


def _halves(by_image: Array, draws: int = 200) -> Array:
    """Kendall's τ between the rankings by one random half of the images and by the other, (draws,)."""
    random = np.random.default_rng(key("halves of the images"))
    orders = [random.permutation(by_image.shape[1]) for _ in range(draws)]
    halves = [np.array_split(by_image[:, order], 2, axis=1) for order in orders]
    return np.array([kendall(first.mean(1), second.mean(1)) for first, second in halves])


def state(table: pd.DataFrame, turned: Sequence[Turn], better: np.ndarray) -> State:
    """Misled if a decided order is significantly the other way round elsewhere; sound if most are decided and agree."""
    count = len(better)
    most = (better > 0).sum() >= count * (count - 1) / 4
    return conclude(misleads=bool(turned), holds=bool(most and (table["tau"] >= AGREES).all()))


def marks(verdicts: pd.DataFrame, turned: Sequence[Turn], metric: str) -> tuple[Mark, ...]:
    """Estimators whose comparison with random turns round."""
    by_estimator: dict[str, list[str]] = {}
    for what, first, second in turned:
        if BASELINE in (first, second):
            name = second if first == BASELINE else first
            by_estimator.setdefault(name, []).append(what)
    return tuple(
        Mark(metric, name, "turns round", f"the other side of random with {', '.join(whats)}")
        for name, whats in by_estimator.items()
        if name in verdicts.index
    )


def _sentence(table: pd.DataFrame, turned: Sequence[Turn], better: np.ndarray, base: Outcomes) -> str:
    tau = table.set_index("what changes")["tau"]
    lowest = table.loc[table["tau"].idxmin()]
    estimators, _, seeds, images = base.right.shape
    sure, total = int((better > 0).sum()), estimators * (estimators - 1) // 2
    turns = len({frozenset(pair) for _, *pair in turned})
    return (
        f"{sure} of {total} pairs of estimators are decided with {counted(seeds, 'seed')} and {images} test images; "
        f"the ranking agrees between seeds by τ = {tau['another seed']:.2f} and least with "
        f"{lowest['what changes']} (τ = {lowest['tau']:.2f}, {lowest['low']:.2f} to {lowest['high']:.2f}), and "
        f"{counted(turns, 'decided pair')} turn{'s' if turns == 1 else ''} round when the setting changes."
    )


def _bars(table: pd.DataFrame) -> Plot:
    lowest = table.loc[table["tau"].idxmin()]
    title = f"The ranking agrees least with {lowest['what changes']} (τ = {lowest['tau']:.2f})"
    reading = "Kendall's τ between the study's ranking and that under another condition: 1 the same, 0 unrelated."
    axes = (("what changes", ""), ("tau", "Kendall's τ"))
    style: Style = {"band": True, "reference": (0.0, "unrelated")}
    return bars("stability-rankings", title, reading, table, *axes, **style)
