"""Random blocks against random pixels: a gap that misleads, one too small to, and one that cannot be told."""

from __future__ import annotations

import pytest

from tests.audits.handmade import Handed, Handmade
from uproar.audits.geometry import geometry

PIXELS = {0.3: [0.90, 0.91, 0.89], 0.7: [0.80, 0.81, 0.79]}


@pytest.mark.parametrize(
    ("gap", "expected", "says"),
    [
        ([-0.20, -0.21, -0.19], "misleads", "20.0 ± 2.5 accuracy points less than"),
        ([0.001, -0.001, 0.0], "holds", "shape by itself hardly matters"),
        ([-0.20, 0.15, 0.01], "cannot tell", "cannot tell whether shape matters"),
    ],
)
def test_the_gap_decides(gap, expected, says):
    blocks = {t: [a + d for a, d in zip(PIXELS[t], gap, strict=True)] for t in PIXELS}
    made = {("roar", "random"): PIXELS, ("roar", "block_random"): blocks}
    found = geometry(Handed(shapes=Handmade(accuracies=made)))
    assert found.state == expected, found.sentence
    assert says in found.sentence
