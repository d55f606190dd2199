"""What papers show: every figure and table of main text and appendix, as data in each `paper.toml`.

A figure names the function of the paper's `figures.py` that draws it, and the study of minutes that it is drawn from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from uproar.errors import BadInput, unknown
from uproar.papers import papers, title_of


@dataclass(frozen=True)
class Exhibit:
    """A figure or table of a paper, main text or appendix."""

    paper: str
    place: str
    """`Figure 5`, `Table A1`."""
    caption: str
    """What it shows, in our words."""
    draw: str = ""
    """The function of the paper's `figures.py` that draws it; empty where nothing does."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of that function."""
    study: str = ""
    """The study it is drawn from by default, one of minutes; empty where it needs none."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """What of that study is changed, so that nothing else is run."""
    panels: tuple[str, ...] = ()
    """What its plots are called where each task of the study has one."""
    why: str = ""
    """Why it is not drawn."""

    @property
    def row(self) -> list[str]:
        """Its name and what it shows, for a list."""
        return [self.place, self.caption if self.draw else f"{self.caption} Not drawn: {self.why}."]

    @property
    def file(self) -> str:
        """The name of its files, without ending: `figure-5`."""
        return self.place.lower().replace(" ", "-").replace(",", "")


def exhibits(paper: str) -> list[Exhibit]:
    """The figures and tables of a paper in its order, those that cannot be drawn included.

    One that is `like` an earlier one is drawn from the same study with the same changes and its own.
    """
    if paper not in papers():
        raise unknown("paper", paper, papers())
    known: dict[str, Exhibit] = {}
    for figure in papers()[paper].get("figures", []):
        entry = dict(figure)
        like = known.get(entry.pop("like", ""), Exhibit(paper, "", ""))
        fields = {"study": like.study, **entry, "changes": {**like.changes, **entry.get("changes", {})}}
        known[entry["place"]] = Exhibit(paper, **fields)
    return list(known.values())


def exhibit(paper: str, where: str) -> list[Exhibit]:
    """A figure or table of a paper that can be drawn, with its parts; refused with the reason where it cannot.

    `Figure 6, by maps` is a part of `Figure 6`, drawn from the same study.
    """
    listed = exhibits(paper)
    parts = [known for known in listed if known.place == where or known.place.startswith(f"{where}, ")]
    if not parts:
        raise unknown("figure or table", where, [known.place for known in listed])
    if not parts[0].draw:
        raise BadInput(f"{title_of(paper)}, {where}, is not drawn: {parts[0].why}.")
    return parts
