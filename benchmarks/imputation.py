"""Time of linear imputation against the sparse LU solve that ROAD was published with.

    python benchmarks/imputation.py            two or three minutes
    python benchmarks/imputation.py --quick    a few seconds, rougher

The other side is written here from the equations, in two forms:

released   the steps of the published code: the matrix of an image is filled as a list-of-lists
           matrix, one vectorised assignment for each of the eight neighbours, converted to
           compressed columns and given to `scipy.sparse.linalg.spsolve` (SuperLU, default
           ordering) with all channels as right-hand sides of one call. The targets refer to it.
lean       the same solve, but the matrix is made from coordinate triples, which takes a fraction
           of the time: what is left when only the factorisation counts.

All sides get one image of three channels per call and one thread, and take turns within a run, so
that a busy machine slows all of them. Given are medians; the error is the largest over all images,
whose pixels are between -3 and 3.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.sparse import csc_array, lil_array
from scipy.sparse.linalg import spsolve

from uproar.removal.linear import impute, warm_up

TARGETS = {(224, 10): 8, (224, 50): 25, (224, 90): 25, (32, 10): 8, (32, 50): 8, (32, 90): 8}
NEIGHBOURS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]

Coupling = tuple[float, np.ndarray, np.ndarray]


def equations(x: np.ndarray, removed: np.ndarray) -> tuple[Iterator[Coupling], np.ndarray, np.ndarray]:
    """Couplings between unknowns for one neighbour at a time; diagonal and right-hand side.

    The latter two are complete once all couplings have been taken.
    """
    h, w = removed.shape
    row, column = np.nonzero(removed)
    number = np.zeros((h, w), dtype=np.int64)
    number[removed] = np.arange(len(row))
    degree, b = np.zeros(len(row)), np.zeros((len(row), len(x)))

    def couplings() -> Iterator[Coupling]:
        for down, right in NEIGHBOURS:
            weight = 1 / 12 if down and right else 1 / 6
            i, j = row + down, column + right
            inside = np.flatnonzero((i >= 0) & (i < h) & (j >= 0) & (j < w))
            i, j = i[inside], j[inside]
            degree[inside] += weight
            gone = removed[i, j]
            b[inside[~gone]] += weight * x[:, i[~gone], j[~gone]].T
            yield -weight, inside[gone], number[i[gone], j[gone]]

    return couplings(), degree, b


def released(x: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """One image (c, h, w), the matrix filled as a list of lists."""
    couplings, degree, b = equations(x, removed)
    matrix = lil_array((len(b), len(b)))
    for weight, rows, columns in couplings:
        matrix[rows, columns] = weight
    every = np.arange(len(b))
    matrix[every, every] = degree
    return with_solution(x, removed, matrix.tocsc(), b)


def lean(x: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """One image (c, h, w), the matrix made from triples."""
    couplings, degree, b = equations(x, removed)
    every = np.arange(len(b))
    parts = [(np.full(len(rows), weight), rows, columns) for weight, rows, columns in couplings]
    values, rows, columns = map(np.concatenate, zip(*parts, (degree, every, every), strict=True))
    matrix = csc_array((values, (rows, columns)), shape=(len(b), len(b)))
    return with_solution(x, removed, matrix, b)


def with_solution(x: np.ndarray, removed: np.ndarray, matrix: csc_array, b: np.ndarray) -> np.ndarray:
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


def milliseconds(function: Callable[..., object], *arguments: object) -> float:
    begin = time.perf_counter()
    function(*arguments)
    return 1000 * (time.perf_counter() - begin)


def compare(kind: str, size: int, percent: int, images: int) -> tuple[list[float], float]:
    """Median milliseconds of released, lean and ours; the largest difference between images."""
    times: list[list[float]] = [[], [], []]
    error = 0.0
    for seed in range(images):
        x = np.random.default_rng(seed).uniform(-3, 3, (3, size, size)).astype(np.float32)
        removed = hole(kind, size, percent, seed)
        difference = impute(x[None], removed[None])[0] - lean(x, removed)
        error = max(error, float(np.abs(difference).max()))
        for solve, taken in zip((released, lean), times, strict=False):
            taken.append(milliseconds(solve, x, removed))
            for _ in range(3):  # ours is short: more turns
                times[2].append(milliseconds(impute, x[None], removed[None]))
    return [float(np.median(taken)) for taken in times], error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer images")
    quick = parser.parse_args().quick
    print(f"kernels ready after {milliseconds(warm_up) / 1000:.1f} s; times in ms\n")
    print("| size | mask | removed | released | lean | ours | faster than released (target) | ", end="")
    print("than lean | largest error |\n|---|---|---|---|---|---|---|---|---|")
    for (size, percent), target in TARGETS.items():
        images = {224: 2, 32: 10}[size] if quick else {224: 10, 32: 60}[size]
        for kind in ("scattered", "blob"):
            (first, second, ours), error = compare(kind, size, percent, images)
            print(
                f"| {size}×{size} | {kind} | {percent} % | {first:.2f} | {second:.2f} | {ours:.3f} "
                f"| {first / ours:.0f}× ({target}×) | {second / ours:.0f}× | {error:.0e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
