"""Randomisation, infidelity and sensitivity."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

from tests.metrics.looking import batch_of, gradient, run, value
from tests.reference import maps_slow
from uproar.errors import NotApplicable
from uproar.metrics import sanity as stability
from uproar.metrics.sanity import compare
from uproar.models.copies import redrawn_copies as copies
from uproar.models.copies import weighted_layers as layers


def edges(model, x, target, draws):
    return x.sum(1)


def noise(model, x, target, draws):
    return draws.uniform("a map", *x.shape[2:])


@pytest.fixture
def batch(tiny16):
    x = torch.rand(6, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([0, 1, 2, 3, 1, 0])
    return batch_of(torch.rand(6, 16, 16), model=tiny16, x=x, target=target, explain=gradient, index=[5, 1, 8, 9, 2, 7])


def with_explain(batch, explain, model=None):
    return batch_of(batch.maps, model=model or batch.model, x=batch.x, target=batch.target, explain=explain)


def test_layers_run_from_the_output_down(tiny16, batch):
    assert layers(tiny16, batch.x) == ["fc", "conv2", "conv1"]


def test_layers_follow_the_forward_pass_and_not_the_order_of_declaration():
    class Swapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 2)
            self.attention = nn.MultiheadAttention(4, 1, batch_first=True)
            self.first = nn.Linear(3, 4)
            self.unused = nn.Linear(2, 2)

        def forward(self, x):
            z = self.first(x.flatten(2).transpose(1, 2))
            return self.last(self.attention(z, z, z)[0].mean(1))

    names = layers(Swapped(), torch.rand(2, 3, 4, 4))
    # the attention's output projection is used by its owner and never called itself
    assert names == ["last", "attention.out_proj", "attention", "first", "unused"]


def test_the_callers_model_is_untouched_and_copies_are_spoilt_as_said(tiny16, batch):
    before = copy.deepcopy(tiny16.state_dict())
    changed = []
    for cascading in (True, False):
        for spoilt in copies(tiny16, batch.x, 0, cascading=cascading):
            state = spoilt.state_dict()
            names = ("fc", "conv2", "conv1")
            changed.append([not torch.equal(state[f"{n}.weight"], before[f"{n}.weight"]) for n in names])
    assert changed == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]
    value("randomisation", batch)
    assert all(torch.equal(v, before[k]) for k, v in tiny16.state_dict().items())
    assert not any(m._forward_pre_hooks for m in tiny16.modules())


def test_new_weights_follow_the_seed_and_torchs_generator_is_left_alone(tiny16, batch):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    one, same, other = (next(iter(copies(tiny16, batch.x, s, cascading=False))) for s in (0, 0, 1))
    assert torch.equal(torch.rand(4), expected)
    assert torch.equal(one.fc.weight, same.fc.weight)
    assert not torch.equal(one.fc.weight, other.fc.weight)


def test_weights_without_a_way_to_reset_are_drawn_with_their_own_mean_and_spread(batch):
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(5 + torch.rand(3, 16, 16))

        def forward(self, x):
            return (x * self.scale).flatten(1)[:, :2]

    model = Scale()
    (spoilt,) = copies(model, batch.x, 0, cascading=True)
    assert not torch.equal(spoilt.scale, model.scale)
    assert spoilt.scale.mean().item() == pytest.approx(model.scale.mean().item(), abs=0.1)
    assert spoilt.scale.std().item() == pytest.approx(model.scale.std().item(), rel=0.2)


@pytest.mark.parametrize("order", ["cascading", "independent"])
def test_the_curve_is_the_similarity_to_each_copys_map(batch, order):
    out = run("randomisation", batch, order=order)
    assert out["curve"].shape == (6, 3)
    base = gradient(batch.model, batch.x, batch.target, batch.draws)
    for j, spoilt in enumerate(copies(batch.model, batch.x, 0, cascading=order == "cascading")):
        other = gradient(spoilt, batch.x, batch.target, batch.draws)
        for i in range(6):
            rho = spearmanr(base[i].flatten(), other[i].flatten()).statistic
            assert out["curve"][i, j].item() == pytest.approx(rho, abs=1e-6)
    torch.testing.assert_close(out["value"], out["curve"].mean(1))
    assert (out["undefined"] == 0).all()


@pytest.mark.parametrize("similarity", ["spearman", "ssim", "cosine"])
def test_a_map_that_ignores_the_model_is_found_out_and_a_gradient_is_not(batch, similarity):
    for name in ("randomisation", "random_logit"):
        for explain in (edges, noise):
            result = value(name, with_explain(batch, explain), similarity=similarity)
            torch.testing.assert_close(result, torch.ones(6))
        assert value(name, batch, similarity=similarity).mean() < 0.5


def test_random_logit_compares_with_a_class_that_is_never_the_target_and_may_be_any_other():
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 4))
    n = 300
    batch = batch_of(
        torch.rand(n, 4, 4),
        model=model,
        x=torch.rand(n, 1, 4, 4),
        target=torch.ones(n, dtype=torch.long),
        explain=gradient,
    )
    out = run("random_logit", batch, similarity="cosine")
    assert set(out["other"].tolist()) == {0, 2, 3}
    w = model[1].weight.detach()
    cosines = torch.cosine_similarity(w[1], w, dim=1)
    torch.testing.assert_close(out["value"], cosines[out["other"]])


def test_constant_maps_of_a_copy_are_left_out_and_counted(batch):
    def dead_without_its_head(model, x, target, draws):
        alive = torch.equal(model.conv1.weight, batch.model.conv1.weight)
        return x.sum(1) if alive else torch.zeros(len(x), 16, 16)

    out = run("randomisation", with_explain(batch, dead_without_its_head))
    assert out["undefined"].tolist() == [1] * 6
    torch.testing.assert_close(out["value"], torch.ones(6))

    def dead(model, x, target, draws):
        return torch.zeros(len(x), 16, 16)

    assert value("randomisation", with_explain(batch, dead)).isnan().all()
    assert value("random_logit", with_explain(batch, dead)).isnan().all()


def test_similarities_agree_with_second_opinions():
    g = torch.Generator().manual_seed(1)
    a, b = torch.randn(3, 13, 14, generator=g), torch.randn(3, 13, 14, generator=g)
    b = ((a + b) * 2).round()  # with ties
    for i in range(3):
        p, q = a[i].double().numpy(), b[i].double().numpy()
        rho = spearmanr(p.ravel(), q.ravel()).statistic
        assert compare(a, b, "spearman")[i].item() == pytest.approx(rho, abs=1e-9)
        angle = (p * q).sum() / np.sqrt((p**2).sum() * (q**2).sum())
        assert compare(a, b, "cosine")[i].item() == pytest.approx(angle, abs=1e-9)
        unit_p, unit_q = ((m - m.min()) / (m.max() - m.min()) for m in (p, q))
        assert compare(a, b, "ssim")[i].item() == pytest.approx(maps_slow.ssim(unit_p, unit_q), abs=1e-9)


def test_ssim_fits_its_window_to_small_images():
    a, b = torch.rand(2, 8, 12), torch.rand(2, 8, 12)
    unit = [[(m - m.min()) / (m.max() - m.min()) for m in maps.double().numpy()] for maps in (a, b)]
    for i in range(2):
        assert compare(a, b, "ssim")[i].item() == pytest.approx(maps_slow.ssim(unit[0][i], unit[1][i], 7), abs=1e-9)


def test_broken_maps_are_nan_alone():
    a, b = torch.rand(3, 5, 5), torch.rand(3, 5, 5)
    b[1, 0, 0] = torch.nan
    for similarity in ("spearman", "ssim", "cosine"):
        assert compare(a, b, similarity).isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("name", ["randomisation", "random_logit"])
def test_an_estimator_is_needed(name, batch):
    with pytest.raises(NotApplicable, match="give an estimator"):
        value(name, with_explain(batch, None))


def test_a_model_without_weights_cannot_be_randomised(batch):
    model = nn.Sequential(nn.AvgPool2d(8), nn.Flatten())
    with pytest.raises(NotApplicable, match="no weights"):
        value("randomisation", with_explain(batch, gradient, model))


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
