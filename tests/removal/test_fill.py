import numpy as np
import pytest
import scipy.ndimage
import torch

from uproar import fill, removed
from uproar.errors import BadShape, NotApplicable, UnknownName
from uproar.removal.fill import fills


@pytest.fixture
def x():
    return torch.rand(5, 3, 9, 7, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", list(fills))
def test_kept_pixels_stay_bit_for_bit_and_removed_ones_do_not_tell_what_they_were(name, x):
    gone = removed(torch.rand(5, 9, 7), 0.4)
    before = x.clone()
    changed = fill(x, gone, name, value=[0.1, 0.2, 0.3])
    assert torch.equal(x, before)
    kept = (~gone)[:, None].expand_as(x)
    assert torch.equal(changed[kept], x[kept])
    assert torch.isfinite(changed).all()
    if name not in ("blur", "channel_mean"):  # these two are made of the whole image, hole included
        other = torch.where(gone[:, None], torch.rand_like(x), x)
        assert torch.equal(changed, fill(other, gone, name, value=[0.1, 0.2, 0.3]))


@pytest.mark.parametrize("name", list(fills))
def test_a_fill_does_not_depend_on_the_batch(name, x):
    gone = removed(torch.rand(5, 9, 7), 0.4)
    whole = fill(x, gone, name, value=[0.1, 0.2, 0.3], seed=3)
    part = fill(x[2:4], gone[2:4], name, value=[0.1, 0.2, 0.3], seed=3, index=[2, 3])
    assert torch.equal(whole[2:4], part)


def test_the_constants_are_what_their_names_say(x):
    everything = torch.ones(5, 9, 7, dtype=torch.bool)
    assert torch.equal(fill(x, everything, "zero"), torch.zeros_like(x))
    mean = fill(x, everything, "mean", value=[0.1, 0.2, 0.3])
    assert torch.equal(mean[:, 1], torch.full((5, 9, 7), 0.2))
    own = fill(x, everything, "channel_mean")
    torch.testing.assert_close(own[2, 1], x[2, 1].mean().expand(9, 7))


def test_blur_is_a_normalised_gaussian_with_a_mirrored_border():
    x = torch.rand(1, 2, 20, 17)
    ours = fill(x, torch.ones(1, 20, 17, dtype=torch.bool), "blur")
    steps = np.arange(11) - 5
    kernel = np.exp(-0.5 * (steps / 5) ** 2)
    kernel /= kernel.sum()
    slow = scipy.ndimage.convolve1d(x.numpy().astype(float), kernel, axis=2, mode="mirror")
    slow = scipy.ndimage.convolve1d(slow, kernel, axis=3, mode="mirror")
    np.testing.assert_allclose(ours.numpy(), slow, atol=1e-6)


def test_blur_equals_the_coherency_baseline(golden):
    g = golden("coherency")
    x = g["images_norm"]
    ours = fill(x, torch.ones(len(x), 32, 32, dtype=torch.bool), "blur")
    torch.testing.assert_close(ours, g["blur_11_5"], atol=1e-5, rtol=0)


def test_uniform_noise_is_uniform():
    x = torch.zeros(20, 1, 30, 30)
    noise = fill(x, torch.ones(20, 30, 30, dtype=torch.bool), "uniform")
    assert abs(float(noise.mean()) - 0.5) < 0.01
    assert abs(float(noise.var()) - 1 / 12) < 0.003


def test_shapes_and_names_that_do_not_fit_are_refused(x):
    with pytest.raises(BadShape, match=r"images are \(5, 3, 9, 7\) but `removed` is \(5, 7, 9\)"):
        fill(x, torch.zeros(5, 7, 9, dtype=torch.bool), "zero")
    with pytest.raises(UnknownName, match="mean"):
        fill(x, torch.zeros(5, 9, 7, dtype=torch.bool), "maen")
    with pytest.raises(NotApplicable, match="value="):
        fill(x, torch.zeros(5, 9, 7, dtype=torch.bool), "mean")
    with pytest.raises(BadShape, match="2 colours"):
        fill(x, torch.zeros(5, 9, 7, dtype=torch.bool), "mean", value=[0.1, 0.2])
