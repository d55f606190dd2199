"""Which attribution method to use: the one answer that pages, terminals and Python give.

    results.answer.sentence        "Use `ig`; `sg_sq(grad)` cannot be told from it; ..."
    results.answer.recommended     "ig", or None
    results.answer.groups          methods that share a letter: none is significantly different from another
    results.answer.table           methods x judges: the verdict against the best network-free ranking
    results.answer.would_tell      what would decide what is open, and how long that takes

The rule. Of the judges that are able to judge here, those that recover known orders decide (`results/judges.py`); where
none is trusted, the others. Of these, the first kind decides that has one. A method qualifies
if one of them finds it decidedly better than every ranking that never looks at the network, none finds it decidedly
worse than such a ranking, and nothing disqualifies it (`results/flags.py`). Of those that qualify the one with the best
mean rank is recommended, and every method that is not significantly different from it is named beside it: those that
share a letter with it (`results/letter_groups.py`). Where a random ranking is the only control, nothing is recommended:
better than random is too low a bar.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from uproar.results.controls import network_free
from uproar.results.flags import (
    CHECKS,
    DISQUALIFYING,
    DISQUALIFYING_RETRAINED,
    Flag,
    Kind,
    by_method,
    check_sentences,
    checked_by_encoding,
    checked_by_scores,
    flags_of_encoding,
    flags_of_scores,
    not_checked_words,
)
from uproar.results.judges import Judge, check_judges, informed, judges_of_scores, judges_of_view, kinds_that_matter
from uproar.results.letter_groups import letter_groups, letters_of
from uproar.results.open_question import OpenQuestion, further_evidence, open_question
from uproar.statistics.design import BASELINE
from uproar.wording import series

if TYPE_CHECKING:
    from uproar.results.scores import Scores
    from uproar.results.view import StudyView

Level = Literal["better", "undecided", "no better", "worse"]


@dataclass(frozen=True)
class Placing:
    """One method under one judge, against the rankings that never look at the network.

    better      decidedly better than every one of them
    undecided   it cannot be told from one of them (`control`): ahead or behind, but not decidedly
    no better   the interval of its difference to one of them lies wholly at or below 0, undecided over all pairs
    worse       one of them is decidedly better
    """

    level: Level
    control: str = ""
    """The ranking that it is not shown to be better than."""
    ahead: bool = True
    """Whether its value is above those of all of them, decidedly or not."""


@dataclass(frozen=True)
class Cost:
    """What a method costs per image."""

    passes: float
    """Forward and backward passes of the network; NaN where nobody knows."""
    seconds: float = float("nan")


@dataclass(frozen=True)
class Answer:
    """The answer for one task and model, or for scores."""

    judges: tuple[Judge, ...]
    """The most trusted kind first."""
    flags: Mapping[str, tuple[Flag, ...]] = field(default_factory=dict)
    costs: Mapping[str, Cost] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Methods that were asked for and not judged, with the reason."""
    task: str = ""
    model: str = ""
    checked: Mapping[Kind, frozenset[str]] = field(default_factory=dict)
    """By flag, the methods that were asked whether they have it."""
    check_results: tuple[str, ...] = ()
    """What the checks found, a sentence each."""

    @cached_property
    def deciding(self) -> tuple[Judge, ...]:
        """The judges that decide: of those able to judge the trusted ones, or all if none is, the first kind."""
        able = [judge for judge in self.judges if judge.votes]
        first = [judge for judge in able if judge.trusted] or able
        return tuple(judge for judge in first if judge.kind == first[0].kind)

    @cached_property
    def controls(self) -> tuple[str, ...]:
        """The rankings that never look at the network."""
        return tuple(name for name in self._names if network_free(name))

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """The methods, best first by their mean rank under the judges that decide."""
        names = [name for name in self._names if name not in self.controls]
        ranks = {name: self._mean_rank(name, names) for name in names}
        return tuple(sorted(names, key=lambda name: ranks[name]))

    @property
    def _names(self) -> list[str]:
        names = dict.fromkeys(name for judge in self.judges for name in judge.values)
        return [name for name in names if not informed(name)]

    def _mean_rank(self, name: str, names: Sequence[str]) -> float:
        places = []
        for judge in self.deciding:
            own = judge.values.get(name, -np.inf)
            places.append(sum(judge.values.get(other, -np.inf) > own for other in names))
        return float(np.mean(places)) if places else 0.0

    def placing(self, method: str, judge: Judge) -> Placing | None:
        """A method against the network-free rankings under a judge; None where the judge does not have both."""
        controls = [name for name in judge.values if name in self.controls]
        if method not in judge.values or not controls:
            return None
        best = max(controls, key=lambda name: judge.values[name])
        winners = [name for name in controls if judge.beats(name, method)]
        if winners:
            return Placing("worse", best if best in winners else winners[0], ahead=False)
        if judge.values[best] >= judge.values[method]:
            above = [name for name in controls if judge.at_least(name, method)]
            behind = best if best in above or not above else above[0]
            return Placing("no better" if above else "undecided", behind, ahead=False)
        still = [name for name in controls if not judge.beats(method, name)]
        return Placing("undecided", max(still, key=lambda name: judge.values[name])) if still else Placing("better")

    def placings(self, method: str) -> list[Placing]:
        """A method under the judges that decide."""
        return [placing for judge in self.deciding if (placing := self.placing(method, judge)) is not None]

    def passes_bar(self, method: str) -> bool:
        """Whether the deciding judges find it better than every network-free ranking, flags apart."""
        levels = [placing.level for placing in self.placings(method)]
        return "better" in levels and "worse" not in levels

    def disqualified(self, method: str) -> bool:
        """Whether something other than its score forbids to recommend it."""
        retrained = bool(self.deciding) and self.deciding[0].kind == "retrained"
        kinds = DISQUALIFYING_RETRAINED if retrained else DISQUALIFYING
        return any(flag.kind in kinds for flag in self.flags.get(method, ()))

    @cached_property
    def qualified(self) -> tuple[str, ...]:
        """The methods that may be recommended, best first."""
        return tuple(m for m in self.methods if self.passes_bar(m) and not self.disqualified(m))

    @cached_property
    def random_only(self) -> bool:
        """Whether the deciding judges compare with random rankings alone, which is too low a bar to recommend by."""
        controls = {name for judge in self.deciding for name in judge.values if name in self.controls}
        return all(name.partition("(")[0] == BASELINE for name in controls)

    @property
    def leading(self) -> str | None:
        """The best of the methods that qualify, also where random is the only control."""
        return next(iter(self.qualified), None)

    @property
    def recommended(self) -> str | None:
        """The method to use; None where none can be recommended."""
        return None if self.random_only else self.leading

    @cached_property
    def tied(self) -> tuple[str, ...]:
        """The methods that are not significantly different from the leading one: those that share a letter with it."""
        first = self.leading
        sharing = {m for group in self.groups if first in group for m in group} - {first}
        return tuple(method for method in self.methods if method in sharing)

    def preferred(self, first: str, second: str) -> bool:
        """Whether a deciding judge finds the first decidedly better and none the second."""
        ahead = any(judge.beats(first, second) for judge in self.deciding)
        return ahead and not any(judge.beats(second, first) for judge in self.deciding)

    def not_checked(self, method: str) -> tuple[Kind, ...]:
        """The flags that nobody asked about: a method without them may have them."""
        has = {flag.kind for flag in self.flags.get(method, ())}
        return tuple(kind for kind in CHECKS if method not in self.checked.get(kind, ()) and kind not in has)

    def flag_words(self, method: str) -> str:
        """What speaks against a method, and what was not checked; empty where all was checked and nothing found."""
        found = ", ".join(flag.kind for flag in self.flags.get(method, ()))
        return "; ".join(part for part in (found, not_checked_words(self.not_checked(method))) if part)

    @property
    def checks_to_ask(self) -> str:
        """The options of the checks that some method has not had, in a sentence; empty where all have had all."""
        kinds = [kind for kind in CHECKS if any(kind in self.not_checked(method) for method in self.methods)]
        asked_by = series([f"{CHECKS[kind][0]} by {CHECKS[kind][1]}" for kind in kinds])
        return f"Not checked means not asked for: {asked_by}." if kinds else ""

    def told_apart(self, first: str, second: str) -> bool:
        """Whether the deciding judges find two methods significantly different, and agree on which is better."""
        return self.preferred(first, second) or self.preferred(second, first)

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The methods of every letter, best first: two share a letter if and only if they are not told apart."""
        ranked = [method for method in self.methods if any(method in judge.values for judge in self.deciding)]
        return letter_groups(ranked, self.told_apart)

    @cached_property
    def letters(self) -> Mapping[str, str]:
        """The letters of every method that the deciding judges rank, such as "a" or "ab"."""
        return letters_of(self.groups)

    def group_of(self, method: str) -> str:
        """The letters of a method; empty where no deciding judge ranks it."""
        return self.letters.get(method, "")

    @cached_property
    def open(self) -> OpenQuestion | None:
        """The comparison that is nearest to a decision, and what would decide it; None where none is within reach."""
        return open_question(self)

    @property
    def would_tell(self) -> str:
        """What would decide what is open, and how long it takes; empty where nothing is open."""
        return further_evidence(self)

    @cached_property
    def sentence(self) -> str:
        """The answer in one sentence."""
        from uproar.results.answer_text import sentence_of

        return sentence_of(self)

    @cached_property
    def details(self) -> tuple[str, ...]:
        """What supports and limits the answer, a sentence each."""
        from uproar.results.answer_text import details_of

        return details_of(self)

    @property
    def table(self) -> pd.DataFrame:
        """One row per method: its letters, its verdict under every judge, flags, passes and seconds per image."""
        rows = []
        for method in self.methods:
            placed = {judge.label: self.placing(method, judge) for judge in self.judges}
            cost = self.costs.get(method, Cost(float("nan")))
            rows.append(
                {
                    "method": method,
                    "group": self.group_of(method),
                    "recommended": method == self.recommended,
                    **{label: "" if one is None else one.level for label, one in placed.items()},
                    "flags": ", ".join(flag.kind for flag in self.flags.get(method, ())),
                    "not_checked": ", ".join(CHECKS[kind][0] for kind in self.not_checked(method)),
                    "passes": cost.passes,
                    "seconds": cost.seconds,
                }
            )
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"<Answer: {self.sentence}>"

    def _repr_html_(self) -> str:
        from uproar.results.html import answer_html

        return answer_html(self)


def answer_of_scores(scores: Scores) -> Answer:
    """The answer that scores give."""
    return Answer(
        tuple(check_judges(judges_of_scores(scores), kinds_that_matter(scores.quality))),
        by_method(flags_of_scores(scores)),
        costs_in(scores.costs),
        {**_never_ranked(scores), **scores.left_out},
        checked=checked_by_scores(scores),
        check_results=tuple(check_sentences(scores)),
    )


def _never_ranked(scores: Scores) -> dict[str, str]:
    """Methods that no metric ranks, with what the first of them says."""
    by_method_name = scores.table.groupby("method", sort=False)
    return {str(name): str(rows["note"].iloc[0]) for name, rows in by_method_name if not rows["ranked"].any()}


def answer_of_view(view: StudyView) -> Answer:
    """The answer for one task and model of a study."""
    flags = [flag for finding in view.findings for flag in finding.flags]
    flags += [flag for scores in _measured(view) for flag in flags_of_scores(scores)]
    flags += flags_of_encoding(view.evaluator)
    judges = tuple(check_judges(judges_of_view(view), kinds_that_matter(view.quality)))
    return Answer(
        judges,
        by_method(flags),
        costs_in(view.own(view.results.costs)),
        unjudged(view, {name for judge in judges for name in judge.values}),
        view.task,
        view.model,
        _checked(view),
        tuple(sentence for scores in _measured(view) for sentence in check_sentences(scores)),
    )


def _measured(view: StudyView) -> list[Scores]:
    """What metrics and checks say."""
    return [scores for scores in (view.metric_scores, view.check_scores) if scores is not None]


def _checked(view: StudyView) -> dict[Kind, frozenset[str]]:
    """What metrics, checks, the evaluator and the audit of sanity have asked of which methods."""
    asked = [*map(checked_by_scores, _measured(view)), checked_by_encoding(view.evaluator)]
    if any(finding.audit == "sanity" and finding.state != "skipped" for finding in view.findings):
        asked.append({"fails sanity": frozenset(view.table["estimator"].map(str))})
    kinds = {kind for one in asked for kind in one}
    return {kind: frozenset().union(*(one.get(kind, frozenset()) for one in asked)) for kind in kinds}


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
    """Methods that failed or were skipped, and those that no metric ranks, with the reason; none that a judge has."""
    scores = view.metric_scores
    unranked = {} if scores is None else _never_ranked(scores)
    return {name: why for name, why in {**unranked, **_unfinished(view)}.items() if name not in judged}


def _unfinished(view: StudyView) -> dict[str, str]:
    """Methods with cells that failed or were skipped, with the reason."""
    frames: Iterable[pd.DataFrame] = (view.table, view.own(view.results.scores))
    rows = pd.concat([frame[["estimator", "status", "reason"]] for frame in frames if len(frame)] or [pd.DataFrame()])
    if rows.empty:
        return {}
    rest = rows[rows["status"].isin(["skipped", "failed"])]
    return {str(e): str(reason) for e, reason in zip(rest["estimator"], rest["reason"], strict=True)}
