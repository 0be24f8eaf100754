"""Sums of log(1 + m) and of its slope over every cell, estimated from cells drawn by component.

Factor columns that sum to one are probabilities: sum_i z_ir h(m_i) is the mean of h over cells
drawn from component r, with h between 0 and 1, so a few hundred draws do whatever the size of the
slice.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.auto.fisher_sums import NO_MODE, other_rows
from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.random import GOLDEN, mix64, unit

_hash = kernel(mix64)
_unit = kernel(unit)
_GOLDEN = np.uint64(GOLDEN)


@kernel
def draw_cells(cumulative, offsets, first, last, draws, key, cells):
    # cells[r * draws + n, k] = row of mode k drawn from column r (inverse distribution function,
    # stratified over n with a shuffle per mode by a random shift), for components first .. last-1.
    d = offsets.shape[0] - 1
    for r in range(first, last):
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
def sampled_tangent(data, offsets, weights, cells, draws, first, last, sums, pull, logs):
    # pull[r] = sums[r] * mean over component r's draws of 1 / (1 + m); `logs` (width,) gets
    # sums[r] * mean of log(1 + m) / m, so that weights @ logs estimates sum log(1 + m). Only for
    # components first .. last-1; both start at zero.
    width = data.shape[1]
    z = np.empty(width)
    for j in range(first * draws, last * draws):
        r = j // draws
        other_rows(data, offsets, cells, j, weights, NO_MODE, z)
        m = 0.0
        for q in range(width):
            m += z[q]
        pull[r] += 1.0 / (1.0 + m)
        logs[r] += np.log1p(m) / m if m > 1e-12 else 1.0
    for r in range(first, last):
        pull[r] *= sums[r] / draws
        logs[r] *= sums[r] / draws


@kernel
def sampled_rates(data, offsets, weights, cells, draws, rank, sums, mode, first, last, rate):
    # rate[row, r] = s_r prod of the other column sums * mean of 1 / (1 + m) over component r's
    # draws, with the draw's own row of `mode` replaced by every row first .. last-1 in turn.
    width = data.shape[1]
    z = np.empty(width)
    for i in range(first, last):
        for r in range(width):
            rate[i, r] = 0.0
    for j in range(cells.shape[0]):
        r = j // draws
        other_rows(data, offsets, cells, j, weights, mode, z)
        for i in range(first, last):
            a = data[i]
            m = 0.0
            for q in range(width):
                m += z[q] * a[q]
            rate[i, r] += 1.0 / (1.0 + m)
    for i in range(first, last):
        for r in range(rank):
            rate[i, r] *= weights[r] * sums[r] / draws


@kernel
def draw_chances(data, offsets, weights, cells, draws, first, last, chance, mean):
    # chance[j] = 1 / (1 + m) of every draw of components first .. last-1, and its mean.
    width = data.shape[1]
    z = np.empty(width)
    for r in range(first, last):
        mean[r] = 0.0
    for j in range(first * draws, last * draws):
        r = j // draws
        other_rows(data, offsets, cells, j, weights, NO_MODE, z)
        m = 0.0
        for q in range(width):
            m += z[q]
        chance[j] = 1.0 / (1.0 + m)
        mean[r] += chance[j] / draws


@kernel
def scattered_rates(offsets, weights, cells, draws, sums, mode, strength, chance, mean, first, last,
                    rate):  # fmt: skip
    # As `sampled_rates` at a cost that does not grow with the mode, for components first .. last-1:
    # each draw informs its own row only, and rows with few draws fall back on their component's
    # mean (`strength` draws).
    low, high = offsets[mode], offsets[mode + 1]
    count = np.full((high - low, last - first), strength)
    for i in range(low, high):
        for r in range(first, last):
            rate[i, r] = strength * mean[r]
    for j in range(first * draws, last * draws):
        r = j // draws
        rate[low + cells[j, mode], r] += chance[j]
        count[cells[j, mode], r - first] += 1.0
    for i in range(low, high):
        for r in range(first, last):
            rate[i, r] *= weights[r] * sums[r] / count[i - low, r - first]
