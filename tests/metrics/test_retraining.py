"""What each metric shows a network, said again without its code; and who shares a training."""

from __future__ import annotations

import pytest
import torch

import uproar
from tests.readings import base_network, reading_of, removed
from uproar.data.task import Split
from uproar.errors import BadInput
from uproar.estimators import read_chain
from uproar.metrics.mask_assignment import half_of, mask_donors, other_replicate
from uproar.metrics.retraining import RETRAININGS, Masks, retraining_named
from uproar.removal import FillContext
from uproar.seeds import Draws
from uproar.store import Store
from uproar.study.graph import stored
from uproar.study.grid import accuracies_of, settings_of
from uproar.study.inputs import Removal
from uproar.study.run import plan
from uproar.study.steps import Changes


def split_of(labels) -> Split:
    return Split("train", torch.zeros(len(labels), 1, 2, 2), torch.tensor(labels))


def test_permuted_masks_are_a_permutation_without_a_fixed_point():
    split = split_of([0, 1, 2] * 7)
    rows = mask_donors(split, Masks("permuted"), 0)
    assert sorted(rows.tolist()) == list(range(21))
    assert not (rows == torch.arange(21)).any()
    assert torch.equal(rows, mask_donors(split, Masks("permuted"), 0))
    assert not torch.equal(rows, mask_donors(split, Masks("permuted"), 1))
    assert mask_donors(split, Masks("own"), 0) is None


def test_masks_within_the_class_stay_in_the_class_and_move():
    split = split_of([0, 1, 0, 1, 0, 2])
    rows = mask_donors(split, Masks("class"), 3)
    assert torch.equal(split.labels[rows], split.labels)
    assert sorted(rows.tolist()) == list(range(6))
    assert rows[5] == 5, "the only image of its class has no other donor"
    assert not (rows[:5] == torch.arange(5)).any()


def test_folds_divide_every_class_evenly_also_where_labels_alternate():
    split = split_of([0, 1] * 20)
    fold = half_of(split, 0)
    for k in (0, 1):
        assert torch.bincount(fold[split.labels == k]).tolist() == [10, 10]
    assert [other_replicate(s) for s in (0, 1, 4)] == [1, 0, 3]


def test_what_a_network_sees():
    x = torch.rand(2, 3, 4, 4)
    important = torch.zeros(2, 4, 4, dtype=torch.bool)
    important[:, 0] = True
    around = FillContext(Draws.of(0, 2), torch.zeros(3))
    mask = retraining_named("roar:mask").network_input(x, important, "mean", around)
    assert mask.shape == x.shape and torch.equal(mask[:, 1], important.float())
    both = retraining_named("roar:mask-pixels").network_input(x, important, "mean", around)
    assert both.shape == (2, 4, 4, 4) and torch.equal(both[:, 3], important.float())
    assert torch.equal(both[:, :3], torch.where(important[:, None], 0.0, x))


SMALL = {
    "name": "small",
    "task": "planted(size=8, classes=3, train=60, test=30)",
    "model": "cnn-small(width=4)",
    "estimators": ["random", "grad"],
    "fractions": [0.3],
    "seeds": 1,
    "recipe": {"epochs": 1, "batch": 16},
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    study = uproar.study_of({**SMALL, "metrics": list(RETRAININGS)})
    store = tmp_path_factory.mktemp("store")
    results = uproar.run(study, store=store, jobs=1)
    return reading_of(study, store), results


def accuracy(setting, name, estimator="grad", seed=0):
    return setting.accuracy(read_chain(estimator), retraining_named(name), 0.3, seed)


def masks(reading, name, split, of, seed=0):
    """What is removed of the images of a split under a metric, with some assignment of masks."""
    setting, metric = reading.setting, retraining_named(name)
    changes = Changes(setting.data, Removal(name), setting.fill, "pixel", 0.3, seed)
    replicate = other_replicate(seed) if of.by == "other" else seed
    parts = tuple(stored(part, reading.store) for part in setting.ranking(read_chain("grad"), replicate, split.name))
    return metric.removed(changes.important(of, parts, split)(torch.arange(len(split))))


def test_every_metric_has_numbers_and_only_some_judge(done):
    results = done[1]
    assert set(results.cells["status"]) == {"done"}, results.problems
    own = results.cells[results.cells["fraction"] == 0.3]
    assert own["accuracy"].between(0, 1).all()
    assert own["bits"].notna().all()
    judging = {p.name for p in RETRAININGS.values() if p.judges}
    assert set(results.verdicts["metric"]) <= judging
    masks = results.cells[results.cells["metric"] == "roar:mask"]
    assert set(masks["fraction"]) == {0.3}, "no mask is plain training at any fraction"


def test_tests_of_one_network_are_one_result(done):
    setting = done[0].setting
    together = ["decoupled", "decoupled:permuted", "decoupled:class"]
    assert len({accuracy(setting, name) for name in together}) == 1
    assert accuracy(setting, "roar") == accuracy(setting, "roar:train-only")
    assert accuracy(setting, "roar:mask") != accuracy(setting, "roar:mask-other"), "of other maps"
    assert len({accuracy(setting, name) for name in ("roar", "kar", "decoupled", "roar:no-retrain")}) == 4


def test_images_are_given_the_masks_the_metric_says(done):
    reading = done[0]
    train, test, own, permuted = reading.task.train, reading.task.test, Masks(), Masks("permuted")
    assert torch.equal(
        masks(reading, "decoupled", train, permuted),
        masks(reading, "roar", train, own)[mask_donors(train, permuted, 0)],
    )
    assert torch.equal(masks(reading, "decoupled", test, own), masks(reading, "roar", test, own))
    swapped = masks(reading, "decoupled:permuted", test, permuted)
    assert torch.equal(swapped, masks(reading, "roar", test, own)[mask_donors(test, permuted, 0)])
    # masks of the other replicate's base model are what that replicate itself removes
    other = masks(reading, "roar:mask-other", test, Masks(by="other"))
    assert torch.equal(other, removed(reading, "grad", 0.3, seed=1))


def test_a_second_test_of_a_network_that_is_there_costs_no_training(tmp_path):
    study = uproar.study_of({**SMALL, "metrics": ["decoupled"], "seeds": 1})
    uproar.run(study, store=tmp_path, jobs=1)
    more = study.with_changes(metrics=["decoupled", "decoupled:permuted", "decoupled:class"])
    assert plan(more, Store(tmp_path)).jobs == []


def test_given_weights_refuse_what_needs_other_base_models(tmp_path):
    from safetensors.torch import save_file

    study = uproar.study_of({**SMALL, "seeds": 1})
    weights = {n: v.contiguous() for n, v in base_network(reading_of(study, tmp_path)).state_dict().items()}
    save_file(weights, tmp_path / "net.safetensors")
    given = study.with_changes(weights=str(tmp_path / "net.safetensors"), metrics=["roar:mask-other"])
    (setting,) = settings_of(given)
    refused = [cell for cell in accuracies_of(given, setting) if cell.refused]
    assert {cell.estimator for cell in refused} == {"grad"}
    assert all("the base model is given" in cell.refused for cell in refused)


def test_a_report_shows_controls_without_judging_by_them(done, tmp_path):
    page = done[1].report(tmp_path)
    assert "decoupled" in page.read_text()


def test_the_table_says_what_names_only_hint_at():
    facts = {p.name: (p.family, p.retrains, p.direction, p.plain, p.label) for p in RETRAININGS.values()}
    assert facts["roar"] == ("roar", True, -1, 0.0, "ROAR")
    assert facts["kar:no-retrain"] == ("kar", False, 1, 1.0, "KAR without retraining")
    assert facts["roar:mask"] == ("roar", True, -1, None, "ROAR (mask)")
    assert facts["decoupled:class"] == ("decoupled", True, -1, 0.0, "DECOUPLED (class)")
    assert all(p.family in RETRAININGS for p in RETRAININGS.values())
    named = {p.without_retraining for p in RETRAININGS.values()} - {None}
    assert named == {p.name for p in RETRAININGS.values() if not p.retrains}


def test_a_metric_of_studies_is_refused_for_maps_that_are_there():
    task = uproar.load("planted(size=8, classes=2, train=16, test=4)")
    model, x = uproar.build("cnn-small", task), task.test.images
    with pytest.raises(BadInput, match="uproar run --metrics roar"):
        uproar.score(model, x, task.test.labels, torch.rand(4, 8, 8), ["roar"], mean=task.mean)
