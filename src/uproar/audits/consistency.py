"""Does the setting of a metric decide? Insertion and deletion in six settings each (Vandersmissen and Oramas, 4.2)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import pandas as pd
from pydantic import Field

from uproar.audits.plots import heat_map
from uproar.audits.registry import Evidence, StudyEvidence, audit, conclude
from uproar.audits.values_per_image import values_per_image
from uproar.data import load
from uproar.errors import NotApplicable
from uproar.metrics.registry import read_metric
from uproar.results.finding import Finding, Plot, State
from uproar.statistics.correlation import concordance
from uproar.statistics.design import ALPHA
from uproar.statistics.metric_pairs import ValuesPerImage, both_ways, over_images_p, pairwise, per_estimator
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.study.spec import Study

Count = Annotated[int, Field(ge=1)]

SETTINGS = "settings"
KINDS, FILLS, UNITS = ("insertion", "deletion"), ("mean", "blur", "uniform"), ("pixel", "region")
WINDOW = 9
"""Side of a region, on images of at least 27 pixels; a third of the side on smaller ones."""

RELIABLE = 0.7
"""The usual least correlation of two forms of one test."""


def window_of(height: int, width: int) -> int | None:
    """The side of a region for images of this size; None where images are too small to have regions.

    >>> window_of(224, 224), window_of(16, 16), window_of(8, 8), window_of(1, 200)
    (9, 5, 3, None)
    """
    side = min(height, width)
    return None if side < 6 else min(WINDOW, side // 3 + (side // 3 + 1) % 2)


def settings(kind: str, window: int | None, steps: int, repeats: int | None = None) -> dict[str, str]:
    """The settings of a metric by a short name, e.g. `blur+region`."""
    metrics = {}
    for unit in UNITS:
        for fill in FILLS:
            options = [f"steps={steps}", f"fill={fill}", f"unit={unit}"]
            options += [f"window={window}"] if unit == "region" else []
            options += [f"repeats={repeats}"] if fill == "uniform" and repeats else []
            if unit == "pixel" or window is not None:
                metrics[f"{fill}+{unit}"] = str(read_metric(f"{kind}({', '.join(options)})"))
    return metrics


def _studies(study: Study, steps: int, window: int | None, repeats: int | None, replicates: int) -> Mapping[str, Study]:
    """Insertion and deletion in all settings on the first replicates."""
    size = window or window_of(*load(study.tasks[0]).shape[1:])
    names = [name for kind in KINDS for name in settings(kind, size, steps, repeats).values()]
    return {SETTINGS: study.with_changes(metrics=tuple(names), protocols=(), seeds=study.seeds[:replicates])}


@audit(
    title="Settings of insertion and deletion",
    question="Do fill and unit decide what insertion and deletion say of a map?",
    studies=_studies,
    paper="Vandersmissen and Oramas, section 4.2",
    needs="an estimator beside random and 10 test images",
)
def consistency(
    evidence: Evidence,
    *,
    steps: Count = 20,
    window: Count | None = None,
    repeats: Count | None = None,
    replicates: Count = 1,
) -> Finding:
    """Spearman's correlation over images between every two settings, per estimator and averaged."""
    part = evidence[SETTINGS]
    compared = {kind: _compared(part, kind) for kind in KINDS}
    pairs = pd.concat([table for _, table in compared.values()], ignore_index=True)
    lowest = pairs.loc[pairs["over_images"].idxmin()]
    data = next(data for data, _ in compared.values())
    return Finding(
        state_of(pairs),
        _sentence(compared, lowest, data),
        plots=tuple(_plot(kind, table) for kind, (_, table) in compared.items()),
        tables={f"{kind}: every two settings": table for kind, (_, table) in compared.items()}
        | {f"{kind}: per estimator": _renamed(per_estimator(d)) for kind, (d, _) in compared.items()},
        notes=_notes(part, data),
    )


def state_of(pairs: pd.DataFrame) -> State:
    """Whether every two settings of a metric are clearly above, or some clearly below, what makes a test reliable.

    Below goes by Holm over all pairs: among thirty, one is easily below by chance.
    """
    below = (over_images_p(pairs, RELIABLE) <= ALPHA) & (pairs["over_images"] < RELIABLE)
    return conclude(misleads=bool(below.any()), holds=bool((pairs["over_low"] >= RELIABLE).all()))


def _compared(part: StudyEvidence, kind: str) -> tuple[ValuesPerImage, pd.DataFrame]:
    names = [name for name in part.study.metric_names if read_metric(name).name == kind]
    data = values_per_image(part, names, least=1)
    table = _renamed(pairwise(data, None)).drop(columns=["i", "j", "given_clean_score", "p_opposed", "opposed"])
    table.insert(0, "kind", kind)
    if not table["over_images"].notna().any():
        raise NotApplicable(f"{kind} gives every image the same value; a network that has learned something is needed")
    return data, table


def _renamed(table: pd.DataFrame) -> pd.DataFrame:
    """Metrics by the short names of their settings."""
    return table.assign(**{column: [short(name) for name in table[column]] for column in ("metric", "other")})


def short(metric: str) -> str:
    """A setting's short name.

    >>> short("insertion(fill=blur, steps=20, unit=region, window=9)")
    'blur+region'
    """
    options = dict(read_metric(metric).options)
    return f"{options.get('fill', 'mean')}+{options.get('unit', 'pixel')}"


def _sentence(
    compared: Mapping[str, tuple[ValuesPerImage, pd.DataFrame]], lowest: pd.Series, data: ValuesPerImage
) -> str:
    means = " and ".join(f"{table['over_images'].mean():.2f} ({kind})" for kind, (_, table) in compared.items())
    return (
        f"Settings of one metric correlate over images by {means} on average over {len(data.estimators)} "
        f"estimators, least {lowest['metric']} with {lowest['other']} in {lowest['kind']}: "
        f"{lowest['over_images']:.2f} [{lowest['over_low']:.2f}, {lowest['over_high']:.2f}], where {RELIABLE} is the "
        f"usual bar{_orders(compared)}."
    )


def _orders(compared: Mapping[str, tuple[ValuesPerImage, pd.DataFrame]]) -> str:
    """How alike the settings order the estimators, where there are three or more."""
    parts = []
    for kind, (data, _) in compared.items():
        levels = _means(data)
        if len(data.estimators) >= 3 and levels.notna().all(axis=None):
            parts.append(f"{concordance(levels.to_numpy())[0]:.2f} ({kind})")
    return f"; they order the estimators with Kendall's W = {' and '.join(parts)}" if parts else ""


def _means(data: ValuesPerImage) -> pd.DataFrame:
    """Mean over images and replicates: a row per setting, a column per estimator."""
    frames = pd.DataFrame(data.values.transpose(0, 2, 1, 3).reshape(len(data.metrics) * len(data.estimators), -1))
    means = frames.mean(axis=1).to_numpy().reshape(len(data.metrics), len(data.estimators))
    return pd.DataFrame(means, index=list(data.metrics), columns=list(data.estimators))


def _plot(kind: str, table: pd.DataFrame) -> Plot:
    lowest = table.loc[table["over_images"].idxmin()]
    return heat_map(
        f"consistency-{kind}",
        f"{kind.capitalize()}: {lowest['metric']} and {lowest['other']} agree least ({lowest['over_images']:.2f})",
        "Spearman's correlation over images between two settings, mean over estimators; 1: the setting does not "
        "matter for the order of images.",
        both_ways(table, "over_images"),
        ("metric", "setting"),
        ("other", "setting"),
        value="correlation",
        diverging=True,
    )


def _notes(part: StudyEvidence, data: ValuesPerImage) -> tuple[str, ...]:
    windows = {dict(read_metric(name).options).get("window") for name in part.study.metric_names} - {None}
    size = next(iter(windows), None)
    regions = (
        "These images are too small for regions: only single pixels are changed."
        if size is None
        else f"A region has {size}×{size} pixels."
    )
    return (
        *data.notes,
        f"{regions} {data.images} images, {counted(len(data.seeds), 'replicate')}; uniform noise "
        "is averaged over draws.",
        "Some images are easy in every setting, which makes settings correlate over images whatever the maps; "
        "`within_images` takes that out.",
    )
