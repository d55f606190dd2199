"""Does retraining read the class from the mask instead of from the pixels that are left?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import scipy
import torch

from uproar.audits.plots import REMOVED, lines
from uproar.audits.registry import Evidence, StudyEvidence, audit, conclude, unique_names
from uproar.errors import NotApplicable
from uproar.results.finding import Finding, Mark, Plot
from uproar.seeds import generator
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval, crossed_mean
from uproar.training.evaluate import nll_bits

if TYPE_CHECKING:
    from uproar.study.spec import Study

Arrays = list[np.ndarray]
Reader = Callable[[str, str, float], np.ndarray | None]


class Predictions:
    """The finished cells of a part as arrays (replicates, images); None where any replicate is missing."""

    def __init__(self, part: StudyEvidence) -> None:
        self.part = part
        self.labels = part.task.test.labels
        self.seeds = tuple(part.study.seeds)
        self.fractions = part.study.fractions

    @property
    def chance(self) -> float:
        """The accuracy of always predicting the most frequent class."""
        return float(torch.bincount(self.labels).max()) / len(self.labels)

    @property
    def entropy(self) -> float:
        """The entropy of the labels in bits."""
        shares = torch.bincount(self.labels).double() / len(self.labels)
        shares = shares[shares > 0]
        return float(-(shares * shares.log()).sum()) / math.log(2)

    def correct(self, protocol: str, estimator: str, fraction: float) -> np.ndarray | None:
        """1 where the prediction is the label."""
        answers, labels = self.answers(protocol, estimator, fraction), self.labels.numpy()
        return None if answers is None else np.stack([a.argmax(1) == labels for a in answers]).astype(float)

    def nll_bits(self, protocol: str, estimator: str, fraction: float) -> np.ndarray | None:
        """Negative log likelihood of the label in bits, calibrated on other images."""
        answers = self.answers(protocol, estimator, fraction)
        if answers is None:
            return None
        return np.stack([nll_bits(torch.from_numpy(a), self.labels).numpy() for a in answers])

    def answers(self, protocol: str, estimator: str, fraction: float) -> Arrays | None:
        """The scores of every replicate, (images, classes)."""
        try:
            return [self.part.answers(protocol, estimator, fraction, seed) for seed in self.seeds]
        except NotApplicable:
            return None

    def accuracy(self, protocol: str, estimator: str, fraction: float) -> float:
        """Mean accuracy over the replicates that are there; NaN if none is."""
        cells = self.part.cells
        same = (cells["protocol"] == protocol) & (cells["estimator"] == estimator)
        rows = cells[same & np.isclose(cells["fraction"], fraction)]
        return float(rows["accuracy"].mean()) if len(rows) else math.nan

    def finished(self, read: Reader, protocols: Sequence[str]) -> Iterator[tuple[str, float, Arrays]]:
        """Estimator, fraction and one array for each protocol, wherever all of them are finished."""
        for name in self.part.estimators:
            for t in self.fractions:
                arrays = [array for p in protocols if (array := read(p, name, t)) is not None]
                if len(arrays) == len(protocols):
                    yield name, t, arrays

    def over_fractions(
        self, read: Reader, protocol: str, estimator: str, fractions: Sequence[float] | None = None
    ) -> np.ndarray | None:
        """The mean over all fractions, (replicates, images); None if one is missing."""
        wanted = self.fractions if fractions is None else fractions
        arrays = [array for t in wanted if (array := read(protocol, estimator, t)) is not None]
        return np.mean(arrays, axis=0) if arrays and len(arrays) == len(wanted) else None


DIAGNOSIS = ("roar", "roar:mask", "roar:mask-other", "roar:mask+pixels")
NLL = ("roar:mask", "roar:mask+pixels")
"""Networks that see the mask alone, and mask and pixels: their losses differ by what the pixels add."""
DECOUPLED = ("decoupled", "decoupled:permuted")
OTHER_WAYS = ("roar:hidden", "roar:find-mask", "roar:hidden:find-mask", "roar:cross-fitted")
BLIND = (BASELINE, "class_sum(grad)", "random_class(grad)", "sobel")
NEAR_ZERO = 0.05
"""Share of the class's entropy below which what the pixels add to the mask counts as nothing."""


def _studies(study: Study, *, ways_out: bool = True) -> Mapping[str, Study]:
    asked = ("kar",) if "kar" in study.protocols else ()
    protocols = (*DIAGNOSIS, *asked, *DECOUPLED, *(OTHER_WAYS if ways_out else ()))
    names = unique_names((BASELINE,), study.estimators)
    parts = {"masks": study.with_changes(protocols=protocols, estimators=names, metrics=())}
    if ways_out:
        parts["blind"] = study.with_changes(protocols=("roar", "roar:mask"), estimators=BLIND, metrics=())
    return parts


@audit(
    title="Mask leakage",
    question="Does retraining read the class from the shape of what was removed?",
    studies=_studies,
    paper="Rong et al. 2022; Song et al.",
)
def leakage(evidence: Evidence, *, ways_out: bool = True) -> Finding:
    """Networks that see masks and no pixel, what pixels add to a mask, and ways to measure without the leak."""
    part = evidence["masks"]
    predictions = Predictions(part)
    known, kept = (_leaks(predictions, protocol) for protocol in ("roar", "kar"))
    if not known:
        raise NotApplicable("no estimator beside random has all its masks-alone trainings; run the audit to the end")
    masks, pixels, decoupled = _masks(predictions), _pixels(predictions), _decoupled(predictions)
    tables = {
        "masks alone against ROAR, accuracy": masks,
        "what pixels add to the mask, bits: I(Y; X' | M)": pixels,
        "what the mask adds to the pixels it leaves, bits": _told(predictions),
        "decoupled ROAR, accuracy": decoupled,
    }
    plots = [_mask_plot(masks, predictions.chance, known), _pixel_plot(pixels, predictions.entropy)]
    if len(decoupled):
        plots.append(_decoupled_plot(decoupled))
    if ways_out:
        tables["ways out, accuracy of each, and how well the mask is found (area under ROC)"] = _ways(predictions)
        blind = _masks(Predictions(evidence["blind"]))
        if len(blind):
            tables["maps that do not depend on the class, accuracy"] = blind
    leaking = [each for each in known if each.leaks]
    count = sum(each.leaks for each in kept)
    also = f"; by the same measure KAR reads the mask for {count} of {len(kept)}" if kept else ""
    return Finding(
        conclude(misleads=bool(leaking), holds=all(each.hides_class for each in known)),
        _sentence(known, leaking, predictions.chance) + also + ".",
        plots=tuple(plots),
        tables=tables,
        marks=tuple(
            Mark(each.protocol, each.estimator, "leaks", each.why(predictions.chance))
            for each in (*known, *kept)
            if each.leaks
        ),
        notes=(*_NOTES, *_control_failed(predictions)),
    )


_NOTES = (
    "An estimator leaks if its masks alone, without a pixel, reach more than half of the accuracy above chance that "
    "ROAR leaves, averaged over the fractions, and ROAR leaves some, with 95 % confidence over replicates and images.",
    "A mask tells as much by what it keeps as by what it removes: the same networks without pixels judge KAR.",
    "What pixels add to the mask is a diagnosis and never a score: a mask that tells everything would look best.",
    "Bits of the mask are H(Y) minus the held-out loss of the network of masks alone, a lower bound of I(M; Y): a "
    "stronger network may read more from the masks.",
    "What the mask adds to the pixels it leaves: bits that the network of masks alone, mixed with decoupled ROAR, "
    "saves under own masks, beyond what it saves when every mask is read for another image. It is 0 where masks say "
    "nothing of the class, also where they remove all evidence and leave the decoupled network too sure of itself.",
    "Decoupled ROAR trains with masks permuted across images, so that a mask says nothing of the class, and tests with "
    "each image's own. Own below permuted: the ranking finds what counts; own equal to it: geometry alone.",
    "`ROAR minus decoupled` is the leak as it is used: the same pixels are gone, but only ROAR can use the masks.",
    "Part of what a mask tells is the honest shape of the object: Sobel, which knows no model, leaks that part too.",
)


@dataclass(frozen=True)
class _Leak:
    """One estimator: how far its masks alone go, and what pixels add."""

    protocol: str
    estimator: str
    mask: float
    """Accuracy of the networks that see masks alone, and of those that the protocol trains, mean over fractions."""
    shown: float
    beyond_half: Interval
    """Accuracy of masks alone minus half of what the protocol leaves above chance, and chance."""
    left: Interval
    """What the protocol leaves above chance."""
    added: Interval | None
    """Bits that pixels add to the mask."""
    bits: float

    @property
    def leaks(self) -> bool:
        return self.beyond_half.low > 0 and self.left.low > 0

    @property
    def size(self) -> float:
        """The accuracy that the protocol leaves and that the mask could give."""
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
        text = f"masks alone {self.mask:.3f}, {self.protocol.upper()} {self.shown:.3f}, chance {chance:.3f}"
        return text + ("" if self.added is None else f"; pixels add {self.added.text()} bits")


def _leaks(predictions: Predictions, protocol: str) -> list[_Leak]:
    """Every estimator but random of which all networks of a protocol, and those without pixels, are there."""
    leaks, over = [], predictions.over_fractions
    for name in predictions.part.estimators:
        mask = over(predictions.correct, "roar:mask", name)
        shown = over(predictions.correct, protocol, name)
        if name == BASELINE or mask is None or shown is None:
            continue
        added = over(_added_bits(predictions), protocol, name) if protocol == "roar" else None
        chance, accuracies = predictions.chance, (float(mask.mean()), float(shown.mean()))
        beyond_half = crossed_mean(mask - (shown + chance) / 2, worst=-(1 + chance) / 2)
        left = crossed_mean(shown - chance, worst=-chance)
        bits = None if added is None else crossed_mean(added)
        leaks.append(_Leak(protocol, name, *accuracies, beyond_half, left, bits, predictions.entropy))
    return leaks


def _added_bits(predictions: Predictions) -> Reader:
    """Reads the bits that pixels add to the mask, per replicate and image."""

    def read(_: str, name: str, fraction: float) -> np.ndarray | None:
        alone, both = (predictions.nll_bits(protocol, name, fraction) for protocol in NLL)
        return None if alone is None or both is None else alone - both

    return read


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
    for name, t, (mask,) in predictions.finished(predictions.correct, ("roar:mask",)):
        nll = predictions.nll_bits("roar:mask", name, t)
        rows.append(
            {
                "estimator": name,
                "fraction": t,
                "ROAR": predictions.accuracy("roar", name, t),
                **crossed_mean(mask).as_row("masks alone"),
                "masks of another base model": predictions.accuracy("roar:mask-other", name, t),
                "chance": predictions.chance,
                "bits of the mask, at least": np.nan
                if nll is None
                else max(predictions.entropy - float(nll.mean()), 0.0),
            }
        )
    return pd.DataFrame(rows)


def _pixels(predictions: Predictions) -> pd.DataFrame:
    rows = [
        {"estimator": name, "fraction": t, **crossed_mean(added).as_row()}
        for name, t, (added,) in predictions.finished(_added_bits(predictions), ("roar",))
    ]
    return pd.DataFrame(rows, columns=["estimator", "fraction", "mean", "low", "high"])


def _told(predictions: Predictions) -> pd.DataFrame:
    """What a reader of the masks of each estimator knows of the class beyond the pixels left, mean over fractions."""

    def read(_: str, name: str, fraction: float) -> np.ndarray | None:
        known, told = (predictions.answers(protocol, name, fraction) for protocol in ("decoupled", "roar:mask"))
        if known is None or told is None:
            return None
        labels = predictions.labels.numpy()
        return np.stack([told_by_masks(*scores, labels) for scores in zip(known, told, strict=True)])

    values = {name: predictions.over_fractions(read, "roar:mask", name) for name in predictions.part.estimators}
    rows = [{"estimator": n, **crossed_mean(bits).as_row("told")} for n, bits in values.items() if bits is not None]
    return pd.DataFrame(rows, columns=["estimator", "told", "low", "high"])


def told_by_masks(known: np.ndarray, reader: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Bits per image that a reader of the image's mask saves beyond a reader of another image's mask.

    `known` and `reader` are scores (n, classes): of a network that sees the pixels left and cannot read masks, and of
    one that sees masks alone. Both readers are mixed with it by weights fitted on the other half of the images, so
    that an overconfident network is put right by either: calibration alone saves nothing.
    """
    ring = torch.randperm(len(labels), generator=generator("leakage", "masks of other images")).numpy()
    others = np.empty_like(ring)
    others[ring] = np.roll(ring, 1)
    return np.asarray(_mixed_bits(known, reader[others], labels) - _mixed_bits(known, reader, labels))


def _mixed_bits(known: np.ndarray, reader: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Log-loss in bits of a weighted sum of two networks' log-probabilities; weights are fitted on every other row."""
    logs, bits = scipy.special.log_softmax(np.stack([known, reader]).astype(float), axis=2), np.empty(len(labels))
    right = np.take_along_axis(logs, labels[None, :, None], 2)[..., 0]

    def losses(weights: np.ndarray, rows: slice) -> np.ndarray:
        mixed = np.tensordot(weights, logs[:, rows], 1)
        return np.asarray(np.logaddexp.reduce(mixed, axis=1) - weights @ right[:, rows])

    for half in (0, 1):
        fitted = scipy.optimize.minimize(
            lambda w, rows: losses(w, rows).mean(), [0.5, 0.5], slice(1 - half, None, 2), bounds=[(0, 20)] * 2
        )
        bits[half::2] = losses(fitted.x, slice(half, None, 2)) / np.log(2)
    return bits


def _decoupled(predictions: Predictions) -> pd.DataFrame:
    """Accuracy of decoupled ROAR with own masks and with those of other images."""
    rows = []
    for name, t, (own, permuted) in predictions.finished(predictions.correct, DECOUPLED):
        accuracies = {"own mask": own.mean(), "permuted": permuted.mean()}
        gain = crossed_mean(own - permuted).as_row("own minus permuted")
        rows.append({"estimator": name, "fraction": t, **accuracies, **gain})
    return pd.DataFrame(rows)


def _control_failed(predictions: Predictions) -> list[str]:
    """A warning where own and permuted masks of a random ranking differ: they have nothing to do with any image."""
    own, permuted = (predictions.over_fractions(predictions.correct, protocol, BASELINE) for protocol in DECOUPLED)
    if own is None or permuted is None:
        return []
    difference = crossed_mean(own - permuted)
    if not difference.side:
        return []
    return [
        "Own and permuted masks differ for a random ranking, where they must not: read decoupled differences below "
        f"{100 * max(abs(difference.low), abs(difference.high)):.1f} points as nothing."
    ]


def _ways(predictions: Predictions) -> pd.DataFrame:
    protocols = ("roar", "decoupled", "roar:hidden", "roar:cross-fitted")
    detectors = {"mask found": "roar:find-mask", "mask found, hidden": "roar:hidden:find-mask"}
    rows = []
    for name in predictions.part.estimators:
        for t in predictions.fractions:
            accuracy = {p: predictions.accuracy(p, name, t) for p in protocols}
            accuracy["ROAR minus decoupled"] = accuracy["roar"] - accuracy["decoupled"]
            accuracy |= {title: predictions.accuracy(p, name, t) for title, p in detectors.items()}
            rows.append({"estimator": name, "fraction": t, **accuracy})
    return pd.DataFrame(rows)


def _mask_plot(masks: pd.DataFrame, chance: float, known: list[_Leak]) -> Plot:
    leaking = sum(each.leaks for each in known)
    return lines(
        "leakage-masks",
        f"Masks without a pixel tell the class for {leaking} of {len(known)} estimators",
        "Accuracy of a network that sees which pixels were removed and nothing else; at the dashed line it guesses. "
        "The band is a 95 % interval over replicates and images.",
        masks,
        REMOVED,
        ("masks alone", "accuracy of masks alone"),
        "estimator",
        band=True,
        reference=(chance, "chance"),
        percent=True,
    )


def _pixel_plot(pixels: pd.DataFrame, bits: float) -> Plot:
    named = pixels[pixels["estimator"] != BASELINE]
    nothing = named.groupby("estimator")["high"].max() < NEAR_ZERO * bits
    title = (
        f"Given the mask, pixels add nothing for {int(nothing.sum())} of {len(nothing)} estimators"
        if bool(nothing.any())
        else f"Given the mask, pixels still add up to {named['mean'].max():.2f} of {bits:.2f} bits"
    )
    return lines(
        "leakage-pixels",
        title,
        "Bits about the class that the pixels left by ROAR add to what the mask tells; near 0, ROAR measures the mask.",
        pixels,
        REMOVED,
        ("mean", "bits added by pixels"),
        "estimator",
        band=True,
        reference=(0.0, "pixels add nothing"),
    )


def _decoupled_plot(decoupled: pd.DataFrame) -> Plot:
    named = decoupled[decoupled["estimator"] != BASELINE]
    better = int((named.groupby("estimator")["high"].max() < 0).sum())
    return lines(
        "leakage-decoupled",
        f"Without the leak {better} of {named['estimator'].nunique()} estimators find pixels that count at all shares",
        "Decoupled ROAR: accuracy with each image's own mask minus that with other images' masks. Below the dashed "
        "line the ranking finds what counts in this image; on it, only the geometry of its masks costs accuracy.",
        decoupled,
        REMOVED,
        ("own minus permuted", "accuracy, own minus permuted"),
        "estimator",
        band=True,
        reference=(0.0, "geometry alone"),
        percent=True,
    )
