"""What results say of methods, metric by metric: read from scores and studies, with the reason where one is unreliable.

Every metric that can recommend a method, retrained or not, is read into an `Evidence`; `results/answer.py` has the rule
that makes a recommendation of them. Here are the reasons why a metric takes no part:

- its negative control failed (`negative_control`), or ROAR and KAR contradict each other: the masks leak the label;
- there is no baseline, or there are too few replicates for a test;
- the network does not bear that pixels are filled at random (`in_domain_share`).

Warnings about a method (its maps ignore the weights, or change with invisible noise) are read here too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from uproar.errors import UproarError
from uproar.expression import parse
from uproar.metrics.registry import family_of, metrics
from uproar.results.answer import KINDS, Answer, Cost, Evidence, Kind
from uproar.results.finding import Flag, FlagKind
from uproar.results.recovery import MATTER, OF_CLASSES, trust
from uproar.statistics.comparisons import compare, holm, margins
from uproar.statistics.design import ALPHA, BASELINE, LEAST_REPLICATES
from uproar.types import Role
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.results.evaluator import EvaluatorScores
    from uproar.results.quality import NetworkQuality
    from uproar.results.scores import Curves, Scores
    from uproar.results.study import StudyView

METRICS: Mapping[str, Kind] = {
    "ffid_plus": "fine-tuned",
    "ffid_minus": "fine-tuned",
    "idsds": "fine-tuned",
    "road": "filled",
    "road_lerf": "filled",
    "road_gap": "filled",
    "deletion": "filled",
    "insertion": "filled",
}
"""The metrics that can recommend; variants of released code (`road:leemann`) count as the metric. All others describe
maps, or ask something else, such as where an object is."""

IN_DOMAIN = 0.1
"""The share of pixels, drawn at random, that a network must bear to lose for filled images to say anything."""

RELEVANT = 0.1
"""The share of what could be gained over random below which an advantage is too small to matter."""

LIMITS: Mapping[str, tuple[FlagKind, float, str]] = {
    "randomisation": ("fails sanity", 0.5, "similarity {} to maps of the network with fresh weights"),
    "sensitivity_max": ("unstable", 1.0, "changes by {} times its size under invisible noise"),
}
"""By metric: the warning about a method whose median over images lies above a limit, the limit, and what it means."""

FREE = ("baseline", "random")
"""The roles that never look at the network."""


def facts_of(metric: str) -> Mapping[str, Any]:
    """What a metric declares, with its name; nothing where it is a plug-in's that is not loaded, or no metric."""
    try:
        name = parse(metric).name
    except UproarError:
        return {}
    return {**metrics[name].facts, "name": name} if name in metrics else {}


# the recommendation


def answer_of_scores(scores: Scores) -> Answer:
    """The recommendation that scores give."""
    found = [*evaluator_evidence(scores.evaluators), *_metric_evidence(scores)]
    return Answer(
        tuple(checked(found, kinds_that_matter(scores.quality))),
        by_method(flags_of_scores(scores)),
        costs_in(scores.costs),
        {**_never_ranked(scores), **scores.left_out},
        checks=tuple(check_sentences(scores)),
    )


def answer_of_view(view: StudyView) -> Answer:
    """The recommendation for one task and model of a study: of its evaluators, metrics and retrained networks."""
    measured = [scores for scores in (view.metric_scores, view.check_scores) if scores is not None]
    filled = [] if view.metric_scores is None else _metric_evidence(view.metric_scores)
    retrained = [_retrained(view, name) for name in view.verdicts if view.results.protocols[name].retrains]
    found = checked([*evaluator_evidence(view.evaluators), *filled, *retrained], kinds_that_matter(view.quality))
    flags = [flag for finding in view.findings for flag in finding.flags]
    flags += [flag for scores in measured for flag in flags_of_scores(scores)]
    return Answer(
        tuple(found),
        by_method(flags),
        costs_in(view.own(view.results.costs)),
        unjudged(view, {name for metric in found for name in metric.values}),
        view.task,
        view.model,
        tuple(sentence for scores in measured for sentence in check_sentences(scores)),
    )


def costs_in(table: pd.DataFrame) -> dict[str, Cost]:
    """Passes and seconds per image by method, from a table of costs."""
    if "passes" not in table:
        return {}
    seconds = table.get("milliseconds_per_image", pd.Series(np.nan, table.index)) / 1000
    rows = zip(table["estimator"], table["passes"], seconds, strict=True)
    return {str(name): Cost(float(passes), float(each)) for name, passes, each in rows}


def unjudged(view: StudyView, judged: Collection[str]) -> dict[str, str]:
    """Methods that failed or were skipped, and those that no metric ranks, with the reason; none that has a value."""
    reasons = {} if view.metric_scores is None else _never_ranked(view.metric_scores)
    for frame in (view.cells, view.own(view.results.scores)):
        if len(frame):
            rest = frame[frame["status"].isin(["skipped", "failed"])]
            reasons |= {str(e): str(reason) for e, reason in zip(rest["estimator"], rest["reason"], strict=True)}
    return {name: why for name, why in reasons.items() if name not in judged}


def _never_ranked(scores: Scores) -> dict[str, str]:
    """Methods that no metric ranks, with what the first of them says."""
    groups = scores.table.groupby("method", sort=False)
    return {str(name): str(rows["note"].iloc[0]) for name, rows in groups if not rows["ranked"].any()}


# reading results


def _metric_evidence(scores: Scores) -> list[Evidence]:
    """The metrics among scores that can recommend."""
    found = []
    baselines = frozenset(name for name, role in scores.roles.items() if role in FREE)
    known = {name for name, role in scores.roles.items() if role != "truth"}
    for metric, rows in scores.table.groupby("metric", sort=False):
        kind = kind_of_metric(str(metric))
        ranked = rows[rows["ranked"] & rows["value"].notna() & rows["method"].isin(known)]
        if kind is None or ranked.empty:
            continue
        facts, sign = facts_of(str(metric)), 1 if bool(rows["higher_is_better"].iloc[0]) else -1
        pairs = scores.comparisons[(scores.comparisons["metric"] == metric) & scores.comparisons["ranked"].eq(True)]
        found.append(
            Evidence(
                str(metric),
                facts["name"],
                kind,
                facts.get("true_to") or "model",
                {str(row.method): sign * row.value for row in ranked.itertuples()},
                pairs[pairs["better"].isin(ranked["method"]) & pairs["worse"].isin(ranked["method"])],
                baselines,
                "images",
                int(ranked["n"].max()),
                scores.replicates,
                ALPHA / int(pairs["analyses"].max()) if "analyses" in pairs and len(pairs) else ALPHA,
                _random_curve(scores.curves.get(str(metric)), facts),
                _why_failed(scores.negative_controls.get(str(metric))),
            )
        )
    return found


def evaluator_evidence(evaluators: Mapping[str, EvaluatorScores]) -> list[Evidence]:
    """Evaluators of the network's answers and of the label."""
    found = []
    for target, scores in evaluators.items():
        if not len(scores.verdicts):
            continue
        about_data, values = target == "label", scores.table.set_index("estimator")["score"]
        found.append(
            Evidence(
                "evaluator" if about_data else "evaluator:model",
                "evaluator of the label" if about_data else "evaluator",
                "label evaluator" if about_data else "evaluator",
                "data" if about_data else "model",
                {name: float(values[name]) for name in scores.of_kind("method", "baseline", "random")},
                scores.comparisons,
                frozenset(scores.of_kind("random", "baseline")),
                "images",
                int(scores.table["n"].max()),
                int(scores.table["replicates"].max()),
                scores.alpha,
                unreliable=_why_failed(scores.negative_control),
                lost={name: scores.lost_share(name) for name in scores.of_kind("method")},
                excess=scores.overconfident,
            )
        )
    return found


def _retrained(view: StudyView, name: str) -> Evidence:
    """Networks trained anew under one protocol: the advantage over random, and the areas compared."""
    verdicts, protocol = view.verdicts[name], view.results.protocols[name]
    advantages = dict(zip(verdicts["estimator"], verdicts["advantage"], strict=True))
    values = {BASELINE: 0.0} | {n: lead for n, lead in advantages.items() if view.roles.get(n) != "truth"}
    baselines = frozenset(n for n in values if view.roles.get(n) in FREE or n == BASELINE)
    areas = view.areas(name)
    rows = {n: areas.loc[n].to_numpy(dtype=float) for n in values}
    alpha = view.results.comparison_alpha
    return Evidence(
        name,
        protocol.label,
        "retrained",
        protocol.true_to,
        values,
        compare(rows, baselines, protocol.higher_is_better, alpha=alpha),
        baselines,
        "replicates",
        replicates=int(verdicts["n"].max()),
        alpha=alpha,
        unreliable=_why_failed(view.negative_controls.get(name)),
    )


def kind_of_metric(metric: str) -> Kind | None:
    """The kind of a metric; None for one that recommends nothing, or that nobody has declared here."""
    facts = facts_of(metric)
    return METRICS.get(family_of(facts["name"])) if facts else None


def _random_curve(curves: Curves | None, facts: Mapping[str, Any]) -> tuple[tuple[float, float], ...]:
    """The curve of the random ranking by the share of pixels that are filled."""
    if curves is None or BASELINE not in curves.lines:
        return ()
    filled = 1 - curves.fractions if facts["axis"] is not None and facts["axis"].of_shown else curves.fractions
    return tuple(sorted(zip(filled.tolist(), np.asarray(curves.lines[BASELINE].mean).tolist(), strict=True)))


# which are reliable here


def checked(found: Sequence[Evidence], kinds: Iterable[str] = MATTER) -> list[Evidence]:
    """The evidence in the order of KINDS, each with the reason where it is not reliable here, and the board's number.

    `kinds` are the degradations that matter here, by which the board's numbers are taken.
    """
    kinds, often = tuple(kinds), Counter(one.label for one in found)
    complete = []
    for one in found:
        label = one.label if often[one.label] == 1 else one.name
        why = _contradicted(one, found) or one.unreliable or _too_little(one) or _out_of_domain(one)
        complete.append(replace(one, label=label, unreliable=why, board=trust(one.name, kinds)))
    return sorted(complete, key=lambda one: KINDS.index(one.kind))


def kinds_that_matter(quality: NetworkQuality | None) -> tuple[str, ...]:
    """The degradations that matter for a network: where there are no classes, no mask can tell one."""
    by_class = quality is None or quality.kind == "softmax"
    return tuple(kind for kind in MATTER if by_class or kind not in OF_CLASSES)


def _too_little(one: Evidence) -> str:
    """No baseline, too few replicates for a verdict, or nothing that varies."""
    if not one.baselines & one.values.keys():
        return "it has no model-free baseline to compare with, such as `random`"
    several = one.replicates > 1 or one.unit == "replicates" or "evaluator" in one.kind
    if several and one.replicates < LEAST_REPLICATES:
        return f"{counted(one.replicates, 'replicate')}, a verdict needs {LEAST_REPLICATES}"
    return "" if one.comparisons["p"].notna().any() else f"{one.basis}: nothing varies that could be tested"


def _out_of_domain(one: Evidence) -> str:
    """A network that no longer recognises what lost some random pixels fails for another reason than a ranking."""
    if one.kind != "filled" or len(one.random_curve) < 2:
        return ""
    reach = in_domain_share(one.random_curve)
    if reach >= IN_DOMAIN:
        return ""
    return f"the network's accuracy is not kept when {100 * reach:.0f} % of the pixels are replaced at random"


def in_domain_share(curve: Sequence[tuple[float, float]]) -> float:
    """The share of random pixels that may be filled before the answer has fallen half way to that of an empty image.

    `curve` has the shares filled, increasing, and the answers; between them it is interpolated. Where the answer is
    larger for an empty image than for the image itself, no share may be.

    >>> in_domain_share([(0, 1.0), (0.2, 0.8), (0.4, 0.4), (1, 0.2)]), in_domain_share([(0, 0.1), (1, 0.3)])
    (0.3, 0.0)
    """
    shares, answers = np.asarray(curve, dtype=float).T
    half = (answers[0] + answers[-1]) / 2
    below = np.flatnonzero(answers < half)
    if not len(below):
        return float(shares[-1])
    i = int(below[0])
    if i == 0:
        return 0.0
    part = (answers[i - 1] - half) / (answers[i - 1] - answers[i])
    return round(float(shares[i - 1] + part * (shares[i] - shares[i - 1])), 6)


def _contradicted(one: Evidence, found: Sequence[Evidence]) -> str:
    """Worse than random under ROAR and better under KAR: the masks leak the label.

    Of these two alone. A variant such as decoupled ROAR, made so that masks cannot leak the label, is contradicted by
    ROAR just where it does its work.
    """
    both = {other.name: other for other in found if other.name in ("roar", "kar")}
    if one.name not in both or len(both) < 2:
        return ""
    sides = {}
    for name, other in both.items():
        rows = margins(other.comparisons)
        rows = rows[rows["baseline"] == BASELINE]
        decided = holm(rows["p"].to_numpy(dtype=float)) <= other.alpha
        sides[name] = dict(zip(rows["method"], np.sign(rows["margin"]) * decided, strict=True))
    against = [m for m in one.methods if sides["roar"].get(m) == -1 and sides["kar"].get(m) == 1]
    if not against or 2 * len(against) < len(one.methods):
        return ""
    return (
        f"ROAR and KAR contradict each other ({len(against)} of {len(one.methods)} methods): the masks leak the label"
    )


# negative controls

State = Literal["passed", "failed", "undecided"]

CONTROL_COLUMNS = {
    "task": "data set",
    "model": "network",
    "measure": "the protocol or metric",
    "control": "passed, failed or undecided: whether it tells any method from random rankings",
    "methods": "how many were compared with random, model-free baselines not counted",
    "better": "how many are decidedly better",
    "worse": "how many are decidedly worse",
    "sentence": "the same in words",
}
"""The columns of `Results.negative_controls`."""


@dataclass(frozen=True)
class NegativeControl:
    """Whether one protocol or metric tells the methods from random rankings."""

    measure: str
    control: State
    methods: int
    better: int
    worse: int
    sentence: str

    @property
    def failed(self) -> bool:
        """Whether the protocol or metric is unable to judge here."""
        return self.control == "failed"


def negative_control(
    measure: str, frame: pd.DataFrame, room: float = math.nan, roles: Mapping[str, Role] = MappingProxyType({})
) -> NegativeControl:
    """Can a protocol or metric tell the methods from random rankings at all?

    passed      at least one method is decidedly better than random.
    failed      none is, and either some are decidedly worse (random is among the best), or the data were enough: every
                method's 95 % interval ends below a tenth (`RELEVANT`) of what could be gained over random at most.
    undecided   none is decidedly better, and the data are too few to say that no method is.

    `frame` has one row per method: `side` (1 decidedly better than random, -1 worse, 0 neither) and `high`, the upper
    end of the 95 % interval of its advantage; where it has the column `estimator`, those that `roles` calls baselines
    have no say: they never ask the network. `room` is the largest advantage possible, NaN where there is no bound.

    >>> frame = pd.DataFrame({"side": [0, -1], "high": [0.03, -0.01]})
    >>> negative_control("deletion", frame).sentence
    'deletion cannot judge here: no method is decidedly better than random rankings, and 1 of 2 is decidedly worse.'
    """
    frame = frame[frame["p"].notna()] if "p" in frame else frame  # what was not tested says nothing
    if "estimator" in frame:
        frame = frame[~frame["estimator"].map(lambda name: roles.get(name) in FREE).astype(bool)]
    total, better, worse = len(frame), int((frame["side"] == 1).sum()), int((frame["side"] == -1).sum())
    largest = float(frame["high"].max(skipna=False)) if total else math.nan
    methods, none = (
        counted(total, "method"),
        "cannot judge here: no method is decidedly better than random rankings, and",
    )
    state: State = "passed" if better else "failed" if worse or largest < RELEVANT * room else "undecided"
    if not total:
        words = "has not tested any method against random rankings."
    elif state == "passed":
        words = f"tells {better} of {methods} from random rankings as decidedly better."
    elif state == "undecided":
        words = f"has not told any of {methods} from random rankings: too few data to say more."
    elif worse:
        words = f"{none} {worse} of {total} {'is' if worse == 1 else 'are'} decidedly worse."
    else:
        most = f"none can be by more than {largest:.2g}" if largest > 0 else "all their intervals lie below random"
        words = f"{none} {most}, a tenth of what is possible being {RELEVANT * room:.2g}."
    return NegativeControl(measure, state, total, better, worse, f"{measure} {words}")


def metric_controls(comparisons: pd.DataFrame, values: pd.DataFrame) -> dict[str, NegativeControl]:
    """The controls of all metrics that judge and have random, from their pairs; `values` has a row per method."""
    controls: dict[str, NegativeControl] = {}
    roles = dict(zip(values["method"], values["role"], strict=True))
    if comparisons.empty or roles.get(BASELINE) != "random":  # somebody's own maps may have that name
        return controls
    for metric, pairs in comparisons.groupby("metric", sort=False):
        against, facts = margins(pairs), facts_of(str(metric))
        frame = against[against["baseline"] == BASELINE].rename(columns={"method": "estimator"})
        if frame.empty or facts.get("describes"):
            continue
        random = values[(values["metric"] == metric) & (values["method"] == BASELINE)]["value"]
        best = facts.get("high" if facts.get("higher_is_better") else "low", math.nan)
        room = abs(float(best) - float(random.iloc[0])) if len(random) and math.isfinite(best) else math.nan
        controls[str(metric)] = negative_control(str(metric), frame, room, roles)
    return controls


def _why_failed(control: NegativeControl | None) -> str:
    """Why a metric whose negative control failed is not reliable here; nothing where it did not."""
    if control is None or not control.failed:
        return ""
    below = f", {control.worse} significantly below" if control.worse else ""
    return f"none of {counted(control.methods, 'method')} is significantly above `random`{below}"


# warnings


def flags_of_scores(scores: Scores) -> list[Flag]:
    """The warnings that metrics raise. The median counts: a few images can carry any mean."""
    flags = []
    for metric, method, median in _medians(scores):
        kind, limit, words = LIMITS[metric]
        if median > limit:
            flags.append(Flag(method, kind, words.format(f"{median:.2f} (median over images)")))
    return flags


def check_sentences(scores: Scores) -> list[str]:
    """What the checks among some scores found, a sentence each: the range of medians, and the limit."""
    sentences, medians = [], _medians(scores)
    for metric, (kind, limit, words) in LIMITS.items():
        values = [median for name, _, median in medians if name == metric]
        if values:
            found = words.format(f"{min(values):.2f} to {max(values):.2f}").replace("-", "−")
            sentences.append(f"Check ({len(values)} methods, medians over images): {found}; {kind} above {limit:g}.")
    return sentences


def _medians(scores: Scores) -> list[tuple[str, str, float]]:
    """Metric, method and median over images of every metric that warns."""
    rows = scores.table[scores.table["role"].eq("method") & scores.table["median"].notna()]
    named = [(facts_of(row.metric).get("name", ""), str(row.method), float(row.median)) for row in rows.itertuples()]
    return list({one[:2]: one for one in named if one[0] in LIMITS}.values())


def by_method(flags: Iterable[Flag]) -> dict[str, tuple[Flag, ...]]:
    """The warnings of each method, each kind once."""
    result: dict[str, dict[str, Flag]] = {}
    for flag in flags:
        result.setdefault(flag.method, {}).setdefault(flag.kind, flag)
    return {method: tuple(each.values()) for method, each in result.items()}
