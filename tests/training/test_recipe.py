"""Recipes: what they say, how they are named, and that each setting does what it says."""

import copy

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import nn

from uproar.data import load
from uproar.errors import BadInput, UnknownName
from uproar.models import ModelSpec, build
from uproar.seeds import generator
from uproar.study.spec import Study, study_of
from uproar.training import Recipe, accuracy, fit, predict
from uproar.training.fit import augment, replaced_layers
from uproar.training.recipe import recipes


def test_a_recipe_is_identified_by_its_settings_and_not_by_its_name():
    spelled = {k: v for k, v in Recipe.named("li2024").model_dump().items() if k != "name"}
    assert Recipe(**spelled).identity == Recipe.named("li2024").identity != Recipe().identity


@pytest.mark.parametrize("name", list(recipes))
def test_a_named_recipe_survives_being_written_and_read(name):
    recipe = Recipe.named(name)
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe
    assert Recipe.model_validate({"name": name, "epochs": 3}) == Recipe.named(name, epochs=3)
    assert recipe.title == name
    assert Recipe.named(name, epochs=3).title == f"{name} with epochs=3"


def test_hookers_learning_rate_warms_up_and_falls_by_tenths():
    recipe = Recipe.named("hooker2019")
    rates = [recipe.rate(epoch / 90) for epoch in range(90)]
    assert rates[:6] == pytest.approx([0, 0.96, 1.92, 2.88, 3.84, 4.8])
    assert {round(r, 9) for r in rates[5:30]} == {4.8}
    assert {round(r, 9) for r in rates[30:60]} == {0.48}
    assert {round(r, 9) for r in rates[60:80]} == {0.048}
    assert {round(r, 9) for r in rates[80:]} == {0.0048}
    assert (recipe.epochs, recipe.batch, recipe.ghost) == (90, 4096, 128)


def test_a_study_names_its_recipe(tmp_path):
    (tmp_path / "a.toml").write_text('recipe = "song2023-cifar"')
    (tmp_path / "b.toml").write_text('recipe = { name = "song2023-cifar", epochs = 5 }')
    assert study_of(tmp_path / "a.toml").recipe == Recipe.named("song2023-cifar")
    assert study_of(tmp_path / "b.toml").recipe == Recipe.named("song2023-cifar", epochs=5)
    (tmp_path / "c.toml").write_text('recipe = "song2023"')
    with pytest.raises(BadInput, match="No recipe is called 'song2023'. Did you mean 'song2023-c"):
        study_of(tmp_path / "c.toml")
    with pytest.raises(UnknownName, match="hooker2019"):
        Recipe.named("hooker")


def test_steps_and_milestones_go_together():
    for settings in ({"schedule": "step"}, {"milestones": (0.5,)}):
        with pytest.raises(BadInput, match="go together"):
            Study(recipe=settings)
    with pytest.raises(ValidationError):
        Recipe(schedule="step", milestones=(30,))


def test_adam_is_the_one_torch_has():
    torch.manual_seed(0)
    x, y = torch.rand(12, 1, 4, 4), torch.arange(12) % 3
    recipe = Recipe.named("li2024", epochs=3, batch=4, lr=0.05)
    ours = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    theirs = copy.deepcopy(ours)
    fit(ours, x, y, recipe, seed=5)
    adam, order = (torch.optim.Adam(theirs.parameters(), 0.05, weight_decay=1e-4), generator(5, "batches"))
    for _ in range(3):
        rows = torch.randperm(12, generator=order)
        for part in rows.split(4):
            adam.zero_grad()
            F.cross_entropy(theirs(x[part]), y[part]).backward()
            adam.step()
    torch.testing.assert_close(ours[1].weight, theirs[1].weight)


def test_ghosts_normalise_each_part_of_a_batch_by_its_own_statistics():
    torch.manual_seed(0)
    norm, x = nn.BatchNorm2d(2), torch.randn(10, 2, 3, 3)
    plain = copy.deepcopy(norm)
    with replaced_layers(norm, 3, torch.device("cpu")):
        out = norm(x)
    parts = [x[:4], x[4:7], x[7:]]  # three parts of at least three
    for part, seen in zip(parts, out.split([4, 3, 3]), strict=True):
        mean, var = (part.mean((0, 2, 3), keepdim=True), part.var((0, 2, 3), keepdim=True, correction=0))
        torch.testing.assert_close(seen, (part - mean) / (var + norm.eps).sqrt())
    kept = torch.zeros(2)
    for part in parts:
        kept = 0.9 * kept + 0.1 * part.mean((0, 2, 3))
    torch.testing.assert_close(norm.running_mean, kept)
    assert "forward" not in vars(norm)
    with replaced_layers(plain, 3, torch.device("cpu")):
        plain.eval()
        torch.testing.assert_close(plain(x), x / (1 + norm.eps) ** 0.5)


def test_a_ghost_as_large_as_the_batch_changes_nothing_and_a_smaller_one_does():
    task = load("digits").limited(200)
    x, y = task.train.read(slice(None)), task.train.labels
    plain, same, parts = (
        fit(build(ModelSpec.of("cnn-small"), task, 0), x, y, Recipe(epochs=1, ghost=g), 0).state_dict()
        for g in (None, 64, 16)
    )
    assert all(torch.equal(plain[k], same[k]) for k in plain)
    assert any(not torch.equal(plain[k], parts[k]) for k in plain)


def test_a_crop_moves_an_image_and_lets_black_in():
    x = torch.rand(30, 3, 16, 16) + 0.1
    seen = augment(x, ("crop",), torch.Generator().manual_seed(0))
    padded = F.pad(x, (2, 2, 2, 2))
    for i, after in enumerate(seen):
        places = [
            (dy, dx)
            for dy in range(5)
            for dx in range(5)
            if torch.equal(after, padded[i, :, dy : dy + 16, dx : dx + 16])
        ]
        assert len(places) == 1
    assert not torch.equal(seen, x)


def test_a_resized_crop_stretches_a_part_of_the_image():
    """On an image whose value is its column, the slope of the result is the share of the width that is seen."""
    width = torch.arange(64.0).expand(200, 1, 64, 64).contiguous()
    both = torch.cat([width, width.transpose(2, 3)], 1)
    seen = augment(both, ("resized-crop",), torch.Generator().manual_seed(0))
    inner = seen[:, :, 4:-4, 4:-4]
    across = inner[:, 0].diff(dim=2).mean((1, 2))
    down = inner[:, 1].diff(dim=1).mean((1, 2))
    torch.testing.assert_close(inner[:, 0].diff(dim=2), across[:, None, None].expand(-1, 56, 55), atol=1e-3, rtol=0)
    area, ratio = across * down, across / down
    assert area.min() > 0.079
    assert area.max() <= 1.001
    assert area.mean() == pytest.approx(0.54, abs=0.06)
    assert ratio.min() > 0.74
    assert ratio.max() < 1.34
    assert seen.min() >= 0
    assert seen.max() <= 63.01


def test_mixed_precision_learns_and_keeps_float32_weights():
    task = load("digits").limited(300)
    x, y = task.train.read(slice(None)), task.train.labels
    trained = [
        fit(build(ModelSpec.of("cnn-small"), task, 0), x, y, Recipe(epochs=6, precision=p), 0)
        for p in ("full", "mixed", "mixed")
    ]
    full, mixed, again = (model.state_dict() for model in trained)
    assert {v.dtype for v in mixed.values()} == {v.dtype for v in full.values()}
    assert all(torch.equal(mixed[k], again[k]) for k in mixed)
    assert any(not torch.equal(mixed[k], full[k]) for k in mixed)
    scores = [accuracy(predict(model, x), y) for model in trained[:2]]
    assert scores[1] == pytest.approx(scores[0], abs=0.05)
    assert scores[1] > 0.9
