"""Metrics that change images, image by image and pixel by pixel, as their definitions read."""

from __future__ import annotations

import itertools

import numpy as np
import torch


def probability(model, image, target):
    with torch.no_grad():
        scores = model(torch.from_numpy(image)[None].repeat(2, 1, 1, 1))[0].double().numpy()
    scores = np.exp(scores - scores.max())
    return scores[target] / scores.sum()


def path(model, image, canvas, order, target, steps, inserts):
    """Probabilities while pixels of the order come (or go), and their area by trapezoids."""
    h, w = image.shape[1:]
    start, end = (canvas, image) if inserts else (image, canvas)
    curve = []
    for i in range(steps + 1):
        now = start.copy()
        for p in order[: round(i / steps * h * w)]:
            now[:, p // w, p % w] = end[:, p // w, p % w]
        curve.append(probability(model, now, target))
    area = sum((a + b) / 2 for a, b in itertools.pairwise(curve)) / steps
    return np.array(curve), area


def region_order(values, size):
    """Pixels window by window, inside a window by value."""
    h, w = values.shape
    by_value = sorted(range(h * w), key=lambda p: -values.flat[p])
    order, taken = [], set()
    for p in by_value:
        if p in taken:
            continue
        row, column = divmod(p, w)
        rows = range(max(row - size // 2, 0), min(row + (size - 1) // 2 + 1, h))
        columns = range(max(column - size // 2, 0), min(column + (size - 1) // 2 + 1, w))
        window = {r * w + c for r in rows for c in columns} - taken
        order += [q for q in by_value if q in window]
        taken |= window
    return order


def soundness(correct, values, hidden, epsilon):
    """Algorithm 3: (accuracy, soundness) for falling numbers of hidden pixels.

    `correct` is (steps, images) of 0 and 1, `values` holds the flat non-negative maps.
    """
    ascending = [np.sort(v) for v in values]
    false = [set() for _ in values]
    before, hidden_before, curve = 0.0, len(values[0]), []
    for row, m in zip(correct, hidden, strict=True):
        accuracy = sum(row) / len(row)
        if sum(row) / len(row) - before < epsilon - 1e-12:
            for wrong in false:
                wrong |= set(range(m, hidden_before))
        shares = []
        for v, wrong in zip(ascending, false, strict=True):
            included = sum(v[m:])
            shares.append((included - sum(v[j] for j in wrong)) / included)
        curve.append((accuracy, sum(shares) / len(shares)))
        before, hidden_before = accuracy, m
    return np.array(curve)
