"""The results of a study as plain tables and arrays: what running hands over to reporting."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from uproar.errors import BadInput
from uproar.protocols.protocol import Protocol
from uproar.results.answer import Answer
from uproar.results.claim_outcome import Judgement
from uproar.results.evaluator import EvaluatorBits
from uproar.results.evidence import CONTROL_COLUMNS, facts_of
from uproar.results.finding import Finding, Mark, nothing_against
from uproar.results.quality import NetworkQuality, Prediction
from uproar.results.scores import Scores
from uproar.results.view import StudyView, is_plain
from uproar.statistics.comparisons import COLUMNS as PAIR_COLUMNS
from uproar.statistics.design import ALPHA, INTERIM_ANALYSES, planned_analyses, random_ranking
from uproar.types import Role

_PLACE = ["task", "model", "protocol", "estimator"]

COLUMNS = {
    "task": "data set",
    "model": "network",
    "estimator": "chain that ranks the pixels; `random(draw=1)`, ... are further rankings of the baseline `random`",
    "protocol": "roar, kar, ... (`:no-retrain`: the original network is asked)",
    "fraction": "share removed (roar) or kept (kar)",
    "seed": "replicate",
    "status": "done, skipped, failed or missing",
    "accuracy": "share of test images classified right; mean average precision of several labels, R² of values "
    "(`:find-mask`: area under the ROC curve)",
    "bits": "mean negative log-likelihood of the right class in bits, calibrated on the other half of the test images",
    "images": "number of test images",
    "ties": "mean share of features that only the tie-break ordered at this fraction",
    "seconds": "time of this cell; 0 where the plain training is shared",
    "reason": "why a cell was skipped or failed",
}
"""The columns of `Results.cells`, and what they mean."""


TABLE_COLUMNS = {
    "task": "data set",
    "model": "network",
    "metric": "roar, kar, evaluator, deletion, ...: as the study names it",
    "method": "chain that ranks the pixels; `random(draw=1)`, ... are further rankings of the baseline `random`",
    "role": "method, baseline (never looks at the network), random or truth (told the class or the important pixels)",
    "replicate": "seed",
    "fraction": "share removed (roar) or kept (kar); empty where the value is over all fractions",
    "image": "row of the test split; empty where the value is that of all test images",
    "value": "as the metric counts: accuracy, bits of an evaluator, ...",
    "status": "done, skipped, failed or missing",
    "reason": "why it was skipped or failed",
}
"""The columns of `Results.table`."""

SCORE_COLUMNS = {
    "task": "data set",
    "model": "network",
    "estimator": "chain whose maps are judged",
    "metric": "as the study names it",
    "check": "whether it is a check of some test images, which raises flags and judges nothing",
    "seed": "replicate",
    "status": "done, skipped, failed or missing",
    "value": "mean over the images where it is defined, or the data set's own statistic",
    "images": "test images",
    "undefined": "images where the metric is not defined",
    "ranked": "whether it is defined for enough images to take part in rankings",
    "low": "lower end of the 95 % interval: Student's t over images",
    "high": "upper end",
    "higher_is_better": "the metric's direction",
    "reason": "why it was skipped or failed",
}
"""The columns of `Results.scores`."""

RESULT_COMPARISON_COLUMNS = {
    "task": "data set",
    "model": "network",
    "measure": "the protocol or metric that judges",
    **PAIR_COLUMNS,
    "control": "whether the protocol or metric tells any method from random: passed, failed, undecided, or empty",
}
"""The columns of `Results.comparisons`."""

IMAGE_SCORE_COLUMNS = {
    "task": "data set",
    "model": "network",
    "estimator": "chain whose maps are judged",
    "metric": "as the study names it",
    "seed": "replicate",
    "image": "row of the test split",
    "value": "the metric's value for this image; NaN where it is not defined",
}
"""The columns of `Results.image_scores`."""


@dataclass(frozen=True)
class Picture:
    """One test image as the protocols show it, for one replicate: pixels are bytes, (h, w) or (h, w, 3)."""

    task: str
    model: str
    title: str
    image: np.ndarray
    maps: Mapping[str, np.ndarray]
    """Importance by estimator, (h, w), scaled to [-1, 1]."""
    changed: Mapping[tuple[str, str, float], np.ndarray]
    """The changed image by (protocol, estimator, fraction)."""
    predicted: Prediction | None = None
    """What the replicate's base network says of the image."""

    @property
    def caption(self) -> str:
        """Which image it is, and what the network takes it for."""
        return self.title if self.predicted is None else f"{self.title}, {self.predicted.words}"


@dataclass(frozen=True)
class Results:
    """Everything a report needs, and nothing it would have to compute with a model.

    `views` has it by task and model; what is computed there, e.g. verdicts, is computed once and kept.
    """

    study: Mapping[str, Any]
    cells: pd.DataFrame
    """One row per cell; see COLUMNS."""
    costs: pd.DataFrame
    """One row per task, model and estimator: passes per image, seconds to explain, constant maps, layers looked at."""
    protocols: Mapping[str, Protocol]
    """By name; they say which direction is good, whether they retrain and at which fraction they are plain."""
    pictures: tuple[Picture, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    scores: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(SCORE_COLUMNS)))
    """One row per metric or check, estimator and replicate; see SCORE_COLUMNS."""
    image_scores: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(IMAGE_SCORE_COLUMNS)))
    """One row per metric, estimator, replicate and test image; see IMAGE_SCORE_COLUMNS."""
    metric_scores: Mapping[tuple[str, str], Scores] = field(default_factory=dict)
    """By task and model: what the metrics say of the estimators over all replicates."""
    check_scores: Mapping[tuple[str, str], Scores] = field(default_factory=dict)
    """By task and model: what the checks say of the estimators over all replicates."""
    findings: tuple[Finding, ...] = ()
    """The findings of the study's audits."""
    claims: tuple[Judgement, ...] = ()
    """What became of the claims of papers that the study names."""
    quality: Mapping[tuple[str, str], NetworkQuality] = field(default_factory=dict)
    """By task and model: how often the base networks that are finished are right on the test images."""
    evaluations: Mapping[tuple[str, str, str], EvaluatorBits] = field(default_factory=dict)
    """By task, model and target (label or answer): what the evaluators say of every test image."""
    roles: Mapping[str, Role] = field(default_factory=dict)
    """By estimator: what it is; one that is not named is a method."""
    work: Mapping[str, float] = field(default_factory=dict)
    """Seconds inside the study's own work, by what was done; what audits add is not in it."""

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """Every number once: one row per task, model, metric, method and replicate; see TABLE_COLUMNS.

        Retrained metrics have a row per fraction; evaluators and metrics without retraining a row per image, in bits or
        as the metric counts; what was skipped, failed or is missing has a row with its reason.
        """
        names = {"protocol": "metric", "estimator": "method", "seed": "replicate", "accuracy": "value"}
        by_score = self.cells["protocol"].map({n: p.evaluator for n, p in self.protocols.items()}).astype(bool)
        cells = self.cells[~(by_score & (self.cells["status"] == "done"))]
        means = [facts_of(name).get("statistic") is None for name in self.scores["metric"]]
        scores = self.scores[~(self.scores["status"].eq("done") & np.array(means, dtype=bool))]
        rows = [cells.rename(columns=names), scores.rename(columns=names)]
        rows.append(self.image_scores.rename(columns=names).assign(status="done"))
        seeds = dict(enumerate(self.study.get("seeds") or ()))
        for view in self.views:
            for target, evaluator in view.evaluators.items():
                place: dict[str, Any] = {"task": view.task, "model": view.model, "status": "done"}
                place["metric"] = "evaluator" if target == "label" else "evaluator:model"
                for name, measured in evaluator.measurements.items():
                    replicates, images = evaluator.axes(measured)
                    place |= {"method": name, "replicate": [seeds.get(r, r) for r in replicates], "image": images}
                    rows.append(pd.DataFrame({**place, "value": measured.by_image.ravel()}))
        table = _joined(rows).reindex(columns=list(TABLE_COLUMNS))
        table["role"] = [self.roles.get(name, "method") for name in table["method"]]
        return table.astype({"metric": str, "method": str, "image": "Int64"}).fillna({"reason": ""})

    @property
    def settings(self) -> list[tuple[str, str]]:
        """Every task with every model, in the order of the study."""
        rows = pd.concat([self.cells[["task", "model"]], self.scores[["task", "model"]]])
        return list(rows.drop_duplicates().itertuples(index=False, name=None))

    @functools.cached_property
    def views(self) -> tuple[StudyView, ...]:
        """The results by task and model, in the order of the study."""
        return tuple(StudyView(self, task, model) for task, model in self.settings)

    def view(self, task: str, model: str) -> StudyView:
        """The results of one task and model."""
        known = {(view.task, view.model): view for view in self.views}
        return known.get((task, model)) or StudyView(self, task, model)

    @property
    def answers(self) -> tuple[Answer, ...]:
        """Which method to use, for each task and model."""
        return tuple(view.answer for view in self.views)

    @property
    def answer(self) -> Answer:
        """Which method to use, in a study of one task and model."""
        if len(self.answers) != 1:
            places = ", ".join(f"({task!r}, {model!r})" for task, model in self.settings) or "none"
            raise BadInput(
                f"A study has an answer for each task and model ({places}): use .answers or .view(...).answer."
            )
        return self.answers[0]

    @property
    def until_decided(self) -> bool:
        """Whether replicates were added until the verdicts were decided."""
        return bool(self.study.get("until_decided"))

    @property
    def interim_analyses(self) -> tuple[int, ...]:
        """The numbers of replicates at which a sequential study was planned to be analysed, the last is its end."""
        seeds = self.study.get("seeds")
        return (planned_analyses(len(seeds)) if seeds else ()) or INTERIM_ANALYSES

    @property
    def score_names(self) -> Mapping[str, str]:
        """By task: what the column `accuracy` holds where it is not accuracy: mean average precision, or R²."""
        names: Mapping[str, str] = self.provenance.get("score_names", {})
        return names

    @property
    def further_rankings(self) -> tuple[str, ...]:
        """The random rankings of each replicate beside `random`: the mean of all of them is the baseline."""
        return tuple(random_ranking(draw) for draw in range(1, int(self.study.get("random_rankings") or 1)))

    @property
    def done(self) -> pd.DataFrame:
        """The cells that have a number."""
        return self.cells[self.cells["status"] == "done"]

    @property
    def test_images(self) -> list[int]:
        """How many test images were asked about, by the protocol or metric of a task that asked about most.

        Evaluators may judge fewer. Sizes that tasks share stand once, the smallest first.
        """
        asked = pd.concat([table[["task", "images"]] for table in (self.done, self.scores)])
        return sorted({int(n) for n in asked.groupby("task", observed=True)["images"].max() if n > 0})

    @property
    def metric_rows(self) -> pd.DataFrame:
        """The rows of `scores` that are metrics, not checks."""
        return self.scores[~self.scores["check"].eq(True)]

    @property
    def own_cells(self) -> pd.DataFrame:
        """The cells of the study's grid, without the plain training that all curves start from."""
        return self.cells[~is_plain(self.cells, self.protocols)]

    @functools.cached_property
    def verdicts(self) -> pd.DataFrame:
        """One row per task, model, protocol and estimator: its advantage over random, and the verdict.

        Where a study ran until it was decided, each verdict is that of the interim analysis which decided it (column
        `analysis`: its number of replicates).
        """
        return _joined(frame for view in self.views for frame in view.verdicts.values())

    @functools.cached_property
    def comparisons(self) -> pd.DataFrame:
        """Method against method: one row per pair under every protocol and metric; see RESULT_COMPARISON_COLUMNS.

        Under a protocol differences of areas are paired over replicates (`random` has the verdicts instead), under a
        metric values are paired over images and replicates. Holm's correction runs over the pairs of each measure.
        A study that ran until it was decided spends only one interim analysis's share of the error rate.
        """
        areas = [frame.rename(columns={"protocol": "measure"}) for v in self.views for frame in v.comparisons.values()]
        values = [
            scores.comparisons.rename(columns={"metric": "measure"}).assign(task=task, model=model)
            for (task, model), scores in self.metric_scores.items()
        ]
        joined = _joined([*areas, *values])
        controls = {(c.task, c.model, c.measure): c.control for c in self.negative_controls.itertuples()}
        places = joined[["task", "model", "measure"]].itertuples(index=False) if len(joined) else ()
        joined["control"] = [controls.get(tuple(place), "") for place in places]
        return joined.reindex(columns=list(RESULT_COMPARISON_COLUMNS))

    @functools.cached_property
    def negative_controls(self) -> pd.DataFrame:
        """One row per task, model and protocol or metric: does it tell any method from random?"""
        rows = [
            {"task": view.task, "model": view.model, **asdict(control)}
            for view in self.views
            for control in view.negative_controls.values()
        ]
        return pd.DataFrame(rows, columns=list(CONTROL_COLUMNS))

    @property
    def comparison_alpha(self) -> float:
        """The error rate that the pairs of a protocol share."""
        return ALPHA / len(self.interim_analyses) if self.until_decided else ALPHA

    @functools.cached_property
    def intervals(self) -> pd.DataFrame:
        """Mean and 95 % interval per task, model, protocol, estimator and fraction; descriptive."""
        return _joined(frame for view in self.views for frame in view.intervals.values())

    @property
    def spent(self) -> pd.DataFrame:
        """Replicates by protocol and estimator in a study that ran until it was decided, and what is still open."""
        if not self.until_decided or self.verdicts.empty:
            return pd.DataFrame(columns=[*_PLACE, "replicates", "analysis", "open"])
        own = self.own_cells
        counts = own[own["status"] == "done"].groupby(_PLACE)["seed"].nunique().rename("replicates")
        table = self.verdicts[[*_PLACE, "analysis", "side", "verdict"]].join(counts, on=_PLACE)
        return table.assign(open=(table.pop("side") == 0) & (table.pop("verdict") != "baseline"))

    @property
    def trust(self) -> pd.DataFrame:
        """One row per verdict: `holds`, or what the audits say against it, and why; empty without audits."""
        answered = [finding for finding in self.findings if finding.state != "skipped"]
        marks: dict[tuple[str, ...], list[Mark]] = {}
        for finding in answered:
            for mark in finding.marks:
                place = (finding.task, finding.model, mark.protocol, mark.estimator)
                marks.setdefault(place, []).append(mark)
        rows = []
        verdicts = self.verdicts if answered else pd.DataFrame()
        for place in verdicts[_PLACE].itertuples(index=False) if len(verdicts) else ():
            against = marks.get(tuple(place), [])
            texts = list(dict.fromkeys(mark.text for mark in against))
            why = "; ".join(dict.fromkeys(mark.why for mark in against))
            quiet = nothing_against(f for f in answered if (f.task, f.model) == tuple(place)[:2])
            trust = "; ".join(texts) or "holds"
            rows.append({**place._asdict(), "trust": trust, "why": why or quiet})
        return pd.DataFrame(rows, columns=[*_PLACE, "trust", "why"])

    @property
    def problems(self) -> pd.DataFrame:
        """Skipped, failed and missing cells, counted by reason."""
        tables = [self.cells, self.scores] if len(self.scores) else [self.cells]
        rest = pd.concat([t.loc[t["status"] != "done", ["status", "estimator", "reason"]] for t in tables])
        groups = rest.groupby(["status", "estimator", "reason"], dropna=False, sort=False)
        return groups.size().rename("cells").reset_index()

    def __repr__(self) -> str:
        done = f"{len(self.done)} of {len(self.cells)} cells done"
        return f"<{type(self).__name__}, {done}: {' '.join(answer.sentence for answer in self.answers)}>"

    def _repr_html_(self) -> str:
        from uproar.results.html import results_html

        return results_html(self)


def _joined(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Frames that have rows, one below the other."""
    there = [frame for frame in frames if len(frame)]
    return pd.concat(there, ignore_index=True) if there else pd.DataFrame()
