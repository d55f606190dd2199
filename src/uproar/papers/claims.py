"""The claims of papers: data in each `claims.toml`, and how an outcome follows from the results of a study.

A claim names a measure (`uproar.papers.measures` says what one looks like) and where the paper says its numbers lie.
A claim is a direction: `above = 0` or `below = 0`, or a range that the paper itself prints. `numbers` are the paper's,
in the same units, by a piece of what is measured: they say whether the effect is as large here.

A claim holds where the whole 95 % interval of its number lies in the claimed range, does not hold where all of the
interval lies outside, and is undecided otherwise; with several numbers the level allows for their number (`every`,
`most`). Where the study lacks what a claim needs it is not tested; where it lacks only some of the parts, the outcome
is that of the others, "in part".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import uproar.papers.li2024.synthetic
import uproar.papers.song2023.measures  # noqa: F401
from uproar.errors import NotApplicable, one_line, unknown
from uproar.papers import read_beside, title_of
from uproar.papers.evidence import ClaimEvidence
from uproar.papers.measures import MEASURES
from uproar.results.claim_outcome import IN_PART, Decision, Judgement, Measure, Missing

if TYPE_CHECKING:
    from uproar.results.study import Results

T = TypeVar("T")


@dataclass(frozen=True)
class Claim:
    """What a paper says and how it is tested."""

    name: str
    place: str
    says: str
    published: str
    fields: Mapping[str, Any]
    """Its measure, what this is of, and the claimed range."""

    @property
    def paper(self) -> str:
        """The paper's title."""
        return title_of(paper_of(self.name))

    def judge(self, evidence: ClaimEvidence) -> Judgement:
        """What became of it on one task and model."""
        about: dict[str, Any] = {name: getattr(self, name) for name in ("paper", "place", "says", "published")}
        about |= {"claim": self.name, "task": evidence.task, "model": evidence.model}
        try:
            decision = _decide(evidence, self.fields)
        except NotApplicable as error:
            return Judgement(outcome="not tested", reason=one_line(error), **about)
        lacking = "; ".join(dict.fromkeys(missing.reason for missing in decision.missing))
        return Judgement(
            outcome=IN_PART[decision.outcome] if lacking else decision.outcome,
            measures=decision.measures,
            deciding=decision.deciding,
            evidence=decision.evidence,
            reason=f"tested in part: {lacking}" if lacking else "",
            **about,
        )


def read_claims(paper: str, file: str) -> list[Claim]:
    """The claims of a paper in `claims.toml` beside a file.

    A field "@name" is what the table [shared] has under that name. A claim whose text has {where} stands for two, the
    second with the fields of the table [twin].
    """
    data, claims = read_beside(file, "claims.toml"), []
    shared, twin = data.pop("shared", {}), data.pop("twin", None)
    for what, fields in data.items():
        forms: list[tuple[str, dict[str, Any], str]] = [("", {}, "")]
        if "{where}" in fields["says"]:
            changes = {key: value for key, value in twin.items() if key not in ("suffix", "where")}
            forms = [("", {}, twin["where"][0]), (twin["suffix"], changes, twin["where"][1])]
        for suffix, changes, where in forms:
            resolved = _resolved({**fields, **changes}, shared)
            about = {key: resolved.pop(key) for key in ("place", "says", "published")}
            about["says"] = about["says"].replace("{where}", where)
            claims.append(Claim(f"{paper}:{what}{suffix}", **about, fields=resolved))
    return claims


def read_shared(file: str) -> dict[str, Any]:
    """What the claims of a paper share, e.g. lists of estimators, for its figures."""
    return dict(read_beside(file, "claims.toml")["shared"])


def _resolved(value: Any, shared: Mapping[str, Any]) -> Any:
    if isinstance(value, str) and value.startswith("@"):
        return shared[value[1:]]
    if isinstance(value, Mapping):
        return {key: _resolved(item, shared) for key, item in value.items()}
    return [_resolved(item, shared) for item in value] if isinstance(value, list) else value


def _decide(evidence: ClaimEvidence, fields: Mapping[str, Any]) -> Decision:
    """The outcome of a claim that is given as data: its measure's numbers together."""
    rest = {key: value for key, value in fields.items() if key not in ("measure", "holds", "above", "below", "numbers")}
    claimed = {key: fields[key] for key in ("above", "below") if key in fields}
    parts = MEASURES[fields["measure"]](evidence, claimed, **rest)
    for name, value in reversed(fields.get("numbers", {}).items()):  # the paper's, by what occurs in what is measured
        parts = [replace(p, paper=value) if isinstance(p, Measure) and name in p.what else p for p in parts]
    together = most if fields.get("holds") == "most" else every
    return together(*parts, evidence=fields.get("audit", ""))


def paper_of(claim: str) -> str:
    """The key of the paper that a claim is of.

    >>> paper_of("author2030:sg-sq")
    'author2030'
    """
    return claim.partition(":")[0]


@functools.cache
def all_claims() -> tuple[Claim, ...]:
    """All claims, paper by paper, each paper's in the order of its file."""
    files = sorted(Path(__file__).parent.glob("*/claims.toml"))
    return tuple(claim for file in files for claim in read_claims(file.parent.name, str(file)))


def papers_with_claims() -> dict[str, str]:
    """The titles of the papers that make claims, by key."""
    return {key: title_of(key) for key in dict.fromkeys(paper_of(claim.name) for claim in all_claims())}


def claims_named(names: Sequence[str]) -> list[Claim]:
    """The claims that names stand for: a paper for all of its claims as it makes them, or single ones, each once."""
    known = all_claims()
    chosen: dict[str, Claim] = {}
    for name in names:
        mine = [claim for claim in known if name in (claim.name, paper_of(claim.name))]
        if not mine:
            raise unknown("claim or paper", name, [*papers_with_claims(), *(claim.name for claim in known)])
        chosen |= {claim.name: claim for claim in mine}
    return list(chosen.values())


def judge(results: Results, names: Sequence[str]) -> list[Judgement]:
    """What became of the claims on every task and model; a setting that lacks what a claim needs is left out where
    another has it."""
    settings = [ClaimEvidence(results, task, model) for task, model in results.settings]
    judgements = []
    for claim in claims_named(names):
        each = [claim.judge(evidence) for evidence in settings]
        judgements += [judgement for judgement in each if judgement.outcome != "not tested"] or each[:1]
    return judgements


def if_applicable(make: Callable[[], T], otherwise: T) -> T:
    """What a function returns, or something else where the study lacks what it needs."""
    try:
        return make()
    except NotApplicable:
        return otherwise


def every(*parts: Measure | Missing, evidence: str = "") -> Decision:
    """Holds if every part does, does not hold if one does not; decided by the part that is least surely in its range.

    With k parts "holds" asks each at 95 %, and is wrong in no more than 5 % of studies where one part is outside. "Does
    not hold" asks for one part outside at 1 - 5 % / k, since any of them may be outside by chance.
    """
    return _at_least(lambda k: k, parts, evidence)


def most(*parts: Measure | Missing, evidence: str = "") -> Decision:
    """Holds if more than half of the parts do, does not hold if at least half do not; decided by the one in the middle.

    Both are corrected for the choice of the parts, see `_at_least`.
    """
    return _at_least(lambda k: k // 2 + 1, parts, evidence)


def _at_least(needed: Callable[[int], int], parts: Sequence[Measure | Missing], evidence: str) -> Decision:
    """Whether at least `needed(k)` of k numbers lie in their ranges, wrong in at most 5 % of studies either way.

    The numbers are ordered by how surely they are inside; the r-th of r that are needed decides. That at least r of k
    are inside is shown where its p, times k - r + 1, is at most 5 % (Benjamini and Heller's test of a partial
    conjunction, whatever the dependence); that fewer are, where the p of its being outside times r is.
    """
    measures = [measure for measure in parts if isinstance(measure, Measure)]
    missing = tuple(lacking for lacking in parts if isinstance(lacking, Missing))
    if not measures:
        some = next(
            (lacking.reason for lacking in missing), "the study has none of the estimators or metrics it is about"
        )
        raise NotApplicable(some)
    k, r = len(measures), needed(len(measures))
    position = sorted(range(k), key=lambda i: (measures[i].support, measures[i].margin), reverse=True)[r - 1]
    inside, outside = measures[position].corrected(k - r + 1), measures[position].corrected(r)
    deciding = inside if inside.outcome == "holds" else outside
    measures[position] = deciding
    return Decision(deciding.outcome, tuple(measures), deciding, evidence, missing)
