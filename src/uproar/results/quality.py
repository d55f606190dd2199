"""How good the explained network is on the images at hand, and when that is too little to read anything into its maps.

A map explains an answer. Where the network has not learnt its task, the answers explained are arbitrary and the class
that a metric follows is mostly not the one the network gives, so that scores compare maps of noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, log_softmax

if TYPE_CHECKING:
    from uproar.models.output_kind import OutputKind
    from uproar.types import Kind

HALF_WAY = 0.5
"""The part of the way from chance to always right below which a network's accuracy is warned of.

With k classes that is an accuracy of 1/k + (1 - 1/k)/2: 75 % of two, 55 % of ten, 50 % of a thousand. Below it, for any
number of classes, about half of the images or more are explained for a class that the network does not give them.
"""

HARDLY_SURE = 2
"""Times chance: without labels, a mean probability of the predicted class up to this is warned of.

An untrained network gives every class about the same probability. Probabilities of good networks may be low (many
classes, label smoothing), so the level is far below the one of the accuracy; it never lies above that one.
"""


class WeakNetwork(UserWarning):
    """The network explained is hardly better than chance on the images at hand."""


@dataclass(frozen=True)
class NetworkQuality:
    """How often a network is right on the images it is explained on, and how sure it is of them."""

    images: int
    classes: int
    probability: float
    """Mean probability of the label, or without labels of the predicted class; over the images that have an answer."""
    accuracy: float | None
    """Share of the images whose highest score is the label's; None without labels. Mean over replicates."""
    unanswered: int = 0
    """Images with NaN or infinite scores: counted as wrong. The largest number of any replicate."""
    replicates: int = 1
    lowest: float | None = None
    """The accuracy of the weakest replicate."""
    kind: Kind = "softmax"
    outputs: str = ""
    """What the outputs are, in words; empty where nobody said."""
    values: tuple[float, float] | None = None
    """The lowest and the highest value of a regression."""
    score: float | None = None
    """Mean average precision of labels, or R² of values, on all outputs; None where the truth is not known."""

    @property
    def chance(self) -> float:
        """The accuracy of guessing, with all classes equally likely."""
        return 1 / self.classes

    @property
    def level(self) -> float:
        """What `accuracy` (without labels, `probability`) must reach for maps to be worth a comparison."""
        half = self.chance + HALF_WAY * (1 - self.chance)
        return half if self.accuracy is not None else min(half, HARDLY_SURE * self.chance)

    @property
    def weak(self) -> bool:
        """Whether the network, or one of its replicates, stays below the level."""
        if self.kind == "regression":
            return self.score is not None and not self.score >= HALF_WAY
        if self.kind == "sigmoid" and self.score is not None:
            return not self.score >= HALF_WAY
        reached = self.probability if self.accuracy is None else self.accuracy
        lowest = reached if self.lowest is None else self.lowest
        return not min(reached, lowest) >= self.level  # NaN is weak too

    @property
    def sentence(self) -> str:
        """The numbers in a sentence, for the head of a page or of a terminal's output."""
        on = f"{self.images} image{'s' * (self.images != 1)}"
        networks = [f"mean of {self.replicates} networks"] if self.replicates > 1 else []
        if self.kind == "softmax" and self.accuracy is not None:
            weakest = [f"the weakest {_percent(self.lowest)}"] if networks and self.lowest is not None else []
            about = ", ".join([*networks, *weakest, f"chance {_percent(self.chance)}"])
            text = f"right on {_percent(self.accuracy)} of {on} ({about}), mean probability of the label "
            text += f"{self.probability:.2f}"
        else:
            text = f"{self._performance} on {on}{f' ({networks[0]})' if networks else ''}"
        lost = f"; {self.unanswered} without a finite answer" if self.unanswered else ""
        outputs = f"; outputs: {self.outputs}" if self.outputs else ""
        return f"Network: {text}{lost}{outputs}."

    @property
    def _performance(self) -> str:
        """What is known of a network where accuracy is not: no labels, or outputs that are not one class of several."""
        if self.kind == "softmax":
            return f"no labels; mean probability of the predicted class {self.probability:.2f}"
        if self.score is not None:
            return f"{'R²' if self.kind == 'regression' else 'mean average precision'} {self.score:.3g}"
        if self.values is not None:
            return f"values from {self.values[0]:.3g} to {self.values[1]:.3g}"
        above = "" if self.accuracy is None else f", above one half on {_percent(self.accuracy)}"
        return f"mean probability of the label that is followed {self.probability:.2f}{above}"

    @property
    def warning(self) -> str | None:
        """Why the maps of this network are hardly worth a comparison; None where they are."""
        if not self.weak:
            return None
        if self.kind != "softmax":
            return (
                f"The network is hardly right: {self._performance} on {self.images} images (warned of below "
                f"{HALF_WAY:g}). A comparison of its maps says little."
            )
        if self.accuracy is None:
            return (
                f"The network gives the class it predicts a mean probability of only {self.probability:.2f} on "
                f"{self.images} images, with {self.classes} classes (warned of below {self.level:.2f}): it seems not "
                "to have learnt these images, so that a comparison of its maps says little."
            )
        weakest = ""
        if self.lowest is not None and self.replicates > 1:
            weakest = f" (the weakest of {self.replicates} networks on {_percent(self.lowest)})"
        return (
            f"The network is right on only {_percent(self.accuracy)} of {self.images} images{weakest}, "
            f"with chance at {_percent(self.chance)} (warned of below {_percent(self.level)}, half way from chance to "
            "always right): many of its predictions are wrong, so that a comparison of its maps says little. "
            "Train it longer, or check weights, normalisation and the order of the classes."
        )


def network_quality(
    outputs: np.ndarray, target: np.ndarray, labelled: bool = True, kind: Kind = "softmax", words: str = ""
) -> NetworkQuality:
    """The quality of a network by its logits or values (n, k), and the columns that are followed, (n,).

    `labelled=False` says that these are the network's own predictions. Of labels, the one that is followed counts; of a
    regression, only the range of its values is known. `words` say what the outputs are.

    >>> network_quality(np.array([[4.0, 0.0], [0.0, 4.0]]), np.array([0, 0])).accuracy
    0.5
    """
    n, classes = outputs.shape
    answered = np.isfinite(outputs).all(1)
    known, columns = outputs[answered].astype(np.float64), target[answered]
    followed = known[np.arange(len(known)), columns]
    about: dict[str, Any] = {"unanswered": int(n - len(known)), "kind": kind, "outputs": words}
    if kind == "regression":
        values = (float(followed.min()), float(followed.max())) if len(followed) else None
        return NetworkQuality(n, classes, float("nan"), None, values=values, **about)
    if kind == "sigmoid":
        chances, right = expit(followed), followed > 0
    else:
        chances = np.exp(log_softmax(known, axis=1)[np.arange(len(known)), columns])
        right = known.argmax(1) == columns
    probability = float(chances.mean()) if len(known) else float("nan")
    return NetworkQuality(n, classes, probability, float(right.sum() / n) if labelled else None, **about)


def quality_of(outputs: np.ndarray, target: np.ndarray, labelled: bool, kind: OutputKind) -> NetworkQuality:
    """How good the network is by its outputs, and what these are."""
    words = kind.words if kind.kind != "softmax" else f"softmax over {outputs.shape[1]} classes"
    if kind.single:
        return network_quality(outputs / 2, target, labelled, words=words)
    return network_quality(outputs, target, labelled, kind.kind, words)


def over_replicates(networks: Sequence[NetworkQuality]) -> NetworkQuality:
    """The quality of several networks trained alike: means, and the weakest of them."""
    accuracies = [network.accuracy for network in networks if network.accuracy is not None]
    return replace(
        networks[0],
        probability=float(np.mean([network.probability for network in networks])),
        accuracy=float(np.mean(accuracies)) if accuracies else None,
        lowest=min(accuracies) if accuracies else None,
        unanswered=max(network.unanswered for network in networks),
        score=None if networks[0].score is None else float(np.mean([network.score for network in networks])),
        replicates=len(networks),
    )


@dataclass(frozen=True)
class Prediction:
    """The class that a network gives an image, and its probability; no class where the answer is not finite."""

    name: str | None
    probability: float
    value: float | None = None
    """What a regression gives the image."""

    @property
    def words(self) -> str:
        """What stands beside the picture.

        >>> Prediction("cat", 0.934).words == "predicted cat (93\\u00a0%)", Prediction(None, float("nan")).words
        (True, 'no finite answer')
        """
        if self.value is not None:
            return f"value {self.value:.3g}"
        if self.name is None:
            return "no finite answer"
        return f"predicted {self.name} ({100 * self.probability:.0f}\u00a0%)"


def predictions_of(
    outputs: np.ndarray, target: np.ndarray, kind: OutputKind, names: Sequence[str] = ()
) -> tuple[Prediction, ...]:
    """What the network says of every image: its class, its likeliest label, or the value that is followed.

    A class without a name is its number. The scores −z and z of one logit are halved: the softmax is the sigmoid of z.
    """
    predictions = []
    for row, column in zip(outputs.astype(np.float64) / (2 if kind.single else 1), target, strict=True):
        if not np.isfinite(row).all():
            predictions.append(Prediction(None, float("nan")))
        elif kind.kind == "regression":
            predictions.append(Prediction(None, float("nan"), float(row[int(column)])))
        else:
            first = int(row.argmax())
            binary = kind.kind == "sigmoid" and not kind.single
            likely = expit(row[first]) if binary else np.exp(log_softmax(row)[first])
            predictions.append(Prediction(names[first] if first < len(names) else str(first), float(likely)))
    return tuple(predictions)


def _percent(share: float) -> str:
    """A share in percent, with as many digits as tell it from 0.

    >>> _percent(0.9312), _percent(0.001), _percent(1.0)
    ('93.1 %', '0.1 %', '100 %')
    """
    return f"{100 * share:.3g} %"
