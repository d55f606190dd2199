"""The measures that claims are made of. A claim in a paper's `claims.toml` names one of them and what it is of:

    [sg-sq]
    says = "Squared and averaged estimates are far better than a random order."
    measure = "advantage"
    of = ["grad", "ig"]
    form = "sg_sq({})"
    over = "random"
    above = 0.05

A measure is a function of the results of one task and model and of the claimed range; it returns the claim's numbers,
or why the study cannot say one of them. An estimator `a|b` is the first of these that the study has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from uproar.data.registry import tasks
from uproar.errors import NotApplicable, one_line
from uproar.estimators import read_chain
from uproar.expression import parse
from uproar.papers.evidence import ClaimEvidence
from uproar.results.claim_outcome import Measure, Missing, Range
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval

Parts = list[Measure | Missing]
MEASURES: dict[str, Callable[..., Parts]] = {}
ROAR = "roar"


def measure(function: Callable[..., Parts]) -> Callable[..., Parts]:
    """Declares a measure under its function's name: `function(evidence, claimed, **fields)`."""
    MEASURES[function.__name__] = function
    return function


def part(make: Callable[..., Measure], *args: Any, **options: Any) -> Measure | Missing:
    """One of a claim's numbers, or why the study cannot say it: `part(evidence.area, "roar", "ig", above=0.0)`."""
    try:
        return make(*args, **options)
    except NotApplicable as error:
        return Missing(one_line(error))


def pairs_of(of: Sequence[str], form: str, over: str | Sequence[str]) -> list[tuple[str, str]]:
    """Who is compared with whom: each with its own counterpart, or with every one of several others.

    >>> pairs_of(["grad"], "sg({})", "{}"), pairs_of(["rect"], "{}", ["ig", "lrp"])
    ([('sg(grad)', 'grad')], [('rect', 'ig'), ('rect', 'lrp')])
    """
    if isinstance(over, str):
        return [(form.replace("{}", name), over.replace("{}", name)) for name in of]
    return [(form.replace("{}", name), other) for name, other in itertools.product(of, over)]


def metric_of(evidence: ClaimEvidence, wanted: str | Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> str:
    """The study's name of a metric: by name, with options, or the first that it has of several."""
    choices = [{"name": wanted}] if isinstance(wanted, str) else [wanted] if isinstance(wanted, Mapping) else wanted
    reasons = []
    for choice in choices:
        options = {key: None if value == "none" else value for key, value in choice.items() if key != "name"}
        try:
            return evidence.metric(choice["name"], **options)
        except NotApplicable as error:
            reasons.append(error)
    raise reasons[0]


def methods(evidence: ClaimEvidence, *metrics: str) -> list[str]:
    """The estimators beside random with values of all these metrics; blurred versions are no methods of their own."""
    return [name for name in evidence.scored_by(*metrics) if not read_chain(name).filters]


# retraining


@measure
def advantage(
    evidence: ClaimEvidence,
    claimed: Range,
    *,
    of: Sequence[str],
    form: str = "{}",
    over: str | Sequence[str] = BASELINE,
    protocol: str = ROAR,
    at: float | None = None,
    rates: Sequence[float] | None = None,
) -> Parts:
    """The mean height between curves; `at` one fraction, or at those of some rates that the study has."""
    where = at if rates is None else tuple(rates_of(evidence, rates))
    return [part(evidence.area, protocol, a, b, at=where, **claimed) for a, b in pairs_of(of, form, over)]


def rates_of(evidence: ClaimEvidence, wanted: Sequence[float]) -> list[float]:
    """Those of some rates of ROAR that the study has, or all of the study's."""
    own = [float(t) for t in evidence.accuracy(ROAR, BASELINE).columns if t > 0]
    return [t for t in own if any(abs(t - rate) < 1e-9 for rate in wanted)] or own


@measure
def advantage_at_each(
    evidence: ClaimEvidence, claimed: Range, *, of: Sequence[str], over: str | Sequence[str], protocol: str = ROAR
) -> Parts:
    """The difference at every fraction that both have."""
    parts, plain = Parts(), evidence.results.protocols[protocol].plain
    for a, b in pairs_of(of, "{}", over):
        try:
            shared = evidence.accuracy(protocol, b).columns.intersection(evidence.accuracy(protocol, a).columns)
        except NotApplicable as error:
            parts.append(Missing(one_line(error)))
            continue
        rates = sorted(float(t) for t in shared if abs(t - plain) > 1e-9)
        parts += [part(evidence.area, protocol, a, b, at=t, **claimed) for t in rates]
    return parts


@measure
def growth(
    evidence: ClaimEvidence, claimed: Range, *, of: Sequence[str], over: str, first: float, last: float
) -> Parts:
    """How much higher an estimator's accuracy lies above another's at the last fraction than at the first one."""

    def grown(name: str) -> Measure:
        ahead = {t: evidence.at(ROAR, name, t) - evidence.at(ROAR, over, t) for t in (first, last)}
        what = f"{evidence.estimator(name, ROAR)} above {over}: at {last:g} minus at {first:g}, accuracy"
        return evidence.over_replicates(what, ahead[last] - ahead[first], **claimed)

    return [part(grown, name) for name in of]


@measure
def consistent_winner(evidence: ClaimEvidence, claimed: Range, *, of: Sequence[str], protocol: str) -> Parts:
    """The estimator that leads most consistently, against the best other one at the fraction where it leads least."""
    names = evidence.available(of, protocol)
    if len(names) < 3:
        raise NotApplicable(f"{len(names)} estimators have {protocol}; use at least 3")
    means = pd.DataFrame({name: evidence.accuracy(protocol, name).mean() for name in names})
    means = means.drop(index=evidence.results.protocols[protocol].plain, errors="ignore").dropna()
    if means.empty:
        raise NotApplicable(f"no fraction of {protocol} is finished for {', '.join(names)}")
    leads = pd.DataFrame({name: means[name] - means.drop(columns=name).max(axis=1) for name in names})
    best = str(leads.min().idxmax())
    t = float(leads[best].idxmin())
    other = str(means.loc[t].drop(best).idxmax())
    return [part(evidence.area, protocol, best, other, at=t, **claimed), *evidence.absent(of, protocol)]


@measure
def kept(evidence: ClaimEvidence, claimed: Range, *, fraction: float) -> Parts:
    """Of what plain training learns beyond chance, the share that is left after random removal, by replicate."""
    removed, plain = evidence.at(ROAR, f"bernoulli|{BASELINE}", fraction), evidence.at(ROAR, BASELINE, 0.0)
    share = (removed - evidence.chance) / (plain - evidence.chance)
    what = f"share of the accuracy beyond chance left by random removal of {100 * fraction:.0f} %"
    return [evidence.over_replicates(what, share, **claimed)]


@measure
def wider_range(evidence: ClaimEvidence, claimed: Range, *, of: Sequence[str], protocol: str, than: str) -> Parts:
    """Range over estimators at the fraction where they differ most, one protocol's minus another's, by replicate."""
    names = evidence.available(evidence.available(of, protocol), than)
    if len(names) < 3:
        raise NotApplicable(f"{len(names)} estimators have both {protocol} and {than}; use at least 3")
    (t, first), (u, second) = (_widest(evidence, one, names) for one in (protocol, than))
    what = f"range over {len(names)} estimators: {protocol} at {t:g} minus {than} at {u:g}, accuracy"
    absent = [*evidence.absent(of, protocol), *evidence.absent(of, than)]
    return [evidence.over_replicates(what, first - second, **claimed), *absent]


def _widest(evidence: ClaimEvidence, protocol: str, names: Sequence[str]) -> tuple[float, pd.Series]:
    """The fraction at which estimators differ most on average, and their range there by replicate.

    Where nothing is removed, or all is kept, they share one training: that is no fraction of theirs.
    """
    curves = {name: evidence.accuracy(protocol, name) for name in names}
    shared = set.intersection(*(set(curve.columns) for curve in curves.values()))
    ranges = {}
    for t in sorted(shared - {evidence.results.protocols[protocol].plain}):
        table = pd.DataFrame({name: curve[t] for name, curve in curves.items()})
        ranges[float(t)] = table.max(axis=1) - table.min(axis=1)
    if not ranges:
        raise NotApplicable(f"no fraction of {protocol} is finished for {', '.join(names)}")
    return max(ranges.items(), key=lambda one: one[1].mean())


@measure
def without_retraining(evidence: ClaimEvidence, claimed: Range, *, of: Sequence[str]) -> Parts:
    """The original network minus the retrained one, at every fraction."""
    untrained, parts = f"{ROAR}:no-retrain", Parts()
    for name in evidence.available(of, untrained):
        after, before = evidence.accuracy(untrained, name), evidence.accuracy(ROAR, name)
        shared = [t for t in before.columns if t in after.columns and t > 0]
        if not shared:
            raise NotApplicable(f"{name} has no fraction with and without retraining")
        gaps, what = after[shared] - before[shared], f"{name}: without retraining minus with, accuracy"
        parts += [evidence.over_replicates(f"{what} at {t:g}", gaps[t], **claimed) for t in shared]
    return [*parts, *evidence.absent(of, untrained)]


# metrics


@measure
def gap(
    evidence: ClaimEvidence,
    claimed: Range,
    *,
    metric: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    of: Sequence[str],
    over: str | Sequence[str],
    form: str = "{}",
    marks: str | None = None,
) -> Parts:
    """How much better estimators are than others by a metric; on images with a kind of `marks`, or without any ("")."""
    if marks is not None and kind_of_marks(evidence) != marks:
        wanted = f"semi-natural(..., kind={marks})" if marks else "a task without marks"
        raise NotApplicable(f"it is about {wanted}, not {evidence.task}")
    name = metric_of(evidence, metric)
    return [part(evidence.gap, name, a, b, **claimed) for a, b in pairs_of(of, form, over)]


@measure
def best_in_both(evidence: ClaimEvidence, claimed: Range, *, of: Sequence[str], metrics: Sequence[str]) -> Parts:
    """By the second metric, the estimator that is best by the first against the best other one."""
    names = [evidence.estimator(name) for name in evidence.available(of)]
    first, second = (metric_of(evidence, name) for name in metrics)
    scores = evidence.results.metric_scores.get((evidence.task, evidence.model))
    if scores is None or len(names) < 3:
        raise NotApplicable("fewer than three of its methods have both metrics")
    values = scores.table.set_index(["metric", "method"])["value"]
    top = max(names, key=lambda name: values[first, name])
    other = max((name for name in names if name != top), key=lambda name: values[second, name])
    return [part(evidence.gap, second, top, other, **claimed), *evidence.absent(of)]


def kind_of_marks(evidence: ClaimEvidence) -> str:
    """How the images of a task are marked: number, stripes or not at all."""
    call = parse(evidence.task)
    return str(tasks[call.name].bind(**dict(call.options))["kind"]) if call.name == "semi-natural" else ""


@measure
def filters_beside(
    evidence: ClaimEvidence,
    claimed: Range,
    *,
    filters: Sequence[str],
    others: Sequence[str],
    apart: Sequence[str],
    metric: str = "",
    protocol: str | None = None,
    rates: Sequence[float] = (),
) -> Parts:
    """What a filter gains for others minus what it gains for each of those apart, under ROAR or by a metric."""
    name, fractions = (evidence.metric(metric), []) if metric else (protocol or ROAR, rates_of(evidence, rates))

    def gain(how: str, of: Sequence[str]) -> pd.DataFrame | pd.Series:
        """The mean gain of some estimators, by replicate, and by image where a metric says it."""
        pairs = [(f"{how}({one})", one) for one in of]
        if metric:
            values = [[evidence.per_replicate(name, evidence.estimator(one)) for one in pair] for pair in pairs]
            gains = [filtered - plain for filtered, plain in values]
        else:
            curves = [[evidence.accuracy(name, one)[fractions].mean(axis=1) for one in pair] for pair in pairs]
            gains = [plain - filtered for filtered, plain in curves]
        return sum(gains[1:], start=gains[0]) / len(gains)

    parts = Parts()
    for how in filters:
        mine = [one for one in others if evidence.available([f"{how}({one})"], protocol)]
        there = [one for one in apart if len(evidence.available([one, f"{how}({one})"], protocol)) == 2]
        for one in there if mine else ():
            what = f"what {how} gains for {len(mine)} estimators minus what it gains for {one}"
            difference = gain(how, mine) - gain(how, [one])
            if metric:
                parts.append(evidence.over_images(f"{metric}: {what}", difference, **claimed))
            else:
                where = f"{name}, mean at {', '.join(f'{t:g}' for t in fractions)}"
                parts.append(evidence.over_replicates(f"{where}: {what}, accuracy", difference, **claimed))
        parts += evidence.absent([f"{how}({one})" for one in others], protocol)
        parts += [] if mine and there else [Missing(f"the study has no {how}({apart[0]})")]
    return parts


@measure
def correlation(evidence: ClaimEvidence, claimed: Range, *, metrics: Sequence[Any], binary: bool = False) -> Parts:
    """Correlations of metrics over images, mean over methods; `binary` where one of the two is a hit or a miss."""
    pairs = [[metric_of(evidence, one) for one in pair] for pair in metrics]
    return [part(evidence.correlation, a, b, methods(evidence, a, b), binary=binary, **claimed) for a, b in pairs]


@measure
def correlation_gap(
    evidence: ClaimEvidence,
    claimed: Range,
    *,
    first: Sequence[Any],
    second: Sequence[Any],
    of: Sequence[str] | None = None,
    than: Sequence[str] | None = None,
) -> Parts:
    """How much higher two metrics correlate over images than two others, or for some methods (`of`) than for others."""

    def both(pair: Sequence[Any], names: Sequence[str] | None) -> tuple[str, str, list[str]]:
        a, b = (metric_of(evidence, one) for one in pair)
        mine = methods(evidence, a, b)
        chosen = mine if names is None else [evidence.estimator(one) for one in evidence.available(names)]
        return a, b, [name for name in chosen if name in mine]

    absent = evidence.absent([*(of or ()), *(than or ())])
    return [part(evidence.correlation_gap, both(first, of), both(second, than), **claimed), *absent]


SETTINGS = {f"{fill} + {unit}": (unit, fill) for unit in ("pixel", "region") for fill in ("mean", "blur", "uniform")}
"""Units and fills of insertion and deletion."""


def settings_of(evidence: ClaimEvidence, kind: str) -> dict[str, str]:
    """The study's metric of a kind by setting; those it has."""
    names = {}
    for setting, (unit, fill) in SETTINGS.items():
        try:
            names[setting] = evidence.metric(kind, unit=unit, fill=fill)
        except NotApplicable:
            continue
    return names


@measure
def settings(evidence: ClaimEvidence, claimed: Range, *, kind: str) -> Parts:
    """The correlation of every two settings of insertion or deletion."""
    names = settings_of(evidence, kind)
    pairs = itertools.combinations(dict.fromkeys(names.values()), 2)
    found = [evidence.correlation(a, b, methods(evidence, a, b), **claimed) for a, b in pairs]
    return [*found, *(Missing(f"the study has no {kind} by {one}") for one in SETTINGS if one not in names)]


@measure
def spread(evidence: ClaimEvidence, claimed: Range, *, metrics: Sequence[Any], first: Any, second: Any) -> Parts:
    """How much more the correlation of `first` with each metric differs between methods than that of `second`."""
    a, b = metric_of(evidence, first), metric_of(evidence, second)
    names = [metric_of(evidence, one) for one in metrics]
    return [evidence.spread(one, a, b, methods(evidence, one, a, b), **claimed) for one in names]


@measure
def regions(
    evidence: ClaimEvidence, claimed: Range, *, kind: str, sparse: Sequence[str], coarse: Sequence[str]
) -> Parts:
    """Regions against pixels, image by image: each sparse map, and all of them together against the coarse ones."""
    region, pixel = (evidence.metric(kind, unit=unit, fill="mean") for unit in ("region", "pixel"))

    def gain(names: Sequence[str]) -> pd.DataFrame:
        own = [evidence.estimator(name) for name in names]
        gains = [evidence.per_replicate(region, name) - evidence.per_replicate(pixel, name) for name in own]
        return sum(gains[1:], start=gains[0]) / len(gains)

    fine, rough = evidence.available(sparse), evidence.available(coarse)
    parts: Parts = [part(evidence.between, region, pixel, name, **claimed) for name in sparse]
    if fine and rough:
        what = f"{region} minus {pixel}: {len(fine)} sparse against {len(rough)} coarse maps"
        parts.append(evidence.over_images(what, gain(fine) - gain(rough), **claimed))
    return [*parts, *evidence.absent(coarse)]


# audits


@measure
def audit_rows(
    evidence: ClaimEvidence,
    claimed: Range,
    *,
    audit: str,
    table: str,
    rows: Sequence[Mapping[str, str]],
    what: str,
    value: str = "mean",
    sample: str = "replicates",
) -> Parts:
    """Numbers that an audit has measured: the rows of its table that have these values."""

    def number(where: Mapping[str, str]) -> Measure:
        row = evidence.row(audit, table, **where)
        n, df = int(row["n"]), float(row["df"])
        ends = float(row["low"]), float(row["high"])
        interval = Interval(float(row[value]), *ends, n, int(row.get("replicates", n)), df)
        return Measure(what.format(**where), interval, sample, **claimed)

    return [part(number, where) for where in rows]
