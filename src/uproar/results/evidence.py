"""What one metric says of the methods: a value each, the tests between them, and whether it is reliable here.

Every metric that can recommend a method, retrained or not, is read into an `Evidence`; `results/answer.py` has the rule
that makes a recommendation of them. Two families of tests, each adjusted by Holm's method:

    methods against baselines   a method is better than every model-free baseline (intersection-union: the largest p
                                counts, 1 where it is not ahead); adjusted over the methods
    method against method       adjusted over the pairs of methods

Baselines are not tested against each other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from uproar.errors import UproarError
from uproar.expression import parse
from uproar.metrics import metrics
from uproar.metrics.registry import family_of
from uproar.results.controls import NegativeControl
from uproar.results.recovery import MATTER, OF_CLASSES, JudgeRecovery, trust
from uproar.statistics.comparisons import holm
from uproar.statistics.design import ALPHA, BASELINE, LEAST_REPLICATES
from uproar.statistics.intervals import Interval
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.results.evaluator import EvaluatorScores
    from uproar.results.quality import NetworkQuality
    from uproar.results.scores import Curves, Scores
    from uproar.results.view import StudyView

Kind = Literal["evaluator", "fine-tuned", "filled", "label evaluator", "retrained"]
KINDS: tuple[Kind, ...] = ("evaluator", "fine-tuned", "filled", "label evaluator", "retrained")
"""The kinds of metrics, the one that decides first: an evaluator of the network's answers; the network fine-tuned on
changed images; the network as it is, on filled images; an evaluator of the label; networks trained anew."""

Question = Literal["model", "data"]
QUESTIONS: Mapping[Question, str] = {"model": "what the network uses", "data": "what the data allow"}

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


@dataclass(frozen=True)
class Standing:
    """One method against the baselines under one metric."""

    better: bool
    """Whether it is significantly better than every baseline."""
    baseline: str
    """The baseline that it beats least clearly, or does not beat."""
    lead: Interval
    """How far it is ahead of that baseline."""
    p: float
    """Of not beating every baseline, adjusted over the methods."""

    @property
    def words(self) -> str:
        """As a table has it."""
        return "better" if self.better else f"not better than {self.baseline}"


@dataclass(frozen=True)
class Evidence:
    """One metric with what it measured."""

    name: str
    """As the study or the scores name it."""
    label: str
    """As people read it."""
    kind: Kind
    question: Question
    scores: Mapping[str, Interval]
    """By method and baseline, each alone; larger is better."""
    differences: Mapping[tuple[str, str], Interval]
    """First minus second, each tested alone; larger is better."""
    baselines: frozenset[str]
    """The names that never look at the network."""
    unit: Literal["images", "replicates"]
    images: int = 0
    replicates: int = 1
    alpha: float = ALPHA
    random_curve: tuple[tuple[float, float], ...] = ()
    """Share of pixels filled in random order and what the network's answer is then, where the metric has it."""
    unreliable: str = ""
    """Why it is not reliable here; empty where it takes part in the recommendation."""
    board: JudgeRecovery | None = None
    """How well it recovers known orders with exactly these settings; None where nobody has measured that."""
    lost: Mapping[str, Interval] = field(default_factory=dict)
    """Of an evaluator: the share of what it knows that is lost with the pixels that a method ranks first."""
    excess: Mapping[str, float] = field(default_factory=dict)
    """Of an evaluator: methods under whose own masks it needs more bits than the entropy, and how many more."""

    @cached_property
    def values(self) -> Mapping[str, float]:
        """The scores without their intervals."""
        return {name: score.value for name, score in self.scores.items()}

    @property
    def trusted(self) -> bool:
        """Whether it was measured to recover known orders."""
        return self.board is not None and self.board.trusted

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """The methods, the largest value first."""
        return tuple(sorted((m for m in self.values if m not in self.baselines), key=lambda m: -self.values[m]))

    @property
    def basis(self) -> str:
        """What its numbers rest on, in words."""
        replicates, images = counted(self.replicates, "replicate"), counted(self.images, "image")
        if self.unit == "replicates":
            return replicates
        return f"{replicates} of {images}" if self.replicates > 1 else images

    def lead(self, first: str, second: str) -> Interval:
        """How far the first is ahead of the second, tested alone; NaN where they were not compared."""
        if (first, second) in self.differences:
            return self.differences[first, second]
        back = self.differences.get((second, first))
        return Interval(math.nan) if back is None else -back

    @cached_property
    def standings(self) -> Mapping[str, Standing]:
        """Every method against the baselines, where it was compared with any."""
        hardest: dict[str, tuple[float, float, str]] = {}
        for method in self.methods:
            leads = {b: self.lead(method, b) for b in self.values if b in self.baselines}
            tested = {b: lead for b, lead in leads.items() if not math.isnan(lead.value)}
            if tested:
                hardest[method] = max((_p_ahead(lead), -lead.value, b) for b, lead in tested.items())
        adjusted = holm([p for p, _, _ in hardest.values()])
        return {
            method: Standing(bool(p <= self.alpha), baseline, self.lead(method, baseline), float(p))
            for (method, (_, _, baseline)), p in zip(hardest.items(), adjusted, strict=True)
        }

    @cached_property
    def significant(self) -> frozenset[tuple[str, str]]:
        """The pairs of methods of which the first is significantly better than the second."""
        rated = set(self.methods)
        pairs = {pair: lead for pair, lead in self.differences.items() if rated.issuperset(pair)}
        adjusted = zip(pairs.items(), holm([lead.p for lead in pairs.values()]), strict=True)
        decided = {pair: lead.value for (pair, lead), p in adjusted if p <= self.alpha}
        return frozenset(pair if value > 0 else pair[::-1] for pair, value in decided.items())

    @cached_property
    def against_random(self) -> Mapping[str, int]:
        """By method: 1 significantly better than random, -1 worse, 0 neither; adjusted over the methods."""
        leads = {method: self.lead(method, BASELINE) for method in self.methods}
        adjusted = holm([lead.p for lead in leads.values()])
        return {
            m: int(np.sign(lead.value)) * bool(p <= self.alpha)
            for (m, lead), p in zip(leads.items(), adjusted, strict=True)
        }


def _p_ahead(lead: Interval) -> float:
    """P of a difference where it is positive and was tested, else 1."""
    return lead.p if lead.value > 0 and math.isfinite(lead.p) else 1.0


# reading results


def evidence_of_scores(scores: Scores) -> list[Evidence]:
    """What scores have: evaluators, where there were training images for them, and the metrics that can recommend."""
    return checked(
        [*evaluator_evidence(scores.evaluators), *_metric_evidence(scores)], kinds_that_matter(scores.quality)
    )


def evidence_of_view(view: StudyView) -> list[Evidence]:
    """What one task and model of a study has: its evaluators, its metrics and its retrained networks."""
    measured = [] if view.metric_scores is None else _metric_evidence(view.metric_scores)
    retrained = [_retrained(view, name) for name in view.verdicts if view.results.protocols[name].retrains]
    return checked([*evaluator_evidence(view.evaluators), *measured, *retrained], kinds_that_matter(view.quality))


def _metric_evidence(scores: Scores) -> list[Evidence]:
    """The metrics among scores that can recommend."""
    found = []
    baselines = frozenset(name for name, role in scores.roles.items() if role in ("baseline", "random"))
    known = {name for name, role in scores.roles.items() if role != "truth"}
    for metric, rows in scores.table.groupby("metric", sort=False):
        kind = kind_of_metric(str(metric))
        ranked = rows[rows["ranked"] & rows["value"].notna() & rows["method"].isin(known)]
        if kind is None or ranked.empty:
            continue
        name, sign = parse(str(metric)).name, 1 if bool(rows["higher_is_better"].iloc[0]) else -1
        pairs = scores.comparisons[(scores.comparisons["metric"] == metric) & scores.comparisons["ranked"].eq(True)]
        found.append(
            Evidence(
                str(metric),
                name,
                kind,
                metrics[name].facts.get("true_to") or "model",
                {str(row.method): _signed(Interval(row.value, row.low, row.high), sign) for row in ranked.itertuples()},
                _differences(pairs, sign),
                baselines,
                "images",
                int(ranked["n"].max()),
                scores.replicates,
                ALPHA / int(pairs["analyses"].max()) if "analyses" in pairs and len(pairs) else ALPHA,
                _random_curve(scores.curves.get(str(metric)), name),
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
        about_data = target == "label"
        found.append(
            Evidence(
                "evaluator" if about_data else "evaluator:model",
                "evaluator of the label" if about_data else "evaluator",
                "label evaluator" if about_data else "evaluator",
                "data" if about_data else "model",
                {name: m.interval() for name, m in scores.measurements.items() if name not in scores.of_kind("truth")},
                _differences(scores.comparisons, 1),
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
    """Networks trained anew under one protocol: the advantage over random, and the pairs."""
    verdicts, protocol = view.verdicts[name], view.results.protocols[name]
    against = {str(row.estimator): _interval(row, row.advantage, row.n) for row in verdicts.itertuples()}
    scores = {name: lead for name, lead in against.items() if view.roles.get(name) != "truth"}
    pairs = _differences(view.comparisons.get(name, pd.DataFrame()), protocol.direction)
    return Evidence(
        name,
        protocol.label,
        "retrained",
        protocol.true_to,
        {BASELINE: Interval(0.0), **scores},
        {**{(name, BASELINE): lead for name, lead in against.items()}, **pairs},
        frozenset(n for n, role in view.roles.items() if role in ("baseline", "random")) | {BASELINE},
        "replicates",
        replicates=int(verdicts["n"].max()),
        alpha=view.results.comparison_alpha,
        unreliable=_why_failed(view.negative_controls.get(name)),
    )


def kind_of_metric(metric: str) -> Kind | None:
    """The kind of a metric; None for one that recommends nothing, or that nobody has declared here."""
    try:
        name = parse(metric).name
        return METRICS.get(family_of(name)) if name in metrics else None
    except UproarError:
        return None


def _differences(pairs: pd.DataFrame, sign: int) -> dict[tuple[str, str], Interval]:
    """The rows of a table of comparisons, on a scale where larger is better."""
    leads = {
        (str(row.better), str(row.worse)): _interval(row, row.difference, row.replicates) for row in pairs.itertuples()
    }
    return {pair: _signed(lead, sign) for pair, lead in leads.items()}


def _signed(interval: Interval, sign: int) -> Interval:
    """On a scale where larger is better."""
    return interval if sign > 0 else -interval


def _interval(row: object, value: float, replicates: float) -> Interval:
    """The interval and test in a row of a table."""
    return Interval(value, row.low, row.high, int(row.n), int(replicates), row.df, row.p)  # type: ignore[attr-defined]


def _why_failed(control: NegativeControl | None) -> str:
    """Why a metric whose negative control failed is not reliable here; nothing where it did not."""
    if control is None or not control.failed:
        return ""
    below = f", {control.worse} significantly below" if control.worse else ""
    return f"none of {counted(control.methods, 'method')} is significantly above `random`{below}"


def _random_curve(curves: Curves | None, name: str) -> tuple[tuple[float, float], ...]:
    """The curve of the random ranking by the share of pixels that are filled."""
    if curves is None or BASELINE not in curves.lines:
        return ()
    axis = metrics[name].facts["axis"]
    filled = 1 - curves.fractions if axis is not None and axis.of_shown else curves.fractions
    points = zip(filled.tolist(), np.asarray(curves.lines[BASELINE].mean).tolist(), strict=True)
    return tuple(sorted(points))


# which are reliable here


def checked(found: Sequence[Evidence], kinds: Iterable[str] = MATTER) -> list[Evidence]:
    """The evidence in the order of KINDS, each with the reason where it is not reliable here, and the board's number.

    `kinds` are the degradations that matter here, by which the board's numbers are taken.
    """
    kinds, often = tuple(kinds), Counter(one.label for one in found)
    complete = [
        replace(
            one,
            label=one.label if often[one.label] == 1 else one.name,
            unreliable=_contradicted(one, found) or one.unreliable or _too_little(one) or _out_of_domain(one),
            board=trust(one.name, kinds),
        )
        for one in found
    ]
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
    if not any(math.isfinite(lead.p) for lead in one.differences.values()):
        return f"{one.basis}: nothing varies that could be tested"
    return ""


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
    removing, keeping = both["roar"].against_random, both["kar"].against_random
    against = [m for m in one.methods if removing.get(m) == -1 and keeping.get(m) == 1]
    if not against or 2 * len(against) < len(one.methods):
        return ""
    return (
        f"ROAR and KAR contradict each other ({len(against)} of {len(one.methods)} methods): the masks leak the label"
    )
