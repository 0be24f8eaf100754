"""Sums over the samples of tiles of short modes, by the units that multiply small matrices.

A warp takes EDGE neighbouring rows of a mode, or part of their samples, which lie one after the
other once they are sorted. Four samples at a time: lane l has sample l % DEEP and the columns
l // DEEP, + EDGE, ... of the product z of its other rows and the weights. With its own row z gives
the model, the model the slope y, and y in the row of the sample, times z, is a product of small
matrices that is added to the tile's sums (`mma`). So slopes are found where they are used, and
nobody waits for them. Where rows lie in a cache this is faster than `long_samples`.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, float64, int32, int64

from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.formulas import deriv_of
from onlinegcp.kernels.cuda.groups import place_sum
from onlinegcp.kernels.cuda.lanes import LANES, from_lane, kernel
from onlinegcp.kernels.cuda.mma import DEEP, EDGE, multiply
from onlinegcp.kernels.cuda.sgd.draws import CORRECTED
from onlinegcp.kernels.cuda.sgd.pairs import put_pair


@cache
def gather_kernel(pieces: int, modes: int, code: int) -> Any:
    """Gradients of the slice in the rows of short modes, every tile's samples in parts.

    Part `part` of the so many-th tile of a mode goes to (EDGE, width) numbers of `out`, from
    bases[mode] + (tile * parts[mode] + part) * EDGE * width on. pieces: groups of EDGE columns.
    """
    held, whole = 2 * pieces, pieces - 1  # whole: pieces all of whose columns there are

    @kernel
    def gather(
        data, width, offsets, weights, numbers, parameter, room, slot, sorted_rows, bounds, xs, ws,
        order, parts, units, bases, out
    ):  # fmt: skip
        # A warp is a part. units (modes + 1,): the first of every mode, and how many there are.
        lane = cuda.threadIdx.x % LANES
        unit = (cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x) // LANES
        if unit >= units[modes]:
            return
        mode = 0
        while unit >= units[mode + 1]:
            mode += 1
        count = parts[mode]
        number = unit - units[mode]
        tile, part = number // count, number % count
        first = offsets[mode] + EDGE * tile
        end = min(first + EDGE, offsets[mode + 1])
        segment = slot * (offsets[modes] + modes) + mode
        low, high = bounds[U(segment + first)], bounds[U(segment + end)]
        fours = (high - low + DEEP - 1) // DEEP
        p = low + DEEP * (fours * part // count)
        end = min(high, low + DEEP * (fours * (part + 1) // count))
        sums = cuda.local.array(held, float64)
        z = cuda.local.array(pieces, float64)
        listed = cuda.local.array(modes, int32)
        for q in range(held):
            sums[q] = 0.0
        base = (slot * modes + mode) * room
        lists, corrected = base * modes, numbers[CORRECTED]
        column = lane // DEEP
        last = min(EDGE * whole + column, width - 1)
        inside = 1.0 if EDGE * whole + column < width else 0.0
        while p < end:
            # A lane reads up the so many-th sample, and all of them take four at a time.
            at = min(p + lane, end - 1)
            for o in range(modes):
                listed[o] = sorted_rows[U(lists + o * room + at)]
            x, w = xs[U(base + at)], ws[U(base + at)]
            cut = 1 if corrected > 0 and order[U(base + at)] < corrected else 0
            here = min(LANES, end - p)
            i = 0
            while i < here:
                mine = i + lane % DEEP
                for j in range(whole):
                    z[j] = weights[U(EDGE * j + column)]
                z[whole] = inside * weights[U(last)]
                for o in range(1, modes):
                    row = int64(from_lane(listed[o], mine)) * width
                    for j in range(whole):
                        z[j] *= data[U(row + column + EDGE * j)]
                    z[whole] *= data[U(row + last)]
                own = from_lane(listed[0], mine)
                row, m = int64(own) * width, 0.0
                for j in range(whole):
                    m += z[j] * data[U(row + column + EDGE * j)]
                m = place_sum(m + z[whole] * data[U(row + last)])
                y = deriv_of(code, parameter, from_lane(x, mine), m)
                if from_lane(cut, mine) > 0:
                    y -= deriv_of(code, parameter, 0.0, m)
                y *= from_lane(w, mine)
                left = y if own - first == column and mine < here else 0.0
                for j in range(pieces):
                    sums[2 * j], sums[2 * j + 1] = multiply(
                        left, z[j], sums[2 * j], sums[2 * j + 1]
                    )
                i += DEEP
            p += LANES
        to = bases[mode] + (number * EDGE + lane // DEEP) * width + 2 * (lane % DEEP)
        for j in range(pieces):
            if EDGE * j + 2 * (lane % DEEP) < width:
                put_pair(out, to + EDGE * j, sums[2 * j], sums[2 * j + 1])

    return gather
