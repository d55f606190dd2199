"""Can sets with planted marks stand for real ones? (Li et al., section 3.2 and appendix D)"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from uproar.audits.agreement import advantage, advantage_table
from uproar.audits.registry import Evidence, StudyEvidence, Style, audit, bars, conclude, heat_map, unique_names
from uproar.data import load
from uproar.data.derived_tasks import stripes_mark
from uproar.errors import BadInput, NotApplicable, one_line
from uproar.estimators import read_chain
from uproar.expression import Call, parse
from uproar.metrics.registry import sign_of
from uproar.results.finding import Finding, Plot, State
from uproar.statistics.design import BASELINE
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.study.spec import Study

NUMBER, STRIPES, REAL, SYNTHETIC = "number", "stripes", "real", "synthetic"
SETS = {
    REAL: "the study's own images",
    NUMBER: "a number marks the class",
    STRIPES: "stripes mark the class",
    SYNTHETIC: "a number on empty images",
}
ATTR, ROAD = "attr_percent", "road"
LEARNED = 0.5
"""Accuracy below which a network cannot be said to look at the marks."""


def _studies(study: Study, base: str, estimators: Sequence[str], place: str, replicates: int) -> Mapping[str, Study]:
    """The same network on marked, empty and real images; maps with and without a prior about the marks."""
    if study.weights is not None:
        raise NotApplicable(
            "the network is given, but marked images need networks of their own; leave `weights` out of the study"
        )
    task = study.tasks[0]
    names = {
        NUMBER: f"semi-natural({task}, kind=number, place={place})",
        STRIPES: f"semi-natural({task}, kind=stripes)",
        SYNTHETIC: f"semi-natural(blank({task}), kind=number, place={place})",
    }
    try:
        for name in names.values():
            load(name)
    except BadInput as error:
        raise NotApplicable(f"marked images cannot be made: {one_line(error)}") from None
    chains = tuple(chains_of(base, estimators, bands_of(task)).values())
    some = {"estimators": chains, "protocols": (), "seeds": study.seeds[:replicates]}
    marked = {part: study.with_changes(tasks=(name,), metrics=(ATTR, ROAD), **some) for part, name in names.items()}
    return {REAL: study.with_changes(metrics=(ROAD,), **some), **marked}


def bands_of(task: str) -> int:
    """How many bands stripes have in a task."""
    data = load(task)
    mark = stripes_mark(len(data.classes), *data.shape[1:])
    return int(mark.boxes.shape[1])


def chains_of(base: str, estimators: Sequence[str], bands: int) -> dict[str, str]:
    """Chains by the name they have in figures."""
    inner = parse(base)
    calls = {"Rect": Call("rect", (inner,)), "Pooling": Call("pooling", (inner,), (("bands", bands),))}
    priors = {title: read_chain(str(call)).name for title, call in calls.items()}
    names = unique_names([read_chain(name).name for name in (base, *estimators)], ())
    return priors | {name: name for name in names}


@audit(
    title="Marked images",
    question="Does a set whose class is in a planted mark tell which maps are good on real images?",
    studies=_studies,
    paper="Li et al., section 3.2",
    needs="images that hold the marks, and a network that is trained in the study",
)
def semi_natural(
    evidence: Evidence,
    *,
    base: str = "ig",
    estimators: tuple[str, ...] = ("grad_cam",),
    place: Literal["corner", "random"] = "corner",
    replicates: Annotated[int, Field(ge=1)] = 3,
) -> Finding:
    """Maps with a prior about the marks' shape, by Attr % and by ROAD, on marked, empty and real images."""
    parts = {name: evidence[name] for name in SETS}
    chains = _named(parts[REAL])
    learned = {name: _accuracy(part) for name, part in parts.items()}
    for name in (NUMBER, STRIPES):
        if learned[name] < LEARNED:
            raise NotApplicable(
                f"the network learned the {name} marks to {learned[name]:.2f} only, so it need not look at them; "
                "use more epochs or images"
            )
    table = scores_of(parts, chains)
    gaps = gaps_of(parts, chains)
    flips = turned_pairs(gaps)
    return Finding(
        state_of(gaps, flips),
        _sentence(table, flips),
        plots=_plots(table, flips),
        tables={
            "scores by set and map": table,
            "pairs that change places": flips,
            "differences of maps by set, positive = the first is better": gaps,
            "accuracy of the networks": pd.DataFrame(
                [{"set": k, "images": SETS[k], "accuracy": v} for k, v in learned.items()]
            ),
        },
        notes=(
            "Labels of marked images are dealt out by chance, so that a network that gets them right looks at the "
            "mark; Attr % is the share of attribution on it. Rect is a rectangle around the map's centre of gravity, "
            "Pooling the mean of each band: priors for the two kinds of marks, which know nothing more of the network.",
            "A pair changes places where one map is better in one set and worse in another, both decided at 5 % with "
            "Holm's correction over all metrics, pairs and sets.",
        ),
    )


def _named(part: StudyEvidence) -> dict[str, str]:
    """The maps of the part by the name they have in figures."""
    titles = {"rect": "Rect", "pooling": "Pooling"}
    return {titles.get(parse(name).name, name): name for name in part.estimators if name != BASELINE}


def _accuracy(part: StudyEvidence) -> float:
    """Accuracy on unchanged images: ROAD's first point, where nothing is removed."""
    done = part.scores[part.scores["metric"] == ROAD]
    if done.empty:
        raise NotApplicable(f"no map has a finished {ROAD} score")
    return float(
        np.mean([part.responses(ROAD, row.estimator, row.seed)["curve"][:, 0].mean() for row in done.itertuples()])
    )


def scores_of(parts: Mapping[str, StudyEvidence], chains: Mapping[str, str]) -> pd.DataFrame:
    """Each map's score in each set: Attr % where there are marks, ROAD everywhere (lower is better)."""
    means = {place: part.scores.groupby(["metric", "estimator"])["value"].mean() for place, part in parts.items()}
    rows = [
        (place, title, metric, values[metric, chain])
        for place, values in means.items()
        for title, chain in chains.items()
        for metric in (ATTR, ROAD)
        if (metric, chain) in values.index
    ]
    return pd.DataFrame(rows, columns=["set", "map", "metric", "value"])


def gaps_of(parts: Mapping[str, StudyEvidence], chains: Mapping[str, str]) -> pd.DataFrame:
    """How much better one map is than another, by metric and set; `side` where decided, with Holm over all rows."""
    gaps = (
        ((metric, a, b, name), advantage(part, metric, chains[a], chains[b]))
        for metric in (ATTR, ROAD)
        for a, b in itertools.combinations(chains, 2)
        for name, part in parts.items()
    )
    return advantage_table(gaps, ["metric", "map", "other", "set"], "gap")


def turned_pairs(gaps: pd.DataFrame) -> pd.DataFrame:
    """Pairs of maps of which each is decidedly better in one set and worse in another, by one metric."""
    rows = []
    for (metric, a, b), group in gaps.groupby(["metric", "map", "other"], sort=False):
        ahead, behind = group[group["side"] > 0], group[group["side"] < 0]
        for first, second in itertools.product(ahead.itertuples(), behind.itertuples()):
            rows.append((metric, a, b, first.set, first.gap, second.set, -second.gap))
    columns = ["metric", "map", "other", "better_in", "by", "worse_in", "worse_by"]
    return pd.DataFrame(rows, columns=columns)


def state_of(gaps: pd.DataFrame, flips: pd.DataFrame) -> State:
    """Misleads where maps change places between sets; holds where some pair is clear in all sets and none changes."""
    road = gaps[gaps["metric"] == ROAD].groupby(["map", "other"])["side"]
    clear = road.agg(lambda side: bool((side != 0).all()) and len(side) == len(SETS))
    return conclude(misleads=len(flips) > 0, holds=bool(clear.any()))


def _sentence(table: pd.DataFrame, flips: pd.DataFrame) -> str:
    attr = table[table["metric"] == ATTR].set_index(["set", "map"])["value"]
    text = (
        f"Attr % of Rect and Pooling is {attr[NUMBER, 'Rect']:.2f} and {attr[NUMBER, 'Pooling']:.2f} on number marks, "
        f"{attr[STRIPES, 'Rect']:.2f} and {attr[STRIPES, 'Pooling']:.2f} on stripes; by ROAD the best map is "
        f"{_best(table, NUMBER)} on number marks, {_best(table, SYNTHETIC)} on empty images with them and "
        f"{_best(table, REAL)} on real images"
    )
    if not len(flips):
        return f"{text}; no two maps clearly change places between sets."
    pairs = flips[["map", "other"]].drop_duplicates()
    first = flips.iloc[0]
    return (
        f"{text}; {counted(len(pairs), 'pair')} of maps change places between sets, e.g. "
        f"{first['map']} is better than {first['other']} on {first['better_in']} by {first['by']:.3f} and worse on "
        f"{first['worse_in']} by {first['worse_by']:.3f} ({first['metric']})."
    )


def _best(table: pd.DataFrame, place: str) -> str:
    own = table[(table["metric"] == ROAD) & (table["set"] == place)]
    return str(own.loc[(sign_of(ROAD) * own["value"]).idxmax(), "map"])


def _plots(table: pd.DataFrame, flips: pd.DataFrame) -> tuple[Plot, ...]:
    attr, road = table[table["metric"] == ATTR], table[table["metric"] == ROAD]
    best = {place: str(group.loc[group["value"].idxmax(), "map"]) for place, group in attr.groupby("set", sort=False)}
    by_attr = f"{best[NUMBER]} finds number marks best, {best[STRIPES]} finds stripes best"
    by_road = f"ROAD prefers {_best(table, NUMBER)} on number marks and {_best(table, REAL)} on real images"
    readings = (
        "Share of the attribution on the mark; a map with the right prior scores high without knowing more.",
        "Area under ROAD's accuracy curve, lower is better; bars of one colour should keep their order from set "
        "to set.",
    )
    axes = (("set", "set"), ("map", "map"))
    style: Style = {"value": "value", "percent": True}
    bar_axes = (("set", "set"), ("value", "ROAD (lower is better)"), "map")
    return (
        heat_map("semi-natural-attr", by_attr, readings[0], attr, *axes, **style),
        bars("semi-natural-road", by_road, readings[1], road, *bar_axes),
    )
