"""The table of estimators and kinds of models is true: it lists all of them, and parts of it are run again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.model_kinds import KINDS, names, outcome, served

PAGE = (Path(__file__).parents[1] / "docs" / "model-kinds.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip(" `"): [cell.strip() for cell in cells[1:]]
    for line in PAGE.splitlines()
    if line.startswith("| `") and (cells := line.strip("|").split("|"))
}
REASONS = dict(re.findall(r"^(\d+)\. (.*)\.$", PAGE, re.MULTILINE))


def test_the_table_lists_every_estimator_and_has_no_third_state():
    """If this fails: python tools/model_kinds.py > docs/model-kinds.md"""
    assert sorted(ROWS) == sorted(names())
    for name, row in ROWS.items():
        assert len(row) == len(KINDS), name
        assert all(cell == "works" or cell.removeprefix("refused ") in REASONS for cell in row), name
    assert served() in PAGE


@pytest.mark.parametrize("name", ["grad", "deconv", "grad_cam", "sise", "ada_sise", "occlusion"])
def test_what_the_table_says_is_what_happens(name):
    """If this fails: python tools/model_kinds.py > docs/model-kinds.md"""
    for cell, kind in zip(ROWS[name], KINDS, strict=True):
        expected = "works" if cell == "works" else REASONS[cell.removeprefix("refused ")]
        assert outcome(name, kind) == expected, kind.title
