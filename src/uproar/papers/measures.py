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

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import pandas as pd

from uproar.data.registry import tasks
from uproar.errors import NotApplicable, one_line
from uproar.estimators import read_chain
from uproar.expression import parse
from uproar.metrics.retraining import RETRAININGS
from uproar.papers.evidence import ClaimEvidence, measured
from uproar.results.claim_outcome import Measure, Missing, Range
from uproar.statistics.correlation import correlation_interval, gap_interval, spread_interval
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval
from uproar.wording import counted

Parts = list[Measure | Missing]
MEASURES: dict[str, Callable[..., Parts]] = {}
ROAR = "roar"


def measure(function: Callable[..., Parts]) -> Callable[..., Parts]:
    """Declares a measure under its function's name: `function(evidence, claimed, **fields)`."""
    MEASURES[function.__name__] = function
    return function


def measure_or_missing(make: Callable[..., Measure], *args: Any, **options: Any) -> Measure | Missing:
    """One of a claim's numbers, or why the study has it not: `measure_or_missing(evidence.area, "roar", "ig")`."""
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
    """The study's name of a metric: by name, with options, or the first that it has of several; ROAR's is its own."""
    if isinstance(wanted, str) and wanted in RETRAININGS:
        return wanted
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
    metric: str = ROAR,
    at: float | Literal["each"] | None = None,
    rates: Sequence[float] | None = None,
) -> Parts:
    """The mean height between curves: `at` one fraction, at "each" that both have, or over some `rates`."""
    parts, whole = Parts(), at if rates is None else tuple(rates_of(evidence, rates))
    for a, b in pairs_of(of, form, over):
        try:
            fractions = accuracy_at(evidence, metric, [a, b]) if at == "each" else [whole]
        except NotApplicable as error:
            parts.append(Missing(one_line(error)))
            continue
        parts += [measure_or_missing(evidence.area, metric, a, b, at=fraction, **claimed) for fraction in fractions]
    return parts


def rates_of(evidence: ClaimEvidence, wanted: Sequence[float]) -> list[float]:
    """Those of some rates of ROAR that the study has, or all of the study's."""
    rates = [float(t) for t in evidence.accuracy(ROAR, BASELINE).columns if t > 0]
    return [t for t in rates if any(abs(t - rate) < 1e-9 for rate in wanted)] or rates


def accuracy_at(evidence: ClaimEvidence, metric: str, names: Sequence[str]) -> dict[float, pd.DataFrame]:
    """Accuracy by replicate and estimator, at every fraction that all of them have.

    Where nothing is removed, or all is kept, they share one training: that is no fraction of theirs.
    """
    curves = {name: evidence.accuracy(metric, name) for name in names}
    shared = set.intersection(*(set(curve.columns) for curve in curves.values()))
    shared -= {RETRAININGS[metric].plain}
    if not shared:
        raise NotApplicable(f"no fraction of {metric} is finished for {', '.join(names)}")
    return {float(t): pd.DataFrame({name: curve[t] for name, curve in curves.items()}) for t in sorted(shared)}


def several(evidence: ClaimEvidence, of: Sequence[str], *metrics: str) -> list[str]:
    """Those of some estimators that have these metrics; three at least."""
    names = functools.reduce(evidence.available, metrics, list(of))
    if len(names) < 3:
        raise NotApplicable(f"{len(names)} estimators have {' and '.join(metrics)}; use at least 3")
    return names


@measure
def growth(
    evidence: ClaimEvidence, claimed: Range, *, of: Sequence[str], over: str, first: float, last: float
) -> Parts:
    """How much higher an estimator's accuracy lies above another's at the last fraction than at the first one."""

    def grown(name: str) -> Measure:
        ahead = {t: evidence.at(ROAR, name, t) - evidence.at(ROAR, over, t) for t in (first, last)}
        what = f"{evidence.estimator(name, ROAR)} above {over}: at {last:g} minus at {first:g}, accuracy"
        return evidence.over_replicates(what, ahead[last] - ahead[first], **claimed)

    return [measure_or_missing(grown, name) for name in of]


@measure
def consistent_winner(evidence: ClaimEvidence, claimed: Range, *, of: Sequence[str], metric: str) -> Parts:
    """The estimator that leads most consistently, against the best other one at the fraction where it leads least."""
    tables = accuracy_at(evidence, metric, several(evidence, of, metric))
    means = pd.DataFrame({t: table.mean() for t, table in tables.items()}).T
    leads = pd.DataFrame({name: means[name] - means.drop(columns=name).max(axis=1) for name in means})
    best = str(leads.min().idxmax())
    t = float(leads[best].idxmin())
    other = str(means.loc[t].drop(best).idxmax())
    return [measure_or_missing(evidence.area, metric, best, other, at=t, **claimed), *evidence.absent(of, metric)]


@measure
def kept(evidence: ClaimEvidence, claimed: Range, *, fraction: float) -> Parts:
    """Of what plain training learns beyond chance, the share that is left after random removal, by replicate."""
    removed, plain = evidence.at(ROAR, f"bernoulli|{BASELINE}", fraction), evidence.at(ROAR, BASELINE, 0.0)
    share = (removed - evidence.chance) / (plain - evidence.chance)
    what = f"share of the accuracy beyond chance left by random removal of {100 * fraction:.0f} %"
    return [evidence.over_replicates(what, share, **claimed)]


@measure
def wider_range(evidence: ClaimEvidence, claimed: Range, *, of: Sequence[str], metric: str, than: str) -> Parts:
    """Range over estimators at the fraction where they differ most, one metric's minus another's, by replicate."""
    names, widest = several(evidence, of, metric, than), []
    for name in (metric, than):
        tables = accuracy_at(evidence, name, names)
        ranges = {t: table.max(axis=1) - table.min(axis=1) for t, table in tables.items()}
        widest.append(max(ranges.items(), key=lambda item: item[1].mean()))
    (t, first), (u, second) = widest
    what = f"range over {len(names)} estimators: {metric} at {t:g} minus {than} at {u:g}, accuracy"
    absent = [*evidence.absent(of, metric), *evidence.absent(of, than)]
    return [evidence.over_replicates(what, first - second, **claimed), *absent]


@measure
def without_retraining(evidence: ClaimEvidence, claimed: Range, *, of: Sequence[str]) -> Parts:
    """The original network minus the retrained one, at every fraction."""
    untrained, parts = f"{ROAR}:no-retrain", Parts()
    for name in evidence.available(of, untrained):
        after, before = (accuracy_at(evidence, metric, [name]) for metric in (untrained, ROAR))
        for t in (t for t in before if t in after):
            what = f"{name}: without retraining minus with, accuracy at {t:g}"
            parts.append(evidence.over_replicates(what, after[t][name] - before[t][name], **claimed))
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
    return [measure_or_missing(evidence.gap, name, a, b, **claimed) for a, b in pairs_of(of, form, over)]


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
    return [measure_or_missing(evidence.gap, second, top, other, **claimed), *evidence.absent(of)]


def kind_of_marks(evidence: ClaimEvidence) -> str:
    """How the images of a task are marked: number, stripes or not at all."""
    call = parse(evidence.task)
    return str(tasks[call.name].bind(**dict(call.options))["kind"]) if call.name == "semi-natural" else ""


@measure
def gain(
    evidence: ClaimEvidence,
    claimed: Range,
    *,
    of: Sequence[str],
    beside: Sequence[str],
    forms: Sequence[str] = ("{}",),
    metric: Any = ROAR,
    base: Any = None,
    rates: Sequence[float] = (),
    each: bool = False,
) -> Parts:
    """What a filter (`forms`), or a metric instead of `base`, gains for some estimators minus what it gains for others.

    Under ROAR it is the mean over some rates; `each` is for the gain of every one of the estimators, too.
    """
    first = metric_of(evidence, metric)
    second = metric_of(evidence, base) if base else first
    retrains = first in RETRAININGS
    fractions = rates_of(evidence, rates) if retrains else []
    take = evidence.over_replicates if retrains else evidence.over_images

    def values(name_of_metric: str, name: str) -> Any:
        if not retrains:
            return evidence.per_replicate(name_of_metric, evidence.estimator(name))
        return -evidence.accuracy(name_of_metric, name)[fractions].mean(axis=1)

    def gained(form: str, names: Sequence[str]) -> Any:
        gains = [values(first, form.replace("{}", name)) - values(second, name) for name in names]
        return sum(gains[1:], start=gains[0]) / len(gains)

    parts = Parts()
    for form in forms:
        groups: list[list[str]] = []
        for wanted in (of, beside):
            chosen = {name: _first_with(evidence, form, name, first if retrains else None) for name in wanted}
            groups.append([name for name in chosen.values() if name])
            parts += [Missing(f"the study has no {form.replace('{}', name)}") for name in chosen if not chosen[name]]
        (mine, others), what = groups, f"{first} minus {second}" if base else f"{first}: {form.replace('{}', 'map')}"
        numbers = {f"{name}: {what}, higher is better": gained(form, [name]) for name in mine if each}
        if mine and others:
            both = f"{what}, gain of {len(mine)} estimators minus that of {', '.join(others)}"
            numbers[both] = gained(form, mine) - gained(form, others)
        parts += [measure_or_missing(take, what, number, **claimed) for what, number in numbers.items()]
    return parts


def _first_with(evidence: ClaimEvidence, form: str, name: str, metric: str | None) -> str:
    """The first of `a|b` that the study has both as it is and in a form; empty without one."""
    for choice in name.split("|"):
        if len(evidence.available([choice, form.replace("{}", choice)], metric)) == 2:
            return choice
    return ""


@measure
def correlation(
    evidence: ClaimEvidence,
    claimed: Range,
    *,
    metrics: Sequence[Any] = (),
    among: Mapping[str, Any] | None = None,
    binary: bool = False,
) -> Parts:
    """Correlations over images of pairs of metrics, or of all pairs `among` the variants of one, mean over methods.

    Spearman's; with `binary`, one metric is a hit or a miss and Pearson's is taken (the point-biserial one).
    """

    def correlated(a: str, b: str) -> Measure:
        names = methods(evidence, first := metric_of(evidence, a), second := metric_of(evidence, b))
        interval = correlation_interval(evidence.pairs(first, second, names), ranked=not binary)
        mean = "" if len(names) == 1 else f", mean of {len(names)} estimators"
        return measured(f"correlation of {first} with {second}{mean}", interval, "images", claimed)

    pairs = itertools.combinations(variants(among), 2) if among else metrics
    return [measure_or_missing(correlated, *pair) for pair in pairs]


def variants(of: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A metric with every combination of those options that are lists.

    >>> variants({"name": "deletion", "fill": ["mean", "blur"]})
    [{'name': 'deletion', 'fill': 'mean'}, {'name': 'deletion', 'fill': 'blur'}]
    """
    lists = [value if isinstance(value, list) else [value] for value in of.values()]
    return [dict(zip(of, values, strict=True)) for values in itertools.product(*lists)]


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
    values, words = [], []
    for pair, wanted in ((first, of), (second, than)):
        a, b = (metric_of(evidence, metric) for metric in pair)
        names = methods(evidence, a, b)
        if wanted is not None:
            names = [name for name in map(evidence.estimator, evidence.available(wanted)) if name in names]
        values.append(evidence.pairs(a, b, names))
        words.append(f"{a} with {b}, {counted(len(names), 'method')}")
    what = f"correlation of {words[0]}, minus that of {words[1]}"
    return [measured(what, gap_interval(*values), "images", claimed), *evidence.absent([*(of or ()), *(than or ())])]


@measure
def spread(evidence: ClaimEvidence, claimed: Range, *, metrics: Sequence[Any], first: Any, second: Any) -> Parts:
    """How much more the correlation of `first` with each metric differs between methods than that of `second`."""
    a, b = metric_of(evidence, first), metric_of(evidence, second)

    def differs(wanted: Any) -> Measure:
        metric = metric_of(evidence, wanted)
        names = methods(evidence, metric, a, b)
        if len(names) < 3:
            raise NotApplicable(f"{len(names)} estimators are too few to compare; use at least 3")
        interval = spread_interval(evidence.pairs(metric, a, names), evidence.pairs(metric, b, names))
        what = f"spread over {len(names)} estimators of the correlation with {metric}: {a} minus {b}"
        return measured(what, interval, "images", claimed)

    return [measure_or_missing(differs, metric) for metric in metrics]


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

    return [measure_or_missing(number, where) for where in rows]
