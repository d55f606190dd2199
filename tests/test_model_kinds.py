"""What docs/models.md says of estimators and kinds of models is true: parts of it are run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.model_kinds import KINDS, names, outcome

PAGE = (Path(__file__).parents[1] / "docs" / "models.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Which methods work on which networks")[2].partition("\n## ")[0]
RELUS, ATTENTION, CONVOLUTIONS = (
    re.findall(r"`(\w+)`", row.split("|")[1]) for row in SECTION.splitlines() if row.startswith("| `")
)
TRANSFORMERS = {"ViT", "Swin-like"}
REFUSED = {
    **dict.fromkeys(RELUS, TRANSFORMERS),
    **dict.fromkeys(ATTENTION, {kind.title for kind in KINDS} - {"ViT"}),
    **dict.fromkeys(CONVOLUTIONS, TRANSFORMERS | {"regression"}),
}
"""The kinds of models that an estimator refuses, by estimator."""


def test_the_page_names_estimators():
    assert set(REFUSED) <= set(names())


@pytest.mark.parametrize("name", ["grad", "deconv", "grad_cam", "sise", "ada_sise", "occlusion", "legrad"])
def test_what_the_page_says_is_what_happens(name):
    refused = {kind.title for kind in KINDS if outcome(name, kind) != "works"}
    assert refused == REFUSED.get(name, set())
