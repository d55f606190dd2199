"""Which estimators would say the same of another network? (Adebayo et al. 2018)"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
import torch
from pydantic import Field

from uproar.audits.registry import OWN, Evidence, StudyEvidence, audit, bars, conclude, lines
from uproar.errors import NotApplicable
from uproar.estimators import read_chain
from uproar.metrics.registry import read_metric
from uproar.metrics.sanity import Similarity, compare
from uproar.results.finding import Finding, Flag, Mark, Plot, State
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import mean_interval
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.study.spec import Study

Limit = Annotated[float, Field(gt=0, lt=1)]
WEIGHTS, LABELS = "weights drawn anew", "trained on shuffled labels"


def _metric(similarity: str) -> str:
    return str(read_metric(f"randomisation(similarity={similarity})"))


def _studies(study: Study, *, similarity: str, limit: float, labels: bool) -> Mapping[str, Study]:
    """The maps of networks with fresh weights, and of a network trained on shuffled labels."""
    names = _ranked(study)
    if not names:
        raise NotApplicable("the study has no estimator that makes maps; add one, e.g. grad")
    parts = {"weights": study.with_changes(estimators=names, metrics=(_metric(similarity),))}
    models = tuple(name for name in names if read_chain(name).needs_model)
    if labels and study.weights is None and models:
        fraction = next((t for t in study.fractions if 0 < t < 1), 0.5)
        (task,) = study.tasks
        same = study.with_changes(
            estimators=models, metrics=("roar:no-retrain",), fractions=(fraction,), target="label"
        )
        parts |= {"labels": same, "shuffled": same.with_changes(tasks=(f"shuffled-labels({task})",))}
    return parts


@audit(
    title="Sanity",
    question="Which estimators would say the same of a network that has learned nothing?",
    studies=_studies,
    paper="Adebayo et al. 2018",
    needs="at least 2 seeds and one estimator that makes maps",
)
def sanity(
    evidence: Evidence, *, similarity: Similarity = "spearman", limit: Limit = 0.5, labels: bool = True
) -> Finding:
    """Maps of the trained network against maps of the same network drawn anew, layer by layer, and trained on chance.

    An estimator ignores the model if its maps keep a similarity above `limit` to those of a wholly fresh network, with
    95 % confidence. `labels=false` leaves out the second training.
    """
    names = _ranked(evidence.study)
    layers = _layers(evidence["weights"], _metric(similarity), names)
    rows = kept_similarity({name: curve[:, -1] for name, curve in layers.items()}, limit)
    if rows.empty:
        raise NotApplicable("no estimator has maps of the trained and of the fresh networks; see the list of problems")
    learned = pd.DataFrame()
    notes = [
        "Similarity is taken image by image between the map of the trained network and that of its copy, with the "
        "same random numbers; 1 is the same map. Maps that mostly show the image keep a high similarity although they "
        "use the model."
    ]
    if labels and evidence.study.weights is None:
        learned, note = _learned(evidence, similarity, limit)
        notes += note
    elif labels:
        notes.append("The base model is given, so that no network was trained on shuffled labels.")
    verdicts = {retraining.name: evidence[OWN].verdicts(retraining.name) for retraining in evidence.study.retrainings}
    tables = {f"similarity ({similarity}) to the maps of a fresh network": rows}
    if len(learned):
        tables[f"similarity ({similarity}) to the maps of a network {LABELS}"] = learned
    return Finding(
        state(rows, verdicts, limit),
        _sentence(rows, verdicts, limit),
        plots=(_bars(rows, learned, limit), _curves(layers, rows)),
        tables=tables,
        marks=marks(rows, learned, verdicts),
        flags=flags(rows, learned),
        notes=tuple(notes),
    )


def kept_similarity(similarity: Mapping[str, np.ndarray], limit: float) -> pd.DataFrame:
    """Mean similarity of each estimator over replicates with its 95 % interval, and whether it ignores the change.

    >>> kept_similarity({"sobel": np.array([1.0, 1.0]), "grad": np.array([0.1, 0.12])}, 0.5)["ignores"].tolist()
    [True, False]
    """
    rows = []
    for name, values in similarity.items():
        mean = mean_interval(values, exact=True)
        if mean.n == 1:
            raise NotApplicable("1 replicate cannot give an interval; run at least 2 seeds")
        if mean.n:
            needs_model, low, high = read_chain(name).needs_model, max(mean.low, -1.0), min(mean.high, 1.0)
            rows.append((name, needs_model, mean.value, low, high, mean.n))
    table = pd.DataFrame(rows, columns=["estimator", "asks the model", "similarity", "low", "high", "n"])
    return table.assign(ignores=table["low"] > limit)


def _ranked(study: Study) -> tuple[str, ...]:
    """The estimators that have maps, without the random ranking."""
    return tuple(c.name for c in study.chains if not c.is_direct and c.name != BASELINE)


def _layers(evidence: StudyEvidence, metric: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Mean similarity over images by replicate and number of layers drawn anew, (seeds, layers)."""
    done = evidence.scores[evidence.scores["metric"] == metric].groupby("estimator")["seed"]
    seeds = {name: list(done.get_group(name)) for name in names if name in done.groups}
    return {
        name: np.stack([_mean(evidence.responses(metric, name, int(seed))["curve"]) for seed in replicates])
        for name, replicates in seeds.items()
    }


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over images, those without a value left out; NaN where none has one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without any value is NaN
        return np.asarray(np.nanmean(values, axis=0), dtype=float)


def _learned(evidence: Evidence, similarity: Similarity, limit: float) -> tuple[pd.DataFrame, list[str]]:
    """Similarity to the maps of a network trained on shuffled labels, and what that network knows."""
    true, mixed = evidence["labels"], evidence["shuffled"]
    similarities, missing = {}, []
    for name in (n for n in true.estimators if n != BASELINE):
        try:
            pairs = [(true.maps(name, s), mixed.maps(name, s)) for s in true.study.seeds]
        except NotApplicable:
            missing.append(name)
            continue
        each = [compare(torch.as_tensor(a), torch.as_tensor(b), similarity).numpy() for a, b in pairs]
        similarities[name] = np.array([float(_mean(values[:, None])[0]) for values in each])
    notes = [f"{name} has no maps of the network {LABELS}." for name in missing]
    plain = mixed.cells.loc[mixed.cells["fraction"] == 0.0, "accuracy"]
    if len(plain):
        chance = 1 / len(mixed.task.classes)
        notes.append(
            f"The network {LABELS} gets {100 * plain.mean():.0f} % of the test images right (chance "
            f"{100 * chance:.0f} %); both networks are asked about the image's true class."
        )
    return kept_similarity(similarities, limit), notes


def rewarded_estimators(rows: pd.DataFrame, verdicts: Mapping[str, pd.DataFrame]) -> dict[str, list[str]]:
    """Estimators that ignore the model and yet are better than random, by metric."""
    ignoring = set(rows.loc[rows["ignores"], "estimator"])
    better = {
        metric: [e for e in table.index[table["side"] > 0] if e in ignoring] for metric, table in verdicts.items()
    }
    return {metric: names for metric, names in better.items() if names}


def state(rows: pd.DataFrame, verdicts: Mapping[str, pd.DataFrame], limit: float) -> State:
    """Misled by a method that claims to ask the model and does not, or by a benchmark that rewards ignoring it."""
    asks = rows[rows["asks the model"]]
    ignored = bool(asks["ignores"].any() or rewarded_estimators(rows, verdicts))
    return conclude(misleads=ignored, holds=bool((asks["high"] < limit).all()))


def _ignoring(rows: pd.DataFrame, learned: pd.DataFrame) -> Iterator[tuple[str, Any, str]]:
    """What ignores the weights, and what the labels: which, the estimator's row, and the number in words."""
    for text, measured, of in (("model", rows, "with fresh weights"), ("labels", learned, LABELS)):
        for row in measured[measured["ignores"]].itertuples() if len(measured) else ():
            size = f"{row.similarity:.2f} ({row.low:.2f} to {row.high:.2f})"
            yield text, row, f"similarity {size} to maps of a network {of}"


def marks(rows: pd.DataFrame, learned: pd.DataFrame, verdicts: Mapping[str, pd.DataFrame]) -> tuple[Mark, ...]:
    """Verdicts about estimators that do not depend on what the network has learned."""
    marked: dict[tuple[str, str], Mark] = {}
    for metric, table in verdicts.items():
        for text, row, why in _ignoring(rows, learned):
            if row.estimator in table.index:
                marked.setdefault((metric, row.estimator), Mark(metric, row.estimator, f"ignores the {text}", why))
    return tuple(marked.values())


def flags(rows: pd.DataFrame, learned: pd.DataFrame) -> tuple[Flag, ...]:
    """Estimators that ask the model and show the same of one that has learned nothing."""
    ignoring = ((row.estimator, why) for _, row, why in _ignoring(rows, learned))
    return tuple(Flag(name, "fails sanity", why) for name, why in ignoring if read_chain(name).needs_model)


def _sentence(rows: pd.DataFrame, verdicts: Mapping[str, pd.DataFrame], limit: float) -> str:
    ignoring = rows[rows["ignores"]]
    n = int(rows["n"].min())
    similarities = ", ".join(f"{r.estimator} {r.similarity:.2f}" for r in ignoring.itertuples())
    words = (
        f"{len(ignoring)} of {counted(len(rows), 'estimator')} keep their maps (similarity above {limit:g}) when all "
        f"weights are drawn anew{f' ({similarities})' if similarities else ''}"
    )
    open_ones = rows[~rows["ignores"] & (rows["high"] >= limit)]
    if len(open_ones):
        words += f"; {', '.join(open_ones['estimator'])} cannot be told"
    for metric, names in rewarded_estimators(rows, verdicts).items():
        words += f"; {metric.upper()} calls {', '.join(names)} better than random all the same"
    return f"{words} ({counted(n, 'replicate')})."


def _bars(rows: pd.DataFrame, learned: pd.DataFrame, limit: float) -> Plot:
    both = pd.concat([rows.assign(network=WEIGHTS), *([learned.assign(network=LABELS)] if len(learned) else [])])
    title = f"{int(rows['ignores'].sum())} of {counted(len(rows), 'estimator')} hardly notice that the network is gone"
    reading = "Similarity of each estimator's maps to those of another network; an honest map of the model is low."
    axes = (("estimator", ""), ("similarity", "similarity of maps"), "network")
    reference = (limit, "counts as ignoring above this")
    return bars("sanity", title, reading, both.reset_index(drop=True), *axes, band=True, reference=reference)


def _curves(layers: Mapping[str, np.ndarray], rows: pd.DataFrame) -> Plot:
    columns = ["estimator", "layers", "similarity", "low", "high"]
    data = [
        (name, i + 1, float(v.mean()), float(v.min()), float(v.max()))
        for name, curve in layers.items()
        for i, v in enumerate(curve.T)
    ]
    title = (
        f"{int((~rows['ignores']).sum())} of {counted(len(rows), 'estimator')} lose their maps as layers are drawn anew"
    )
    reading = "Layers are drawn anew from the output down, one more at each step; the band spans the replicates."
    axes = (("layers", "layers drawn anew, from the output"), ("similarity", "similarity of maps"), "estimator")
    return lines("sanity-layers", title, reading, pd.DataFrame(data, columns=columns), *axes, band=True)
