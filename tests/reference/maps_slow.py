"""Metrics of maps written from their definitions, pixel by pixel."""

from __future__ import annotations

import math
from itertools import product

import numpy as np


def gini(values: np.ndarray) -> float:
    """Mean absolute difference of all pairs over twice the mean."""
    v = values.ravel().astype(float)
    return np.abs(v[:, None] - v[None, :]).mean() / (2 * v.mean())


def entropy(values: np.ndarray) -> float:
    total = float(values.sum())
    return -sum(v / total * math.log(v / total) for v in values.ravel().tolist() if v > 0)


def total_variation(a: np.ndarray) -> float:
    h, w = a.shape
    total = 0.0
    for i, j in product(range(h), range(w)):
        if j + 1 < w:
            total += abs(float(a[i, j + 1]) - float(a[i, j]))
        if i + 1 < h:
            total += abs(float(a[i + 1, j]) - float(a[i, j]))
    return total / (h * w)


def near(region: np.ndarray, tolerance: float) -> np.ndarray:
    """Pixels in the region, or less than `tolerance` away from a pixel of it."""
    inside = np.argwhere(region)
    out = region.copy()
    for i, j in product(*map(range, region.shape)):
        out[i, j] |= any((i - r) ** 2 + (j - c) ** 2 < tolerance**2 for r, c in inside)
    return out


def ssim(a: np.ndarray, b: np.ndarray, size: int = 11, sigma: float = 1.5) -> float:
    """Mean over all windows inside the image of Wang's similarity, dynamic range 1."""
    at = np.arange(size) - size // 2
    weights = np.exp(-(at[:, None] ** 2 + at[None, :] ** 2) / (2 * sigma**2))
    weights /= weights.sum()
    values = []
    for i, j in product(range(a.shape[0] - size + 1), range(a.shape[1] - size + 1)):
        p, q = a[i : i + size, j : j + size], b[i : i + size, j : j + size]
        mp, mq = (weights * p).sum(), (weights * q).sum()
        vp, vq = (weights * (p - mp) ** 2).sum(), (weights * (q - mq) ** 2).sum()
        both = (weights * (p - mp) * (q - mq)).sum()
        values.append((2 * mp * mq + 1e-4) * (2 * both + 9e-4) / ((mp**2 + mq**2 + 1e-4) * (vp + vq + 9e-4)))
    return float(np.mean(values))
