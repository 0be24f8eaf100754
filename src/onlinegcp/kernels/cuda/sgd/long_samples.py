"""Sums over the samples of a tile of rows of long modes.

A warp takes EDGE neighbouring rows of a mode, whose samples lie one after the other once they are
sorted. Lane l has the columns 2 l and 2 l + 1 of rows (and those 64 further, ...), so that one
request of a warp brings a row in whole lines. The product z of a sample's other rows and the
weights gives, with its own row, the model, the model the slope y, and y z is added to the sums of
its row. So slopes are found where they are used, and nobody waits for them. Four samples are under
way at once.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from functools import cache
from typing import Any

from numba import int64

from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.formulas import deriv_of
from onlinegcp.kernels.cuda.lanes import GROUP, LANES, device, from_lane, lane_sums
from onlinegcp.kernels.cuda.mma import EDGE
from onlinegcp.kernels.cuda.sgd.pairs import pair_of

AT_ONCE = 4  # samples: `lane_sums` adds up four numbers over the lanes of a warp
PAIRED = 2 * LANES  # columns of which each lane has two


def pairs_of(width: int) -> int:
    """Pairs of columns of a lane."""
    return -(-width // PAIRED)


@cache
def samples_function(pairs: int, modes: int, code: int) -> Any:
    """Writes the sums over samples of the EDGE rows of a tile, in order, to (EDGE, pitch) numbers.

    The arrays `scale`, `z`, `sums`, `parts`, `own` and `listed` are the caller's registers.
    """
    numbers = 2 * pairs  # of a lane in a row

    @device
    def add_samples(
        data, width, weights, parameter, corrected, room, base, lists, sorted_rows, xs, ws, order,
        p, end, first, lane, scale, z, sums, parts, own, listed, out, to, pitch
    ):  # fmt: skip
        # base: where the mode's samples begin in xs, ws and order, lists: its rows in sorted_rows;
        # first: the tile's first row, whose sums go to out[to:].
        for c in range(pairs):
            column = PAIRED * c + 2 * lane
            a, b = pair_of(weights, min(column, width - 2))
            inside = 1.0 if column < width else 0.0
            scale[2 * c], scale[2 * c + 1] = inside * a, inside * b
            sums[2 * c], sums[2 * c + 1] = 0.0, 0.0
        current = first
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
                for s in range(AT_ONCE):
                    mine = min(i + s, here - 1)
                    own[s] = from_lane(listed[0], mine)
                    q, m = numbers * s, 0.0
                    for c in range(numbers):
                        z[q + c] = scale[c]
                    for o in range(1, modes):
                        row = int64(from_lane(listed[o], mine)) * width
                        for c in range(pairs):
                            a, b = pair_of(data, row + min(PAIRED * c + 2 * lane, width - 2))
                            z[q + 2 * c] *= a
                            z[q + 2 * c + 1] *= b
                    row = int64(own[s]) * width
                    for c in range(pairs):
                        a, b = pair_of(data, row + min(PAIRED * c + 2 * lane, width - 2))
                        m += z[q + 2 * c] * a + z[q + 2 * c + 1] * b
                    parts[s] = m
                m = lane_sums(parts[0], parts[1], parts[2], parts[3], lane)
                mine = min(i + lane // GROUP, here - 1)
                y = deriv_of(code, parameter, from_lane(x, mine), m)
                if from_lane(cut, mine) > 0:
                    y -= deriv_of(code, parameter, 0.0, m)
                y *= from_lane(w, mine)
                for s in range(AT_ONCE):
                    slope = from_lane(y, GROUP * s)
                    if i + s < here:
                        while current < own[s]:  # a row is complete
                            for c in range(pairs):
                                column = PAIRED * c + 2 * lane
                                if column < width:
                                    out[U(to + column)] = sums[2 * c]
                                    out[U(to + column + 1)] = sums[2 * c + 1]
                                sums[2 * c], sums[2 * c + 1] = 0.0, 0.0
                            current += 1
                            to += pitch
                        for c in range(numbers):
                            sums[c] += slope * z[numbers * s + c]
                i += AT_ONCE
            p += LANES
        while current < first + EDGE:
            for c in range(pairs):
                column = PAIRED * c + 2 * lane
                if column < width:
                    out[U(to + column)] = sums[2 * c]
                    out[U(to + column + 1)] = sums[2 * c + 1]
                sums[2 * c], sums[2 * c + 1] = 0.0, 0.0
            current += 1
            to += pitch

    return add_samples
