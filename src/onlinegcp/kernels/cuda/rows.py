"""Row updates of the conjugate past on the card, cut into chunks of rows that blocks take.

A warp takes rows of a chunk in turn, its lanes the columns. Sums over the rows of a chunk leave as
one row of `parts`. A new state lies in memory of its own, so that the old one stays as it was.
What these kernels wait for is memory: all numbers of a row are asked for before any is used, and
those of a column are read once, for nothing says that what is written is not one of them.
`kernels.auto.conjugate_rows` is the same for the CPU.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
from numba import cuda, float64, int64
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.lanes import LANES, block_sums, device, hold, kernel, over
from onlinegcp.kernels.cuda.overlap import after_others

Array = NDArray[Any]

SETTLE_REGISTERS = 64  # more would leave too few threads to wait for memory together


def health_of(absorbed: Array) -> Array:
    """Numbers that are finite if all of the new matrices are."""
    return np.asarray(absorbed[:, HEALTH].sum(axis=(0, 2)))


@cache
def column_sums_kernel(per_lane: int) -> Any:
    """Column sums of a matrix, one row of `parts` per chunk."""

    @kernel
    def column_sums(data, width, chunks, first, parts):
        after_others()
        held = cuda.shared.array(0, float64)
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        chunk = first + cuda.blockIdx.x
        sums = cuda.local.array(per_lane, float64)
        for p in range(per_lane):
            sums[p] = 0.0
        for i in range(chunks[chunk] + warp, chunks[chunk + 1], cuda.blockDim.x // LANES):
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    sums[p] += data[i * width + r]
        hold(held, warp * width, sums, width, lane)
        cuda.syncthreads()
        block_sums(held, width, parts, chunk * width, cuda.threadIdx.x, cuda.blockDim.x)

    return column_sums


@cache
def ratios_kernel() -> Any:
    """Single precision sensitivity / data where data > 0, else 0."""

    @kernel
    def ratios(sensitivity, data, out):
        after_others()
        i = cuda.grid(1)
        while i < data.shape[0]:
            a = data[i]
            out[i] = np.float32(sensitivity[i] * over(a)) if a > 0.0 else np.float32(0.0)
            i += cuda.gridsize(1)

    return ratios


@device
def all_copies(fixed, at, size, copies):
    """A whole number summed over its copies, of which several are waited for at once."""
    a, b, c, d = int64(0), int64(0), int64(0), int64(0)
    q = 0
    while q + 4 <= copies:
        place = at + q * size
        a += fixed[U(place)]
        b += fixed[U(place + size)]
        c += fixed[U(place + 2 * size)]
        d += fixed[U(place + 3 * size)]
        q += 4
    while q < copies:
        a += fixed[U(at + q * size)]
        q += 1
    return a + b + c + d


@cache
def settle_kernel(per_lane: int) -> Any:
    """Whole numbers back to counts, summed over copies, which become zero; and column sums."""

    @partial(kernel, max_registers=SETTLE_REGISTERS)
    def settle(
        fixed, width, chunks, modes_of, first, offsets, bases, copies, scale, stride, phi, parts
    ):  # `scale` (width,) with stride 1, (1,) with stride 0
        after_others()
        held = cuda.shared.array(0, float64)
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        chunk = first + cuda.blockIdx.x
        k = modes_of[chunk]
        size = (offsets[k + 1] - offsets[k]) * width
        held_copies = copies[k]
        whole = cuda.local.array(per_lane, int64)
        sums = cuda.local.array(per_lane, float64)
        unit = cuda.local.array(per_lane, float64)
        for p in range(per_lane):
            sums[p] = 0.0
            per_count = scale[min(lane + LANES * p, width - 1) * stride]
            unit[p] = over(per_count) if per_count > 0.0 else 0.0
        base = bases[k] - offsets[k] * width
        i, end = chunks[chunk] + warp, chunks[chunk + 1]
        while i < end:
            for p in range(per_lane):
                r = min(lane + LANES * p, width - 1)
                whole[p] = all_copies(fixed, base + i * width + r, size, held_copies)
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    for c in range(held_copies):
                        fixed[U(base + i * width + c * size + r)] = 0
                    found = whole[p] * unit[p]
                    phi[U(i * width + r)] = found
                    sums[p] += found
            i += cuda.blockDim.x // LANES
        hold(held, warp * width, sums, width, lane)
        cuda.syncthreads()
        block_sums(held, width, parts, chunk * width, cuda.threadIdx.x, cuda.blockDim.x)

    return settle


@cache
def blend_kernel(per_lane: int) -> Any:
    """New factors from past and slice, not yet scaled; and column sums."""

    @kernel
    def blend(
        old, phi, rate, lam, exposure, shared, width, chunks, first, data, parts
    ):  # `exposure` (width,) if `shared`, else (rows * width,)
        after_others()
        held = cuda.shared.array(0, float64)
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        chunk = first + cuda.blockIdx.x
        sums = cuda.local.array(per_lane, float64)
        keep = cuda.local.array(per_lane, float64)
        e = cuda.local.array(per_lane, float64)
        b = cuda.local.array(per_lane, float64)
        x = cuda.local.array(per_lane, float64)
        prior = cuda.local.array(per_lane, float64)
        for p in range(per_lane):
            sums[p] = 0.0
            keep[p] = lam[min(lane + LANES * p, width - 1)]
            e[p] = exposure[min(lane + LANES * p, width - 1)]
        i, end = chunks[chunk] + warp, chunks[chunk + 1]
        while i < end:
            for p in range(per_lane):
                at = U(i * width + min(lane + LANES * p, width - 1))
                b[p] = old[at]
                x[p] = phi[at]
                prior[p] = rate[at]
                if not shared:
                    e[p] = exposure[at]
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    before = keep[p] * prior[p]
                    below = before + e[p]
                    # A row never seen has neither history nor exposure: it keeps its value.
                    a = (before * b[p] + x[p]) * over(below) if below > 0.0 else b[p]
                    data[U(i * width + r)] = a
                    sums[p] += a
            i += cuda.blockDim.x // LANES
        hold(held, warp * width, sums, width, lane)
        cuda.syncthreads()
        block_sums(held, width, parts, chunk * width, cuda.threadIdx.x, cuda.blockDim.x)

    return blend


@cache
def settle_blend_kernel(per_lane: int) -> Any:
    """`settle` and then `blend` of a mode, row by row; column sums of the new rows and of phi."""

    @kernel
    def settle_blend(
        fixed, width, chunks, first, offset, long, base_of, copies, scale, old, rate, lam, exposure,
        settled,  # whether phi has been made already
        phi, data, parts
    ):  # `scale` (1,); parts (chunks * 2 width,)  # fmt: skip
        after_others()
        held = cuda.shared.array(0, float64)
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        chunk = first + cuda.blockIdx.x
        size = long * width
        whole = cuda.local.array(per_lane, int64)
        sums = cuda.local.array(per_lane, float64)
        counts = cuda.local.array(per_lane, float64)
        for p in range(per_lane):
            sums[p] = 0.0
            counts[p] = 0.0
        i = chunks[chunk] + warp
        end = chunks[chunk + 1]
        while i < end:
            base = base_of + (i - offset) * width
            for p in range(per_lane):
                r = lane + LANES * p
                asked = r < width and not settled
                whole[p] = all_copies(fixed, base + r, size, copies) if asked else 0
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    at = i * width + r
                    found = phi[at]
                    if not settled:
                        for c in range(copies):
                            fixed[U(base + c * size + r)] = 0
                        found = whole[p] / scale[0] if scale[0] > 0.0 else 0.0
                        phi[at] = found
                    prior = lam[r] * rate[at]
                    below = prior + exposure[at]
                    # A row never seen has neither history nor exposure: it keeps its value.
                    a = (prior * old[at] + found) / below if below > 0.0 else old[at]
                    data[at] = a
                    sums[p] += a
                    counts[p] += found
            i += cuda.blockDim.x // LANES
        for p in range(per_lane):
            r = lane + LANES * p
            if r < width:
                held[warp * 2 * width + r] = sums[p]
                held[warp * 2 * width + width + r] = counts[p]
        cuda.syncthreads()
        to = chunk * 2 * width
        block_sums(held, 2 * width, parts, to, cuda.threadIdx.x, cuda.blockDim.x)

    return settle_blend


@cache
def scale_kernel(per_lane: int) -> Any:
    """Divide the columns of a mode by their sums, which go to the weights.

    Sums that are not positive count as one.
    """

    @kernel
    def scale(sums, width, chunks, first, data, scales, weights):
        # sums, scales, weights (width,); the last two are written by the first block.
        after_others()
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        chunk = first + cuda.blockIdx.x
        for p in range(per_lane):
            r = lane + LANES * p
            if r < width and cuda.blockIdx.x == 0 and warp == 0:
                found = sums[r] if sums[r] > 0.0 else 1.0
                scales[r] = found
                weights[r] *= found
        i = chunks[chunk] + warp
        end = chunks[chunk + 1]
        while i < end:
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width and sums[r] > 0.0:
                    data[i * width + r] /= sums[r]
            i += cuda.blockDim.x // LANES

    return scale


@cache
def unscaled_kernel() -> Any:
    """Weights for factors whose columns have not been divided by their sums yet."""

    @kernel
    def unscaled(counts, sums, width, modes, out):  # sums (modes * width,). One block.
        after_others()
        for r in range(cuda.threadIdx.x, width, cuda.blockDim.x):
            w = counts[r]
            for k in range(modes):
                if sums[k * width + r] > 0.0:
                    w /= sums[k * width + r]
            out[r] = w

    return unscaled


# What `absorb` leaves in its sums, one block of `width` numbers each.
DRIFT, TOTAL, RATES, PRIOR = range(4)
ABSORB_SUMS = 4
HEALTH = slice(DRIFT, RATES + 1)  # sums that are finite if all new numbers are


@cache
def absorb_kernel(per_lane: int) -> Any:
    """New sensitivity and rate, and the sums that the end of the step needs."""
    numbers = per_lane * ABSORB_SUMS

    @kernel
    def absorb(
        old, phi, rate, lam, exposure, shared, width, chunks, modes_of, first,
        scale,  # (modes * width,) column sums divided out since `old`
        sums,  # (modes * width,) column sums of `data`, divided out here
        lift, floors, learned, sensitivity, data, new_rate, new_sensitivity, parts
    ):  # fmt: skip
        after_others()
        held = cuda.shared.array(0, float64)
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        chunk = first + cuda.blockIdx.x
        k = modes_of[chunk]
        added = cuda.local.array(numbers, float64)
        keep = cuda.local.array(per_lane, float64)
        raised = cuda.local.array(per_lane, float64)
        grow = cuda.local.array(per_lane, float64)
        shrink = cuda.local.array(per_lane, float64)
        least = cuda.local.array(per_lane, float64)
        e = cuda.local.array(per_lane, float64)
        b = cuda.local.array(per_lane, float64)
        x = cuda.local.array(per_lane, float64)
        a = cuda.local.array(per_lane, float64)
        prior = cuda.local.array(per_lane, float64)
        value = cuda.local.array(per_lane, float64)
        for p in range(numbers):
            added[p] = 0.0
        for p in range(per_lane):
            r = min(lane + LANES * p, width - 1)
            keep[p] = lam[r]
            raised[p] = lift[r]
            grow[p] = scale[k * width + r]
            total = sums[k * width + r]
            shrink[p] = over(total) if total > 0.0 else 1.0
            least[p] = floors[k * width + r]
            e[p] = exposure[r]
        i, end = chunks[chunk] + warp, chunks[chunk + 1]
        while i < end:
            for p in range(per_lane):
                at = U(i * width + min(lane + LANES * p, width - 1))
                b[p] = old[at]
                x[p] = phi[at]
                prior[p] = rate[at]
                value[p] = sensitivity[at]
                a[p] = data[at]
                if not shared:
                    e[p] = exposure[at]
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    at = U(i * width + r)
                    before = keep[p] * prior[p]
                    total = before + e[p]
                    new = value[p]
                    if learned:
                        kept = before * over(total) if total > 0.0 else 1.0
                        fresh = x[p] * over(e[p]) if e[p] > 0.0 else b[p]
                        new = kept * new - (1.0 - kept) * kept * raised[p] * (fresh - b[p])
                    new_sensitivity[at] = new
                    new_rate[at] = total * grow[p]
                    scaled = a[p] * shrink[p]
                    data[at] = scaled
                    added[p * ABSORB_SUMS + DRIFT] += new
                    added[p * ABSORB_SUMS + TOTAL] += max(scaled, least[p])
                    added[p * ABSORB_SUMS + RATES] += total * grow[p]
                    added[p * ABSORB_SUMS + PRIOR] += before * b[p]
            i += cuda.blockDim.x // LANES
        columns = ABSORB_SUMS * width
        for p in range(per_lane):
            r = lane + LANES * p
            if r < width:
                for q in range(ABSORB_SUMS):
                    held[warp * columns + q * width + r] = added[p * ABSORB_SUMS + q]
        cuda.syncthreads()
        block_sums(held, columns, parts, chunk * columns, cuda.threadIdx.x, cuda.blockDim.x)

    return absorb


@cache
def finish_kernel(per_lane: int) -> Any:
    """Columns of the sensitivity sum to zero, factors lie above the floor and sum to one."""

    @kernel
    def finish(sums, floors, learned, width, chunks, modes_of, first, data, sensitivity):
        after_others()
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        chunk = first + cuda.blockIdx.x
        k = modes_of[chunk]
        base = k * ABSORB_SUMS * width
        drift = cuda.local.array(per_lane, float64)
        shrink = cuda.local.array(per_lane, float64)
        least = cuda.local.array(per_lane, float64)
        a = cuda.local.array(per_lane, float64)
        value = cuda.local.array(per_lane, float64)
        for p in range(per_lane):
            r = min(lane + LANES * p, width - 1)
            drift[p] = sums[base + DRIFT * width + r]
            total = sums[base + TOTAL * width + r]
            shrink[p] = over(total) if total > 0.0 else 1.0
            least[p] = floors[k * width + r]
        i, end = chunks[chunk] + warp, chunks[chunk + 1]
        while i < end:
            for p in range(per_lane):
                at = U(i * width + min(lane + LANES * p, width - 1))
                a[p] = data[at]
                value[p] = sensitivity[at]
            for p in range(per_lane):
                if lane + LANES * p < width:
                    at = U(i * width + lane + LANES * p)
                    if learned:
                        sensitivity[at] = value[p] - a[p] * drift[p]
                    data[at] = max(a[p], least[p]) * shrink[p]
            i += cuda.blockDim.x // LANES

    return finish


@cache
def floors_kernel() -> Any:
    """The accumulated counts, and the smallest entry of every column that follows from them."""

    @kernel
    def floors_of(rank, width, modes, mass, counts, events, share, lengths, floors):
        # mass (width,): the past's, forgotten; events = FLOOR_EVENTS * unit (1,). One block.
        after_others()
        r = cuda.threadIdx.x
        while r < width:
            held = max(mass[r] + counts[r], 1e-300)
            for k in range(modes):
                least = min(events[0] / held, share / lengths[k])
                floors[k * width + r] = least if r < rank else 0.0
            r += cuda.blockDim.x

    return floors_of
