"""Do retrained networks make the mistakes of the network that was explained? Then they read its answers off the masks.

A network that is trained afresh on what is left of the images makes mistakes of its own. Where it repeats the wrong
answers of the explained network far more often than networks do that cannot know them, those answers reached it through
the only thing that the explained network decided: which pixels are gone. This costs nothing after ROAR.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from uproar.audits.plots import lines
from uproar.audits.predictions import Predictions
from uproar.audits.registry import Evidence, StudyEvidence, audit, conclude, unique_names
from uproar.errors import NotApplicable
from uproar.estimators import read_chain
from uproar.protocols import protocol_named
from uproar.results.finding import Finding, Mark, Plot, State
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval, ratio_interval

if TYPE_CHECKING:
    from uproar.study.spec import Study

PROTOCOLS = ("roar", "kar", "roar:mask", "kar:mask")
FEW = 4
"""Rankings below which a correlation over them says nothing."""
FEWEST = 20
"""Mistakes of a network below which shares of them say nothing."""


def _studies(study: Study, *, margin: float) -> Mapping[str, Study]:
    """The study's own retraining: nothing new where it has a random ranking."""
    asked = tuple(p for p in study.protocols if p in PROTOCOLS) or ("roar",)
    asked = unique_names([_with_pixels(p) for p in asked], asked)
    names = unique_names((BASELINE,), study.estimators)
    return {"retrained": study.with_changes(protocols=asked, estimators=names, metrics=())}


@audit(
    title="Whose mistakes",
    question="Do retrained networks repeat the mistakes of the network that was explained?",
    studies=_studies,
    needs="a protocol that retrains",
)
def mistakes(evidence: Evidence, *, margin: Annotated[float, Field(gt=0, lt=1)] = 0.05) -> Finding:
    """How many of the explained network's wrong answers come again, beside networks that cannot know them.

    `misleads` needs some estimator to repeat more than those, by `margin`, with 95 % confidence.
    """
    part = evidence["retrained"]
    base = _BaseModels(Predictions(part))
    measured = [
        repetition
        for protocol in part.study.protocols
        for name in part.estimators
        if read_chain(name).role == "method" and (repetition := _repetition(base, protocol, name)) is not None
    ]
    if not measured:
        raise NotApplicable("no attribution method has all its retrainings; name one, or run the audit to the end")
    repeating = [each for each in measured if each.beyond.low > margin]
    table, state = _by_fraction(base), _state(measured, margin)
    return Finding(
        state,
        _sentence(measured, repeating, base, state),
        plots=_plots(table, repeating, measured),
        tables={
            "mistakes of the explained network, shares that come again": table,
            "mean over fractions": pd.DataFrame([each.row for each in measured]),
            "over rankings that ask the network, correlation of accuracy with repeated mistakes": _over_rankings(table),
        },
        marks=tuple(Mark(each.protocol, each.estimator, "repeats mistakes", each.why) for each in repeating),
        notes=_NOTES,
    )


_NOTES = (
    "A mistake is a test image that the explained network of the replicate gets wrong; it is repeated where the "
    "retrained network gives the same wrong class, and put right where it gives the label.",
    "Images that every network gets wrong come again whatever is removed. The yardstick is the largest share that "
    "networks repeat which cannot know the answers: the explained network of another replicate, which saw whole "
    "images, and those retrained with rankings that ask no network (random; sobel, brightness, ... where the study has "
    "them), which start from the same random numbers as the explained one.",
    "Repeated more often than that, the explained network's answers have reached the retrained one through the masks, "
    "since nothing else depends on them: part of its accuracy is then that of the explained network. Repeated no more "
    "often, masks may still tell the class (`leakage`).",
    "Accuracy and repeated mistakes rise together in any case, since both are agreement with the explained network; "
    "only what exceeds the yardstick is evidence that masks carry it. Mistakes that are repeated cannot be put right.",
    "Maps of the label instead of the predicted class hand on the label: then mistakes are put right, not repeated.",
)


def _with_pixels(protocol: str) -> str:
    """The protocol whose networks see pixels, of one whose networks see masks."""
    return protocol_named(protocol).family


def _changing(part: StudyEvidence, protocol: str) -> list[float]:
    """The fractions at which a protocol changes images at all."""
    return [t for t in part.study.fractions if t != protocol_named(protocol).plain]


@dataclass(frozen=True)
class _Yardstick:
    """Who repeats most mistakes without knowing them."""

    name: str
    counted: np.ndarray
    """For each replicate and mistake, how often it is repeated."""


class _BaseModels:
    """The networks that were explained: where they are wrong, and what they say there."""

    def __init__(self, predictions: Predictions) -> None:
        self.predictions = predictions
        self.classes = predictions.of_base_models()
        self.wrong = self.classes != predictions.labels.numpy()
        mistakes = self.wrong.sum(axis=1).mean()
        if mistakes < FEWEST:
            raise NotApplicable(
                f"the explained network makes {mistakes:.0f} mistakes on the test images, fewer than {FEWEST}; "
                "give more images"
            )
        self._yardsticks: dict[str, _Yardstick | None] = {}

    def yardstick(self, protocol: str) -> _Yardstick | None:
        """The networks of a protocol that repeat most and cannot know; None where there are none."""
        pixels = _with_pixels(protocol)  # without pixels a random mask tells nothing at all
        if pixels not in self._yardsticks:
            candidates = [*self._another_replicate(), *self._blind(pixels)]
            largest = max(candidates, key=lambda each: float(each.counted.mean()), default=None)
            self._yardsticks[pixels] = largest
        return self._yardsticks[pixels]

    def _another_replicate(self) -> list[_Yardstick]:
        count, distinct = len(self.classes), len({one.tobytes() for one in self.classes})
        if count < 2 or distinct < count:  # one network, or one file of weights for all
            return []
        same = (self.classes[:, None] == self.classes[None]).astype(float)
        return [_Yardstick("another replicate", self.wrong * (same.sum(1) - 1) / (count - 1))]

    def _blind(self, protocol: str) -> list[_Yardstick]:
        """The rankings that ask no network."""
        part = self.predictions.part
        blind = [name for name in part.estimators if read_chain(name).role != "method"]
        return [
            _Yardstick(f"{name} at {t:.0%}", counted)
            for name, t in itertools.product(blind, _changing(part, protocol))
            if (counted := self.repeated(protocol, name, t)) is not None
        ]

    def repeated(self, protocol: str, estimator: str, fraction: float) -> np.ndarray | None:
        """1 where a mistake comes again, (replicates, images)."""
        classes = self.predictions.classes(protocol, estimator, fraction)
        return None if classes is None else (self.wrong & (classes == self.classes)).astype(float)

    def corrected(self, protocol: str, estimator: str, fraction: float) -> np.ndarray | None:
        """1 where a mistake becomes right."""
        right = self.predictions.correct(protocol, estimator, fraction)
        return None if right is None else self.wrong * right

    def share(self, counted: np.ndarray) -> Interval:
        """What is counted, as a share of the mistakes."""
        return ratio_interval(counted, self.wrong.astype(float))


@dataclass(frozen=True)
class _Repetition:
    """One estimator under one protocol, over all fractions."""

    protocol: str
    estimator: str
    repeated: Interval
    beyond: Interval
    """Repeated minus what the yardstick repeats."""
    yardstick: _Yardstick
    right: Interval
    natural: Interval
    """What the yardstick repeats."""

    @property
    def row(self) -> dict[str, object]:
        """For the table."""
        return {
            "protocol": self.protocol,
            "estimator": self.estimator,
            **self.repeated.clipped(0, 1).as_row("repeated"),
            "yardstick": self.natural.value,
            "which": self.yardstick.name,
            **self.beyond.as_row("beyond it", "beyond, "),
            "put right": self.right.value,
        }

    @property
    def why(self) -> str:
        """The numbers behind a mark."""
        natural = f"{self.yardstick.name} {100 * self.natural.value:.1f} %"
        return f"repeats {self.repeated.text(100, 1)} % of the explained network's mistakes, {natural}"


def _repetition(base: _BaseModels, protocol: str, name: str) -> _Repetition | None:
    over, fractions = base.predictions.over_fractions, _changing(base.predictions.part, protocol)
    repeated = over(base.repeated, protocol, name, fractions)
    corrected = over(base.corrected, protocol, name, fractions)
    yardstick = base.yardstick(protocol)
    if repeated is None or corrected is None or yardstick is None:
        return None
    beyond, natural = base.share(repeated - yardstick.counted), base.share(yardstick.counted)
    return _Repetition(protocol, name, base.share(repeated), beyond, yardstick, base.share(corrected), natural)


def _by_fraction(base: _BaseModels) -> pd.DataFrame:
    part, rows = base.predictions.part, []
    for protocol, name in itertools.product(part.study.protocols, part.estimators):
        for t in _changing(part, protocol):
            repeated, right = base.repeated(protocol, name, t), base.corrected(protocol, name, t)
            if repeated is not None and right is not None:
                row = {"protocol": protocol, "estimator": name, "fraction": t}
                row |= base.share(repeated).clipped(0, 1).as_row("repeated")
                row |= {"put right": base.share(right).value, "mistakes": float(base.wrong.sum(axis=1).mean())}
                rows.append(row | {"accuracy": base.predictions.accuracy(protocol, name, t)})
    return pd.DataFrame(rows)


def _over_rankings(table: pd.DataFrame) -> pd.DataFrame:
    """Whether the rankings after which networks are most accurate are those that hand most on."""
    known = {name for name in table["estimator"].unique() if read_chain(name).role == "method"}
    columns = ["protocol", "fraction", "rankings", "correlation"]
    rows = []
    for (protocol, t), group in table[table["estimator"].isin(known)].groupby(["protocol", "fraction"], sort=False):
        if len(group) >= FEW and group["accuracy"].nunique() > 1:
            rows.append((protocol, t, len(group), group["accuracy"].corr(group["repeated"])))
    return pd.DataFrame(rows, columns=columns)


def _state(measured: list[_Repetition], margin: float) -> State:
    return conclude(
        misleads=any(each.beyond.low > margin for each in measured),
        holds=all(each.beyond.high < margin for each in measured),
    )


def _sentence(measured: list[_Repetition], repeating: list[_Repetition], base: _BaseModels, state: State) -> str:
    most = max(repeating or measured, key=lambda each: each.repeated.value)
    count = round(float(base.wrong.sum(axis=1).mean()))
    ends: dict[State, str] = {
        "misleads": f"under {len(repeating)} of {len(measured)} rankings and protocols masks hand its answers on",
        "holds": "no ranking repeats more than these",
        "cannot tell": "whether masks hand its answers on cannot be told from these replicates",
    }
    return (
        f"Retrained networks repeat up to {most.repeated.text(100, 1)} % of the {count} mistakes of the network that "
        f"was explained ({most.estimator}, {most.protocol}), networks that cannot know them at most "
        f"{most.natural.text(100, 1)} % ({most.yardstick.name}): {ends[state]}"
    )


def _plots(table: pd.DataFrame, repeating: list[_Repetition], measured: list[_Repetition]) -> tuple[Plot, ...]:
    plots = []
    for protocol, rows in table.groupby("protocol", sort=False):
        own = [each for each in measured if each.protocol == protocol]
        if not own:
            continue
        marked = sum(each.protocol == protocol for each in repeating)
        plots.append(
            lines(
                f"mistakes-{str(protocol).replace(':', '-')}",
                f"{protocol}: retrained networks copy the explained network's mistakes under {marked} of {len(own)} "
                "rankings",
                "Share of the explained network's mistakes that the retrained network repeats. Dashed: the most that "
                "networks repeat which cannot know them; above it, masks reveal its predictions. Bands are 95 % "
                "intervals over replicates and images.",
                rows,
                ("fraction", f"share {protocol_named(str(protocol)).fraction_means}"),
                ("repeated", "mistakes repeated"),
                "estimator",
                band=True,
                reference=(own[0].natural.value, own[0].yardstick.name),
                percent=True,
            )
        )
    return tuple(plots)
