import functools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import uproar
from tests.reference import linear_slow
from uproar.errors import BadInput
from uproar.removal import linear
from uproar.removal.linear import impute

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "road_linear_imputer.npz")


def images(n: int, h: int, w: int, seed: int = 0, c: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-3, 3, (n, c, h, w)).astype(np.float32)


def most(score: np.ndarray, share: float) -> np.ndarray:
    """The share of pixels with the highest score, at least one of them but not all."""
    count = min(max(round(share * score.size), 1), score.size - 1)
    removed = np.zeros(score.size, dtype=bool)
    removed[np.argsort(-score, axis=None, kind="stable")[:count]] = True
    return removed.reshape(score.shape)


def masks(h: int, w: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((h, w))
    rows, columns = np.mgrid[:h, :w]
    off_centre = -np.maximum(abs(rows - 0.4 * h) * w, abs(columns - 0.6 * w) * h)
    corner = -np.maximum(rows * w, columns * h)
    result = {
        "checkerboard": (rows + columns) % 2 == 0,
        "lines": rows % 3 > 0,
        "a cross remains": (rows != h // 3) & (columns != w // 2),
        "two pixels remain": (rows * w + columns) % max(h * w // 2, 1) != h * w // 4,
    }
    for percent in (10, 50, 90):
        result[f"scattered {percent}"] = most(noise, percent / 100)
        result[f"blob {percent}"] = most(gaussian_filter(noise, 3, mode="wrap"), percent / 100)
        result[f"rectangle {percent}"] = most(off_centre, percent / 100)
        result[f"corner {percent}"] = most(corner, percent / 100)
    return {name: m for name, m in result.items() if m.any() and not m.all()}


@pytest.fixture(params=["routed", "all multigrid", "all direct"])
def route(request, monkeypatch):
    """The three ways a system can go: by its cost, and forced."""
    work = {"routed": linear._DIRECT_WORK, "all multigrid": -1.0, "all direct": np.inf}
    monkeypatch.setattr(linear, "_DIRECT_WORK", work[request.param])
    if request.param == "all direct":
        monkeypatch.setattr(linear, "_DENSE", 1.0)


@pytest.mark.parametrize("kind", ["random", "linear", "const"])
def test_images_equal_those_of_the_released_code(kind, route):
    names = [key.removeprefix("mask32_") for key in GOLDEN.files if key.startswith("mask32_")]
    assert len(names) == 12
    x = np.stack([GOLDEN[f"img32_{kind}"]] * len(names))
    removed = np.stack([GOLDEN[f"mask32_{name}"] == 0 for name in names])
    expected = np.stack([GOLDEN[f"out32_{kind}_{name}"] for name in names])
    np.testing.assert_allclose(impute(x, removed), expected, rtol=0, atol=1e-5)


def test_the_slow_version_states_the_system_of_the_released_code():
    image, removed = GOLDEN["sys_img"], GOLDEN["sys_mask"] == 0
    matrix, b = linear_slow.system(image, removed)
    np.testing.assert_allclose(matrix.toarray(), -GOLDEN["sys_A"], rtol=0, atol=1e-7)
    np.testing.assert_allclose(b, -GOLDEN["sys_b"], rtol=0, atol=1e-7)
    np.testing.assert_allclose(linear_slow.impute(image, removed), GOLDEN["sys_out"], atol=1e-6)


@functools.cache
def solved(h: int, w: int, c: int, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, mask and the slow solution; kept, since every route is compared with it."""
    x, removed = images(1, h, w, c=c), masks(h, w)[name]
    return x, removed[None], linear_slow.impute(x[0], removed)


@pytest.mark.parametrize("size", [(64, 64), (50, 33), (23, 60), (7, 7), (2, 30), (40, 1), (1, 41)])
def test_the_solution_is_that_of_the_sparse_system(size, route):
    for name in masks(*size):
        x, removed, expected = solved(*size, 2, name)
        assert np.abs(impute(x, removed)[0] - expected).max() < 2e-5, name  # pixels are in [-3, 3]


@pytest.mark.parametrize("name", ["scattered 50", "blob 90", "two pixels remain"])
def test_a_large_image_is_solved_as_well(name):
    x, removed, expected = solved(130, 117, 1, name)
    assert np.abs(impute(x, removed)[0] - expected).max() < 2e-5


@pytest.mark.parametrize(("scale", "offset"), [(1e30, 0), (1e-30, 0), (1, 1e4), (1e38, 1e38)])
def test_the_error_follows_the_range_of_the_pixels(scale, offset, route):
    removed = masks(40, 40)["blob 50"]
    x = (images(1, 40, 40, c=1) / 3 * scale + offset).astype(np.float32)
    allowed = 1e-5 * scale + 1e-7 * offset
    assert np.abs(impute(x, removed[None])[0] - linear_slow.impute(x[0], removed)).max() < allowed


def test_results_stay_between_the_known_pixels(route):
    for name, removed in masks(60, 52).items():
        x = images(1, 60, 52)
        known = x[0][:, ~removed]
        filled = impute(x, removed[None])[0][:, removed]
        assert (filled.min(1) >= known.min(1)).all(), name
        assert (filled.max(1) <= known.max(1)).all(), name


def test_a_constant_image_is_reproduced_exactly(route):
    for removed in masks(48, 37).values():
        x = np.full((1, 2, 48, 37), 0.1, dtype=np.float32)
        assert (impute(np.where(removed, np.float32(9), x), removed[None]) == x).all()


def test_a_ramp_is_reproduced_where_the_hole_keeps_off_the_border(route):
    rows, columns = np.mgrid[:45, :60]
    x = (rows * 0.02 - columns * 0.01)[None, None].astype(np.float32)
    removed = np.zeros((1, 45, 60), dtype=bool)
    removed[:, 1:-1, 1:-1] = masks(43, 58)["blob 50"]
    np.testing.assert_allclose(impute(x, removed), x, rtol=0, atol=1e-5)
    removed[:, 20:30, :30] = True
    assert np.abs(impute(x, removed) - x).max() > 0.01


def test_nothing_removed_returns_a_copy():
    x = images(2, 9, 8)
    result = impute(x, np.zeros((2, 9, 8), dtype=bool))
    assert (result == x).all()
    assert not np.shares_memory(result, x)


def test_everything_removed_becomes_the_constant():
    x = images(2, 6, 5)
    removed = np.zeros((2, 6, 5), dtype=bool)
    removed[1] = True
    result = impute(x, removed, constant=np.array([1, 2, 3], dtype=np.float32))
    assert (result[0] == x[0]).all()
    assert (result[1] == np.array([1, 2, 3])[:, None, None]).all()
    assert (impute(x, removed)[1] == 0).all()
    assert (impute(x[:, :, :1, :1], removed[:, :1, :1], constant=0.5)[1] == 0.5).all()


@pytest.mark.parametrize("size", [(224, 224), (31, 9), (1, 200), (1, 2)])
def test_all_but_one_removed_becomes_that_pixel(size, route):
    removed = np.ones((1, *size), dtype=bool)
    removed[0, size[0] // 3, size[1] // 2] = False
    x = images(1, *size)
    known = x[0, :, size[0] // 3, size[1] // 2]
    assert (impute(x, removed)[0] == known[:, None, None]).all()


def test_a_row_of_features_is_interpolated_linearly():
    known = np.random.default_rng(0).random(200) < 0.3
    x = images(1, 1, 200, c=1)
    expected = np.interp(np.arange(200), np.flatnonzero(known), x[0, 0, 0, known])
    np.testing.assert_allclose(impute(x, ~known[None, None])[0, 0, 0], expected, atol=1e-6)


def test_known_pixels_stay_bit_for_bit(route):
    x = images(1, 40, 40)
    x[0, 0, ::2] = -0.0
    removed = masks(40, 40)["scattered 50"]
    result = impute(x, removed[None])
    assert (result.view(np.int32)[0][:, ~removed] == x.view(np.int32)[0][:, ~removed]).all()


def test_an_image_does_not_depend_on_its_batch(route):
    chosen = list(masks(56, 50).values())
    x, removed = images(len(chosen), 56, 50), np.stack(chosen)
    together = impute(x, removed)
    assert (impute(x[::-1], removed[::-1])[::-1] == together).all()
    for i in range(len(x)):
        assert (impute(x[i : i + 1], removed[i : i + 1]) == together[i]).all()


def test_what_stood_in_removed_pixels_does_not_matter(route):
    for removed in masks(50, 50).values():
        x = images(1, 50, 50)
        clean = impute(x, removed[None])
        for rubbish in (np.nan, np.inf, -3e38):
            dirty = np.where(removed, np.float32(rubbish), x)
            assert (impute(dirty, removed[None]) == clean).all()


def test_the_callers_arrays_are_left_alone_whatever_their_layout():
    x, removed = images(2, 30, 30), np.stack([masks(30, 30)["blob 50"]] * 2)
    before = x.copy()
    result = impute(x, removed)
    assert (x == before).all()
    turned = impute(x.swapaxes(2, 3), removed.swapaxes(1, 2))
    np.testing.assert_allclose(turned.swapaxes(2, 3), result, atol=3e-5)
    assert result.flags.c_contiguous
    assert result.flags.writeable


def test_channels_may_have_masks_of_their_own(route):
    chosen = masks(36, 41)
    x = images(2, 36, 41)
    removed = np.stack([chosen["blob 50"], chosen["scattered 10"], np.ones((36, 41), dtype=bool)])
    result = impute(x, np.stack([removed, removed]), constant=np.arange(3, dtype=np.float32))
    for channel in range(2):
        alone = impute(x[:, channel : channel + 1], np.stack([removed[channel]] * 2))
        assert (result[:, channel] == alone[:, 0]).all()
    assert (result[:, 2] == 2).all()
    shared = np.broadcast_to(removed[0], (2, 36, 41))
    each = np.broadcast_to(removed[0], x.shape)
    assert (impute(x, shared) == impute(x, each)).all()


def test_holes_inside_each_other_share_one_grid(monkeypatch):
    monkeypatch.setattr(linear, "_DIRECT_WORK", -1.0)
    rows, columns = np.mgrid[:61, :61]
    distance = np.maximum(abs(rows - 30), abs(columns - 30))
    rings = distance % 6 > 1
    x = images(1, 61, 61, c=1)
    expected = linear_slow.impute(x[0], rings)
    assert np.abs(impute(x, rings[None])[0] - expected).max() < 2e-5


def test_a_system_that_does_not_converge_is_solved_directly_and_counted(monkeypatch):
    monkeypatch.setattr(linear, "_LIMIT", 1)
    x = images(3, 60, 60, c=2)
    removed = np.stack([masks(60, 60)[name] for name in ("blob 50", "scattered 10", "blob 90")])
    x[2, 0] = 5  # converges at once
    with pytest.warns(RuntimeWarning, match="^3 of 6 linear systems"):
        result = impute(x, removed)
    for i in range(3):
        assert np.abs(result[i] - linear_slow.impute(x[i], removed[i])).max() < 1e-6


def test_an_accuracy_out_of_reach_is_reported_and_the_result_is_right():
    x, removed = images(1, 60, 60, c=1), masks(60, 60)["blob 50"]
    with pytest.warns(RuntimeWarning, match="did not reach the accuracy 1e-40"):
        result = impute(x, removed[None], tol=1e-40)
    assert np.abs(result[0] - linear_slow.impute(x[0], removed)).max() < 1e-6


def test_without_numba_the_result_is_the_same_after_one_warning(monkeypatch):
    x = images(2, 40, 33)
    removed = np.stack([masks(40, 33)["blob 50"], np.ones((40, 33), dtype=bool)])
    expected = impute(x, removed, constant=1.0)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "uproar.removal._multigrid")
    linear._kernels.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match="Numba cannot be imported"):
            result = impute(x, removed, constant=1.0)
        assert (impute(x, removed, constant=1.0) == result).all()  # and warns no more
        assert not linear.warm_up()
    finally:
        linear._kernels.cache_clear()
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-5)


def test_without_a_place_for_the_cache_kernels_are_compiled_anyway(monkeypatch):
    assert linear.warm_up()
    from numba.core.caching import CacheImpl

    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    double = linear._kernels()._compiled("f8(f8)")(lambda value: 2 * value)
    assert double(21.0) == 42


def test_the_module_needs_no_torch():
    code = (
        "import sys, types\n"
        "sys.modules['torch'] = None\n"
        "for name in ('uproar', 'uproar.removal'):\n"
        "    package = sys.modules[name] = types.ModuleType(name)\n"
        f"    package.__path__ = [{str(Path(uproar.__file__).parent)!r} + name[6:].replace('.', '/')]\n"
        "import uproar.removal.linear\n"
        "assert 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_infinite_known_pixel_is_named():
    x = images(2, 8, 8)
    x[1, 2, 3, 4] = np.inf
    removed = np.zeros((2, 8, 8), dtype=bool)
    with pytest.raises(BadInput, match="image 1 is inf in channel 2, row 3, column 4"):
        impute(x, removed)
    removed[1, 3, 4] = True
    assert np.isfinite(impute(x, removed)).all()


def test_empty_batches_pass_through():
    assert impute(np.zeros((0, 3, 5, 5), np.float32), np.zeros((0, 5, 5), dtype=bool)).shape == (0, 3, 5, 5)
