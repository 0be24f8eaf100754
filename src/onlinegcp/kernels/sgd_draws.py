"""Compiled drawing of samples: cells, data and weights, a block at a time.

A block writes, for every sample, where each mode's factor row starts in the stacked array (`rows`),
the datum and the weight. Every draw is a hash of its number, so blocks may be drawn in any order.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels import random
from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.membership import find_listed, is_listed, unlisted_cell
from onlinegcp.kernels.sgd_plan import (
    CELL_ALL,
    CELL_RANDOM,
    LISTED_RANDOM,
    MAX_ATTEMPTS,
    VALUE_ARRAY,
    VALUE_LOOKUP,
    ZERO_ALL,
    ZERO_REJECT,
)
from onlinegcp.kernels.simd import multiply_high_64, peek, poke

_mix64 = kernel(random.mix64)
GOLDEN = random.GOLDEN
DRAW_SHIFT = random.DRAW_SHIFT


@kernel(forceinline=True)
def _word(key, sample, draw):
    return _mix64(key + GOLDEN * (np.uint64(sample) + (np.uint64(draw) << DRAW_SHIFT)))


@kernel
def draw_block(
    stratum,  # (5,) int64: source, count, values, corrected, number of the first sample
    weight,  # what each sample counts for
    key,  # uint64
    first,  # first sample of the block within the stratum
    count,
    counts,  # Cells.counts
    shape,  # (d,)
    words,  # (d,)
    places,  # (2, d) flattened int64: first element of the mode's rows; place of the mode in rows
    width,
    index,
    value,
    linear,
    bitmap,
    ranks,
    keys,
    positions,
    row_weights,  # (I_d,) or empty
    at,  # where the block starts in the arrays below
    stride,
    rows,  # (d * stride,) int64, written
    xs,  # (stride,) float64, written
    ws,  # (stride,) float64, written
):
    """Draw `count` samples of one stratum."""
    d = len(shape)
    source, value_source, base = stratum[0], stratum[2], stratum[4]
    n_listed, n_unlisted = counts[0], counts[1]
    weighted = len(row_weights) > 0
    n_words = words[d - 1] + 1
    if source <= LISTED_RANDOM:
        for s in range(count):
            position = np.int64(first + s)
            if source == LISTED_RANDOM:
                bits = _word(key, base + first + s, 0)
                position = np.int64(multiply_high_64(bits, np.uint64(n_listed)))
            coordinate = np.int64(0)
            for k in range(d):
                coordinate = np.int64(peek(index, position * d + k))
                start = peek(places, k) + coordinate * width
                poke(rows, peek(places, d + k) * stride + at + s, start)
            poke(xs, at + s, peek(value, position))
            poke(ws, at + s, weight * row_weights[coordinate] if weighted else weight)
        return
    kind, bitmap_mask, table_mask = counts[3], counts[4], counts[5]
    for s in range(count):
        sample = base + first + s
        cell = np.uint64(0)
        if source in (CELL_RANDOM, ZERO_REJECT):
            for attempt in range(MAX_ATTEMPTS):
                cell = np.uint64(0)
                bits = np.uint64(0)
                last = np.int64(-1)
                for k in range(d):
                    which = peek(words, k)
                    if which != last:
                        bits = _word(key, sample, attempt * n_words + which)
                        last = which
                    length = np.uint64(peek(shape, k))
                    digit = multiply_high_64(bits, length)
                    bits = bits * length
                    cell = cell * length + digit
                    start = peek(places, k) + np.int64(digit) * width
                    poke(rows, peek(places, d + k) * stride + at + s, start)
                if source == CELL_RANDOM or not is_listed(
                    cell, kind, bitmap, bitmap_mask, keys, table_mask
                ):
                    break
        else:
            rank = np.int64(first + s)
            if source != CELL_ALL and source != ZERO_ALL:
                bits = _word(key, sample, 0)
                rank = np.int64(multiply_high_64(bits, np.uint64(n_unlisted)))
            if source != CELL_ALL:
                rank = unlisted_cell(rank, linear)
            cell = np.uint64(rank)
            rest = rank
            for back in range(d):
                k = d - 1 - back
                length = peek(shape, k)
                digit = rest % length
                rest = rest // length
                start = peek(places, k) + digit * width
                poke(rows, peek(places, d + k) * stride + at + s, start)
        x = 0.0
        if value_source == VALUE_ARRAY:
            x = peek(value, np.int64(cell))
        elif value_source == VALUE_LOOKUP:
            position = find_listed(
                cell, kind, bitmap, ranks, bitmap_mask, keys, positions, table_mask
            )
            if position >= 0:
                x = peek(value, position)
        poke(xs, at + s, x)
        if weighted:
            coordinate = np.int64(cell % np.uint64(peek(shape, d - 1)))
            poke(ws, at + s, weight * row_weights[coordinate])
        else:
            poke(ws, at + s, weight)
