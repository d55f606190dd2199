"""The results of one task and model: the one place where finished cells become curves, areas and verdicts.

    view = results.view("digits", "cnn-small")     # or: for view in results.views
    view.verdicts["roar"]                          # every estimator against random, computed once
    view.comparisons["roar"]                       # every pair of estimators, random apart
    view.unable_to_judge                           # protocols and metrics that find no method better than random
    view.intervals["roar"]                         # mean and interval over replicates by estimator and fraction
    view.evaluator                                 # the primary scores (results/evaluator.py)
    view.answer.sentence                           # which method to use
    view.curves("roar")                            # the tidy table all of these come from
    view.areas("roar")                             # estimators × replicates, mean height of each curve
    view.accuracy("roar", "grad")                  # replicates × fractions
    view.values_per_image["road", "grad"]          # a metric's values, mean over replicates

Which cells take part is decided by `StudyView.curves` alone. In every table of a view `random` is the mean over the
random rankings of each replicate (`baseline.py`); single ones are in the tables of `Results`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from uproar.errors import BadInput
from uproar.protocols.protocol import Protocol
from uproar.results.answer import Answer
from uproar.results.baseline import merge_baseline, rankings_in
from uproar.results.claim_outcome import Judgement
from uproar.results.evaluator import EvaluatorScores
from uproar.results.evidence import NegativeControl, answer_of_view, negative_control
from uproar.results.finding import Finding
from uproar.results.quality import NetworkQuality
from uproar.results.scores import Scores
from uproar.statistics.comparisons import areas_of, compare, compare_with_baseline, intervals, sequential
from uproar.statistics.design import BASELINE
from uproar.types import Role

if TYPE_CHECKING:
    from uproar.results.study import Picture, Results

CURVE_COLUMNS = ("estimator", "replicate", "fraction", "value")


def is_plain(table: pd.DataFrame, protocols: Mapping[str, Protocol]) -> pd.Series:
    """Which cells of a table are the plain training that all estimators share, as a mask."""
    plain = table["protocol"].map({name: protocol.plain for name, protocol in protocols.items()}).astype(float)
    return (table["fraction"] - plain).abs() < 1e-9


class StudyView:
    """One task and model of a study's results. Frames of verdicts, comparisons and intervals are by protocol."""

    def __init__(self, results: Results, task: str, model: str) -> None:
        self.results, self.task, self.model = results, task, model

    def own(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table that are about this task and model."""
        return table[(table["task"] == self.task) & (table["model"] == self.model)] if len(table) else table

    @functools.cached_property
    def cells(self) -> pd.DataFrame:
        """All cells, finished or not; those of the random rankings of a replicate are one, with their mean."""
        rankings = self.results.further_rankings
        return merge_baseline(self.own(self.results.cells), rankings, ("accuracy", "bits", "ties"))

    @functools.cached_property
    def done(self) -> pd.DataFrame:
        """The finished cells."""
        return self.cells[self.cells["status"] == "done"]

    @functools.cached_property
    def own_cells(self) -> pd.DataFrame:
        """All cells without the plain training that all curves start from."""
        return self.cells[~is_plain(self.cells, self.results.protocols)]

    @property
    def protocols(self) -> list[str]:
        """The protocols that have a cell of their own with a number, in the order of the study."""
        names = dict.fromkeys(str(name) for name in self.cells["protocol"])
        return [name for name in names if len(self.curves(name))]

    def curves(self, protocol: str, *, plain: bool = True) -> pd.DataFrame:
        """The cells under a protocol that take part in comparisons: estimator, replicate, fraction, value.

        These are the finished cells with a number, of estimators that have one of their own. The plain training is
        shared by all estimators, also by those that were skipped: alone it is no curve, and it would leave the others
        no fraction in common but its own. `plain=False` leaves it out of the curves.
        """
        rows = self.done[(self.done["protocol"] == protocol) & self.done["accuracy"].notna()]
        own = ~is_plain(rows, self.results.protocols)
        rows = rows[rows["estimator"].isin(set(rows.loc[own, "estimator"]))] if plain else rows[own]
        return rows.rename(columns={"seed": "replicate", "accuracy": "value"})[list(CURVE_COLUMNS)]

    def areas(self, protocol: str) -> pd.DataFrame:
        """Mean height of the curves over the fractions that all have: estimators × replicates, NaN where missing."""
        return areas_of(self.curves(protocol))[0]

    def accuracy(self, protocol: str, estimator: str) -> pd.DataFrame:
        """Accuracy by replicate (rows) and fraction (columns), plain training included; whole columns only."""
        key = (protocol, estimator)
        if key not in self._accuracies:
            rows = self.done[(self.done["protocol"] == protocol) & (self.done["estimator"] == estimator)]
            self._accuracies[key] = rows.pivot(index="seed", columns="fraction", values="accuracy").dropna(axis=1)
        return self._accuracies[key].copy()

    @functools.cached_property
    def _accuracies(self) -> dict[tuple[str, str], pd.DataFrame]:
        """Those asked for so far: claims and figures ask for the same many times."""
        return {}

    @functools.cached_property
    def remarks(self) -> Mapping[str, str]:
        """By protocol: why its curves cannot be compared, e.g. because no fraction is common to all of them."""
        reasons = {}
        for name in self.protocols:
            try:
                self.areas(name)
            except BadInput as error:
                reasons[name] = str(error)
        return reasons

    @functools.cached_property
    def verdicts(self) -> Mapping[str, pd.DataFrame]:
        """Every estimator's advantage over random and the verdict, best first (`compare_with_baseline`).

        An evaluator judges by its score: its verdicts are in `evaluators`.
        In a study that ran until it was decided each verdict is that of the interim analysis which decided it.
        """

        def against_baseline(curves: pd.DataFrame, higher_is_better: bool) -> pd.DataFrame:
            names = set(curves["estimator"])
            if BASELINE not in names or len(names) < 2:
                return pd.DataFrame()
            others = [name for name in names if self.roles.get(name) == "baseline"]
            if self.results.until_decided:
                return sequential(curves, BASELINE, higher_is_better, self.results.interim_analyses, others)
            return compare_with_baseline(curves, BASELINE, higher_is_better, others=others)

        return {name: self._counted(frame, name) for name, frame in self._by_protocol(against_baseline).items()}

    def _counted(self, frame: pd.DataFrame, protocol: str) -> pd.DataFrame:
        """Verdicts with what they rest on beside replicates, and whether the protocol judges at all."""
        cells = self.own(self.results.own_cells)
        cells = cells[cells["protocol"] == protocol]
        images = cells[cells["status"] == "done"].groupby("estimator")["images"].max()
        control = negative_control(protocol, frame, self._room(protocol, frame), self.roles)
        return frame.assign(
            images=frame["estimator"].map(images),
            random_rankings=rankings_in(cells, self.results.further_rankings),
            control=control.control,
        )

    def _room(self, protocol: str, frame: pd.DataFrame) -> float:
        """The largest advantage over random that a protocol can give, in accuracy."""
        random = float(frame["baseline_area"].iloc[0])
        return 1 - random if self.results.protocols[protocol].higher_is_better else random - (self.chance or 0.0)

    @functools.cached_property
    def negative_controls(self) -> Mapping[str, NegativeControl]:
        """By protocol and metric, where random was compared: whether it tells any method from random rankings."""
        protocols = {
            name: negative_control(name, frame, self._room(name, frame), self.roles)
            for name, frame in self.verdicts.items()
        }
        controls = (scores.negative_control for scores in self.evaluators.values())
        evaluators = {one.measure: one for one in controls if one.methods}
        return {**protocols, **evaluators, **(self.metric_scores.negative_controls if self.metric_scores else {})}

    @property
    def unable_to_judge(self) -> Mapping[str, str]:
        """By protocol and metric whose negative control failed: the sentence that says why it cannot judge here.

        What these say of methods is no evidence, and stands behind what the others say.
        """
        return {name: one.sentence for name, one in self.negative_controls.items() if one.failed}

    @functools.cached_property
    def comparisons(self) -> Mapping[str, pd.DataFrame]:
        """Every pair of estimators, `random` apart, as `compare` gives them."""

        def pairs(curves: pd.DataFrame, higher_is_better: bool) -> pd.DataFrame:
            methods = curves[curves["estimator"] != BASELINE]
            if methods["estimator"].nunique() < 2:
                return pd.DataFrame()
            baselines = [name for name, role in self.roles.items() if role == "baseline"]
            areas = areas_of(methods)[0]
            values = {n: areas.loc[n].to_numpy(dtype=float) for n in methods["estimator"].unique() if n in areas.index}
            return compare(values, baselines, higher_is_better, alpha=self.results.comparison_alpha)

        return self._by_protocol(pairs)

    @functools.cached_property
    def evaluators(self) -> Mapping[str, EvaluatorScores]:
        """What the evaluators say, by target: `label` (true to the data), `answer` (of the explained network)."""
        return {
            target: EvaluatorScores(bits, self.results.comparison_alpha, target)
            for (task, model, target), bits in self.results.evaluations.items()
            if (task, model) == (self.task, self.model)
        }

    @property
    def evaluator(self) -> EvaluatorScores | None:
        """The primary scores: what the evaluators say of the label; None where the study did not ask them."""
        return self.evaluators.get("label")

    @functools.cached_property
    def intervals(self) -> Mapping[str, pd.DataFrame]:
        """Mean and 95 % interval over replicates by estimator and fraction; descriptive."""
        return {name: self._placed(intervals(self.curves(name)), name) for name in self.protocols}

    def _by_protocol(self, analyse: Callable[[pd.DataFrame, bool], pd.DataFrame]) -> dict[str, pd.DataFrame]:
        frames = {}
        for name in self.protocols:
            protocol = self.results.protocols[name]
            if protocol.judges and not protocol.evaluator and name not in self.remarks:
                frame = analyse(self.curves(name), protocol.higher_is_better)
                if len(frame):
                    frames[name] = self._placed(frame, name)
        return frames

    def _placed(self, frame: pd.DataFrame, protocol: str) -> pd.DataFrame:
        """A frame that says in its first columns what it is about."""
        for position, (column, value) in enumerate(
            (("task", self.task), ("model", self.model), ("protocol", protocol))
        ):
            frame.insert(position, column, value)
        return frame

    @functools.cached_property
    def scores(self) -> pd.DataFrame:
        """The finished metrics, checks apart: one row per metric, estimator and replicate."""
        own, rankings = self.own(self.results.metric_rows), self.results.further_rankings
        rows = merge_baseline(own, rankings, ("value", "low", "high"))
        return rows[rows["status"] == "done"]

    @functools.cached_property
    def image_scores(self) -> pd.DataFrame:
        """Every metric's value per test image and replicate."""
        return merge_baseline(self.own(self.results.image_scores), self.results.further_rankings, ("value",))

    @functools.cached_property
    def image_means(self) -> pd.DataFrame:
        """Every metric's value per test image, mean over replicates: metric, estimator, image, value."""
        keys = ["metric", "estimator", "image"]
        return self.image_scores.groupby(keys, sort=False, observed=True)["value"].mean().reset_index()

    @functools.cached_property
    def values_per_image(self) -> dict[tuple[str, str], pd.Series]:
        """By metric and estimator: the values by image, mean over replicates."""
        groups = self.image_means.groupby(["metric", "estimator"], sort=False, observed=True)
        return {(str(m), str(e)): rows.set_index("image")["value"] for (m, e), rows in groups}

    @functools.cached_property
    def values_per_replicate(self) -> dict[tuple[str, str, int], pd.Series]:
        """By metric, estimator and replicate: the values by image."""
        groups = self.image_scores.groupby(["metric", "estimator", "seed"], sort=False, observed=True)
        return {(str(m), str(e), int(s)): rows.set_index("image")["value"] for (m, e, s), rows in groups}

    @property
    def metric_scores(self) -> Scores | None:
        """What the metrics say of the estimators over all replicates, if any were asked."""
        return self.results.metric_scores.get((self.task, self.model))

    @property
    def check_scores(self) -> Scores | None:
        """What the checks say of the estimators over all replicates, if any were asked."""
        return self.results.check_scores.get((self.task, self.model))

    @property
    def quality(self) -> NetworkQuality | None:
        """How often the base networks are right, where any is finished."""
        return self.results.quality.get((self.task, self.model))

    @property
    def roles(self) -> Mapping[str, Role]:
        """By estimator: method, baseline, random or truth; one that is not named is a method."""
        return self.results.roles

    @property
    def available_images(self) -> int | None:
        """Test images of the task, those that a limit leaves out included; None where that is not known."""
        known = self.results.provenance.get("test_images")
        return known.get(self.task) if isinstance(known, Mapping) else None

    @functools.cached_property
    def answer(self) -> Answer:
        """Which method to use here."""
        return answer_of_view(self)

    @property
    def findings(self) -> list[Finding]:
        """The findings of the audits."""
        return [finding for finding in self.results.findings if self._is_about(finding)]

    @property
    def claims(self) -> list[Judgement]:
        """What became of the claims of papers."""
        return [judgement for judgement in self.results.claims if self._is_about(judgement)]

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Test images as the protocols show them."""
        return tuple(picture for picture in self.results.pictures if self._is_about(picture))

    def _is_about(self, part: Finding | Judgement | Picture) -> bool:
        return (part.task, part.model) == (self.task, self.model)

    @property
    def score_name(self) -> str:
        """What the column `accuracy` holds here: accuracy, or of labels mean average precision, or of values R²."""
        return self.results.score_names.get(self.task, "accuracy")

    @property
    def chance(self) -> float | None:
        """The accuracy of guessing, where the number of classes is known."""
        if self.score_name != "accuracy":
            return None
        classes = self.results.provenance.get("classes")
        size = classes.get(self.task) if isinstance(classes, Mapping) else None
        return 1 / size if isinstance(size, int) and size > 1 else None
