"""Do metrics agree on what a good map is? (Vandersmissen and Oramas, sections 4.3 and 4.5)

Metrics are compared on the same images, estimators and replicates; what is not finished for all is left out and named.
Higher is better for every metric here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray
from pydantic import Field

from uproar.audits.registry import OWN, Evidence, StudyEvidence, audit, conclude, heat_map, knows_truth, unique_names
from uproar.errors import NotApplicable
from uproar.metrics.registry import judges, metrics, read_metric, sign_of, uses_order
from uproar.metrics.retraining import retraining_named
from uproar.results.finding import Finding, Mark, Plot
from uproar.statistics.comparisons import corrected, holm
from uproar.statistics.correlation import concordance, row_correlations
from uproar.statistics.design import ALPHA, BASELINE
from uproar.statistics.intervals import Interval, Measurements, Numbers, crossed_mean
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.study.spec import Study

RESAMPLED = "resampled"
"""The response that holds a statistic of the data set for resamples of the images, the same for every estimator."""


OPPOSED = -0.1
"""Two metrics contradict each other where their mean rank correlation within images is significantly below this."""


@dataclass(frozen=True)
class ValuesPerImage:
    """What several metrics say of the same images, estimators and replicates."""

    metrics: tuple[str, ...]
    estimators: tuple[str, ...]
    """Without the baseline."""
    seeds: tuple[int, ...]
    values: Numbers
    """(metrics, seeds, estimators, images); higher is better, NaN where not defined."""
    notes: tuple[str, ...] = ()

    @property
    def images(self) -> int:
        """How many test images there are."""
        return int(self.values.shape[3])


def values_per_image(evidence: StudyEvidence, names: Sequence[str], least: int = 2, images: int = 10) -> ValuesPerImage:
    """What some metrics say of the images of a part; refused with the reason where too little is finished.

    A metric whose numbers are those of an earlier one, under another name, is left out.
    """
    seeds, done = tuple(evidence.study.seeds), evidence.scores
    done = done[done["metric"].isin([str(read_metric(name)) for name in names])]
    counts = done.groupby(["metric", "estimator"])["seed"].nunique()
    whole = set(counts.index[counts == len(seeds)])
    chains = [c for c in evidence.estimators if c != BASELINE and any(estimator == c for _, estimator in whole)]
    if len(chains) < least:
        raise NotApplicable(
            f"{counted(len(chains), 'estimator')} beside random {'has' if len(chains) == 1 else 'have'} finished "
            f"metrics; name at least {least} in the study"
        )
    notes: list[str] = []
    arrays: dict[str, NDArray[np.float64]] = {}
    for name in names:
        if not all((str(read_metric(name)), chain) in whole for chain in chains):
            notes.append(f"{name} is not defined here, or not finished, for all estimators.")
            continue
        values = sign_of(name) * np.array(
            [[evidence.responses(name, c, s)["value"].astype(float) for c in chains] for s in seeds]
        )
        twin = next((other for other, v in arrays.items() if np.array_equal(v, values, equal_nan=True)), None)
        if twin is None:
            arrays[name] = values
        else:
            notes.append(f"{name} has the numbers of {twin} and is not compared with it.")
    if len(arrays) < 2:
        raise NotApplicable(
            f"{counted(len(arrays), 'metric')} finished; two that differ are needed, e.g. insertion and road"
        )
    data = ValuesPerImage(tuple(arrays), tuple(chains), seeds, np.array(list(arrays.values())), tuple(notes))
    if data.images < images:
        raise NotApplicable(
            f"{counted(data.images, 'test image')} cannot show whether metrics agree; use at least {images}"
        )
    return data


def advantage(evidence: StudyEvidence, metric: str, estimator: str) -> Interval | None:
    """How much better an estimator is than random by a metric, positive = better; None where it is not known."""
    rows = evidence.scores
    value = rows[rows["metric"] == str(read_metric(metric))].set_index(["estimator", "seed"])["value"]
    seeds = [s for s in evidence.study.seeds if (estimator, s) in value.index and (BASELINE, s) in value.index]
    if not seeds:
        return None

    def measured(chain: str) -> Measurements:
        responses = [evidence.responses(metric, chain, seed) for seed in seeds]
        by_image = np.stack([response["value"].astype(float) for response in responses])
        if metrics[read_metric(metric).name].facts["statistic"] is None:
            return Measurements(by_image)
        numbers = np.array([value[chain, seed] for seed in seeds], dtype=float)
        return Measurements(by_image, numbers, np.stack([response[RESAMPLED] for response in responses]))

    difference = (measured(estimator) - measured(BASELINE)).interval()
    if np.isnan(difference.value):
        return None
    return difference if sign_of(metric) > 0 else -difference


# metrics of maps and retraining

METRICS = (
    "insertion(steps=20)",
    "deletion(steps=20)",
    "road",
    "completeness",
    "soundness(steps=20)",
    "average_drop",
    "average_drop(binarise=0.5)",
    "increase_in_confidence",
)
POINTING = "pointing_game"

JUDGES = "judges"


def _studies(study: Study, metrics: Sequence[str], replicates: int) -> Mapping[str, Study]:
    """The study's own metrics, and those it does not have under other options, on the first replicates."""
    names_of_study = {read_metric(name).name for name in study.metrics}
    wanted = [name for name in metrics if read_metric(name).name not in names_of_study]
    if POINTING not in names_of_study and knows_truth(study.tasks[0]):
        wanted.append(POINTING)
    names = unique_names(study.metric_names, [str(read_metric(name)) for name in wanted])
    return {JUDGES: study.with_changes(metrics=names, seeds=study.seeds[:replicates])}


@audit(
    title="Agreement of metrics",
    question="Do metrics agree on which maps are good?",
    studies=_studies,
    paper="Vandersmissen and Oramas, sections 4.3 and 4.5",
    needs="at least 3 estimators beside random, 2 metrics and 10 test images",
)
def reliability(
    evidence: Evidence, *, metrics: tuple[str, ...] = METRICS, replicates: Annotated[int, Field(ge=1)] = 3
) -> Finding:
    """Rank correlations of every two metrics across estimators, and who contradicts whom about random."""
    judges_evidence, study_evidence = evidence[JUDGES], evidence[OWN]
    data = values_per_image(
        judges_evidence, [name for name in judges_evidence.study.metric_names if judges(name)], least=3
    )
    pairs = pairwise(data)
    levels = estimator_scores(judges_evidence, data, study_evidence)
    by_metric = sides_of(judges_evidence, data, study_evidence)
    clashes = contradictions(by_metric)
    opposed = pairs[pairs["opposed"]]
    w, p = concordance(levels.to_numpy())
    retrained = [name for name in levels.index if name in _judging(study_evidence)]
    return Finding(
        conclude(misleads=len(opposed) + len(clashes) > 0, holds=p < ALPHA),
        _sentence(pairs, clashes, levels, len(retrained), w, p),
        plots=_plots(pairs, levels, w),
        tables={
            "every two metrics: rank correlation across the estimators of one image": pairs,
            "estimators by metric (higher is better)": levels.rename_axis("metric").reset_index(),
            "advantage over random by metric": by_metric,
        },
        marks=_marks(clashes),
        notes=(
            *data.notes,
            f"Metrics are oriented so that higher is better; {len(data.estimators)} estimators beside random, "
            f"{data.images} images, {len(data.seeds)} replicates.",
            "Random itself is no part of the rankings: its last rank would make metrics agree. Only metrics of the "
            "order of pixels are compared with random, since the values of uniform noise are unlike any map's.",
            f"Two metrics contradict each other where their correlation within images is below {OPPOSED}, tested with "
            "Holm's correction over all pairs; who is better or worse than random is tested with Holm's correction "
            "over all metrics and estimators.",
            *(["Metrics that retrain enter with their mean accuracy over fractions and replicates."] * bool(retrained)),
        ),
    )


def pairwise(data: ValuesPerImage) -> pd.DataFrame:
    """A row for every two metrics: the mean over images of their rank correlation across estimators.

    Its interval has the variance between replicates and that between images. `opposed` says whether it is below −0.1,
    with Holm's correction over all pairs (`p_opposed`).
    """
    rows = []
    for i, j in itertools.combinations(range(len(data.metrics)), 2):
        replicates = zip(data.values[i], data.values[j], strict=True)
        within = crossed_mean(np.array([row_correlations(a.T, b.T) for a, b in replicates]))
        names = {"metric": data.metrics[i], "other": data.metrics[j]}
        ends = {"within_images": within.value, "within_low": within.low, "within_high": within.high}
        rows.append({**names, **ends, "p_opposed": within.p_against(OPPOSED)})
    table = pd.DataFrame(rows)
    table["p_opposed"] = holm(table["p_opposed"])
    return table.assign(opposed=(table["p_opposed"] <= ALPHA) & (table["within_images"] < OPPOSED))


def estimator_scores(evidence: StudyEvidence, data: ValuesPerImage, study_evidence: StudyEvidence) -> pd.DataFrame:
    """The score of every estimator by every metric, higher is better, also by those of the study that retrain.

    A metric's number is its mean over replicates; of one that retrains the mean accuracy over replicates and fractions,
    with its sign changed where lower is better. A metric that lacks an estimator is left out.
    """
    rows = evidence.scores
    by_metric = rows.pivot_table(index="metric", columns="estimator", values="value")
    turned = rows.groupby("metric")["higher_is_better"].first().map({True: 1, False: -1})
    parts = [by_metric.mul(turned, axis=0).reindex(index=list(data.metrics), columns=list(data.estimators))]
    for name in _judging(study_evidence):
        metric = retraining_named(name)
        tables = {
            chain: study_evidence.accuracy(name, chain).drop(columns=[metric.plain], errors="ignore")
            for chain in data.estimators
        }
        accuracies = {
            chain: float(table.to_numpy().mean()) if table.size else math.nan for chain, table in tables.items()
        }
        parts.append(metric.direction * pd.DataFrame(accuracies, index=[name]))
    levels = pd.concat(parts).dropna()
    if len(levels) < 2:
        raise NotApplicable(f"{counted(len(levels), 'metric')} of all estimators; two are needed: run more")
    return levels


def _judging(evidence: StudyEvidence) -> list[str]:
    """Metrics of the study that may rank estimators."""
    return [p.name for p in evidence.study.retrainings if p.judges]


def sides_of(evidence: StudyEvidence, data: ValuesPerImage, study_evidence: StudyEvidence) -> pd.DataFrame:
    """Each estimator's advantage over random by each metric, its interval, and its side where that is decided.

    p is adjusted by Holm: over all metrics and estimators together, and over the estimators of a metric, as in the
    study's own verdicts.
    """
    rows = [
        (metric, "metric", chain, each.value, each.low, each.high, each.p)
        for metric in filter(uses_order, data.metrics)
        for chain in data.estimators
        if (each := advantage(evidence, metric, chain)) is not None
    ]
    table = pd.DataFrame(rows, columns=["judge", "kind", "estimator", "advantage", "low", "high", "p"])
    tables = [corrected(table, effect="advantage").drop(columns="p")]
    for metric in _judging(study_evidence):
        verdicts = study_evidence.verdicts(metric).rename_axis("estimator").reset_index()
        if len(verdicts):
            tables.append(verdicts.assign(judge=metric, kind="retraining")[list(tables[0])])
    return pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)


def contradictions(sides: pd.DataFrame) -> pd.DataFrame:
    """Every two metrics that significantly put an estimator on different sides of random."""
    rows = []
    for estimator, group in sides[sides["side"] != 0].groupby("estimator", sort=False):
        for a, b in itertools.combinations(group.itertuples(), 2):
            if a.side != b.side:
                rows.append({"estimator": estimator, "better": a if a.side > 0 else b, "worse": b if a.side > 0 else a})
    return pd.DataFrame(rows, columns=["estimator", "better", "worse"])


def _marks(clashes: pd.DataFrame) -> tuple[Mark, ...]:
    """A mark on each verdict of a metric that metrics put the other way; the clearest metric is named."""
    against: dict[tuple[str, str], list[Any]] = {}
    for clash in clashes.itertuples():
        pair = (clash.better, clash.worse)
        for retraining, other in (pair, pair[::-1]):
            if retraining.kind == "retraining" and other.kind == "metric":
                against.setdefault((retraining.judge, clash.estimator), []).append(other)
    marks = []
    for (metric, estimator), others in against.items():
        first = others[0]
        side, ends = "better" if first.side > 0 else "worse", sorted([abs(first.low), abs(first.high)])
        why = f"{first.judge} finds {estimator} {side} than random by {abs(first.advantage):.3f} "
        why += f"[{ends[0]:.3f}, {ends[1]:.3f}]"
        if len(others) > 1:
            why += f"; so {'does' if len(others) == 2 else 'do'} {', '.join(o.judge for o in others[1:])}"
        marks.append(Mark(metric, estimator, f"contradicted by {first.judge}", why))
    return tuple(marks)


def _sentence(
    pairs: pd.DataFrame, clashes: pd.DataFrame, levels: pd.DataFrame, retrained: int, w: float, p: float
) -> str:
    kinds = f" ({len(levels) - retrained} without retraining)" if retrained else ""
    text = (
        f"{len(levels)} metrics{kinds} order {levels.shape[1]} estimators with Kendall's W = {w:.2f} "
        f"(1: all alike; p = {p:.2g})"
    )
    details, opposed = [], pairs[pairs["opposed"]]
    if len(opposed):
        worst = opposed.loc[opposed["within_images"].idxmin()]
        details.append(
            f"{len(opposed)} of {len(pairs)} pairs of metrics order the estimators of an image in opposite ways, "
            f"most of all {worst['metric']} and {worst['other']} (rank correlation {worst['within_images']:.2f} "
            f"[{worst['within_low']:.2f}, {worst['within_high']:.2f}])"
        )
    if len(clashes):
        first = clashes.iloc[0]
        details.append(
            f"{clashes['estimator'].nunique()} of {levels.shape[1]} estimators are better than random by one and worse "
            f"by another, e.g. {first['estimator']} by {first['better'].judge} and {first['worse'].judge}"
        )
    if not details:
        chance = "" if p < ALPHA else ", but their agreement may be chance"
        details.append(f"no two of them contradict each other{chance}")
    return f"{text}; {'; '.join(details)}."


def _plots(pairs: pd.DataFrame, levels: pd.DataFrame, w: float) -> tuple[Plot, ...]:
    opposed, known = pairs[pairs["opposed"]], pairs.dropna(subset="within_images")
    if known.empty:
        within = "No two metrics could be compared within an image"
    elif len(opposed):
        worst = opposed.loc[opposed["within_images"].idxmin()]
        within = f"{worst['metric']} and {worst['other']} contradict each other ({worst['within_images']:.2f})"
    else:
        best = known.loc[known["within_images"].idxmax()]
        within = f"No two metrics contradict each other; {best['metric']} and {best['other']} agree most"
    readings = (
        "Mean over images of the rank correlation of two metrics across estimators: 1 same order, −1 opposite.",
        "Rank of each estimator (column) by each metric (row), 1 = best; columns of one colour mean agreement.",
    )
    names = list(dict.fromkeys([*pairs["metric"], *pairs["other"]]))
    values = {frozenset(row[:2]): row[2] for row in pairs[["metric", "other", "within_images"]].to_numpy()}
    cells = [(a, b, values.get(frozenset((a, b)), math.nan)) for b in names for a in names]
    matrix = pd.DataFrame(cells, columns=["metric", "other", "correlation"])
    ranks = pd.DataFrame(scipy.stats.rankdata(-levels.to_numpy(), axis=1), index=levels.index, columns=levels.columns)
    tidy = ranks.rename_axis("metric").reset_index().melt("metric", var_name="estimator", value_name="rank")
    axes = (("metric", "metric"), ("other", "metric")), (("estimator", "estimator"), ("metric", "metric"))
    title = f"Metrics order the estimators with Kendall's W = {w:.2f}"
    return (
        heat_map("reliability-within", within, readings[0], matrix, *axes[0], value="correlation", diverging=True),
        heat_map("reliability-ranks", title, readings[1], tidy, *axes[1], value="rank"),
    )
