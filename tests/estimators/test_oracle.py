"""The known important pixels, and smooth maps that know nothing."""

from __future__ import annotations

import pytest
import torch

from tests.estimators.perturbing import Linear, around, images
from uproar.errors import NotApplicable
from uproar.estimators import estimators, read_chain
from uproar.estimators.control import oracle, random_blurred

MODEL = Linear(3, 16, 16)
TARGET = torch.zeros(400, dtype=torch.long)


def test_the_oracle_ranks_the_important_pixels_first():
    x = images(4, 3, 16, 16)
    truth = images(4, 16, 16, seed=3) > 0.8
    maps = oracle(MODEL, x, TARGET[:4], around(x, truth=truth))
    assert maps.shape == (4, 1, 16, 16)
    assert maps[:, 0][truth].min() > maps[:, 0][~truth].max()


def test_the_oracle_says_why_it_is_missing():
    x = images(2, 3, 16, 16)
    with pytest.raises(NotApplicable, match="the important pixels of this task are not known"):
        oracle(MODEL, x, TARGET[:2], around(x))


def test_neighbours_in_a_blurred_map_are_alike_and_distant_pixels_are_not():
    x = images(400, 3, 16, 16)
    maps = random_blurred(MODEL, x, TARGET, around(x), sigma=1.0)[:, 0].double()
    maps = maps - maps.mean(0)
    spread = maps[:, 8, 2].square().mean()
    # the correlation of white noise behind a Gaussian filter is exp(−d² / 4σ²)
    for distance, expected in ((1, 0.78), (2, 0.37), (8, 0.0)):
        together = (maps[:, 8, 2] * maps[:, 8, 2 + distance]).mean() / spread
        assert abs(float(together) - expected) < 0.15


def test_every_place_is_equally_likely_to_come_first():
    x = images(400, 3, 16, 16)
    maps = random_blurred(MODEL, x, TARGET, around(x))[:, 0]
    first = maps.flatten(1).argmax(1)
    halves = [(first // 16 < 8).double().mean(), (first % 16 < 8).double().mean()]
    assert all(abs(float(half) - 0.5) < 0.1 for half in halves)


def test_a_larger_sigma_is_smoother():
    x = images(5, 3, 16, 16)
    rough, smooth = (random_blurred(MODEL, x, TARGET[:5], around(x), sigma=s) for s in (0.5, 4.0))
    step = [(m[..., 1:] - m[..., :-1]).abs().mean() / m.std() for m in (rough, smooth)]
    assert step[1] < 0.5 * step[0]


def test_neither_looks_at_the_model():
    for name in ("oracle", "random_blurred"):
        assert not read_chain(name).needs_model
        assert estimators[name].facts["passes"] == 0
