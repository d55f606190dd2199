"""The share of positive relevance in the right cell, computed by hand."""

from __future__ import annotations

import math

import torch
from torch import nn

from uproar.metrics import Batch
from uproar.metrics.localisation import grid_pointing
from uproar.seeds import Draws


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


def test_a_random_map_gets_one_in_k_squared():
    maps = torch.rand(400, 6, 6, generator=torch.Generator().manual_seed(0))
    cell = torch.zeros(6, 6, dtype=torch.bool)
    cell[:2, :2] = True
    assert abs(values(maps, cell.expand(400, 6, 6))["value"].mean() - 1 / 9) < 0.01
