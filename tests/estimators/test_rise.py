"""RISE: masks from coin flips, and the weighted sum."""

from __future__ import annotations

import pytest
import torch

from tests.estimators.perturbing import Linear, Region, around, frozen, images
from uproar.estimators.perturbation import draw_masks, rise, upsample_masks, weight_masks

# golden agreement: masks 1e-6, maps 1e-5; the golden images are normalised, so that black is their mean colour


def test_masks_with_a_mirrored_boundary_are_those_of_the_authors_code(golden):
    data = golden("rise")
    masks = upsample_masks(data["rise_grid"], data["rise_shift"], 32, 32, "mirror")
    torch.testing.assert_close(masks, data["rise_masks"], atol=1e-6, rtol=0)


def test_the_weighted_sum_is_that_of_the_authors_code_for_every_class(golden, tiny32):
    data = golden("rise")
    x, masks = data["images_norm"][:2], data["rise_masks"]
    blank = torch.zeros_like(x)
    for k in range(4):
        parts = weight_masks(frozen(tiny32), x, torch.tensor([k, k]), blank, masks)
        total = parts.sum(1)[:, 0].float()
        theirs = data["rise_saliency_img0"][k]
        torch.testing.assert_close(total[0] / (40 * 0.5), theirs, atol=1e-5, rtol=0)
        batched = data["risebatch_saliency_img01"][:, k]
        torch.testing.assert_close(total, batched, atol=1e-5 * 20, rtol=0)


def test_the_weighted_sum_is_that_of_the_coherency_code_after_min_max(golden, tiny32):
    data = golden("coherency")
    x, target = data["images_norm"][:2], data["labels"][:2]
    parts = weight_masks(frozen(tiny32), x, target, torch.zeros_like(x), data["rise50_masks"])
    total = parts.sum(1)[:1].float()
    stretched = (total - total.min()) / (total.max() - total.min())
    theirs = data["raw_rise50_img0"]
    torch.testing.assert_close(stretched.expand(-1, 3, -1, -1), theirs, atol=1e-5, rtol=0)


# known answers


def test_masks_with_a_clamped_boundary_are_a_bilinear_enlargement_cut_out():
    bits, shifts = draw_masks(3, 20, 5, 0.4, 12, 17)
    masks = upsample_masks(bits, shifts, 12, 17, "clamp")
    size = (6 * 3, 6 * 4)
    large = torch.nn.functional.interpolate(bits[:, None], size, mode="bilinear")[:, 0]
    for mask, whole, (y, z) in zip(masks, large, shifts.tolist(), strict=True):
        torch.testing.assert_close(mask, whole[y : y + 12, z : z + 17], atol=1e-6, rtol=0)


def test_shifts_cover_one_cell_and_no_more():
    _, shifts = draw_masks(0, 2000, 5, 0.5, 12, 17)
    assert shifts.amin(0).tolist() == [0, 0]
    assert shifts.amax(0).tolist() == [2, 3]


def test_a_pixel_is_kept_with_probability_p():
    bits, shifts = draw_masks(0, 4000, 4, 0.3, 8, 8)
    kept = upsample_masks(bits, shifts, 8, 8, "clamp").mean(0)
    assert (kept - 0.3).abs().max() < 0.03


def test_the_map_is_the_sum_over_the_masks_drawn_from_the_seed():
    x, target = images(3, 2, 10, 8), torch.tensor([0, 2, 1])
    model, context = Linear(2, 10, 8), around(x, 0.4)
    maps = rise(model, x, target, context, masks=30, grid=3, p=0.25)
    bits, shifts = draw_masks(context.draws.seed, 30, 3, 0.25, 10, 8)
    total = torch.zeros(3, 10, 8)
    for mask in upsample_masks(bits, shifts, 10, 8, "clamp"):
        p = model(0.4 + mask * (x - 0.4)).softmax(1)[torch.arange(3), target]
        total += p[:, None, None] * mask
    torch.testing.assert_close(maps[:, 0], total / (30 * 0.25), atol=1e-4, rtol=0)


def test_the_region_that_decides_stands_out():
    region = torch.zeros(16, 16, dtype=torch.bool)
    region[3:7, 9:13] = True
    x = torch.ones(2, 1, 16, 16)
    maps = rise(Region(region), x, torch.zeros(2, dtype=torch.long), around(x, 0.0), masks=500)
    assert maps[:, 0, region].mean() > maps[:, 0, ~region].mean() + 0.1
    assert region[divmod(int(maps[0, 0].argmax()), 16)]


@pytest.mark.parametrize("side", [2, 3, 8, 13])
def test_small_images_get_fewer_cells(side):
    x = images(2, 1, side, side)
    maps = rise(Linear(1, side, side), x, torch.tensor([0, 1]), around(x), masks=20)
    assert maps.shape == x.shape
    assert maps.isfinite().all()
