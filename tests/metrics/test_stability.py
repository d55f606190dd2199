"""Infidelity and sensitivity."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.metrics.looking import batch_of, gradient, part, run, value
from uproar.errors import NotApplicable
from uproar.metrics import sanity as stability


class Linear(nn.Module):
    """Scores that are linear in the pixels, so that the weights are a perfect map."""

    def __init__(self, shape, classes=3):
        super().__init__()
        draw = torch.randn(classes, *shape, generator=torch.Generator().manual_seed(5))
        self.weight = nn.Parameter(draw)

    def forward(self, x):
        return torch.einsum("nchw,kchw->nk", x, self.weight)


@pytest.fixture
def linear():
    model = Linear((2, 8, 9))
    x = torch.rand(6, 2, 8, 9, generator=torch.Generator().manual_seed(6))
    target = torch.arange(6) % 3
    mean = torch.tensor([0.4, 0.6])
    return model, x, target, mean


def slopes(model, target):
    return model.weight.detach()[target].sum(1)


def contributions(model, x, target, mean):
    return (model.weight.detach()[target] * (x - mean.view(1, 2, 1, 1))).sum(1)


def test_the_slopes_of_a_linear_model_predict_noise_and_its_contributions_predict_squares(linear):
    model, x, target, mean = linear
    for perturb, maps in [("noise", slopes(model, target)), ("squares", contributions(model, x, target, mean))]:
        batch = batch_of(maps, model=model, x=x, target=target, mean=mean)
        assert value("infidelity", batch, perturb=perturb).max() < 1e-6
        assert value("infidelity:raw", batch, perturb=perturb).max() < 1e-6
        flipped = batch_of(-maps, model=model, x=x, target=target, mean=mean)
        assert (value("infidelity", flipped, perturb=perturb) == 1).all()
        swapped = batch_of(maps.flip(2), model=model, x=x, target=target, mean=mean)
        assert value("infidelity", swapped, perturb=perturb).min() > 0.2


def test_infidelity_agrees_with_a_loop_over_its_definition(linear):
    model, x, target, mean = linear
    maps = torch.rand(6, 8, 9, generator=torch.Generator().manual_seed(7)) - 0.3
    batch = batch_of(maps, model=model, x=x, target=target, mean=mean)
    changes = stability.perturbations((2, 8, 9), samples=7)
    scaled, raw = (value(n, batch, samples=7) for n in ("infidelity", "infidelity:raw"))
    for i in range(6):
        said, fell = [], []
        for change in changes:
            image, hole = change.images(batch)[i], change.shift(batch)[i].bool()
            assert hole.sum() == 4  # a quarter of the shorter side, 2×2
            assert torch.equal(image[:, hole], mean[:, None].expand(2, 4))
            assert torch.equal(image[:, ~hole], x[i][:, ~hole])
            said.append(float(maps[i][hole].sum()))
            with torch.no_grad():
                fell.append(float(model(x[[i]])[0, target[i]] - model(image[None])[0, target[i]]))
        said, fell = np.array(said), np.array(fell)
        beta = max(0, (said * fell).mean() / (said**2).mean())
        assert raw[i].item() == pytest.approx(((said - fell) ** 2).mean(), rel=1e-4)
        best = ((beta * said - fell) ** 2).mean() / (fell**2).mean()
        assert scaled[i].item() == pytest.approx(best, abs=1e-5)


def test_the_default_does_not_depend_on_the_maps_scale_and_the_raw_one_does(linear):
    model, x, target, mean = linear
    maps = torch.rand(6, 8, 9)
    one, other = (batch_of(m, model=model, x=x, target=target, mean=mean) for m in (maps, 100 * maps))
    torch.testing.assert_close(value("infidelity", one), value("infidelity", other), atol=1e-6, rtol=0)
    assert (value("infidelity:raw", other) > 50 * value("infidelity:raw", one)).all()


def test_undefined_infidelities_are_nan(linear):
    model, x, target, mean = linear
    maps = torch.rand(6, 8, 9)
    maps[1], maps[4, 2, 2] = 0, torch.nan
    batch = batch_of(maps, model=model, x=x, target=target, mean=mean)
    # the raw one is defined for a map of zeros, which predicts that nothing changes
    assert value("infidelity", batch).isnan().tolist() == [False, True, False, False, True, False]
    assert value("infidelity:raw", batch).isnan().tolist() == [False] * 4 + [True, False]
    with torch.no_grad():
        model.weight.zero_()
    blind = batch_of(maps, model=model, x=x, target=target, mean=mean)
    assert value("infidelity", blind).isnan().all()


def test_squares_take_every_place_that_fits():
    batch = batch_of(torch.zeros(400, 4, 5), x=torch.rand(400, 1, 4, 5), mean=torch.zeros(1))
    hole = stability.Square(3, 0.5, "mean").shift(batch)
    assert (hole.sum((1, 2)) == 4).all()
    corners = {(int(a.amax(1).argmax()), int(a.amax(0).argmax())) for a in hole}
    assert corners == {(r, c) for r in range(3) for c in range(4)}


def test_squares_need_the_mean_colour_only_if_they_are_filled_with_it(linear):
    model, x, target, _ = linear
    batch = batch_of(torch.rand(6, 8, 9), model=model, x=x, target=target)
    with pytest.raises(NotApplicable, match="mean colour"):
        value("infidelity", batch)
    assert value("infidelity", batch, fill="zero").isfinite().all()


def test_probabilities_are_followed_if_asked(linear):
    model, x, target, mean = linear
    batch = batch_of(torch.rand(6, 8, 9), model=model, x=x, target=target, mean=mean)
    changes = run("infidelity", batch, output="probability")["change"]
    assert (changes <= 1).all()
    assert not torch.allclose(changes, run("infidelity", batch)["change"])


def test_a_linear_models_gradient_never_moves_and_gradient_times_input_moves_by_a_known_amount(linear):
    model, x, target, _ = linear
    batch = batch_of(torch.rand(6, 8, 9), model=model, x=x, target=target, explain=gradient)
    assert value("sensitivity_max", batch).tolist() == [0] * 6

    def times_input(model, x, target, draws):
        return x.sum(1)

    batch = batch_of(torch.rand(6, 8, 9), model=model, x=x, target=target, explain=times_input)
    out = run("sensitivity_max", batch, samples=4, radius=0.1)
    moves = []
    for number in range(4):
        noise = 0.1 * (2 * batch.draws.copies([number]).uniform("sensitivity", 2, 8, 9) - 1)
        assert noise.abs().max() <= 0.1
        moves.append(noise.sum(1).flatten(1).norm(dim=1) / x.sum(1).flatten(1).norm(dim=1))
    torch.testing.assert_close(out["value"], torch.stack(moves).amax(0))
    torch.testing.assert_close(out["mean"], torch.stack(moves).mean(0))


def test_sensitivity_needs_an_estimator_and_a_map_that_is_not_zero(linear):
    model, x, target, _ = linear
    with pytest.raises(NotApplicable, match="give an estimator"):
        value("sensitivity_max", batch_of(torch.rand(6, 8, 9), model=model, x=x, target=target))

    def nothing(model, x, target, draws):
        return torch.zeros(len(x), 8, 9)

    batch = batch_of(torch.rand(6, 8, 9), model=model, x=x, target=target, explain=nothing)
    assert value("sensitivity_max", batch).isnan().all()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("infidelity", {}),
        ("infidelity", {"perturb": "noise"}),
        ("infidelity:raw", {"fill": "uniform"}),
        ("sensitivity_max", {}),
    ],
)
def test_an_image_does_not_depend_on_its_batch(name, options, tiny16):
    x = torch.rand(5, 3, 16, 16)
    batch = batch_of(
        torch.randn(5, 16, 16),
        model=tiny16,
        x=x,
        target=torch.tensor([0, 1, 2, 3, 1]),
        index=[7, 8, 2, 40, 5],
        mean=torch.zeros(3),
        explain=gradient,
    )
    together = run(name, batch, **options)
    for rows in ([3, 1], [2, 2], [4, 0, 1]):
        apart = run(name, part(batch, rows), **options)
        for key, column in apart.items():
            assert torch.equal(column, together[key][rows]), key
