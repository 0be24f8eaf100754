"""Steps of single numbers, of the weights, and of tiles of rows whose gradients were gathered.

A row's gradient is the sum over its samples (`samples`) plus the history's and the penalties'. All
modes move at once, so that new rows are written beside the old. What long modes do in one go
(`panels`) short ones do in two: their few rows have too many samples for a warp each.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import math
from functools import cache
from typing import Any

from numba import cuda, float64, int64

from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.lanes import LANES, device, kernel, over
from onlinegcp.kernels.cuda.mma import DEEP, EDGE
from onlinegcp.kernels.cuda.sgd.draws import DONE
from onlinegcp.kernels.cuda.sgd.pairs import pair_of, pair_once, put_once, put_pair
from onlinegcp.kernels.cuda.sgd.tall import TALL, matrix_numbers, multiply_tall
from onlinegcp.kernels.sgd.plan import ADAGRAD, ADAM, AMSGRAD, SGD

UNROLLED = 2  # parts that a thread waits for at once
TILE_PAIRS = EDGE * EDGE  # of numbers that neighbour each other in a row
# Places in the constants of a step.
BETA_1, BETA_2, EPSILON, RIDGE, WEIGHT_RIDGE, LOWER = range(6)
STEP_NUMBERS = 6


@device
def stepped(kind, a, g, rate, beta_1, beta_2, epsilon, floor, mean, second, top):
    """What a number and its moments become by one step down its slope; see `kernels.sgd.step`."""
    if kind == SGD:
        a -= rate * g
    elif kind == ADAGRAD:
        second = second + g * g
        a -= rate * (g * over(math.sqrt(second) + epsilon))
    else:
        mean = beta_1 * mean + (1.0 - beta_1) * g
        second = beta_2 * second + (1.0 - beta_2) * (g * g)
        top = max(top, second) if kind == AMSGRAD else second
        a -= rate * (mean * over(math.sqrt(top) + epsilon))
    if a < floor:
        a = floor
    return a, mean, second, top


@cache
def moments_function(kind: int) -> Any:
    """The moments of two neighbours: means, seconds, largest; zeros where there are none."""
    has_mean, has_second, has_top = kind in (ADAM, AMSGRAD), kind != SGD, kind == AMSGRAD

    @device
    def moments_of(e, u, v, largest):
        mean, mean_b, second, second_b, top, top_b = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        if has_mean:
            mean, mean_b = pair_once(u, e)
        if has_second:
            second, second_b = pair_once(v, e)
        if has_top:
            top, top_b = pair_once(largest, e)
        return mean, mean_b, second, second_b, top, top_b

    return moments_of


@cache
def pair_step(kind: int) -> Any:
    """A step of two neighbours of a row, of which the gradient is known but for the penalties."""
    has_mean, has_second, has_top = kind in (ADAM, AMSGRAD), kind != SGD, kind == AMSGRAD

    @device
    def step_pair(
        e, column, rank, a, b, mean, mean_b, second, second_b, top, top_b, g, h, old, tie, rate,
        beta_1, beta_2, epsilon, ridge, lower, u, v, largest, moved
    ):  # fmt: skip
        g += ridge * a
        h += ridge * b
        if tie != 0.0:
            c, d = pair_of(old, e)
            g += tie * (a - c)
            h += tie * (b - d)
        floor = lower if column < rank else 0.0
        a, mean, second, top = stepped(
            kind, a, g, rate, beta_1, beta_2, epsilon, floor, mean, second, top
        )
        floor = lower if column + 1 < rank else 0.0
        b, mean_b, second_b, top_b = stepped(
            kind, b, h, rate, beta_1, beta_2, epsilon, floor, mean_b, second_b, top_b
        )
        put_pair(moved, e, a, b)
        if has_mean:
            put_once(u, e, mean, mean_b)
        if has_second:
            put_once(v, e, second, second_b)
        if has_top:
            put_once(largest, e, top, top_b)

    return step_pair


@cache
def tiles_kernel(modes: int, kind: int, folds: bool) -> Any:
    """One step of the rows of short modes: a block takes EDGE rows and TALL columns.

    Its warps share out the parts in which `samples.gather` left the sums, and the rows of the
    folded matrices, which lie as `tall.place_of` says.
    """
    moments_of, step_pair = moments_function(kind), pair_step(kind)

    @kernel
    def step_tiles(
        data, width, offsets, numbers, turn, parts, tiles, bases, gathered, old, folded, how, rates,
        anchors, rank, u, v, largest, moved
    ):  # fmt: skip
        # Blocks along x are tiles, along y groups of columns. tiles (modes + 1,): the first of
        # every mode, and how many there are; the others as in `gather`.
        held = cuda.shared.array(0, float64)
        me, lane, warp = cuda.threadIdx.x, cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        warps, groups = cuda.blockDim.x // LANES, cuda.gridDim.y
        mode = 0
        while cuda.blockIdx.x >= tiles[mode + 1]:
            mode += 1
        number = cuda.blockIdx.x - tiles[mode]
        first, end = offsets[mode] + EDGE * number, offsets[mode + 1]
        # A thread takes two neighbours of a row through the step; what it needs comes meanwhile.
        column = TALL * cuda.blockIdx.y + 2 * (me % EDGE)
        e = min(first + me // EDGE, end - 1) * width + min(column, width - 2)
        x, y, mean, mean_b, second, second_b, top, top_b = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        if me < TILE_PAIRS:
            x, y = pair_of(data, e)
            mean, mean_b, second, second_b, top, top_b = moments_of(e, u, v, largest)
        count = parts[mode]
        across = TALL * cuda.blockIdx.y + lane // DEEP * 2
        at = bases[mode] + (number * count * EDGE + 2 * (lane % DEEP)) * width
        at += min(across, width - 2)
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        part = int64(warp)
        while part < count:  # a range with a step would divide
            for t in range(UNROLLED):
                q = part + t * warps
                source = at + min(q, count - 1) * EDGE * width
                here = 1.0 if q < count else 0.0
                g, h = pair_of(gathered, source)
                a += here * g
                c += here * h
                g, h = pair_of(gathered, source + width)
                b += here * g
                d += here * h
            part += UNROLLED * warps
        if folds:
            matrix = matrix_numbers(width)
            source = min(first + lane // DEEP, end - 1) * width
            place = 2 * mode * matrix + (cuda.blockIdx.y * LANES + lane) * 2
            step = int64(warp)
            while step < (width + EDGE - 1) // EDGE:
                from_column = source + min(EDGE * step + 2 * (lane % DEEP), width - 2)
                to = place + 2 * step * groups * LANES * 2
                g, h = pair_of(data, from_column)
                k, l = pair_of(old, from_column)
                upper, lower = pair_of(folded, to)
                a, b, c, d = multiply_tall(upper, lower, g, a, b, c, d)
                upper, lower = pair_of(folded, to + groups * LANES * 2)
                a, b, c, d = multiply_tall(upper, lower, h, a, b, c, d)
                upper, lower = pair_of(folded, to + matrix)
                a, b, c, d = multiply_tall(upper, lower, k, a, b, c, d)
                upper, lower = pair_of(folded, to + matrix + groups * LANES * 2)
                a, b, c, d = multiply_tall(upper, lower, l, a, b, c, d)
                step += warps
        # held (warps, EDGE, TALL)
        place = 2 * warp * TILE_PAIRS + 2 * (lane % DEEP) * TALL + lane // DEEP * 2
        held[place], held[place + 1] = a, c
        held[place + TALL], held[place + TALL + 1] = b, d
        cuda.syncthreads()
        pair = me
        while pair < TILE_PAIRS:
            row = first + pair // EDGE
            if row < end and column < width:
                if pair != me:  # there are fewer threads than pairs
                    e = row * width + column
                    x, y = pair_of(data, e)
                    mean, mean_b, second, second_b, top, top_b = moments_of(e, u, v, largest)
                g, h = 0.0, 0.0
                for q in range(warps):
                    g += held[2 * (q * TILE_PAIRS + pair)]
                    h += held[2 * (q * TILE_PAIRS + pair) + 1]
                step_pair(
                    e, column, rank, x, y, mean, mean_b, second, second_b, top, top_b, g, h, old,
                    anchors[mode], rates[numbers[DONE] + turn], how[BETA_1], how[BETA_2],
                    how[EPSILON], how[RIDGE], how[LOWER], u, v, largest, moved
                )  # fmt: skip
            pair += cuda.blockDim.x

    return step_tiles


@cache
def weigh_kernel(kind: int) -> Any:
    """One step of the weights, whose gradient is the sum of the parts of blocks, in order."""
    has_mean, has_second, has_top = kind in (ADAM, AMSGRAD), kind != SGD, kind == AMSGRAD

    @kernel
    def weigh(width, rank, blocks, parts, numbers, turn, weights, how, rates, u, v, largest, moved):
        # One block per LANES columns; its groups of threads share out the parts.
        held = cuda.shared.array(0, float64)
        lane, group = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES
        groups = cuda.blockDim.x // LANES
        r = cuda.blockIdx.x * LANES + lane
        column = min(r, width - 1)
        total = 0.0
        b = int64(group)
        while b < blocks:
            for t in range(UNROLLED):
                found = parts[U(min(b + t * groups, blocks - 1) * width + column)]
                total += found if b + t * groups < blocks else 0.0
            b += UNROLLED * groups
        held[group * LANES + lane] = total
        cuda.syncthreads()
        if group == 0 and r < width:
            a, mean, second, top = weights[r], 0.0, 0.0, 0.0
            if has_mean:
                mean = u[r]
            if has_second:
                second = v[r]
            if has_top:
                top = largest[r]
            g = 0.0
            for q in range(groups):
                g += held[q * LANES + lane]
            g += how[WEIGHT_RIDGE] * a
            floor = how[LOWER] if r < rank else 0.0
            a, mean, second, top = stepped(
                kind,
                a,
                g,
                rates[numbers[DONE] + turn],
                how[BETA_1],
                how[BETA_2],
                how[EPSILON],
                floor,
                mean,
                second,
                top,
            )
            moved[r] = a
            if has_mean:
                u[r] = mean
            if has_second:
                v[r] = second
            if has_top:
                largest[r] = top

    return weigh


@cache
def copy_kernel() -> Any:
    """The first numbers of a buffer in another."""

    @kernel
    def copy(source, target, size):
        e = cuda.grid(1)
        while e < size:
            target[e] = source[e]
            e += cuda.gridsize(1)

    return copy
