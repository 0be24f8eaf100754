"""Steps of long modes: a block takes a panel of rows, whose history products share their operands.

What `rows.move` does with a block per row, for models with so many rows that reading the folded
matrices once per row would cost more than all else. Half of a block's warps multiply the panel by
B, the other half the old one by C: see `mma`.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, float64, int64

from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.lanes import LANES, from_lane, kernel
from onlinegcp.kernels.cuda.mma import DEEP, EDGE, aside, multiply
from onlinegcp.kernels.cuda.sgd.draws import DONE
from onlinegcp.kernels.cuda.sgd.rows import LOWER, RIDGE, at_once, samples_function, stepped
from onlinegcp.kernels.sgd.plan import ADAM, AMSGRAD, SGD

PANEL_THREADS, PANEL_REGISTERS = 256, 80
WIDEST = 128  # columns for which every warp has at most one piece of the product
FEW = 4  # samples of a long row that are waited for at once: it has few more
HIGH, BROAD = 2, 4  # sums of a warp's piece of the product
TALL, WIDE = HIGH * EDGE, BROAD * EDGE
NUMBERS = TALL * WIDE // LANES


def panel_rows(width: int) -> int:
    """Rows of a panel."""
    return 2 * TALL if width <= 2 * WIDE else TALL


def panel_bytes(width: int) -> int:
    """Shared memory of a block."""
    return 8 * 2 * panel_rows(width) * aside(width)


@cache
def panels_kernel(width: int, modes: int, kind: int, folds: bool) -> Any:
    """One step of every row of a mode.

    Made for one width, so that places of numbers are known when it is compiled: finding them would
    take as many instructions as the products.
    """
    per_lane, tall, pitch = -(-width // LANES), panel_rows(width), aside(width)
    together = min(FEW, at_once(per_lane, modes))
    add_samples = samples_function(per_lane, modes, together)
    others, each = modes - 1, tall // (PANEL_THREADS // LANES)  # rows of a warp
    own = each * per_lane
    has_mean, has_second, has_top = kind in (ADAM, AMSGRAD), kind != SGD, kind == AMSGRAD

    def move_panels(
        data, offsets, weights, numbers, mode, room, slot, turn, sorted_rows, bounds,
        ys, parts, gathered, old, folded, how, rates, anchor, rank, u, v, largest, moved
    ):  # fmt: skip
        # parts: in how many a row's sums were gathered, from the start of `gathered` on, 0: not
        # yet; ys begins with the mode's slopes.
        held = cuda.shared.array(0, float64)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        lane, warp, warps = me % LANES, me // LANES, threads // LANES
        first = offsets[mode] + cuda.blockIdx.x * tall
        last = min(first + tall, offsets[mode + 1])
        side = tall * pitch
        columns = cuda.local.array(per_lane, int64)
        for c in range(per_lane):
            columns[c] = min(lane + LANES * c, width - 1)
        begin = first + warp * each
        segment = slot * (offsets[modes] + modes) + mode
        edges = bounds[U(segment + min(begin + min(lane, each), last))]
        if folds:
            new = cuda.local.array(own, float64)
            past = cuda.local.array(own, float64)
            for q in range(each):
                source = min(begin + q, last - 1) * width
                for c in range(per_lane):
                    new[q * per_lane + c] = data[U(source + columns[c])]
                    past[q * per_lane + c] = old[U(source + columns[c])]
            for q in range(each):
                to = (warp * each + q) * pitch
                for c in range(per_lane):
                    held[U(to + columns[c])] = new[q * per_lane + c]
                    held[U(side + to + columns[c])] = past[q * per_lane + c]
            cuda.syncthreads()
            half = warps // 2
            which, piece = warp // half, warp % half
            pieces = (width + WIDE - 1) // WIDE
            up, left = piece // pieces * TALL, piece % pieces * WIDE
            works = up < tall
            product = cuda.local.array(NUMBERS, float64)
            a = cuda.local.array(HIGH, float64)
            for q in range(NUMBERS):
                product[q] = 0.0
            # What lies beyond the last column is read, there is room for it, and never used.
            at = ((2 * mode + which) * width + lane % DEEP) * width + left + lane // DEEP
            if works:  # the same for all lanes
                panel = which * side + (up + lane // DEEP) * pitch + lane % DEEP
                for q in range(0, width, DEEP):
                    for x in range(HIGH):
                        a[x] = held[U(panel + x * EDGE * pitch + q)]
                    for y in range(BROAD):
                        b = folded[U(at + y * EDGE + q * width)]
                        for x in range(HIGH):
                            to = (x * BROAD + y) * 2
                            product[to], product[to + 1] = multiply(
                                a[x], b, product[to], product[to + 1]
                            )
            cuda.syncthreads()
            if works:
                for x in range(HIGH):
                    for y in range(BROAD):
                        for z in range(2):
                            column = left + y * EDGE + 2 * (lane % DEEP) + z
                            if column < width:
                                to = which * side + (up + x * EDGE + lane // DEEP) * pitch + column
                                held[U(to)] = product[(x * BROAD + y) * 2 + z]
            cuda.syncthreads()
        base = (slot * modes + mode) * others * room
        end = min(begin + each, last)
        sums = cuda.local.array(per_lane, float64)
        value = cuda.local.array(per_lane, float64)
        mean = cuda.local.array(per_lane, float64)
        second = cuda.local.array(per_lane, float64)
        top = cuda.local.array(per_lane, float64)
        rate = rates[numbers[DONE] + turn]
        for i in range(begin, end):
            p, stop = from_lane(edges, i - begin), from_lane(edges, i - begin + 1)
            for c in range(per_lane):
                e = i * width + columns[c]
                sums[c] = 0.0
                value[c] = data[U(e)]
                mean[c] = u[U(e)] if has_mean else 0.0
                second[c] = v[U(e)] if has_second else 0.0
                top[c] = largest[U(e)] if has_top else 0.0
            if parts > 0:
                for part in range(parts):
                    at_part = ((i - offsets[mode]) * parts + part) * width
                    for c in range(per_lane):
                        sums[c] += gathered[U(at_part + columns[c])]
            else:
                add_samples(
                    data, width, columns, room, base, sorted_rows, ys, p, stop, together, lane, sums
                )
            for c in range(per_lane):
                r = lane + LANES * c
                if r < width:
                    e = i * width + r
                    g = sums[c] * weights[r] + how[RIDGE] * value[c]
                    if folds:
                        to = (i - first) * pitch + r
                        g += held[U(to)] + held[U(side + to)]
                    if anchor != 0.0:
                        g += anchor * (value[c] - old[e])
                    floor = how[LOWER] if r < rank else 0.0
                    new, m, s, t = stepped(
                        kind, value[c], g, rate, how, floor, mean[c], second[c], top[c]
                    )
                    moved[U(e)] = new
                    if has_mean:
                        u[U(e)] = m
                    if has_second:
                        v[U(e)] = s
                    if has_top:
                        largest[U(e)] = t

    # Three blocks are under way at once: one multiplies while the others wait for memory.
    return kernel(move_panels, max_registers=PANEL_REGISTERS)
