"""SISE: layers, masks from feature maps, Otsu's threshold, fusion."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.estimators.perturbing import Linear, around, frozen, images
from uproar.errors import NotApplicable
from uproar.estimators.layers import pyramid
from uproar.estimators.perturbation import (
    ada_sise,
    feature_masks,
    features_and_significance,
    fuse_layers,
    layer_map,
    otsu,
    rescale_to_unit,
    sise,
)
from uproar.models.small import resnet_small

# golden agreement: 1e-12 (double precision, no model)


def test_soft_fusion_is_that_of_the_public_code(golden):
    data = golden("sise_fusion")
    maps = data["maps"]
    together = fuse_layers([each[None] for each in maps], "soft")[0]
    torch.testing.assert_close(together, data["fused"], atol=1e-12, rtol=0)


# Otsu's threshold


def slow_otsu(values: list[float]) -> float:
    """The edge of 256 bins with the largest variance between what is below and above it, value by value."""
    low, high = min(values), max(values)
    number = [min(255, int((v - low) / (high - low) * 256)) + 0.5 for v in values]
    best, where = -1.0, 0
    for edge in range(1, 256):
        below = [v for v in number if v < edge]
        above = [v for v in number if v > edge]
        if below and above:
            apart = sum(below) / len(below) - sum(above) / len(above)
            between = len(below) * len(above) * apart**2
            if between > best * (1 + 1e-12):
                best, where = between, edge
    return low + (high - low) * where / 256


def test_otsu_is_the_best_split_of_each_row():
    source = torch.Generator().manual_seed(0)
    values = torch.randn(3, 80, generator=source).double()
    values[1, 30:] += 6
    expected = torch.tensor([slow_otsu(row.tolist()) for row in values], dtype=torch.float64)
    torch.testing.assert_close(otsu(values), expected, atol=1e-12, rtol=0)
    assert 2 < otsu(values)[1] < 5  # between two clouds around 0 and 6


def test_otsu_looks_only_at_the_values_asked_for():
    values = torch.tensor([[0.1, 0.2, 0.9, 1.0, -50.0, 70.0]]).double()
    among = torch.tensor([[True, True, True, True, False, False]])
    assert torch.equal(otsu(values, among), otsu(values[:, :4]))


def test_otsu_of_equal_values_is_that_value_and_of_none_zero():
    values = torch.full((2, 5), 3.0).double()
    among = torch.tensor([[True] * 5, [False] * 5])
    assert otsu(values, among).tolist() == [3.0, 0.0]


# layers, masks, maps


def test_the_layers_are_the_last_of_each_resolution(tiny32):
    x = images(2, 3, 32, 32)
    assert [layer.name for layer in pyramid(frozen(tiny32), x, 99)] == ["relu1", "relu2"]
    net = frozen(resnet_small((3, 16, 16), 4, torch.zeros(3), torch.ones(3)))
    sizes = [layer.shape[1:] for layer in pyramid(net, images(2, 3, 16, 16), 99)]
    assert sizes == [(16, 16), (8, 8), (4, 4)]


def test_significance_is_the_mean_gradient_of_the_layer(golden, tiny32):
    data = golden("captum_estimators")
    x, target = data["images_norm"], data["labels"]
    layers = pyramid(frozen(tiny32), x[:2], 99)
    features, significance = features_and_significance(tiny32, x, target, layers)[1]
    cam = (significance[:, :, None, None] * features).sum(1, keepdim=True)
    theirs = data["layergradcam_relu2_raw_norelu"].double()
    torch.testing.assert_close(cam, theirs, atol=1e-5, rtol=0)


def test_masks_are_stretched_to_the_unit_range_and_a_flat_one_is_nothing():
    features = torch.stack([torch.arange(4.0).view(2, 2), torch.full((2, 2), 7.0)])
    made = feature_masks(features, (6, 5))
    assert made.shape == (2, 6, 5)
    assert made[0].min() == 0
    assert 1 - made[0].max() < 1e-6
    assert (made[1] == 0).all()


def test_a_layers_map_weighs_each_chosen_mask_by_probability_over_area():
    x, target = images(3, 1, 6, 6), torch.tensor([0, 1, 2])
    model, blank = Linear(1, 6, 6), torch.full((3, 1, 6, 6), 0.2)
    features = images(3, 4, 3, 3, seed=5)
    chosen = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0]]).bool()
    made = layer_map(model, x, target, blank, features, chosen)
    for i in range(3):
        expected = torch.zeros(6, 6).double()
        for k in chosen[i].nonzero()[:, 0].tolist():
            mask = feature_masks(features[i, k][None], (6, 6))[0]
            seen = 0.2 + mask.float() * (x[i] - 0.2)
            p = model(seen[None]).softmax(1)[0, target[i]]
            expected += p * mask / mask.sum()
        torch.testing.assert_close(made[i], expected, atol=1e-6, rtol=0)


def test_hard_fusion_keeps_only_what_is_salient_in_the_coarser_map():
    fine, coarse = images(2, 8, 8), images(2, 8, 8, seed=1)
    coarse[:, 2:5, 2:5] += 3
    fine, coarse = rescale_to_unit(fine.double()), rescale_to_unit(coarse.double())
    region = torch.zeros(8, 8, dtype=torch.bool)
    region[2:5, 2:5] = True
    together = fuse_layers([fine, coarse], "otsu")
    assert torch.equal(together[:, region], (fine + coarse)[:, region])
    assert (together[:, ~region] == 0).all()


def test_a_layer_that_says_nothing_is_left_out_for_that_image_alone():
    fine, coarse = rescale_to_unit(images(2, 8, 8).double()), rescale_to_unit(images(2, 8, 8, seed=1).double())
    coarse[0] = 0
    together = fuse_layers([fine, coarse], "otsu")
    assert torch.equal(together[0], fine[0])
    assert not torch.equal(together[1], fine[1])


@pytest.mark.parametrize("method", [sise, ada_sise])
@pytest.mark.parametrize("fusion", ["otsu", "soft"])
def test_the_object_of_the_golden_images_stands_out(golden, tiny32, method, fusion):
    data = golden("coherency")
    x, inside = data["images_norm"], data["gt_mask"] > 0
    maps = method(frozen(tiny32), x, data["labels"], around(x, 0.0), fusion=fusion)[:, 0]
    for one, mask in zip(maps, inside, strict=True):
        assert one[mask].mean() > 3 * one[~mask].mean()


def test_ada_sise_asks_the_model_fewer_times(tiny32):
    frozen(tiny32)
    rows: list[int] = []
    tiny32.register_forward_hook(lambda _module, inputs, _output: rows.append(len(inputs[0])))
    x, target = images(4, 3, 32, 32), torch.arange(4)
    sise(tiny32, x, target, around(x))
    all_, rows[:] = sum(rows), []
    ada_sise(tiny32, x, target, around(x))
    assert 0 < sum(rows) < all_


def test_a_model_without_convolutions_has_no_sise():
    x = images(2, 1, 8, 8)
    with pytest.raises(NotApplicable, match="convolution"):
        sise(Linear(1, 8, 8), x, torch.tensor([0, 1]), around(x))


def test_a_model_with_features_of_one_pixel_has_no_sise():
    net = nn.Sequential(nn.Conv2d(1, 4, 8), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2))
    x = images(2, 1, 8, 8)
    with pytest.raises(NotApplicable, match="single pixel"):
        sise(frozen(net), x, torch.tensor([0, 1]), around(x))
