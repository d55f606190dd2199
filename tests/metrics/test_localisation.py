"""Metrics that compare a map with known important pixels."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from tests.metrics.looking import batch_of, value
from tests.metrics.looking import run as responses
from tests.reference import maps_slow
from uproar.data import load
from uproar.data.task import box_pixels
from uproar.errors import BadShape, NotApplicable
from uproar.expression import Call
from uproar.metrics import Batch, localisation
from uproar.metrics.localisation import grid_pointing
from uproar.metrics.probe import evaluate
from uproar.seeds import Draws

NAMES = [
    "pointing_game",
    "pointing_game:coherency",
    "pointing_game:torchray",
    "relevance_mass",
    "attr_percent",
    "relevance_rank",
    "iou",
    "iou:coherency",
]
ORDER_ONLY = ["pointing_game", "pointing_game:coherency", "pointing_game:torchray", "relevance_rank"]


def box(n, h, w, top, left, bottom, right):
    region = torch.zeros(n, h, w, dtype=torch.bool)
    region[:, top : bottom + 1, left : right + 1] = True
    return region


def peak_at(h, w, places):
    maps = torch.rand(len(places), h, w, generator=torch.Generator().manual_seed(0))
    for i, (row, column) in enumerate(places):
        maps[i, row, column] = 2
    return maps


@pytest.fixture
def coherency(golden):
    g = golden("coherency")
    x0, x1, y0, y1 = g["bbox_x0x1y0y1"].T[:, :, None, None]
    row, column = torch.arange(32)[:, None], torch.arange(32)
    boxes = (row >= y0) & (row <= y1) & (column >= x0) & (column <= x1)
    return g, boxes


def test_golden_boxes_are_inclusive(coherency):
    g, boxes = coherency
    assert torch.equal(boxes, g["gt_mask"].bool())


def test_golden_pointing_mass_and_overlap(coherency):
    g, boxes = coherency
    batch = batch_of(g["sal_object"][:, 0], boxes)
    assert torch.equal(value("pointing_game:coherency", batch).bool(), g["pointing_object"])
    torch.testing.assert_close(value("relevance_mass", batch), g["relevance_mass_object"], atol=1e-6, rtol=0)
    overlap = value("iou:coherency", batch).double()
    torch.testing.assert_close(overlap, g["iou_object"], atol=1e-7, rtol=0)


def test_a_peak_counts_up_to_the_last_row_and_column_of_a_box_and_one_further_for_coherency():
    places = [(5, 6), (5, 7), (6, 6), (6, 7), (7, 6), (1, 3), (2, 2), (2, 3)]
    batch = batch_of(peak_at(12, 10, places), box(8, 12, 10, 2, 3, 5, 6))
    assert value("pointing_game", batch).tolist() == [1, 0, 0, 0, 0, 0, 0, 1]
    assert value("pointing_game:coherency", batch).tolist() == [1, 1, 1, 1, 0, 0, 0, 1]


def test_a_larger_box_does_not_wrap_to_the_other_side():
    batch = batch_of(peak_at(6, 6, [(0, 0), (3, 0), (0, 3)]), box(3, 6, 6, 3, 3, 5, 5))
    assert value("pointing_game:coherency", batch).tolist() == [0, 0, 0]


def test_tolerance_is_euclidean_and_strict():
    region = box(4, 20, 20, 10, 10, 10, 10)
    batch = batch_of(peak_at(20, 20, [(10, 15), (13, 14), (13, 13), (7, 7)]), region)
    assert value("pointing_game", batch, tolerance=5).tolist() == [0, 0, 1, 1]
    assert value("pointing_game", batch, tolerance=5.01).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("tolerance", [0, 1, 1.5, 3, 7.3])
def test_the_tolerant_region_agrees_with_its_definition(tolerance):
    region = torch.rand(3, 11, 9, generator=torch.Generator().manual_seed(1)) < 0.05
    region[2] = False
    grown = localisation.near(region, tolerance)
    for mask, expected in zip(grown, region, strict=True):
        assert (mask.numpy() == maps_slow.near(expected.numpy(), tolerance)).all()


def test_torchray_counts_within_15_pixels_and_averages_over_classes():
    region = box(4, 40, 40, 0, 0, 3, 3)
    maps = peak_at(40, 40, [(3, 17), (3, 18), (30, 30), (2, 2)])
    out = responses("pointing_game:torchray", batch_of(maps, region, target=torch.tensor([0, 1, 1, 1])))
    assert out["value"].tolist() == [1, 0, 0, 1]
    assert localisation.class_mean(out) == pytest.approx((1 + 1 / 3) / 2)
    out["value"][0] = torch.nan
    assert localisation.class_mean(out) == pytest.approx(1 / 3)


def test_pointing_is_played_on_boxes_and_the_pixels_count_for_all_else():
    task = load("planted(size=16, test=40)")
    masks, boxed = task.test.truth(slice(None)), task.test.boxed(slice(None))
    assert masks.sum((1, 2)).unique().tolist() == [9]
    assert boxed.sum((1, 2)).unique().tolist() == [25]
    beside = (boxed & ~masks).float()  # peaks in the box, none on the glyph
    both, pixels_only = batch_of(beside, masks, boxed=boxed), batch_of(beside, masks)
    for name in ("pointing_game", "pointing_game:coherency"):
        assert value(name, both).unique().tolist() == [1], name
    assert value("pointing_game", pixels_only).unique().tolist() == [0]
    for name in ("relevance_mass", "attr_percent", "relevance_rank", "iou", "iou:coherency"):
        assert value(name, both).unique().tolist() == [0], name
    assert responses("pointing_game", both)["chance"].unique().item() == pytest.approx(25 / 256)
    assert responses("attr_percent", both)["chance"].unique().item() == pytest.approx(9 / 256)


def test_torchray_measures_the_tolerance_from_the_box():
    boxed, masks = box(2, 40, 40, 0, 0, 5, 5), box(2, 40, 40, 0, 0, 0, 0)
    maps = peak_at(40, 40, [(0, 19), (0, 20)])
    assert value("pointing_game:torchray", batch_of(maps, masks, boxed=boxed)).tolist() == [1, 0]
    assert value("pointing_game:torchray", batch_of(maps, masks)).tolist() == [0, 0]


@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 5), (6, 4)])
def test_a_random_map_hits_a_box_by_its_area(height, width):
    n = 2000
    maps = torch.rand(n, 8, 8, generator=torch.Generator().manual_seed(5))
    boxed = box_pixels(torch.tensor([[1, 2, width, height + 1]]).expand(n, 4), 8, 8)
    share = height * width / 64
    out = responses("pointing_game", batch_of(maps, box(n, 8, 8, 0, 0, 7, 7), boxed=boxed))
    assert (out["chance"] == share).all()
    spread = (share * (1 - share) / n) ** 0.5
    assert out["value"].mean().item() == pytest.approx(share, abs=4 * spread)


@pytest.mark.parametrize("name", ["pointing_game", "pointing_game:coherency", "attr_percent"])
def test_boxes_are_cut_with_the_images_when_few_fit_at_a_time(name):
    maps = torch.rand(7, 9, 8, generator=torch.Generator().manual_seed(6))
    masks = torch.rand(7, 9, 8, generator=torch.Generator().manual_seed(7)) < 0.2
    boxed = torch.rand(7, 9, 8, generator=torch.Generator().manual_seed(8)) < 0.5
    batch, call = batch_of(maps, masks, boxed=boxed), Call(name)
    together, apart = (evaluate([call], batch, rows)[0][name]["value"] for rows in (7, 2))
    assert torch.equal(together, apart)


@pytest.mark.parametrize("name", NAMES)
def test_an_image_without_a_region_is_nan_and_never_a_hit(name):
    region = box(3, 8, 8, 2, 2, 4, 4)
    region[1] = False
    out = value(name, batch_of(torch.rand(3, 8, 8) + 0.1, region))
    assert out.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("name", NAMES)
def test_without_any_truth_the_metric_does_not_apply(name):
    with pytest.raises(NotApplicable, match="not known"):
        value(name, batch_of(torch.rand(2, 4, 4)))


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_map_spoils_its_own_image_only(name):
    maps = torch.rand(3, 8, 8) + 0.1
    good = value(name, batch_of(maps, box(3, 8, 8, 2, 2, 4, 4)))
    maps[1, 0, 0] = torch.nan
    out = value(name, batch_of(maps, box(3, 8, 8, 2, 2, 4, 4)))
    assert out[1].isnan()
    assert torch.equal(out[[0, 2]], good[[0, 2]])


@pytest.mark.parametrize("name", ["relevance_mass", "attr_percent", "iou"])
def test_an_all_zero_map_has_no_value_where_values_matter(name):
    maps = torch.zeros(2, 4, 4)
    maps[1, 1, 1] = 3
    assert value(name, batch_of(maps, box(2, 4, 4, 1, 1, 2, 2))).isnan().tolist() == [True, False]


def test_tied_maxima_are_chosen_evenly_and_not_from_the_top_left():
    n = 2000
    maps = torch.zeros(n, 4, 4)
    maps[:, 0, 0] = maps[:, 1, 2] = maps[:, 3, 3] = 1
    out = responses("pointing_game", batch_of(maps, box(n, 4, 4, 3, 3, 3, 3)))
    assert (out["tied"] == 3).all()
    assert out["value"].mean().item() == pytest.approx(1 / 3, abs=4 * (2 / 9 / n) ** 0.5)
    again = responses("pointing_game", batch_of(maps, box(n, 4, 4, 3, 3, 3, 3), seed=1))
    assert not torch.equal(out["value"], again["value"])


def test_a_random_map_gets_the_chance_that_is_stated():
    n = 1500
    maps = torch.rand(n, 8, 8, generator=torch.Generator().manual_seed(2))
    batch = batch_of(maps, box(n, 8, 8, 1, 1, 4, 3))
    for name in ("pointing_game", "relevance_mass", "relevance_rank", "attr_percent"):
        out = responses(name, batch)
        assert out["chance"][0].item() == pytest.approx(12 / 64)
        assert out["value"].mean().item() == pytest.approx(12 / 64, abs=0.04)


def test_known_shares():
    maps = torch.tensor([[[4.0, -2.0], [1.0, 1.0]]])
    region = torch.tensor([[[True, True], [False, False]]])
    batch = batch_of(maps, region)
    assert value("relevance_mass", batch).item() == pytest.approx(4 / 6)
    assert value("attr_percent", batch).item() == pytest.approx(6 / 8)
    assert value("relevance_rank", batch).item() == 0.5
    assert value("iou", batch).item() == pytest.approx(1 / 2)
    assert value("iou", batch, threshold=0.2).item() == pytest.approx(1 / 4)
    assert value("iou:coherency", batch).item() == pytest.approx(1 / 4)


@pytest.mark.parametrize("name", ORDER_ONLY)
def test_only_the_order_counts(name):
    maps = torch.randn(40, 7, 9, generator=torch.Generator().manual_seed(3))
    maps = (maps * 4).round() / 4  # with ties
    region = torch.rand(40, 7, 9, generator=torch.Generator().manual_seed(4)) < 0.3
    one, other = (value(name, batch_of(m, region)) for m in (maps, maps.exp() * 5))
    assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["relevance_mass", "attr_percent", "iou"])
def test_the_scale_of_a_map_does_not_count(name):
    maps = torch.randn(10, 7, 9)
    region = torch.rand(10, 7, 9) < 0.3
    one, other = (value(name, batch_of(m, region)) for m in (maps, maps * 1024))
    assert torch.equal(one, other)


def test_truth_of_another_size_is_refused():
    with pytest.raises(BadShape, match="must be alike"):
        value("iou", batch_of(torch.rand(2, 4, 4), torch.ones(2, 4, 5, dtype=torch.bool)))


def values(maps, boxed):
    n = len(maps)
    x = torch.zeros(n, 1, *maps.shape[1:])
    batch = Batch(nn.Identity(), x, torch.zeros(n, dtype=torch.long), maps, torch.zeros(n, 2), Draws.of(0, n))
    return grid_pointing(Batch(**{**vars(batch), "truth": boxed, "boxed": boxed}))


def test_the_share_counts_positive_relevance_and_an_empty_map_gets_nothing():
    cell = torch.zeros(4, 4, dtype=torch.bool)
    cell[:2, 2:] = True
    right, wrong, nothing, tiny, broken = torch.zeros(5, 4, 4).unbind()
    right[0, 2], right[3, 0] = 3.0, -9.0  # negative relevance elsewhere is no evidence for the class
    wrong[0, 2], wrong[3, 3] = 1.0, 3.0
    tiny[0, 2] = 5e-8
    broken[0, 0] = math.nan
    responses = values(torch.stack([right, wrong, nothing, tiny, broken]), cell.expand(5, 4, 4))
    assert responses["value"][:4].tolist() == [1.0, 0.25, 0.0, 0.0]
    assert math.isnan(responses["value"][4])
    assert bool((responses["chance"] == 0.25).all())
