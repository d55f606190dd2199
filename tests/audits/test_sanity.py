"""Sanity: edges ignore the model and gradients do not, whatever an estimator says of itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import uproar
from uproar.audits.sanity import kept_similarity, marks, rewarded_estimators, state
from uproar.data import load
from uproar.errors import NotApplicable
from uproar.estimators.control import sobel
from uproar.estimators.registry import estimator, estimators

STUDY = {
    "tasks": "planted(size=8, classes=3, train=60, test=30)",
    "metrics": ["roar"],
    "fractions": [0.5],
    "seeds": 2,
    "recipe": {"epochs": 3},
    "audits": ["sanity"],
}


@pytest.fixture
def impostor():
    """An estimator that claims to ask the model, and shows edges."""

    @estimator(passes=1, channels=False, name="impostor")
    def edges(model, x, target):
        """Edges."""
        return sobel(model, x, target)

    yield "impostor"
    del estimators._entries["impostor"]


def test_who_ignores_the_model_is_found_out(impostor, tmp_path):
    study = {**STUDY, "estimators": ["sobel", "grad", impostor]}
    (result,) = uproar.run(study, store=tmp_path, jobs=1).findings
    fresh, shuffled = (table.set_index("estimator") for table in result.tables.values())
    assert fresh["ignores"].to_dict() == {"sobel": True, "grad": False, "impostor": True}
    assert fresh.loc[["sobel", "impostor"], "similarity"].tolist() == pytest.approx([1, 1])
    assert shuffled["ignores"].to_dict() == {"grad": False, "impostor": True}
    assert result.state == "misleads"
    assert {(m.estimator, m.text) for m in result.marks} == {
        ("sobel", "ignores the model"),
        ("impostor", "ignores the model"),
    }
    assert "2 of 3 estimators keep their maps" in result.sentence
    (alone,) = uproar.run({**STUDY, "estimators": ["grad"]}, store=tmp_path, jobs=1).findings
    assert alone.state != "misleads" and alone.marks == (), alone.sentence
    bars, layers = result.plots
    assert len(bars.data) == 5
    assert layers.data.groupby("estimator")["layers"].max().nunique() == 1


def test_a_control_that_says_so_misleads_only_if_it_is_rewarded():
    rows = kept_similarity({"sobel": np.array([1.0, 1.0]), "grad": np.array([0.1, 0.2])}, 0.5)
    own = pd.DataFrame({"side": [0, 1]}, index=["sobel", "grad"])
    assert state(rows, {"roar": own}, 0.5) == "cannot tell"  # two replicates 0.1 apart
    sure = kept_similarity({"sobel": np.array([1.0, 1.0]), "grad": np.array([0.1, 0.1])}, 0.5)
    assert state(sure, {"roar": own}, 0.5) == "holds"
    own.loc["sobel", "side"] = 1
    assert rewarded_estimators(sure, {"roar": own}) == {"roar": ["sobel"]}
    assert state(sure, {"roar": own}, 0.5) == "misleads"
    (mark,) = marks(sure, pd.DataFrame(), {"roar": own})
    assert mark.why == "similarity 1.00 (1.00 to 1.00) to maps of a network with fresh weights"


def test_one_seed_or_no_map_is_refused_with_the_way_out():
    with pytest.raises(NotApplicable, match="run at least 2 seeds"):
        kept_similarity({"grad": np.array([0.1])}, 0.5)
    from uproar.study.audit import audit_requests

    (one,) = audit_requests(uproar.Study(estimators=("bernoulli",), audits=("sanity",)))
    assert "no estimator that makes maps; add one, e.g. grad" in one.refused


def test_shuffled_labels_keep_the_images_and_the_number_of_each_class():
    plain = load("planted(size=8, classes=3, train=60, test=30)")
    mixed = load("shuffled-labels(planted(size=8, classes=3, train=60, test=30))")
    assert torch.equal(plain.train.images, mixed.train.images)
    assert torch.equal(plain.train.labels.bincount(), mixed.train.labels.bincount())
    assert 0.1 < (plain.train.labels == mixed.train.labels).float().mean() < 0.6  # chance is 1/3
    assert torch.equal(plain.test.labels, mixed.test.labels)
    assert plain.fingerprint != mixed.fingerprint
