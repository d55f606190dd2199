"""The attention branch agrees with recorded outputs and losses, learns planted glyphs, and is the same for a seed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from uproar.data.planted import planted
from uproar.data.task import Task
from uproar.errors import BadInput, NotApplicable, UnknownName
from uproar.estimators import raw_maps, read_chain
from uproar.estimators.bottleneck import Branch, losses, prepare_tame, select_class
from uproar.estimators.explain import prepare_states
from uproar.estimators.registry import Context, estimators
from uproar.models.small import cnn_small
from uproar.seeds import Draws
from uproar.training.fit import fit
from uproar.training.recipe import Recipe

N = 40


@pytest.fixture(scope="module")
def task() -> Task:
    return planted(size=12, train=384, test=N, noise=0.2)


@pytest.fixture(scope="module")
def model(task) -> nn.Module:
    torch.manual_seed(0)
    made = cnn_small(task.shape, 4, task.mean, task.std)
    return fit(made, task.train.images, task.train.labels, Recipe(epochs=12), 0)


def context_of(task: Task, seed: int = 0) -> Context:
    return Context(Draws.of(seed, N), train=task.train)


def options(**given) -> dict:
    return estimators["tame"].bind(**given)


def test_the_recorded_branch_is_repeated(golden) -> None:
    """Tolerance 1e-5, on values of order 1."""
    run = golden("tame")
    branch = Branch([4, 6], 8).eval()
    branch.load_state_dict({name: run["w_" + name.replace(".", "_")] for name in branch.state_dict()})
    with torch.no_grad():
        result = branch([run["feat0"], run["feat1"]])
    torch.testing.assert_close(result, run["c_first8"], atol=1e-5, rtol=0)
    torch.testing.assert_close(result.sigmoid(), run["a_first8"], atol=1e-5, rtol=0)


def test_the_recorded_losses_are_repeated(golden) -> None:
    """Tolerance 1e-5, on a total of 4.9."""
    run = golden("tame")
    ce, area, variation = losses(run["loss_logits"], run["loss_labels"], run["loss_masks"])
    result = torch.stack([1.5 * ce + 2 * area + 0.01 * variation, 1.5 * ce, 2 * area, 0.01 * variation])
    torch.testing.assert_close(result.double(), run["loss_total_ce_area_var"], atol=1e-5, rtol=0)


def test_each_image_gets_the_map_of_its_own_class() -> None:
    maps = torch.arange(3 * 4).view(3, 4, 1, 1).expand(3, 4, 2, 2).float()
    result = select_class(maps, torch.tensor([2, 0, 3]))
    assert result.shape == (3, 1, 2, 2)
    assert result[:, 0, 0, 0].tolist() == [2, 4, 11]


def test_a_finer_layer_than_56_is_brought_down_to_it() -> None:
    branch = Branch([2], 3).eval()
    assert branch([torch.rand(1, 2, 60, 70)]).shape == (1, 3, 56, 56)


def maps_of(model: nn.Module, task: Task, text: str = "tame", batch: int = 64, rows=None):
    rows = list(range(N)) if rows is None else rows
    context, chain = context_of(task), read_chain(text)
    context = replace(context, states=prepare_states(model, context, [chain]))[rows]
    x, y = task.test.images[rows], task.test.labels[rows]
    return raw_maps(model, x, y, context, [chain.raw], batch)[chain.raw]


def test_attention_falls_on_the_glyphs(model, task) -> None:
    """Chance is 0.5; the map has a resolution of 6×6, so it cannot be 1.

    The class that the model gives to a black image is left out: it needs no pixels, so its masks are empty.
    """
    with torch.no_grad():
        of_black = int(model(torch.zeros(2, *task.shape))[0].argmax())
    maps, truth = maps_of(model, task)[:, 0], task.test.masks
    rows = (task.test.labels != of_black).nonzero()[:, 0].tolist()
    result = [(maps[i][truth[i]][:, None] > maps[i][~truth[i]]).double().mean() for i in rows]
    assert torch.stack(result).mean() > 0.8


def test_training_lowers_the_loss_of_the_masked_images(model, task) -> None:
    def loss(state) -> float:
        places = state.pop("places").tolist()
        branch = Branch([len(state[f"convs.{i}.weight"]) for i in range(len(places))], 4).eval()
        branch.load_state_dict(state)
        x = task.test.images
        modules, kept = list(model.modules()), {}
        handles = [modules[p].register_forward_hook(lambda m, i, o, p=p: kept.update({p: o})) for p in places]
        with torch.no_grad():
            labels = model(x).argmax(1)
            for handle in handles:
                handle.remove()
            masks = branch([kept[p] for p in places])[torch.arange(N), labels][:, None].sigmoid()
            fine = F.interpolate(masks, x.shape[2:], mode="bilinear")
            ce, area, variation = losses(model(x * fine), labels, masks)
        return float(1.5 * ce + 2 * area + 0.01 * variation)

    short = prepare_tame(model, context_of(task), **options(epochs=1, lr=1e-9))
    long = prepare_tame(model, context_of(task), **options(epochs=4))
    assert loss(long) < 0.7 * loss(short)


def test_the_branch_depends_on_the_seed_and_on_nothing_else(model, task) -> None:
    given = options(epochs=1, images=64)
    first = prepare_tame(model, context_of(task), **given)
    torch.rand(7)
    again = prepare_tame(model, context_of(task), **given)
    other = prepare_tame(model, context_of(task, seed=1), **given)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["fuser.weight"], other["fuser.weight"])


def test_layers_can_be_named_in_any_order_and_are_used_finest_first(model, task) -> None:
    context = context_of(task)
    state = prepare_tame(model, context, **options(layers=("2", 1), epochs=1, images=32))
    names = [name for name, _ in model.named_modules()]
    assert [names[i] for i in state["places"].tolist()] == ["1", "2"]
    assert state["convs.0.weight"].shape == (16, 16, 1, 1)
    assert state["fuser.weight"].shape == (4, 48, 1, 1)
    with pytest.raises(UnknownName, match="'7'"):
        prepare_tame(model, context, **options(layers=("7",)))


def test_a_training_set_smaller_than_a_batch_is_one_batch(model, task) -> None:
    few = replace(context_of(task), train=task.train.take(slice(0, 5)))
    state = prepare_tame(model, few, **options(epochs=2))
    assert int(state["bns.0.num_batches_tracked"]) == 2


def test_what_cannot_be_explained_is_refused(model, task) -> None:
    dense = nn.Sequential(nn.Flatten(), nn.Linear(144, 4))
    with pytest.raises(NotApplicable, match="convolution"):
        prepare_tame(dense, context_of(task), **options())
    with pytest.raises(NotApplicable, match="tame needs training images; give train="):
        prepare_tame(model, Context(Draws.of(0, 2)), **options())
    state = prepare_tame(model, context_of(task), **options(epochs=1, images=32))
    entry = estimators["tame"]
    with pytest.raises(BadInput, match="99"):
        entry.function(model, task.test.images[:2], torch.full((2,), 99), state)
