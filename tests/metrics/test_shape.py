"""Metrics that describe a map: sparseness, complexity, variation, density."""

from __future__ import annotations

import math

import pytest
import torch

from tests.metrics.looking import batch_of, run, value
from tests.reference import maps_slow
from uproar import removed
from uproar.metrics import shape
from uproar.metrics.registry import judges, metrics, uses_order
from uproar.metrics.shape import GRID, kernel_density

NAMES = ["sparseness", "complexity", "total_variation", "removed_variation"]


def test_every_metric_of_the_shape_of_a_map_describes_and_says_so():
    for name in [*NAMES, "value_density"]:
        assert metrics[name].facts["describes"], name
        assert not judges(name), name
    assert judges("road")


def test_a_metric_says_whether_order_or_values_count():
    cases = {
        "road": True,
        "pointing_game": True,
        "removed_variation": True,
        "randomisation": True,
        "randomisation(similarity=ssim)": False,
        "average_drop": False,
        "average_drop(binarise=0.5)": True,
        "soundness:soco": False,
        "relevance_mass": False,
        "infidelity": False,
    }
    assert {name: uses_order(name) for name in cases} == cases


@pytest.fixture
def maps():
    return torch.randn(5, 6, 9, generator=torch.Generator().manual_seed(0))


def test_all_agree_with_their_definitions(maps):
    batch = batch_of(maps)
    for i, a in enumerate(maps.numpy()):
        positive = a.clip(0)
        unit = (a - a.min()) / (a.max() - a.min())
        assert value("sparseness", batch)[i].item() == pytest.approx(maps_slow.gini(positive), abs=1e-6)
        assert value("sparseness", batch, sign="abs")[i].item() == pytest.approx(maps_slow.gini(abs(a)), abs=1e-6)
        assert value("complexity", batch)[i].item() == pytest.approx(maps_slow.entropy(positive), abs=1e-5)
        assert value("total_variation", batch)[i].item() == pytest.approx(maps_slow.total_variation(unit), abs=1e-6)
        gone = removed(maps, 0.3)[i].numpy().astype(float)
        assert value("removed_variation", batch)[i].item() == pytest.approx(maps_slow.total_variation(gone), abs=1e-6)


def test_known_answers():
    one, flat, checks = torch.zeros(1, 4, 4), torch.ones(1, 4, 4), torch.zeros(1, 4, 4)
    one[0, 1, 2] = 5
    checks[0, ::2, ::2] = checks[0, 1::2, 1::2] = 7
    assert value("sparseness", batch_of(one)).item() == pytest.approx(15 / 16)
    assert value("sparseness", batch_of(flat)).item() == 0
    assert value("complexity", batch_of(one)).item() == 0
    assert value("complexity", batch_of(flat)).item() == pytest.approx(math.log(16))
    assert value("total_variation", batch_of(checks)).item() == pytest.approx(24 / 16)
    assert value("removed_variation", batch_of(checks), fraction=0.5).item() == pytest.approx(24 / 16)
    assert value("total_variation", batch_of(one)).item() == pytest.approx(4 / 16)


@pytest.mark.parametrize("fraction", [0, 1])
def test_nothing_or_everything_removed_has_no_outline(maps, fraction):
    assert value("removed_variation", batch_of(maps), fraction=fraction).tolist() == [0] * 5


def test_undefined_maps_are_nan_and_leave_the_others_alone(maps):
    maps[0], maps[1], maps[2, 0, 0] = 0, -2, math.inf
    batch = batch_of(maps)
    assert value("sparseness", batch).isnan().tolist() == [True, True, True, False, False]
    assert value("sparseness", batch, sign="abs").isnan().tolist() == [True, False, True, False, False]
    assert value("complexity", batch).isnan().tolist() == [True, True, True, False, False]
    assert value("total_variation", batch).isnan().tolist() == [True, True, True, False, False]
    out = run("removed_variation", batch)
    assert out["value"].isnan().tolist() == [False, False, True, False, False]
    assert out["tied"].tolist() == [1, 1, 1, 0, 0]


def test_the_stated_chance_levels_hold():
    noise = torch.rand(200, 32, 32, generator=torch.Generator().manual_seed(1))
    batch = batch_of(noise)
    assert value("sparseness", batch).mean().item() == pytest.approx(1 / 3, abs=0.01)
    assert value("complexity", batch).mean().item() == pytest.approx(math.log(1024) - 0.193, abs=0.01)
    assert value("total_variation", batch).mean().item() == pytest.approx(2 / 3, abs=0.03)
    ragged = value("removed_variation", batch, fraction=0.2).mean().item()
    assert ragged == pytest.approx(4 * 0.2 * 0.8, abs=0.03)


def test_removed_variation_needs_only_the_order(maps):
    one, other = (value("removed_variation", batch_of(m)) for m in (maps, maps.exp()))
    assert torch.equal(one, other)


def test_magnitudes_are_divided_by_each_maps_own_maximum(maps):
    a, defined = shape.magnitudes(maps * torch.tensor([1.0, 10, 100, 0, 5])[:, None, None])
    assert a.amax((1, 2)).tolist() == [1, 1, 1, 0, 1]
    assert defined.tolist() == [True, True, True, False, True]


def test_the_density_of_values_equals_the_released_code(golden):
    g = golden("coherency")
    ours = kernel_density(torch.as_tensor(g["kde_values"]), 0.05)
    assert GRID.tolist() == pytest.approx(g["kde_grid"].tolist())
    assert ours.tolist() == pytest.approx(g["kde_density_exact"].tolist(), rel=1e-5, abs=1e-7)


def test_a_sparse_map_has_a_small_mean_and_its_values_at_zero():
    maps = torch.zeros(3, 4, 5)
    maps[0, 1, 2] = 3.0
    maps[1] = torch.arange(20.0).view(4, 5) / 19
    results = run("value_density", batch_of(maps))
    assert results["value"][:2].tolist() == pytest.approx([1 / 20, 0.5])
    assert results["value"][2].isnan()
    assert results["density"][2].isnan().all()
    density = results["density"][0]
    assert float(density[0]) == pytest.approx(19 / 20 / (0.05 * math.sqrt(2 * math.pi)), rel=1e-6)
