"""Does retraining read the class from the mask instead of from the pixels that are left?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import scipy
import torch

from uproar.audits.decoupled import DECOUPLED, by_fraction, decoupled_plot, distance, donor_effects, warnings
from uproar.audits.plots import REMOVED, lines
from uproar.audits.predictions import Predictions, Reader
from uproar.audits.registry import Evidence, audit, conclude, unique_names
from uproar.errors import NotApplicable
from uproar.results.finding import Finding, Mark, Plot, State
from uproar.seeds import generator
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval, crossed_mean

if TYPE_CHECKING:
    from uproar.study.spec import Study

DIAGNOSIS = ("roar", "roar:mask", "roar:mask-other", "roar:mask+pixels")
NLL = ("roar:mask", "roar:mask+pixels")
"""Networks that see the mask alone, and mask and pixels: their losses differ by what the pixels add."""
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
    masks, pixels, decoupled = _masks(predictions), _pixels(predictions), by_fraction(predictions)
    effects = [each for name in part.estimators if (each := donor_effects(predictions, name)) is not None]
    tables = {
        "masks alone against ROAR, accuracy": masks,
        "what pixels add to the mask, bits: I(Y; X' | M)": pixels,
        "what the mask adds to the pixels it leaves, bits": _told(predictions),
        "decoupled ROAR, accuracy": decoupled,
    }
    far = "how far own masks are from what the decoupled network was trained with, accuracy, mean over fractions"
    tables[far] = pd.DataFrame([each.row for each in effects])
    plots = [_mask_plot(masks, predictions.chance, known), _pixel_plot(pixels, predictions.entropy)]
    if len(decoupled):
        plots.append(decoupled_plot(decoupled, effects))
    if ways_out:
        tables["ways out, accuracy of each, and how well the mask is found (area under ROC)"] = _ways(predictions)
        blind = _masks(Predictions(evidence["blind"]))
        if len(blind):
            tables["maps that do not depend on the class, accuracy"] = blind
    leaking = [each for each in known if each.leaks]
    return Finding(
        _state(known),
        _sentence(known, leaking, predictions.chance) + _also(kept) + distance(effects),
        plots=tuple(plots),
        tables=tables,
        marks=tuple(
            Mark(each.protocol, each.estimator, "leaks", each.why(predictions.chance))
            for each in (*known, *kept)
            if each.leaks
        ),
        notes=(*_NOTES, *warnings(effects)),
    )


_NOTES = (
    "An estimator leaks if its masks alone, without a pixel, reach more than half of the accuracy above chance that "
    "ROAR leaves, averaged over the fractions, and ROAR leaves some, with 95 % confidence over replicates and images.",
    "A mask tells as much by what it keeps as by what it removes: the same networks without pixels judge KAR.",
    "What pixels add to the mask is a diagnosis and never a score: a mask that tells everything would look best.",
    "What the mask adds to the pixels it leaves: bits that the network of masks alone, mixed with decoupled ROAR, "
    "saves under own masks, beyond what it saves when every mask is read for another image. It is 0 where masks say "
    "nothing of the class, also where they remove all evidence and leave the decoupled network too sure of itself.",
    "Decoupled ROAR trains with masks permuted across images, so that a mask says nothing of the class, and tests with "
    "each image's own. Own below permuted: the ranking finds what counts; own equal to it: geometry alone.",
    "Own masks are not quite what the decoupled network was trained with: there a mask had nothing to do with the "
    "image it is assigned to. How much that matters is measured twice: own minus permuted of a random ranking, whose "
    "masks have nothing to do with any image, must be zero; and `class minus permuted` is what a mask of one's own "
    "class changes without being one's own. The rest, `own minus class`, is due to the image alone.",
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


def _also(kept: list[_Leak]) -> str:
    if not kept:
        return ""
    count = sum(each.leaks for each in kept)
    return f"; by the same measure KAR reads the mask for {count} of {len(kept)}"


def _state(known: list[_Leak]) -> State:
    return conclude(misleads=any(each.leaks for each in known), holds=all(each.hides_class for each in known))


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
        rows.append(
            {
                "estimator": name,
                "fraction": t,
                "ROAR": predictions.accuracy("roar", name, t),
                **crossed_mean(mask).as_row("masks alone"),
                "masks of another base model": predictions.accuracy("roar:mask-other", name, t),
                "chance": predictions.chance,
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
