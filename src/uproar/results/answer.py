"""Which attribution method to use: the one recommendation that pages, terminals and Python give.

    results.answer.lines           at most four lines for a person
    results.answer.recommended     the methods to use, the cheapest first; empty where none can be recommended
    results.answer.table           methods x metrics: better than every model-free baseline or not
    results.answer.details         what supports and limits the recommendation

The rule:

1. Metrics that are not reliable here take no part (`results/evidence.py` says why). The question is what *the network*
   uses: metrics about the network decide, those about the data only where there is no other. Of these the ones that
   were measured to recover known orders decide, if any; of these the first kind (`evidence.KINDS`).
2. A method qualifies where a deciding metric finds it significantly better than every model-free baseline, and none
   finds a baseline significantly better. Where `random` is the only baseline nothing is recommended.
3. Recommended are the best of these and all others that qualify and are not significantly different from it.
4. Where removing the pixels that the best method ranks first loses less than half as much of what can be known about
   the label as of what can be known about the network's answer, and the intervals of both do not overlap, the network
   and the data disagree about what matters: a possible shortcut.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from uproar.results.evidence import Evidence, evidence_of_scores, evidence_of_view
from uproar.results.flags import Flag, by_method, check_sentences, flags_of_scores
from uproar.results.letter_groups import letter_groups, letters_of
from uproar.statistics.design import BASELINE

if TYPE_CHECKING:
    from uproar.results.scores import Scores
    from uproar.results.view import StudyView


@dataclass(frozen=True)
class Cost:
    """What a method costs per image."""

    passes: float
    """Forward and backward passes of the network; NaN where nobody knows."""
    seconds: float = float("nan")


@dataclass(frozen=True)
class Choice:
    """What the rule decides, by the metrics that decide."""

    deciding: tuple[Evidence, ...]
    methods: tuple[str, ...]
    """All methods, best first by their mean rank under the metrics that decide."""
    qualified: tuple[str, ...] = ()
    """The methods that are better than every baseline, best first."""
    best: tuple[str, ...] = ()
    """The best of these and those not significantly different from it, the cheapest first."""
    random_only: bool = False
    """Whether `random` is the only baseline: too low a bar to recommend by."""
    groups: tuple[tuple[str, ...], ...] = ()
    """The methods of every letter, best first: two share one where they are not significantly different."""
    shortcut: bool = False
    """Whether the network and the data disagree about what matters."""

    @property
    def recommended(self) -> tuple[str, ...]:
        """The methods to use, the cheapest first; empty where none can be recommended."""
        return () if self.random_only else self.best


def recommend(metrics: Sequence[Evidence], costs: Mapping[str, Cost]) -> Choice:
    """The rule at the top of this file, step by step."""
    names = list(dict.fromkeys(name for metric in metrics for name in metric.methods))
    reliable = [metric for metric in metrics if not metric.unreliable]
    about_network = [metric for metric in reliable if metric.question == "model"] or reliable
    first = [metric for metric in about_network if metric.trusted] or about_network
    deciding = tuple(metric for metric in first if metric.kind == first[0].kind)
    if not deciding:
        return Choice((), tuple(names))

    def mean_rank(name: str) -> float:
        ranks = [metric.methods.index(name) if name in metric.methods else len(names) for metric in deciding]
        return float(np.mean(ranks))

    def qualifies(name: str) -> bool:
        standings = [metric.standings[name] for metric in deciding if name in metric.standings]
        return any(one.better for one in standings) and not any(one.lead.high < 0 for one in standings)

    def better(one: str, other: str) -> bool:
        found = [metric.significant for metric in deciding]
        return any((one, other) in pairs for pairs in found) and not any((other, one) in pairs for pairs in found)

    methods = tuple(sorted(names, key=mean_rank))
    qualified = tuple(name for name in methods if qualifies(name))
    best = [name for name in qualified if not better(qualified[0], name)]
    best.sort(key=lambda name: costs.get(name, Cost(np.inf)).passes)
    random_only = not any(name in metric.baselines - {BASELINE} for metric in deciding for name in metric.values)
    ranked = [name for name in methods if any(name in metric.values for metric in deciding)]
    groups = letter_groups(ranked, lambda one, other: better(one, other) or better(other, one))

    lost = {metric.kind: metric.lost.get(qualified[0]) for metric in reliable} if qualified else {}
    network, label = lost.get("evaluator"), lost.get("label evaluator")
    shortcut = False
    if network is not None and label is not None:
        shortcut = label.high < network.low and label.value < network.value / 2
    return Choice(deciding, methods, qualified, tuple(best), random_only, groups, shortcut)


@dataclass(frozen=True)
class Answer:
    """The recommendation for one task and model, or for scores."""

    metrics: tuple[Evidence, ...]
    """What the metrics say, in the order in which they would decide."""
    flags: Mapping[str, tuple[Flag, ...]] = field(default_factory=dict)
    """Warnings by method."""
    costs: Mapping[str, Cost] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Methods that were asked for and have no value, with the reason."""
    task: str = ""
    model: str = ""
    checks: tuple[str, ...] = ()
    """What the checks found, a sentence each."""

    @cached_property
    def choice(self) -> Choice:
        """What the rule makes of the metrics."""
        return recommend(self.metrics, self.costs)

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, best first by their mean rank under the metrics that decide."""
        return self.choice.methods

    @property
    def recommended(self) -> tuple[str, ...]:
        """The methods to use, the cheapest first; empty where none can be recommended."""
        return self.choice.recommended

    @property
    def lines(self) -> tuple[str, ...]:
        """The recommendation in at most four lines."""
        from uproar.results.answer_text import lines_of

        return lines_of(self)

    @property
    def sentence(self) -> str:
        """The same lines in one paragraph."""
        return " ".join(self.lines)

    @property
    def details(self) -> tuple[str, ...]:
        """What supports and limits the recommendation, a sentence each."""
        from uproar.results.answer_text import details_of

        return details_of(self)

    @property
    def table(self) -> pd.DataFrame:
        """One row per method: rank group, standing under every metric, warnings, passes and seconds per image."""
        letters = letters_of(self.choice.groups)
        rows = []
        for method in self.methods:
            standings = {metric.label: metric.standings.get(method) for metric in self.metrics}
            cost = self.costs.get(method, Cost(float("nan")))
            rows.append(
                {
                    "method": method,
                    "group": letters.get(method, ""),
                    "recommended": method in self.recommended,
                    **{label: "" if one is None else one.words for label, one in standings.items()},
                    "warnings": ", ".join(flag.kind for flag in self.flags.get(method, ())),
                    "passes": cost.passes,
                    "seconds": cost.seconds,
                }
            )
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return f"<Answer: {self.sentence}>"

    def _repr_html_(self) -> str:
        from uproar.results.html import answer_html

        return answer_html(self)


def answer_of_scores(scores: Scores) -> Answer:
    """The recommendation that scores give."""
    return Answer(
        tuple(evidence_of_scores(scores)),
        by_method(flags_of_scores(scores)),
        costs_in(scores.costs),
        {**_never_ranked(scores), **scores.left_out},
        checks=tuple(check_sentences(scores)),
    )


def answer_of_view(view: StudyView) -> Answer:
    """The recommendation for one task and model of a study."""
    measured = [scores for scores in (view.metric_scores, view.check_scores) if scores is not None]
    flags = [flag for finding in view.findings for flag in finding.flags]
    flags += [flag for scores in measured for flag in flags_of_scores(scores)]
    metrics = tuple(evidence_of_view(view))
    return Answer(
        metrics,
        by_method(flags),
        costs_in(view.own(view.results.costs)),
        unjudged(view, {name for metric in metrics for name in metric.values}),
        view.task,
        view.model,
        tuple(sentence for scores in measured for sentence in check_sentences(scores)),
    )


def costs_in(table: pd.DataFrame) -> dict[str, Cost]:
    """Passes and seconds per image by method, from a table of costs."""
    if "passes" not in table:
        return {}
    seconds = table.get("milliseconds_per_image", pd.Series(np.nan, table.index)) / 1000
    return {
        str(name): Cost(float(passes), float(each))
        for name, passes, each in zip(table["estimator"], table["passes"], seconds, strict=True)
    }


def unjudged(view: StudyView, judged: Collection[str]) -> dict[str, str]:
    """Methods that failed or were skipped, and those that no metric ranks, with the reason; none that has a value."""
    reasons = {} if view.metric_scores is None else _never_ranked(view.metric_scores)
    for frame in (view.table, view.own(view.results.scores)):
        rest = frame[frame["status"].isin(["skipped", "failed"])] if len(frame) else frame
        reasons |= {
            str(e): str(reason) for e, reason in zip(rest.get("estimator", ()), rest.get("reason", ()), strict=True)
        }
    return {name: why for name, why in reasons.items() if name not in judged}


def _never_ranked(scores: Scores) -> dict[str, str]:
    """Methods that no metric ranks, with what the first of them says."""
    groups = scores.table.groupby("method", sort=False)
    return {str(name): str(rows["note"].iloc[0]) for name, rows in groups if not rows["ranked"].any()}
