"""The contract of `uproar check` on a vision transformer: attention methods, the CAM family, and what has rules of its own there."""

from __future__ import annotations

import pytest

from uproar.estimators import estimators
from uproar.estimators.contract import try_contract

ATTENTION = ["attention_rollout", "grad_attention", "legrad"]
CAM = [e.name for e in estimators.values() if e.facts.get("default_layers") and "ReLU" not in e.facts["needs"]]
CAM = [name for name in CAM if not estimators[name].facts["prepare"]]
OTHERS = ["lrp", "deep_lift", "fullgrad", "guided_ig(steps=3)", "blur_ig(steps=3)"]


@pytest.mark.parametrize("name", [*ATTENTION, *CAM, *OTHERS])
def test_the_contract_holds_on_a_transformer(name):
    checks, _ = try_contract(name, "vit-small(width=8, depth=2, heads=2)")
    assert len(checks) == 9
    assert [(check.clause, check.message) for check in checks if not check.holds] == []
