"""What holes tell: does their shape matter (Song et al., Table 1), may their place tell the class (Li et al.)?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import pandas as pd
from pydantic import Field

from uproar.audits.registry import (
    OWN,
    REMOVED,
    Evidence,
    StudyEvidence,
    Style,
    audit,
    bars,
    conclude,
    lines,
    paired_over_seeds,
)
from uproar.errors import NotApplicable
from uproar.estimators import read_chain
from uproar.expression import Call
from uproar.results.finding import Finding, State
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.study.spec import Study

Share = Annotated[float, Field(gt=0, lt=1)]

# shape

PIXELS, BLOCKS = BASELINE, "block_random"


def _shapes(study: Study, *, margin: float) -> Mapping[str, Study]:
    """Random pixels and random blocks under ROAR."""
    return {"shapes": study.with_changes(estimators=(PIXELS, BLOCKS), metrics=("roar",))}


@audit(
    title="Shape of the holes",
    question="Do removed blocks cost more accuracy than as many scattered pixels?",
    studies=_shapes,
    paper="Song et al., Table 1",
    needs="at least 2 seeds",
)
def geometry(evidence: Evidence, *, margin: Share = 0.01) -> Finding:
    """Random pixels against nested random blocks: neither knows the image, so any gap is geometry alone.

    `holds` needs the gap to be below `margin`, either way, with 95 % confidence.
    """
    curves = {name: evidence["shapes"].accuracy("roar", name) for name in (PIXELS, BLOCKS)}
    pixels, blocks = curves.values()
    shared = [t for t in pixels.columns if t in blocks.columns and t > 0]
    if not shared:
        raise NotApplicable("random and block_random share no finished fraction; see the report's list of problems")
    gaps = {t: paired_over_seeds(blocks[t], pixels[t]) for t in shared}
    whole = _over_the_curve(evidence)
    size, less = f"{100 * abs(whole.value):.1f} ± {100 * whole.half_width:.1f}", whole.value < 0
    consequence = (
        "a coarse map gains or loses by its shape alone, so compare estimators with "
        "`block_random` or `random_blurred` beside `random`."
    )
    if shape_state(whole, margin) == "holds":
        consequence = "shape by itself hardly matters here."
    elif not whole.side:
        consequence = "these replicates cannot tell whether shape matters here."
    rows = [
        {"fraction": t, "ranking": name, "accuracy": v.mean(), "low": v.min(), "high": v.max()}
        for name, curve in curves.items()
        for t, v in curve.items()
    ]
    title = f"Blocks leave {size} points {'less' if less else 'more'} than pixels do"
    reading = "Accuracy after retraining without the removed share; the band spans the replicates."
    axes = (REMOVED, ("accuracy", "accuracy"), "ranking")
    style: Style = {"band": True, "percent": True}
    return Finding(
        shape_state(whole, margin),
        f"Random blocks leave {size} accuracy points {'less than' if less else 'more than'} random pixels "
        f"(mean over the curve, {whole.n} replicates): {consequence}",
        plots=(lines("geometry", title, reading, pd.DataFrame(rows), *axes, **style),),
        tables={
            "blocks minus pixels, accuracy": pd.DataFrame(
                [{"fraction": t, **gap.as_row(with_n=True)} for t, gap in gaps.items()]
            )
        },
        notes=("Both rankings are drawn without looking at the image; blocks are nested rectangles.",),
    )


def _over_the_curve(evidence: Evidence) -> Interval:
    """Blocks minus pixels by the area of the curve: the study's own verdict where it has one."""
    for results in (evidence[OWN], evidence["shapes"]):
        verdicts = results.verdicts("roar")
        if BLOCKS in verdicts.index and not math.isnan(verdicts.loc[BLOCKS, "low"]):
            value, low, high, df, p = (
                float(verdicts.loc[BLOCKS, name]) for name in ("advantage", "low", "high", "df", "p")
            )
            n = int(verdicts.loc[BLOCKS, "n"])
            return -Interval(value, low, high, n, n, df, p)
    raise NotApplicable("random and block_random share fewer than two replicates, or these do not vary")


def shape_state(gap: Interval, margin: float) -> State:
    """Misled by a decided gap; sound if the gap is below the margin either way."""
    sound = -margin < gap.low and gap.high < margin
    return conclude(misleads=gap.side != 0 and not sound, holds=sound)


# place

CENTRE = "centre"
RETRAINED, ORIGINAL, CLEAN = "roar", "roar:no-retrain", "roar:train-only"


def _cue(share: float) -> str:
    return read_chain(str(Call("label_cue", (), (("share", share),)))).name


def _cues(study: Study, *, fraction: float, share: float, margin: float) -> Mapping[str, Study]:
    """The centre removed, with and without a cue of the label; and the cue alone, tested on whole images."""
    if study.features == "channel":
        raise NotApplicable("the cues remove whole pixels; use features = 'pixel'")
    if fraction <= share:
        raise NotApplicable(f"a cue of {share:g} needs a larger share to be removed than {fraction:g}; raise fraction")
    cue = _cue(share)
    return {
        "holes": study.with_changes(estimators=(CENTRE, cue), metrics=(RETRAINED, ORIGINAL), fractions=(fraction,)),
        "edge": study.with_changes(estimators=(cue,), metrics=(CLEAN,), fractions=(share,)),
    }


@audit(
    title="Spurious cues",
    question="Would retraining be fooled by holes whose place leaks the class?",
    studies=_cues,
    paper="Li et al. 2024, section 3.1 and appendix C",
    needs="at least 2 seeds",
)
def spurious(evidence: Evidence, *, fraction: Share = 0.7, share: Share = 0.05, margin: Share = 0.02) -> Finding:
    """The middle of every image is removed, once with a small patch at the edge that depends on the label.

    Both remove the same number of pixels. A network that is retrained and gains by the patch reads the class from the
    hole; the original network cannot. The patch alone, in the training images only, shows what that network misses.
    `holds` needs the gain to be below `margin` with 95 % confidence.
    """
    removed, cue = evidence["holes"], _cue(share)
    accuracy = {
        (metric, name): _at(removed, metric, name, fraction)
        for metric in (RETRAINED, ORIGINAL)
        for name in (CENTRE, cue)
    }
    retrained = paired_over_seeds(accuracy[RETRAINED, cue], accuracy[RETRAINED, CENTRE])
    original = paired_over_seeds(accuracy[ORIGINAL, cue], accuracy[ORIGINAL, CENTRE])
    fooled = paired_over_seeds(
        accuracy[RETRAINED, cue] - accuracy[RETRAINED, CENTRE], accuracy[ORIGINAL, cue] - accuracy[ORIGINAL, CENTRE]
    )
    plain, edge = (_at(evidence["edge"], CLEAN, cue, t) for t in (0.0, share))
    lost = paired_over_seeds(plain, edge)
    differences = {
        "retrained: with cue minus without": retrained,
        "original: with cue minus without": original,
        "gain by retraining (first minus second)": fooled,
        "clean test images: trained clean minus trained with the cue": lost,
    }
    networks = {RETRAINED: "retrained", ORIGINAL: "original"}
    holes = [
        _bar(networks[metric], "centre and cue of the label" if name == cue else "centre", values)
        for (metric, name), values in accuracy.items()
    ]
    edges = [_bar("trained on whole images", "", plain), _bar(f"trained with the cue ({100 * share:g} %)", "", edge)]
    signed = {
        what: f"{100 * gap.value:+.1f} ± {100 * gap.half_width:.1f}"
        for what, gap in (("retrained", retrained), ("original", original), ("lost", lost))
    }
    loses = signed["lost"].lstrip("+")
    titles = (
        f"A cue of the label is worth {signed['retrained']} points to a retrained network",
        f"Trained with the cue, a network loses {loses} points on whole images",
    )
    readings = (
        f"Accuracy with {100 * fraction:g} % of the pixels removed; bars of one network differ in what the hole tells.",
        "Accuracy on unchanged test images; a network that learned from what was left would lose little.",
    )
    axes = (("network", ""), ("accuracy", "accuracy"))
    style: Style = {"band": True, "reference": (1 / len(removed.task.classes), "chance"), "percent": True}
    return Finding(
        place_state(fooled, margin),
        f"Retraining is {'fooled' if fooled.side > 0 else 'not seen to be fooled'}: a cue of the label in "
        f"{100 * share:g} % of the pixels changes the accuracy of retrained networks by {signed['retrained']} points "
        f"and that of the original network by {signed['original']}; trained on images with that cue alone, a network "
        f"loses {loses} points on whole images ({counted(fooled.n, 'replicate')}).",
        plots=(
            bars("spurious", titles[0], readings[0], pd.DataFrame(holes), *axes, "removed", **style),
            bars("spurious-edge", titles[1], readings[1], pd.DataFrame(edges), *axes, **style),
        ),
        tables={
            "differences of accuracy": pd.DataFrame(
                [{"what": what, **gap.as_row(with_n=True), "df": gap.df} for what, gap in differences.items()]
            )
        },
        notes=(
            f"Strategies: `{CENTRE}` and `{cue}`, {100 * fraction:g} % of the pixels each, filled as in the study "
            f"({evidence.study.fill}); the second is {100 * share:g} % at a place that depends on the label.",
            "The cue is planted: it shows what retraining can be fooled by, not that an estimator of the study does "
            "it; for that see the audit `leakage`.",
        ),
    )


def place_state(fooled: Interval, margin: float) -> State:
    """Fooled if retraining gains by the cue what the original network does not."""
    return conclude(misleads=fooled.side > 0, holds=fooled.high < margin)


def _at(evidence: StudyEvidence, metric: str, estimator: str, fraction: float) -> pd.Series:
    accuracy = evidence.accuracy(metric, estimator)
    if fraction not in accuracy.columns:
        raise NotApplicable(
            f"{metric} of {estimator} at t={fraction:g} is not finished; see the report's list of problems"
        )
    return accuracy[fraction]


def _bar(group: str, series: str, values: pd.Series) -> dict[str, object]:
    spread = {"accuracy": float(values.mean()), "low": float(values.min()), "high": float(values.max())}
    return {"network": group, "removed": series, **spread}
