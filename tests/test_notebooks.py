"""The notebooks run from top to bottom, and the outputs they are stored with are those of their cells."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))
LARGEST = 400_000
"""Bytes of a notebook with its outputs."""


def code_cells(file: Path) -> list[dict]:
    return [cell for cell in json.loads(file.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict) -> object:
    """Run a cell; the value of its last line where that is an expression, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_from_top_to_bottom_and_shows_what_is_stored(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for cell in code_cells(file):
        shown = run_cell("".join(cell["source"]), names)
        kinds = {kind for output in cell["outputs"] for kind in output.get("data", {})}
        if hasattr(shown, "_repr_png_"):
            assert "image/png" in kinds
        elif hasattr(shown, "_repr_html_"):
            assert "text/html" in kinds
            assert shown._repr_html_()


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_stored_with_pictures_and_without_errors(file):
    cells = code_cells(file)
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert any("text/html" in output.get("data", {}) for output in outputs)
    assert not any(output["output_type"] == "error" for output in outputs)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert file.stat().st_size < LARGEST


def test_there_are_three():
    assert [file.stem for file in NOTEBOOKS] == ["digits", "own_method", "own_network"]
