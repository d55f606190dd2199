"""docs/architecture.md and README's "Where things are": every path and name exists, and the drawing is the contract."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "uproar"


def _text(page: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.partition("## Where things are")[2].partition("\nApache-2.0")[0] if page == "README.md" else text


@pytest.mark.parametrize("page", ["docs/architecture.md", "README.md"])
def test_every_path_and_every_name_beside_it_exists(page):
    paths = re.findall(r"`([\w/]+(?:\.py|/))`(?: \(((?:`\w+`(?:, )?)+)\))?", _text(page))
    assert len(paths) > 10
    missing = []
    for path, names in paths:
        place = ROOT / path if path in ("tools/", "docs/", "tests/", "benchmarks/") else PACKAGE / path
        if not place.exists():
            missing.append(path)
            continue
        for name in re.findall(r"\w+", names):
            if not re.search(rf"^\s*(?:def|class) {name}\b", place.read_text(encoding="utf-8"), re.M):
                missing.append(f"{path}: {name}")
    assert missing == []


def test_the_drawing_is_the_import_contract():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    drawing = _text("docs/architecture.md").partition("```text\n")[2].partition("```")[0]
    layers = [re.split(r"\s{2,}", line)[0] for line in drawing.strip().split("\n")]
    assert layers == contract["layers"]
