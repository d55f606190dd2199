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

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from uproar.results.evidence import Evidence, Standing, evidence_of_scores, evidence_of_view
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
    def deciding(self) -> tuple[Evidence, ...]:
        """The metrics that decide."""
        reliable = [metric for metric in self.metrics if not metric.unreliable]
        about_network = [metric for metric in reliable if metric.question == "model"] or reliable
        first = [metric for metric in about_network if metric.trusted] or about_network
        return tuple(metric for metric in first if metric.kind == first[0].kind)

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """The methods, best first by their mean rank under the metrics that decide."""
        names = list(dict.fromkeys(name for metric in self.metrics for name in metric.methods))
        ranks = [
            [metric.methods.index(n) if n in metric.methods else len(names) for n in names] for metric in self.deciding
        ]
        means = dict(zip(names, np.mean(ranks, 0), strict=True)) if ranks else {}
        return tuple(sorted(names, key=lambda name: means.get(name, 0.0)))

    @cached_property
    def baselines(self) -> tuple[str, ...]:
        """The rankings that never look at the network."""
        return tuple(dict.fromkeys(n for metric in self.metrics for n in metric.values if n in metric.baselines))

    def standings(self, method: str) -> list[Standing]:
        """A method against the baselines under the metrics that decide."""
        return [metric.standings[method] for metric in self.deciding if method in metric.standings]

    def qualifies(self, method: str) -> bool:
        """Whether a deciding metric finds it better than every baseline, and none a baseline better than it."""
        standings = self.standings(method)
        return any(one.better for one in standings) and not any(one.lead.high < 0 for one in standings)

    @cached_property
    def qualified(self) -> tuple[str, ...]:
        """The methods that are better than every baseline, best first."""
        return tuple(method for method in self.methods if self.qualifies(method))

    @cached_property
    def random_only(self) -> bool:
        """Whether `random` is the only baseline of the metrics that decide: too low a bar to recommend by."""
        return not any(name in metric.baselines - {BASELINE} for metric in self.deciding for name in metric.values)

    def significantly_better(self, first: str, second: str) -> bool:
        """Whether a deciding metric finds the first significantly better, and none the second."""
        pairs = [metric.significant for metric in self.deciding]
        return any((first, second) in each for each in pairs) and not any((second, first) in each for each in pairs)

    @cached_property
    def best(self) -> tuple[str, ...]:
        """The best method that qualifies and those not significantly different from it, the cheapest first."""
        tied = [m for m in self.qualified if not self.significantly_better(self.qualified[0], m)]
        return tuple(sorted(tied, key=lambda m: self.costs.get(m, Cost(np.inf)).passes))

    @property
    def recommended(self) -> tuple[str, ...]:
        """The methods to use, the cheapest first; empty where none can be recommended."""
        return () if self.random_only else self.best

    @cached_property
    def shortcut(self) -> bool:
        """Whether the network and the data disagree about what matters; see the rule."""
        reliable = {metric.kind: metric for metric in self.metrics if not metric.unreliable}
        if not self.qualified or not {"evaluator", "label evaluator"} <= reliable.keys():
            return False
        network, label = (reliable[kind].lost.get(self.qualified[0]) for kind in ("evaluator", "label evaluator"))
        if network is None or label is None:
            return False
        return label.high < network.low and label.value < network.value / 2

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The methods of every letter, best first: two share one where they are not significantly different."""
        ranked = [method for method in self.methods if any(method in metric.values for metric in self.deciding)]

        def differ(first: str, second: str) -> bool:
            return self.significantly_better(first, second) or self.significantly_better(second, first)

        return letter_groups(ranked, differ)

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
        letters = letters_of(self.groups)
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
