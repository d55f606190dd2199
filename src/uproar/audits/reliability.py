"""Do metrics agree on what a good map is? (Vandersmissen and Oramas, sections 4.3 and 4.5)"""

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

from uproar.audits.plots import heat_map
from uproar.audits.registry import OWN, Evidence, StudyEvidence, audit, conclude, knows_truth, unique_names
from uproar.audits.values_per_image import advantage, advantage_table, values_per_image
from uproar.errors import NotApplicable
from uproar.metrics.registry import judges, read_metric, uses_order
from uproar.protocols import protocol_named
from uproar.results.finding import Finding, Mark, Plot, State
from uproar.statistics.correlation import concordance, krippendorff_alpha
from uproar.statistics.metric_pairs import OPPOSED, ValuesPerImage, both_ways, pairwise, per_estimator

if TYPE_CHECKING:
    from uproar.study.spec import Study

Numbers = NDArray[np.float64]

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
CLEAN = "average_drop"
"""The metric that also keeps the class's probability on the unchanged image."""

JUDGES = "judges"


def _metrics(study: Study, metrics: Sequence[str]) -> tuple[str, ...]:
    """The study's own metrics, and of the others those it does not have under other options."""
    own = {read_metric(name).name for name in study.metrics}
    wanted = [name for name in metrics if read_metric(name).name not in own]
    if POINTING not in own and knows_truth(study.tasks[0]):
        wanted.append(POINTING)
    return unique_names(study.metric_names, [str(read_metric(name)) for name in wanted])


def _studies(study: Study, metrics: Sequence[str], replicates: int) -> Mapping[str, Study]:
    """All metrics of all estimators on the first replicates."""
    return {JUDGES: study.with_changes(metrics=_metrics(study, metrics), protocols=(), seeds=study.seeds[:replicates])}


@audit(
    title="Agreement of metrics",
    question="Do metrics and protocols agree on which maps are good?",
    studies=_studies,
    paper="Vandersmissen and Oramas, sections 4.3 and 4.5",
    needs="at least 3 estimators beside random, 2 metrics and 10 test images",
)
def reliability(
    evidence: Evidence, *, metrics: tuple[str, ...] = METRICS, replicates: Annotated[int, Field(ge=1)] = 3
) -> Finding:
    """Correlations of every two metrics over images and over estimators, and who contradicts whom about random."""
    part = evidence[JUDGES]
    data = values_per_image(part, [name for name in part.study.metric_names if judges(name)], least=3)
    clean = _clean_scores(part, data)
    pairs = pairwise(data, clean)
    levels = estimator_scores(part, data, evidence[OWN])
    order = _orders(levels, _judging(evidence[OWN]))
    sides = sides_of(part, data, evidence[OWN])
    clashes = contradictions(sides)
    opposed = pairs[pairs["opposed"]]
    state = _state(opposed, clashes, order)
    table = pairs.drop(columns=["i", "j", "over_error"])
    return Finding(
        state,
        _sentence(pairs, opposed, clashes, order, data),
        plots=_plots(pairs, levels, opposed, order, data),
        tables={
            "every two metrics: correlation over images (mean over estimators), given the clean score, and "
            "across the estimators of one image": table,
            "the same over images, per estimator": per_estimator(data),
            "estimators by judge (higher is better)": levels.rename_axis("judge").reset_index(),
            "advantage over random by judge": sides,
        },
        marks=_marks(clashes),
        notes=(*data.notes, *_notes(data, order)),
    )


@dataclass(frozen=True)
class RankAgreement:
    """How far the judges agree on the order of the estimators."""

    w: float
    """Kendall's W, and p of "each orders at random"."""
    p: float
    alpha: float
    """Krippendorff's."""
    judges: int
    estimators: int
    protocols: tuple[str, ...]


def _clean_scores(part: StudyEvidence, data: ValuesPerImage) -> Numbers | None:
    """The class's probability on the unchanged images, (seeds, images), where a metric kept it."""
    names = [name for name in part.study.metric_names if read_metric(name).name == CLEAN]
    if not names or names[0] not in data.metrics:
        return None
    return np.array([part.responses(names[0], data.estimators[0], s)["before"] for s in data.seeds])


# over estimators


def estimator_scores(part: StudyEvidence, data: ValuesPerImage, own: StudyEvidence) -> pd.DataFrame:
    """What every judge gives every estimator, higher is better: metrics, and the study's protocols.

    A metric's number is its mean over replicates; a protocol's the mean accuracy over replicates and fractions, turned
    round where lower is better. A judge that lacks an estimator is left out.
    """
    rows = part.scores
    by_metric = rows.pivot_table(index="metric", columns="estimator", values="value")
    turned = rows.groupby("metric")["higher_is_better"].first().map({True: 1, False: -1})
    parts = [by_metric.mul(turned, axis=0).reindex(index=list(data.metrics), columns=list(data.estimators))]
    for name in _judging(own):
        accuracies = {c: _mean_accuracy(own, name, c) for c in data.estimators}
        parts.append(protocol_named(name).direction * pd.DataFrame(accuracies, index=[name]))
    return pd.concat(parts).dropna()


def _judging(own: StudyEvidence) -> list[str]:
    """Protocols of the study that may rank estimators."""
    return [p.name for p in own.study.protocol_list if p.judges] if own.study.protocols else []


def _mean_accuracy(own: StudyEvidence, protocol: str, estimator: str) -> float:
    table = own.accuracy(protocol, estimator)
    plain = protocol_named(protocol).plain
    changed = [t for t in table.columns if t != plain]
    return float(table[changed].to_numpy().mean()) if changed and len(table) else math.nan


def _orders(levels: pd.DataFrame, judging: Sequence[str]) -> RankAgreement:
    if len(levels) < 2:
        raise NotApplicable(f"{len(levels)} judges rank all estimators, two are needed; run more metrics or protocols")
    protocols = [name for name in levels.index if name in judging]
    ranks = scipy.stats.rankdata(-levels.to_numpy(), axis=1)
    w, p = concordance(levels.to_numpy())
    return RankAgreement(w, p, krippendorff_alpha(ranks), len(levels), levels.shape[1], tuple(protocols))


# against random


def sides_of(part: StudyEvidence, data: ValuesPerImage, own: StudyEvidence) -> pd.DataFrame:
    """Each estimator's advantage over random by each judge, its interval, and its side where that is decided.

    p is adjusted by Holm: over all metrics and estimators together, and over the estimators of a protocol, as in the
    study's own verdicts.
    """
    advantages = (
        ((metric, "metric", chain), advantage(part, metric, chain))
        for metric in filter(uses_order, data.metrics)
        for chain in data.estimators
    )
    sides = [advantage_table(advantages, ["judge", "kind", "estimator"])]
    sides += [_protocol_sides(own, protocol) for protocol in _judging(own)]
    return pd.concat([side for side in sides if len(side)] or sides[:1], ignore_index=True)


def _protocol_sides(own: StudyEvidence, protocol: str) -> pd.DataFrame:
    """The study's own verdicts about a protocol."""
    table = own.verdicts(protocol).rename_axis("estimator").reset_index()
    columns = ["estimator", "advantage", "low", "high", "p_holm", "side"]
    return table[columns].assign(judge=protocol, kind="protocol")[["judge", "kind", *columns]] if len(table) else table


def contradictions(sides: pd.DataFrame) -> pd.DataFrame:
    """Every two judges that decidedly put an estimator on different sides of random."""
    rows = []
    for estimator, group in sides[sides["side"] != 0].groupby("estimator", sort=False):
        for a, b in itertools.combinations(group.itertuples(), 2):
            if a.side != b.side:
                rows.append({"estimator": estimator, "better": a if a.side > 0 else b, "worse": b if a.side > 0 else a})
    return pd.DataFrame(rows, columns=["estimator", "better", "worse"])


def _marks(clashes: pd.DataFrame) -> tuple[Mark, ...]:
    """A mark on each verdict of a protocol that metrics put the other way; the clearest metric is named."""
    against: dict[tuple[str, str], list[Any]] = {}
    for clash in clashes.itertuples():
        pair = (clash.better, clash.worse)
        for one, other in (pair, pair[::-1]):
            if one.kind == "protocol" and other.kind == "metric":
                against.setdefault((one.judge, clash.estimator), []).append(other)
    marks = []
    for (protocol, estimator), others in against.items():
        first = others[0]
        side = "better" if first.side > 0 else "worse"
        more = f"; so {'does' if len(others) == 2 else 'do'} {', '.join(o.judge for o in others[1:])}"
        marks.append(
            Mark(
                protocol,
                estimator,
                f"contradicted by {first.judge}",
                f"{first.judge} finds {estimator} {side} than random by {abs(first.advantage):.3f} "
                f"[{min(abs(first.low), abs(first.high)):.3f}, {max(abs(first.low), abs(first.high)):.3f}]"
                + (more if len(others) > 1 else ""),
            )
        )
    return tuple(marks)


# words


def _state(opposed: pd.DataFrame, clashes: pd.DataFrame, order: RankAgreement) -> State:
    return conclude(misleads=len(opposed) + len(clashes) > 0, holds=order.p < 0.05)


def _sentence(
    pairs: pd.DataFrame, opposed: pd.DataFrame, clashes: pd.DataFrame, order: RankAgreement, data: ValuesPerImage
) -> str:
    judges = f"{order.judges} judges"
    if order.protocols:
        judges += f" ({order.judges - len(order.protocols)} metrics, {len(order.protocols)} protocols)"
    text = (
        f"{judges} order {order.estimators} estimators with Kendall's W = {order.w:.2f} "
        f"(1: all alike; p = {order.p:.2g}) and Krippendorff's α = {order.alpha:.2f}"
    )
    details = []
    if len(opposed):
        worst = opposed.loc[opposed["within_images"].idxmin()]
        details.append(
            f"{len(opposed)} of {len(pairs)} pairs of metrics order the estimators of an image in opposite ways, "
            f"most of all {worst['metric']} and {worst['other']} ({_interval(worst)})"
        )
    if len(clashes):
        first = clashes.iloc[0]
        count = clashes["estimator"].nunique()
        details.append(
            f"{count} of {len(data.estimators)} estimators are better than random by one and worse by another, "
            f"e.g. {first['estimator']} by {first['better'].judge} and {first['worse'].judge}"
        )
    if not details:
        details.append(
            "no two of them contradict each other" + ("" if order.p < 0.05 else ", but their agreement may be chance")
        )
    return f"{text}; {'; '.join(details)}."


def _interval(row: pd.Series) -> str:
    return f"rank correlation {row['within_images']:.2f} [{row['within_low']:.2f}, {row['within_high']:.2f}]"


def _notes(data: ValuesPerImage, order: RankAgreement) -> list[str]:
    notes = [
        f"Metrics are turned so that higher is better; {len(data.estimators)} estimators beside random, "
        f"{data.images} images, {len(data.seeds)} replicates. Spearman's correlation, point-biserial where one "
        "metric is 0 or 1, Pearson's where both are.",
        "Over images two metrics can correlate because some images are easy for both; within images, and given the "
        "probability of the class on the unchanged image, that is taken out.",
        "Random itself is no part of the rankings: its last place would make judges agree. Only metrics that go by the "
        "order of pixels are asked who is better than random, since the values of uniform noise are unlike any map's.",
        f"Two metrics contradict each other where their correlation within images is below {OPPOSED}, tested with "
        "Holm's correction over all pairs; who is better or worse than random is tested with Holm's correction over "
        "all metrics and estimators: asking many judges does not by itself produce a contradiction.",
    ]
    if order.protocols:
        notes.append("Protocols enter with their mean accuracy over fractions and replicates.")
    return notes


def _plots(
    pairs: pd.DataFrame, levels: pd.DataFrame, opposed: pd.DataFrame, order: RankAgreement, data: ValuesPerImage
) -> tuple[Plot, ...]:
    best = pairs.loc[pairs["within_images"].idxmax()] if pairs["within_images"].notna().any() else None
    within = "Within an image, "
    if best is None:
        within = "No two metrics could be compared within an image"
    elif len(opposed):
        worst = opposed.loc[opposed["within_images"].idxmin()]
        within += f"{worst['metric']} and {worst['other']} contradict each other ({worst['within_images']:.2f})"
    else:
        within += f"no two metrics contradict each other; {best['metric']} and {best['other']} agree most"
    strongest = pairs.loc[pairs["over_images"].abs().idxmax()]
    ranks = pd.DataFrame(scipy.stats.rankdata(-levels.to_numpy(), axis=1), index=levels.index, columns=levels.columns)
    tidy = ranks.rename_axis("judge").reset_index().melt("judge", var_name="estimator", value_name="rank")
    return (
        _correlations(
            "reliability-within",
            within,
            "Mean over images of the rank correlation of two metrics across estimators: 1 same order, −1 opposite.",
            both_ways(pairs, "within_images"),
        ),
        _correlations(
            "reliability-images",
            f"Over images, {strongest['metric']} and {strongest['other']} are tied most closely "
            f"({strongest['over_images']:.2f})",
            "Correlation of two metrics over images, mean over estimators; negative: what one likes the other "
            "dislikes. Easy images alone can make it large.",
            both_ways(pairs, "over_images"),
        ),
        heat_map(
            "reliability-ranks",
            f"Judges order the estimators with Kendall's W = {order.w:.2f}",
            "Place of each estimator (column) by each judge (row), 1 = best; columns of one colour mean agreement.",
            tidy,
            ("estimator", "estimator"),
            ("judge", "judge"),
            value="rank",
        ),
    )


def _correlations(name: str, title: str, reading: str, data: pd.DataFrame) -> Plot:
    axes = ("metric", "metric"), ("other", "metric")
    return heat_map(name, title, reading, data, *axes, value="correlation", diverging=True)
