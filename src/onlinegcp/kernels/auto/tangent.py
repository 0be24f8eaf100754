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

# What `tangent_sums` can be asked for besides the slope in the rows of one mode or ALL_MODES.
VALUE_AND_SLOPE = -2
VALUE = -3


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
def tangent_sums(data, offsets, split, weights, wanted, low, high, pull, places, rate):
    # Over all cells with rows low .. high-1 of the left-hand group, what is asked for and no more:
    # VALUE returns sum log(1 + m); VALUE_AND_SLOPE sets pull[r] = sum z_r / (1 + m), too; a mode,
    # or ALL_MODES, adds sum s_r prod of the other modes / (1 + m) to rate[places[k] + i, r] and
    # returns 0. One thread; tiles in a fixed order, so sums repeat bit for bit.
    width = data.shape[1]
    d = offsets.shape[0] - 1
    n_left, n_right = high - low, 1
    for k in range(split, d):
        n_right *= offsets[k + 1] - offsets[k]
    left = np.empty((n_left, width))
    right = np.empty((n_right, width))
    row_products(data, offsets, 0, split, low, left)
    row_products(data, offsets, split, d, 0, right)
    columns = min(n_right, 256)
    rows = max(1, min(n_left, 512, TILE_PRODUCT // (columns * width)))
    want_left = wanted == ALL_MODES or (wanted >= 0 and wanted < split)
    want_right = wanted == ALL_MODES or wanted >= split
    want_pull = wanted == VALUE_AND_SLOPE
    want_logs = want_pull or wanted == VALUE
    right_slopes = np.zeros((n_right if want_right else 0, width))
    pull[:] = 0.0
    total = 0.0
    scaled, nothing = np.empty((rows, width)), np.empty((0, width))
    for start in range(0, n_left, rows):
        stop = min(start + rows, n_left)
        here = stop - start
        for i in range(here):
            for r in range(width):
                scaled[i, r] = left[start + i, r] * weights[r]
        slopes = nothing
        for begin in range(0, n_right, columns):
            end = min(begin + columns, n_right)
            tile = np.dot(scaled[:here], right[begin:end].T)
            if want_logs:
                for i in range(here):
                    # One logarithm for sixteen cells: it costs as much as twenty products.
                    product = 1.0
                    for c in range(end - begin):
                        product *= 1.0 + tile[i, c]
                        if c % 16 == 15 or product > 1e150:
                            total += np.log(product)
                            product = 1.0
                    total += np.log(product)
                if not want_pull:
                    continue
            for i in range(here):
                for c in range(end - begin):
                    tile[i, c] = 1.0 / (1.0 + tile[i, c])
            if want_pull or want_left:
                more = np.dot(tile, right[begin:end])
                if begin == 0:
                    slopes = more
                else:
                    slopes += more
            if want_right:
                right_slopes[begin:end] += np.dot(tile.T, scaled[:here])
        if want_pull:
            for i in range(here):
                for r in range(width):
                    pull[r] += slopes[i, r] * left[start + i, r]
        if want_left:
            for i in range(here):
                for r in range(width):
                    slopes[i, r] *= weights[r]
            spread(data, offsets, 0, split, low + start, slopes, here, wanted, places, rate)
    if want_right:
        spread(data, offsets, split, d, 0, right_slopes, n_right, wanted, places, rate)
    return total


@kernel
def tangent_sums_by_chunk(data, offsets, split, weights, wanted, first, cuts, values, pulls):
    # `tangent_sums` without rates of rows first + cuts[c] .. first + cuts[c + 1] in line c.
    none = np.zeros((0, data.shape[1]))
    for c in range(values.shape[0]):
        low, high = first + cuts[c], first + cuts[c + 1]
        values[c] = tangent_sums(
            data, offsets, split, weights, wanted, low, high, pulls[c], offsets, none
        )
