"""Extremal perturbations: smooth masks, levels of blur, and the search."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.estimators.perturbing import Linear, Region, around, frozen, images
from uproar.estimators import estimators, read_chain
from uproar.estimators.class_scores import class_scores
from uproar.estimators.extremal import (
    Mesh,
    Search,
    best_masks,
    blend_levels,
    blurred,
    extremal_perturbation,
    scaled_mesh,
    shared_values,
)


class SlowMesh(Mesh):
    """The definition at once: all weighted values of all windows, softmax over each window."""

    def padded(self, values: Tensor) -> Tensor:
        reach, extra, step = self.reach, self.extra, self.step
        rows, columns = (step * (size + 2 * extra) - step + 1 for size in self.points)
        near = torch.arange(-reach, reach + 1)
        y, z = torch.arange(rows) - extra * step, torch.arange(columns) - extra * step
        y_node, z_node = (p.div(step, rounding_mode="floor")[:, None] + near for p in (y, z))
        y_away, z_away = y[:, None] - step * y_node, z[:, None] - step * z_node
        far = (y_away[:, :, None, None].square() + z_away.square()).sqrt()  # (rows, k, columns, k)
        weight = torch.exp(-2 * (far / self.sigma - 0.5).clamp_min(0).square())
        border = reach + extra
        around_ = F.pad(values, (border,) * 4)
        parts = around_[:, (y_node + border)][..., (z_node + border)] * weight
        parts = parts.permute(0, 2, 4, 1, 3).flatten(1, 2)
        return (parts * (20 * parts).softmax(1)).sum(1)


# golden agreement: masks 1e-5, images 1e-6, the search 1e-3; the golden image is normalised, so that its blank is 0


@pytest.mark.parametrize("kind", [Mesh, SlowMesh])
def test_masks_are_those_of_the_authors_code(golden, kind):
    data = golden("extremal_perturbation")
    mesh = kind(32, 32, 4, 8.0)
    padded = mesh.padded(data["maskgen_step4_sigma8_in"][:, 0])
    torch.testing.assert_close(padded, data["maskgen_full"][:, 0], atol=1e-5, rtol=0)
    torch.testing.assert_close(mesh.inside(padded), data["maskgen_crop"][:, 0], atol=1e-5, rtol=0)


def test_levels_and_what_is_seen_through_a_mask_are_those_of_the_authors_code(golden):
    data = golden("extremal_perturbation")
    x, mask = data["image"], data["maskgen_crop"][:1]
    levels = blurred(x, torch.zeros_like(x), 20.0)
    torch.testing.assert_close(levels[0], data["pyramid_blur"], atol=1e-6, rtol=0)
    torch.testing.assert_close(blend_levels(levels, mask)[0], data["apply_blur"], atol=1e-6, rtol=0)
    fade = blend_levels(torch.stack([torch.zeros_like(x), x], 1), mask)[0]
    torch.testing.assert_close(fade, data["apply_fade"], atol=1e-6, rtol=0)


def authors_search(data, model, mesh, iterations: int) -> Tensor:
    search = Search(mesh, (0.1, 0.3), iterations, 0.01, of_image=False, ties="torch", flip=True)
    x = data["image"]
    return best_masks(frozen(model), torch.stack([torch.zeros_like(x), x], 1), data["label"], search)[0]


def test_reward_and_misfit_start_as_in_the_authors_code(golden, tiny32):
    data = golden("extremal_perturbation")
    x, mesh = data["image"], Mesh(32, 32, 4, 8.0)
    masks = authors_search(data, tiny32, mesh, 1)
    seen = blend_levels(torch.stack([torch.zeros_like(x), x], 1), masks[None])[0]
    score = class_scores(tiny32, seen.flip(3), data["label"].repeat(2))
    torch.testing.assert_close(score, data["ep_hist"][:, 0, 0], atol=1e-4, rtol=0)
    search = Search(mesh, (0.1, 0.3), 1, 0.01, of_image=False, ties="torch")
    misfit = search.misfit(mesh.padded(torch.ones(2, 8, 8)))
    torch.testing.assert_close(-300 * misfit, data["ep_hist"][:, 1, 0], atol=1e-3, rtol=0)


def test_the_mask_of_a_small_area_is_that_of_the_authors_code(golden, tiny32):
    data = golden("extremal_perturbation")
    masks = authors_search(data, tiny32, Mesh(32, 32, 4, 8.0), 60)
    theirs = data["ep_mask_fade_60it_step4_sigma8"][:, 0]
    torch.testing.assert_close(masks[0], theirs[0], atol=1e-3, rtol=0)


@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX2",
    reason="the larger mask depends on how torch's sort leaves equal values, which differs between processors",
)
def test_with_equal_rounding_the_mask_of_a_large_area_is_that_of_the_authors_code_too(golden, tiny32):
    """The search is the same: only last bits decide the order of the equal values that it starts with."""
    data = golden("extremal_perturbation")
    masks = authors_search(data, tiny32, SlowMesh(32, 32, 4, 8.0), 60)
    theirs = data["ep_mask_fade_60it_step4_sigma8"][:, 0]
    torch.testing.assert_close(masks, theirs, atol=1e-3, rtol=0)


# masks


@pytest.mark.parametrize(("h", "w", "step", "sigma"), [(7, 9, 1, 1.0), (9, 8, 2, 3.0), (13, 10, 4, 6.0)])
def test_masks_and_their_gradient_follow_the_definition(h, w, step, sigma):
    values = images(3, *Mesh(h, w, step, sigma).points)
    result = []
    for kind in (Mesh, SlowMesh):
        leaf = values.clone().requires_grad_()
        mask = kind(h, w, step, sigma).padded(leaf)
        slope = torch.linspace(-1, 1, mask.numel()).view_as(mask)
        result.append((mask.detach(), torch.autograd.grad((mask * slope).sum(), leaf)[0]))
    torch.testing.assert_close(result[0][0], result[1][0], atol=1e-5, rtol=0)
    torch.testing.assert_close(result[0][1], result[1][1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("step", "sigma"), [(4, 6.0), (7, 3.0), (1, 0.5), (3, 21.0)])
def test_a_mask_is_never_a_pixel_short(step, sigma):
    for side in range(2, 40):
        mesh = Mesh(side, side + 1, step, sigma)
        rows, columns = (step * (size + 2 * mesh.extra) - step + 1 for size in mesh.points)
        margin = mesh.extra * step
        assert margin >= sigma
        assert rows >= margin + side
        assert columns >= margin + side + 1


def test_the_default_mesh_is_that_of_the_authors_at_224_pixels_and_in_proportion_below():
    sizes = {224: (7, 21), 64: (2, 6), 32: (1, 3), 8: (1, 1)}
    for side, expected in sizes.items():
        mesh = scaled_mesh(side, side + 50, None, None)
        assert (mesh.step, mesh.sigma) == expected


def test_blurring_keeps_a_blank_image_and_moves_the_border_towards_the_blank():
    blank = torch.full((2, 3, 9, 9), 0.4)
    torch.testing.assert_close(blurred(blank, blank, 3.0), blank[:, None].expand(-1, 8, -1, -1, -1))
    white = blurred(torch.ones_like(blank), blank, 3.0)
    assert (white[:, 0, :, 0, 0] < white[:, 0, :, 4, 4]).all()
    assert (white > 0.4).all()


# what is wanted of a mask


def test_values_of_one_bin_share_what_is_wanted_of_them():
    values = torch.tensor([[0.999, 0.5, 0.985, 0.51, 0.0, 0.505]])
    wanted = shared_values(values, torch.tensor([[3.0]]))
    # two ones for the two largest; the third for three values between 0.50 and 0.52
    expected = torch.tensor([[1, 1 / 3, 1, 1 / 3, 0, 1 / 3]])
    torch.testing.assert_close(wanted, expected)
    torch.testing.assert_close(shared_values(torch.full((1, 5), 0.3), torch.tensor([[1.0]])), torch.full((1, 5), 0.2))


def test_far_apart_values_want_what_sorting_says():
    values = (torch.randperm(40, generator=torch.Generator().manual_seed(0)) / 40)[None]
    wanted = shared_values(values, torch.tensor([[7.0]]))
    assert torch.equal(wanted, (values >= 33 / 40).float())


# the search


def planted(side: int, size: int) -> Tensor:
    region = torch.zeros(side, side, dtype=torch.bool)
    region[side // 4 : side // 4 + size, side // 2 : side // 2 + size] = True
    return region


@pytest.mark.parametrize("options", [{}, {"perturbation": "fade"}])
@pytest.mark.parametrize(("side", "size"), [(8, 2), (16, 5)])
def test_the_region_that_decides_is_in_the_smallest_mask(side, size, options):
    region = planted(side, size)
    x = (0.7 * images(2, 1, side, side)) * ~region + region.float()
    target = torch.zeros(2, dtype=torch.long)
    maps = extremal_perturbation(Region(region), x, target, around(x, 0.3), iterations=60, **options)
    assert maps[:, 0, region].mean() > 3 * maps[:, 0, ~region].mean()
    assert all(region[divmod(int(each.argmax()), side)] for each in maps[:, 0])


def test_sharing_among_equal_values_finds_higher_scores_than_the_order_of_a_sort(golden, tiny32):
    data = golden("coherency")
    x, target = data["images_norm"][:2], data["labels"][:2]
    levels = torch.stack([torch.zeros_like(x), x], 1)
    reached = []
    for ties in ("shared", "torch"):
        search = Search(scaled_mesh(32, 32, None, None), (0.2,), 40, 0.1, True, ties)
        masks = best_masks(frozen(tiny32), levels, target, search)
        assert (masks.mean((1, 2, 3)) - 0.2).abs().max() < 0.1
        reached.append(class_scores(tiny32, blend_levels(levels, masks)[:, 0], target).sum())
    assert reached[0] > 1.5 * reached[1]


def test_an_area_is_a_share_of_the_image_or_with_its_margin():
    mesh = Mesh(10, 10, 1, 2.0)
    size = 14 * 14
    for of_image, ones in ((True, 20), (False, 40)):
        search = Search(mesh, (0.2,), 1, 0.1, of_image=of_image, ties="torch")
        perfect = torch.zeros(1, size)
        perfect[:, :ones] = 1
        assert search.misfit(perfect.view(1, 14, 14)) == 0


def test_the_map_is_the_sum_over_areas():
    x, target, model = images(2, 1, 8, 8), torch.tensor([0, 1]), Linear(1, 8, 8)
    both = extremal_perturbation(model, x, target, around(x), areas=(0.1, 0.4), iterations=5)
    parts = [extremal_perturbation(model, x, target, around(x), areas=(a,), iterations=5) for a in (0.1, 0.4)]
    torch.testing.assert_close(both, parts[0] + parts[1], atol=1e-5, rtol=0)


def test_the_cost_grows_with_areas_and_iterations():
    assert read_chain("extremal_perturbation(areas=[0.1, 0.2, 0.3], iterations=50)").passes == 150
    assert read_chain("extremal_perturbation").passes == 400
    defaults = estimators["extremal_perturbation"].options
    assert len(defaults["areas"].default) * defaults["iterations"].default == 400
