"""What each protocol shows a network, said again without its code; and who shares a training."""

from __future__ import annotations

import pytest
import torch

import uproar
from tests.readings import base_network, reading_of, removed
from uproar.data.task import Split
from uproar.errors import BadInput
from uproar.estimators import read_chain
from uproar.protocols import PROTOCOLS, Masks, protocol_named
from uproar.protocols.mask_assignment import fold_of, mask_donors, other_replicate
from uproar.protocols.mask_detector import detection_auc
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
    fold = fold_of(split, 0)
    for k in (0, 1):
        assert torch.bincount(fold[split.labels == k]).tolist() == [10, 10]
    assert [other_replicate(s) for s in (0, 1, 4)] == [1, 0, 3]


def test_the_area_is_the_chance_that_a_removed_pixel_scores_higher():
    generator = torch.Generator().manual_seed(0)
    margin = torch.randint(0, 4, (5, 3, 4), generator=generator).double()  # with ties
    removed = torch.rand(5, 3, 4, generator=generator) < 0.4
    removed[4] = True
    scores = torch.stack([torch.zeros_like(margin), margin], 1)
    areas = detection_auc(scores, removed)
    for i in range(4):
        gone, kept = margin[i][removed[i]], margin[i][~removed[i]]
        wins = [float(a > b) + 0.5 * float(a == b) for a in gone for b in kept]
        assert float(areas[i]) == pytest.approx(sum(wins) / len(wins))
    assert areas[4].isnan(), "an image of which all is removed says nothing"


def test_what_a_network_sees():
    x = torch.rand(2, 3, 4, 4)
    important = torch.zeros(2, 4, 4, dtype=torch.bool)
    important[:, 0] = True
    around = FillContext(Draws.of(0, 2), torch.zeros(3))
    mask = protocol_named("roar:mask").network_input(x, important, "mean", around)
    assert mask.shape == x.shape and torch.equal(mask[:, 1], important.float())
    kept = protocol_named("kar:mask").network_input(x, important, "mean", around)
    assert torch.equal(kept, 1 - mask)
    both = protocol_named("roar:mask+pixels").network_input(x, important, "mean", around)
    assert both.shape == (2, 4, 4, 4) and torch.equal(both[:, 3], important.float())
    assert torch.equal(both[:, :3], torch.where(important[:, None], 0.0, x))


def test_the_noise_of_the_hidden_protocol_lies_on_kept_and_removed_pixels_alike():
    seeded = torch.Generator().manual_seed(0)
    x = torch.rand(16, 1, 16, 16, generator=seeded)
    important = torch.rand(16, 16, 16, generator=seeded) < 0.4
    around = FillContext(Draws.of(0, 16), torch.zeros(1))
    quiet = protocol_named("roar:hidden(noise=0)").change(x, important, "mean", around)
    loud = protocol_named("roar:hidden(noise=0.5)").change(x, important, "mean", around)
    assert torch.equal(quiet[:, 0][~important], x[:, 0][~important])
    noise = (loud - quiet)[:, 0]
    assert float(noise[important].std()) == pytest.approx(0.5, rel=0.1)
    assert float(noise[~important].std()) == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("name", ["roar(noise=0.1)", "roar:hidden(noise=-1)", "roar:hidden(noise=true)", "decupled"])
def test_protocols_that_do_not_exist_are_refused_in_a_sentence(name):
    with pytest.raises(BadInput, match=r"protocol|noise"):
        protocol_named(name)


def test_the_default_noise_is_the_same_protocol():
    assert protocol_named("roar:hidden(noise=0.2)") is PROTOCOLS["roar:hidden"]


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
    study = uproar.study_of({**SMALL, "protocols": list(PROTOCOLS)})
    store = tmp_path_factory.mktemp("store")
    results = uproar.run(study, store=store, jobs=1)
    return reading_of(study, store), results


def accuracy(setting, name, estimator="grad", seed=0):
    return setting.accuracy(read_chain(estimator), protocol_named(name), 0.3, seed)


def masks(reading, name, split, of, seed=0):
    """What is removed of the images of a split under a protocol, with some assignment of masks."""
    setting, protocol = reading.setting, protocol_named(name)
    changes = Changes(setting.data, Removal(name), setting.fill, "pixel", 0.3, seed)
    train, test = setting.rankings(read_chain("grad"), protocol, seed)
    parts = tuple(stored(part, reading.store) for part in (train if split.name == "train" else test))
    return changes.removed(of, parts, split)


def test_every_protocol_has_numbers_and_only_some_judge(done):
    results = done[1]
    assert set(results.cells["status"]) == {"done"}, results.problems
    own = results.cells[results.cells["fraction"] == 0.3]
    assert own["accuracy"].between(0, 1).all()
    assert own[~own["protocol"].str.contains("find-mask")]["bits"].notna().all()
    judging = {p.name for p in PROTOCOLS.values() if p.judges}
    assert set(results.verdicts["protocol"]) <= judging
    masks = results.cells[results.cells["protocol"] == "roar:mask"]
    assert set(masks["fraction"]) == {0.3}, "no mask is plain training at any fraction"


def test_tests_of_one_network_are_one_result(done):
    setting = done[0].setting
    together = ["decoupled", "decoupled:permuted", "decoupled:class"]
    assert len({accuracy(setting, name) for name in together}) == 1
    assert accuracy(setting, "roar") == accuracy(setting, "roar:train-only")
    assert accuracy(setting, "roar:mask") != accuracy(setting, "roar:mask-other"), "of other maps"
    assert (
        len({accuracy(setting, name) for name in ("roar", "kar", "decoupled", "roar:hidden", "roar:no-retrain")}) == 5
    )


def test_a_cell_of_a_model_free_ranking_needs_no_cross_fitting(done):
    setting = done[0].setting
    assert accuracy(setting, "roar:cross-fitted", "random") == accuracy(setting, "roar", "random")


def test_images_are_given_the_masks_the_protocol_says(done):
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


def test_cross_fitted_images_are_explained_by_the_model_that_has_not_seen_them(done):
    reading = done[0]
    train, fold = reading.task.train, fold_of(reading.task.train, 0)
    crossed = masks(reading, "roar:cross-fitted", train, Masks(by="cross-fitted"))
    for part in (0, 1):
        rows = (fold == part).nonzero()[:, 0]
        model = base_network(reading, 0, part)
        a = uproar.explain(model, train.read(rows), "grad", index=rows.tolist(), split="train")
        top = a.flatten(1).argsort(1, descending=True)[:, : round(0.3 * 64)]
        mine = torch.zeros(len(rows), 64, dtype=torch.bool).scatter_(1, top, True)
        assert torch.equal(crossed[rows], mine.view(-1, 8, 8))


def test_a_second_test_of_a_network_that_is_there_costs_no_training(tmp_path):
    study = uproar.study_of({**SMALL, "protocols": ["decoupled"], "seeds": 1})
    uproar.run(study, store=tmp_path, jobs=1)
    more = study.with_changes(protocols=["decoupled", "decoupled:permuted", "decoupled:class"])
    assert plan(more, Store(tmp_path)).jobs == []


def test_one_training_serves_tests_with_other_maps_in_the_same_job(tmp_path):
    study = uproar.study_of({**SMALL, "protocols": ["roar:mask", "roar:mask-other", "roar:cross-fitted"], "seeds": 1})
    jobs = plan(study, Store(tmp_path)).jobs
    trained = [len(job.results) for job in jobs if job.step == "retrained"]
    assert sorted(trained) == [1, 1, 2, 2]
    base = {(job.results[0]["seed"], job.results[0]["fold"]) for job in jobs if job.step == "base_model"}
    assert base == {(0, None), (0, 0), (0, 1), (1, None)}


def test_given_weights_refuse_what_needs_other_base_models(tmp_path):
    from safetensors.torch import save_file

    study = uproar.study_of({**SMALL, "seeds": 1})
    weights = {n: v.contiguous() for n, v in base_network(reading_of(study, tmp_path)).state_dict().items()}
    save_file(weights, tmp_path / "net.safetensors")
    given = study.with_changes(
        weights=str(tmp_path / "net.safetensors"), protocols=["roar:cross-fitted", "roar:mask-other"]
    )
    (setting,) = settings_of(given)
    refused = [cell for cell in accuracies_of(given, setting) if cell.refused]
    assert {cell.estimator for cell in refused} == {"grad"}
    assert all("the base model is given" in cell.refused for cell in refused)


def test_a_report_shows_controls_without_judging_by_them(done, tmp_path):
    page = done[1].report(tmp_path)
    assert "decoupled" in page.read_text()


def test_the_table_says_what_names_only_hint_at():
    facts = {
        p.name: (p.family, p.retrains, p.direction, p.plain, p.nothing_removed, p.label) for p in PROTOCOLS.values()
    }
    assert facts["roar"] == ("roar", True, -1, 0.0, 0.0, "ROAR")
    assert facts["kar:no-retrain"] == ("kar", False, 1, 1.0, 1.0, "KAR without retraining")
    assert facts["roar:hidden"] == ("roar", True, -1, None, 0.0, "ROAR (hidden)")
    assert facts["kar:mask"] == ("kar", True, 1, None, 1.0, "KAR (mask)")
    assert facts["decoupled:class"] == ("decoupled", True, -1, 0.0, 0.0, "DECOUPLED (class)")
    assert all(p.family in PROTOCOLS for p in PROTOCOLS.values())
    named = {p.without_retraining for p in PROTOCOLS.values()} - {None}
    assert named == {p.name for p in PROTOCOLS.values() if not p.retrains}
    quieter = protocol_named("roar:hidden(noise=0.1)")
    assert (quieter.name, quieter.family, quieter.noise) == ("roar:hidden(noise=0.1)", "roar", 0.1)
