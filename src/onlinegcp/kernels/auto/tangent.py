"""Sums of log(1 + m) and of its slope over every cell, exact, by tiles.

Odds losses cost log(1 + m) on each cell, listed or not. Small slices are summed tile by tile with
matrix products small enough that BLAS stays on one thread; large ones from `component_draws`.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import math

import numpy as np

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import ALL_MODES

# OpenBLAS starts threads above m n k = 2^18, which would cost processor time and repeatability.
TILE_PRODUCT = 1 << 18


def split_modes(shape: tuple[int, ...]) -> int:
    """First mode of the right-hand group: its product of lengths is close to, or below, 256.

    Examples
    --------
    >>> split_modes((24, 77, 32)), split_modes((7,)), split_modes((5, 4, 3))
    (2, 0, 1)
    """
    p = len(shape) - 1
    while p > 1 and math.prod(shape[p - 1 :]) <= 256:
        p -= 1
    return p


@kernel
def _advance(digits, offsets, first):
    # The next combination of one row of each mode from `first` on, the last mode fastest.
    k = digits.shape[0] - 1
    while k >= 0:
        digits[k] += 1
        if digits[k] < offsets[first + k + 1] - offsets[first + k]:
            break
        digits[k] = 0
        k -= 1


@kernel
def _digits(offsets, first, last, row, digits):
    # The rows of modes first .. last-1 that make row number `row` of their product.
    for k in range(last - first - 1, -1, -1):
        length = offsets[first + k + 1] - offsets[first + k]
        digits[k] = row % length
        row //= length


@kernel
def row_products(data, offsets, first, last, start, out):
    # out[row] = product of one row of each mode first .. last-1, the last mode fastest, from row
    # number `start` on.
    width = data.shape[1]
    d = last - first
    if d == 0:
        out[:] = 1.0
        return
    digits = np.zeros(d, np.int64)
    _digits(offsets, first, last, start, digits)
    for row in range(out.shape[0]):
        a = data[offsets[first] + digits[0]]
        for r in range(width):
            out[row, r] = a[r]
        for k in range(1, d):
            a = data[offsets[first + k] + digits[k]]
            for r in range(width):
                out[row, r] *= a[r]
        _advance(digits, offsets, first)


@kernel
def spread(data, offsets, first, last, start, slopes, rows, wanted, places, rate):
    # Rows start .. of the product of modes first .. last-1 have the slopes given; carry them to
    # each wanted mode, whose row i is row places[k] + i of `rate`. Single writer.
    width = data.shape[1]
    d = last - first
    if d == 0:
        return
    digits = np.zeros(d, np.int64)
    _digits(offsets, first, last, start, digits)
    buffer = np.empty(width)
    low, high = (0, d) if wanted == ALL_MODES else (wanted - first, wanted - first + 1)
    for row in range(rows):
        for k in range(max(low, 0), min(high, d)):
            for r in range(width):
                buffer[r] = slopes[row, r]
            for other in range(k):
                a = data[offsets[first + other] + digits[other]]
                for r in range(width):
                    buffer[r] *= a[r]
            for other in range(k + 1, d):
                a = data[offsets[first + other] + digits[other]]
                for r in range(width):
                    buffer[r] *= a[r]
            target = rate[places[first + k] + digits[k]]
            for r in range(width):
                target[r] += buffer[r]
        _advance(digits, offsets, first)


def left_rows(shape: tuple[int, ...]) -> int:
    """Rows of the left-hand group: its modes' lengths multiplied."""
    return math.prod(shape[: split_modes(shape)])


@kernel
def _groups(data, offsets, split, low, high):
    # Products of the rows of either group of modes (of the left one, rows low .. high-1), and how
    # many of these make a tile.
    width = data.shape[1]
    n_right = 1
    for k in range(split, offsets.shape[0] - 1):
        n_right *= offsets[k + 1] - offsets[k]
    left = np.empty((high - low, width))
    right = np.empty((n_right, width))
    row_products(data, offsets, 0, split, low, left)
    row_products(data, offsets, split, offsets.shape[0] - 1, 0, right)
    columns = min(n_right, 256)
    rows = max(1, min(high - low, 512, TILE_PRODUCT // (columns * width)))
    return left, right, rows, columns


@kernel
def _weighted(rows, weights, out):
    for i in range(rows.shape[0]):
        for r in range(rows.shape[1]):
            out[i, r] = rows[i, r] * weights[r]


@kernel
def _add_logs(tile, total):
    # total + sum log(1 + m)
    for i in range(tile.shape[0]):
        # One logarithm for sixteen cells: it costs as much as twenty products.
        product = 1.0
        for c in range(tile.shape[1]):
            product *= 1.0 + tile[i, c]
            if c % 16 == 15 or product > 1e150:
                total += np.log(product)
                product = 1.0
        total += np.log(product)
    return total


@kernel
def _to_slopes(tile):
    for i in range(tile.shape[0]):
        for c in range(tile.shape[1]):
            tile[i, c] = 1.0 / (1.0 + tile[i, c])


@kernel
def log_sums(data, offsets, split, weights, sloped, low, high, pull):
    # Sum of log(1 + m) over all cells with rows low .. high-1 of the left-hand group; where it is
    # asked for, pull[r] = sum z_r / (1 + m), too. One thread; tiles in a fixed order, so sums
    # repeat bit for bit.
    left, right, rows, columns = _groups(data, offsets, split, low, high)
    scaled = np.empty((rows, data.shape[1]))
    pull[:] = 0.0
    total = 0.0
    for start in range(0, left.shape[0], rows):
        here = left[start : start + rows]
        _weighted(here, weights, scaled)
        slopes = np.zeros(here.shape if sloped else (0, 0))
        for begin in range(0, right.shape[0], columns):
            some = right[begin : begin + columns]
            tile = np.dot(scaled[: here.shape[0]], some.T)
            total = _add_logs(tile, total)
            if sloped:
                _to_slopes(tile)
                slopes += np.dot(tile, some)
        for i in range(slopes.shape[0]):
            for r in range(pull.shape[0]):
                pull[r] += slopes[i, r] * here[i, r]
    return total


@kernel
def rate_sums(data, offsets, split, weights, wanted, low, high, places, rate):
    # Over the same cells, add sum s_r prod of the other modes / (1 + m) to rate[places[k] + i, r],
    # for the mode that is wanted or ALL_MODES.
    left, right, rows, columns = _groups(data, offsets, split, low, high)
    want_left = wanted == ALL_MODES or wanted < split
    want_right = wanted == ALL_MODES or wanted >= split
    scaled = np.empty((rows, data.shape[1]))
    right_slopes = np.zeros(right.shape if want_right else (0, 0))
    for start in range(0, left.shape[0], rows):
        here = left[start : start + rows]
        _weighted(here, weights, scaled)
        slopes = np.zeros(here.shape if want_left else (0, 0))
        for begin in range(0, right.shape[0], columns):
            some = right[begin : begin + columns]
            tile = np.dot(scaled[: here.shape[0]], some.T)
            _to_slopes(tile)
            if want_left:
                slopes += np.dot(tile, some)
            if want_right:
                more = np.dot(tile.T, scaled[: here.shape[0]])
                right_slopes[begin : begin + columns] += more
        if want_left:
            _weighted(slopes, weights, slopes)
            first = low + start
            spread(data, offsets, 0, split, first, slopes, here.shape[0], wanted, places, rate)
    if want_right:
        d, n_right = offsets.shape[0] - 1, right.shape[0]
        spread(data, offsets, split, d, 0, right_slopes, n_right, wanted, places, rate)


@kernel
def log_sums_by_chunk(data, offsets, split, weights, sloped, first, cuts, values, pulls):
    # `log_sums` of rows first + cuts[c] .. first + cuts[c + 1] in line c.
    for c in range(values.shape[0]):
        low, high = first + cuts[c], first + cuts[c + 1]
        values[c] = log_sums(data, offsets, split, weights, sloped, low, high, pulls[c])
