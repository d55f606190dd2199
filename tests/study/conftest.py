"""A study small enough to run in a second or two."""

from __future__ import annotations

import pytest

from uproar import Study

SMALL = {
    "name": "small",
    "task": "planted(size=8, classes=3, train=60, test=30)",
    "model": "cnn-small(width=4)",
    "estimators": ["random", "grad", "sq(grad)", "sobel"],
    "metrics": ["roar", "kar", "roar:no-retrain"],
    "fractions": [0.2, 0.6],
    "evaluator_fractions": [0.2, 0.6],
    "seeds": 2,
    "random_rankings": 1,
    "recipe": {"epochs": 1, "batch": 16},
}


@pytest.fixture
def small():
    """`small(seeds=1)`: the small study, with changes."""
    from uproar import study_of

    def make(**changes) -> Study:
        return study_of({**SMALL, **changes})

    return make
