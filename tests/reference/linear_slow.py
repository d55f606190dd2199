"""Linear imputation written from its definition: one equation per removed pixel, solved sparsely."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import spsolve


def system(image: np.ndarray, removed: np.ndarray) -> tuple[csc_array, np.ndarray]:
    """Matrix, and a right-hand side for each channel of (c, h, w); unknowns in row-major order.

    (sum of the weights) · x_i - sum of weight · unknown x_j = sum of weight · known x_j
    """
    h, w = removed.shape
    pixels = [(i, j) for i in range(h) for j in range(w) if removed[i, j]]
    number = {pixel: k for k, pixel in enumerate(pixels)}
    entries = []
    b = np.zeros((len(pixels), len(image)))
    for k, (i, j) in enumerate(pixels):
        for a in range(max(i - 1, 0), min(i + 2, h)):
            for c in range(max(j - 1, 0), min(j + 2, w)):
                if (a, c) == (i, j):
                    continue
                weight = 1 / 6 if a == i or c == j else 1 / 12
                entries.append((weight, k, k))
                if (a, c) in number:
                    entries.append((-weight, k, number[a, c]))
                else:
                    b[k] += weight * image[:, a, c].astype(np.float64)
    values, rows, columns = (np.array(part) for part in zip(*entries, strict=True))
    # Entries at the same place are added up.
    return csc_array((values, (rows.astype(int), columns.astype(int)))), b


def impute(image: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """All channels (c, h, w) of one image, in double precision. Some pixel must be known."""
    result = image.astype(np.float64)
    if removed.any():
        matrix, b = system(image, removed)
        solution = spsolve(matrix, b) if len(b) > 1 else b / matrix.toarray()
        result[:, removed] = solution.reshape(b.shape).T
    return result
