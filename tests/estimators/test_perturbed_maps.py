"""Maps changed on purpose: exact numbers, released code, and nothing that depends on the batch."""

from __future__ import annotations

import pytest
import torch

from uproar.errors import BadOption
from uproar.estimators import read_chain
from uproar.seeds import Draws


def _changed(text, a, index=None):
    draws = Draws.of(0, len(a) if index is None else index)
    return read_chain(text).reduced(a[:, None], draws)


TENTHS = torch.arange(-2.0, 8.0).view(1, 2, 5)  # scaled: 0 0 0 1/7 2/7 3/7 4/7 5/7 6/7 1


def test_a_constant_is_taken_from_or_added_to_the_scaled_map():
    unit = TENTHS.clamp_min(0) / 7
    less, more = _changed("remove_values(grad)", TENTHS), _changed("introduce_values(grad)", TENTHS)
    torch.testing.assert_close(less, (unit - 0.6).clamp(0, 1))
    torch.testing.assert_close(more, (unit + 0.6).clamp(0, 1))
    torch.testing.assert_close(_changed("remove_values(grad, clip=false)", TENTHS), unit - 0.6)
    torch.testing.assert_close(_changed("introduce_values(grad, amount=0.1, clip=false)", TENTHS), unit + 0.1)


def test_random_values_lie_between_nothing_and_the_amount_and_belong_to_the_sample():
    a = torch.rand(5, 6, 6)
    unit = a / a.amax((1, 2), keepdim=True)
    less = _changed("remove_values(grad, scheme=random, clip=false)", a)
    gone = unit - less
    assert float(gone.min()) >= 0
    assert float(gone.max()) <= 0.6
    assert float(gone.std()) > 0.1
    alone = _changed("remove_values(grad, scheme=random, clip=false)", a[3:4], [3])
    assert torch.equal(less[3:4], alone)


def test_partial_schemes_move_exact_shares_of_the_pixels():
    unit = (TENTHS.clamp_min(0) / 7).flatten()
    less = _changed("remove_values(grad, scheme=partial)", TENTHS).flatten()
    assert less.tolist() == pytest.approx([*unit[:6].tolist(), 0, 0, *unit[8:].tolist()])
    more = _changed("introduce_values(grad, scheme=partial)", TENTHS).flatten()
    high = float(unit.quantile(0.8))
    assert more.tolist() == pytest.approx([high] * 4 + unit[4:].tolist())


def test_a_rectangle_lies_around_the_centre_of_gravity_and_in_the_image():
    a = torch.zeros(3, 8, 8)
    a[0, 3, 4] = a[0, 3, 5] = 2.0
    a[1, 0, 7] = 1.0
    a[2] = -1.0
    changed = _changed("rect(grad, share=0.375)", a)
    assert changed.unique().tolist() == [0, 1]
    assert changed.sum((1, 2)).tolist() == [9, 9, 9]
    assert changed[0, 2:5, 3:6].all() or changed[0, 2:5, 4:7].all()
    assert changed[1, :3, 5:].all()
    assert changed[2, 2:5, 2:5].any()
    assert int(_changed("rect(grad)", torch.rand(1, 224, 224)).sum()) == 60 * 60


def test_pooling_gives_each_band_its_mean():
    a = torch.rand(2, 8, 6)
    changed = _changed("pooling(grad, bands=3)", a)
    for rows in (slice(0, 3), slice(3, 5), slice(5, 8)):
        torch.testing.assert_close(changed[:, rows], a[:, rows].mean((1, 2), keepdim=True).expand_as(a[:, rows]))
    with pytest.raises(BadOption, match="9 bands do not fit into 8 rows"):
        _changed("pooling(grad, bands=9)", a)


def test_coarse_maps_equal_those_of_the_released_code(golden):
    g = golden("coherency")
    ours = _changed("coarse(grad, size=11)", torch.as_tensor(g["blursal_in"]))
    torch.testing.assert_close(ours, torch.as_tensor(g["blursal_out"]), atol=1e-5, rtol=0)
    assert _changed("coarse(grad)", torch.ones(1, 1, 20)).abs().sum() == 0
    with pytest.raises(BadOption, match="size must be odd, not 4"):
        _changed("coarse(grad, size=4)", torch.rand(1, 8, 8))
