"""Occlusion: windows, what they cover, and what is made of the falls."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.estimators.perturbing import Linear, around, frozen, images
from uproar.errors import BadOption, NotApplicable
from uproar.estimators.perturbation import occlusion, windows

# golden agreement: 1e-5; the golden images are normalised, so that black is their mean colour


@pytest.mark.parametrize(("name", "stride"), [("raw_occlusion8", 8), ("raw_occlusion8_s4", 4)])
def test_the_last_window_of_softmax_falls_is_that_of_the_coherency_code(golden, tiny32, name, stride):
    data = golden("coherency")
    x, target = data["images_norm"], data["labels"]
    options = {"window": 8, "stride": stride, "fill": "black", "overlap": "last"}
    maps = occlusion(frozen(tiny32), x, target, around(x), **options)
    torch.testing.assert_close(maps.expand(-1, 3, -1, -1), data[name], atol=1e-5, rtol=0)


def test_falls_of_the_logit_are_those_of_captum(golden, tiny32):
    data = golden("captum_estimators")
    x, target = data["images_norm"], data["labels"]
    options = {"window": 8, "stride": 8, "fill": "black", "score": "logit"}
    maps = occlusion(frozen(tiny32), x, target, around(x), **options)
    theirs = data["occlusion8_zero_logit"]
    torch.testing.assert_close(maps.expand(-1, 3, -1, -1), theirs, atol=1e-5, rtol=0)


# known answers


@pytest.mark.parametrize(("window", "stride"), [(3, 1), (4, 2), (3, 2), (5, 5)])
def test_a_pixel_of_a_linear_model_gets_the_mean_fall_of_the_windows_on_it(window, stride):
    h, w, mean = 7, 9, 0.3
    model, x, target = Linear(2, h, w), images(2, 2, h, w), torch.tensor([2, 0])
    options = {"window": window, "stride": stride, "score": "logit"}
    maps = occlusion(model, x, target, around(x, mean), **options)
    lost = (model.weight[target] * (x - mean)).sum(1)
    starts = range(stride - window, 9, stride)
    for i in range(h):
        for j in range(w):
            falls = [
                lost[:, max(y, 0) : y + window, max(z, 0) : z + window].sum((1, 2))
                for y in starts
                for z in starts
                if y <= i < y + window and z <= j < z + window
            ]
            expected = torch.stack(falls).mean(0)
            torch.testing.assert_close(maps[:, 0, i, j], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("h", "w", "window", "stride"), [(8, 8, 2, 1), (11, 7, 4, 2), (5, 9, 3, 3)])
def test_every_pixel_is_in_equally_many_windows(h, w, window, stride):
    times = torch.zeros(h, w)
    for place in windows(h, w, window, stride):
        times[place] += 1
    assert (times == (window // stride) ** 2).all()


def test_a_sure_model_still_ranks_its_windows():
    """In single precision all these probabilities are 1, and all falls 0."""

    class Sure(nn.Module):
        def forward(self, x):
            score = 25 + x.mean((1, 2, 3)) + x[:, 0, 4, 4]
            return torch.stack([score, torch.zeros_like(score)], 1)

    x = torch.ones(2, 1, 8, 8)
    maps = occlusion(Sure(), x, torch.zeros(2, dtype=torch.long), around(x), fill="black")
    assert maps.flatten(1).argmax(1).tolist() == [4 * 8 + 4] * 2
    assert (maps > 0).all()


def test_the_fill_is_what_covers():
    x = torch.full((2, 3, 8, 8), 0.25)
    model, target = Linear(3, 8, 8), torch.tensor([0, 1])
    same = occlusion(model, x, target, around(x, 0.25), score="logit", fill="mean")
    assert same.abs().max() < 1e-5
    black = occlusion(model, x, target, around(x), score="logit", fill="black", window=2, stride=2)
    white = occlusion(model, x, target, around(x), score="logit", fill="white", window=2, stride=2)
    torch.testing.assert_close(white, -3 * black, atol=1e-5, rtol=0)


# bad input


def test_a_stride_beyond_the_window_is_refused():
    x = images(2, 1, 8, 8)
    with pytest.raises(BadOption, match="leaves gaps"):
        occlusion(Linear(1, 8, 8), x, torch.tensor([0, 1]), around(x), window=2, stride=3)


def test_a_window_larger_than_the_image_does_not_exist():
    x = images(2, 1, 8, 6)
    with pytest.raises(NotApplicable, match="7 pixels does not fit"):
        occlusion(Linear(1, 8, 6), x, torch.tensor([0, 1]), around(x), window=7)


def test_an_unknown_mean_colour_is_named_as_the_reason():
    x = images(2, 1, 8, 8)
    with pytest.raises(NotApplicable, match="mean colour"):
        occlusion(Linear(1, 8, 8), x, torch.tensor([0, 1]), around(x, None))
