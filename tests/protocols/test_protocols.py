"""What each protocol shows a network, said again without its code; and who shares a training."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from uproar.study.bench import bench_for
from uproar.study.cell import Cell
from uproar.study.plan import plan
from uproar.study.settings import ImageRanking, Setting

import uproar
from uproar.data.task import Split
from uproar.errors import BadInput
from uproar.protocols import PROTOCOLS, Masks, protocol_named
from uproar.protocols.mask_assignment import fold_of, mask_donors, other_replicate
from uproar.protocols.mask_detector import detection_auc
from uproar.removal import FillContext
from uproar.seeds import Draws
from uproar.store import Store


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
def bench(tmp_path_factory):
    study = uproar.study_of({**SMALL, "protocols": list(PROTOCOLS)})
    store = tmp_path_factory.mktemp("store")
    results = uproar.run(study, store=store, jobs=1)
    return bench_for(Setting.all_of(study)[0], str(store)), results


def cell(protocol, estimator="grad", seed=0) -> Cell:
    return Cell(SMALL["task"], SMALL["model"], estimator, protocol, 0.3, seed)


def test_every_protocol_has_numbers_and_only_some_judge(bench):
    results = bench[1]
    assert set(results.cells["status"]) == {"done"}, results.problems
    own = results.cells[results.cells["fraction"] == 0.3]
    assert own["accuracy"].between(0, 1).all()
    assert own[~own["protocol"].str.contains("find-mask")]["bits"].notna().all()
    judging = {p.name for p in PROTOCOLS.values() if p.judges}
    assert set(results.verdicts["protocol"]) <= judging
    masks = results.cells[results.cells["protocol"] == "roar:mask"]
    assert set(masks["fraction"]) == {0.3}, "no mask is plain training at any fraction"


SCORE = ("evaluator", "evaluator:keep", "evaluator:shifted", "evaluator:keep:shifted")


def test_tests_of_one_network_share_its_training(bench):
    bench = bench[0]
    together = ["decoupled", "decoupled:permuted", "decoupled:class"]
    assert len({bench.keys.training(cell(p)) for p in together}) == 1
    assert bench.keys.training(cell("roar:mask")) == bench.keys.training(cell("roar:mask-other"))
    assert len({bench.keys.training(cell(p)) for p in ("roar", "decoupled", "roar:hidden")}) == 3
    asked_once = [p for p in PROTOCOLS.values() if p.target == "label"]  # an evaluator's result has both targets
    kept_with = {p.name: p.name for p in asked_once} | dict.fromkeys(SCORE, "evaluator")  # and the tests of its score
    keys = {name: bench.keys.cell(cell(name)) for name in kept_with}
    assert len(set(keys.values())) == len(set(kept_with.values()))
    assert all(keys[name] == keys[other] for name, other in kept_with.items())
    assert {bench.keys.cell(cell(p.name)) for p in PROTOCOLS.values()} == set(keys.values())


def test_a_cell_of_a_model_free_ranking_needs_no_cross_fitting(bench):
    bench = bench[0]
    assert bench.keys.cell(cell("roar:cross-fitted", "random")) == bench.keys.cell(cell("roar", "random"))


def test_images_are_given_the_masks_the_protocol_says(bench):
    bench = bench[0]
    train, test = bench.task.train, bench.task.test
    own, other = bench.cells.removed(cell("roar"), train), bench.cells.removed(cell("decoupled"), train)
    assert torch.equal(other, own[mask_donors(train, Masks("permuted"), 0)])
    assert torch.equal(bench.cells.removed(cell("decoupled"), test), bench.cells.removed(cell("roar"), test))
    swapped = bench.cells.removed(cell("decoupled:permuted"), test)
    assert torch.equal(swapped, bench.cells.removed(cell("roar"), test)[mask_donors(test, Masks("permuted"), 0)])
    # masks of the other replicate's base model are what that replicate itself removes
    assert torch.equal(
        bench.cells.removed(cell("roar:mask-other"), test), bench.cells.removed(cell("roar", seed=1), test)
    )


def test_cross_fitted_images_are_explained_by_the_model_that_has_not_seen_them(bench):
    bench = bench[0]
    train = bench.task.train
    chain, fold = bench.chain("grad"), fold_of(train, 0)
    crossed = bench.cells.removed(cell("roar:cross-fitted"), train)
    for part in (0, 1):
        rows = (fold == part).nonzero()[:, 0]
        model = bench.base_models.get(0, part)[0]
        a = bench.explainer.maps(model, [ImageRanking(chain, 0)], train, rows, {})[0]
        top = a.flatten(1).argsort(1, descending=True)[:, : round(0.3 * 64)]
        mine = torch.zeros(len(rows), 64, dtype=torch.bool).scatter_(1, top, True)
        assert torch.equal(crossed[rows], mine.view(-1, 8, 8))


def test_a_second_test_of_a_network_that_is_there_costs_no_training(tmp_path):
    study = uproar.study_of({**SMALL, "protocols": ["decoupled"], "seeds": 1})
    uproar.run(study, store=tmp_path, jobs=1)
    more = study.with_changes(protocols=["decoupled", "decoupled:permuted", "decoupled:class"])
    assert plan(more, Store(tmp_path)).jobs == []


def test_one_job_trains_for_all_its_tests(tmp_path):
    study = uproar.study_of({**SMALL, "protocols": ["roar:mask", "roar:mask-other", "roar:cross-fitted"], "seeds": 1})
    jobs = plan(study, Store(tmp_path)).jobs
    trained = [job for job in jobs if job.kind == "retrain"]
    assert sorted(len(job.cells) for job in trained) == [1, 1, 2, 2]
    assert {(job.seed, job.fold) for job in jobs if job.kind == "train"} == {(0, None), (0, 0), (0, 1), (1, None)}


def test_given_weights_refuse_what_needs_other_base_models(tmp_path):
    from safetensors.torch import save_file

    study = uproar.study_of({**SMALL, "seeds": 1})
    bench = bench_for(Setting.all_of(study)[0], str(tmp_path))
    weights = {n: v.contiguous() for n, v in bench.base_models.get(0)[0].state_dict().items()}
    save_file(weights, tmp_path / "net.safetensors")
    given = study.with_changes(
        weights=str(tmp_path / "net.safetensors"), protocols=["roar:cross-fitted", "roar:mask-other"]
    )
    skipped = plan(given, Store(tmp_path)).skipped
    assert {c.estimator for c in skipped} == {"grad"}
    assert all("the base model is given" in outcome.reason for outcome in skipped.values())


def test_old_keys_stay(bench):
    """Results made before there were more protocols are found again: nothing new is part of their identity."""
    for name in ("roar", "kar", "roar:no-retrain", "kar:no-retrain"):
        assert PROTOCOLS[name].training == {}
        assert dataclasses.replace(PROTOCOLS[name]).plain in (0.0, 1.0)


def test_a_report_shows_controls_without_judging_by_them(bench, tmp_path):
    page = bench[1].report(tmp_path)
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
    assert named == {p.name for p in PROTOCOLS.values() if not p.retrains and not p.evaluator}
    assert facts["evaluator"] == ("evaluator", False, -1, None, 0.0, "evaluator")
    assert facts["evaluator:model:keep"][2:] == (1, None, 1.0, "evaluator:model:keep")
    quieter = protocol_named("roar:hidden(noise=0.1)")
    assert (quieter.name, quieter.family, quieter.noise) == ("roar:hidden(noise=0.1)", "roar", 0.1)
