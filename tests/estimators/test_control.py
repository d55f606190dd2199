import numpy as np
import scipy.ndimage
import torch
from torch import nn

from uproar import explain, removed


def maps(name, x, seed=0):
    model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(x.shape[1], 2))
    return explain(model, x, name, target=0, seed=seed)


def test_sobel_equals_scipy():
    x = torch.rand(3, 3, 9, 11)
    grey = x.mean(1).numpy().astype(float)
    dx, dy = (np.stack([scipy.ndimage.sobel(g, axis=axis) for g in grey]) for axis in (1, 0))
    np.testing.assert_allclose(maps("sobel", x).numpy(), np.hypot(dx, dy), atol=1e-5)
    np.testing.assert_allclose(maps("sobel(axis=x)", x).numpy(), np.abs(dx), atol=1e-5)
    np.testing.assert_allclose(maps("sobel(axis=y)", x).numpy(), np.abs(dy), atol=1e-5)


def test_random_removes_every_pixel_equally_often_and_independently():
    x = torch.zeros(4000, 3, 4, 4)
    gone = removed(maps("random", x), 0.25).double().flatten(1)
    assert (gone.mean(0) - 0.25).abs().max() < 0.03
    correlation = torch.corrcoef(gone.T).fill_diagonal_(0)
    assert (correlation + 1 / 15).abs().max() < 0.07  # exactly four of sixteen go


def is_rectangle_with_a_last_ring(gone: torch.Tensor) -> bool:
    """All removed pixels lie in a rectangle of which at most one ring is incomplete."""
    rows, columns = gone.any(1).nonzero()[:, 0], gone.any(0).nonzero()[:, 0]
    box = gone[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    inner = box[1:-1, 1:-1]
    return bool(inner.all())


def test_block_random_removes_nested_rectangles_with_exact_counts():
    x = torch.zeros(200, 1, 12, 16)
    a = maps("block_random", x)
    last = torch.zeros(200, 12, 16, dtype=torch.bool)
    for fraction in (0.05, 0.1, 0.3, 0.5, 0.9):
        gone = removed(a, fraction)
        assert (gone.sum((1, 2)) == round(fraction * 192)).all()
        assert not (last & ~gone).any()
        last = gone
        if fraction <= 0.3:
            assert sum(is_rectangle_with_a_last_ring(g) for g in gone) == 200
    assert (removed(a, 0.2).double().mean(0) > 0.02).all()  # the centre may lie anywhere


def test_block_random_has_no_ties():
    a = maps("block_random", torch.zeros(50, 1, 28, 28)).flatten(1)
    assert all(len(row.unique()) == 28 * 28 for row in a)


def test_controls_follow_the_seed_but_not_the_model():
    x = torch.rand(4, 1, 6, 6)
    for name in ("random", "block_random"):
        assert not torch.equal(maps(name, x, 0), maps(name, x, 1))
        torch.testing.assert_close(
            maps(name, x, 0), explain(nn.Sequential(nn.Flatten(), nn.Linear(36, 2)), x, name, target=1)
        )


def test_centre_falls_with_the_distance_from_the_middle():
    a = maps("centre", torch.zeros(1, 1, 9, 9))[0]
    assert a.argmax() == 40
    assert a[0, 0] < a[0, 4] < a[2, 4]
