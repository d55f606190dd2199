"""Decoupled ROAR: what it finds, and how far its tests are from what its networks were trained with."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from uproar.audits.plots import REMOVED, lines
from uproar.audits.predictions import Predictions
from uproar.results.finding import Plot
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval, crossed_mean

DECOUPLED = ("decoupled", "decoupled:permuted", "decoupled:class")


@dataclass(frozen=True)
class DonorEffects:
    """What the donor of a mask changes in the accuracy of decoupled ROAR for one estimator, mean over fractions."""

    estimator: str
    own: Interval
    """Own masks minus those of any other image."""
    shift: Interval
    """Masks of other images of the class minus those of any other image."""
    rest: Interval
    """Own masks minus those of other images of the class."""

    @property
    def row(self) -> dict[str, object]:
        """A row of the table."""
        names = {"own minus permuted": self.own, "class minus permuted": self.shift, "own minus class": self.rest}
        ends = {f"{what}, {end}": v for what, interval in names.items() for end, v in interval.as_row().items()}
        return {"estimator": self.estimator, **ends}


def donor_effects(predictions: Predictions, name: str) -> DonorEffects | None:
    """The effects for an estimator whose tests are finished at all fractions."""
    own, permuted, within = (predictions.over_fractions(predictions.correct, p, name) for p in DECOUPLED)
    if own is None or permuted is None or within is None:
        return None
    return DonorEffects(name, crossed_mean(own - permuted), crossed_mean(within - permuted), crossed_mean(own - within))


def distance(effects: list[DonorEffects]) -> str:
    """How far own-mask tests are from what was trained, as the end of the sentence."""
    named = [each for each in effects if each.estimator != BASELINE]
    if not named:
        return "."
    most = max(named, key=lambda each: abs(each.shift.value))
    control = next((each.own for each in effects if each.estimator == BASELINE), None)
    measured = (
        ""
        if control is None
        else f"own masks of a random ranking change the accuracy by {control.text(100, 1)} points (0 if all is well) "
        "and "
    )
    return (
        f"; in decoupled ROAR, the way out, {measured}masks of one's own class change it by up to "
        f"{most.shift.text(100, 1)} points ({most.estimator})."
    )


def warnings(effects: list[DonorEffects]) -> list[str]:
    """Where decoupled ROAR is not to be read as quality."""
    texts = []
    for each in effects:
        if each.estimator == BASELINE and each.own.side:
            texts.append(
                "Own and permuted masks differ for a random ranking, where they must not: read decoupled differences "
                f"below {100 * max(abs(each.own.low), abs(each.own.high)):.1f} points as nothing."
            )
        elif each.shift.low > 0:
            texts.append(
                f"{each.estimator}: masks of one's own class help the decoupled network by {each.shift.text(100, 1)} "
                "points, so own minus permuted makes its ranking look worse than it is; read own minus class."
            )
    return texts


def by_fraction(predictions: Predictions) -> pd.DataFrame:
    """Accuracy with own masks, other images' and those of the class, a row per fraction and estimator."""
    random = {t: predictions.accuracy("decoupled", BASELINE, t) for t in predictions.fractions}
    rows = []
    for name, t, (own, permuted, within) in predictions.finished(predictions.correct, DECOUPLED):
        gain, off = crossed_mean(own - permuted), crossed_mean(within - permuted)
        rows.append(
            {
                "estimator": name,
                "fraction": t,
                "own mask": own.mean(),
                "permuted": permuted.mean(),
                "of its class": within.mean(),
                "random ranking": random[t],
                **gain.as_row("own minus permuted"),
                **off.as_row("class minus permuted", "class "),
            }
        )
    return pd.DataFrame(sorted(rows, key=lambda row: predictions.fractions.index(row["fraction"])))


def decoupled_plot(decoupled: pd.DataFrame, effects: list[DonorEffects]) -> Plot:
    """Own minus permuted over the fractions."""
    named = [each for each in effects if each.estimator != BASELINE]
    better = sum(each.own.high < 0 for each in named)
    return lines(
        "leakage-decoupled",
        f"Without the leak {better} of {len(named)} estimators find pixels that count",
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
