"""What the evaluator says: the primary score of every estimator, and whether it beats all model-free baselines.

    scores = view.evaluators["label"]        # of one task and model; the other target is "answer"
    scores.table                             # SCORE_COLUMNS: every estimator and control, best first
    scores.verdicts                          # VERDICT_COLUMNS: every method against random and model-free baselines
    scores.per_image                         # IMAGE_COLUMNS: what all of these are computed from
    scores.comparisons                       # statistics.comparisons.COLUMNS: against baselines and other methods

The score of an image is the bits of log-loss that its own mask costs the evaluator beyond the same mask at another
place, when the most important pixels are removed, and that it saves when they are kept: the mean over the fractions and
both directions. Positive: the map found what counts. Images are paired, and every replicate has an evaluator of its
own, so that the spread over evaluators, base networks and images is in the intervals.

Losses are calibrated before: an evaluator that is too sure of itself where nothing is left is softened until it needs
no more bits than there are (`metrics.evaluator.calibrate`). A method whose masks tell the class to the evaluators is
marked: see `leaked_share`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from uproar.statistics.comparisons import FEWER, against_baselines, compare, corrected, margins
from uproar.statistics.design import ALPHA, BASELINE, LEAST_REPLICATES
from uproar.statistics.intervals import Interval, Measurements, Numbers
from uproar.types import Role

SCORE_COLUMNS = {
    "estimator": "chain that ranks the pixels",
    "kind": "method, baseline (never looks at the network), random or truth (told the class or the important pixels)",
    "score": "bits of log-loss, own mask minus the same mask at another place; positive: it found what counts",
    "low": "lower end of its 95 % interval over replicates and images",
    "high": "upper end",
    "p": "of a score of 0, for this estimator alone",
    "removing": "the part of the score from removing the most important pixels",
    "keeping": "the part from keeping them",
    "against_random": "bits of log-loss, own masks against those of the random ranking: a control that all share",
    "leak": "share of images of other classes that are taken for the mask's class, above chance; 0: no leak found",
    "n": "test images",
    "replicates": "replicates, each with an evaluator of its own",
}
"""The columns of `EvaluatorScores.table`."""

VERDICT_COLUMNS = {
    "estimator": "attribution method",
    "score": "as in the table of scores",
    "low": "lower end of its 95 % interval",
    "high": "upper end",
    "over_random": "score minus that of the random ranking",
    "over_random_low": "lower end of its 95 % interval, for this method alone",
    "over_random_high": "upper end",
    "over_random_df": "degrees of freedom of its t-test",
    "over_random_p": "of no difference to random, for this method alone",
    "p_random": "the same, adjusted by Holm's method over the methods",
    "baseline": "the model-free baseline that decides: the one that it beats least clearly, by the largest p",
    "margin": "score minus the deciding ranking's",
    "margin_low": "lower end of its 95 % interval, for this pair alone",
    "margin_high": "upper end",
    "margin_df": "degrees of freedom of its t-test",
    "margin_p": "of not beating every model-free baseline, for this method alone: the largest p, 1 if not ahead",
    "p_baseline": "the same, adjusted by Holm's method over the methods",
    "side": "2: better than every model-free baseline; 1: better than random; -1: worse than random; "
    "0: not significantly different",
    "verdict": "the same in words",
    "n": "test images",
    "replicates": "replicates, each with an evaluator of its own",
}
"""The columns of `EvaluatorScores.verdicts`."""

IMAGE_COLUMNS = {
    "estimator": "chain that ranks the pixels",
    "kind": "as in the table of scores",
    "replicate": "number of the replicate, in the order of the study's seeds",
    "image": "row of the test split",
    "removing": "bits that its own mask costs beyond the moved one when the most important pixels are removed",
    "keeping": "bits that its own mask saves beyond the moved one when they are kept",
}
"""The columns of `EvaluatorScores.per_image`; the score of an image is the mean of the last two."""

VERDICTS = {
    2: "better than every model-free baseline",
    1: "better than random",
    0: "not significantly different",
    -1: "worse than random",
}


@dataclass(frozen=True)
class EvaluatorBits:
    """Bits of log-loss per image under one target of the evaluators of one task and model, mean over the fractions.

    Arrays are (replicates, images), NaN where one lacks a fraction.
    """

    unmoved: Mapping[tuple[str, bool], Numbers]
    """By estimator and whether the most important pixels are kept: with each image's own mask."""
    shifted: Mapping[tuple[str, bool], Numbers]
    """The same with the mask moved to another place."""
    kinds: Mapping[str, Role]
    """What each estimator is."""
    models: tuple[str, ...] = ()
    """The architectures of the evaluators, each once, in the order in which replicates take them."""
    images: NDArray[np.int64] | None = None
    """The rows of the scored images in the test split; None: all."""
    leaks: Mapping[str, float] = field(default_factory=dict)
    """By estimator whose masks leak the class to the evaluators, the share above chance (`leaked_share`)."""
    entropy: float = np.nan
    """Bits of what is predicted, the largest of the replicates."""


class EvaluatorScores:
    """The primary scores of one task and model for one target, each table computed once."""

    def __init__(self, bits: EvaluatorBits, alpha: float = ALPHA, target: str = "label") -> None:
        self.bits, self.alpha = bits, alpha
        self.metric = "evaluator" if target == "label" else "evaluator:model"
        self.name = "evaluator" if target == "label" else f"evaluator of the {target}"

    @property
    def leaking(self) -> Mapping[str, float]:
        """Methods whose masks leak the class to the evaluators, with the share above chance; worst first."""
        methods = set(self.of_kind("method"))
        by_share = sorted(self.bits.leaks.items(), key=lambda item: -item[1])
        return {name: share for name, share in by_share if name in methods}

    def of_kind(self, *kinds: Role) -> list[str]:
        """The estimators of some kinds that have a score."""
        return [name for name in self.measurements if self.bits.kinds.get(name, "method") in kinds]

    @functools.cached_property
    def measurements(self) -> Mapping[str, Measurements]:
        """The score of every image and replicate, by estimator."""
        whole = {name: self._parts(name) for name in self.bits.kinds}
        means = {name: [*parts.values()] for name, parts in whole.items()}
        return {name: Measurements(np.mean(parts, 0)) for name, parts in means.items() if _has_numbers(parts)}

    def _parts(self, name: str) -> dict[str, Numbers]:
        """The gains from `removing` and from `keeping`, where there are any."""
        parts = {}
        for keeps in (False, True):
            unmoved, moved = self.bits.unmoved.get((name, keeps)), self.bits.shifted.get((name, keeps))
            if unmoved is not None and moved is not None:
                parts["keeping" if keeps else "removing"] = mask_gain(unmoved, moved, keeps)
        return parts

    def lost_share(self, name: str) -> Interval:
        """The share of what is known under moved masks that is lost with the pixels that an estimator ranks first."""
        losses_own, moved = (losses.get((name, False)) for losses in (self.bits.unmoved, self.bits.shifted))
        known = np.nan if losses_own is None or moved is None else self.bits.entropy - float(np.nanmean(moved))
        if losses_own is None or moved is None or not known > 0:
            return Interval(np.nan)
        lost = Measurements(losses_own - moved).interval()
        return Interval(lost.value / known, lost.low / known, lost.high / known)

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """Every estimator's score, the largest first; see SCORE_COLUMNS."""
        rows = []
        for name, values in self.measurements.items():
            interval = values.interval()
            row = {"estimator": name, "kind": self.bits.kinds.get(name, "method"), **interval.as_row("score")}
            parts = {direction: float(np.nanmean(gains)) for direction, gains in self._parts(name).items()}
            parts["against_random"] = self._against_random(name)
            parts["leak"] = self.bits.leaks.get(name, 0.0)
            rows.append(row | {"p": interval.p, **parts, "n": interval.n, "replicates": interval.replicates})
        frame = pd.DataFrame(rows, columns=list(SCORE_COLUMNS))
        return frame.sort_values("score", ascending=False, ignore_index=True)

    def _against_random(self, name: str) -> float:
        """The score with the masks of the random ranking as the control."""
        gains = [
            mask_gain(self.bits.unmoved[name, keeps], self.bits.unmoved[BASELINE, keeps], keeps)
            for keeps in (False, True)
            if (name, keeps) in self.bits.unmoved and (BASELINE, keeps) in self.bits.unmoved
        ]
        return float(np.nanmean(gains)) if gains else np.nan

    @property
    def per_image(self) -> pd.DataFrame:
        """What every score, verdict and pair is computed from; see IMAGE_COLUMNS."""
        frames = [pd.DataFrame(columns=list(IMAGE_COLUMNS))]
        for name, values in self.measurements.items():
            replicate, image = self.axes(values)
            parts = {direction: gains.ravel() for direction, gains in self._parts(name).items()}
            frame = pd.DataFrame({"replicate": replicate, "image": image, **parts})
            frames.append(frame.assign(estimator=name, kind=self.bits.kinds.get(name, "method")))
        return pd.concat(frames[1:] or frames, ignore_index=True).reindex(columns=list(IMAGE_COLUMNS))

    def axes(self, values: Measurements) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The replicate and the row in the test split of every number of some measurements."""
        replicate, image = np.indices(values.by_image.shape).reshape(2, -1)
        return replicate, image if self.bits.images is None else self.bits.images[image]

    @functools.cached_property
    def comparisons(self) -> pd.DataFrame:
        """Every method against every baseline, and every two methods; see `statistics.comparisons.COLUMNS`.

        One evaluator is not tested: what it gets wrong is shared by all methods, and images do not show it.
        """
        names = self.of_kind("method", "baseline", "random")
        baselines = self.of_kind("baseline", "random")
        values = {name: self.measurements[name] for name in names}
        return compare(values, baselines, alpha=self.alpha, single_network=False)

    @functools.cached_property
    def verdicts(self) -> pd.DataFrame:
        """Every method, the best first; see VERDICT_COLUMNS.

        A method is better than every model-free baseline where it is better than every one of them
        (intersection-union: the largest p counts), adjusted by Holm's method over the methods, and significantly better
        than random.
        """
        table = margins(self.comparisons)
        random = corrected(table[table["baseline"] == BASELINE], self.alpha, "margin").set_index("method")
        free = against_baselines(table[table["baseline"] != BASELINE], self.alpha).set_index("method")
        scores = self.table.set_index("estimator")
        frame = scores.loc[self.of_kind("method"), ["score", "low", "high", "n", "replicates"]].copy()
        parts = ((random, "over_random", "over_random_p", "p_random"), (free, "margin", "margin_p", "p_baseline"))
        for table_part, name, alone, adjusted in parts:
            table_part = table_part.reindex(frame.index)
            frame[[name, f"{name}_low", f"{name}_high"]] = table_part[["margin", "low", "high"]]
            frame[[f"{name}_df", alone, adjusted]] = table_part[["df", "p", "p_holm"]]
        against_random = random["side"].reindex(frame.index).fillna(0)
        better = free["side"].reindex(frame.index).fillna(0).astype(bool)
        beats_random = (against_random == 1) | frame["p_random"].isna()
        frame["side"] = np.where(better & beats_random, 2, against_random).astype(int)
        frame["baseline"] = free["baseline"].reindex(frame.index)
        frame["verdict"] = [
            FEWER if row.replicates < LEAST_REPLICATES else VERDICTS[row.side] for row in frame.itertuples()
        ]
        frame = frame.rename_axis("estimator").reset_index()[list(VERDICT_COLUMNS)]
        return frame.sort_values("score", ascending=False, ignore_index=True)


def mask_gain(unmoved: Numbers, shifted: Numbers, keeps: bool) -> Numbers:
    """Bits that an image's own mask costs beyond the same mask elsewhere, or saves where it keeps."""
    return shifted - unmoved if keeps else unmoved - shifted


def leaked_share(above_chance: Numbers) -> float:
    """How much more often than by chance evaluators name the class of other images' masks; 0 where not significantly.

    `above_chance` is (replicates, keeps, fractions, images). The test with the smallest p counts, times the number of
    tests. One evaluator has a favourite answer under every mask, which may be the right one by chance: it takes as many
    replicates as any test of evaluators.
    """
    if len(above_chance) < LEAST_REPLICATES or not above_chance.shape[-1]:
        return 0.0
    tests = [
        Measurements(numbers)
        for numbers in above_chance.reshape(len(above_chance), -1, above_chance.shape[-1]).swapaxes(0, 1)
    ]
    intervals = [test.interval() for test in tests]
    significant = [
        interval.value for interval in intervals if interval.value > 0 and interval.p / 2 * len(tests) < ALPHA
    ]
    return max(significant, default=0.0)


def _has_numbers(parts: Sequence[Numbers]) -> bool:
    return bool(parts) and bool(np.isfinite(parts).any())
