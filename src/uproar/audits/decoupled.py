"""Decoupled ROAR: what it finds, and how far its tests are from what its networks were trained with."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from uproar.audits.predictions import Answered, stacked
from uproar.results.finding import Plot
from uproar.statistics.crossed import Mean, mean_of
from uproar.statistics.design import BASELINE

DECOUPLED = ("decoupled", "decoupled:permuted", "decoupled:class")


@dataclass(frozen=True)
class Worn:
    """One estimator under decoupled ROAR, averaged over the fractions: whose mask an image wears, and what it costs."""

    estimator: str
    own: Mean
    """Own masks minus those of any other image."""
    shift: Mean
    """Masks of other images of the class minus those of any other image."""
    rest: Mean
    """Own masks minus those of other images of the class."""

    @property
    def row(self) -> dict[str, object]:
        """A row of the table."""
        names = {"own minus permuted": self.own, "class minus permuted": self.shift, "own minus class": self.rest}
        ends = {f"{what}, {end}": getattr(mean, end) for what, mean in names.items() for end in ("mean", "low", "high")}
        return {"estimator": self.estimator, **ends}


def worn_by(answered: Answered, name: str) -> Worn | None:
    """The tests of an estimator, if they are finished at all fractions."""
    fractions = answered.part.study.fractions
    own, permuted, within = (stacked([answered.right(p, name, t) for t in fractions]) for p in DECOUPLED)
    if own is None or permuted is None or within is None:
        return None
    return Worn(name, mean_of(own - permuted), mean_of(within - permuted), mean_of(own - within))


def distance(worn: list[Worn]) -> str:
    """How far own-mask tests are from what was trained, as the end of the sentence."""
    named = [each for each in worn if each.estimator != BASELINE]
    if not named:
        return "."
    most = max(named, key=lambda each: abs(each.shift.mean))
    control = next((each.own for each in worn if each.estimator == BASELINE), None)
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


def warnings(worn: list[Worn]) -> list[str]:
    """Where decoupled ROAR is not to be read as quality."""
    found = []
    for each in worn:
        if each.estimator == BASELINE and (each.own.low > 0 or each.own.high < 0):
            found.append(
                "Own and permuted masks differ for a random ranking, where they must not: read decoupled differences "
                f"below {100 * max(abs(each.own.low), abs(each.own.high)):.1f} points as nothing."
            )
        elif each.shift.low > 0:
            found.append(
                f"{each.estimator}: masks of one's own class help the decoupled network by {each.shift.text(100, 1)} "
                "points, so own minus permuted makes its ranking look worse than it is; read own minus class."
            )
    return found


def by_fraction(answered: Answered) -> pd.DataFrame:
    """Accuracy with own masks, other images' and those of the class, a row per fraction and estimator."""
    rows = []
    for t in answered.part.study.fractions:
        random = answered.accuracy("decoupled", BASELINE, t)
        for name in answered.part.estimators:
            own, permuted, within = (answered.right(p, name, t) for p in DECOUPLED)
            if own is None or permuted is None or within is None:
                continue
            gain, off = mean_of(own - permuted), mean_of(within - permuted)
            rows.append(
                {
                    "estimator": name,
                    "fraction": t,
                    "own mask": own.mean(),
                    "permuted": permuted.mean(),
                    "of its class": within.mean(),
                    "random ranking": random,
                    "own minus permuted": gain.mean,
                    "low": gain.low,
                    "high": gain.high,
                    "class minus permuted": off.mean,
                    "class low": off.low,
                    "class high": off.high,
                }
            )
    return pd.DataFrame(rows)


def decoupled_plot(decoupled: pd.DataFrame, worn: list[Worn]) -> Plot:
    """Own minus permuted over the fractions."""
    named = [each for each in worn if each.estimator != BASELINE]
    better = sum(each.own.high < 0 for each in named)
    return Plot(
        "leakage-decoupled",
        "lines",
        f"Without the leak {better} of {len(named)} estimators find pixels that count",
        "Decoupled ROAR: accuracy with each image's own mask minus that with other images' masks. Below the dashed "
        "line the ranking finds what counts in this image; on it, only the geometry of its masks costs accuracy.",
        decoupled,
        "fraction",
        "own minus permuted",
        "share removed",
        "accuracy, own minus permuted",
        "estimator",
        "low",
        "high",
        reference=0.0,
        reference_label="geometry alone",
        percent=True,
    )
