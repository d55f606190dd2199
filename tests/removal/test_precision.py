"""Maps are ranked in the precision they come in: no two values that differ become equal."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import uproar
from uproar.errors import BadInput
from uproar.estimators.adapters import StoredMaps
from uproar.scoring import score_all
from uproar.tensors import map_values

ORDER = torch.randperm(64, generator=torch.Generator().manual_seed(3))
CLOSE = {
    "float64": 1 + ORDER.double().view(1, 8, 8) * 1e-9,
    "int64": 2**40 + ORDER.view(1, 8, 8),
    "int32": (2**25 + ORDER.view(1, 8, 8)).int(),
}


@pytest.mark.parametrize("name", sorted(CLOSE))
def test_values_closer_than_float32_can_tell_are_removed_in_their_order(name):
    for k in (1, 13, 40):
        gone = uproar.removed(CLOSE[name], k / 64)
        assert torch.equal(gone.flatten(), 64 - k <= ORDER)


@pytest.mark.parametrize("name", sorted(CLOSE))
def test_they_are_scored_like_their_ranks(name):
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    x, y = torch.rand(1, 1, 8, 8), torch.tensor([1])
    ranked = ORDER.float().view(1, 8, 8)
    scores = score_all(model, x, y, {"ranks": ranked, "close": CLOSE[name]}, ["deletion(steps=16, fill=channel_mean)"])
    values = scores.per_image.set_index("method")["value"]
    assert values["close"] == values["ranks"]
    assert (scores.table["tied"] == 0).all()


def test_float32_stays_and_other_types_keep_their_values():
    single = torch.rand(2, 3, 3)
    assert map_values(single) is single
    for dtype in (torch.float16, torch.bfloat16, torch.uint8, torch.bool, torch.int16):
        given = (torch.rand(2, 3, 3) * 200).to(dtype)
        assert map_values(given).dtype == torch.float32 and torch.equal(map_values(given), given.float())
    with pytest.raises(BadInput, match=r"beyond 2\*\*53"):
        map_values(torch.tensor([2**53, 2**53 + 1]))
    with pytest.raises(BadInput, match="complex"):
        map_values(torch.ones(2, dtype=torch.complex64))


@pytest.mark.parametrize(
    ("dtype", "kept"), [("float64", torch.float64), ("float32", torch.float32), ("float16", torch.float32)]
)
def test_stored_maps_keep_their_precision(tmp_path, dtype, kept):
    task = uproar.load("planted(size=8, classes=3, train=6, test=4)")
    values = (1 + np.arange(64).reshape(1, 8, 8) * 1e-9).repeat(10, 0).astype(dtype)
    np.savez(tmp_path / "maps.npz", train=values[:6], test=values[:4])
    result = StoredMaps("maps:x", tmp_path / "maps.npz").read(task.test, [0, 2])
    assert result.dtype == kept
    assert np.array_equal(result[0, 0].numpy(), values[0].astype(result.numpy().dtype))


def test_a_function_that_returns_float64_is_ranked_as_it_is():
    def nearly_flat(model, x, target):
        return CLOSE["float64"].expand(len(x), 8, 8)

    maps = uproar.explain(torch.nn.Flatten(), torch.rand(2, 1, 8, 8), nearly_flat, target=0)
    assert maps.dtype == torch.float64
    assert torch.equal(uproar.removed(maps, 0.25)[1].flatten(), ORDER >= 48)
