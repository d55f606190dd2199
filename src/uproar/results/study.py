"""The results of a study as plain tables and arrays: what running hands over to reporting.

    results.table                                  every number once: metric, method, replicate, fraction, image, value
    view = results.view("digits", "cnn-small")     # one task and model, or: for view in results.views
    view.verdicts["roar"]                          # every estimator against random, computed once
    view.comparisons["roar"]                       # every method against every baseline, and every two methods
    view.negative_controls["roar"]                 # whether it finds any method better than random
    view.intervals["roar"]                         # mean and interval over replicates by estimator and fraction
    view.evaluators["label"]                       # what the evaluator says (results/evaluator.py)
    view.answer.sentence                           # which method to use
    view.curves("roar")                            # the tidy table all of these come from
    view.areas("roar")                             # estimators × replicates, mean height of each curve
    view.accuracy("roar", "grad")                  # replicates × fractions
    view.values_per_replicate["road", "grad", 0]   # a metric's values by image

Which cells take part is decided by `StudyView.curves` alone. A study ranks pixels at random several times in every
replicate (`random`, `random(draw=1)`, ...): its tables hold every one of them, and in every table of a view `random` is
the mean over those of each replicate (`merge_baseline`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from uproar.errors import BadInput
from uproar.metrics.retraining import RETRAININGS
from uproar.results.answer import Answer, answer_of
from uproar.results.claim_outcome import Judgement
from uproar.results.evaluator import EvaluatorBits, EvaluatorScores
from uproar.results.evidence import Control, Evidence, evaluator_evidence, facts_of, metric_evidence, retrained_evidence
from uproar.results.finding import Finding
from uproar.results.html import block
from uproar.results.quality import NetworkQuality, Prediction
from uproar.results.scores import Scores
from uproar.statistics.comparisons import COLUMNS as PAIR_COLUMNS
from uproar.statistics.comparisons import against_random, areas_of, compare, intervals, sequential
from uproar.statistics.design import ALPHA, BASELINE, INTERIM_ANALYSES, planned_analyses, random_ranking
from uproar.types import Role

_PLACE = ["task", "model", "metric", "estimator"]

COLUMNS = {
    "task": "data set",
    "model": "network",
    "estimator": "chain that ranks the pixels; `random(draw=1)`, ... are further rankings of the baseline `random`",
    "metric": "roar, kar, ... (`:no-retrain`: the original network is asked)",
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
    "estimator": "chain whose maps are scored",
    "metric": "as the study names it",
    "check": "whether it is a check of some test images, which raises flags and decides nothing",
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
    "measure": "the metric",
    **PAIR_COLUMNS,
    "control": "whether the metric finds any method better than random: passed, failed, undecided, or empty",
}
"""The columns of `Results.comparisons`."""

CONTROL_COLUMNS = {
    "task": "data set",
    "model": "network",
    "measure": "the metric",
    "control": "passed, failed or undecided: whether it finds any method better than random rankings",
    "methods": "how many were tested against random",
    "better": "how many are significantly better",
    "worse": "how many are significantly worse",
    "sentence": "the same in words",
}
"""The columns of `Results.negative_controls`."""

IMAGE_SCORE_COLUMNS = {
    "task": "data set",
    "model": "network",
    "estimator": "chain whose maps are scored",
    "metric": "as the study names it",
    "seed": "replicate",
    "image": "row of the test split",
    "value": "the metric's value for this image; NaN where it is not defined",
}
"""The columns of `Results.image_scores`."""


@dataclass(frozen=True)
class Picture:
    """One test image as the metrics show it, for one replicate: pixels are bytes, (h, w) or (h, w, 3)."""

    task: str
    model: str
    title: str
    image: np.ndarray
    maps: Mapping[str, np.ndarray]
    """Importance by estimator, (h, w), scaled to [-1, 1]."""
    changed: Mapping[tuple[str, str, float], np.ndarray]
    """The changed image by (metric, estimator, fraction)."""
    predicted: Prediction | None = None
    """What the replicate's base network says of the image."""
    row: int | None = None
    """Of the test split."""
    label: str = ""
    """Its class, where the task has classes."""

    @property
    def caption(self) -> str:
        """Which image it is, and what the network takes it for."""
        return self.title if self.predicted is None else f"{self.title}, {self.predicted.words}"


PLACES = ("task", "model", "metric", "fraction", "seed", "image")
"""The columns that say which number of an estimator a row holds."""
CURVE_COLUMNS = ("estimator", "replicate", "fraction", "value")


def merge_baseline(table: pd.DataFrame, further: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """A table in which the random rankings of a replicate are one row, `random`, with the mean of their `values`.

    `further` names the rankings beside `random`. Rows that differ in anything but the estimator, the values and what
    describes a single row are rows of their own; rankings that are not finished do not count, and where none is, the
    row is that of `random` itself.

    >>> rows = [("random", 0, 0.8), ("random(draw=1)", 0, 0.6), ("grad", 0, 0.5)]
    >>> table = pd.DataFrame(rows, columns=["estimator", "seed", "value"])
    >>> merge_baseline(table, ["random(draw=1)"], ["value"]).round(3).to_numpy().tolist()
    [['random', 0, 0.7], ['grad', 0, 0.5]]
    """
    extra = table["estimator"].isin(list(further))
    if not extra.any():
        return table
    places = [name for name in PLACES if name in table]
    random = extra | (table["estimator"] == BASELINE)
    rows = table[random]
    finished = rows[rows["status"] == "done"] if "status" in table else rows
    means = finished.groupby(places, sort=False, observed=True)[list(values)].transform("mean")
    first = pd.concat([finished, rows]).drop_duplicates(places)
    baseline = first.assign(estimator=BASELINE, **{name: means[name].reindex(first.index) for name in values})
    merged = pd.concat([table[~random], baseline]).sort_index()
    return merged.astype({"estimator": table["estimator"].dtype})


def is_plain(table: pd.DataFrame) -> pd.Series:
    """Which cells of a table are the plain training that all estimators share, as a mask."""
    plain = table["metric"].map({name: metric.plain for name, metric in RETRAININGS.items()}).astype(float)
    return (table["fraction"] - plain).abs() < 1e-9


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
        names = {"estimator": "method", "seed": "replicate", "accuracy": "value"}
        means = [facts_of(name).get("statistic") is None for name in self.scores["metric"]]
        scores = self.scores[~(self.scores["status"].eq("done") & np.array(means, dtype=bool))]
        rows = [self.cells.rename(columns=names), scores.rename(columns=names)]
        rows.append(self.image_scores.rename(columns=names).assign(status="done"))
        seeds = dict(enumerate(self.study.get("seeds") or ()))
        for view in self.views:
            for evaluator in view.evaluators.values():
                columns: dict[str, Any] = {"task": view.task, "model": view.model, "status": "done"}
                columns["metric"] = evaluator.metric
                for name, measured in evaluator.measurements.items():
                    replicates, images = evaluator.axes(measured)
                    columns |= {"method": name, "replicate": [seeds.get(r, r) for r in replicates], "image": images}
                    frame = pd.DataFrame({**columns, "value": measured.by_image.ravel()})
                    rows.append(frame.dropna(subset="value"))
        table = _joined(rows).reindex(columns=list(TABLE_COLUMNS))
        table["role"] = [self.roles.get(name, "method") for name in table["method"]]
        types = {"metric": str, "method": str, "image": "Int64", "reason": object}
        return table.astype(types).fillna({"reason": ""})

    @property
    def settings(self) -> list[tuple[str, str]]:
        """Every task with every model, in the order of the study."""
        rows = pd.concat([self.cells[["task", "model"]], self.scores[["task", "model"]]])
        named = [*rows.drop_duplicates().itertuples(index=False, name=None), *(about[:2] for about in self.evaluations)]
        return list(dict.fromkeys(named))

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
        if len(self.views) == 1:
            return self.views[0].answer
        places = ", ".join(f"({view.task!r}, {view.model!r})" for view in self.views) or "none"
        raise BadInput(f"A study has an answer for each task and model ({places}): use .answers or .view(...).answer.")

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
        """How many test images were asked about, by the metric of a task that asked about most.

        Evaluators may score fewer. Sizes that tasks share stand once, the smallest first.
        """
        sizes = pd.concat([table[["task", "images"]] for table in (self.done, self.scores)])
        return sorted({int(n) for n in sizes.groupby("task", observed=True)["images"].max() if n > 0})

    @property
    def metric_rows(self) -> pd.DataFrame:
        """The rows of `scores` that are metrics, not checks."""
        return self.scores[~self.scores["check"].eq(True)]

    @property
    def own_cells(self) -> pd.DataFrame:
        """The cells of the study's grid, without the plain training that all curves start from."""
        return self.cells[~is_plain(self.cells)]

    @functools.cached_property
    def verdicts(self) -> pd.DataFrame:
        """One row per task, model, metric and estimator: its advantage over random, and the verdict.

        Where a study ran until it was decided, each verdict is that of the interim analysis which decided it (column
        `analysis`: its number of replicates).
        """
        return _joined(
            frame.assign(control=view.negative_controls[name].state)
            for view in self.views
            for name, frame in view.verdicts.items()
        )

    @functools.cached_property
    def comparisons(self) -> pd.DataFrame:
        """Every method against every baseline and every two methods, by every metric; see RESULT_COMPARISON_COLUMNS.

        Of retrained metrics areas are paired over replicates, of others values over images and replicates. Holm's
        correction runs over the pairs of each metric. A study that ran until it was decided spends only one interim
        analysis's share of the error rate.
        """
        frames = []
        for view in self.views:
            for name, frame in view.comparisons.items():
                control = view.negative_controls[name].state if name in view.negative_controls else ""
                frames.append(frame.assign(task=view.task, model=view.model, measure=name, control=control))
        return _joined(frames).reindex(columns=list(RESULT_COMPARISON_COLUMNS))

    @functools.cached_property
    def negative_controls(self) -> pd.DataFrame:
        """One row per task, model and metric: does it find any method better than random?"""
        rows = [
            (
                view.task,
                view.model,
                name,
                control.state,
                control.methods,
                control.better,
                control.worse,
                control.sentence,
            )
            for view in self.views
            for name, control in view.negative_controls.items()
        ]
        return pd.DataFrame(rows, columns=list(CONTROL_COLUMNS))

    @property
    def comparison_alpha(self) -> float:
        """The error rate that the comparisons of a metric share."""
        return ALPHA / len(self.interim_analyses) if self.study.get("until_decided") else ALPHA

    @functools.cached_property
    def intervals(self) -> pd.DataFrame:
        """Mean and 95 % interval per task, model, metric, estimator and fraction; descriptive."""
        return _joined(frame for view in self.views for frame in view.intervals.values())

    @property
    def spent(self) -> pd.DataFrame:
        """Replicates by metric and estimator in a study that ran until it was decided, and what is still open."""
        if not self.until_decided or self.verdicts.empty:
            return pd.DataFrame(columns=[*_PLACE, "replicates", "analysis", "open"])
        cells = self.own_cells
        counts = cells[cells["status"] == "done"].groupby(_PLACE)["seed"].nunique().rename("replicates")
        table = self.verdicts[[*_PLACE, "analysis", "side", "verdict"]].join(counts, on=_PLACE)
        return table.assign(open=(table.pop("side") == 0) & (table.pop("verdict") != "baseline"))

    @property
    def trust(self) -> pd.DataFrame:
        """One row per verdict: `holds`, or what the audits say against it, and why; empty without audits."""
        answered = [finding for finding in self.findings if finding.state != "skipped"]
        rows = []
        for verdict in self.verdicts[_PLACE].itertuples(index=False) if answered and len(self.verdicts) else ():
            findings = [judged for judged in answered if (judged.task, judged.model) == tuple(verdict)[:2]]
            marks = [m for judged in findings for m in judged.marks if (m.metric, m.estimator) == tuple(verdict)[2:]]
            texts, reasons = (dict.fromkeys(getattr(mark, name) for mark in marks) for name in ("text", "why"))
            quiet = f"nothing against it in {', '.join(judged.audit for judged in findings)}"
            rows.append({**verdict._asdict(), "trust": "; ".join(texts) or "holds", "why": "; ".join(reasons) or quiet})
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
        several = len(self.views) > 1
        answers = [f"{f'{a.task} with {a.model}: ' * several}{a.sentence}" for a in self.answers]
        columns = ["task", "model", "metric", "estimator", "advantage", "low", "high", "n", "verdict"]
        verdicts = self.verdicts[columns] if len(self.verdicts) else self.verdicts
        findings = [f"{each.audit}: {each.state}. {each.sentence}" for each in self.findings]
        claims = [f"{each.claim}: {each.outcome}. {each.says}" for each in self.claims]
        return block(answers, verdicts, findings, claims, self.problems)


def _joined(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Frames that have rows, one below the other."""
    filled = [frame for frame in frames if len(frame)]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame()


class StudyView:
    """One task and model of a study's results. Frames of verdicts, comparisons and intervals are by metric."""

    metric_scores: Scores | None
    """What the metrics say of the estimators over all replicates, if any were requested."""
    check_scores: Scores | None
    """The same of the checks."""
    quality: NetworkQuality | None
    """How often the base networks are right, where any is finished."""
    evaluators: Mapping[str, EvaluatorScores]
    """What the evaluators say, by target: `label` (true to the data), `answer` (of the explained network)."""
    roles: Mapping[str, Role]
    """By estimator: method, baseline, random or truth; one that is not named is a method."""
    score_name: str
    """What the column `accuracy` holds here: accuracy, or of labels mean average precision, or of values R²."""

    def __init__(self, results: Results, task: str, model: str) -> None:
        self.results, self.task, self.model = results, task, model
        setting = (task, model)
        self.metric_scores, self.check_scores = results.metric_scores.get(setting), results.check_scores.get(setting)
        self.quality, self.roles = results.quality.get(setting), results.roles
        self.score_name = results.provenance.get("score_names", {}).get(task, "accuracy")
        self.findings = [each for each in results.findings if (each.task, each.model) == setting]
        self.claims = [each for each in results.claims if (each.task, each.model) == setting]
        self.pictures = [each for each in results.pictures if (each.task, each.model) == setting]
        self.evaluators = {
            target: EvaluatorScores(bits, results.comparison_alpha, target)
            for (*where, target), bits in results.evaluations.items()
            if tuple(where) == setting
        }

    def rows_here(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table that are about this task and model."""
        return table[(table["task"] == self.task) & (table["model"] == self.model)] if len(table) else table

    def _one_random(self, table: pd.DataFrame, *values: str) -> pd.DataFrame:
        """The rows about this task and model in which the random rankings of a replicate are one, with their mean."""
        return merge_baseline(self.rows_here(table), self.results.further_rankings, values)

    @functools.cached_property
    def cells(self) -> pd.DataFrame:
        """All cells, finished or not."""
        return self._one_random(self.results.cells, "accuracy", "bits", "ties")

    @functools.cached_property
    def done(self) -> pd.DataFrame:
        """The finished cells."""
        return self.cells[self.cells["status"] == "done"]

    @functools.cached_property
    def scores(self) -> pd.DataFrame:
        """The finished metrics, checks apart: one row per metric, estimator and replicate."""
        rows = self._one_random(self.results.metric_rows, "value", "low", "high")
        return rows[rows["status"] == "done"]

    @functools.cached_property
    def image_scores(self) -> pd.DataFrame:
        """Every metric's value per test image and replicate."""
        return self._one_random(self.results.image_scores, "value")

    @functools.cached_property
    def values_per_replicate(self) -> dict[tuple[str, str, int], pd.Series]:
        """By metric, estimator and replicate: the values by image."""
        groups = self.image_scores.groupby(["metric", "estimator", "seed"], sort=False, observed=True)
        return {(str(m), str(e), int(s)): rows.set_index("image")["value"] for (m, e, s), rows in groups}

    # retrained networks

    @functools.cached_property
    def retrained(self) -> list[str]:
        """The retraining metrics that have a cell of their own with a number, in the order of the study."""
        names = dict.fromkeys(str(name) for name in self.cells["metric"])
        return [name for name in names if len(self.curves(name))]

    def curves(self, metric: str, *, plain: bool = True) -> pd.DataFrame:
        """The cells under a metric that take part in comparisons: estimator, replicate, fraction, value.

        These are the finished cells with a number, of estimators that have one of their own. The plain training is
        shared by all estimators, also by those that were skipped: alone it is no curve, and it would leave the others
        no fraction in common but its own. `plain=False` leaves it out of the curves.
        """
        rows = self.done[(self.done["metric"] == metric) & self.done["accuracy"].notna()]
        retrained = ~is_plain(rows)
        rows = rows[rows["estimator"].isin(set(rows.loc[retrained, "estimator"]))] if plain else rows[retrained]
        return rows.rename(columns={"seed": "replicate", "accuracy": "value"})[list(CURVE_COLUMNS)]

    def areas(self, metric: str) -> pd.DataFrame:
        """Mean height of the curves over the fractions that all have: estimators × replicates, NaN where missing."""
        return areas_of(self.curves(metric))[0]

    def accuracy(self, metric: str, estimator: str) -> pd.DataFrame:
        """Accuracy by replicate (rows) and fraction (columns), plain training included; whole columns only."""
        groups = self._by_estimator
        rows = groups.get_group((metric, estimator)) if (metric, estimator) in groups.groups else self.done[:0]
        return rows.pivot(index="seed", columns="fraction", values="accuracy").dropna(axis=1)

    @functools.cached_property
    def _by_estimator(self) -> Any:
        """The finished cells by metric and estimator: claims and figures ask for the same many times."""
        return self.done.groupby(["metric", "estimator"])

    @functools.cached_property
    def remarks(self) -> Mapping[str, str]:
        """By metric: why its curves cannot be compared, e.g. because no fraction is common to all of them."""
        reasons = {}
        for name in self.retrained:
            try:
                self.areas(name)
            except BadInput as error:
                reasons[name] = str(error)
        return reasons

    @property
    def compared(self) -> list[str]:
        """The metrics whose curves say which method is better."""
        return [name for name in self.retrained if RETRAININGS[name].judges and name not in self.remarks]

    @functools.cached_property
    def verdicts(self) -> Mapping[str, pd.DataFrame]:
        """Every estimator's advantage over random and the verdict, best first (`against_random`).

        In a study that ran until it was decided each verdict is that of the interim analysis which decided it.
        """
        frames = {}
        for name in self.compared:
            curves, higher_is_better = self.curves(name), RETRAININGS[name].higher_is_better
            names = set(curves["estimator"])
            if BASELINE not in names or len(names) < 2:
                continue
            others = [estimator for estimator in names if self.roles.get(estimator) == "baseline"]
            if self.results.until_decided:
                frame = sequential(curves, higher_is_better, self.results.interim_analyses, others)
            else:
                frame = against_random(curves, higher_is_better, others=others)
            cells = self.rows_here(self.results.own_cells)
            done = cells[(cells["metric"] == name) & (cells["status"] == "done")]
            rankings = done[done["estimator"].isin([BASELINE, *self.results.further_rankings])]
            random = rankings.groupby("seed")["estimator"].nunique()
            images = frame["estimator"].map(done.groupby("estimator")["images"].max())
            frame = frame.assign(images=images, random_rankings=int(random.min()) if len(random) else 0)
            frames[name] = self._placed(frame, name)
        return frames

    @functools.cached_property
    def intervals(self) -> Mapping[str, pd.DataFrame]:
        """Mean and 95 % interval over replicates by estimator and fraction; descriptive."""
        return {name: self._placed(intervals(self.curves(name)), name) for name in self.retrained}

    def _placed(self, frame: pd.DataFrame, metric: str) -> pd.DataFrame:
        """A frame that says in its first columns what it is about."""
        placed = frame.assign(task=self.task, model=self.model, metric=metric)
        return placed[list(dict.fromkeys(["task", "model", "metric", *frame.columns]))]

    # all metrics

    @functools.cached_property
    def comparisons(self) -> Mapping[str, pd.DataFrame]:
        """By metric: every method against every baseline, and every two methods (`statistics.comparisons.compare`)."""
        frames = {each.metric: each.comparisons for each in self.evaluators.values()}
        baselines = [BASELINE, *(name for name, role in self.roles.items() if role == "baseline")]
        for name in self.compared:
            areas, higher_is_better = self.areas(name), RETRAININGS[name].higher_is_better
            values = {n: areas.loc[n].to_numpy(dtype=float) for n in dict.fromkeys(self.curves(name)["estimator"])}
            frames[name] = compare(values, baselines, higher_is_better, alpha=self.results.comparison_alpha)
        if self.metric_scores is not None:
            groups = self.metric_scores.comparisons.groupby("metric", sort=False)
            frames |= {str(name): frame.drop(columns="metric") for name, frame in groups}
        return frames

    @functools.cached_property
    def evidence(self) -> tuple[Evidence, ...]:
        """What every evaluator, metric and retraining says of the methods."""
        scores = [] if self.metric_scores is None else metric_evidence(self.metric_scores)
        return (*evaluator_evidence(self.evaluators), *scores, *retrained_evidence(self))

    @functools.cached_property
    def negative_controls(self) -> Mapping[str, Control]:
        """By metric, where random was compared: whether it finds any method better than random rankings."""
        return {each.name: each.control for each in self.evidence if BASELINE in each.values}

    @functools.cached_property
    def answer(self) -> Answer:
        """Which method to use here."""
        scores = [each for each in (self.metric_scores, self.check_scores) if each is not None]
        left_out = {} if self.metric_scores is None else dict(self.metric_scores.never_ranked)
        for table in (self.cells, self.rows_here(self.results.scores)):
            rest = table[table["status"].isin(["skipped", "failed"])]
            left_out |= dict(zip(rest["estimator"].map(str), rest["reason"].map(str), strict=True))
        flags = [flag for finding in self.findings for flag in finding.flags]
        about = (scores, self.rows_here(self.results.costs), left_out, flags, self.task, self.model)
        return answer_of(self.evidence, *about)

    @property
    def chance(self) -> float | None:
        """The accuracy of guessing, where the number of classes is known."""
        size = self.results.provenance.get("classes", {}).get(self.task)
        return 1 / size if self.score_name == "accuracy" and isinstance(size, int) and size > 1 else None
