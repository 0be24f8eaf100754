"""Sums of log(1 + m) and of its slope over every cell, exact by tiles or from component samples.

Odds losses cost log(1 + m) on each cell, listed or not. Small slices are summed exactly, tile by
tile with matrix products small enough that BLAS stays on one thread. Large ones use that factor
columns summing to one are probabilities: sum_i z_ir h(m_i) is the mean of h over cells drawn from
component r, with h between 0 and 1, so a few hundred draws do whatever the size of the slice.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.random import GOLDEN, mix64, unit

Array = NDArray[Any]

# OpenBLAS starts threads above m n k = 2^18, which would cost processor time and repeatability.
TILE_PRODUCT = 1 << 18

_hash = kernel(mix64)
_unit = kernel(unit)
_GOLDEN = np.uint64(GOLDEN)


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
def row_products(data, offsets, first, last, out):
    # out[row] = product of one row of each mode first .. last-1, the last mode fastest.
    width = data.shape[1]
    d = last - first
    digits = np.zeros(d, np.int64)
    for row in range(out.shape[0]):
        for r in range(width):
            out[row, r] = 1.0
        for k in range(d):
            a = data[offsets[first + k] + digits[k]]
            for r in range(width):
                out[row, r] *= a[r]
        k = d - 1
        while k >= 0:
            digits[k] += 1
            if digits[k] < offsets[first + k + 1] - offsets[first + k]:
                break
            digits[k] = 0
            k -= 1


@kernel
def spread(data, offsets, first, last, start, slopes, rows, wanted, rate):
    # Rows start .. of the product of modes first .. last-1 have the slopes given; carry them to
    # each wanted mode. Single writer.
    width = data.shape[1]
    d = last - first
    if d == 0:
        return
    digits = np.zeros(d, np.int64)
    rest = start
    for k in range(d - 1, -1, -1):
        length = offsets[first + k + 1] - offsets[first + k]
        digits[k] = rest % length
        rest //= length
    buffer = np.empty(width)
    for row in range(rows):
        for k in range(d):
            if wanted >= 0 and wanted != first + k:
                continue
            for r in range(width):
                buffer[r] = slopes[row, r]
            for other in range(d):
                if other != k:
                    a = data[offsets[first + other] + digits[other]]
                    for r in range(width):
                        buffer[r] *= a[r]
            target = rate[offsets[first + k] + digits[k]]
            for r in range(width):
                target[r] += buffer[r]
        k = d - 1
        while k >= 0:
            digits[k] += 1
            if digits[k] < offsets[first + k + 1] - offsets[first + k]:
                break
            digits[k] = 0
            k -= 1


@kernel
def tangent_sums(data, offsets, split, weights, mode, pull, rate):
    # Over all cells, what is asked for and no more: with mode -3 returns sum log(1 + m); with -2
    # sets pull[r] = sum z_r / (1 + m), too; for mode >= 0, or every mode with -1, adds to
    # rate[row, r] sum s_r prod of the other modes / (1 + m) and returns 0.
    # One thread; tiles in a fixed order, so sums repeat bit for bit.
    width = data.shape[1]
    d = offsets.shape[0] - 1
    n_left, n_right = 1, 1
    for k in range(d):
        if k < split:
            n_left *= offsets[k + 1] - offsets[k]
        else:
            n_right *= offsets[k + 1] - offsets[k]
    left = np.empty((n_left, width))
    right = np.empty((n_right, width))
    row_products(data, offsets, 0, split, left)
    row_products(data, offsets, split, d, right)
    columns = min(n_right, 256)
    rows = max(1, min(n_left, 512, TILE_PRODUCT // (columns * width)))
    want_left = mode == -1 or (mode >= 0 and mode < split)
    want_right = mode == -1 or mode >= split
    want_pull = mode == -2
    want_logs = mode <= -2
    right_slopes = np.zeros((n_right if want_right else 0, width))
    pull[:] = 0.0
    total = 0.0
    scaled = np.empty((rows, width))
    for start in range(0, n_left, rows):
        stop = min(start + rows, n_left)
        here = stop - start
        for i in range(here):
            for r in range(width):
                scaled[i, r] = left[start + i, r] * weights[r]
        slopes = np.zeros((here, width))
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
                line = tile[i]
                for c in range(end - begin):
                    line[c] = 1.0 / (1.0 + line[c])
            if want_pull or want_left:
                slopes += np.dot(tile, right[begin:end])
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
            spread(data, offsets, 0, split, start, slopes, here, mode, rate)
    if want_right:
        spread(data, offsets, split, d, 0, right_slopes, n_right, mode, rate)
    return total


@kernel
def draw_cells(cumulative, offsets, rank, draws, key, cells):
    # cells[r * draws + n, k] = row of mode k drawn from column r (inverse distribution function,
    # stratified over n with a shuffle per mode by a random shift).
    d = offsets.shape[0] - 1
    for r in range(rank):
        for k in range(d):
            low, high = offsets[k], offsets[k + 1]
            top = cumulative[high - 1, r]
            base = _hash(key + _GOLDEN * np.uint64(r * d + k + 1))
            # Strata are visited in an order of its own per mode: n -> (a n + b) mod draws.
            shift = np.int64(base % np.uint64(draws))
            stride = _coprime(np.int64((base >> np.uint64(20)) % np.uint64(draws)), draws)
            for n in range(draws):
                stratum = (n * stride + shift) % draws
                u = _unit(_hash(base + _GOLDEN * np.uint64(n + 1)))
                goal = (stratum + u) / draws * top
                a, b = low, high - 1
                while a < b:
                    middle = (a + b) // 2
                    if cumulative[middle, r] > goal:
                        b = middle
                    else:
                        a = middle + 1
                cells[r * draws + n, k] = a - low


@kernel
def _coprime(candidate, modulus):
    # The next number from `candidate` on that shares no divisor with `modulus`.
    if modulus <= 2:
        return 1
    while True:
        candidate = candidate % modulus
        a, b = candidate, modulus
        while b != 0:
            a, b = b, a % b
        if a == 1:
            return candidate
        candidate += 1


@kernel
def sampled_tangent(data, offsets, weights, cells, draws, rank, sums, pull, logs):
    # pull[r] = sums[r] * mean over component r's draws of 1 / (1 + m); `logs` (width,) gets
    # sums[r] * mean of log(1 + m) / m, so that weights @ logs estimates sum log(1 + m).
    width = data.shape[1]
    d = cells.shape[1]
    z = np.empty(width)
    pull[:] = 0.0
    logs[:] = 0.0
    for j in range(cells.shape[0]):
        r = j // draws
        for q in range(width):
            z[q] = weights[q]
        for k in range(d):
            a = data[offsets[k] + cells[j, k]]
            for q in range(width):
                z[q] *= a[q]
        m = 0.0
        for q in range(width):
            m += z[q]
        pull[r] += 1.0 / (1.0 + m)
        logs[r] += np.log1p(m) / m if m > 1e-12 else 1.0
    for r in range(rank):
        pull[r] *= sums[r] / draws
        logs[r] *= sums[r] / draws


@kernel
def sampled_rates(data, offsets, weights, cells, draws, rank, sums, mode, rate):
    # rate[row, r] = s_r prod of the other column sums * mean of 1 / (1 + m) over component r's
    # draws, with the draw's own row of `mode` replaced by every row in turn.
    width = data.shape[1]
    d = cells.shape[1]
    low, high = offsets[mode], offsets[mode + 1]
    z = np.empty(width)
    for i in range(low, high):
        for r in range(width):
            rate[i, r] = 0.0
    for j in range(cells.shape[0]):
        r = j // draws
        for q in range(width):
            z[q] = weights[q]
        for k in range(d):
            if k != mode:
                a = data[offsets[k] + cells[j, k]]
                for q in range(width):
                    z[q] *= a[q]
        for i in range(low, high):
            a = data[i]
            m = 0.0
            for q in range(width):
                m += z[q] * a[q]
            rate[i, r] += 1.0 / (1.0 + m)
    for i in range(low, high):
        for r in range(rank):
            rate[i, r] *= weights[r] * sums[r] / draws


@kernel
def scattered_rates(data, offsets, weights, cells, draws, rank, sums, mode, strength, rate):
    # As `sampled_rates` at a cost that does not grow with the mode: each draw informs its own
    # row only, and rows with few draws fall back on their component's mean (`strength` draws).
    width = data.shape[1]
    d = cells.shape[1]
    low, high = offsets[mode], offsets[mode + 1]
    z = np.empty(width)
    mean = np.zeros(width)
    chance = np.empty(cells.shape[0])
    for j in range(cells.shape[0]):
        r = j // draws
        for q in range(width):
            z[q] = weights[q]
        for k in range(d):
            a = data[offsets[k] + cells[j, k]]
            for q in range(width):
                z[q] *= a[q]
        m = 0.0
        for q in range(width):
            m += z[q]
        chance[j] = 1.0 / (1.0 + m)
        mean[r] += chance[j] / draws
    count = np.full((high - low, rank), strength)
    for i in range(low, high):
        for r in range(rank):
            rate[i, r] = strength * mean[r]
        for r in range(rank, width):
            rate[i, r] = 0.0
    for j in range(cells.shape[0]):
        r = j // draws
        rate[low + cells[j, mode], r] += chance[j]
        count[cells[j, mode], r] += 1.0
    for i in range(low, high):
        for r in range(rank):
            rate[i, r] *= weights[r] * sums[r] / count[i - low, r]


def reference_tangent_sums(
    factors: list[Array], weights: Array
) -> tuple[float, Array, list[Array]]:
    """Say in NumPy, on the full array, what `tangent_sums` computes."""
    letters = "abcdef"[: len(factors)]
    terms = ",".join(f"{letter}z" for letter in letters)
    m = np.einsum(f"z,{terms}->{letters}", weights, *factors)
    h = 1.0 / (1.0 + m)
    pull = np.einsum(f"{letters},{terms}->z", h, *factors)
    rates = []
    for k, letter in enumerate(letters):
        others = [f"{other}z" for other in letters if other != letter]
        matrices = [a for other, a in enumerate(factors) if other != k]
        spec = ",".join([letters, "z", *others])
        rates.append(np.einsum(f"{spec}->{letter}z", h, weights, *matrices))
    return float(np.log1p(m).sum()), pull, rates
