"""What results say of methods, metric by metric: one `Evidence` each, with the reason where it is not reliable here.

Evaluators, metrics without retraining and retrained networks are read alike: values by method, the paired comparisons
of `statistics.comparisons`, and what follows from these. `results/answer.py` has the rule that makes a recommendation
of them. A metric takes no part where

- its negative control failed (`Control`), or ROAR and KAR contradict each other: the masks leak the label;
- there is no baseline, or there are too few replicates for a test;
- the network does not bear that pixels are filled at random (`in_domain_share`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from uproar.errors import UproarError
from uproar.expression import parse
from uproar.metrics.registry import TrueTo, family_of, metrics
from uproar.metrics.retraining import RETRAININGS
from uproar.results.board import Card, card_of
from uproar.statistics.comparisons import against_baselines, corrected, margins
from uproar.statistics.design import ALPHA, BASELINE, LEAST_REPLICATES
from uproar.statistics.intervals import Interval
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.results.evaluator import EvaluatorScores
    from uproar.results.scores import Curves, Scores
    from uproar.results.study import StudyView

Kind = Literal["evaluator", "fine-tuned", "filled", "label evaluator", "retrained"]
KINDS: tuple[Kind, ...] = ("evaluator", "filled", "fine-tuned", "label evaluator", "retrained")
"""The kinds of metrics, the one that decides first: an evaluator of the network's answers; the network as it is, on
filled images; the network fine-tuned on changed images; an evaluator of the label; networks trained anew."""

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

Question = TrueTo

IN_DOMAIN = 0.1
"""The share of pixels, drawn at random, that a network must bear to lose for filled images to say anything."""

RELEVANT = 0.1
"""The share of what could be gained over random below which an advantage is too small to matter."""

FREE = ("baseline", "random")
"""The roles that never look at the network."""


class Standing(NamedTuple):
    """One method against the baselines under one metric."""

    better: bool
    """Whether it is significantly better than every baseline."""
    baseline: str
    """The baseline that it beats least clearly, or does not beat."""
    lead: Interval
    """How far it is ahead of that baseline."""
    p: float
    """Of not beating every baseline, adjusted over the methods."""


@dataclass(frozen=True)
class Control:
    """The negative control of a metric: does it find any method better than random rankings?

    passed      at least one method is significantly better than random.
    failed      none is, and either some are significantly worse (random is among the best), or the data were enough:
                every method's 95 % interval ends below a tenth (`RELEVANT`) of what could be gained over random.
    undecided   none is significantly better, and the data are too few to say that no method is.
    """

    state: Literal["passed", "failed", "undecided"]
    methods: int
    better: int
    worse: int

    @classmethod
    def of(cls, against_random: pd.DataFrame, room: float = math.nan) -> Control:
        """From a row per method: `side` (1 significantly better than random, -1 worse, 0 neither) and `high`, the upper
        end of the 95 % interval of its advantage. `room` is the largest advantage possible, NaN without a bound.

        >>> Control.of(pd.DataFrame({"side": [0, -1], "high": [0.03, -0.01]})).sentence
        'none of 2 methods is significantly above `random`, 1 significantly below'
        """
        side, methods = against_random["side"], len(against_random)
        better, worse = int((side == 1).sum()), int((side == -1).sum())
        small = methods > 0 and against_random["high"].max(skipna=False) < RELEVANT * room
        return cls("passed" if better else "failed" if worse or small else "undecided", methods, better, worse)

    @property
    def sentence(self) -> str:
        """The counts in words."""
        if not self.methods:
            return f"no method was tested against `{BASELINE}`"
        who = f"{self.better or 'none'} of {counted(self.methods, 'method')} {'are' if self.better > 1 else 'is'}"
        below = f", {self.worse} significantly below" if self.worse else ""
        return f"{who} significantly above `{BASELINE}`{below}"


@dataclass(frozen=True)
class Evidence:
    """What one metric says of the methods, and whether it is reliable here."""

    name: str
    """As the study or the scores name it."""
    label: str
    """As people read it."""
    kind: Kind | None
    """None for a metric that recommends nothing."""
    question: Question
    values: Mapping[str, float]
    """By method and baseline; larger is better."""
    comparisons: pd.DataFrame
    """Methods against baselines and against each other: `statistics.comparisons.COLUMNS`."""
    baselines: frozenset[str]
    """The names that never look at the network."""
    unit: Literal["images", "replicates"]
    images: int = 0
    replicates: int = 1
    alpha: float = ALPHA
    room: float = math.nan
    """The largest advantage over random that is possible; NaN without a bound."""
    random_curve: tuple[tuple[float, float], ...] = ()
    """Share of pixels filled in random order and what the network's answer is then, where the metric has it."""
    unreliable: str = ""
    """Why it is not reliable here; empty where it takes part in the recommendation."""
    board: Card | None = None
    """What the board says of it with exactly these settings; None where nobody has measured that."""
    lost: Mapping[str, Interval] = field(default_factory=dict)
    """Of an evaluator: the share of what it knows that is lost with the pixels that a method ranks first."""
    leaks: Mapping[str, float] = field(default_factory=dict)
    """Of an evaluator: methods whose masks leak the class to it, and the share of images above chance."""

    @property
    def trusted(self) -> bool:
        """Whether the board trusts it."""
        return self.board is not None and self.board.trusted

    @property
    def basis(self) -> str:
        """What its numbers rest on, in words."""
        replicates, images = counted(self.replicates, "replicate"), counted(self.images, "image")
        if self.unit == "replicates":
            return replicates
        return f"{replicates} of {images}" if self.replicates > 1 else images

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """The methods, the largest value first."""
        return tuple(sorted((m for m in self.values if m not in self.baselines), key=lambda m: -self.values[m]))

    @cached_property
    def margins(self) -> pd.DataFrame:
        """Every method against every baseline."""
        return margins(self.comparisons)

    @cached_property
    def standings(self) -> Mapping[str, Standing]:
        """Every method against the baselines, where it was compared with any."""
        rows = against_baselines(self.margins, self.alpha).itertuples()
        return {
            row.method: Standing(
                bool(row.side), row.baseline, Interval(row.margin, row.low, row.high, df=row.df), row.p_holm
            )
            for row in rows
        }

    @cached_property
    def against_random(self) -> pd.DataFrame:
        """Every method that was tested against random rankings, Holm over these methods alone."""
        rows = self.margins[(self.margins["baseline"] == BASELINE) & self.margins["p"].notna()]
        return corrected(rows, self.alpha, "margin").set_index("method")

    @property
    def control(self) -> Control:
        """Whether it finds any method better than random rankings."""
        return Control.of(self.against_random, self.room)

    @cached_property
    def significant(self) -> frozenset[tuple[str, str]]:
        """The pairs of methods of which the first is significantly better than the second."""
        pairs = corrected(self.comparisons[self.comparisons["against"] == ""], self.alpha)
        pairs = pairs[pairs["side"] != 0]
        return frozenset(zip(pairs["better"], pairs["worse"], strict=True))


# reading results


def facts_of(metric: str) -> Mapping[str, Any]:
    """What a metric declares, with its name; nothing where it is a plug-in's that is not loaded, or no metric."""
    try:
        name = parse(metric).name
    except UproarError:
        return {}
    return {**metrics[name].facts, "name": name} if name in metrics else {}


def kind_of_metric(metric: str) -> Kind | None:
    """The kind of a metric; None for one that recommends nothing, or that nobody has declared here."""
    facts = facts_of(metric)
    return METRICS.get(family_of(facts["name"])) if facts else None


def metric_evidence(scores: Scores) -> list[Evidence]:
    """The metrics among scores that say which maps are better."""
    evidence = []
    baselines = frozenset(name for name, role in scores.roles.items() if role in FREE)
    known = {name for name, role in scores.roles.items() if role != "truth"}
    for name, rows in scores.table.groupby("metric", sort=False):
        metric, facts = str(name), facts_of(str(name))
        ranked = rows[rows["ranked"] & rows["value"].notna() & rows["method"].isin(known)]
        if facts.get("describes") or ranked.empty:
            continue
        higher = bool(rows["higher_is_better"].iloc[0])
        values = dict(zip(ranked["method"].map(str), ranked["value"] * (1 if higher else -1), strict=True))
        pairs = scores.comparisons[(scores.comparisons["metric"] == metric) & scores.comparisons["ranked"].eq(True)]
        best = facts.get("high" if higher else "low", math.nan) * (1 if higher else -1)
        evidence.append(
            Evidence(
                metric,
                facts.get("name", metric),
                kind_of_metric(metric),
                facts.get("true_to") or "model",
                values,
                pairs[pairs["better"].isin(values) & pairs["worse"].isin(values)],
                baselines,
                "images",
                int(ranked["n"].max()),
                scores.replicates,
                ALPHA / int(pairs["analyses"].max()) if "analyses" in pairs and len(pairs) else ALPHA,
                abs(best - values.get(BASELINE, math.nan)) if math.isfinite(best) else math.nan,
                _random_curve(scores.curves.get(metric), facts),
            )
        )
    return evidence


def evaluator_evidence(evaluators: Mapping[str, EvaluatorScores]) -> list[Evidence]:
    """Evaluators of the network's answers and of the label."""
    evidence = []
    for target, scores in evaluators.items():
        methods, baselines = scores.of_kind("method"), scores.of_kind("baseline", "random")
        if not methods:
            continue
        of_label, table = target == "label", scores.table.set_index("estimator")
        evidence.append(
            Evidence(
                scores.metric,
                "evaluator of the label" if of_label else "evaluator",
                "label evaluator" if of_label else "evaluator",
                "data" if of_label else "model",
                {name: float(table.loc[name, "score"]) for name in (*methods, *baselines)},
                scores.comparisons,
                frozenset(baselines),
                "images",
                int(table["n"].max()),
                int(table["replicates"].max()),
                scores.alpha,
                lost={name: scores.lost_share(name) for name in methods},
                leaks=scores.leaking,
            )
        )
    return evidence


def retrained_evidence(view: StudyView) -> list[Evidence]:
    """Networks trained anew, or asked as they are, on changed images: the advantage over random, the areas compared."""
    evidence = []
    for name, verdicts in view.verdicts.items():
        metric, random = RETRAININGS[name], float(verdicts["baseline_area"].iloc[0])
        values = {BASELINE: 0.0} | dict(zip(verdicts["estimator"], verdicts["advantage"], strict=True))
        values = {n: lead for n, lead in values.items() if view.roles.get(n) != "truth"}
        pairs = view.comparisons[name]
        evidence.append(
            Evidence(
                name,
                metric.label,
                "retrained" if metric.retrains else None,
                metric.true_to,
                values,
                pairs[pairs["better"].isin(values) & pairs["worse"].isin(values)],
                frozenset(n for n in values if view.roles.get(n) in FREE or n == BASELINE),
                "replicates",
                replicates=int(verdicts["n"].max()),
                alpha=view.results.comparison_alpha,
                room=1 - random if metric.higher_is_better else random - (view.chance or 0.0),
            )
        )
    return evidence


def _random_curve(curves: Curves | None, facts: Mapping[str, Any]) -> tuple[tuple[float, float], ...]:
    """The curve of the random ranking by the share of pixels that are filled."""
    if curves is None or BASELINE not in curves.lines:
        return ()
    filled = 1 - curves.fractions if facts["axis"] is not None and facts["axis"].of_shown else curves.fractions
    return tuple(sorted(zip(filled.tolist(), np.asarray(curves.lines[BASELINE].mean).tolist(), strict=True)))


# which are reliable here


def checked(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """The metrics that recommend in the order of KINDS, each with why it is not reliable here, and its card."""
    evidence = [each for each in evidence if each.kind is not None]
    often, complete = Counter(each.label for each in evidence), []
    for each in evidence:
        label = each.label if often[each.label] == 1 else each.name
        why = _contradicted(each, evidence) or _why_unreliable(each)
        complete.append(replace(each, label=label, unreliable=why, board=card_of(each.name)))
    return tuple(sorted(complete, key=lambda each: KINDS.index(each.kind or "retrained")))


def _why_unreliable(metric: Evidence) -> str:
    """The first reason not to rely on a metric by its own numbers; nothing where there is none."""
    if metric.control.state == "failed":
        return metric.control.sentence
    if not metric.baselines & metric.values.keys():
        return "it has no model-free baseline to compare with, such as `random`"
    several = metric.replicates > 1 or metric.unit == "replicates" or "evaluator" in (metric.kind or "")
    if several and metric.replicates < LEAST_REPLICATES:
        return f"{counted(metric.replicates, 'replicate')}, a verdict needs {LEAST_REPLICATES}"
    if not metric.comparisons["p"].notna().any():
        return f"{metric.basis}: nothing varies that could be tested"
    if several and metric.standings and all(math.isnan(standing.p) for standing in metric.standings.values()):
        return f"no method and baseline has {LEAST_REPLICATES} replicates in common, which a verdict needs"
    if (
        metric.kind == "filled"
        and len(metric.random_curve) > 1
        and (reach := in_domain_share(metric.random_curve)) < IN_DOMAIN
    ):
        # a network that no longer recognises what lost some random pixels fails for another reason than a ranking
        if metric.random_curve[0][1] <= metric.random_curve[-1][1]:
            return "the network is no better on whole images than on empty ones"
        return f"the network's accuracy is not kept when {100 * reach:.0f} % of the pixels are replaced at random"
    return ""


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
    return round(float(np.interp(-half, -answers[i - 1 : i + 1], shares[i - 1 : i + 1])), 6) if i else 0.0


def _contradicted(metric: Evidence, evidence: Sequence[Evidence]) -> str:
    """Worse than random under ROAR and better under KAR: the masks leak the label.

    Of these two alone. A variant such as decoupled ROAR, made so that masks cannot leak the label, is contradicted by
    ROAR just where it does its work.
    """
    sides = {other.name: other.against_random["side"] for other in evidence if other.name in ("roar", "kar")}
    if metric.name not in sides or len(sides) < 2:
        return ""
    against = [m for m in metric.methods if sides["roar"].get(m) == -1 and sides["kar"].get(m) == 1]
    if not against or 2 * len(against) < len(metric.methods):
        return ""
    share = f"{len(against)} of {len(metric.methods)} methods"
    return f"ROAR and KAR contradict each other ({share}): the masks leak the label"
