"""The studies of papers, by name: the name of one is as good as a path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from uproar.bibliography import papers
from uproar.errors import BadInput, unknown
from uproar.study.spec import Study, study_of


def shipped_studies() -> Mapping[str, Path]:
    """The study files of all papers by name."""
    files = {file.stem: file for entry in papers.values() for file in entry.function()}
    return dict(sorted(files.items()))


def summary(text: str) -> str:
    """The opening paragraph of a study file's comment."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#") or not line.strip("# "):
            break
        lines.append(line.strip("# "))
    return " ".join(lines)


def file_named(text: str) -> Path:
    """The file of a study, or of one that comes with the package by its name."""
    path, known = Path(text), shipped_studies()
    if path.is_dir() and text not in known:
        raise BadInput(f"{text} is a folder, not a study file; uproar report writes the page of a run.")
    if path.is_file() or path.suffix or path.name != text:
        return path
    if text not in known:
        raise unknown("study", text, known)
    return known[text]


def study_named(text: str) -> Study:
    """A study from a file, or one that comes with the package by its name."""
    return study_of(file_named(text))
