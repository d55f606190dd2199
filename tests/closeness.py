"""Whether values agree up to rounding: batches of other sizes are computed by other kernels."""

from __future__ import annotations

from torch import Tensor

TOLERANCE = 1e-5
"""The largest difference that counts as rounding, as a share of the largest value."""


def alike(a: Tensor, b: Tensor, tolerance: float = TOLERANCE) -> bool:
    """Whether two tensors have the same shape and agree to a share of the largest value."""
    if a.shape != b.shape:
        return False
    largest = max(float(b.abs().max()), 1e-12) if b.numel() else 1.0
    return bool(((a - b).abs() <= tolerance * largest).all())
