"""Does the shape of what is removed matter, whatever is in it? (Song et al., Table 1)"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import pandas as pd
from pydantic import Field

from uproar.audits.plots import REMOVED, lines
from uproar.audits.registry import OWN, Evidence, audit, conclude, paired_over_seeds
from uproar.errors import NotApplicable
from uproar.results.finding import Finding, Plot, State
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval

if TYPE_CHECKING:
    from uproar.study.spec import Study

PIXELS, BLOCKS = BASELINE, "block_random"


def _studies(study: Study, *, margin: float) -> Mapping[str, Study]:
    """Random pixels and random blocks under ROAR."""
    return {"shapes": study.with_changes(estimators=(PIXELS, BLOCKS), protocols=("roar",), metrics=())}


@audit(
    title="Shape of the holes",
    question="Do removed blocks cost more accuracy than as many scattered pixels?",
    studies=_studies,
    paper="Song et al., Table 1",
    needs="at least 2 seeds",
)
def geometry(evidence: Evidence, *, margin: Annotated[float, Field(gt=0, lt=1)] = 0.01) -> Finding:
    """Random pixels against nested random blocks: neither knows the image, so any gap is geometry alone.

    `holds` needs the gap to be below `margin`, either way, with 95 % confidence.
    """
    part = evidence["shapes"]
    pixels, blocks = (part.accuracy("roar", name) for name in (PIXELS, BLOCKS))
    shared = [t for t in pixels.columns if t in blocks.columns and t > 0]
    if not shared:
        raise NotApplicable("random and block_random share no finished fraction; see the report's list of problems")
    gaps = {t: paired_over_seeds(blocks[t], pixels[t]) for t in shared}
    table = pd.DataFrame([{"fraction": t, **gap.as_row(with_n=True)} for t, gap in gaps.items()])
    whole = _over_the_curve(evidence)
    than = "less than" if whole.value < 0 else "more than"
    return Finding(
        state(whole, margin),
        f"Random blocks leave {_points(whole)} accuracy points {than} random pixels "
        f"(mean over the curve, {whole.n} replicates): " + _consequence(whole, margin),
        plots=(_plot({PIXELS: pixels, BLOCKS: blocks}, whole),),
        tables={"blocks minus pixels, accuracy": table},
        notes=("Both rankings are drawn without looking at the image; blocks are nested rectangles.",),
    )


def _over_the_curve(evidence: Evidence) -> Interval:
    """Blocks minus pixels by the area of the curve: the study's own verdict where it has one."""
    for part in (evidence[OWN], evidence["shapes"]):
        verdicts = part.verdicts("roar")
        if BLOCKS in verdicts.index and not math.isnan(verdicts.loc[BLOCKS, "low"]):
            value, low, high, df, p = (
                float(verdicts.loc[BLOCKS, name]) for name in ("advantage", "low", "high", "df", "p")
            )
            n = int(verdicts.loc[BLOCKS, "n"])
            return -Interval(value, low, high, n, n, df, p)
    raise NotApplicable("random and block_random share fewer than two replicates, or these do not vary")


def state(gap: Interval, margin: float) -> State:
    """Misled by a decided gap; sound if the gap is below the margin either way."""
    sound = -margin < gap.low and gap.high < margin
    return conclude(misleads=gap.side != 0 and not sound, holds=sound)


def _points(gap: Interval) -> str:
    return f"{100 * abs(gap.value):.1f} ± {100 * gap.half_width:.1f}"


def _consequence(gap: Interval, margin: float) -> str:
    if state(gap, margin) == "holds":
        return "shape by itself hardly matters here."
    if not gap.side:
        return "these replicates cannot tell whether shape matters here."
    return (
        "a coarse map gains or loses by its shape alone, so compare estimators with "
        "`block_random` or `random_blurred` beside `random`."
    )


def _plot(accuracy: Mapping[str, pd.DataFrame], gap: Interval) -> Plot:
    rows = [
        {"fraction": t, "ranking": name, "accuracy": v.mean(), "low": v.min(), "high": v.max()}
        for name, frame in accuracy.items()
        for t, v in frame.items()
    ]
    return lines(
        "geometry",
        f"Blocks leave {_points(gap)} points {'less' if gap.value < 0 else 'more'} than pixels do",
        "Accuracy after retraining without the removed share; the band spans the replicates.",
        pd.DataFrame(rows),
        REMOVED,
        ("accuracy", "accuracy"),
        "ranking",
        band=True,
        percent=True,
    )
