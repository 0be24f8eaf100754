"""The samples of the paper's solver, drawn on the card: the same hashes as `kernels.sgd.draws`.

A thread draws one sample of one iteration: the rows of its cell in the stacked factors, its datum
and its weight. No draw depends on the model, so that those of many iterations are made at once.

Whether a cell is listed is asked of a bitmap of cells, or, in larger slices, of a bitmap of their
hashes and then of the sorted list. The answers are those of the CPU's tables, which are not needed.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda, int64

from onlinegcp.kernels.cuda.lanes import device, kernel
from onlinegcp.kernels.random import DRAW_SHIFT, GOLDEN, mix64, multiply_high
from onlinegcp.kernels.sgd.membership import BITMAP, NONE
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

U = np.uint64
# Places in the numbers that describe a plan and its slice.
(
    STRATA, COUNT, CORRECTED, FIRST, LISTED, UNLISTED, SIZE, KIND, MASK, SORTED, WEIGHTED, DONE
) = range(12)  # fmt: skip
NUMBERS = 12
FIELDS = 5  # numbers per stratum: source, count, values, corrected, number of the first sample
NO_ITERATION = -1  # in the place FIRST: the key is used as it is

_hash = device(mix64)
_high = device(multiply_high)
_GOLDEN, _SHIFT = U(GOLDEN), U(DRAW_SHIFT)
_ONE, _WORD, _BIT, _HALF = U(1), U(6), U(63), U(32)


@device
def word(key, sample, draw):
    """64 random bits for one draw of one sample."""
    return _hash(key + _GOLDEN * (U(sample) + (U(draw) << _SHIFT)))


@device
def spread(bits, number, share):
    """Random bits in the sample's own share of the range."""
    if share == U(0):
        return bits
    return U(number) * share + _high(bits, share)


@device
def bit_of(cell, kind, mask):
    """Which bit of the bitmap speaks for a cell."""
    if kind == BITMAP:
        return cell
    return (_hash(cell) >> _HALF) & U(mask)


@device
def position_of(cell, linear, n):
    """Position of a cell in the sorted list, or -1."""
    low, high = int64(0), int64(n)
    while low < high:
        middle = (low + high) // 2
        if linear[middle] < int64(cell):
            low = middle + 1
        else:
            high = middle
    if low < n and linear[low] == int64(cell):
        return low
    return int64(-1)


@device
def is_listed(cell, kind, mask, bitmap, linear, n):
    """Whether a cell is in the list."""
    bit = bit_of(cell, kind, mask)
    if ((bitmap[int64(bit >> _WORD)] >> (bit & _BIT)) & _ONE) == U(0):
        return False
    if kind == BITMAP:
        return True
    return position_of(cell, linear, n) >= 0


@device
def unlisted(rank, linear, n):
    """Linear index of the unlisted cell with `rank` unlisted cells before it."""
    low, high = int64(0), int64(n)
    while low < high:
        middle = (low + high) // 2
        if linear[middle] - middle > rank:
            high = middle
        else:
            low = middle + 1
    return rank + low


@cache
def draw_kernel(modes: int) -> Any:
    """Samples of several iterations."""

    @kernel
    def draw(
        numbers,  # (NUMBERS,)
        keys,  # (1,) uint64: of the stream
        strata,  # (strata * FIELDS,)
        shares,  # (strata,) uint64: length of a sample's own share of the range, or 0
        weights,  # (strata,)
        shape,
        words,  # (modes,) random word of each mode
        offsets,
        index,
        value,
        linear,
        bitmap,
        row_weights,
        room,  # samples there is room for per iteration
        ahead,  # iterations from the one that is next to the first of these
        slot,  # place of the first of these
        rows,  # (iterations * modes * room,) out
        xs,  # (iterations * room,) out
        ws,
    ):
        # Blocks along x are samples, along y iterations.
        s = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        j = slot + cuda.blockIdx.y
        if s >= numbers[COUNT]:
            return
        key = keys[0]
        if numbers[FIRST] != NO_ITERATION:
            iteration = numbers[FIRST] + ahead + cuda.blockIdx.y
            key = _hash(key + _GOLDEN * (U(iteration) + _ONE))
        t = 0
        while t + 1 < numbers[STRATA] and strata[(t + 1) * FIELDS + 4] <= s:
            t += 1
        source, values = strata[t * FIELDS], strata[t * FIELDS + 2]
        number = s - strata[t * FIELDS + 4]
        share = shares[t]
        kind, mask, n = numbers[KIND], numbers[MASK], numbers[SORTED]
        to = j * modes * room + s
        x, last = 0.0, int64(0)
        if source <= LISTED_RANDOM:
            position = int64(number)
            if source == LISTED_RANDOM:
                bits = spread(word(key, s, 0), number, share)
                position = int64(_high(bits, U(numbers[LISTED])))
            for k in range(modes):
                last = int64(index[position * modes + k])
                rows[to + k * room] = offsets[k] + last
            x = value[position]
        else:
            cell = U(0)
            if source in (CELL_RANDOM, ZERO_REJECT):
                n_words = words[modes - 1] + 1
                attempt = 0
                again = True
                while again:
                    bits = word(key, s, attempt * n_words)
                    if attempt == 0:
                        bits = spread(bits, number, share)
                    cell = U(0)
                    which = int64(0)
                    for k in range(modes):
                        if words[k] != which:
                            which += 1
                            bits = word(key, s, attempt * n_words + which)
                        length = U(shape[k])
                        digit = _high(bits, length)
                        bits = bits * length
                        cell = cell * length + digit
                        last = int64(digit)
                        rows[to + k * room] = offsets[k] + last
                    attempt += 1
                    again = (
                        source == ZERO_REJECT
                        and attempt < MAX_ATTEMPTS
                        and is_listed(cell, kind, mask, bitmap, linear, n)
                    )
            else:
                rank = int64(number)
                if source == ZERO_SELECT:
                    bits = spread(word(key, s, 0), number, share)
                    rank = int64(_high(bits, U(numbers[UNLISTED])))
                if source in (ZERO_SELECT, ZERO_ALL):
                    rank = unlisted(rank, linear, n)
                cell = U(rank)
                last = rank % shape[modes - 1]
                for back in range(modes):
                    k = modes - 1 - back
                    rows[to + k * room] = offsets[k] + rank % shape[k]
                    rank = rank // shape[k]
            if values == VALUE_ARRAY:
                x = value[int64(cell)]
            elif values == VALUE_LOOKUP and is_listed(cell, kind, mask, bitmap, linear, n):
                x = value[position_of(cell, linear, n)]
        weight = weights[t]
        if numbers[WEIGHTED] != 0:
            weight *= row_weights[last]
        xs[j * room + s] = x
        ws[j * room + s] = weight

    return draw


@cache
def list_kernel(modes: int) -> Any:
    """Linear indices of listed cells, and their bits."""

    @kernel
    def listed(index, count, shape, kind, mask, linear, bitmap):
        i = cuda.grid(1)
        while i < count:
            cell = int64(0)
            for k in range(modes):
                cell = cell * shape[k] + index[i * modes + k]
            linear[i] = cell
            if kind != NONE:
                bit = bit_of(U(cell), kind, mask)
                cuda.atomic.or_(bitmap, int64(bit >> _WORD), _ONE << (bit & _BIT))
            i += cuda.gridsize(1)

    return listed


@cache
def advance_kernel() -> Any:
    """So many iterations are done: the next draws and rates are those that follow."""

    @kernel
    def advance(count, numbers):
        if cuda.grid(1) == 0:
            numbers[FIRST] += count
            numbers[DONE] += count

    return advance
