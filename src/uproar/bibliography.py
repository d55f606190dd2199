"""Papers by citation key: what they are called, and the study files that reproduce them.

    @paper(title="Author et al. 2030")
    def author2030():
        return study_files(__file__)

Claims, figures and recipes of papers have registries of their own, in the part of the package that uses them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from uproar.registry import Registry

papers = Registry("paper", "uproar.papers", ("uproar.papers",))


def paper(*, title: str, name: str | None = None) -> Callable[[Callable], Callable]:
    """Declare a paper under the function's name, the key before the colon in the names of its claims.

    The function returns the study files of the paper, each a study by the name of its file.
    """
    return papers.declare(name, title=title)


def study_files(file: str, folder: str = "") -> list[Path]:
    """The study files (*.toml) in the folder `studies` beside a file, or in that of a folder beside it."""
    return sorted((Path(file).parent / folder / "studies").glob("*.toml"))


def read_beside(file: str, name: str) -> dict[str, Any]:
    """The content of a TOML file beside a file."""
    return tomllib.loads(Path(file).with_name(name).read_text(encoding="utf-8"))


def title_of(key: str) -> str:
    """What a paper is called; one that nobody has declared, by its key."""
    return str(papers[key].facts["title"]) if key in papers else key
