"""Random blocks against random pixels: a gap that misleads, one too small to, and one that cannot be told."""

from __future__ import annotations

import pytest

from tests.audits.handmade import Handmade, handed
from uproar.audits.holes import geometry

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
    part = Handmade(accuracies=made)
    finding = geometry(handed(study=part, shapes=part))
    assert finding.state == expected, finding.sentence
    assert says in finding.sentence


def test_a_study_that_compares_blocks_with_pixels_itself_is_quoted():
    """Its verdict pools the variance of other estimators: the audit must not print a second interval beside it."""
    pixels = {t: [*PIXELS[t]] for t in PIXELS}
    blocks = {t: [a - d for a, d in zip(PIXELS[t], (0.1, 0.12, 0.11), strict=True)] for t in PIXELS}
    made = {("roar", "random"): pixels, ("roar", "block_random"): blocks}
    others = {
        ("roar", name): {t: [a - s * d for a, d in zip(PIXELS[t], (0.1, 0.13, 0.1), strict=True)] for t in PIXELS}
        for s, name in enumerate(("grad", "ig"))
    }
    study = Handmade(accuracies={**made, **others})
    row = study.verdicts("roar").loc["block_random"]
    finding = geometry(handed(study=study, shapes=Handmade(accuracies=made)))
    assert (
        f"{100 * row['advantage']:.1f} ± {100 * (row['high'] - row['low']) / 2:.1f} accuracy points" in finding.sentence
    )
