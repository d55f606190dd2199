"""The registry of claims: how a claim of a paper is declared, and how its outcome follows from the results of a study.

    @claim("author2030:sg-sq", place="4.2.3, Figure 5", says="Squaring and averaging ... far outperforms ...",
           published="10.78 ± 7.85 % at 90 % removed, random 63.71")
    def sg_sq(evidence):
        return every(evidence.area("roar", "sg_sq(grad)", above=0.05))

The test is a function of what a study found for one task and model, and of nothing else. A claim holds where the whole
95 % interval of its number lies in the claimed range, does not hold where all of the interval lies outside, and is
undecided otherwise. A test raises `NotApplicable` where the study lacks what it needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from uproar.bibliography import read_beside, title_of
from uproar.claims.evidence import ClaimEvidence
from uproar.errors import NotApplicable, one_line, unknown
from uproar.registry import Registry
from uproar.results.judgement import Decision, Judgement, Measure, Outcome

if TYPE_CHECKING:
    from uproar.results.study import Results

claims = Registry("claim", "uproar.claims", ("uproar.papers.*.claims",))
_ORDER = itertools.count()
T = TypeVar("T")


@dataclass(frozen=True)
class Claim:
    """What a paper says and how it is tested."""

    name: str
    place: str
    says: str
    published: str
    test: Test

    @property
    def paper(self) -> str:
        """The paper's title, or the first half of the claim's name where nobody has declared the paper."""
        return title_of(paper_of(self.name))

    def judge(self, evidence: ClaimEvidence) -> Judgement:
        """What became of it on one task and model."""
        about: dict[str, Any] = {
            "claim": self.name,
            "paper": self.paper,
            "place": self.place,
            "says": self.says,
            "published": self.published,
            "task": evidence.task,
            "model": evidence.model,
        }
        try:
            decision = self.test(evidence)
        except NotApplicable as error:
            return Judgement(outcome="not asked", reason=one_line(error), **about)
        return Judgement(
            outcome=decision.outcome,
            measures=decision.measures,
            deciding=decision.deciding,
            evidence=decision.evidence,
            **about,
        )


Test = Callable[[ClaimEvidence], Decision]


def claim(name: str, *, place: str, says: str, published: str) -> Callable[[Test], Test]:
    """Declare a test of what a paper says under `paper:what`."""

    def keep(test: Test) -> Test:
        claims.add(name, test, claim=Claim(name, place, says, published, test), order=next(_ORDER))
        return test

    return keep


def read_texts(file: str) -> dict[str, dict[str, str]]:
    """The texts of a paper's claims by name, from `claims.toml` beside a file: `place`, `says` and `published`."""
    return read_beside(file, "claims.toml")


def claims_of(paper: str, file: str) -> Callable[[str], Callable[[Test], Test]]:
    """How the claims of a paper are declared whose texts stand beside a file: `declare("what")(test)`."""
    texts = read_texts(file)
    return lambda what: claim(f"{paper}:{what}", **texts[what])


def paper_of(claim: str) -> str:
    """The key of the paper that a claim is of.

    >>> paper_of("author2030:sg-sq")
    'author2030'
    """
    return claim.partition(":")[0]


def _declared() -> list[Claim]:
    """All claims, paper by paper, each paper's in the order of their declaration."""
    entries = sorted(claims.values(), key=lambda entry: entry.facts["order"])
    return sorted((entry.facts["claim"] for entry in entries), key=lambda one: paper_of(one.name))


def papers_with_claims() -> dict[str, str]:
    """The titles of the papers that make claims, by key."""
    return {paper_of(one.name): one.paper for one in _declared()}


def claims_named(names: Sequence[str]) -> list[Claim]:
    """The claims that names stand for: a paper for all of its claims as it makes them, or single ones, each once."""
    known = _declared()
    chosen: dict[str, Claim] = {}
    for name in names:
        mine = [one for one in known if name in (one.name, paper_of(one.name))]
        if not mine:
            raise unknown("claim or paper", name, [*papers_with_claims(), *(one.name for one in known)])
        chosen |= {one.name: one for one in mine}
    return list(chosen.values())


def judge(results: Results, names: Sequence[str]) -> list[Judgement]:
    """What became of the claims on every task and model; a setting that lacks what a claim needs is left out where
    another has it."""
    settings = [ClaimEvidence(results, task, model) for task, model in results.settings]
    judgements = []
    for one in claims_named(names):
        every_setting = [one.judge(evidence) for evidence in settings]
        answered = [judgement for judgement in every_setting if judgement.outcome != "not asked"]
        judgements += answered or every_setting[:1]
    return judgements


def if_applicable(make: Callable[[], T], otherwise: T) -> T:
    """What a function returns, or something else where the study lacks what it needs."""
    try:
        return make()
    except NotApplicable:
        return otherwise


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
    ranked = sorted((m for m in parts if m.outcome == state), key=lambda m: m.interval.value)
    return Decision(state, parts, ranked[len(ranked) // 2] if ranked else parts[0], evidence)


def _some(measures: Sequence[Measure]) -> tuple[Measure, ...]:
    if not measures:
        raise NotApplicable("the study has none of the estimators or metrics it is about")
    return tuple(measures)
