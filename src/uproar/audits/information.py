"""How much the removed-mask alone tells of the class, and why a better ROAR score may mean knowing less."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from uproar.audits.plots import REMOVED, lines
from uproar.audits.predictions import Predictions
from uproar.audits.registry import Evidence, audit, conclude
from uproar.audits.theorems import theorem_one, theorem_two
from uproar.errors import NotApplicable
from uproar.results.finding import Finding, Plot, State
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval, crossed_mean

if TYPE_CHECKING:
    from uproar.study.spec import Study

MASK = "roar:mask"
MUCH = 0.1
"""Share of the class's entropy that counts as telling the class."""


def _studies(study: Study) -> Mapping[str, Study]:
    return {"masks": study.with_changes(protocols=(MASK,), metrics=())}


@audit(
    title="Information in the mask",
    question="How many bits about the class does the removed-mask carry, without any pixel?",
    studies=_studies,
    paper="Song et al., Theorems 3.1 and 3.2",
)
def information(evidence: Evidence) -> Finding:
    """H(Y) minus the held-out loss in bits of a network that sees the masks alone: a lower bound of I(M; Y)."""
    part = evidence["masks"]
    predictions = Predictions(part)
    bits = predictions.entropy
    rows = [
        {"estimator": estimator, "fraction": t, **crossed_mean(bits - nll, worst=0.0).as_row()}
        for estimator, t, (nll,) in predictions.finished(predictions.nll_bits, (MASK,))
    ]
    if not rows:
        raise NotApplicable("no network that sees masks alone is finished")
    table = pd.DataFrame(rows)
    others = table[table["estimator"] != BASELINE]
    top = (others if len(others) else table).sort_values("low").iloc[-1]
    most = Interval(top["mean"], top["low"], top["high"])
    sentence = (
        f"A removed-mask alone tells at least {most.text()} of the {bits:.2f} bits of the class "
        f"({top['estimator']} at t = {top['fraction']:g}), and a random mask "
        f"{_random(table, top['fraction'])}."
    )
    return Finding(
        _state(others, bits),
        sentence,
        plots=(_plot(table, bits, most, str(top["estimator"])),),
        tables={
            "information of the mask about the class, bits, at least": table,
            "Theorem 3.2: a better score by knowing less, bits": _listed(theorem_two()),
            "Theorem 3.1: the most that any processing gained, bits": _listed(theorem_one()),
        },
        notes=(
            "The loss of a trained network is never less than what is really missing, so these are lower bounds: "
            "a stronger network may read more from the masks.",
            "Theorem 3.2 is shown for two pixels, by enumeration: post-processing erases all that the attribution "
            "said of the explainer, 1 bit, and ROAR calls it better, 0 bits left instead of 0.344.",
            "Part of what a mask tells is the honest shape of the object: compare with a map that knows no model.",
        ),
    )


def _state(table: pd.DataFrame, bits: float) -> State:
    much = MUCH * bits
    return conclude(
        misleads=bool((table["low"] > much).any()), holds=len(table) > 0 and bool((table["high"] < much).all())
    )


def _random(table: pd.DataFrame, fraction: float) -> str:
    rows = table[(table["estimator"] == BASELINE) & (table["fraction"] == fraction)]
    if rows.empty:
        return "was not measured"
    row = rows.iloc[0]
    return Interval(row["mean"], row["low"], row["high"]).text()


def _listed(values: Mapping[str, float]) -> pd.DataFrame:
    return pd.DataFrame({"quantity": list(values), "bits": list(values.values())})


def _plot(table: pd.DataFrame, bits: float, most: Interval, name: str) -> Plot:
    return lines(
        "information",
        f"The masks of {name} alone tell at least {most.text(digits=1)} of {bits:.1f} bits",
        "Bits about the class that a network reads from the removed-mask without any pixel; 0: nothing, the dashed "
        "line: all. The band is a 95 % interval over replicates and images.",
        table,
        REMOVED,
        ("mean", "bits"),
        "estimator",
        band=True,
        reference=(bits, "all there is to know"),
    )
