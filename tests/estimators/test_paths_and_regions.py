"""Guided IG, blur IG, FullGrad and XRAI."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from uproar.estimators import Context
from uproar.estimators.cam import bias_gradients, fullgrad
from uproar.estimators.gradient import _ranked, blur_ig, blurred, felzenszwalb, guided_ig, ig, xrai
from uproar.models.small import resnet_small
from uproar.seeds import Draws


def context(n):
    return Context(Draws.of(0, n))


@pytest.mark.parametrize("name", ["guided_ig", "blur_ig"])
def test_path_methods_are_those_of_saliency(golden, tiny32, name):
    data = golden("path_methods")
    x, y = data["images"], data["labels"].long()
    model = tiny32.requires_grad_(False)
    maps = (
        guided_ig(model, x, y, context(3), steps=20)
        if name == "guided_ig"
        else blur_ig(model, x, y, steps=100, sigma=4.0)
    )
    assert (maps - data[name]).abs().max() <= 0.02 * data[name].abs().max()
    pairs = zip(maps.flatten(1), data[name].flatten(1), strict=True)
    assert all(torch.corrcoef(torch.stack(pair))[0, 1] > 0.9999 for pair in pairs)


def test_guided_ig_without_freedom_is_integrated_gradients(golden, tiny32):
    data = golden("path_methods")
    x, y = data["images"], data["labels"].long()
    model = tiny32.requires_grad_(False)
    straight = ig(model, x, y, context(3), steps=20, rule="left")
    torch.testing.assert_close(
        guided_ig(model, x, y, context(3), steps=20, distance=0.0), straight, rtol=1e-3, atol=1e-6
    )


def test_blur_ig_sums_to_the_difference_from_the_blurred_image(golden, tiny32):
    data = golden("path_methods")
    x, y = data["images"], data["labels"].long()
    model = tiny32.requires_grad_(False)
    scores = [model(each).gather(1, y[:, None])[:, 0] for each in (x, blurred(x, 4.0))]
    sums = blur_ig(model, x, y, steps=100, sigma=4.0).sum((1, 2, 3))
    torch.testing.assert_close(sums, scores[0] - scores[1], rtol=0.02, atol=0.02)


@pytest.mark.parametrize("make", ["tiny", "resnet"])
def test_gradients_of_pixels_and_biases_sum_to_the_score(make, tiny32):
    """Exact for convolutions, batch norms, ReLUs, pooling and linear layers, whose biases are all counted."""
    torch.manual_seed(0)
    x, y = torch.rand(3, 3, 16, 16), torch.tensor([0, 1, 2])
    model = tiny32 if make == "tiny" else resnet_small((3, 16, 16), 4, torch.zeros(3), torch.ones(3), width=4)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.bias.data.normal_()
    model.eval().requires_grad_(False)
    pixels, parts = bias_gradients(model, x, y)
    total = pixels.flatten(1).sum(1) + sum(part.flatten(1).sum(1) for part in parts)
    torch.testing.assert_close(total, model(x).gather(1, y[:, None])[:, 0], rtol=1e-4, atol=1e-4)
    plain = fullgrad(model, x, y, scale="none")
    assert (plain >= pixels.abs().sum(1, keepdim=True) - 1e-6).all()


def test_regions_are_areas_of_one_colour():
    image = np.zeros((12, 12, 3))
    image[:, 6:] = 200.0
    image[2:4, 2:4] = 90.0
    labels = felzenszwalb(image, 50.0, 2)
    assert len(np.unique(labels)) == 3
    assert len(np.unique(labels[2:4, 2:4])) == len(np.unique(labels[:, 6:])) == 1
    assert len(np.unique(felzenszwalb(image, 50.0, 8))) == 2  # the small one joins its surroundings


def test_regions_are_those_of_scikit_image(golden):
    """Felzenszwalb's regions without smoothing, for the scales and smallest sizes that the file was made with."""
    data = golden("path_methods")
    image = 255 * data.numpy("xrai_image")
    for theirs, (scale, least) in zip(data.numpy("xrai_regions"), ((25, 2), (50, 2), (125, 5), (250, 8)), strict=True):
        ours = felzenszwalb(image, scale, least)
        pairs = set(zip(ours.ravel().tolist(), theirs.ravel().tolist(), strict=True))
        assert len(pairs) == len(np.unique(ours)) == len(np.unique(theirs))


def test_regions_are_ranked_as_by_saliency(golden):
    data = golden("path_methods")
    masks = [labels == number for labels in data.numpy("xrai_regions") for number in np.unique(labels)]
    np.testing.assert_allclose(_ranked(masks, data.numpy("xrai_attribution")), data.numpy("xrai"), rtol=1e-9)


def test_regions_are_taken_by_the_mean_of_what_is_still_free():
    values = np.array([[4.0, 0.0], [1.0, 1.0]])
    left, top, all_ = np.array([[1, 0], [1, 0]]), np.array([[1, 1], [0, 0]]), np.ones((2, 2))
    result = _ranked([each.astype(bool) for each in (left, top, all_)], values)
    # left has 2.5, all has 1.5; then top has 0 left and all 0.5
    np.testing.assert_allclose(result, [[2.5, 0.5], [2.5, 0.5]])


class Sums(nn.Module):
    def forward(self, x):
        return torch.stack([x[:, :, :4].sum((1, 2, 3)), x[:, :, 4:].sum((1, 2, 3))], 1)


def test_xrai_finds_the_half_that_a_class_is_the_sum_of():
    """The bright half, which both baselines together count as above grey."""
    x = torch.rand(2, 3, 8, 8) * 0.01 + torch.tensor([0.2, 0.8]).repeat_interleave(4)[:, None]
    x[0] = x[0].flip(1)
    top, bottom = xrai(Sums(), x, torch.tensor([0, 1]), context(2), steps=4)[:, 0]
    assert top[:4].min() > top[4:].max()
    assert bottom[4:].min() > bottom[:4].max()
