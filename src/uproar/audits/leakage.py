"""Does retraining read the class from the mask instead of from the pixels that are left?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from uproar.audits.registry import REMOVED, Evidence, StudyEvidence, Style, audit, conclude, lines, unique_names
from uproar.errors import NotApplicable
from uproar.results.finding import Finding, Mark, Plot
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval, crossed_mean
from uproar.training.fit import nll_bits

if TYPE_CHECKING:
    from uproar.study.spec import Study

DIAGNOSIS = ("roar", "roar:mask", "roar:mask-other", "roar:mask-pixels")
DECOUPLED = ("decoupled", "decoupled:permuted")
NEAR_ZERO = 0.05
"""Share of the class's entropy below which what the pixels add to the mask counts as nothing."""
ADDED = "added bits"
"""What pixels add to the mask: networks that see the mask alone, and mask and pixels, differ by it in their losses."""


class Predictions:
    """The finished cells of a part as arrays (replicates, images); None where any replicate is missing."""

    def __init__(self, evidence: StudyEvidence) -> None:
        self.evidence, self.fractions = evidence, evidence.study.fractions
        self.labels = evidence.task.test.labels
        shares = torch.bincount(self.labels).double() / len(self.labels)
        self.chance = float(shares.max())
        """The accuracy of always predicting the most frequent class."""
        self.entropy = float(-torch.special.xlogy(shares, shares).sum()) / math.log(2)
        """The entropy of the labels in bits."""

    def answers(self, metric: str, estimator: str, fraction: float) -> list[np.ndarray] | None:
        """The scores of every replicate, (images, classes)."""
        try:
            return [self.evidence.answers(metric, estimator, fraction, seed) for seed in self.evidence.study.seeds]
        except NotApplicable:
            return None

    def correct(self, metric: str, estimator: str, fraction: float) -> np.ndarray | None:
        """1 where the prediction is the label."""
        scores = self.answers(metric, estimator, fraction)
        return None if scores is None else (np.stack(scores).argmax(2) == self.labels.numpy()).astype(float)

    def loss_bits(self, metric: str, estimator: str, fraction: float) -> np.ndarray | None:
        """Negative log likelihood of the label in bits, calibrated on other images."""
        scores = self.answers(metric, estimator, fraction)
        return None if scores is None else np.stack([nll_bits(torch.from_numpy(s), self.labels) for s in scores])

    def added_bits(self, estimator: str, fraction: float) -> np.ndarray | None:
        """Bits that pixels add to the mask."""
        alone, both = (self.loss_bits(p, estimator, fraction) for p in ("roar:mask", "roar:mask-pixels"))
        return None if alone is None or both is None else alone - both

    def accuracy(self, metric: str, estimator: str, fraction: float) -> float:
        """Mean accuracy over the replicates that are there; NaN if none is."""
        cells = self.evidence.cells
        same = (cells["metric"] == metric) & (cells["estimator"] == estimator)
        return float(cells[same & np.isclose(cells["fraction"], fraction)]["accuracy"].mean())

    def finished(self, *metrics: str) -> Iterator[tuple[str, float, list[np.ndarray]]]:
        """Estimator, fraction and `correct` of each metric (or `ADDED`), wherever all of them are finished."""
        for name, t in itertools.product(self.evidence.estimators, self.fractions):
            arrays = [self.added_bits(name, t) if p == ADDED else self.correct(p, name, t) for p in metrics]
            whole = [array for array in arrays if array is not None]
            if len(whole) == len(metrics):
                yield name, t, whole

    def over_fractions(self, *metrics: str) -> dict[str, list[np.ndarray]]:
        """The same by estimator as means over all fractions; estimators that lack one are left out."""
        by_name: dict[str, list[list[np.ndarray]]] = {}
        for name, _, arrays in self.finished(*metrics):
            by_name.setdefault(name, []).append(arrays)
        whole = {name: rows for name, rows in by_name.items() if len(rows) == len(self.fractions)}
        return {name: [np.mean(arrays, axis=0) for arrays in zip(*rows, strict=True)] for name, rows in whole.items()}


def _studies(study: Study) -> Mapping[str, Study]:
    keeping = ("kar",) if "kar" in study.metrics else ()
    names = unique_names((BASELINE,), study.estimators)
    return {"masks": study.with_changes(metrics=(*DIAGNOSIS, *keeping, *DECOUPLED), estimators=names)}


@audit(
    title="Mask leakage",
    question="Does retraining read the class from the shape of what was removed?",
    studies=_studies,
    paper="Rong et al. 2022; Song et al.",
)
def leakage(evidence: Evidence) -> Finding:
    """Networks that see masks and no pixel, what pixels add to a mask, and ROAR without the leak."""
    masked = evidence["masks"]
    predictions = Predictions(masked)
    known, kept = _leaks(predictions, "roar"), _leaks(predictions, "kar")
    if not known:
        raise NotApplicable("no estimator beside random has all its masks-alone trainings; run the audit to the end")
    masks, pixels, decoupled = _masks(predictions), _pixels(predictions), _decoupled(predictions)
    tables = {
        "masks alone against ROAR, accuracy": masks,
        "what pixels add to the mask, bits: I(Y; X' | M)": pixels,
        "decoupled ROAR, accuracy": decoupled,
    }
    plots = [_mask_plot(masks, predictions.chance, known), _pixel_plot(pixels, predictions.entropy)]
    if len(decoupled):
        plots.append(_decoupled_plot(decoupled))
    leaking = [each for each in known if each.leaks]
    count = sum(each.leaks for each in kept)
    also = f"; by the same measure KAR reads the mask for {count} of {len(kept)}" if kept else ""
    return Finding(
        conclude(misleads=bool(leaking), holds=all(each.hides_class for each in known)),
        _sentence(known, leaking, predictions.chance) + also + ".",
        plots=tuple(plots),
        tables=tables,
        marks=tuple(
            Mark(each.metric, each.estimator, "leaks", each.why(predictions.chance))
            for each in (*known, *kept)
            if each.leaks
        ),
        notes=(*_NOTES, *_control_failed(predictions)),
    )


_NOTES = (
    "An estimator leaks if its masks alone, without a pixel, reach more than half of the accuracy above chance that "
    "ROAR leaves, averaged over the fractions, and ROAR leaves some, with 95 % confidence over replicates and images.",
    "A mask tells as much by what it keeps as by what it removes: the same networks without pixels serve KAR.",
    "What pixels add to the mask is a diagnosis and never a score: a mask that tells everything would look best.",
    "Bits of the mask are H(Y) minus the held-out loss of the network of masks alone, a lower bound of I(M; Y): a "
    "stronger network may read more from the masks.",
    "Decoupled ROAR trains with masks permuted across images, so that a mask says nothing of the class, and tests with "
    "each image's own. Own below permuted: the ranking finds what counts; own equal to it: geometry alone.",
    "`ROAR minus decoupled` is the leak as it is used: the same pixels are gone, but only ROAR can use the masks.",
    "Part of what a mask tells is the honest shape of the object: Sobel, which knows no model, leaks that part too.",
)


@dataclass(frozen=True)
class _Leak:
    """One estimator: how far its masks alone go, and what pixels add."""

    metric: str
    estimator: str
    mask: float
    """Accuracy of the networks that see masks alone, and of those that the metric trains, mean over fractions."""
    shown: float
    beyond_half: Interval
    """Accuracy of masks alone minus half of what the metric leaves above chance, and chance."""
    left: Interval
    """What the metric leaves above chance."""
    added: Interval | None
    """Bits that pixels add to the mask."""
    bits: float

    @property
    def leaks(self) -> bool:
        return self.beyond_half.low > 0 and self.left.low > 0

    @property
    def size(self) -> float:
        """The accuracy that the metric leaves and that the mask could give."""
        return min(self.mask, self.shown)

    @property
    def hides_class(self) -> bool:
        return self.beyond_half.high < 0 or self.left.high < 0

    @property
    def unrankable(self) -> bool:
        """Whether the pixels add nothing to the mask."""
        return self.added is not None and self.added.high < NEAR_ZERO * self.bits

    def why(self, chance: float) -> str:
        """The numbers behind a mark."""
        text = f"masks alone {self.mask:.3f}, {self.metric.upper()} {self.shown:.3f}, chance {chance:.3f}"
        return text + ("" if self.added is None else f"; pixels add {self.added.text()} bits")


def _leaks(predictions: Predictions, metric: str) -> list[_Leak]:
    """Every estimator but random of which all networks of a metric, and those without pixels, are there."""
    leaks, chance = [], predictions.chance
    added = predictions.over_fractions(ADDED) if metric == "roar" else {}
    for name, (mask, shown) in predictions.over_fractions("roar:mask", metric).items():
        if name == BASELINE:
            continue
        beyond_half = crossed_mean(mask - (shown + chance) / 2, worst=-(1 + chance) / 2)
        left = crossed_mean(shown - chance, worst=-chance)
        bits = crossed_mean(added[name][0]) if name in added else None
        means = float(mask.mean()), float(shown.mean())
        leaks.append(_Leak(metric, name, *means, beyond_half, left, bits, predictions.entropy))
    return leaks


def _sentence(known: list[_Leak], leaking: list[_Leak], chance: float) -> str:
    worst = max(leaking or known, key=lambda each: each.size)
    text = (
        f"For {len(leaking)} of {len(known)} estimators the removed-masks alone, without a single pixel, reach more "
        f"than half of the accuracy above chance that ROAR leaves; most for {worst.estimator}: masks "
        f"{worst.mask:.3f}, ROAR {worst.shown:.3f}, chance {chance:.3f}"
    )
    lost = [each.estimator for each in known if each.unrankable]
    if lost:
        few = ", ".join(lost[:3]) + (", ..." if len(lost) > 3 else "")
        added = max((each.added for each in known if each.unrankable and each.added), key=lambda m: m.value)
        return f"{text}; given the mask the pixels add at most {added.text()} bits for {few}: ROAR cannot rank there"
    return text


def _masks(predictions: Predictions) -> pd.DataFrame:
    rows = []
    for name, t, (mask,) in predictions.finished("roar:mask"):
        loss = predictions.loss_bits("roar:mask", name, t)
        row = {"estimator": name, "fraction": t, "ROAR": predictions.accuracy("roar", name, t)}
        row |= crossed_mean(mask).as_row("masks alone")
        row |= {"masks of another base model": predictions.accuracy("roar:mask-other", name, t)}
        leaked = math.nan if loss is None else max(predictions.entropy - float(loss.mean()), 0.0)
        rows.append(row | {"chance": predictions.chance, "bits of the mask, at least": leaked})
    return pd.DataFrame(rows)


def _pixels(predictions: Predictions) -> pd.DataFrame:
    rows = [
        {"estimator": name, "fraction": t, **crossed_mean(added).as_row()}
        for name, t, (added,) in predictions.finished(ADDED)
    ]
    return pd.DataFrame(rows, columns=["estimator", "fraction", "mean", "low", "high"])


def _decoupled(predictions: Predictions) -> pd.DataFrame:
    """Accuracy of decoupled ROAR with own masks and with those of other images, beside ROAR."""
    rows = []
    for name, t, (unpermuted, permuted) in predictions.finished(*DECOUPLED):
        roar = predictions.accuracy("roar", name, t)
        accuracies = {"ROAR": roar, "own mask": unpermuted.mean(), "permuted": permuted.mean()}
        accuracies["ROAR minus decoupled"] = roar - unpermuted.mean()
        gain = crossed_mean(unpermuted - permuted).as_row("own minus permuted")
        rows.append({"estimator": name, "fraction": t, **accuracies, **gain})
    return pd.DataFrame(rows)


def _control_failed(predictions: Predictions) -> list[str]:
    """A warning where own and permuted masks of a random ranking differ: they have nothing to do with any image."""
    means = predictions.over_fractions(*DECOUPLED)
    if BASELINE not in means or not (difference := crossed_mean(np.subtract(*means[BASELINE]))).side:
        return []
    return [
        "Own and permuted masks differ for a random ranking, where they must not: read decoupled differences below "
        f"{100 * max(abs(difference.low), abs(difference.high)):.1f} points as nothing."
    ]


def _mask_plot(masks: pd.DataFrame, chance: float, known: list[_Leak]) -> Plot:
    leaking = sum(each.leaks for each in known)
    title = f"Masks without a pixel tell the class for {leaking} of {len(known)} estimators"
    reading = (
        "Accuracy of a network that sees which pixels were removed and nothing else; at the dashed line it guesses. "
        "The band is a 95 % interval over replicates and images."
    )
    y = ("masks alone", "accuracy of masks alone")
    style: Style = {"reference": (chance, "chance"), "percent": True}
    return lines("leakage-masks", title, reading, masks, REMOVED, y, "estimator", band=True, **style)


def _pixel_plot(pixels: pd.DataFrame, bits: float) -> Plot:
    named = pixels[pixels["estimator"] != BASELINE]
    nothing = named.groupby("estimator")["high"].max() < NEAR_ZERO * bits
    title = f"Given the mask, pixels still add up to {named['mean'].max():.2f} of {bits:.2f} bits"
    if nothing.any():
        title = f"Given the mask, pixels add nothing for {int(nothing.sum())} of {len(nothing)} estimators"
    reading = (
        "Bits about the class that the pixels left by ROAR add to what the mask tells; near 0, ROAR measures the mask."
    )
    y, reference = ("mean", "bits added by pixels"), (0.0, "pixels add nothing")
    return lines("leakage-pixels", title, reading, pixels, REMOVED, y, "estimator", band=True, reference=reference)


def _decoupled_plot(decoupled: pd.DataFrame) -> Plot:
    named = decoupled[decoupled["estimator"] != BASELINE]
    better = int((named.groupby("estimator")["high"].max() < 0).sum())
    title = (
        f"Without the leak {better} of {named['estimator'].nunique()} estimators find pixels that count at all shares"
    )
    reading = (
        "Decoupled ROAR: accuracy with each image's own mask minus that with other images' masks. Below the dashed "
        "line the ranking finds what counts in this image; on it, only the geometry of its masks costs accuracy."
    )
    y = ("own minus permuted", "accuracy, own minus permuted")
    style: Style = {"reference": (0.0, "geometry alone")}
    return lines(
        "leakage-decoupled", title, reading, decoupled, REMOVED, y, "estimator", band=True, percent=True, **style
    )
