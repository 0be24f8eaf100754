"""Steps of long modes: a warp takes a tile of rows, from their samples to their new numbers.

To the sums over samples it adds products of the rows with B and of the old ones with C (`tall`),
and takes the rows through their step; gradients never leave the multiprocessor. No warp waits for
another: while some multiply, others wait for memory, which is what these steps are about.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda, float64, int32

from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.groups import warp_barrier
from onlinegcp.kernels.cuda.lanes import LANES, kernel
from onlinegcp.kernels.cuda.mma import DEEP, EDGE
from onlinegcp.kernels.cuda.sgd.draws import CORRECTED, DONE
from onlinegcp.kernels.cuda.sgd.long_samples import AT_ONCE, PAIRED, pairs_of, samples_function
from onlinegcp.kernels.cuda.sgd.pairs import pair_of
from onlinegcp.kernels.cuda.sgd.rows import (
    BETA_1,
    BETA_2,
    EPSILON,
    LOWER,
    RIDGE,
    moments_function,
    pair_step,
)
from onlinegcp.kernels.cuda.sgd.tall import TALL, groups_of, matrix_size, multiply_tall

WIDEST = 128  # columns for which the sums of a tile fit into a warp's registers
PANEL_WARPS = 4
PANEL_REGISTERS = 128
TOGETHER = 1  # pairs of columns of either matrix that a warp waits for at once
ROWS = 2  # whose steps a warp takes at once
PER_PAIR = 8  # numbers of a step: two, and their moments


def panel_bytes(width: int, warps: int) -> int:
    """Shared memory of a block: the gradients of its warps' tiles."""
    return 8 * warps * EDGE * width


@cache
def panels_kernel(width: int, modes: int, kind: int, code: int, folds: bool) -> Any:
    """One step of every row of the long modes.

    Made for one width, so that places of numbers are known when it is compiled: finding them would
    take as many instructions as the products.
    """
    groups, steps, matrix = groups_of(width), -(-width // EDGE), matrix_size(width)
    pairs = pairs_of(width)
    own_numbers, products = 2 * pairs, 2 * pairs * AT_ONCE
    held, given, now = 4 * groups, 2 * TOGETHER, ROWS * PER_PAIR
    add_samples = samples_function(pairs, modes, code)
    moments_of, step_pair = moments_function(kind), pair_step(kind)

    def step_panels(
        data, offsets, weights, numbers, parameter, room, slot, turn, sorted_rows, bounds, xs, ws,
        order, tiles, old, folded, how, rates, anchors, rank, u, v, largest, moved
    ):  # fmt: skip
        # A warp is a tile. tiles (modes + 1,): the first of every mode, and how many there are.
        lane = cuda.threadIdx.x % LANES
        number = (cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x) // LANES
        if number >= tiles[modes]:
            return
        mode = 0
        while number >= tiles[mode + 1]:
            mode += 1
        first = offsets[mode] + EDGE * (number - tiles[mode])
        last = min(first + EDGE, offsets[mode + 1])
        segment = slot * (offsets[modes] + modes) + mode
        p, end = bounds[U(segment + first)], bounds[U(segment + last)]
        tile = cuda.shared.array(0, float64)
        here = cuda.threadIdx.x // LANES * EDGE * width  # where the warp's own part begins
        scale = cuda.local.array(own_numbers, float64)
        row_sums = cuda.local.array(own_numbers, float64)
        z = cuda.local.array(products, float64)
        models = cuda.local.array(AT_ONCE, float64)
        own = cuda.local.array(AT_ONCE, int32)
        listed = cuda.local.array(modes, int32)
        base = (slot * modes + mode) * room
        add_samples(
            data, width, weights, parameter, numbers[CORRECTED], room, base, base * modes,
            sorted_rows, xs, ws, order, p, end, first, lane, scale, z, row_sums, models, own,
            listed, tile, here, width
        )  # fmt: skip
        warp_barrier()
        if folds:
            # Sums of a lane: two neighbours of a group of columns in two neighbouring rows.
            sums = cuda.local.array(held, float64)
            corner = here + 2 * (lane % DEEP) * width + lane // DEEP * 2
            for j in range(groups):
                at = corner + min(TALL * j, width - 2 - lane // DEEP * 2)
                sums[4 * j], sums[4 * j + 2] = tile[U(at)], tile[U(at + 1)]
                sums[4 * j + 1], sums[4 * j + 3] = tile[U(at + width)], tile[U(at + width + 1)]
            new = cuda.local.array(given, float64)
            past = cuda.local.array(given, float64)
            source = min(first + lane // DEEP, last - 1) * width
            place = 2 * mode * matrix + 2 * lane
            for begin in range(0, steps, TOGETHER):
                for t in range(TOGETHER):
                    at = source + min(EDGE * (begin + t) + 2 * (lane % DEEP), width - 2)
                    new[2 * t], new[2 * t + 1] = pair_of(data, at)
                    past[2 * t], past[2 * t + 1] = pair_of(old, at)
                for t in range(2 * TOGETHER):
                    if 2 * begin + t < 2 * steps:  # the same for all lanes
                        to = place + (2 * begin + t) * groups * LANES * 2
                        # Sums take turns, so that none waits for itself.
                        for j in range(groups):
                            s = 4 * j
                            a, b = pair_of(folded, to + j * LANES * 2)
                            sums[s], sums[s + 1], sums[s + 2], sums[s + 3] = multiply_tall(
                                a, b, new[t], sums[s], sums[s + 1], sums[s + 2], sums[s + 3]
                            )
                        for j in range(groups):
                            s = 4 * j
                            a, b = pair_of(folded, to + matrix + j * LANES * 2)
                            sums[s], sums[s + 1], sums[s + 2], sums[s + 3] = multiply_tall(
                                a, b, past[t], sums[s], sums[s + 1], sums[s + 2], sums[s + 3]
                            )
            warp_barrier()
            for j in range(groups):
                if TALL * j + lane // DEEP * 2 < width:
                    at = corner + TALL * j
                    tile[U(at)], tile[U(at + 1)] = sums[4 * j], sums[4 * j + 2]
                    tile[U(at + width)], tile[U(at + width + 1)] = sums[4 * j + 1], sums[4 * j + 3]
            warp_barrier()
        rate, tie = rates[numbers[DONE] + turn], anchors[mode]
        beta_1, beta_2, epsilon = how[BETA_1], how[BETA_2], how[EPSILON]
        ridge, lower = how[RIDGE], how[LOWER]
        number_of = cuda.local.array(now, float64)
        for c in range(pairs):
            column = PAIRED * c + 2 * lane
            inside = min(column, width - 2)
            for begin in range(0, EDGE, ROWS):
                # What several steps need is asked for before the first of them is taken.
                for t in range(ROWS):
                    e = min(first + begin + t, last - 1) * width + inside
                    q = PER_PAIR * t
                    number_of[q], number_of[q + 1] = pair_of(data, e)
                    (
                        number_of[q + 2], number_of[q + 3], number_of[q + 4],
                        number_of[q + 5], number_of[q + 6], number_of[q + 7],
                    ) = moments_of(e, u, v, largest)  # fmt: skip
                for t in range(ROWS):
                    row, q = first + begin + t, PER_PAIR * t
                    if column < width and row < last:
                        at = here + (begin + t) * width + column
                        step_pair(
                            row * width + column, column, rank, number_of[q], number_of[q + 1],
                            number_of[q + 2], number_of[q + 3], number_of[q + 4], number_of[q + 5],
                            number_of[q + 6], number_of[q + 7], tile[U(at)], tile[U(at + 1)], old,
                            tie, rate, beta_1, beta_2, epsilon, ridge, lower, u, v, largest, moved
                        )  # fmt: skip

    # As many warps as their registers let be under way at once.
    return kernel(step_panels, max_registers=PANEL_REGISTERS if groups <= DEEP else None)
