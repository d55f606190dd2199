"""Spurious cues: retraining reads a hole that shows, and cannot read one that does not."""

from __future__ import annotations

import pytest
import torch

import uproar
from uproar.audits.holes import place_state as state
from uproar.estimators.control import label_cue
from uproar.removal import removed_at
from uproar.statistics.intervals import Interval
from uproar.study.audit import audit_requests

STUDY = {
    "estimators": ["grad"],
    "metrics": ["roar"],
    "fractions": [0.5],
    "seeds": 2,
    "recipe": {"epochs": 8},
    "fill": "zero",
    "audits": ["spurious"],
}


@pytest.mark.parametrize(("border", "fooled"), [(0.7, True), (0.0, False)])
def test_a_hole_that_shows_fools_retraining_and_one_that_does_not_show_cannot(border, fooled, made_up_tasks, tmp_path):
    (result,) = uproar.run({**STUDY, "tasks": f"framed(border={border})"}, store=tmp_path, jobs=1).findings
    rows = result.tables["differences of accuracy"].set_index("what")["mean"]
    assert (result.state == "misleads") is fooled
    assert bool(rows["retrained: with cue minus without"] > 0.2) is fooled
    assert bool(rows["clean test images: trained clean minus trained with the cue"] > 0.1) is fooled
    assert abs(rows["original: with cue minus without"]) < 0.3
    assert [plot.kind for plot in result.plots] == ["bars", "bars"]


def test_the_cue_is_a_patch_at_the_edge_that_tells_the_class():
    labels = torch.arange(10)
    x = torch.zeros(10, 3, 16, 12)
    maps = label_cue(torch.nn.Identity(), x, labels)[:, 0]
    ranks = maps.flatten(1).argsort(1, descending=True).argsort(1)
    patch = removed_at(ranks, 0.05, (16, 12))
    assert patch.flatten(1).sum(1).tolist() == [10] * 10  # 5 % of 192
    ring = torch.ones(16, 12, dtype=torch.bool)
    ring[3:-3, 3:-3] = False
    assert not (patch & ~ring).any()
    assert len({tuple(p.flatten().tolist()) for p in patch}) == 10
    assert bool((patch & ~removed_at(ranks, 0.7, (16, 12))).sum() == 0)  # nested
    assert bool(removed_at(ranks, 0.7, (16, 12))[:, 7:9, 5:7].all())
    alone = label_cue(torch.nn.Identity(), x[3:4], labels[3:4])[:, 0]
    assert torch.equal(alone[0], maps[3])


def test_states_follow_the_interval():
    assert state(Interval(0.3, 0.2, 0.4, 3), 0.02) == "misleads"
    assert state(Interval(0.0, -0.01, 0.01, 3), 0.02) == "holds"
    assert state(Interval(0.1, -0.1, 0.3, 3), 0.02) == "cannot tell"
    assert state(Interval(-0.2, -0.3, -0.1, 3), 0.02) == "holds"


def test_what_cannot_be_asked_is_refused_with_the_way_out():
    study = uproar.Study(features="channel", audits=("spurious",))
    assert "use features = 'pixel'" in audit_requests(study)[0].refused
    study = uproar.Study(audits=("spurious(fraction=0.05)",))
    assert "raise fraction" in audit_requests(study)[0].refused


def test_train_only_is_the_network_of_roar_tested_on_whole_images(tmp_path):
    study = {
        "tasks": "planted(size=8, classes=2, train=40, test=20)",
        "estimators": ["sobel"],
        "fractions": [0.0, 0.5],
        "metrics": ["roar", "roar:train-only"],
        "seeds": 1,
        "recipe": {"epochs": 1},
    }
    run = uproar.run(study, store=tmp_path, jobs=1)
    from uproar.study.grid import accuracies_of, settings_of
    from uproar.study.inputs import Fill, Removal
    from uproar.study.spec import study_of
    from uproar.study.steps import Changes

    read = study_of(study)
    (setting,) = settings_of(read)
    cells = [cell for cell in accuracies_of(read, setting) if cell.estimator == "sobel"]
    assert [cell.metric for cell in cells] == study["metrics"]
    assert len({cell.result for cell in cells}) == 1, "one network, tested twice"
    changes = Changes(setting.data, Removal("roar:train-only"), Fill("mean"), "pixel", 0.5, 0)
    (own, whole), test = changes.tests, setting.data.task.test
    assert (own.of, whole.of) == ("own", "none")
    assert torch.equal(changes.images(whole, (), test), test.read(slice(None)))
    assert "roar:train-only" not in set(run.verdicts.get("metric", ()))
