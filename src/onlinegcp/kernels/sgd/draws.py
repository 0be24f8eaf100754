"""Compiled drawing of samples: cells, data and weights, a block at a time.

A block writes, for every sample, where each mode's factor row starts in the stacked array (`rows`),
the datum and the weight. Every draw is a hash of its number, so blocks may be drawn in any order.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels import random
from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.sgd.membership import find_listed, is_listed, mix64, unlisted_cell
from onlinegcp.kernels.sgd.plan import (
    CELL_RANDOM,
    LISTED_RANDOM,
    MAX_ATTEMPTS,
    VALUE_ARRAY,
    VALUE_LOOKUP,
    ZERO_ALL,
    ZERO_REJECT,
    ZERO_SELECT,
)
from onlinegcp.kernels.simd import multiply_high_64, peek, pointer, poke

GOLDEN = random.GOLDEN
DRAW_SHIFT = random.DRAW_SHIFT


@kernel(forceinline=True)
def _word(key, sample, draw):
    return mix64(key + GOLDEN * (np.uint64(sample) + (np.uint64(draw) << DRAW_SHIFT)))


@kernel(forceinline=True)
def _spread(bits, number, share):
    """Move random bits into the sample's own share of the range."""
    if share == 0:
        return bits
    return np.uint64(number) * share + multiply_high_64(bits, share)


@kernel
def draw_block(
    stratum,  # (6,) int64: source, count, values, corrected, number of the first sample, share
    weight,  # what each sample counts for
    key,  # uint64
    first,  # first sample of the block within the stratum
    count,
    cells,  # CellArrays
    width,
    at,  # where the block starts in the arrays below
    stride,
    rows,  # (d * stride,) int64, written
    xs,  # (stride,) float64, written
    ws,  # (stride,) float64, written
):
    """Draw `count` samples of one stratum."""
    # Everything below works on addresses: see `pointer`.
    dims, word_of, place = pointer(cells.shape), pointer(cells.words), pointer(cells.places)
    listed, data, sorted_cells = pointer(cells.listed), pointer(cells.value), pointer(cells.linear)
    bits_of, ranks_of = pointer(cells.bitmap), pointer(cells.ranks)
    slots, slot_positions = pointer(cells.keys), pointer(cells.positions)
    cell_weights, weighted = pointer(cells.row_weights), len(cells.row_weights) > 0
    to_rows, to_xs, to_ws = pointer(rows), pointer(xs), pointer(ws)
    source, value_source = stratum[0], stratum[2]
    base, share = stratum[4] + first, np.uint64(stratum[5])
    d, counts = len(cells.shape), cells.counts
    last = cells.shape[d - 1]
    n_listed, n_unlisted, n_sorted = counts[0], counts[1], len(cells.linear)
    kind, bitmap_mask, table_mask = counts[3], counts[4], counts[5]
    for s in range(at, at + count):
        poke(to_ws, s, weight)
    if source <= LISTED_RANDOM:
        for s in range(count):
            position = np.int64(first + s)
            if source == LISTED_RANDOM:
                bits = _spread(_word(key, base + s, 0), first + s, share)
                position = np.int64(multiply_high_64(bits, np.uint64(n_listed)))
            coordinate = np.int64(0)
            for k in range(d):
                coordinate = np.int64(peek(listed, position * d + k))
                start = peek(place, k) + coordinate * width
                poke(to_rows, peek(place, d + k) * stride + at + s, start)
            poke(to_xs, at + s, peek(data, position))
            if weighted:
                poke(to_ws, at + s, weight * peek(cell_weights, coordinate))
        return
    random_cells = source in (CELL_RANDOM, ZERO_REJECT)
    if (
        random_cells
        and d in (2, 3)
        and cells.words[d - 1] == 0
        and value_source != VALUE_LOOKUP
        and not weighted
    ):
        _draw_plain(
            source == ZERO_REJECT, value_source == VALUE_ARRAY, key, base, first, count, share,
            np.uint64(counts[2]), d, dims, kind, bits_of, bitmap_mask, slots, table_mask, place,
            width, at, stride, data, to_rows, to_xs,
        )  # fmt: skip
        return
    passed = np.int64(0)
    for s in range(count):
        if random_cells:
            cell = _random_cell(
                source, key, base + s, first + s, share, d, dims, word_of, kind, bits_of,
                bitmap_mask, slots, table_mask, place, width, at + s, stride, to_rows,
            )  # fmt: skip
        else:
            number = first + s
            if source == ZERO_ALL:
                # Ranks follow each other: only the first of a block needs a search.
                if s == 0:
                    passed = unlisted_cell(number, sorted_cells, n_sorted) - number
                while passed < n_sorted and peek(sorted_cells, passed) - passed <= number:
                    passed += 1
                number += passed
            cell = _counted_cell(
                source == ZERO_SELECT, key, base + s, number, share, d, dims, n_unlisted,
                sorted_cells, n_sorted, place, width, at + s, stride, to_rows,
            )  # fmt: skip
        x = 0.0
        if value_source == VALUE_ARRAY:
            x = peek(data, np.int64(cell))
        elif value_source == VALUE_LOOKUP:
            position = find_listed(cell, kind, bits_of, ranks_of, slots, slot_positions, table_mask)
            if position >= 0:
                x = peek(data, position)
        poke(to_xs, at + s, x)
        if weighted:
            coordinate = np.int64(cell % np.uint64(last))
            poke(to_ws, at + s, weight * peek(cell_weights, coordinate))


@kernel
def _draw_plain(
    reject, read, key, base, first, count, share, size, d, dims, kind, bits_of, bitmap_mask,
    slots, table_mask, place, width, at, stride, data, to_rows, to_xs,
):  # fmt: skip
    """Random cells in the common case: two or three modes and one random word per cell.

    The same draws as `_random_cell`, 3 ns instead of 9: what does not change is read once (the
    compiler may not do so, as any store might change it), and digits are taken only from accepted
    cells, because the cell is the high word of bits * size.
    """
    length_0, length_1 = np.uint64(peek(dims, 0)), np.uint64(peek(dims, 1))
    length_2 = np.uint64(peek(dims, d - 1))
    start_0, start_1, start_2 = peek(place, 0), peek(place, 1), peek(place, d - 1)
    to_0 = peek(place, d) * stride + at
    to_1 = peek(place, d + 1) * stride + at
    to_2 = peek(place, 2 * d - 1) * stride + at
    for s in range(count):
        bits = _spread(_word(key, base + s, 0), first + s, share)
        cell = multiply_high_64(bits, size)
        if reject:
            attempt = 1
            while attempt < MAX_ATTEMPTS and is_listed(
                cell, kind, bits_of, bitmap_mask, slots, table_mask
            ):
                bits = _word(key, base + s, attempt)
                cell = multiply_high_64(bits, size)
                attempt += 1
        poke(to_rows, to_0 + s, start_0 + np.int64(multiply_high_64(bits, length_0)) * width)
        bits = bits * length_0
        poke(to_rows, to_1 + s, start_1 + np.int64(multiply_high_64(bits, length_1)) * width)
        if d == 3:
            bits = bits * length_1
            poke(to_rows, to_2 + s, start_2 + np.int64(multiply_high_64(bits, length_2)) * width)
        poke(to_xs, at + s, peek(data, np.int64(cell)) if read else 0.0)


@kernel(forceinline=True)
def _random_cell(
    source, key, sample, number, share, d, dims, word_of, kind, bits_of, bitmap_mask, slots,
    table_mask, place, width, s, stride, to_rows,
):  # fmt: skip
    """Draw any cell, or any unlisted one; write its rows' starts and give its linear index."""
    n_words = peek(word_of, d - 1) + 1
    bits = _spread(_word(key, sample, 0), number, share)
    cell = np.uint64(0)
    for attempt in range(MAX_ATTEMPTS):
        if attempt:
            bits = _word(key, sample, attempt * n_words)
        cell = np.uint64(0)
        which = np.int64(0)
        for k in range(d):
            if peek(word_of, k) != which:
                which += 1
                bits = _word(key, sample, attempt * n_words + which)
            length = np.uint64(peek(dims, k))
            digit = multiply_high_64(bits, length)
            bits = bits * length
            cell = cell * length + digit
            start = peek(place, k) + np.int64(digit) * width
            poke(to_rows, peek(place, d + k) * stride + s, start)
        if source == CELL_RANDOM:
            break
        if not is_listed(cell, kind, bits_of, bitmap_mask, slots, table_mask):
            break
    return cell


@kernel(forceinline=True)
def _counted_cell(
    select, key, sample, number, share, d, dims, n_unlisted, sorted_cells, n_sorted,
    place, width, s, stride, to_rows,
):  # fmt: skip
    """Take the cell of a number, or the unlisted one of a random rank; write its rows' starts."""
    rank = np.int64(number)
    if select:
        bits = _spread(_word(key, sample, 0), number, share)
        rank = np.int64(multiply_high_64(bits, np.uint64(n_unlisted)))
        rank = unlisted_cell(rank, sorted_cells, n_sorted)
    rest = rank
    for back in range(d):
        k = d - 1 - back
        length = peek(dims, k)
        start = peek(place, k) + (rest % length) * width
        rest = rest // length
        poke(to_rows, peek(place, d + k) * stride + s, start)
    return np.uint64(rank)
