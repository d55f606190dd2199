"""Numba kernels of the linear imputer: holes, a direct solver for easy ones, multigrid for the rest.

All kernels are in this file because Numba's cache notices a changed callee only in the same file.
They allocate nothing, and address one work array by unsigned offsets instead of taking slices:
that halves the time to compile them, and signed offsets would not vectorise, since Numba lets
negative ones count from the end.

Grids are flat. Pixel (i, j) of an h x w grid stands at `(i + 1) * s + j + 1` with `s = w + 1`: one
row of zeros above and below, and one column of zeros that serves as right border of a row and left
border of the next. A stencil is then one long loop.

Each level of the hierarchy owns ten consecutive grids of the work array:
D, E, S, SE, SW   the symmetric 9-point matrix: diagonal and the couplings to four later neighbours
G, M              Jacobi weights; 1 for unknowns, 0 elsewhere
R, Z, T           right-hand side, solution, scratch
The finest matrix is known without being stored, so its coupling grids hold Y, P, Q of the conjugate
gradients once the coarser matrices have been made.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

D, E, S, SE, SW, G, M, R, Z, T = (np.uint64(slot) for slot in range(10))
Y, P, Q = E, S, SE
ONE, TWO, FIVE = np.uint64(1), np.uint64(2), np.uint64(5)

# Columns of the level table.
HEIGHT, WIDTH, STRIDE, FIRST, SIZE, COUNT = range(6)

STRAIGHT = np.float32(1 / 6)
DIAGONAL = np.float32(1 / 12)
WHOLE, HALF, QUARTER, THREE_QUARTERS = (np.float32(v) for v in (1, 0.5, 0.25, 0.75))
# Damped Jacobi: just below 1, since the largest eigenvalue next to the image border is 2.
DAMPING = np.float32(0.98)
# Keeps the coarse smoother below 2 although Galerkin couplings may be positive.
ROW_SUM_SHARE = np.float32(1 / 1.9)
COARSEST_SWEEPS = 4
# The single-precision correction is folded into the solution whenever the error fell this far.
REFRESH = 0.01


def _compiled(signature: str | None, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Machine code of a function for one signature, without the interpreter lock."""
    # Sums may be reordered (else they do not vectorise); NaN and infinity keep their meaning.
    options |= {"fastmath": {"reassoc", "contract"}, "error_model": "numpy", "nogil": True}

    def compiled(function: Callable[..., Any]) -> Any:
        plain = inspect.unwrap(function)  # run-time type checks are wrapped around it in tests
        # Entries that nobody uses would cost a seventh of the time to compile.
        options.update(no_cfunc_wrapper=True, no_cpython_wrapper=plain.__name__.startswith("_"))
        try:
            return numba.njit(signature, cache=True, **options)(plain)
        except Exception:
            # No place for the cache, a full disk, a damaged file: compile for this process only. An
            # error in the function itself comes again.
            return numba.njit(signature, **options)(plain)

    return compiled


@_compiled("f8(i8, i8, i8, i8)")
def _degree(i, j, h, w):
    """Sum of the weights of those neighbours of pixel (i, j) that lie inside the image."""
    vertical = (i > 0) + (i < h - 1)
    horizontal = (j > 0) + (j < w - 1)
    return (vertical + horizontal) / 6 + vertical * horizontal / 12


# --- holes ---------------------------------------------------------------------------------------


@_compiled("i8(b1[:, ::1], i4[::1], i4[::1], i4[::1])")
def survey(removed, label, pixel, row):
    """Labels removed pixels 1, lists them, and where each image row starts in the list; counts."""
    h, w = removed.shape
    n = 0
    for i in range(h):
        row[i] = n
        for j in range(w):
            p = (i + 1) * (w + 1) + j + 1
            label[p] = removed[i, j]
            pixel[n] = p
            n += removed[i, j]  # no branch: on scattered pixels every second guess would be wrong
    row[h] = n
    return n


@_compiled("i4(i4[::1], i4)")
def _root(parent, label):
    while parent[label] != label:
        parent[label] = parent[parent[label]]
        label = parent[label]
    return label


@_compiled("i8(i4[::1], i8, i8, i4[::1], i4[::1])")
def _label(pixel, n, s, label, parent):
    """Labels the 8-connected holes by their `parent`, counted from 1; returns how many there are."""
    used = 0
    for index in range(n):
        p = pixel[index]
        north = label[p - s]
        if north:  # touches the other three, which therefore belong to it already
            label[p] = north
            continue
        east = label[p - s + 1]
        west = label[p - s - 1]
        if not west:
            west = label[p - 1]
        if east:
            label[p] = east
            if west and west != east:
                a = _root(parent, east)
                b = _root(parent, west)
                parent[max(a, b)] = min(a, b)
        elif west:
            label[p] = west
        else:
            used += 1
            parent[used] = used
            label[p] = used
    holes = 0
    for k in range(1, used + 1):  # a parent is smaller than its child and so renumbered already
        if parent[k] == k:
            holes += 1
            parent[k] = holes
        else:
            parent[k] = parent[parent[k]]
    return holes


@_compiled("i4(i4[::1], i8, i8)")
def _first(number, p, s):
    """Smallest number among the earlier neighbours of `p`, 0 if they have none."""
    if number[p - s - 1]:
        return number[p - s - 1]
    if number[p - s]:
        return number[p - s]
    if number[p - s + 1]:
        return number[p - s + 1]
    return number[p - 1]


# Columns of the table of holes.
TOP, BOTTOM, LEFT, RIGHT, PIXELS, WORK, ENTRIES, START = range(8)


@_compiled("UniTuple(i8, 3)(i4[::1], i4[::1], i8, i4[::1], i4[::1], i4[::1], i4[::1], i8[:, ::1], f8)")
def split(pixel, row, w, label, number, order, parent, holes, direct_work):
    """Separates the holes of one image into those solved directly and those for multigrid.

    Fills `label` (multigrid holes 1, 2, ...; 0 elsewhere), `number` (1 + place of a pixel in the
    direct system, 0 elsewhere), `order` (its inverse) and the first rows of `holes`, which are the
    multigrid ones. Returns their count, the size of the direct system and of its factor. Before,
    `number` is zero and `label` as the survey left it.
    """
    h = row.size - 1
    s = w + 1
    regions = _label(pixel, row[h], s, label, parent)
    for k in range(1, regions + 1):
        for column in range(8):
            holes[k, column] = 0
        holes[k, TOP] = h
        holes[k, LEFT] = w
    for i in range(h):
        for index in range(row[i], row[i + 1]):
            p = pixel[index]
            k = parent[label[p]]
            label[p] = k
            j = p - (i + 1) * s - 1
            holes[k, TOP] = min(holes[k, TOP], i)
            holes[k, BOTTOM] = i + 1
            holes[k, LEFT] = min(holes[k, LEFT], j)
            holes[k, RIGHT] = max(holes[k, RIGHT], j + 1)
            holes[k, PIXELS] += 1
            number[p] = holes[k, PIXELS]
            first = _first(number, p, s)
            length = number[p] - first if first else 0
            holes[k, WORK] += length * length
            holes[k, ENTRIES] += length + 1
    hard = 0
    unknowns = 0
    entries = 0
    for k in range(1, regions + 1):
        area = (holes[k, BOTTOM] - holes[k, TOP]) * (holes[k, RIGHT] - holes[k, LEFT])
        if holes[k, WORK] <= direct_work * area:
            holes[k, START] = unknowns
            unknowns += holes[k, PIXELS]
            entries += holes[k, ENTRIES]
            parent[k] = 0
        else:
            hard += 1
            parent[k] = hard
    for index in range(row[h]):
        p = pixel[index]
        k = label[p]
        label[p] = parent[k]
        if parent[k]:
            number[p] = 0
        else:
            number[p] += holes[k, START]
            order[number[p] - 1] = p
    for k in range(1, regions + 1):
        if parent[k]:
            for column in range(8):
                holes[parent[k] - 1, column] = holes[k, column]
    return hard, unknowns, entries


# --- direct solution: Cholesky in the skyline of each hole ---------------------------------------


@_compiled("void(f8[::1], u8[::1])")
def _factorise(factor, end):
    """Cholesky factor in place, row by row; the diagonal entries are left inverted."""
    for k in range(np.uint64(end.size) - ONE):
        row = end[k]  # its diagonal entry is in front of end[k + 1]
        length = end[k + ONE] - row - ONE
        for a in range(length):
            other = end[k - length + a + ONE] - ONE
            common = min(a, other - end[k - length + a])
            total = factor[row + a]
            left = row + a - common
            right = other - common
            for m in range(common):
                total -= factor[left + m] * factor[right + m]
            factor[row + a] = total * factor[other]
        total = factor[row + length]
        for m in range(length):
            total -= factor[row + m] * factor[row + m]
        factor[row + length] = 1 / np.sqrt(total)


@_compiled("void(f8[::1], u8[::1], f8[::1], u8)")
def _substitute(factor, end, b, first):
    """Replaces the numbers of `b` from `first` on by the solution."""
    n = np.uint64(end.size) - ONE
    for k in range(n):
        row = end[k]
        length = end[k + ONE] - row - ONE
        known = first + k - length
        total = b[first + k]
        for m in range(length):
            total -= factor[row + m] * b[known + m]
        b[first + k] = total * factor[row + length]
    for done in range(n):
        last = n - ONE - done
        row = end[last]
        length = end[last + ONE] - row - ONE
        value = b[first + last] * factor[row + length]
        b[first + last] = value
        earlier = first + last - length
        for m in range(length):
            b[earlier + m] -= factor[row + m] * value


@_compiled("void(f4[:, :, ::1], b1[:, ::1], i4[::1], i4[::1], f8[::1], u8[::1], f8[::1])")
def direct(x, removed, number, order, factor, end, b):
    """Fills the pixels of the direct system in all channels of `x`, in double precision.

    `factor` and `b`, the right-hand sides, are zero before.
    """
    channels, h, w = x.shape
    s = w + 1
    n = end.size - 1
    end[0] = 0
    for k in range(n):
        p = order[k]
        first = _first(number, p, s)
        last = np.int64(end[k]) + (k + 1 - first if first else 0)
        end[k + 1] = last + 1
        i = p // s - 1
        j = p - (i + 1) * s - 1
        factor[last] = _degree(i, j, h, w)
        for a in range(max(i - 1, 0), min(i + 2, h)):
            for c in range(max(j - 1, 0), min(j + 2, w)):
                weight = 1 / 6 if a == i or c == j else 1 / 12
                if not removed[a, c]:
                    for channel in range(channels):
                        b[channel * n + k] += weight * x[channel, a, c]
                elif a < i or (a == i and c < j):
                    factor[last - k - 1 + number[(a + 1) * s + c + 1]] = -weight
    _factorise(factor, end)
    for channel in range(channels):
        _substitute(factor, end, b, channel * n)
        for k in range(n):
            i = order[k] // s - 1
            x[channel, i, order[k] - (i + 1) * s - 1] = b[channel * n + k]


# --- multigrid: hierarchy ------------------------------------------------------------------------


@_compiled("u8(u8[:, ::1], u8, u8)")
def _at(plan, level, slot):
    """Offset of the first pixel of one grid."""
    return plan[level, FIRST] + slot * plan[level, SIZE]


@_compiled("i8(i4[::1], i8, u8, u8, u8, u8, f4[::1], u8[:, ::1], i4[::1], i4[::1])")
def finest(label, hole, top, left, h, w, work, plan, rim, source):
    """Mask, smoother and matrix of the finest level, a window of the image; size of the rim.

    The rim are the known pixels next to the hole (to any, if `hole` is 0): their places in the
    window go to `rim`, those in the image to `source`.
    """
    height, width, s, n = plan[0, HEIGHT], plan[0, WIDTH], plan[0, STRIDE], plan[0, COUNT]
    d, g, m, t = _at(plan, 0, D), _at(plan, 0, G), _at(plan, 0, M), _at(plan, 0, T)
    for i in range(height):
        begin = (top + i + ONE) * (w + ONE) + left + ONE
        inner = np.float32(_degree(top + i, 1, h, 3))
        p = i * s
        for j in range(width):
            k = label[begin + j]
            value = np.float32(k > 0 and (hole == 0 or k == hole))
            work[m + p + j] = value
            work[d + p + j] = value * inner
        for end in (np.uint64(0), width - ONE):
            degree = _degree(top + i, left + end, h, w)
            work[d + p + end] = work[m + p + end] * np.float32(degree)
    for k in range(n):
        work[g + k] = DAMPING / work[d + k] if work[d + k] > 0 else np.float32(0)
    e, v, se, sw = _at(plan, 0, E), _at(plan, 0, S), _at(plan, 0, SE), _at(plan, 0, SW)
    for k in range(n):
        work[e + k] = -STRAIGHT * work[m + k] * work[m + k + ONE]
        work[v + k] = -STRAIGHT * work[m + k] * work[m + k + s]
    for k in range(n):
        work[se + k] = -DIAGONAL * work[m + k] * work[m + k + s + ONE]
        work[sw + k] = -DIAGONAL * work[m + k] * work[m + k + s - ONE]
    for k in range(n):
        up, here, down = m + k - s, m + k, m + k + s
        near = work[up - ONE] + work[up] + work[up + ONE] + work[here - ONE] + work[here + ONE]
        near += work[down - ONE] + work[down] + work[down + ONE]
        work[t + k] = (WHOLE - work[here]) * near
    count = 0
    for i in range(height):
        for j in range(width):
            rim[count] = (i + ONE) * s + j + ONE
            source[count] = (top + i) * w + left + j
            count += work[t + i * s + j] > 0
    return count


@_compiled("void(f4[::1], u8[:, ::1], u8, u8, b1)")
def collapse_x(work, plan, level, half, copied):
    """Galerkin product along rows: linear interpolation from every second column."""
    w, s = plan[level, WIDTH], plan[level, STRIDE]
    wc = (w + ONE) // TWO
    sc = wc + ONE
    size = (plan[level, HEIGHT] + TWO) * sc + ONE
    for k in range(FIVE * size):
        work[half + k] = 0
    for i in range(plan[level, HEIGHT]):
        d = _at(plan, level, D) + i * s
        e = _at(plan, level, E) + i * s
        v = _at(plan, level, S) + i * s
        se = _at(plan, level, SE) + i * s
        sw = _at(plan, level, SW) + i * s
        dc = half + (i + ONE) * sc + ONE
        ec, vc = dc + size, dc + TWO * size
        sec, swc = vc + size, vc + TWO * size
        for k in range(wc):
            j = TWO * k
            work[dc + k] = (
                work[d + j] + work[e + j] + work[e + j - ONE] + QUARTER * (work[d + j - ONE] + work[d + j + ONE])
            )
            work[ec + k] = QUARTER * work[d + j + ONE] + HALF * (work[e + j] + work[e + j + ONE])
        for k in range(wc):
            j = TWO * k
            work[vc + k] = (
                work[v + j]
                + HALF * (work[se + j] + work[sw + j + ONE] + work[se + j - ONE] + work[sw + j])
                + QUARTER * (work[v + j - ONE] + work[v + j + ONE])
            )
        for k in range(wc):
            j = TWO * k
            work[sec + k] = QUARTER * work[v + j + ONE] + HALF * (work[se + j] + work[se + j + ONE])
            work[swc + k] = QUARTER * work[v + j - ONE] + HALF * (work[sw + j] + work[sw + j - ONE])
        last = wc - ONE
        work[ec + last] = 0
        work[sec + last] = 0
        work[swc] = 0
        if copied:  # the last column repeats the one before: weight 1 instead of 1/2
            j = TWO * last
            work[dc + last] += work[e + j] + THREE_QUARTERS * work[d + j + ONE]
            work[vc + last] += HALF * (work[se + j] + work[sw + j + ONE]) + THREE_QUARTERS * work[v + j + ONE]


@_compiled("void(f4[::1], u8[:, ::1], u8, u8, b1)")
def collapse_y(work, plan, level, half, copied):
    """Galerkin product along columns, from the grids at `half` to the matrix of `level`."""
    h, w, s = plan[level, HEIGHT], plan[level, WIDTH], plan[level, STRIDE]
    size = (plan[level - ONE, HEIGHT] + TWO) * s + ONE
    for i in range(h):
        d = _at(plan, level, D) + i * s
        e = _at(plan, level, E) + i * s
        v = _at(plan, level, S) + i * s
        se = _at(plan, level, SE) + i * s
        sw = _at(plan, level, SW) + i * s
        d1 = half + (TWO * i + ONE) * s + ONE
        e1, v1 = d1 + size, d1 + TWO * size
        se1, sw1 = v1 + size, v1 + TWO * size
        lowest = i == h - ONE
        side = WHOLE if lowest and copied else HALF
        corner = WHOLE if lowest and copied else QUARTER
        for k in range(w):
            work[d + k] = (
                work[d1 + k]
                + work[v1 - s + k]
                + (side + side) * work[v1 + k]
                + QUARTER * work[d1 - s + k]
                + corner * work[d1 + s + k]
            )
        for k in range(w):
            work[e + k] = (
                work[e1 + k]
                + side * (work[se1 + k] + work[sw1 + k + ONE])
                + HALF * (work[se1 - s + k] + work[sw1 - s + k + ONE])
                + QUARTER * work[e1 - s + k]
                + corner * work[e1 + s + k]
            )
        if lowest:
            continue
        for k in range(w):
            work[v + k] = QUARTER * work[d1 + s + k] + HALF * (work[v1 + k] + work[v1 + s + k])
            work[se + k] = QUARTER * work[e1 + s + k] + HALF * (work[se1 + k] + work[se1 + s + k])
        for k in range(w):
            work[sw + k] = QUARTER * work[e1 + s + k - ONE] + HALF * (work[sw1 + k] + work[sw1 + s + k])


@_compiled("b1(f4[::1], u8[:, ::1], u8)")
def restrain(work, plan, level):
    """Keeps only unknowns that are unknown on the finer level, and sets the smoother.

    Returns whether any are left.
    """
    s, n = plan[level, STRIDE], plan[level, COUNT]
    g, m = _at(plan, level, G), _at(plan, level, M)
    fine = _at(plan, level - ONE, M)
    fs = plan[level - ONE, STRIDE]
    total = np.float32(0)
    for i in range(plan[level, HEIGHT]):
        for j in range(plan[level, WIDTH]):
            value = work[fine + TWO * (i * fs + j)]
            work[m + i * s + j] = value
            total += value
    d, e, v = _at(plan, level, D), _at(plan, level, E), _at(plan, level, S)
    se, sw = _at(plan, level, SE), _at(plan, level, SW)
    for k in range(n):
        work[d + k] *= work[m + k]
        work[e + k] *= work[m + k] * work[m + k + ONE]
    for k in range(n):
        work[v + k] *= work[m + k] * work[m + k + s]
        work[se + k] *= work[m + k] * work[m + k + s + ONE]
    for k in range(n):
        work[sw + k] *= work[m + k] * work[m + k + s - ONE]
    for k in range(n):
        if work[m + k] > 0:
            row = work[d + k] + abs(work[e + k]) + abs(work[e + k - ONE])
            row += abs(work[v + k]) + abs(work[v + k - s])
            row += abs(work[se + k]) + abs(work[se + k - s - ONE])
            row += abs(work[sw + k]) + abs(work[sw + k - s + ONE])
            work[g + k] = WHOLE / max(work[d + k], ROW_SUM_SHARE * row)
    return total > 0


# --- multigrid: solution -------------------------------------------------------------------------


@_compiled("void(f8[::1], f4[::1], u8[:, ::1])")
def _exact_residual(solution, work, plan):
    """R = M (b - A x) of the finest level in double precision; known pixels of x make up b."""
    s = plan[0, STRIDE]
    x = s + ONE
    up, down = x - s, x + s
    r, m, d = _at(plan, 0, R), _at(plan, 0, M), _at(plan, 0, D)
    for k in range(plan[0, COUNT]):
        straight = solution[x + k - ONE] + solution[x + k + ONE] + solution[up + k] + solution[down + k]
        diagonal = solution[up + k - ONE] + solution[up + k + ONE]
        diagonal += solution[down + k - ONE] + solution[down + k + ONE]
        degree = np.floor(12 * np.float64(work[d + k]) + 0.5)  # whole twelfths, without rounding
        value = (2 * straight + diagonal - degree * solution[x + k]) / 12
        work[r + k] = work[m + k] * np.float32(value)


@_compiled("f4(f4[::1], u8, u8, u8)")
def _around(work, x, k, s):
    """Weighted sum over the eight neighbours."""
    up, here, down = x + k - s, x + k, x + k + s
    straight = work[here - ONE] + work[here + ONE] + work[up] + work[down]
    diagonal = work[up - ONE] + work[up + ONE] + work[down - ONE] + work[down + ONE]
    return STRAIGHT * straight + DIAGONAL * diagonal


@_compiled("void(f4[::1], u8[:, ::1])")
def _finest_residual(work, plan):
    """Z = G R, the smoothed zero; T = M (R - A Z)."""
    s, n = plan[0, STRIDE], plan[0, COUNT]
    d, g, m = _at(plan, 0, D), _at(plan, 0, G), _at(plan, 0, M)
    r, z, t = _at(plan, 0, R), _at(plan, 0, Z), _at(plan, 0, T)
    for k in range(n):
        work[z + k] = work[g + k] * work[r + k]
    for k in range(n):
        work[t + k] = work[m + k] * (work[r + k] - work[d + k] * work[z + k] + _around(work, z, k, s))


@_compiled("f8(f4[::1], u8[:, ::1])")
def _finest_smooth(work, plan):
    """T = Z + G (R - A Z); returns R . T."""
    s = plan[0, STRIDE]
    d, g = _at(plan, 0, D), _at(plan, 0, G)
    r, z, t = _at(plan, 0, R), _at(plan, 0, Z), _at(plan, 0, T)
    total = np.float32(0)
    for k in range(plan[0, COUNT]):
        residual = work[r + k] - work[d + k] * work[z + k] + _around(work, z, k, s)
        value = work[z + k] + work[g + k] * residual
        work[t + k] = value
        total += work[r + k] * value
    return total


@_compiled("f8(f4[::1], u8[:, ::1])")
def _product(work, plan):
    """Q = A P on the finest level, also outside the mask; returns P . Q."""
    s = plan[0, STRIDE]
    p, q, d = _at(plan, 0, P), _at(plan, 0, Q), _at(plan, 0, D)
    total = np.float32(0)
    for k in range(plan[0, COUNT]):
        value = work[d + k] * work[p + k] - _around(work, p, k, s)
        work[q + k] = value
        total += work[p + k] * value
    return total


@_compiled("void(f4[::1], u8[:, ::1], u8)")
def _coarse_residual(work, plan, level):
    """T = R - A Z on a coarse level."""
    s, n = plan[level, STRIDE], plan[level, COUNT]
    r, z, t = _at(plan, level, R), _at(plan, level, Z), _at(plan, level, T)
    d, e, v = _at(plan, level, D), _at(plan, level, E), _at(plan, level, S)
    se, sw = _at(plan, level, SE), _at(plan, level, SW)
    up, down = z - s, z + s
    # Three loops, since a single one reads too many arrays for the compiler to vectorise it.
    for k in range(n):
        work[t + k] = (
            work[r + k]
            - work[d + k] * work[z + k]
            - work[e + k] * work[z + k + ONE]
            - work[e + k - ONE] * work[z + k - ONE]
        )
    for k in range(n):
        work[t + k] -= (
            work[v + k] * work[down + k] + work[se + k] * work[down + k + ONE] + work[sw + k] * work[down + k - ONE]
        )
    v, se, sw = v - s, se - s, sw - s
    for k in range(n):
        work[t + k] -= (
            work[v + k] * work[up + k]
            + work[se + k - ONE] * work[up + k - ONE]
            + work[sw + k + ONE] * work[up + k + ONE]
        )


@_compiled("void(f4[::1], u8[:, ::1], u8, u8, b1, b1)")
def _restrict(work, plan, level, line, copied_x, copied_y):
    """R of the next level from T of this one, by the transposed interpolation; there Z = G R."""
    w, s = plan[level, WIDTH], plan[level, STRIDE]
    coarse = level + ONE
    hc, wc, sc = plan[coarse, HEIGHT], plan[coarse, WIDTH], plan[coarse, STRIDE]
    work[line] = 0
    line += ONE
    for i in range(hc):
        t = _at(plan, level, T) + TWO * i * s
        below = WHOLE if copied_y and i == hc - ONE else HALF
        for k in range(w):
            work[line + k] = work[t + k] + HALF * work[t - s + k] + below * work[t + s + k]
        work[line + w] = 0
        if copied_x:
            work[line + w - ONE] += work[line + w - ONE]
        r = _at(plan, coarse, R) + i * sc
        m = _at(plan, coarse, M) + i * sc
        for k in range(wc):
            j = line + TWO * k
            work[r + k] = work[m + k] * (work[j] + HALF * (work[j - ONE] + work[j + ONE]))
    r, z, g = _at(plan, coarse, R), _at(plan, coarse, Z), _at(plan, coarse, G)
    for k in range(plan[coarse, COUNT]):
        work[z + k] = work[g + k] * work[r + k]


@_compiled("void(f4[::1], u8[:, ::1], u8, u8, b1, b1)")
def _prolong(work, plan, level, line, copied_x, copied_y):
    """Adds the interpolated Z of the next level to Z of this one."""
    h, w, s = plan[level, HEIGHT], plan[level, WIDTH], plan[level, STRIDE]
    hc, wc, sc = plan[level + ONE, HEIGHT], plan[level + ONE, WIDTH], plan[level + ONE, STRIDE]
    upper, lower = line, line + TWO * sc
    for i in range(hc + ONE):
        # One row further down than there are: it consists of zeros.
        coarse = _at(plan, level + ONE, Z) + i * sc
        for k in range(wc):
            work[lower + TWO * k] = work[coarse + k]
            work[lower + TWO * k + ONE] = HALF * (work[coarse + k] + work[coarse + k + ONE])
        if copied_x:
            work[lower + w - ONE] = work[lower + w - TWO]
        if i > 0 and TWO * i - ONE < h:
            z = _at(plan, level, Z) + (TWO * i - ONE) * s
            m = _at(plan, level, M) + (TWO * i - ONE) * s
            share = WHOLE if copied_y and i == hc else HALF
            for k in range(w):
                work[z + k] += work[m + k] * share * (work[upper + k] + work[lower + k])
        if i < hc:
            z = _at(plan, level, Z) + TWO * i * s
            m = _at(plan, level, M) + TWO * i * s
            for k in range(w):
                work[z + k] += work[m + k] * work[lower + k]
        upper, lower = lower, upper


@_compiled("UniTuple(f8, 2)(f4[::1], i4[::1], i4[::1], f8[::1])")
def load(x, rim, source, solution):
    """Puts the rim of a hole into `solution`, scaled to -1/2 ... 1/2; returns its extremes."""
    low = np.inf
    high = -np.inf
    for k in range(rim.size):
        low = min(low, x[source[k]])
        high = max(high, x[source[k]])
    scale = 1 / (high - low) if high > low else 0.0
    for k in range(solution.size):
        solution[k] = 0
    for k in range(rim.size):
        solution[rim[k]] = (x[source[k]] - 0.5 * (low + high)) * scale
    return low, high


@_compiled(None, inline="always")  # part of its only caller: compiling it twice would take seconds
def _cycle(work, plan, levels, line, border_x, border_y):
    """One V-cycle for R of the finest level; the result is in T there. Returns R . T."""
    _finest_residual(work, plan)
    for level in range(levels - ONE):
        if level > 0:
            _coarse_residual(work, plan, level)
        copied_x = border_x and plan[level, WIDTH] % TWO == 0
        copied_y = border_y and plan[level, HEIGHT] % TWO == 0
        _restrict(work, plan, level, line, copied_x, copied_y)
    for up in range(levels - ONE):
        level = levels - ONE - up
        g, z, t = _at(plan, level, G), _at(plan, level, Z), _at(plan, level, T)
        for _ in range(COARSEST_SWEEPS if up == 0 else 1):
            _coarse_residual(work, plan, level)
            for k in range(plan[level, COUNT]):
                work[z + k] += work[g + k] * work[t + k]
        copied_x = border_x and plan[level - ONE, WIDTH] % TWO == 0
        copied_y = border_y and plan[level - ONE, HEIGHT] % TWO == 0
        _prolong(work, plan, level - ONE, line, copied_x, copied_y)
    return _finest_smooth(work, plan)


@_compiled("i8(f8[::1], f4[::1], i4[::1], u8[:, ::1], u8, u8, b1, b1, f8, i8)")
def iterate(solution, work, bits, plan, levels, line, border_x, border_y, tol, limit):
    """Conjugate gradients until the error is below `tol`; returns the number of V-cycles, or 0."""
    n = plan[0, COUNT]
    x = plan[0, STRIDE] + ONE
    r, t = _at(plan, 0, R), _at(plan, 0, T)
    y, p, q = _at(plan, 0, Y), _at(plan, 0, P), _at(plan, 0, Q)
    for k in range(n):
        work[y + k] = 0
        work[p + k] = 0
    rt = np.inf  # makes the first direction the result of the first cycle alone
    peak = 0.0
    _exact_residual(solution, work, plan)
    for step in range(limit):
        previous = rt
        rt = _cycle(work, plan, levels, line, border_x, border_y)
        # The largest magnitude is searched among integers, because that vectorises.
        largest = np.int32(0)
        for k in range(n):
            largest = max(largest, bits[t + k] & np.int32(0x7FFFFFFF))
        bits[line] = largest
        error = work[line]
        if error < tol:
            for k in range(n):
                solution[x + k] += work[y + k] + work[t + k]
            return step + 1
        beta = np.float32(rt / previous)
        for k in range(n):
            work[p + k] = work[t + k] + beta * work[p + k]
        alpha = np.float32(rt / _product(work, plan))
        for k in range(n):
            work[y + k] += alpha * work[p + k]
        peak = max(peak, error)
        if error < REFRESH * peak:
            peak = error
            for k in range(n):
                solution[x + k] += work[y + k]
                work[y + k] = 0
            _exact_residual(solution, work, plan)
        else:
            for k in range(n):
                work[r + k] -= alpha * work[q + k]
    return 0


@_compiled("void(f8[::1], f8, f8, f4[::1], u8[:, ::1], u8, u8, f4[::1])")
def store(solution, low, high, work, plan, begin, stride, x):
    """Writes the unknowns of the finest level to the image, whose window begins at `begin`."""
    centre, spread = 0.5 * (low + high), high - low
    s = plan[0, STRIDE]
    m = _at(plan, 0, M)
    for i in range(plan[0, HEIGHT]):
        here = begin + i * stride
        p = i * s
        for j in range(plan[0, WIDTH]):
            value = min(max(centre + spread * solution[s + ONE + p + j], low), high)
            x[here + j] = np.float32(value) if work[m + p + j] > 0 else x[here + j]
