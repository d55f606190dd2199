import dataclasses

import numpy as np
import pytest
import torch

from tests.metrics.looking import batch_of
from tests.reference.probing_slow import region_order
from uproar.metrics.changes import (
    BY_VALUE,
    AtPercentile,
    Batch,
    Blended,
    ByWindow,
    Jittered,
    Regions,
    Removed,
    Thresholded,
    Unchanged,
    removed,
    scaled,
)
from uproar.removal import FillContext, filled


def some_batch(n=5, h=9, w=7, seed=0, **more) -> Batch:
    torch.manual_seed(seed)
    x, maps = torch.rand(n, 3, h, w), torch.randn(n, h, w)
    return batch_of(maps, x=x, mean=torch.tensor([0.1, 0.2, 0.3]), **more)


EVERY = [
    Unchanged(),
    Removed("most", 20),
    Removed("least", 20, "blur"),
    Removed("most", 20, "uniform", 3),
    Removed("least", 50, "linear"),
    Removed("most", 30, "zero", 0, ByWindow(3)),
    Removed("most", 30, "mean", 0, Jittered(0.1)),
    Thresholded("most", 0.4),
    Thresholded("least", 0.2, "mean"),
    AtPercentile("most", 70),
    AtPercentile("least", 30, "mean"),
    Regions("most", 2, 5, 3),
    Regions("least", 2, 5, 3, "linear"),
    Blended(),
    Blended("minmax", "percentile", 60),
    Blended("minmax", "top", 0.3),
]


@pytest.mark.parametrize("change", EVERY, ids=str)
def test_a_change_leaves_the_images_of_the_caller_alone_and_stays_finite(change):
    batch = some_batch()
    before = batch.x.clone()
    images = change.images(batch)
    images += 1
    assert torch.equal(batch.x, before)
    assert torch.isfinite(images).all()
    grey = batch_of(torch.rand(2, 9, 9), x=torch.rand(2, 1, 9, 9), mean=torch.zeros(1))
    before = grey.x.clone()
    change.images(grey).add_(1)
    assert torch.equal(grey.x, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("side", ["most", "least"])
@pytest.mark.parametrize("fill", ["mean", "blur", "uniform", "linear", "channel_mean"])
def test_removal_is_what_the_fill_does_to_the_first_or_last_pixels_of_the_order(side, fill, dtype):
    batch = some_batch()
    batch = dataclasses.replace(batch, x=batch.x.to(dtype))
    for k in (1, 17, 62):
        images = Removed(side, k, fill).images(batch)
        values = batch.maps.flatten(1).numpy()
        gone = np.zeros(values.shape, bool)
        for i, v in enumerate(values):
            order = np.argsort(-v if side == "most" else v)
            gone[i, order[:k]] = True
        gone = torch.from_numpy(gone).view_as(batch.maps)
        assert torch.equal(images, filled(batch.x, gone, fill, FillContext(batch.draws, batch.mean)).to(dtype))


def test_nothing_and_everything_removed_are_the_same_from_both_ends():
    assert removed("most", 0, 63, "blur") == removed("least", 0, 63, "mean", 4) == Unchanged()
    assert removed("most", 63, 63, "blur") == removed("least", 63, 63, "blur", 0, ByWindow(3))
    assert removed("most", 5, 63, "blur") != removed("least", 5, 63, "blur")


def test_everything_removed_is_the_mean_colour_also_by_linear_interpolation_plus_its_noise():
    batch = some_batch()
    mean = batch.mean.view(1, 3, 1, 1).expand_as(batch.x)
    assert torch.equal(Removed("most", 63, "mean").images(batch), mean)
    assert torch.equal(Removed("most", 63, "linear(noise=0)").images(batch), mean)
    noise = (Removed("most", 63, "linear").images(batch) - mean) / 0.01
    assert 0.9 < float(noise.std()) < 1.1


def test_one_noise_field_serves_all_fractions_and_other_draws_are_independent():
    batch = some_batch(n=40)
    few, many = (Removed("most", k, "uniform").images(batch) for k in (20, 40))
    gone = Removed("most", 20).removed_mask(batch)[:, None].expand_as(few)
    assert torch.equal(few[gone], many[gone])
    other = Removed("most", 20, "uniform", 1).images(batch)[gone]
    assert abs(float(np.corrcoef(few[gone], other)[0, 1])) < 0.1


@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_the_region_order_places_windows_around_the_highest_pixel_left(size):
    batch = some_batch(n=3, h=11, w=8)
    places = batch.places(ByWindow(size))
    for ours, values in zip(places, batch.maps.numpy(), strict=True):
        assert ours.argsort().tolist() == region_order(values, size)
    if size == 1:
        assert torch.equal(places, batch.places(BY_VALUE))


def test_whole_windows_cover_at_least_their_share_and_no_window_too_many():
    batch = some_batch(n=4, h=16, w=16)
    windows = ByWindow(5).windows(batch)
    for point in range(1, 6):
        gone = Regions("most", point, 5, 5).removed_mask(batch).flatten(1).numpy()
        kept = Regions("least", point, 5, 5).removed_mask(batch).flatten(1).numpy()
        assert (gone != kept).all()
        for g, window in zip(gone, windows, strict=True):
            last = window[g].max()
            assert (g == (window <= last)).all()
            assert (window <= last).sum() >= point * 256 / 5 > (window < last).sum()


def test_value_masks_equal_those_of_the_released_soundness_code(golden):
    g = golden("soco")
    maps = g["valmask_smap"][None]
    batch = batch_of(maps)
    for i, r in enumerate(g["ratios_completeness"].tolist()):
        assert torch.equal(~Thresholded("most", r).removed_mask(batch)[0], g["valmask_morf"][i])
        assert torch.equal(~Thresholded("least", r).removed_mask(batch)[0], g["valmask_lerf"][i])
    smap = g["smap_object"].float()[:3]
    for i, r in enumerate(g["ratios_completeness"].tolist()):
        kept = ~Thresholded("most", r).removed_mask(batch_of(smap))
        assert torch.equal(kept, g["completeness_object_mask_img0to2"][i])


def test_a_map_of_zeros_loses_nothing_by_value():
    batch = batch_of(torch.zeros(2, 4, 4))
    assert not Thresholded("most", 0.5).removed_mask(batch).any()
    assert not Thresholded("least", 0.5).removed_mask(batch).any()


def test_area_masks_equal_those_of_the_released_soundness_code(golden):
    g = golden("soco")
    batch = batch_of(g["smap_object"].float()[:3])
    for i, r in enumerate(g["ratios_completeness"].tolist()):
        for name, side in (("road_morf", "most"), ("road_lerf", "least"), ("deletion", "most")):
            kept = ~Removed(side, int(256 * r)).removed_mask(batch)
            assert torch.equal(kept, g[f"{name}_object_mask_img0to2"][i])


def test_percentile_masks_equal_those_of_grad_cam_and_take_all_ties(golden):
    g = golden("gradcam_road")
    for q, kept in zip(g["percentiles"].tolist(), g["morf_keepmask"], strict=True):
        assert torch.equal(AtPercentile("most", q).removed_mask(batch_of(g["cams"])), kept == 0)
    sparse = torch.zeros(1, 10, 10)
    sparse[0, 0, 0] = 1
    assert AtPercentile("most", 80).removed_mask(batch_of(sparse)).all()


def test_the_jitter_is_one_field_for_all_images_and_none_without_spread():
    batch = some_batch()
    assert torch.equal(batch.places(Jittered(0.0)), batch.places(BY_VALUE))
    flat = batch_of(torch.full((3, 6, 6), 0.5))
    places = flat.places(Jittered(1e-4))
    assert torch.equal(places[0], places[1])
    assert not torch.equal(places[0], batch_of(flat.maps, seed=1).places(Jittered(1e-4))[0])


def test_maps_are_scaled_image_by_image():
    maps = torch.tensor([[[-1.0, 1.0, 4.0]], [[2.0, 2.0, 2.0]], [[-3.0, -1.0, -2.0]]])
    assert scaled(maps, "max").tolist() == [[[0, 0.25, 1]], [[1, 1, 1]], [[0, 0, 0]]]
    assert scaled(maps, "minmax")[:, 0, 1].tolist() == pytest.approx([0.4, 0, 1])
    assert scaled(maps, "clamp")[:, 0, 0].tolist() == [0, 1, 0]
    assert batch_of(maps).with_values.tolist() == [True, False, False]
    assert not batch_of(torch.tensor([[[float("nan"), 1.0]]])).with_values


def test_blending_goes_from_the_mean_colour_to_the_image():
    batch = some_batch(n=2)
    batch = dataclasses.replace(batch, maps=torch.ones(2, 9, 7))
    torch.testing.assert_close(Blended("none").images(batch), batch.x)
    batch = dataclasses.replace(batch, maps=torch.full((2, 9, 7), 0.25))
    mean = batch.mean.view(1, 3, 1, 1)
    torch.testing.assert_close(Blended("none").images(batch), mean + 0.25 * (batch.x - mean))
    faded = Blended("max", "top", 0.5).images(some_batch(n=2))
    assert ((faded - mean).abs().amax(1) < 1e-7).sum((1, 2)).min() >= 31
