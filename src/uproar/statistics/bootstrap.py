"""The bootstrap: which images a resample draws.

A metric that is a mean over images needs none: its standard error is known (`intervals.py`). A statistic of the data
set is computed anew on every resample. All methods share the resamples, so that their differences are paired.
"""

from __future__ import annotations

import torch
from torch import Tensor

from uproar.seeds import generator

DRAWS = 200
"""Resamples of the images for a statistic of the data set."""


def resampled_images(n: int, draws: int = DRAWS, seed: int = 0, name: str = "bootstrap") -> Tensor:
    """Rows of `n` images drawn with replacement, (draws, n)."""
    return torch.randint(n, (draws, n), generator=generator(seed, name, n))
