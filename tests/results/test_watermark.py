"""A network that by construction sees only X gets methods that show X, whatever the data allow."""

from __future__ import annotations

from pathlib import Path

import pytest

import uproar

PLUGIN = Path(__file__).parents[1] / "watermarked.py"
BASELINES = ("random", "block_random", "centre", "brightness", "sobel")
METHODS = ("abs(grad)", "occlusion", "ig")


@pytest.mark.parametrize(
    ("model", "agree", "recommended", "shortcut"),
    [
        ("only_mark", 0.9, "abs(grad)", True),
        ("all_but_mark", 0.9, "occlusion", False),
        ("everything", 0.5, "occlusion", False),
    ],
)
def test_the_recommendation_is_about_the_explained_network(model, agree, recommended, shortcut, tmp_path):
    """The label is told by a bar anywhere and, in nine of ten images, by a mark in a corner.

    Gradients, IG and occlusion of a network that sees the mark alone are zero elsewhere: they are right, although an
    evaluator of the label puts them at nothing. Where the mark says nothing of the label, no alarm is raised.
    """
    study = {
        "tasks": [f"watermarked(agree={agree})"],
        "models": [model],
        "plugins": [str(PLUGIN)],
        "estimators": [*BASELINES, *METHODS],
        "metrics": ["evaluator", "evaluator:model"],
    }
    answer = uproar.run(study, store=tmp_path / "store", jobs=1).answer
    assert recommended in answer.recommended
    assert answer.choice.shortcut == shortcut
    assert answer.lines[0].startswith("Possible shortcut" if shortcut else "Use ")
