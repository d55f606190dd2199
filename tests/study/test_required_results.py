"""Which results of a store a study needs: cleaning keeps them."""

from __future__ import annotations

import pytest

from uproar.store import Store
from uproar.study.audit import required_results
from uproar.study.run import run_study

PLUGIN = """
import torch
from uproar import extend

@extend.estimator(passes=1, prepare=lambda model, context: {"scale": torch.tensor(2.0)})
def scaled_input(model, x, target, state):
    return x * state["scale"]
"""


@pytest.mark.parametrize("estimator", ["iba(steps=1)", "scaled_input"])
def test_what_estimators_prepare_for_a_network_is_needed(small, tmp_path, estimator):
    (tmp_path / "own.py").write_text(PLUGIN)
    changes = {"estimators": ["random", estimator], "metrics": ["roar:no-retrain"], "fractions": [0.2], "seeds": 1}
    study, store = small(plugins=[str(tmp_path / "own.py")], **changes), f"memory://{tmp_path.name}"
    run_study(study, store, jobs=1)
    states = list(Store(store).keys("state"))
    assert states
    needs = required_results(study)
    assert all(("state", key) in needs for key in states)
