"""Sums of log(1 + m) over every cell from cells drawn by component; see `component_draws`.

The same hashes draw the same cells as on the CPU, as long as the cumulative sums of the factors
agree to the last digits that matter.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import cuda, float64, int64

from onlinegcp.kernels.cuda.lanes import LANES, device, kernel, lane_sum
from onlinegcp.kernels.cuda.overlap import after_others
from onlinegcp.kernels.random import GOLDEN, mix64, unit

_hash = device(mix64)
_unit = device(unit)
_GOLDEN = np.uint64(GOLDEN)
SHIFT = np.uint64(20)
CHANCES = float(2**40)  # whole numbers that a chance of one is


@cache
def cumulate_kernel() -> Any:
    """Cumulative sums down the columns of every mode."""

    @kernel
    def cumulate(data, width, chunks, modes_of, bounds, sums, out):
        # sums (chunks * width,): column sums of the chunks. A thread takes a column of a chunk.
        after_others()
        r = cuda.threadIdx.x
        chunk = cuda.blockIdx.x
        while r < width:
            total = 0.0
            for before in range(bounds[modes_of[chunk]], chunk):
                total += sums[before * width + r]
            for i in range(chunks[chunk], chunks[chunk + 1]):
                total += data[i * width + r]
                out[i * width + r] = total
            r += cuda.blockDim.x

    return cumulate


@device
def coprime(candidate, modulus):
    """The next number from `candidate` on that shares no divisor with `modulus`."""
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


@cache
def draw_kernel() -> Any:
    """cells[r * draws + n, k] = row of the factors drawn from column r of mode k."""

    @kernel
    def draw(cumulative, width, offsets, modes, rank, draws, key, cells):  # key (1,) uint64
        # One block per component and mode.
        after_others()
        r, k = cuda.blockIdx.x, cuda.blockIdx.y
        low, high = offsets[k], offsets[k + 1]
        top = cumulative[(high - 1) * width + r]
        base = _hash(key[0] + _GOLDEN * np.uint64(r * modes + k + 1))
        shift = int64(base % np.uint64(draws))
        stride = coprime(int64((base >> SHIFT) % np.uint64(draws)), draws)
        n = cuda.threadIdx.x
        while n < draws:
            stratum = (n * stride + shift) % draws
            u = _unit(_hash(base + _GOLDEN * np.uint64(n + 1)))
            goal = (stratum + u) / draws * top
            a, b = low, high - 1
            while a < b:
                middle = (a + b) // 2
                if cumulative[middle * width + r] > goal:
                    b = middle
                else:
                    a = middle + 1
            cells[(r * draws + n) * modes + k] = a
            n += cuda.blockDim.x

    return draw


@cache
def chance_kernel(per_lane: int, modes: int) -> Any:
    """1 / (1 + m) at every draw; and sums of it and of log(1 + m) / m, two numbers per block."""

    @kernel
    def chances(data, width, cells, draws, weights, chance, parts):
        # Blocks along x are components, along y share out a component's draws.
        after_others()
        held = cuda.shared.array(0, float64)
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        own_pull, own_logs = 0.0, 0.0
        n = cuda.blockIdx.y * here + warp
        while n < draws:
            j = cuda.blockIdx.x * draws + n
            m = 0.0
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    z = weights[r]
                    for k in range(modes):
                        z *= data[cells[j * modes + k] * width + r]
                    m += z
            m = lane_sum(m)
            found = 1.0 / (1.0 + m)
            if lane == 0:
                chance[j] = found
            own_pull += found
            own_logs += math.log1p(m) / m if m > 1e-12 else 1.0
            n += cuda.gridDim.y * here
        if lane == 0:
            held[2 * warp] = own_pull
            held[2 * warp + 1] = own_logs
        cuda.syncthreads()
        if cuda.threadIdx.x < 2:
            total = 0.0
            for other in range(here):
                total += held[2 * other + cuda.threadIdx.x]
            at = cuda.blockIdx.x * cuda.gridDim.y + cuda.blockIdx.y
            parts[2 * at + cuda.threadIdx.x] = total

    return chances


@cache
def means_kernel() -> Any:
    """Mean chances and mean log(1 + m) / m, times the column sums of all modes but one."""

    @kernel
    def means(rank, width, modes, without, draws, shares, sums, parts, out):
        # shares: blocks a component's draws were shared out among. out (2 * width,). One block.
        after_others()
        r = cuda.threadIdx.x
        while r < rank:
            pull, logs = 0.0, 0.0
            for s in range(shares):
                pull += parts[2 * (r * shares + s)]
                logs += parts[2 * (r * shares + s) + 1]
            whole = 1.0
            for k in range(modes):
                if k != without:
                    whole *= sums[k * width + r]
            out[r] = pull * (whole / draws)
            out[width + r] = logs * (whole / draws)
            r += cuda.blockDim.x

    return means


@cache
def row_chances_kernel(per_lane: int, modes: int) -> Any:
    """Rates of a mode with the draws' own row replaced by every row in turn."""

    @kernel
    def row_chances(data, width, offsets, cells, draws, rank, weights, sums, mode, factor, rate):
        # One block per row and component, padding included. sums (modes * width,).
        after_others()
        held = cuda.shared.array(0, float64)
        lane, warp = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        here = cuda.blockDim.x // LANES
        i = offsets[mode] + cuda.blockIdx.x
        r_own = cuda.blockIdx.y
        total = 0.0
        n = warp
        while n < draws and r_own < rank:
            j = r_own * draws + n
            m = 0.0
            for p in range(per_lane):
                r = lane + LANES * p
                if r < width:
                    z = weights[r] * data[i * width + r]
                    for k in range(modes):
                        if k != mode:
                            z *= data[cells[j * modes + k] * width + r]
                    m += z
            total += 1.0 / (1.0 + lane_sum(m))
            n += here
        if lane == 0:
            held[warp] = total
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            total = 0.0
            if r_own < rank:
                for other in range(here):
                    total += held[other]
                whole = weights[r_own]
                for k in range(modes):
                    if k != mode:
                        whole *= sums[k * width + r_own]
                total *= factor * whole / draws
            rate[i * width + r_own] = total

    return row_chances


@cache
def scatter_kernel() -> Any:
    """Chances as whole numbers, added up in the drawn rows of a mode, and how many there are."""

    @kernel
    def scatter(cells, modes, draws, rank, mode, width, chance, found, count):
        after_others()
        j = cuda.grid(1)
        while j < rank * draws:
            at = cells[j * modes + mode] * width + j // draws
            cuda.atomic.add(found, at, int64(chance[j] * CHANCES + 0.5))
            cuda.atomic.add(count, at, int64(1))
            j += cuda.gridsize(1)

    return scatter


@cache
def lend_kernel() -> Any:
    """Rates from scattered chances: rows with few draws borrow from their component's mean."""

    @kernel
    def lend(
        first, last, width, rank, modes, mode, weights, sums, means, strength, factor,
        found, count, rate
    ):  # fmt: skip
        # means (width,): mean chances times the column sums of all modes but this one.
        after_others()
        i = cuda.grid(1) + first * width
        while i < last * width:
            r = i % width
            total = 0.0
            if r < rank:
                whole = weights[r]
                for k in range(modes):
                    if k != mode:
                        whole *= sums[k * width + r]
                seen = found[i] / CHANCES
                held = strength + count[i]
                # `means` has the column sums in it already.
                total = factor * (strength * weights[r] * means[r] + whole * seen) / held
            rate[i] = total
            found[i] = 0
            count[i] = 0
            i += cuda.gridsize(1)

    return lend


@cache
def collect_kernel() -> Any:
    """The slope of base * sum log(1 + m), and after it the sum itself, from what draws say."""

    @kernel
    def collect(rank, width, base, weights, drawn, push):
        # drawn (2 * width,): means of 1 / (1 + m) and of log(1 + m) / m, times column sums.
        after_others()
        r = cuda.threadIdx.x
        while r < width:
            push[r] = base * drawn[r] if r < rank else 0.0
            r += cuda.blockDim.x
        if cuda.threadIdx.x == 0:
            total = 0.0
            for q in range(rank):
                total += weights[q] * drawn[width + q]
            push[width] = base * total

    return collect
