"""The command lines that README.md and docs/*.md show, and how each is tried on a small scale.

The options of all other lines are read, and nothing is run.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TINY = ["--limit", "60", "--epochs", "1", "--seeds", "2", "--fractions", "0.5", "--jobs", "1"]
SMALL_NET = ["--task", "planted(size=8, classes=3, train=60, test=30)", *TINY[2:]]


@dataclass(frozen=True)
class Line:
    """A documented command line: where it stands, and its words."""

    place: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)[1:]


def documented() -> list[Line]:
    """All lines in code blocks that begin with `uproar` or `make demo`, each once, without comments."""
    result: dict[str, Line] = {}
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        inside = False
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if line.lstrip().startswith("```"):
                inside = not inside
            elif inside and re.match(r"\s*(uproar( |$)|make demo)", line):
                text = re.sub(r"\s(#|&).*$", "", line.strip()).strip()
                result.setdefault(text, Line(f"{file.relative_to(ROOT)}:{number}", text))
    return list(result.values())


EVERYWHERE = {"uproar run study.toml --dry-run": ["--jobs", "1"], "uproar store clean runs/digits": []}
"""Those that compute nothing, tried on terminals of 80 and 200 columns, through pipes and with TERM=dumb: line, words added."""

COMPUTED = {
    "make demo": ["run", *TINY, "--estimators", "random,grad", "--out", "runs/demo"],
    "uproar run study.toml": ["--jobs", "1"],
    "uproar explain photos/ --model net.py:build --weights net.safetensors": ["--estimators", "grad"],
    "uproar choose photos/ --model net.py:build --weights net.safetensors": ["--methods", "grad"],
    "uproar choose --task digits": [
        "--task",
        "planted(size=8, classes=3, train=60, test=30)",
        "--model",
        "cnn-small(width=4)",
        "--methods",
        "grad",
    ],
    "uproar audit runs/digits": ["--audits", "sanity", "--jobs", "1"],
    "uproar check my_method.py": [],
    "uproar store verify runs/digits": [],
    "uproar run runs/digits": ["--jobs", "1"],
    "uproar report runs/x --claims li2024,song2023:blocks": [],
    "uproar report runs/x --markdown docs/results": [],
}
"""Those that compute something, in turn in one of the four, and find their results again on a terminal of 80 columns; pages and
folders are written once. Line, words added; for `make demo` its command."""
