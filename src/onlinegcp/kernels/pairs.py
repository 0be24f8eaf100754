"""Compiled passes over pairs of rows of two modes, each a key with one row in its high bits.

`anomaly.pairs` says what for.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import math

import numpy as np

from onlinegcp.kernels.jit import kernel


@kernel(fastmath=False)
def count_pairs(index, first, second, value, shift, table):
    # Keys of the pairs whose sums are not zero, in order, and the sums; `table` is one of zeros,
    # with a place for every pair.
    for j in range(value.shape[0]):
        table[index[j, first], index[j, second]] += value[j]
    most, n = min(table.size, value.shape[0]), 0
    keys, sums = np.empty(most, np.int64), np.empty(most)
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            if table[i, j] != 0.0:
                keys[n], sums[n] = (i << shift) | j, table[i, j]
                n += 1
    return keys[:n], sums[:n]


@kernel(fastmath=False)
def behind_known(known, keys, sums):
    # The known keys, of which some have sums, and behind them the others; both come in order.
    found = np.empty(known.shape[0] + keys.shape[0], np.int64)
    observed = np.zeros(found.shape[0])
    found[: known.shape[0]] = known
    place, n = 0, known.shape[0]
    for j in range(keys.shape[0]):
        while place < known.shape[0] and known[place] < keys[j]:
            place += 1
        if place < known.shape[0] and known[place] == keys[j]:
            observed[place] = sums[j]
        else:
            found[n], observed[n] = keys[j], sums[j]
            n += 1
    return found[:n], observed[:n]


@kernel
def mix_rows(keys, shift, surprise, most, few):
    # Squared surprises of the pairs of each row, as a normal value by the cube root of Wilson and
    # Hilferty; 0 for rows of fewer than `few` pairs. Of the rows in the high and of those in the
    # low bits of the keys; and the largest of all values, and how many are not 0.
    low, rows = (1 << shift) - 1, np.zeros(2, np.int64)
    for j in range(keys.shape[0]):
        rows[0] = max(rows[0], (keys[j] >> shift) + 1)
        rows[1] = max(rows[1], (keys[j] & low) + 1)
    first, second = np.zeros((2, rows[0])), np.zeros((2, rows[1]))
    for j in range(keys.shape[0]):
        square = min(surprise[j] * surprise[j], most * most)
        one, two = keys[j] >> shift, keys[j] & low
        first[0, one] += square
        first[1, one] += 1.0
        second[0, two] += square
        second[1, two] += 1.0
    largest, number = -np.inf, 0
    for sums in (first, second):
        for i in range(sums.shape[1]):
            n = sums[1, i]
            if n < few:
                sums[0, i] = 0.0
            else:
                part = 2.0 / (9.0 * n)
                sums[0, i] = (np.cbrt(sums[0, i] / n) - (1.0 - part)) / math.sqrt(part)
            largest = max(largest, sums[0, i])
            number += sums[0, i] != 0.0
    return first[0], second[0], largest, number
