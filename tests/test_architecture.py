"""docs/architecture.md: every path and name exists, and the drawing is the contract."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "uproar"


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def test_every_path_and_every_name_beside_it_exists():
    paths = re.findall(r"`([\w/]+(?:\.py|/))`(?: \(((?:`\w+`(?:, )?)+)\))?", _text("docs/architecture.md"))
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
    assert contract["exhaustive"], "a module without a layer fails the check"
