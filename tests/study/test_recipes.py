"""Recipes in studies: pretrained starts, sampled fills, and optimisers other than the usual one."""

import pytest
import torch
from safetensors.torch import save_file

import uproar
from tests.readings import base_network, reading_of
from uproar.errors import BadInput
from uproar.models import ModelSpec, build
from uproar.models.weights import read_weights
from uproar.study.inputs import Data, Fill
from uproar.study.steps import around_fill

ONE = {"estimators": ["random"], "metrics": ["roar"], "fractions": [0.5], "seeds": 1}


@pytest.fixture
def pretrained(tmp_path):
    """Weights of the small study's network for other classes, of which it has five."""
    other = uproar.load("planted(size=8, classes=5, train=30, test=20)")
    file = tmp_path / "start.safetensors"
    save_file(build(ModelSpec.of("cnn-small(width=4)"), other, 9).state_dict(), file)
    return file


def test_pretrained_weights_start_every_training_and_every_result_says_so(tmp_path, small, pretrained):
    recipe = {"epochs": 1, "batch": 16, "lr": 1e-9, "init": "pretrained"}
    study = small(**ONE, recipe=recipe, pretrained=str(pretrained))
    results = uproar.run(study, store=tmp_path / "store", jobs=1)
    assert any("pretrained weights (start.safetensors)" in notice for notice in results.notices)
    reading = reading_of(study, tmp_path / "store")
    model = base_network(reading)
    start = build(ModelSpec.of("cnn-small(width=4)"), reading.task, 0).state_dict()
    given = dict(read_weights(pretrained))
    for name, value in model.named_parameters():
        whence = start if value.shape != given[name].shape else given
        torch.testing.assert_close(value, whence[name], atol=1e-6, rtol=0)
    stored = [reading.store.facts("cell", key) for key in reading.store.keys("cell")]
    assert {facts["init"] for facts in stored} == {"pretrained"}


def test_other_pretrained_weights_are_other_results(small, pretrained, tmp_path):
    recipe = {"epochs": 1, "init": "pretrained"}
    study = small(**ONE, recipe=recipe, pretrained=str(pretrained))
    before = reading_of(study, tmp_path / "store").setting.base_model(0)
    weights = read_weights(pretrained)
    save_file({name: value + 1 for name, value in weights.items()}, pretrained)
    assert reading_of(study, tmp_path / "store").setting.base_model(0) != before


def test_a_pretrained_start_needs_both_the_word_and_the_file(small, pretrained, tmp_path):
    for settings in ({"recipe": {"init": "pretrained"}}, {"pretrained": str(pretrained)}):
        with pytest.raises(BadInput, match="set both or neither"):
            small(**settings)
    with pytest.raises(BadInput, match="set both or neither"):
        small(recipe="song2023-cub")
    study = small(recipe="song2023-cub", pretrained="nowhere.pt")
    with pytest.raises(BadInput, match="there is no file nowhere.pt"):
        uproar.run(study, store=tmp_path / "store", jobs=1)
    assert not (tmp_path / "store").exists()


def test_a_named_recipe_runs_with_its_optimiser_and_a_sampled_fill(tmp_path, small):
    study = small(**ONE, fill="mean(images=7)", recipe={"name": "li2024", "epochs": 1, "ghost": 8, "augment": ["crop"]})
    results = uproar.run(study, store=tmp_path / "store", jobs=1)
    assert (results.cells["status"] == "done").all()
    reading = reading_of(study, tmp_path / "store")
    assert not reading.setting.stacked
    rows = torch.randperm(60, generator=uproar.seeds.generator("mean of images"))[:7]
    colour = reading.task.train.read(rows).mean((0, 2, 3))
    around = around_fill(Data(study.tasks[0]), Fill(study.fill), uproar.seeds.Draws.of(0, 1))
    torch.testing.assert_close(around.sampled, colour)


def test_a_fill_that_draws_from_training_images_reaches_the_report(tmp_path, small):
    results = uproar.run(small(**ONE, fill="resample"), store=tmp_path / "store", jobs=1)
    assert (results.cells["status"] == "done").all()
