"""How a claim of a paper is declared, and how its outcome follows from what a study found.

    @claim("hooker2019:sg-sq", place="4.2.3, Figure 5", says="Squaring and averaging ... far outperforms ...",
           published="10.78 ± 7.85 % at 90 % removed, random 63.71")
    def sg_sq(found):
        return every(found.area("roar", "sg_sq(grad)", above=0.05))

The test is a function of what a study found for one task and model, and of nothing else. A claim holds where the whole
95 % interval of its number lies in the claimed range, does not hold where all of the interval lies outside, and is
undecided otherwise. A test raises `NotApplicable` where the study lacks what it needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from uproar.claims.evidence import ClaimEvidence
from uproar.errors import NotApplicable, one_line, unknown
from uproar.registry import Registry
from uproar.results.judgement import Decision, Judgement, Measure, Outcome

if TYPE_CHECKING:
    from uproar.results.study import Results

claims = Registry("claim")
_ORDER = itertools.count()

PAPERS = {
    "hooker2019": "Hooker et al. 2019",
    "song2023": "Song et al. 2023",
    "li2024": "Li et al. 2024",
    "vandersmissen2023": "Vandersmissen and Oramas 2023",
}
"""By the name that studies use."""


@dataclass(frozen=True)
class Claim:
    """What a paper says and how it is tested."""

    name: str
    place: str
    says: str
    published: str
    test: Callable[[ClaimEvidence], Decision]

    @property
    def paper(self) -> str:
        """The paper's name in full; that of a claim from elsewhere is the first half of its own."""
        key = self.name.partition(":")[0]
        return PAPERS.get(key, key)

    def judged(self, found: ClaimEvidence) -> Judgement:
        """What became of it on one task and model."""
        about: dict[str, Any] = {
            "claim": self.name,
            "paper": self.paper,
            "place": self.place,
            "says": self.says,
            "published": self.published,
            "task": found.task,
            "model": found.model,
        }
        try:
            tested = self.test(found)
        except NotApplicable as error:
            return Judgement(outcome="not asked", reason=one_line(error), **about)
        return Judgement(
            outcome=tested.outcome,
            measures=tested.measures,
            deciding=tested.deciding,
            evidence=tested.evidence,
            **about,
        )


def claim(
    name: str, *, place: str, says: str, published: str
) -> Callable[[Callable[[ClaimEvidence], Decision]], Callable[[ClaimEvidence], Decision]]:
    """Declare a test of what a paper says under `paper:what`."""

    def keep(test: Callable[[ClaimEvidence], Decision]) -> Callable[[ClaimEvidence], Decision]:
        claims.add(name, test, claim=Claim(name, place, says, published, test), order=next(_ORDER))
        return test

    return keep


def claims_named(names: Sequence[str]) -> list[Claim]:
    """The claims that names stand for: a paper for all of its claims as it makes them, or single ones, each once."""
    entries = sorted(claims.values(), key=lambda entry: entry.facts["order"])
    known: list[Claim] = [entry.facts["claim"] for entry in entries]
    found: dict[str, Claim] = {}
    for name in names:
        mine = [c for c in known if name in (c.name, c.name.partition(":")[0])]
        if not mine:
            papers = dict.fromkeys(c.name.partition(":")[0] for c in known)
            raise unknown("claim or paper", name, [*papers, *(c.name for c in known)])
        found |= {c.name: c for c in mine}
    return list(found.values())


def judge(results: Results, names: Sequence[str]) -> list[Judgement]:
    """What became of the claims on every task and model; a setting that lacks what a claim needs is left out where
    another has it."""
    settings = [ClaimEvidence(results, task, model) for task, model in results.settings]
    judgements = []
    for one in claims_named(names):
        every_setting = [one.judged(found) for found in settings]
        asked = [found for found in every_setting if found.outcome != "not asked"]
        judgements += asked or every_setting[:1]
    return judgements


def every(*measures: Measure, evidence: str = "") -> Decision:
    """Holds if every part does; fails if one does; decided by the part whose interval is least in its range."""
    parts = _some(measures)
    order: tuple[Outcome, ...] = ("does not hold here", "undecided", "holds")
    worst = next(state for state in order if any(m.outcome == state for m in parts))
    decisive = min((m for m in parts if m.outcome == worst), key=lambda m: m.margin)
    return Decision(worst, parts, decisive, evidence)


def most(*measures: Measure, evidence: str = "") -> Decision:
    """Holds if more than half of the parts do; fails if at least half fail; decided by the part in the middle."""
    parts = _some(measures)
    held = sum(m.outcome == "holds" for m in parts)
    failed = sum(m.outcome == "does not hold here" for m in parts)
    state: Outcome = "undecided"
    if 2 * held > len(parts):
        state = "holds"
    elif 2 * failed >= len(parts):
        state = "does not hold here"
    ranked = sorted((m for m in parts if m.outcome == state), key=lambda m: m.effect)
    return Decision(state, parts, ranked[len(ranked) // 2] if ranked else parts[0], evidence)


def _some(measures: Sequence[Measure]) -> tuple[Measure, ...]:
    if not measures:
        raise NotApplicable("the study has none of the estimators or metrics it is about")
    return tuple(measures)
