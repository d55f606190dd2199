"""Figures of Vandersmissen and Oramas 2023: curves of insertion and deletion, and how far metrics agree."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from uproar.claims.found import bare, read_higher
from uproar.claims.vandersmissen2023 import (
    BLURRED,
    BLURS,
    COARSE,
    SPARSE,
    average_drop,
    binary_drop,
    deletion,
    insertion,
)
from uproar.errors import NotApplicable
from uproar.report.figures import some
from uproar.report.multiples import Cells, Multiples
from uproar.report.papers.base import Beside, Exhibit, Seen, exhibit
from uproar.report.papers.curves import metric_window
from uproar.report.words import LEVEL, NOTHING, known, number

PAPER = "vandersmissen2023"
METHODS = {
    "ada_sise": "adaSISE", "grad_cam": "Grad-CAM", "ig": "IG", "lrp": "LRP", "occlusion": "Occlusion", "rise": "RISE",
    "sg(grad)": "SmoothGrad", "tame": "TAME",
}  # fmt: skip
"""By what they are, as the paper calls them, in its order."""


def _areas(seen: Seen, metric: str, names: Sequence[str]) -> dict[str, float]:
    """The mean over images by what an estimator is; those the study has."""
    found = {bare(n): n for n in seen.found.scored_by(metric)}
    sign = 1 if read_higher(metric) else -1
    return {
        n: sign * float(seen.found.per_image(metric, found[n]).mean()) for n in names if n in found
    }


# Figure 2

TABLE: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("pointing game ↑", "pointing_game", (92.77, 86.30, 81.72, 80.31, 83.66, 91.94, 89.45, 83.26)),
    ("average drop % ↓", "average_drop", (47.05, 14.96, 96.85, 66.26, 94.77, 14.02, 96.99, 27.45)),
    ("increase in confidence % ↑", "increase_in_confidence",
     (20.04, 41.51, 1.81, 9.40, 2.68, 43.90, 1.67, 35.93)),
    ("ROAD ↓", "road", (0.166, 0.201, 0.292, 0.199, 0.238, 0.170, 0.447, 0.206)),
)  # fmt: skip
"""Published for ResNet-50 on ImageNet, in the order of METHODS."""


@exhibit(PAPER, "Figure 2")
def scores(seen: Seen) -> Exhibit:
    """Insertion and deletion curves, and the other metrics as a table."""
    windows = (
        metric_window(seen, insertion(seen.found), "insertion (higher is better)", METHODS),
        metric_window(seen, deletion(seen.found), "deletion (lower is better)", METHODS),
    )
    parts = []
    for what, metric in (("Insertion", insertion(seen.found)), ("deletion", deletion(seen.found))):
        areas = _areas(seen, metric, list(METHODS))
        if not areas:
            raise NotApplicable(f"{metric} has no value of its estimators yet")
        best = (min if what == "deletion" else max)(areas, key=lambda n: areas[n])
        parts.append(f"{what} favours {METHODS[best]} ({areas[best]:.2f})")
    reading = (
        f"Probability of the class while pixels come or go, most important first: mean over images, bands {LEVEL} "
        "interval. Dashed: a random map."
    )
    return Exhibit(
        "curves", ", ".join(parts), reading, Multiples("", "", windows, 2), _scores(seen)
    )


def _scores(seen: Seen) -> Beside:
    there = {bare(n) for m in seen.found.values["metric"].unique() for n in seen.found.scored_by(str(m))}  # fmt: skip
    rows = []
    for what, kind, published in TABLE:
        rows.append((f"{what}, published", *(number(v, 4) for v in published)))
        scale = 1 if kind == "road" else 100
        try:
            metric = average_drop(seen.found) if kind == "average_drop" else seen.found.metric(kind)
            areas = _areas(seen, metric, list(METHODS))
        except NotApplicable:
            areas = {}
        rows.append(
            (f"{what}, here", *(number(scale * areas[n], 3) if n in areas else NOTHING for n in METHODS))
        )  # fmt: skip
    missing = [label for name, label in METHODS.items() if name not in there]
    without = f" The study has no {', '.join(missing)}." if missing else ""
    return Beside(
        ("", *METHODS.values()), tuple(rows),
        f"Published: ResNet-50 on 5,000 ImageNet images; here: {seen.section.model} on {seen.section.task}.{without}",
    )  # fmt: skip


# Table 2

PAIRS: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("insertion & deletion", (-0.662, -0.695, -0.677, -0.659, -0.644, -0.676, -0.715, -0.640)),
    ("insertion & avg. drop", (0.090, 0.172, -0.349, 0.101, -0.322, 0.017, -0.349, 0.243)),
    ("insertion & pointing", (-0.179, -0.137, -0.135, -0.155, -0.129, -0.212, -0.131, -0.215)),
    ("insertion & ROAD", (-0.715, -0.724, -0.788, -0.698, -0.746, -0.712, -0.900, -0.668)),
    ("deletion & avg. drop", (0.008, -0.063, 0.318, -0.146, 0.309, 0.106, 0.272, 0.042)),
    ("deletion & pointing", (0.060, 0.084, 0.014, 0.040, -0.038, 0.088, 0.049, -0.051)),
    ("deletion & ROAD", (0.900, 0.918, 0.781, 0.810, 0.853, 0.904, 0.698, 0.928)),
    ("avg. drop & pointing", (-0.036, -0.047, 0.076, -0.056, 0.070, -0.089, 0.084, -0.300)),
    ("avg. drop & ROAD", (0.075, -0.049, 0.405, 0.011, 0.369, 0.127, 0.398, 0.061)),
    ("pointing & ROAD", (-0.062, -0.080, -0.086, -0.047, 0.000, -0.084, -0.129, 0.059)),
)  # fmt: skip
KINDS: dict[str, Callable[..., str]] = {
    "insertion": insertion, "deletion": deletion, "avg. drop": average_drop,
    "pointing": lambda found: found.metric("pointing_game"), "ROAD": lambda found: found.metric("road"),
}  # fmt: skip


@exhibit(PAPER, "Table 2")
def agreement(seen: Seen) -> Exhibit:
    """Correlations of metrics over images, by estimator, here and as published."""
    ours: list[tuple[str, dict[str, float]]] = []
    for pair, _ in PAIRS:
        a, b = pair.split(" & ")
        try:
            first, second = KINDS[a](seen.found), KINDS[b](seen.found)
            found = seen.found.correlations(first, second, binary="pointing" in (a, b))
        except NotApplicable:
            continue
        ours.append((pair, {bare(n): v for n, v in found.items() if bare(n) in METHODS}))
    columns = [n for n in METHODS if any(n in row for _, row in ours)]
    if not ours or not columns:
        raise NotApplicable("the study has no two of its metrics and none of its estimators")
    rows = tuple(pair for pair, _ in ours)
    here = _cells("here", rows, columns, [[row.get(n, math.nan) for n in columns] for _, row in ours])  # fmt: skip
    order, known_pairs = list(METHODS), dict(PAIRS)
    theirs = [[known_pairs[pair][order.index(n)] for n in columns] for pair in rows]
    published = _cells("published (ResNet-50, ImageNet)", rows, columns, theirs)
    same, total = _same_signs(here, published)
    title = f"{same} of {total} correlations between metrics have the published sign"
    opposed = [v for pair, row in ours if pair == PAIRS[0][0] for v in row.values()]
    if opposed:
        title += f"; insertion and deletion: {_range(opposed)}"
    reading = (
        "Spearman's correlation over images, every metric turned so that higher is better; with the pointing game the "
        "point-biserial one. Blue: the metrics agree; red: they contradict each other."
    )
    return Exhibit("agreement", title, reading, Multiples("", "", (here, published)))


def _cells(
    title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]],
    names: dict[str, str] = METHODS,
) -> Cells:  # fmt: skip
    return Cells(
        title, tuple(names.get(c, c) for c in columns), tuple(rows), tuple(tuple(map(some, row)) for row in values),
        tuple(tuple(map(_word, row)) for row in values), good="high",
    )  # fmt: skip


def _word(value: float) -> str:
    return f"{value:.2f}".replace("-", "−") if known(value) else NOTHING


def _same_signs(a: Cells, b: Cells) -> tuple[int, int]:
    pairs = [
        (x, y)
        for one, two in zip(a.values, b.values, strict=True)
        for x, y in zip(one, two, strict=True)
        if x is not None and y is not None
    ]
    return sum((x < 0) == (y < 0) for x, y in pairs), len(pairs)


# Table 1

SETTINGS = tuple(itertools.product(("pixel", "region"), ("mean", "blur", "uniform")))
INSERTION_PUBLISHED = {
    ("mean + pixel", "blur + pixel"): 0.816, ("mean + pixel", "mean + region"): 0.873,
    ("mean + pixel", "blur + region"): 0.775, ("blur + pixel", "mean + region"): 0.786,
    ("blur + pixel", "blur + region"): 0.948, ("mean + region", "blur + region"): 0.807,
}  # fmt: skip
DELETION_PUBLISHED = {
    ("mean + pixel", "uniform + pixel"): 0.965, ("mean + pixel", "mean + region"): 0.890,
    ("mean + pixel", "uniform + region"): 0.881, ("uniform + pixel", "mean + region"): 0.872,
    ("uniform + pixel", "uniform + region"): 0.897, ("mean + region", "uniform + region"): 0.966,
}  # fmt: skip


def _settings(seen: Seen, kind: str) -> dict[str, str]:
    """The study's metric by setting, those it has."""
    found = {}
    for unit, fill in SETTINGS:
        try:
            found[f"{fill} + {unit}"] = seen.found.metric(kind, unit=unit, fill=fill)
        except NotApplicable:
            continue
    return found


def _mean_correlation(seen: Seen, a: str, b: str) -> float:
    values = [v for v in seen.found.correlations(a, b).values() if known(v)]
    return sum(values) / len(values) if values else math.nan


@exhibit(PAPER, "Table 1")
def consistency(seen: Seen) -> Exhibit:
    """Correlations of the settings of one metric, mean over estimators, with the published ones."""
    tables, rows, lowest = [], [], 1.0
    for kind, published in (("insertion", INSERTION_PUBLISHED), ("deletion", DELETION_PUBLISHED)):
        names = _settings(seen, kind)
        if len(names) < 2:
            continue
        found = {
            (a, b): _mean_correlation(seen, names[a], names[b])
            for a, b in itertools.combinations(names, 2)
        }
        lowest = min([lowest, *(v for v in found.values() if known(v))])
        values = [[found.get((a, b), found.get((b, a), math.nan)) for b in names] for a in names]
        tables.append(_cells(kind, list(names), list(names), values))
        rows += [
            (f"{kind}: {a} and {b}", f"{value:.3f}", _three(found.get((a, b), math.nan)))
            for (a, b), value in published.items()
        ]
    if not tables:
        raise NotApplicable("the study has neither insertion nor deletion in two settings")
    title = f"Settings of one metric correlate by at least {lowest:.2f} over images; published: at least 0.775"
    reading = "Spearman's correlation over images of two settings (fill + pixel or region), mean over estimators."
    table = Beside(("settings", "published (ResNet-50, ImageNet)", "here"), tuple(rows))
    return Exhibit("consistency", title, reading, Multiples("", "", tuple(tables)), table)


def _three(value: float) -> str:
    return f"{value:.3f}".replace("-", "−") if known(value) else "not asked"


# Figure 4

BLUR_PUBLISHED = {
    "ig": (("pointing_game", 81.72, 82.12), ("average_drop", 96.85, 44.99), ("increase_in_confidence", 1.81, 21.88),
           ("road", 0.292, 0.213)),
    "sg(grad)": (("pointing_game", 89.45, 88.96), ("average_drop", 96.99, 49.11),
                 ("increase_in_confidence", 1.67, 15.12), ("road", 0.447, 0.185)),
}  # fmt: skip


def _pairs(seen: Seen) -> dict[str, str]:
    """What each of IG and SmoothGrad is called blurred, where the study has both; the paper's blur comes first."""
    blurs = {n: seen.found.there([f"{how}({n})" for how in BLURS]) for n in seen.found.there(BLURRED)}  # fmt: skip
    return {name: found[0] for name, found in blurs.items() if found}


@exhibit(PAPER, "Figure 4")
def blurred(seen: Seen) -> Exhibit:
    """IG and SmoothGrad before and after blurring."""
    pairs = _pairs(seen)
    if not pairs:
        raise NotApplicable(
            "the study has neither IG nor SmoothGrad both plain and blurred; add coarse(ig) or coarse(sg(grad))"
        )
    names = {n: METHODS[n] for n in pairs}
    names |= {blur: f"blurred {METHODS[n]}" for n, blur in pairs.items()}
    windows = tuple(
        metric_window(seen, metric, f"{kind} ({better} is better)", names)
        for kind, metric, better in (
            ("insertion", insertion(seen.found), "higher"), ("deletion", deletion(seen.found), "lower"),
        )
    )  # fmt: skip
    parts = []
    for kind, metric in (("insertion", insertion(seen.found)), ("deletion", deletion(seen.found))):
        areas = _areas(seen, metric, list(names))
        told = [
            f"{METHODS[n]} {areas[n]:.2f} to {areas[blur]:.2f}"
            for n, blur in pairs.items()
            if n in areas and blur in areas
        ]
        parts += [f"{kind} of {' and '.join(told)}"] if told else []
    if not parts:
        raise NotApplicable("neither insertion nor deletion has values of maps plain and blurred")
    reading = (
        "Curves as in Figure 2, before and after a Gaussian blur of the maps. "
        f"Bands: {LEVEL} interval over images."
    )
    return Exhibit(
        "blurred", f"Blurring maps moves {'; '.join(parts)}", reading, Multiples("", "", windows, 2),
        _blurred(seen, pairs),
    )  # fmt: skip


def _blurred(seen: Seen, pairs: Mapping[str, str]) -> Beside:
    rows = []
    for name, published in BLUR_PUBLISHED.items():
        both = (name, pairs.get(name, ""))
        for kind, before, after in published:
            scale = 1 if kind == "road" else 100
            try:
                metric = (
                    average_drop(seen.found) if kind == "average_drop" else seen.found.metric(kind)
                )
                found = _areas(seen, metric, both)
            except NotApplicable:
                found = {}
            here = [number(scale * found[n], 3) if n in found else NOTHING for n in both]
            what = f"{METHODS[name]}: {kind.replace('_', ' ')}{'' if scale == 1 else ' %'}"
            rows.append((what, number(before, 4), number(after, 4), *here))
    heads = ("", "published, plain", "published, blurred", "here, plain", "here, blurred")
    return Beside(heads, tuple(rows))


# Tables 3 and A3

BINARY_PUBLISHED: dict[str, tuple[float, float]] = {
    "ada_sise": (0.0898, 0.1361), "grad_cam": (0.1725, 0.2094), "ig": (-0.3492, 0.2411), "lrp": (0.1010, 0.2398),
    "occlusion": (-0.3220, 0.0169), "rise": (0.0167, 0.1328), "sg(grad)": (-0.3504, 0.2285), "tame": (0.2433, 0.2645),
}  # fmt: skip
"""Correlation of average drop with insertion: with the values of maps, and binary at their median."""


@exhibit(PAPER, "Tables 3 and A3")
def binary(seen: Seen) -> Exhibit:
    """Average drop against insertion, with values and with binary maps."""
    metric = insertion(seen.found)
    found = {}
    for place, drop in enumerate((average_drop(seen.found), binary_drop(seen.found))):
        for name, value in seen.found.correlations(metric, drop).items():
            found[bare(name), place] = value
    names = [n for n in METHODS if (n, 0) in found and (n, 1) in found]
    if not names:
        raise NotApplicable("the study has none of its estimators")
    columns = ("with values", "binary at 50\u00a0%")
    rows = [METHODS[n] for n in names]
    here = _cells("here", rows, columns, [[found[n, k] for k in (0, 1)] for n in names])
    theirs = _cells("published (ResNet-50, ImageNet)", rows, columns, [BINARY_PUBLISHED[n] for n in names])  # fmt: skip
    ends = [_range([found[n, k] for n in names]) for k in (0, 1)]
    title = f"Average drop and insertion correlate by {ends[0]} with values, by {ends[1]} with binary maps"
    reading = (
        "Spearman's correlation over images, both turned so that higher is better. Published: −0.35 to 0.24 with "
        "values, 0.02 to 0.26 with binary maps."
    )
    return Exhibit("binary", title, reading, Multiples("", "", (here, theirs)))


def _range(values: Sequence[float]) -> str:
    real = [v for v in values if known(v)]
    return f"{_word(min(real))} to {_word(max(real))}" if real else NOTHING


# Figures A1 and A2


def _configurations(seen: Seen, kind: str, better: str) -> Exhibit:
    names = _settings(seen, kind)
    if len(names) < 2:
        raise NotApplicable(f"the study has {kind} in fewer than two settings")
    windows = tuple(
        metric_window(seen, metric, setting, METHODS) for setting, metric in names.items()
    )
    title = f"{kind.capitalize()} in {len(names)} settings ({better} is better)"
    if {"mean + pixel", "mean + region"} <= set(names):
        pixel, region = (_areas(seen, names[f"mean + {u}"], SPARSE) for u in ("pixel", "region"))
        moved = [
            f"{METHODS[n]} from {pixel[n]:.2f} to {region[n]:.2f}" for n in pixel if n in region
        ]
        title = f"{kind.capitalize()} by regions instead of pixels: {', '.join(moved)}"
    reading = (
        f"Fill + what goes or comes at a time. Probability of the class, mean over images, bands {LEVEL} interval. "
        f"Sparse maps: {', '.join(METHODS[n] for n in SPARSE)}; coarse: {', '.join(METHODS[n] for n in COARSE)}."
    )
    return Exhibit(
        f"{kind}-settings",
        title,
        reading,
        Multiples("", "", windows, 2 if len(windows) == 4 else 3),
    )


@exhibit(PAPER, "Figure A1")
def insertion_settings(seen: Seen) -> Exhibit:
    """Insertion by fill, and by pixels or regions."""
    return _configurations(seen, "insertion", "higher")


@exhibit(PAPER, "Figure A2")
def deletion_settings(seen: Seen) -> Exhibit:
    """Deletion by fill, and by pixels or regions."""
    return _configurations(seen, "deletion", "lower")
