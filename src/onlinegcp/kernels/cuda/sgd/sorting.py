"""Samples in the order of their rows, mode by mode: what lets sums over them have one order.

A stable radix sort of the samples of all iterations and modes at once. Blocks count the digits of
their tile, one block per list turns counts into places, and blocks put their tile there: a warp
goes over its samples in order, lanes with the same digit side by side. Nothing depends on the
order in which blocks or warps come.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from numba import cuda, int32

from onlinegcp.kernels.cuda.groups import peers, warp_barrier
from onlinegcp.kernels.cuda.lanes import LANES, SIMULATED, kernel
from onlinegcp.kernels.cuda.sgd.draws import COUNT

SORTERS = LANES if SIMULATED else 512  # threads of a block
DIGITS = 9  # most bits of a digit: a counter per digit and warp fits into shared memory
MOST_TILES = 256
SHORTEST_TILE = LANES if SIMULATED else 4096


@dataclass(frozen=True)
class Sort:
    """How samples are sorted: how often, by how many bits, in how many tiles."""

    passes: int
    bits: int
    tile: int
    tiles: int

    @property
    def digits(self) -> int:
        """How many digits there are."""
        return 1 << self.bits

    @property
    def counts_bytes(self) -> int:
        """Shared memory of the kernel that counts, and of the one that sums."""
        return 4 * max(self.digits, SORTERS)

    @property
    def places_bytes(self) -> int:
        """Shared memory of the kernel that puts samples into place."""
        return 4 * self.digits * (SORTERS // LANES)


def sort_for(shape: tuple[int, ...], room: int) -> Sort:
    """How lists of up to `room` samples are sorted by rows of modes of these lengths."""
    needed = max(1, max((n - 1).bit_length() for n in shape))
    passes = -(-needed // DIGITS)
    tile = max(SHORTEST_TILE, -(-room // MOST_TILES // SORTERS) * SORTERS)
    return Sort(passes, -(-needed // passes), tile, -(-room // tile))


@cache
def counts_kernel() -> Any:
    """How often each digit occurs in each tile."""

    @kernel
    def count_digits(
        numbers, rows, offsets, modes, room, slot, order, number, bits, tile, counts
    ):  # fmt: skip
        # Blocks: tiles, modes, iterations, whose places begin with `slot`. order: where the pass
        # before left the samples.
        held = cuda.shared.array(0, int32)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        mode = cuda.blockIdx.y
        which = (slot + cuda.blockIdx.z) * modes + mode
        base = which * room
        digits = 1 << bits
        q = me
        while q < digits:
            held[q] = 0
            q += threads
        cuda.syncthreads()
        n = numbers[COUNT]
        p = cuda.blockIdx.x * tile + me
        end = min(n, (cuda.blockIdx.x + 1) * tile)
        while p < end:
            s = p if number == 0 else order[base + p]
            digit = ((rows[base + s] - offsets[mode]) >> (bits * number)) & (digits - 1)
            cuda.atomic.add(held, digit, 1)
            p += threads
        cuda.syncthreads()
        to = (which * cuda.gridDim.x + cuda.blockIdx.x) * digits
        q = me
        while q < digits:
            counts[to + q] = held[q]
            q += threads

    return count_digits


@cache
def places_kernel() -> Any:
    """First place of every digit of every tile, from the counts; one block per list."""

    @kernel
    def sum_digits(first, tiles, bits, counts):
        # first: number of the first list.
        held = cuda.shared.array(0, int32)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        digits = 1 << bits
        base = (first + cuda.blockIdx.x) * tiles * digits
        # A thread takes neighbouring digits.
        each = (digits + threads - 1) // threads
        total = 0
        for q in range(me * each, min(digits, (me + 1) * each)):
            for t in range(tiles):
                total += counts[base + t * digits + q]
        held[me] = total
        cuda.syncthreads()
        step = 1
        while step < threads:
            before = held[me - step] if me >= step else 0
            cuda.syncthreads()
            held[me] += before
            cuda.syncthreads()
            step *= 2
        place = held[me] - total
        for q in range(me * each, min(digits, (me + 1) * each)):
            for t in range(tiles):
                found = counts[base + t * digits + q]
                counts[base + t * digits + q] = place
                place += found

    return sum_digits


@cache
def sort_kernel() -> Any:
    """Samples put into the places of their digits, in order."""

    @kernel
    def put_in_order(
        numbers, rows, offsets, modes, room, slot, order, number, bits, tile, places, sorted_order
    ):
        held = cuda.shared.array(0, int32)  # (warps, digits)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        lane, warp, warps = me % LANES, me // LANES, threads // LANES
        mode = cuda.blockIdx.y
        which = (slot + cuda.blockIdx.z) * modes + mode
        base = which * room
        digits = 1 << bits
        shift, offset = bits * number, offsets[mode]
        q = me
        while q < warps * digits:
            held[q] = 0
            q += threads
        cuda.syncthreads()
        n = numbers[COUNT]
        own = tile // warps
        begin = min(n, cuda.blockIdx.x * tile + warp * own)
        end = min(n, cuda.blockIdx.x * tile + (warp + 1) * own)
        p = begin + lane
        while p < end:
            s = p if number == 0 else order[base + p]
            digit = ((rows[base + s] - offset) >> shift) & (digits - 1)
            cuda.atomic.add(held, warp * digits + digit, 1)
            p += LANES
        cuda.syncthreads()
        first = (which * cuda.gridDim.x + cuda.blockIdx.x) * digits
        q = me
        while q < digits:
            place = places[first + q]
            for w in range(warps):
                found = held[w * digits + q]
                held[w * digits + q] = place
                place += found
            q += threads
        cuda.syncthreads()
        below = (1 << lane) - 1
        p = begin
        while p < end:
            here = p + lane < end
            s, digit = 0, digits
            if here:
                s = p + lane if number == 0 else order[base + p + lane]
                digit = ((rows[base + s] - offset) >> shift) & (digits - 1)
            same = peers(int32(digit))
            rank = cuda.popc(same & below)
            at = warp * digits + digit
            if here:
                sorted_order[base + held[at] + rank] = s
            warp_barrier()
            if here and rank == 0:
                held[at] += cuda.popc(same)
            warp_barrier()
            p += LANES

    return put_in_order


@cache
def bounds_kernel(modes: int, weighted: bool) -> Any:
    """What the order of a mode is good for.

    Where the samples of each row begin: bounds[(rows in all + modes) * iteration + first row of the
    mode + mode + row]. Rows of all modes in that order, the mode's own first, then those of the
    next: sorted_rows[((iteration * modes + mode) * modes + which) * room + place]. Data and, where
    they are `weighted`, weights: sorted_xs[(iteration * modes + mode) * room + place].
    """

    @kernel
    def use_order(
        numbers, rows, offsets, room, slot, order, xs, ws, bounds, sorted_rows, sorted_xs, sorted_ws
    ):
        # Blocks: places, modes, iterations, whose places begin with `slot`.
        p = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        n = numbers[COUNT]
        if p > n:
            return
        mode, iteration = cuda.blockIdx.y, slot + cuda.blockIdx.z
        first = iteration * modes * room
        base = first + mode * room
        to = iteration * (offsets[modes] + modes) + offsets[mode] + mode
        before = rows[base + order[base + p - 1]] - offsets[mode] if p > 0 else -1
        here = offsets[mode + 1] - offsets[mode]
        if p < n:
            s = order[base + p]
            here = rows[base + s] - offsets[mode]
            sorted_xs[base + p] = xs[iteration * room + s]
            if weighted:
                sorted_ws[base + p] = ws[iteration * room + s]
            for o in range(modes):
                other = mode + o
                if other >= modes:
                    other -= modes
                sorted_rows[(base * modes + o * room) + p] = rows[first + other * room + s]
        for row in range(before + 1, here + 1):
            bounds[to + row] = p

    return use_order
