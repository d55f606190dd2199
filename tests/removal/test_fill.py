import numpy as np
import pytest
import scipy.ndimage
import torch

from uproar import fill, removed
from uproar.errors import BadInput, BadOption, BadShape, NotApplicable, UnknownName
from uproar.metrics.curves import folded_gaussian
from uproar.removal import FillContext, filled
from uproar.removal.fill import fills
from uproar.seeds import Draws
from uproar.types import Images


@pytest.fixture
def x():
    return torch.rand(5, 3, 9, 7, generator=torch.Generator().manual_seed(1))


def changed(x, gone, name, seed=0, index=None) -> Images:
    """The images with all a fill may ask for."""
    train = torch.rand(20, *x.shape[1:], generator=torch.Generator().manual_seed(2))
    around = FillContext(Draws.of(seed, len(x) if index is None else index), torch.tensor([0.1, 0.2, 0.3]), train)
    return filled(x, gone, name, around)


@pytest.mark.parametrize("name", list(fills))
def test_kept_pixels_stay_bit_for_bit_and_removed_ones_do_not_tell_what_they_were(name, x):
    gone = removed(torch.rand(5, 9, 7), 0.4)
    before = x.clone()
    images = changed(x, gone, name)
    assert torch.equal(x, before)
    kept = (~gone)[:, None].expand_as(x)
    assert torch.equal(images[kept], x[kept])
    assert torch.isfinite(images).all()
    if name not in ("blur", "blur:rise", "channel_mean"):  # made of the whole image, hole included
        other = torch.where(gone[:, None], torch.rand_like(x), x)
        assert torch.equal(images, changed(other, gone, name))


@pytest.mark.parametrize("name", list(fills))
def test_a_fill_does_not_depend_on_the_batch(name, x):
    gone = removed(torch.rand(5, 9, 7), 0.4)
    whole = changed(x, gone, name, seed=3)
    part = changed(x[2:4], gone[2:4], name, seed=3, index=[2, 3])
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


def test_uniform_noise_of_normalised_images_goes_from_the_mean_one_deviation_up():
    """U(0, 1) after (x − mean) / std, as the coherency paper's code draws it: never darker than the mean colour."""
    x, colour, std = torch.zeros(40, 3, 20, 20), torch.tensor([0.485, 0.456, 0.406]), (0.229, 0.224, 0.225)
    gone = torch.ones(40, 20, 20, dtype=torch.bool)
    noise = fill(x, gone, "uniform:normalised", value=colour)
    normalised = (noise - colour.view(1, 3, 1, 1)) / torch.tensor(std).view(1, 3, 1, 1)
    torch.testing.assert_close(normalised, fill(x, gone, "uniform"), atol=1e-5, rtol=0)
    with pytest.raises(BadOption, match="needs std= with 1 number"):
        fill(x[:, :1], gone, "uniform:normalised", value=colour[:1])


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
    with pytest.raises(BadShape, match="2 numbers, but the images have 3 channels"):
        fill(x, torch.zeros(5, 9, 7, dtype=torch.bool), "mean", value=[0.1, 0.2])


def test_linear_equals_the_released_imputer_and_adds_the_noise_it_says(golden):
    g = golden("road_linear_imputer")
    x = g["img32_random"][None]
    gone = g["mask32_rand50"][None] == 0
    exact = fill(x, gone, "linear(noise=0)")
    torch.testing.assert_close(exact[0], g["out32_random_rand50"], atol=1e-5, rtol=0)
    noise = (fill(x, gone, "linear(noise=0.05)") - exact)[gone[:, None].expand_as(x)]
    assert float(noise.std()) == pytest.approx(0.05, rel=0.1)
    assert abs(float(noise.mean())) < 0.01
    assert not torch.equal(fill(x, gone, "linear", seed=1), fill(x, gone, "linear", seed=2))


def test_linear_fills_each_channel_by_itself_where_the_mask_does(x):
    gone = torch.rand(5, 3, 9, 7, generator=torch.Generator().manual_seed(3)) < 0.4
    images = changed(x, gone, "linear(noise=0)")
    for c in range(3):
        alone = changed(x, gone[:, c], "linear(noise=0)")
        torch.testing.assert_close(images[:, c], alone[:, c])


def test_a_wholly_removed_image_becomes_the_mean_colour_and_without_one_is_refused(x):
    gone = torch.zeros(5, 9, 7, dtype=torch.bool)
    gone[2] = True
    images = changed(x, gone, "linear(noise=0)")
    assert torch.equal(images[2], torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1).expand(3, 9, 7))
    assert torch.equal(images[[0, 1, 3, 4]], x[[0, 1, 3, 4]])
    with pytest.raises(NotApplicable, match="mean colour"):
        fill(x, gone, "linear")


def test_resample_takes_each_pixel_from_the_same_place_of_some_training_image():
    train = torch.rand(10, 2, 3, 4)
    x, gone = torch.zeros(200, 2, 3, 4), torch.ones(200, 3, 4, dtype=torch.bool)
    images = filled(x, gone, "resample", FillContext(Draws.of(0, 200), train=train))
    same = (images[:, None] == train[None]).all(2)  # pixel by pixel, all channels together
    assert (same.sum(1) == 1).all()
    assert torch.allclose(same.float().mean((0, 2, 3)), torch.tensor(0.1), atol=0.03)
    assert same[0].flatten(1).any(1).sum() > 3  # an image is mixed of many
    with pytest.raises(NotApplicable, match="train="):
        filled(x, gone, "resample", FillContext(Draws.of(0, 200)))
    with pytest.raises(BadShape, match=r"\(2, 3, 4\)"):
        filled(x, gone, "resample", FillContext(Draws.of(0, 200), train=train[:, :1]))


def test_the_folded_kernel_equals_that_of_the_rise_code(golden):
    kernel = folded_gaussian(11, 5.0)
    square = kernel[:, None] * kernel[None]
    torch.testing.assert_close(square.float(), golden("rise")["gkern_11_5"], atol=1e-7, rtol=0)


def test_fill_options_are_checked(x):
    gone = torch.zeros(5, 9, 7, dtype=torch.bool)
    with pytest.raises(BadOption, match="noise"):
        fill(x, gone, "linear(noise=-1)")
    with pytest.raises(BadInput, match="takes options"):
        fill(x, gone, "blur(mean)")


def test_the_mean_of_some_training_images_is_that_of_a_sample_drawn_once():
    from uproar.removal.fill import sample_colour
    from uproar.seeds import generator

    torch.manual_seed(0)
    train, x = torch.rand(300, 3, 4, 4), torch.rand(2, 3, 4, 4)
    gone = torch.ones(2, 4, 4, dtype=torch.bool)
    seen = fill(x, gone, "mean(images=150)", train=train)
    rows = torch.randperm(300, generator=generator("mean of images"))[:150]
    expected = train[rows].mean((0, 2, 3))
    torch.testing.assert_close(seen[:, :, 1, 2], expected.expand(2, 3))
    torch.testing.assert_close(sample_colour(train.__getitem__, 300, 999), train.mean((0, 2, 3)))
    with pytest.raises(NotApplicable, match="give them as train="):
        fill(x, gone, "mean(images=5)", value=torch.rand(3))
