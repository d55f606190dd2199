"""Fine-tuned copies: the model stays as it is, what is removed is what the papers remove, the seed decides all."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from uproar.errors import BadInput
from uproar.seeds import generator
from uproar.training import FineTuning, Recipe, fine_tuned
from uproar.training.finetune import RandomCell, RandomValues, grid_cells

RECIPE = Recipe(epochs=2, batch=4, lr=0.2, momentum=0, weight_decay=0, schedule="constant", warmup=0)
COLOUR = torch.tensor([0.25, 0.5]).view(1, 2, 1, 1)


@pytest.fixture
def case():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(32, 3)), torch.rand(12, 2, 4, 4), torch.arange(12) % 3


def test_values_are_removed_one_by_one_and_cells_in_half_of_the_images():
    x = torch.ones(4000, 2, 8, 8)
    values = RandomValues(0.1)(x, generator(0, "test"), COLOUR)
    gone = values != 1
    assert gone.float().mean() == pytest.approx(0.1, abs=0.003)
    assert (gone[:, 0] & gone[:, 1]).float().mean() == pytest.approx(0.01, abs=0.002)  # channels are independent
    assert torch.equal(values[:, 0][gone[:, 0]].unique(), torch.tensor([0.25]))
    cells = RandomCell(4)(x, generator(0, "test"), COLOUR) != 1
    assert set(cells[:, 0].flatten(1).sum(1).tolist()) == {0, 4}  # nothing, or one cell of 2×2 pixels
    assert torch.equal(cells[:, 0], cells[:, 1])
    assert cells[:, 0].flatten(1).any(1).float().mean() == pytest.approx(0.5, abs=0.03)
    often = torch.stack([cells[:, 0, 2 * i, 2 * j].float().mean() for i in range(4) for j in range(4)])
    assert often.min() > 0.02 and often.max() < 0.045  # each of 16 cells in 1/32 of the images


def test_cells_cover_images_that_the_grid_does_not_divide():
    cells = grid_cells(7, 6, 4)
    assert cells.unique().tolist() == list(range(16))
    assert grid_cells(8, 8, 4)[2:4, 6:8].unique().tolist() == [7]


def test_a_fine_tuned_copy_is_what_plain_steps_on_changed_images_give(case):
    """A slow second version, with the removal drawn here."""
    model, x, y = case
    before = copy.deepcopy(model.state_dict())
    mean = torch.tensor([0.25, 0.5])
    made = fine_tuned(model, x, y, mean, FineTuning(RandomValues(0.3), RECIPE), seed=5)
    order, changing = generator(5, "batches"), generator(5, "changed batches")
    weight, bias = before["1.weight"].clone(), before["1.bias"].clone()
    for _ in range(2):
        rows = torch.randperm(12, generator=order)
        for i in range(0, 12, 4):
            part = rows[i : i + 4]
            removed = torch.rand(4, 2, 4, 4, generator=changing) < 0.3
            seen = x[part].clone()
            seen[removed] = mean.view(1, 2, 1, 1).expand_as(seen)[removed]
            w, b = weight.clone().requires_grad_(), bias.clone().requires_grad_()
            F.cross_entropy(seen.flatten(1) @ w.T + b, y[part]).backward()
            weight, bias = weight - 0.2 * w.grad, bias - 0.2 * b.grad
    torch.testing.assert_close(made[1].weight.detach(), weight)
    torch.testing.assert_close(made[1].bias.detach(), bias)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())


def test_a_frozen_model_in_any_mode_is_fine_tuned_and_stays_as_it_is(case):
    model, x, y = case
    model.requires_grad_(False).train()
    made = [fine_tuned(model, x, y, torch.zeros(2), FineTuning(RandomCell(2), RECIPE), s) for s in (0, 0, 1)]
    assert model.training and not any(w.requires_grad for w in model.parameters())
    assert torch.equal(made[0][1].weight, made[1][1].weight)
    assert not torch.equal(made[0][1].weight, made[2][1].weight)
    assert not made[0].training


def test_what_cannot_be_fine_tuned_is_refused_in_a_sentence(case):
    model, x, y = case
    with pytest.raises(BadInput, match="no weights, so it cannot be fine-tuned"):
        fine_tuned(nn.Flatten(), x, y, torch.zeros(2), FineTuning(RandomValues(), RECIPE), 0)
    model[1].note = (i for i in ())
    with pytest.raises(BadInput, match="cannot be copied, so it cannot be fine-tuned"):
        fine_tuned(model, x, y, torch.zeros(2), FineTuning(RandomValues(), RECIPE), 0)
    del model[1].note
    wild = RECIPE.model_copy(update={"lr": 1e30})
    with pytest.raises(BadInput, match="diverged: weights are NaN or infinite; give a smaller lr than 1e"):
        fine_tuned(model, 1e30 * x, y, torch.zeros(2), FineTuning(RandomValues(), wild), 0)
