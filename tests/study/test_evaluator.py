"""The evaluator in a study: its cells said again by hand, no maps of training images, the same in any process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import uproar
from tests.readings import forget, reading_of, removed
from tests.study.conftest import SMALL
from uproar.errors import BadInput
from uproar.estimators.control import distance_from_class_place
from uproar.metrics.evaluator import calibrate, evaluator_scores
from uproar.metrics.mask_assignment import half_of, moved_to, random_places
from uproar.store import Store
from uproar.study import ranking as shards
from uproar.study import steps
from uproar.study.graph import obtain, step_named
from uproar.study.grid import evaluations_of, settings_of
from uproar.study.run import plan, run_study
from uproar.study.steps import ANSWERS, untrained_evaluator, weights_of

JUDGED = {**SMALL, "metrics": ["evaluator"], "estimators": ["random", "grad"], "seeds": 1}


def study_with(**changes):
    return uproar.study_of({**JUDGED, **changes})


def bits_by_method(study, root):
    reading = reading_of(study, root)
    cells = evaluations_of(study, reading.setting)
    items = {(cell.estimator, cell.seed): reading.find(cell.result) for cell in cells}
    return {name: item.arrays["bits"] for name, item in items.items() if item is not None}


def evaluator_of(reading, seed=0):
    """A replicate's evaluator, and what is kept of it."""
    setting = reading.setting
    kept = obtain(setting.evaluator(seed), reading.store).arrays
    targets = setting.evaluator_targets
    network = untrained_evaluator(setting.data, setting.evaluator_network(seed), "pixel", seed, targets)
    network.load_state_dict(weights_of(kept))
    return network, kept


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    root = tmp_path_factory.mktemp("judged")
    study = study_with(metrics=["evaluator", "evaluator:model"])
    return uproar.run(study, store=root, jobs=1), study, root


def test_losses_are_what_the_evaluator_says_of_the_changed_images(judged):
    """Said again: mask, place, fill, calibrated log-loss of the label and of the explained network's class."""
    _, study, root = judged
    reading = reading_of(study, root)
    network, kept = evaluator_of(reading)
    test, important = reading.task.test, removed(reading, "grad", 0.2)
    x, bits = test.read(slice(None)), bits_by_method(study, root)["grad", 0]
    assert bits.shape == (2, 2, 2, 30, 2), "masks, keeps, fractions, images, targets"
    answers = torch.from_numpy(reading.base_model(0).arrays[ANSWERS].argmax(1))
    for masks, keeps, target in ((0, 0, 0), (1, 1, 0), (1, 0, 1)):
        mask = moved_to(important, random_places(test, 0)) if masks else important
        gone = (~mask if keeps else mask)[:, None]
        shown = torch.where(gone, reading.task.mean.view(1, -1, 1, 1), x)
        scores = evaluator_scores(network, torch.cat([shown, gone.float()], 1))[:, :, target]
        expected = calibrate(scores, answers if target else test.labels, half_of(test, 0))
        np.testing.assert_allclose(bits[masks, keeps, 0, :, target], expected.numpy(), rtol=1e-4, atol=1e-5)


def test_training_images_are_not_explained(judged):
    _, _, root = judged
    store = Store(root)
    facts = [store.facts("ranking", key) for key in store.keys("ranking")]
    assert facts and {each["images"] for each in facts} == {30}


def test_a_new_estimator_changes_nothing_that_is_there(judged, tmp_path):
    _, study, root = judged
    more = study.with_changes(estimators=["random", "grad", "ig"])
    todo = plan(more, Store(root))
    steps_left = {job.step for job in todo.jobs}
    assert steps_left == {"ranking", "evaluation"}, "no network is trained"
    assert {r["estimator"].name for job in todo.jobs for r in job.results if job.step != "evaluation"} == {"ig"}


def test_evaluators_of_several_replicates_are_one_job_and_the_same_to_the_bit_as_each_alone(tmp_path):
    study, (together, apart) = study_with(model="cnn-small", seeds=3), (tmp_path / "together", tmp_path / "apart")
    (job,) = [job for job in plan(study, Store(together)).jobs if job.step == "evaluator"]
    assert [result["seed"] for result in job.results] == [0, 1, 2] and len(job.needs) == 3
    run_study(study, together, 1)
    for seed in (2, 0, 1):
        run_study(study.with_changes(seeds=[seed]), apart, 1)
    assert not plan(study, Store(apart)).jobs
    first, second = Store(together), Store(apart)
    keys = list(first.keys("evaluator"))
    assert len(keys) == 3 and set(keys) == set(second.keys("evaluator"))
    for key in keys:
        one, other = (store.read("evaluator", key).arrays for store in (first, second))
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_networks_that_are_no_stack_are_jobs_of_their_own(tmp_path):
    for changes in (
        {"task": "planted(size=16, classes=3, train=60, test=30)"},
        {"recipe": {"epochs": 1, "augment": ["flip"]}},
    ):
        todo = plan(study_with(model="cnn-small", seeds=3, **changes), Store(tmp_path))
        assert [len(job.results) for job in todo.jobs if job.step == "evaluator"] == [1, 1, 1]


def test_one_evaluator_that_cannot_be_trained_takes_no_other_with_it(tmp_path, monkeypatch):
    pool = steps.mask_pool

    def fails(task, features, seed):
        if seed == 1:
            raise RuntimeError("not this one")
        return pool(task, features, seed)

    monkeypatch.setattr(steps, "mask_pool", fails)
    results = uproar.run(study_with(model="cnn-small", seeds=3), store=tmp_path, jobs=1)
    by_seed = results.table.groupby("replicate")["status"].agg(set)
    assert by_seed[0] == by_seed[2] == {"done"} and by_seed[1] == {"failed"}
    assert results.problems["reason"].str.startswith("the evaluator could not be trained").all()


def test_another_run_and_a_lost_cell_give_the_same_bits(judged, tmp_path):
    _, study, root = judged
    run_study(study, tmp_path, 1)
    here, there = bits_by_method(study, root), bits_by_method(study, tmp_path)
    assert here.keys() == there.keys() and len(here) == 6
    assert all(np.allclose(here[cell], there[cell], atol=1e-5) for cell in here)
    lost = next(iter(Store(tmp_path).keys("evaluation")))
    (tmp_path / Store(tmp_path).name("evaluation", lost)).unlink()
    run_study(study, tmp_path, 1)
    again = bits_by_method(study, tmp_path)
    assert all(np.allclose(here[cell], again[cell], atol=1e-5) for cell in here)


def test_shards_give_the_same_bits_and_serve_roar_later(judged, tmp_path, monkeypatch):
    _, _, root = judged
    study, here = study_with(), bits_by_method(study_with(), root)
    monkeypatch.setattr(shards, "SHARD", 2**10)
    forget()
    run_study(study, tmp_path, 1)
    there = bits_by_method(study, tmp_path)
    assert here.keys() == there.keys()
    assert all(np.allclose(here[cell], there[cell], atol=1e-5) for cell in here)
    facts = [Store(tmp_path).facts("ranking", key) for key in Store(tmp_path).keys("ranking")]
    assert facts and all(each["shard"] for each in facts)
    asked = uproar.run(study.with_changes(metrics=["roar", "evaluator"]), store=tmp_path, jobs=1)
    forget()
    table = asked.cells.set_index("metric")
    assert (table.loc["roar", "status"] == "done").all()


def test_evaluators_judge_some_images_of_many(tmp_path):
    """The same images in every replicate, drawn at random."""
    study = study_with(estimators=["random", "grad"], evaluator_fractions=[0.2], evaluator_images=20)
    scores = uproar.run(study, store=tmp_path, jobs=1).views[0].evaluators["label"]
    judged = scores.per_image.set_index(["estimator", "replicate", "image"])
    images = judged.index.get_level_values("image").unique()
    assert len(images) == 20 and images.max() >= 20, "drawn from all 30, not the first"
    assert judged.groupby(["estimator", "replicate"]).size().eq(20).all()


def test_the_evaluator_is_first(tmp_path):
    kinds: list[str] = []
    study = study_with(metrics=["roar", "evaluator"])
    uproar.run(study, store=tmp_path, jobs=1, listen=lambda p: kinds.extend(job.step for job in p.running))
    assert kinds.index("evaluation") < kinds.index("retrained")
    results = uproar.run(study, store=tmp_path, jobs=1)
    assert (results.table["status"] == "done").all()


def test_a_network_without_room_for_the_mask_sees_the_pixels_alone(tmp_path):
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    return nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3))\n"
    )
    own = f"{tmp_path / 'net.py'}:build"
    study = study_with(models=[own], evaluator_models=[own])
    results = uproar.run(study, store=tmp_path / "store", jobs=1)
    assert (results.table["status"] == "done").all(), results.problems


def test_what_is_removed_without_a_ranking_has_a_score_and_what_is_no_pixel_a_reason(tmp_path):
    """`bernoulli` draws anew for every fraction; of single values of a colour an evaluator of pixels is not asked."""
    estimators = ["random", "bernoulli", "bernoulli(each=value)"]
    study = study_with(task="board_colour(train=60, test=16)", estimators=estimators)
    results = uproar.run(study, store=tmp_path, jobs=1)
    table = results.table.drop_duplicates("method").set_index("method")["status"]
    assert table["random"] == table["bernoulli"] == "done" and table["bernoulli(each=value)"] == "skipped"
    assert "evaluators see whole pixels" in results.problems["reason"].item()


def test_an_evaluator_that_cannot_be_trained_is_a_reason(tmp_path):
    study = study_with(recipe={"epochs": 1, "batch": 16, "lr": 1e30})
    results = uproar.run(study, store=tmp_path, jobs=1)
    assert set(results.cells["status"]) == {"failed"}
    assert results.cells["reason"].str.contains("diverged").all()


def test_replicates_take_the_architectures_of_evaluators_in_turn(tmp_path):
    """A seed's evaluator is the same with more seeds, and that of a study which names no architecture where it is its own."""
    models = [JUDGED["model"], "resnet-small(width=4)"]
    study = study_with(seeds=[0, 1, 2], evaluator_models=models)
    named, default = (reading_of(one, tmp_path).setting for one in (study, study_with()))
    pairs = [(named.evaluator(seed), default.evaluator(seed)) for seed in range(3)]
    assert [own == plain for own, plain in pairs] == [True, False, True]
    assert [named.base_model(seed) for seed in range(3)] == [default.base_model(seed) for seed in range(3)]
    kinds = [named.evaluator_network(seed).name for seed in range(3)]
    assert kinds[0] == kinds[2] != kinds[1]


def test_evaluators_of_two_architectures_answer_together(tmp_path):
    results = uproar.run(
        study_with(seeds=2, evaluator_models=[JUDGED["model"], "resnet-small(width=4)"]), store=tmp_path, jobs=1
    )
    scores = results.views[0].evaluators["label"]
    assert set(scores.table["replicates"]) == {2}
    per_image = scores.per_image.query("estimator == 'grad'").groupby("replicate")["removing"].mean()
    assert per_image.nunique() == 2
    one = uproar.run(study_with(seeds=1), store=tmp_path, jobs=1).views[0].evaluators["label"]
    own = one.per_image.query("estimator == 'grad'")["removing"].to_numpy()
    both = scores.per_image.query("estimator == 'grad' and replicate == 0")["removing"].to_numpy()
    np.testing.assert_array_equal(own, both)


def test_images_that_are_not_tiny_are_judged_by_another_architecture_than_the_explained(tmp_path):
    study = study_with(task="planted(size=12, train=24, test=8)")
    scores = uproar.run(study, store=tmp_path, jobs=1).views[0].evaluators["label"]
    assert scores.bits.models == ("resnet-half",)
    body = evaluator_of(reading_of(study, tmp_path))[0].body
    assert next(m for m in body.modules() if isinstance(m, torch.nn.Conv2d)).kernel_size == (6, 6)


def test_an_unknown_architecture_of_evaluators_is_refused_when_the_study_is_read():
    with pytest.raises(BadInput, match="cnn-smal"):
        study_with(evaluator_models=["cnn-smal"])
    with pytest.raises(BadInput, match="evaluator model"):
        study_with(evaluator_models=["cnn-small", "cnn-small"])


def test_the_time_of_a_study_has_its_evaluators_and_nothing_that_was_added_later(tmp_path):
    """ROAR in the same store explains training images too, with the same fractions."""
    study = study_with()
    before = uproar.run(study, store=tmp_path, jobs=1)
    assert before.work["evaluators"] > 0
    other = uproar.run(study_with(metrics=["roar"]), store=tmp_path, jobs=1)
    assert other.work["evaluators"] == 0
    assert uproar.run(study, store=tmp_path, jobs=1).work == before.work


def test_a_study_says_how_many_images_there_are(tmp_path):
    results = uproar.run(study_with(limit=20), store=tmp_path, jobs=1)
    (view,) = results.views
    assert results.provenance["test_images"][view.task] == 30
    assert int(view.evaluators["label"].table["n"].max()) == 20


def test_evaluators_judge_at_fractions_of_their_own_and_one_explaining_serves_all(tmp_path):
    study = study_with(metrics=["roar", "evaluator"], fractions=[0.6], evaluator_fractions=[0.1, 0.2])
    results = uproar.run(study, store=tmp_path, jobs=1)
    by_metric = results.done.groupby("metric")["fraction"].agg(set)
    assert by_metric["roar"] == {0.0, 0.6} and bits_by_method(study, tmp_path)["grad", 0].shape[2] == 2
    served = [Store(tmp_path).facts("ranking", key)["fractions"] for key in Store(tmp_path).keys("ranking")]
    assert served and all(own == [0.1, 0.2, 0.6] for own in served)
    assert not plan(study, Store(tmp_path)).jobs
    default = uproar.Study()
    assert default.evaluator_fractions == (0.05, 0.1, 0.2, 0.3, 0.5)
    assert default.fractions == (0.1, 0.3, 0.5, 0.7, 0.9), "those of the papers"
    assert {"evaluator", "evaluator:model"} <= set(default.metrics)


def test_losses_are_at_most_the_entropy_however_sure_the_evaluator_is(tmp_path, monkeypatch):
    """Scores a hundred times too large; and where nothing is left they say nothing."""
    sure = steps.evaluator_scores
    monkeypatch.setattr(steps, "evaluator_scores", lambda network, images: 100 * sure(network, images))
    study = study_with(task="planted-place(train=100, test=300)", estimators=["random", "grad", "oracle"])
    scores = uproar.run(study, store=tmp_path, jobs=1).views[0].evaluators["label"]
    assert scores.bits.entropy == pytest.approx(np.log2(5))
    losses = bits_by_method(study, tmp_path)
    assert max(float(bits.mean(3).max()) for bits in losses.values()) < scores.bits.entropy + 0.1


def test_masks_that_name_their_class_to_the_evaluator_are_marked_and_boxes_are_not(tmp_path, monkeypatch):
    """An evaluator that has learned where the masks of each class lie; its answers have nothing to do with the image."""
    places = torch.stack([distance_from_class_place(8, 8, torch.tensor([k])).argmin() for k in range(3)])

    def reads_masks(network, images):
        removed = images[:, -1].flatten(1)
        told = torch.where(removed.mean(1, keepdim=True) < 0.5, removed, 1 - removed)[:, places]
        return told[:, :, None].expand(-1, -1, 2)

    monkeypatch.setattr(steps, "evaluator_scores", reads_masks)
    task = "planted(size=8, classes=3, train=60, test=90)"
    study = study_with(task=task, estimators=["random", "block_random", "grad", "label_cue"], seeds=5)
    scores = uproar.run(study, store=tmp_path, jobs=1).views[0].evaluators["label"]
    assert scores.bits.leaks.keys() == {"label_cue"}
    assert scores.table.set_index("estimator").loc["label_cue", "leak"] > 0.5


class Relabelled:
    """A task whose training labels say nothing."""

    def __init__(self, task):
        self.task = replace(task, train=replace(task.train, labels=task.train.labels.roll(1)))


def test_where_the_label_is_no_target_it_is_not_looked_at(tmp_path):
    study = study_with(metrics=["evaluator:model"])
    (setting,) = settings_of(study)
    result, base = setting.evaluator(0), obtain(setting.base_model(0), Store(tmp_path))
    arguments = {**result.arguments, "explained": [base], "seed": [0]}
    train = step_named("evaluator").function
    usual, relabelled = (
        train(**arguments | {"data": d})[0].arrays for d in (setting.data, Relabelled(setting.data.task))
    )
    assert usual.keys() == relabelled.keys()
    assert all(np.array_equal(usual[name], relabelled[name]) for name in usual)
    uproar.run(study, store=tmp_path, jobs=1)
    assert bits_by_method(study, tmp_path)["grad", 0].shape == (2, 2, 2, 30, 1)


MARKED = '''
import torch
from torch import nn
from uproar import Split, Task
from uproar.extend import estimator, task

class Corner(nn.Module):
    """A network that by construction sees the mark alone: 2 × 2 pixels in the lower right corner."""
    def __init__(self, classes):
        super().__init__()
        self.head = nn.Linear(4, classes)
    def forward(self, x):
        return self.head(x[:, 0, -2:, -2:].flatten(1))

def sees_mark(classes):
    return Corner(classes)

@task()
def marked():
    """Class: which diagonal of a square in the middle is bright; a mark in the corner says so, right in three of four images."""
    shapes = torch.eye(2).repeat(2, 2), torch.eye(2).flip(0).repeat(2, 2)
    def split(name, n, seed):
        draw = torch.Generator().manual_seed(seed)
        labels = torch.arange(n) % 2
        told = torch.where(torch.rand(n, generator=draw) < 0.75, labels, 1 - labels)
        images = 0.3 + 0.4 * torch.rand(n, 1, 8, 8, generator=draw)
        for i in range(n):
            images[i, 0, 2:6, 2:6] = shapes[labels[i]]
            images[i, 0, 6:, 6:] = shapes[told[i]][:2, :2]
        return Split(name, images, labels)
    return Task("marked", split("train", 400, 1), split("test", 100, 2), ("\\\\", "/"))

def square(x, begin, end):
    maps = torch.zeros_like(x[:, :1])
    maps[..., begin:end, begin:end] = 1
    return maps

@estimator(passes=0, model=False, informed=True)
def mark(model, x, target):
    """The corner."""
    return square(x, 6, 8)

@estimator(passes=0, model=False, informed=True)
def shape(model, x, target):
    """The square in the middle."""
    return square(x, 2, 6)
'''


def test_the_evaluator_of_the_network_finds_what_the_network_sees_and_that_of_the_label_what_the_data_allow(tmp_path):
    (tmp_path / "marked.py").write_text(MARKED)
    study = study_with(
        plugins=[str(tmp_path / "marked.py")],
        task="marked",
        model=f"{tmp_path / 'marked.py'}:sees_mark",
        evaluator_models=["cnn-small"],
        estimators=["mark", "shape"],
        metrics=["evaluator", "evaluator:model"],
        evaluator_fractions=[0.0625, 0.25],
        recipe={"epochs": 20, "batch": 32},
    )
    evaluators = uproar.run(study, store=f"memory://{tmp_path.name}", jobs=1).views[0].evaluators
    label, answer = (evaluators[target].table.set_index("estimator")["score"] for target in ("label", "answer"))
    assert answer["mark"] > answer["shape"] + 0.1, answer
    assert label["shape"] > label["mark"] + 0.1, label
