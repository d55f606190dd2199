"""Time of linear imputation against the sparse LU solve that ROAD was published with.

    python benchmarks/imputation.py            about a minute
    python benchmarks/imputation.py --quick    a few seconds, rougher

The other side is written here from the equations: per image, the neighbour weights of all removed
pixels are collected as coordinate triples, turned into one compressed sparse matrix, and
`scipy.sparse.linalg.spsolve` factorises it (SuperLU, default ordering) and solves for all channels
at once. Index arithmetic is vectorised, and the factorisation is shared by the channels: solving
channel by channel, or filling the matrix entry by entry, would only make it slower.

Both sides get one image of three channels per call and one thread, and take turns within a run, so
that a busy machine slows both. Given are medians; the error is the largest over all images, whose
pixels are between -3 and 3.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from scipy.ndimage import gaussian_filter  # noqa: E402
from scipy.sparse import csc_array  # noqa: E402
from scipy.sparse.linalg import spsolve  # noqa: E402

from uproar.removal.linear import impute, warm_up  # noqa: E402

TARGETS = {(224, 10): 8, (224, 50): 25, (224, 90): 25, (32, 10): 8, (32, 50): 8, (32, 90): 8}
NEIGHBOURS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]


def sparse_lu(x: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """One image (c, h, w) by a sparse LU factorisation in double precision."""
    h, w = removed.shape
    row, column = np.nonzero(removed)
    unknowns = len(row)
    number = np.zeros((h, w), dtype=np.int64)
    number[removed] = np.arange(unknowns)
    values, rows, columns = [], [], []
    degree, b = np.zeros(unknowns), np.zeros((unknowns, len(x)))
    for down, right in NEIGHBOURS:
        weight = 1 / 12 if down and right else 1 / 6
        i, j = row + down, column + right
        inside = np.flatnonzero((i >= 0) & (i < h) & (j >= 0) & (j < w))
        i, j = i[inside], j[inside]
        degree[inside] += weight
        gone = removed[i, j]
        b[inside[~gone]] += weight * x[:, i[~gone], j[~gone]].T
        rows.append(inside[gone])
        columns.append(number[i[gone], j[gone]])
        values.append(np.full(gone.sum(), -weight))
    rows.append(np.arange(unknowns))
    columns.append(np.arange(unknowns))
    values.append(degree)
    place = np.concatenate(rows), np.concatenate(columns)
    matrix = csc_array((np.concatenate(values), place), shape=(unknowns, unknowns))
    result = x.copy()
    result[:, removed] = spsolve(matrix, b).T
    return result


def hole(kind: str, size: int, percent: int, seed: int) -> np.ndarray:
    """A mask with exactly this share of pixels removed."""
    score = np.random.default_rng(seed).standard_normal((size, size))
    if kind == "blob":
        score = gaussian_filter(score, size / 14, mode="wrap")
    removed = np.zeros(size * size, dtype=bool)
    removed[np.argsort(score, axis=None)[: round(size * size * percent / 100)]] = True
    return removed.reshape(size, size)


def milliseconds(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return 1000 * (time.perf_counter() - begin)


def compare(kind: str, size: int, percent: int, images: int) -> tuple[float, float, float]:
    """Median milliseconds of both sides, and the largest difference between their images."""
    ours, theirs, error = [], [], 0.0
    for seed in range(images):
        x = np.random.default_rng(seed).uniform(-3, 3, (3, size, size)).astype(np.float32)
        removed = hole(kind, size, percent, seed)
        difference = impute(x[None], removed[None])[0] - sparse_lu(x, removed)
        error = max(error, float(np.abs(difference).max()))
        for _ in range(3):
            ours.append(milliseconds(lambda: impute(x[None], removed[None])))  # noqa: B023
        theirs.append(milliseconds(lambda: sparse_lu(x, removed)))  # noqa: B023
        for _ in range(3):
            ours.append(milliseconds(lambda: impute(x[None], removed[None])))  # noqa: B023
    return float(np.median(ours)), float(np.median(theirs)), error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer images")
    quick = parser.parse_args().quick
    print(f"kernels ready after {milliseconds(warm_up) / 1000:.1f} s")
    print("| size | mask | removed | sparse LU | ours | ratio | target | largest error |")
    print("|---|---|---|---|---|---|---|---|")
    for (size, percent), target in TARGETS.items():
        images = {224: 2, 32: 10}[size] if quick else {224: 10, 32: 60}[size]
        for kind in ("scattered", "blob"):
            ours, theirs, error = compare(kind, size, percent, images)
            print(
                f"| {size}×{size} | {kind} | {percent} % | {theirs:.2f} ms | {ours:.3f} ms | "
                f"{theirs / ours:.0f}× | {target}× | {error:.0e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
