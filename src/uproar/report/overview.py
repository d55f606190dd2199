"""The overview of a folder of results: which studies were run, and what became of every claim.

It is made from the files beside the pages (`NAME/facts.json`, `NAME/claims.csv`) and put between two marks of
`index.md`; all other text of that page is left as it is. `causes.md`, written by hand, has a heading per claim that
does not hold, or holds for another reason than it seems: the tables link to it, and say where one is missing.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from uproar.claims.registry import PART_SUFFIX, claims_named, in_part, papers_with_claims
from uproar.errors import BadInput
from uproar.report.formatting import NOTHING
from uproar.report.markdown import anchor, code, table, text
from uproar.report.result_page import FACTS, duration, effect
from uproar.results.claim_outcome import IN_PART, OUTCOMES, sample_text, tally
from uproar.statistics.design import LEVEL
from uproar.statistics.intervals import Interval

BEGIN, END = "<!-- uproar results: begin -->", "<!-- uproar results: end -->"
INDEX, CAUSES = "index.md", "causes.md"
TINY = "-tiny"
"""Such studies show that everything works; their claims stay on their own pages."""


@dataclass(frozen=True)
class KeptStudy:
    """One study of the folder."""

    name: str
    facts: Mapping[str, Any]
    claims: pd.DataFrame

    @property
    def tiny(self) -> bool:
        return self.name.endswith(TINY)

    @property
    def outcomes(self) -> list[str]:
        """One per claim, task and model."""
        each = self.claims.drop_duplicates(["claim", "task", "model"])
        return [str(outcome) for outcome in each["outcome"]]

    @functools.cached_property
    def asked(self) -> Mapping[str, list[pd.Series]]:
        """By claim, whole or in part, that was asked: the deciding number of every task and model."""
        asked: dict[str, list[pd.Series]] = {}
        deciding = self.claims[self.claims["decides"].astype(bool)]
        for _, row in deciding.drop_duplicates(["claim", "task", "model"]).iterrows():
            asked.setdefault(str(row["claim"]), []).append(row)
        return asked

    @functools.cached_property
    def named(self) -> Mapping[str, pd.Series]:
        """By claim: its first row."""
        return {str(row["claim"]): row for _, row in self.claims.drop_duplicates("claim").iterrows()}


def kept_in(folder: Path) -> list[KeptStudy]:
    """The studies whose results are in a folder: those of a size before the tiny ones, by name."""
    studies = []
    for file in sorted(folder.glob(f"*/{FACTS}")):
        claims = file.with_name("claims.csv")
        try:
            facts = json.loads(file.read_text(encoding="utf-8"))
            frame = pd.read_csv(claims, keep_default_na=True) if claims.exists() else _none()
        except (OSError, ValueError) as error:
            raise BadInput(f"Cannot read the results in {file.parent}: {error}.") from None
        studies.append(KeptStudy(file.parent.name, facts, _told_apart(frame)))
    return sorted(studies, key=lambda one: (one.tiny, one.name))


def _told_apart(claims: pd.DataFrame) -> pd.DataFrame:
    """Claims whose outcomes say which were asked in part, also of files whose outcomes do not."""
    part = claims["claim"].astype(str).str.endswith(PART_SUFFIX)
    return claims.assign(outcome=claims["outcome"].mask(part, claims["outcome"].replace(IN_PART)))


def _none() -> pd.DataFrame:
    return pd.DataFrame(columns=["claim", "task", "model", "outcome", "decides"])


def overview(folder: str | Path) -> bytes:
    """The page `index.md` of a folder with its tables made again."""
    place = Path(folder)
    studies = kept_in(place)
    if not studies:
        raise BadInput(f"{place} holds no results: write some with `uproar report RUN --markdown {place}`.")
    made = f"{BEGIN}\n\n{_tables(studies, _causes(place / CAUSES))}\n\n{END}"
    page = place / INDEX
    old = page.read_text(encoding="utf-8") if page.exists() else f"# Results\n\n{BEGIN}\n{END}\n"
    if old.count(BEGIN) != 1 or old.count(END) != 1 or old.index(BEGIN) > old.index(END):
        raise BadInput(f"{page} has no place for the tables: put the lines {BEGIN} and {END} where they belong.")
    before, _, rest = old.partition(BEGIN)
    return f"{before}{made}{rest.partition(END)[2]}".encode()


def _causes(file: Path) -> dict[str, str]:
    """By claim, the address of its heading in the page of causes."""
    if not file.exists():
        return {}
    causes: dict[str, str] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("#").strip()
            for word in heading.replace("`", " ").replace(",", " ").split():
                if ":" in word:
                    causes.setdefault(word, f"{file.name}#{anchor(heading)}")
    return causes


def _tables(studies: Sequence[KeptStudy], causes: Mapping[str, str]) -> str:
    parts = ["### What was run", _studies(studies)]
    large = [one for one in studies if not one.tiny]
    if large:
        once = (
            'A claim that several studies ask counts once for each of them. "In part" are claims of which a study can '
            "ask only some parts, `-in-part`: what these say is counted apart, and the claim itself was not asked."
        )
        parts += ["### What became of the claims", once, _counts(large)]
    for key, paper in papers_with_claims().items():
        rows = _claim_rows(key, large, causes)
        if rows:
            heads = ["claim", "outcome", "why", "study", "the number that decides, and its interval", "claimed", "n"]
            parts += [f"### {text(paper)}", table([*heads, "published"], rows)]
    return "\n\n".join(parts)


def _studies(studies: Sequence[KeptStudy]) -> str:
    heads = ["study", "data", "network", ">test images", ">replicates", ">estimators", ">wall time"]
    rows = []
    for one in studies:
        facts = one.facts
        rows.append(
            [
                f"[{text(one.name)}]({one.name}.md)",
                ", ".join(map(code, facts["tasks"])),
                ", ".join(map(code, facts["models"])),
                ", ".join(map(str, facts["test_images"])) or NOTHING,
                str(facts["replicates"]),
                str(facts["estimators"]),
                duration(facts["wall_seconds"]),
                tally(one.outcomes) or NOTHING,
            ]
        )
    return table([*heads, "claims"], rows)


def _counts(studies: Sequence[KeptStudy]) -> str:
    """By paper: the outcomes of its claims; one that was asked several times counts each time."""
    rows = []
    for key, paper in papers_with_claims().items():
        outcomes = [str(row["outcome"]) for _, row in _asked(key, studies)]
        unasked = len(_unasked(key, studies))
        counts = [str(outcomes.count(o)) for o in OUTCOMES if o != "not asked"]
        rows.append([text(paper), *counts, str(unasked)])
    return table(["paper", *(f">{o}" for o in OUTCOMES if o != "not asked"), ">not asked"], rows)


def _asked(paper: str, studies: Sequence[KeptStudy]) -> list[tuple[KeptStudy, pd.Series]]:
    """The deciding number of every claim of a paper that was asked, whole or in part, in the paper's order."""
    names = [name for claim in claims_named([paper]) for name in (claim.name, in_part(claim.name))]
    return [(one, row) for name in names for one in studies for row in one.asked.get(name, ())]


def _unasked(paper: str, studies: Sequence[KeptStudy]) -> list[pd.Series]:
    """The claims of a paper that some study names and none could ask."""
    asked = {str(row["claim"]) for _, row in _asked(paper, studies)}
    unasked: dict[str, pd.Series] = {}
    for claim in claims_named([paper]):
        for one in studies:
            if claim.name in one.named and claim.name not in asked:
                unasked.setdefault(claim.name, one.named[claim.name])
    return list(unasked.values())


def _claim_rows(paper: str, studies: Sequence[KeptStudy], causes: Mapping[str, str]) -> list[list[str]]:
    rows = []
    for one, row in _asked(paper, studies):
        outcome = str(row["outcome"])
        rows.append(
            [
                _says(row),
                f"**{outcome}**",
                _why(str(row["claim"]), outcome, causes),
                f"[{text(one.name)}]({one.name}.md#claims)",
                _deciding_number(one, row),
                text(row["claimed"]).replace("-", "−"),
                sample_text(row["n"], row["of"], row.get("replicates", math.nan)),
                text(row["published"]),
            ]
        )
    for row in _unasked(paper, studies):
        reason = text(row["reason"])
        rows.append([_says(row), "not asked", reason, *[NOTHING] * 4, text(row["published"])])
    return rows


def _deciding_number(one: KeptStudy, row: pd.Series) -> str:
    """The number that decides, what it is, and of how many it is one."""
    own = one.claims[["claim", "task", "model"]].eq(row[["claim", "task", "model"]]).all(axis=1)
    parts = f" (1 of {own.sum()})" if own.sum() > 1 else ""
    note = row.get("note", "")
    ends = {"level": row.get("level", LEVEL), "note": note if isinstance(note, str) else ""}
    interval = Interval(row["effect"], row["low"], row["high"], **ends)
    return f"{effect(interval)}: {text(row['what'])}{parts}"


def _says(row: pd.Series) -> str:
    return f"{text(row['says'])} {code(row['claim'])}, {text(row['place'])}"


def _why(claim: str, outcome: str, causes: Mapping[str, str]) -> str:
    claim = claim.removesuffix(PART_SUFFIX)
    if claim in causes:
        return f"[{'note' if outcome.startswith('holds') else 'cause'}]({causes[claim]})"
    return "cause not written down" if outcome.startswith("does not hold") else ""
