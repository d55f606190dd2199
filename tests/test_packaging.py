"""What the package imports is what it declares, and what an index and a release are told of it is true."""

from __future__ import annotations

import ast
import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = {"pillow": "PIL"}
"""Distributions whose module has another name."""
NAMED_BY_STUDIES = {"efficientnet_lite_pytorch"}
"""Modules that only a paper's study file imports, and that its page tells how to install."""
PARTS = {"pydantic_core"}
"""Modules that come with a declared distribution."""


def test_every_imported_distribution_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    names = [re.split(r"[<>=~\[; ]", requirement)[0] for requirement in requirements]
    declared = {MODULES.get(name, name.replace("-", "_")) for name in names}
    known = {"uproar", *sys.stdlib_module_names, *declared, *NAMED_BY_STUDIES, *PARTS}
    undeclared = {module: file for file, module in _imports() if module not in known}
    assert not undeclared


def _imports() -> list[tuple[str, str]]:
    result = []
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                result += [(file.name, alias.name.partition(".")[0]) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                result.append((file.name, str(node.module).partition(".")[0]))
    return result


def test_citation_has_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M).group(1) == version


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_extra_all_has_every_other_extra_but_the_tools_of_developers():
    extras = project()["optional-dependencies"]
    (every,) = extras["all"]
    named = set(re.search(r"\[(.*)\]", every).group(1).split(","))
    assert named == extras.keys() - {"all", "dev"}


def test_what_only_draws_is_not_needed_by_the_core():
    from uproar.report.files import NEEDED

    names = {re.split(r"[<>=]", one)[0] for one in project()["dependencies"]}
    assert names.isdisjoint(NEEDED)
    assert {re.split(r"[<>=]", one)[0] for one in project()["optional-dependencies"]["report"]} == set(NEEDED)


def test_the_page_of_the_package_index_has_no_relative_link():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = runpy.run_path(str(ROOT / "setup.py"), run_name="read")["index_page"]()
    base = project()["urls"]["Repository"]
    assert not re.findall(r"\]\((?!https?:|#)[^)]*\)", page)
    for target in re.findall(r"\]\((docs/[^)#]*)", readme):
        kind = "raw" if target.endswith(".png") else "blob"
        assert f"({base}/{kind}/v{project()['version']}/{target}" in page


def test_urls_stand_in_one_place():
    """A placeholder that is replaced in pyproject.toml is replaced everywhere."""
    base = project()["urls"]["Repository"]
    files = [*ROOT.glob("*.md"), *ROOT.glob("*.cff"), *(ROOT / "docs").glob("*"), *(ROOT / ".github").rglob("*")]
    assert [file.name for file in files if file.is_file() and base in file.read_text(encoding="utf-8")] == []


def test_release_notes_are_the_section_of_the_changelog():
    notes = runpy.run_path(str(ROOT / "tools" / "release_notes.py"), run_name="read")["notes"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    result = notes(project()["version"], changelog, "https://x.org/r")
    assert result and "## " not in result.replace("###", "")
    with pytest.raises(SystemExit, match="no section 9.9.9; it has 0.2.0"):
        notes("9.9.9", changelog, "")
    with pytest.raises(SystemExit, match="is empty"):
        notes("1", "## 1\n\n## 0\n- x\n", "")


def test_hooks_before_a_commit_are_those_of_make_check():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    checks = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ncheck:")[2].partition("\n\n")[0]
    for line in re.findall(r"\$\(BIN\)/([^\n]+)", checks):
        assert f".venv/bin/{line.removesuffix(' .')}" in hooks
