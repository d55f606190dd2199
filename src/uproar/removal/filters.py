"""Gaussian filters along one axis: the kernel, and how a signal goes on beyond its ends."""

from __future__ import annotations

import torch
from torch import Tensor


def gaussian_kernel(steps: Tensor, sigma: float) -> Tensor:
    """Weights of a Gaussian at these distances from its centre, in double precision; they sum to 1."""
    weights = torch.exp(-0.5 * (steps.double() / sigma).square())
    return weights / weights.sum()


def mirrored(length: int, before: int, after: int) -> Tensor:
    """Where a signal is read that goes on mirrored beyond its ends, the end itself not repeated.

    >>> mirrored(3, 2, 1).tolist()
    [2, 1, 0, 1, 2, 1]
    """
    period = max(1, 2 * length - 2)
    place = torch.arange(-before, length + after) % period
    return torch.minimum(place, period - place).clamp_max(length - 1)


def correlate(x: Tensor, kernel: Tensor, dim: int) -> Tensor:
    """The weighted sum of the values around each one along an axis; the signal is mirrored at its ends."""
    size = len(kernel)
    place = mirrored(x.shape[dim], size // 2, (size - 1) // 2).to(x.device)
    return weighted_windows(x.index_select(dim, place), kernel, dim)


def weighted_windows(x: Tensor, kernel: Tensor, dim: int) -> Tensor:
    """The weighted sum of every window of the kernel's length along an axis."""
    return (x.unfold(dim, len(kernel), 1) * kernel).sum(-1)
