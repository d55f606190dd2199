"""What changed between two folders of results: every claim and verdict whose outcome differs, with both numbers.

    python tools/result_changes.py OLD docs/results > changes.md

The folders are made by `uproar report RUN --markdown FOLDER`; studies that only one of them has are named.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from uproar.report.markdown import code, table, text
from uproar.report.result_page import effect
from uproar.results.claim_outcome import sample_text
from uproar.statistics.intervals import Interval

IN_BOTH = ["task", "model"]
CLAIM, VERDICT = ["claim", *IN_BOTH], ["protocol", "estimator", *IN_BOTH]


def changes(old: Path, new: Path) -> str:
    """The page: a section per study that both folders have."""
    names = sorted({file.parent.name for folder in (old, new) for file in folder.glob("*/facts.json")})
    return "\n\n".join(part for name in names for part in _study(name, old / name, new / name)) + "\n"


def _study(name: str, old: Path, new: Path) -> Iterable[str]:
    yield f"## {name}"
    claims = _table(old, new, "claims.csv", CLAIM, "outcome")
    verdicts = _table(old, new, "verdicts.csv", VERDICT, "verdict")
    same = all((old / name).read_bytes() == (new / name).read_bytes() for name in ("claims.csv", "facts.json"))
    if not claims and not verdicts:
        yield "Not made again: the page is that of the earlier version." if same else "No outcome changed."
    yield from (part for part in (claims, verdicts) if part)


def _table(old: Path, new: Path, file: str, key: list[str], outcome: str) -> str:
    before, after = (_rows(folder / file, key) for folder in (old, new))
    rows = []
    for at in dict.fromkeys([*before.index, *after.index]):
        first, second = (frame.loc[at] if at in frame.index else None for frame in (before, after))
        states = [None if row is None else str(row[outcome]) for row in (first, second)]
        if states[0] != states[1]:
            rows.append([", ".join(map(code, at[:-2])), *(_cell(row, outcome) for row in (first, second))])
    return table([outcome, "before", "now"], rows) if rows else ""


def _rows(file: Path, key: list[str]) -> pd.DataFrame:
    """One row per claim or verdict: of a claim the number that decides, else any."""
    if not file.exists():
        return pd.DataFrame(columns=key).set_index(key)
    frame = pd.read_csv(file)
    if "decides" in frame:
        frame = frame.sort_values("decides", ascending=False, kind="stable")
    return frame.drop_duplicates(key).set_index(key).sort_index(kind="stable")


def _cell(row: pd.Series | None, outcome: str) -> str:
    if row is None:
        return "–"
    value = row.get("effect", row.get("advantage"))
    if value is None or pd.isna(value):
        return f"**{text(row[outcome])}**" + (f": {text(row['reason'])}" if isinstance(row.get("reason"), str) else "")
    interval = Interval(value, row["low"], row["high"], level=row.get("level", 0.95))
    of, n = row.get("of", "replicates"), row["n"]
    counted = sample_text(n, of, row.get("replicates", float("nan")))
    what = f": {text(row['what'])}" if isinstance(row.get("what"), str) else ""
    return f"**{text(row[outcome])}** {effect(interval)}, {counted}{what}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("old", type=Path, help="a folder of results")
    parser.add_argument("new", type=Path, help="another, made later")
    given = parser.parse_args()
    print(changes(given.old, given.new), end="")
