"""The papers that are reproduced: a folder each, with study files, claims, published numbers and figures.

`paper.toml` says what a paper is called and how its networks were trained, `claims.toml` what it says as tests of a
study; `figures.py` draws what it shows. Registries import the parts by pattern (`uproar.papers.*.figures`), so that no
other part of the package names a paper.
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


def read_beside(file: str | Path, name: str) -> dict[str, Any]:
    """The content of a TOML file beside a file."""
    return tomllib.loads(Path(file).with_name(name).read_text(encoding="utf-8"))


@functools.cache
def papers() -> dict[str, dict[str, Any]]:
    """What each `paper.toml` says, by the key of the paper: the name of its folder."""
    return {file.parent.name: read_beside(file, file.name) for file in sorted(_FOLDER.glob("*/paper.toml"))}


def title_of(key: str) -> str:
    """What a paper is called; one that nobody knows, by its key."""
    return str(papers()[key]["title"]) if key in papers() else key


def shipped_studies() -> dict[str, Path]:
    """The study files of all papers by name."""
    return {file.stem: file for file in sorted(_FOLDER.glob("*/studies/*.toml"), key=lambda file: file.stem)}
