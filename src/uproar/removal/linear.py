"""Linear imputation: every removed pixel becomes the weighted mean of its eight neighbours.

Direct neighbours weigh 1/6, diagonal ones 1/12, neighbours outside the image nothing. The removed
pixels of an image are thus the unknowns of a linear system, the same for all channels. Small or
loose holes are solved by Cholesky, the others by conjugate gradients with multigrid as
preconditioner. The noise of *noisy* linear imputation is the caller's.
"""

from __future__ import annotations

import functools
import importlib
import threading
import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import NamedTuple

import numpy as np

from uproar.errors import BadInput

# V-cycles before a system counts as not converging; 5 to 10 are usual.
_LIMIT = 60
# Cholesky is faster up to about this many multiply-adds per pixel around a hole (measured).
_DIRECT_WORK = 160.0
# With more removed than this, scattered pixels are one large hole and looking for others is vain,
# unless the image is small (looking costs nothing) or narrow (Cholesky may do).
_DENSE, _LARGE = 0.4, 48
# Narrow landscape images are turned, which makes the rows of the Cholesky factor short.
_NARROW = 16
# Work arrays up to this many bytes stay allocated between calls (224 x 224 pixels take 3 MB).
_KEEP = 2**26


def impute(x: np.ndarray, removed: np.ndarray, *, constant: np.ndarray | float = 0.0, tol: float = 5e-6) -> np.ndarray:
    """The images with removed pixels interpolated from the known ones, which stay bit for bit.

    `x` is float32 (n, c, h, w); `removed` is bool (n, h, w), or (n, c, h, w) with a mask for each
    channel. Where nothing is known, pixels become `constant` (a number, or one for each channel).
    The error is about `tol` times the range of the pixels around a hole, or less. An image's
    result depends neither on the rest of the batch nor on what stood in its removed pixels.

    >>> x = np.array([[[[0.0, 7.0, 7.0, 3.0]]]], dtype=np.float32)
    >>> impute(x, x[:, 0] == 7)
    array([[[[0., 1., 2., 3.]]]], dtype=float32)
    """
    n, c, h, w = x.shape
    if x.size == 0:
        return x.copy()
    if not np.isfinite(x).all():
        known = ~removed if removed.ndim == 4 else ~removed[:, None]
        for image, channel, row, column in np.argwhere(known & ~np.isfinite(x))[:1]:
            raise BadInput(
                f"Known pixels must be finite, but image {image} is {x[image, channel, row, column]} in channel "
                f"{channel}, row {row}, column {column}; remove such pixels or replace them."
            )
    constants = np.broadcast_to(np.asarray(constant, dtype=np.float32), (n, c))
    if removed.ndim == 4:
        x, removed, constants = (a.reshape(n * c, 1, *a.shape[2:]) for a in (x, removed, constants))
        removed = removed[:, 0]
    turned = h < w and h <= _NARROW
    if turned:
        x, removed = x.swapaxes(2, 3), removed.swapaxes(1, 2)

    result = np.array(x, order="C")
    removed, kernels = np.ascontiguousarray(removed), _kernels()
    solver = _solver(kernels, result.shape[2:]) if kernels else None
    failed = sum(_fill_image(result[i], removed[i], constants[i], tol, solver) for i in range(len(result)))
    if failed:
        warnings.warn(
            f"{failed} of {n * c} linear systems did not reach the accuracy {tol:g} within {_LIMIT} "
            "multigrid cycles and were solved directly, which is exact but slow.",
            RuntimeWarning,
            stacklevel=2,
        )
    if turned:
        result = np.ascontiguousarray(result.swapaxes(2, 3))
    return result.reshape(n, c, h, w)


def warm_up() -> bool:
    """Whether compiled kernels are there now; compiles them if the cache has none (10 to 20 s)."""
    return _kernels() is not None


@functools.cache
def _kernels() -> ModuleType | None:
    """The compiled kernels, or None where Numba cannot be imported."""
    # Imported here, since the import compiles: nobody should wait who does not impute.
    try:
        return importlib.import_module("uproar.removal._multigrid")
    except ImportError as error:
        warnings.warn(
            f"Numba cannot be imported ({error}), so linear imputation uses SciPy's sparse solver: "
            "same images, but ten to a hundred times slower.",
            RuntimeWarning,
            stacklevel=4,
        )
        return None


def _fill_image(x: np.ndarray, removed: np.ndarray, constant: np.ndarray, tol: float, solver: _Solver | None) -> int:
    """Fills the channels of one image in place; returns how many multigrid failed to solve."""
    if removed.all():
        x[:] = constant[:, None, None]
        return 0
    if solver is None:
        _solve_sparse(x, removed)
        return 0
    failed = sorted(solver.fill(x, removed, tol))
    if failed:
        # Not a view: fancy indices copy the channels out, and back.
        channels = x[failed]
        _solve_sparse(channels, removed)
        x[failed] = channels
    return len(failed)


def _solve_sparse(x: np.ndarray, removed: np.ndarray) -> None:
    """Fills all channels in place by a sparse LU factorisation."""
    rows, columns = np.nonzero(removed)
    unknowns = len(rows)
    number = np.full(np.add(removed.shape, 2), -1)
    number[1:-1, 1:-1][removed] = np.arange(unknowns)
    known = np.zeros(number.shape, dtype=bool)
    known[1:-1, 1:-1] = ~removed
    values = np.zeros((*number.shape, len(x)))
    values[1:-1, 1:-1] = np.where(removed, 0, x).transpose(1, 2, 0)

    degree = np.zeros(unknowns)
    b = np.zeros((unknowns, len(x)))
    couplings = []
    for down, right in np.ndindex(3, 3):
        if (down, right) == (1, 1):
            continue
        weight = 1 / 6 if 1 in (down, right) else 1 / 12
        neighbour = rows + down, columns + right
        other = number[neighbour]
        degree += weight * (known[neighbour] | (other >= 0))
        b += weight * values[neighbour]
        mine = np.flatnonzero(other >= 0)
        couplings.append((np.full(len(mine), -weight), mine, other[mine]))
    couplings.append((degree, np.arange(unknowns), np.arange(unknowns)))
    entries, i, j = (np.concatenate(column) for column in zip(*couplings, strict=True))
    import scipy.sparse.linalg  # loads slowly

    matrix = scipy.sparse.csc_array((entries, (i, j)), shape=(unknowns, unknowns))
    # A symmetric ordering and no pivoting suit a symmetric positive definite matrix.
    lu = scipy.sparse.linalg.splu(
        matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    x[:, removed] = lu.solve(b).T


class _Plan(NamedTuple):
    """Where the grids of the multigrid levels stand in the work array."""

    table: np.ndarray
    sizes: list[tuple[int, int]]
    scratch: int
    total: int


@functools.lru_cache(maxsize=256)
def _plan(h: int, w: int) -> _Plan:
    """The levels of a window: sides are halved, rounding up, until both are at most 2."""
    sizes = [(h, w)]
    while max(sizes[-1]) > 2:
        sizes.append(((sizes[-1][0] + 1) // 2, (sizes[-1][1] + 1) // 2))
    rows, offset = [], 0
    for height, width in sizes:
        stride = width + 1
        size = (height + 2) * stride + 1
        count = (height - 1) * stride + width
        rows.append((height, width, stride, offset + stride + 1, size, count))
        offset += 10 * size
    # Scratch space for the matrix that is coarse along rows only.
    half = 5 * ((h + 2) * ((w + 1) // 2 + 1) + 1)
    return _Plan(np.array(rows, dtype=np.uint64), sizes, offset, offset + half)


class _Window(NamedTuple):
    """A part of the image that contains a hole and the known pixels next to it; ends excluded."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def area(self) -> int:
        return (self.bottom - self.top) * (self.right - self.left)


class _Solver:
    """The kernels with the arrays they work in, for images of one size; used by one thread."""

    def __init__(self, kernels: ModuleType, size: tuple[int, int]) -> None:
        h, w = size
        grid = (h + 2) * (w + 1) + 1
        labels = ((h + 1) // 2) * ((w + 1) // 2) + 1  # two pixels of a 2x2 block share one
        self.kernels, self.size = kernels, size
        self.label, self.number = np.zeros((2, grid), dtype=np.int32)
        self.pixel, self.order, self.rim, self.source = np.empty((4, h * w), dtype=np.int32)
        self.row = np.empty(h + 1, dtype=np.int32)
        self.parent = np.empty(labels, dtype=np.int32)
        self.holes = np.empty((labels, 8), dtype=np.int64)
        self.solution = np.empty(grid, dtype=np.float64)
        self.work = np.empty(_plan(h, w).total, dtype=np.float32)

    def fill(self, x: np.ndarray, removed: np.ndarray, tol: float) -> set[int]:
        """Fills the channels of one image in place; returns those that did not converge."""
        h, w = removed.shape
        count = self.kernels.survey(removed, self.label, self.pixel, self.row)
        if count == 0:
            return set()
        if count > _DENSE * h * w and min(h, w) >= _LARGE:
            return self._multigrid(x, 1, _around(_extent(removed), h, w), tol)
        boxes = self._direct(x, removed)
        windows = [_around(box, h, w) for box in boxes]
        if not windows:
            return set()
        tops, bottoms, lefts, rights = zip(*windows, strict=True)
        whole = _Window(min(tops), max(bottoms), min(lefts), max(rights))
        if sum(window.area for window in windows) > whole.area:
            return self._multigrid(x, 0, whole, tol)
        failed: set[int] = set()
        for k, window in enumerate(windows, start=1):
            failed |= self._multigrid(x, k, window, tol)
        return failed

    def _direct(self, x: np.ndarray, removed: np.ndarray) -> list[list[int]]:
        """Fills the holes that are cheap to factorise; returns the bounds of the others."""
        self.number.fill(0)
        hard, unknowns, entries = self.kernels.split(
            self.pixel,
            self.row,
            removed.shape[1],
            self.label,
            self.number,
            self.order,
            self.parent,
            self.holes,
            _DIRECT_WORK,
        )
        if unknowns:
            end = np.empty(unknowns + 1, dtype=np.uint64)
            factor, b = np.zeros(entries), np.zeros(len(x) * unknowns)
            self.kernels.direct(x, removed, self.number, self.order, factor, end, b)
        return self.holes[:hard, :4].tolist()

    def _multigrid(self, x: np.ndarray, hole: int, at: _Window, tol: float) -> set[int]:
        """Fills one hole (all, if 0) in every channel; returns those that did not converge."""
        h, w = x.shape[1:]
        plan = _plan(at.bottom - at.top, at.right - at.left)
        border_x, border_y = at.right == w, at.bottom == h
        work, table = self.work, plan.table
        work[: plan.scratch] = 0
        count = self.kernels.finest(self.label, hole, at.top, at.left, h, w, work, table, self.rim, self.source)
        rim, source = self.rim[:count], self.source[:count]
        levels = self._coarsen(plan, border_x, border_y)
        solution = self.solution[: int(table[0, 4])]
        bits = work.view(np.int32)
        failed = set()
        for channel, pixels in enumerate(x.reshape(len(x), h * w)):
            low, high = self.kernels.load(pixels, rim, source, solution)
            if low < high and not self.kernels.iterate(
                solution, work, bits, table, levels, plan.scratch, border_x, border_y, tol, _LIMIT
            ):
                failed.add(channel)
                continue
            self.kernels.store(solution, low, high, work, table, at.top * w + at.left, w, pixels)
        return failed

    def _coarsen(self, plan: _Plan, border_x: bool, border_y: bool) -> int:
        """Makes the coarser levels; returns how many levels there are."""
        for level, (height, width) in enumerate(plan.sizes[:-1]):
            arguments = self.work, plan.table
            # A line that is left over at the image border repeats its neighbour.
            self.kernels.collapse_x(*arguments, level, plan.scratch, border_x and width % 2 == 0)
            self.kernels.collapse_y(*arguments, level + 1, plan.scratch, border_y and height % 2 == 0)
            if not self.kernels.restrain(*arguments, level + 1):
                return level + 1
        return len(plan.sizes)


_kept = threading.local()


def _solver(kernels: ModuleType, size: tuple[int, int]) -> _Solver:
    """A solver for this thread, the previous one if the size is the same."""
    # Fresh memory costs as much as a small hole, since the system hands it out page by page.
    solver: _Solver | None = getattr(_kept, "solver", None)
    if solver is None or solver.size != size:
        solver = _Solver(kernels, size)
        if solver.work.nbytes <= _KEEP:
            _kept.solver = solver
    return solver


def _extent(removed: np.ndarray) -> tuple[int, int, int, int]:
    """Bounds of the removed pixels; ends excluded."""
    rows, columns = np.flatnonzero(removed.any(1)), np.flatnonzero(removed.any(0))
    return int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1


def _around(box: Iterable[int], h: int, w: int) -> _Window:
    """The box and the pixels next to it."""
    top, bottom, left, right = box
    return _Window(max(top - 1, 0), min(bottom + 1, h), max(left - 1, 0), min(right + 1, w))
