"""The notebooks run from top to bottom, and the outputs they are stored with are those of their cells."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import uproar.report

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))
SMALLER = {
    "epochs=10": "epochs=1",
    "epochs=12": "epochs=1",
    '"epochs": 4': '"epochs": 1',
    '"epochs": 3': '"epochs": 1',
    '"seeds": 5': '"seeds": 2',
    "slice(0, 64)": "slice(0, 12)",
    "labels[:64]": "labels[:12]",
    "slice(0, 256)": "slice(0, 12)",
    "labels[:256]": "labels[:12]",
    "slice(0, 800)": "slice(0, 80)",
    "labels[:800]": "labels[:80]",
    "range(120)": "range(20)",
    '"limit": 300': '"limit": 40',
    '"metrics": ["roar"]': '"metrics": ["roar:no-retrain"]',
    'methods = ["grad", "ig", "grad_cam", "sg_sq(grad)"]': 'methods = ["grad", "sg_sq(grad)"]',
    'methods=["grad", "ig", "sg_sq(grad)"]': 'methods=["grad"]',
    'methods = ["contrast_gradient", "contrast_gradient(radius=2)", "grad", "ig"]': 'methods = ["contrast_gradient"]',
}
"""What makes a notebook quick; all else is run as it stands."""
LARGEST = 400_000
"""Bytes of a notebook with its outputs."""


def code_cells(file: Path) -> list[dict]:
    return [cell for cell in json.loads(file.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def smaller(source: str) -> str:
    for large, small in SMALLER.items():
        source = source.replace(large, small)
    return source


def run_cell(source: str, names: dict) -> object:
    """Run a cell; the value of its last line where that is an expression, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.filterwarnings("ignore:The tables are written as CSV")
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_from_top_to_bottom_and_shows_what_is_stored(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(uproar.report, "missing_libraries", lambda: ["matplotlib"])  # pages are drawn in tests/report
    names = {"__name__": "__main__"}
    for cell in code_cells(file):
        shown = run_cell(smaller("".join(cell["source"])), names)
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


def test_there_are_three_and_what_is_made_smaller_stands_in_one():
    assert [file.stem for file in NOTEBOOKS] == ["digits", "own_method", "own_network"]
    sources = ["".join(cell["source"]) for file in NOTEBOOKS for cell in code_cells(file)]
    assert [large for large in SMALLER if not any(large in source for source in sources)] == []
