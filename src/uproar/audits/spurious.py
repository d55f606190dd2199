"""Would retraining be fooled by a hole that gives the class away? (Li et al. 2024, section 3.1 and appendix C)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import pandas as pd
from pydantic import Field

from uproar.audits.plots import bars
from uproar.audits.registry import Evidence, StudyEvidence, audit, conclude, paired_over_seeds
from uproar.errors import NotApplicable
from uproar.estimators import read_chain
from uproar.expression import Call
from uproar.results.finding import Finding, Plot, State
from uproar.statistics.intervals import Interval
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.study.spec import Study

Share = Annotated[float, Field(gt=0, lt=1)]
CENTRE = "centre"
RETRAINED, ORIGINAL, CLEAN = "roar", "roar:no-retrain", "roar:train-only"


def _cue(share: float) -> str:
    return read_chain(str(Call("label_cue", (), (("share", share),)))).name


def _studies(study: Study, *, fraction: float, share: float, margin: float) -> Mapping[str, Study]:
    """The centre removed, with and without a cue of the label; and the cue alone, tested on whole images."""
    if study.features == "channel":
        raise NotApplicable("the cues remove whole pixels; use features = 'pixel'")
    if fraction <= share:
        raise NotApplicable(f"a cue of {share:g} needs a larger share to be removed than {fraction:g}; raise fraction")
    cue = _cue(share)
    return {
        "holes": study.with_changes(
            estimators=(CENTRE, cue), protocols=(RETRAINED, ORIGINAL), fractions=(fraction,), metrics=()
        ),
        "edge": study.with_changes(estimators=(cue,), protocols=(CLEAN,), fractions=(share,), metrics=()),
    }


@audit(
    title="Spurious cues",
    question="Would retraining be fooled by holes whose place gives the class away?",
    studies=_studies,
    paper="Li et al. 2024, section 3.1 and appendix C",
    needs="at least 2 seeds",
)
def spurious(
    evidence: Evidence,
    *,
    fraction: Share = 0.7,
    share: Share = 0.05,
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.02,
) -> Finding:
    """The middle of every image is removed, once with a small patch at the edge that depends on the label.

    Both remove the same number of pixels. A network that is retrained and gains by the patch reads the class from the
    hole; the original network cannot. The patch alone, in the training images only, shows what that network misses.
    `holds` needs the gain to be below `margin` with 95 % confidence.
    """
    part, cue = evidence["holes"], _cue(share)
    accuracy = {
        (protocol, name): _at(part, protocol, name, fraction)
        for protocol in (RETRAINED, ORIGINAL)
        for name in (CENTRE, cue)
    }
    retrained = paired_over_seeds(accuracy[RETRAINED, cue], accuracy[RETRAINED, CENTRE])
    original = paired_over_seeds(accuracy[ORIGINAL, cue], accuracy[ORIGINAL, CENTRE])
    fooled = paired_over_seeds(
        accuracy[RETRAINED, cue] - accuracy[RETRAINED, CENTRE], accuracy[ORIGINAL, cue] - accuracy[ORIGINAL, CENTRE]
    )
    edge = _at(evidence["edge"], CLEAN, cue, share)
    plain = _at(evidence["edge"], CLEAN, cue, 0.0)
    lost = paired_over_seeds(plain, edge)
    table = pd.DataFrame(
        [
            {"what": what, **difference.as_row(with_n=True), "df": difference.df}
            for what, difference in (
                ("retrained: with cue minus without", retrained),
                ("original: with cue minus without", original),
                ("gain by retraining (first minus second)", fooled),
                ("clean test images: trained clean minus trained with the cue", lost),
            )
        ]
    )
    chance = 1 / len(part.task.classes)
    return Finding(
        state(fooled, margin),
        _sentence(fooled, retrained, original, lost, share),
        plots=(_holes(accuracy, cue, fraction, retrained, chance), _edge(plain, edge, share, lost, chance)),
        tables={"differences of accuracy": table},
        notes=(
            f"Strategies: `{CENTRE}` and `{cue}`, {100 * fraction:g} % of the pixels each, filled as in the study "
            f"({evidence.study.fill}); the second is {100 * share:g} % at a place that depends on the label.",
            "The cue is planted: it shows what retraining can be fooled by, not that an estimator of the study does "
            "it; for that see the audit `leakage`.",
        ),
    )


def state(fooled: Interval, margin: float) -> State:
    """Fooled if retraining gains by the cue what the original network does not."""
    return conclude(misleads=fooled.side > 0, holds=fooled.high < margin)


def _at(part: StudyEvidence, protocol: str, estimator: str, fraction: float) -> pd.Series:
    accuracy = part.accuracy(protocol, estimator)
    if fraction not in accuracy.columns:
        raise NotApplicable(
            f"{protocol} of {estimator} at t={fraction:g} is not finished; see the report's list of problems"
        )
    return accuracy[fraction]


def _signed(gap: Interval) -> str:
    return f"{100 * gap.value:+.1f} ± {100 * gap.half_width:.1f}"


def _sentence(fooled: Interval, retrained: Interval, original: Interval, lost: Interval, share: float) -> str:
    caught = fooled.side > 0
    verdict = f"Retraining is {'fooled' if caught else 'not seen to be fooled'}"
    return (
        f"{verdict}: a cue of the label in {100 * share:g} % of the pixels changes the accuracy of retrained networks "
        f"by {_signed(retrained)} points and that of the original network by {_signed(original)}; trained on images "
        f"with that cue alone, a network loses {_signed(lost).lstrip('+')} points on whole images "
        f"({counted(fooled.n, 'replicate')})."
    )


def _bar(group: str, series: str, values: pd.Series) -> dict[str, object]:
    spread = {"accuracy": float(values.mean()), "low": float(values.min()), "high": float(values.max())}
    return {"network": group, "removed": series, **spread}


def _holes(
    accuracy: Mapping[tuple[str, str], pd.Series], cue: str, fraction: float, gap: Interval, chance: float
) -> Plot:
    rows = [
        _bar(
            {RETRAINED: "retrained", ORIGINAL: "original"}[protocol],
            "centre and cue of the label" if name == cue else "centre",
            values,
        )
        for (protocol, name), values in accuracy.items()
    ]
    return bars(
        "spurious",
        f"A cue of the label is worth {_signed(gap)} points to a retrained network",
        f"Accuracy with {100 * fraction:g} % of the pixels removed; bars of one network differ in what the hole tells.",
        pd.DataFrame(rows),
        ("network", ""),
        ("accuracy", "accuracy"),
        "removed",
        band=True,
        reference=(chance, "chance"),
        percent=True,
    )


def _edge(plain: pd.Series, edge: pd.Series, share: float, lost: Interval, chance: float) -> Plot:
    rows = [_bar("trained on whole images", "", plain), _bar(f"trained with the cue ({100 * share:g} %)", "", edge)]
    return bars(
        "spurious-edge",
        f"Trained with the cue, a network loses {_signed(lost).lstrip('+')} points on whole images",
        "Accuracy on unchanged test images; a network that learned from what was left would lose little.",
        pd.DataFrame(rows),
        ("network", ""),
        ("accuracy", "accuracy"),
        band=True,
        reference=(chance, "chance"),
        percent=True,
    )
