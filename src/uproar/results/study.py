"""What a study found, as plain tables and arrays: the hand-over from running to reporting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from uproar.results.finding import Finding, Mark, nothing_against
from uproar.results.judgement import Judgement
from uproar.results.quality import NetworkQuality, Prediction
from uproar.results.scores import Scores
from uproar.statistics.comparisons import COLUMNS as PAIR_COLUMNS
from uproar.statistics.comparisons import compare_pairs
from uproar.statistics.design import ALPHA, BASELINE, INTERIM_ANALYSES
from uproar.statistics.sequential import sequential
from uproar.statistics.verdicts import compare, intervals

_PLACE = ["task", "model", "protocol", "estimator"]

COLUMNS = {
    "task": "data set",
    "model": "network",
    "estimator": "chain that ranks the pixels",
    "protocol": "roar, kar, ... (`:no-retrain`: the original network is asked)",
    "fraction": "share removed (roar) or kept (kar)",
    "seed": "replicate",
    "status": "done, skipped, failed or missing",
    "accuracy": "share of test images classified right (`:find-mask`: area under the ROC curve)",
    "bits": "mean surprise at the right class, calibrated on the other half of the test images",
    "images": "number of test images",
    "ties": "mean share of features that only the tie-break ordered at this fraction",
    "seconds": "time of this cell; 0 where the plain training is shared",
    "reason": "why a cell was skipped or failed",
}
"""The columns of `Results.table`, and what they mean."""


SCORE_COLUMNS = {
    "task": "data set",
    "model": "network",
    "estimator": "chain whose maps are judged",
    "metric": "as the study names it",
    "seed": "replicate",
    "status": "done, skipped, failed or missing",
    "value": "mean over the images where it is defined, or the data set's own statistic",
    "images": "test images",
    "undefined": "images where the metric is not defined",
    "ranked": "whether it is defined for enough images to take part in rankings",
    "low": "lower end of the 95 % bootstrap interval over images",
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
    """Everything a report needs, and nothing it would have to compute with a model."""

    study: Mapping[str, Any]
    table: pd.DataFrame
    """One row per cell; see COLUMNS."""
    costs: pd.DataFrame
    """One row per task, model and estimator: passes per image, seconds to explain, constant maps."""
    higher_is_better: Mapping[str, bool]
    """By protocol."""
    diagnoses: frozenset[str] = frozenset()
    """Protocols of the study that rank nothing: controls and diagnoses have curves but no verdicts."""
    pictures: tuple[Picture, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    scores: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(SCORE_COLUMNS)))
    """One row per metric, estimator and replicate; see SCORE_COLUMNS."""
    image_scores: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(IMAGE_SCORE_COLUMNS)))
    """One row per metric, estimator, replicate and test image; see IMAGE_SCORE_COLUMNS."""
    judged: Mapping[tuple[str, str], Scores] = field(default_factory=dict)
    """By task and model: what the metrics say of the estimators over all replicates."""
    findings: tuple[Finding, ...] = ()
    """What the study's audits found."""
    claims: tuple[Judgement, ...] = ()
    """What became of the claims of papers that the study names."""
    quality: Mapping[tuple[str, str], NetworkQuality] = field(default_factory=dict)
    """By task and model: how often the base networks that are finished are right on the test images."""
    work: Mapping[str, float] = field(default_factory=dict)
    """Seconds inside the study's own work, by what was done; what audits add is not in it."""

    @property
    def settings(self) -> list[tuple[str, str]]:
        """Every task with every model, in the order of the study."""
        rows = pd.concat([self.table[["task", "model"]], self.scores[["task", "model"]]])
        return list(rows.drop_duplicates().itertuples(index=False, name=None))

    @property
    def done(self) -> pd.DataFrame:
        """The cells that have a number."""
        return self.table[self.table["status"] == "done"]

    @property
    def verdicts(self) -> pd.DataFrame:
        """One row per task, model, protocol and estimator: its advantage over random, and the verdict.

        Where a study ran until it was decided, each verdict is that of the look which decided it (column `look`).
        """
        judge = sequential if self.study.get("until_decided") else compare
        return self._by_protocol(
            lambda tidy, protocol: judge(tidy, BASELINE, self.higher_is_better[protocol]), without=self.diagnoses
        )

    @property
    def comparisons(self) -> pd.DataFrame:
        """Method against method: one row per pair under every protocol and metric; see RESULT_COMPARISON_COLUMNS.

        Under a protocol differences of areas are paired over replicates (`random` has the verdicts instead), under a
        metric values are paired over images and replicates. Holm's correction runs over the pairs of each measure.
        A study that ran until it was decided spends only a look's share of the error rate.
        """
        parts = [self._compared_areas(), *self._compared_scores()]
        there = [part for part in parts if len(part)]
        if not there:
            return pd.DataFrame(columns=list(RESULT_COMPARISON_COLUMNS))
        return pd.concat(there, ignore_index=True)[list(RESULT_COMPARISON_COLUMNS)]

    @property
    def comparison_alpha(self) -> float:
        """The error rate that the pairs of a protocol share."""
        return ALPHA / len(INTERIM_ANALYSES) if self.study.get("until_decided") else ALPHA

    def _compared_areas(self) -> pd.DataFrame:
        def pairs(tidy: pd.DataFrame, protocol: str) -> pd.DataFrame:
            methods = tidy[tidy["estimator"] != BASELINE]
            if methods["estimator"].nunique() < 2:
                return pd.DataFrame()
            return compare_pairs(methods, self.higher_is_better[protocol], self.comparison_alpha)

        found = self._by_protocol(pairs, without=self.diagnoses, needs_baseline=False)
        return found.rename(columns={"protocol": "measure"})

    def _compared_scores(self) -> list[pd.DataFrame]:
        return [
            found.comparisons.rename(columns={"metric": "measure"}).assign(task=task, model=model)
            for (task, model), found in self.judged.items()
        ]

    @property
    def spent(self) -> pd.DataFrame:
        """Replicates by protocol and estimator in a study that ran until it was decided, and what is still open."""
        verdicts = self.verdicts
        if not self.study.get("until_decided") or verdicts.empty:
            return pd.DataFrame(columns=[*_PLACE, "replicates", "look", "open"])
        own = self._measured().groupby([*_PLACE, "seed"])["fraction"].nunique()
        counts = (own > 1).groupby(_PLACE).sum().rename("replicates")  # more than the plain training
        table = verdicts[[*_PLACE, "look", "side"]].join(counts, on=_PLACE)
        return table.assign(open=table.pop("side") == 0)

    @property
    def trust(self) -> pd.DataFrame:
        """One row per verdict: `holds`, or what the audits say against it, and why; empty without audits."""
        asked = [found for found in self.findings if found.state != "skipped"]
        marks: dict[tuple[str, ...], list[Mark]] = {}
        for found in asked:
            for mark in found.marks:
                place = (found.task, found.model, mark.protocol, mark.estimator)
                marks.setdefault(place, []).append(mark)
        names = _PLACE
        rows = []
        verdicts = self.verdicts if asked else pd.DataFrame()
        for place in verdicts[names].itertuples(index=False) if len(verdicts) else ():
            against = marks.get(tuple(place), [])
            texts = list(dict.fromkeys(mark.text for mark in against))
            why = "; ".join(dict.fromkeys(mark.why for mark in against))
            quiet = nothing_against(f for f in asked if (f.task, f.model) == tuple(place)[:2])
            trust = "; ".join(texts) or "holds"
            rows.append({**place._asdict(), "trust": trust, "why": why or quiet})
        return pd.DataFrame(rows, columns=[*names, "trust", "why"])

    @property
    def intervals(self) -> pd.DataFrame:
        """Mean and 95 % interval per task, model, protocol, estimator and fraction; descriptive."""
        return self._by_protocol(lambda tidy, _: intervals(tidy))

    def _by_protocol(self, analyse, without: frozenset[str] = frozenset(), needs_baseline: bool = True) -> pd.DataFrame:
        parts = []
        for names, group in self._measured().groupby(["task", "model", "protocol"], sort=False):
            if names[2] in without or group["estimator"].nunique() < 2:
                continue
            if needs_baseline and BASELINE not in set(group["estimator"]):
                continue
            tidy = group.rename(columns={"seed": "replicate", "accuracy": "value"})
            part = analyse(tidy[["estimator", "replicate", "fraction", "value"]], names[2])
            for place, (column, value) in enumerate(zip(("task", "model", "protocol"), names, strict=True)):
                part.insert(place, column, value)
            parts.append(part)
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def _measured(self) -> pd.DataFrame:
        """The finished cells of estimators that have a cell of their own, besides the plain training all share."""
        own = ["task", "model", "protocol", "estimator"]
        return self.done.groupby(own, sort=False).filter(lambda cells: cells["fraction"].nunique() > 1)

    @property
    def problems(self) -> pd.DataFrame:
        """Skipped, failed and missing cells, counted by reason."""
        tables = [self.table, self.scores] if len(self.scores) else [self.table]
        rest = pd.concat([t.loc[t["status"] != "done", ["status", "estimator", "reason"]] for t in tables])
        groups = rest.groupby(["status", "estimator", "reason"], dropna=False, sort=False)
        return groups.size().rename("cells").reset_index()
