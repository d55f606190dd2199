"""What the package imports is what it declares."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES = {"pillow": "PIL"}
"""Distributions whose module has another name."""
NAMED_BY_STUDIES = {"efficientnet_lite_pytorch"}
"""Modules that only a paper's study file imports, and that its page tells how to install."""


def test_every_imported_distribution_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    names = [re.split(r"[<>=~\[; ]", requirement)[0] for requirement in requirements]
    declared = {MODULES.get(name, name.replace("-", "_")) for name in names}
    known = {"uproar", *sys.stdlib_module_names, *declared, *NAMED_BY_STUDIES}
    undeclared = {module: file for file, module in _imports() if module not in known}
    assert not undeclared


def _imports() -> list[tuple[str, str]]:
    found = []
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found += [(file.name, alias.name.partition(".")[0]) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.append((file.name, str(node.module).partition(".")[0]))
    return found


def test_citation_has_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M).group(1) == version
