"""Gradients of rows, and their steps.

A row's gradient is the sum over its samples, in the order `sorting` brought them into, plus the
history's and the penalties'. All modes move at once, so that new rows are written beside the old.
Rows with very many samples (short modes) are added up in parts first, by `gather`.

What these kernels wait for is memory: numbers of the next samples are asked for before those of
the present ones are used, and nothing that is read depends on a branch.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import math
from functools import cache
from typing import Any

from numba import cuda, float64, int32, int64

from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.lanes import LANES, device, from_lane, kernel
from onlinegcp.kernels.cuda.sgd.draws import DONE
from onlinegcp.kernels.sgd.plan import ADAGRAD, ADAM, AMSGRAD, SGD

# How far loops are unrolled. An iteration's kernels run for microseconds, of which fetching
# instructions takes a good part: what is written out once more costs more than it hides.
IN_FLIGHT, MOST_AT_ONCE = 16, 4  # numbers a lane asks for at once, and samples
UNROLLED = 2
# Places in the constants of a step.
BETA_1, BETA_2, EPSILON, RIDGE, WEIGHT_RIDGE, LOWER = range(6)
STEP_NUMBERS = 6


@device
def stepped(kind, a, g, rate, how, floor, mean, second, top):
    """What a number and its moments become by one step down its slope; see `kernels.sgd.step`."""
    if kind == SGD:
        a -= rate * g
    elif kind == ADAGRAD:
        second = second + g * g
        a -= rate * (g / (math.sqrt(second) + how[EPSILON]))
    else:
        mean = how[BETA_1] * mean + (1.0 - how[BETA_1]) * g
        second = how[BETA_2] * second + (1.0 - how[BETA_2]) * (g * g)
        top = max(top, second) if kind == AMSGRAD else second
        a -= rate * (mean / (math.sqrt(top) + how[EPSILON]))
    if a < floor:
        a = floor
    return a, mean, second, top


def at_once(per_lane: int, modes: int) -> int:
    """Samples whose rows a warp waits for together."""
    count = MOST_AT_ONCE
    while count > 1 and count * per_lane * max(1, modes - 1) > IN_FLIGHT:
        count //= 2
    return count


@cache
def samples_function(per_lane: int, modes: int, together: int) -> Any:
    """Adds slope times the product of the other modes' rows, over samples of a row, to `sums`."""
    others = modes - 1
    numbers = max(1, together * per_lane * others)

    @device
    def add_samples(data, width, columns, room, base, sorted_rows, ys, p, end, step, lane, sums):
        # base: where the mode's lists begin in `sorted_rows`; ys begins with the mode's slopes.
        values = cuda.local.array(numbers, float64)
        own = cuda.local.array(modes, int32)
        later = cuda.local.array(modes, int32)
        mine = lane % together
        at = max(min(p + mine, end - 1), 0)
        y = ys[U(at)]
        for o in range(others):
            own[o] = sorted_rows[U(base + o * room + at)]
        if p + mine >= end:
            y = 0.0
        while p < end:
            ahead = p + step
            at = max(min(ahead + mine, end - 1), 0)
            y_later = ys[U(at)]
            for o in range(others):
                later[o] = sorted_rows[U(base + o * room + at)]
            if ahead + mine >= end:
                y_later = 0.0
            for t in range(together):
                for o in range(others):
                    row = int64(from_lane(own[o], t)) * width
                    for c in range(per_lane):
                        values[(t * others + o) * per_lane + c] = data[U(row + columns[c])]
            for t in range(together):
                slope = from_lane(y, t)
                for c in range(per_lane):
                    z = slope
                    for o in range(others):
                        z *= values[(t * others + o) * per_lane + c]
                    sums[c] += z
            y = y_later
            for o in range(others):
                own[o] = later[o]
            p = ahead

    return add_samples


@cache
def gather_kernel(per_lane: int, modes: int) -> Any:
    """Sums over the samples of a mode's rows, every row in `parts` parts, a warp each."""
    together = at_once(per_lane, modes)
    add_samples = samples_function(per_lane, modes, together)
    others = modes - 1

    @kernel
    def gather(data, width, offsets, mode, room, slot, sorted_rows, bounds, ys, parts, out):
        # ys begins with the mode's slopes.
        lane = cuda.threadIdx.x % LANES
        unit = (cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x) // LANES
        row, part = unit // parts, unit % parts
        if row >= offsets[mode + 1] - offsets[mode]:
            return
        base = (slot * modes + mode) * others * room
        segment = slot * (offsets[modes] + modes) + offsets[mode] + mode + row
        low, n = bounds[segment], bounds[segment + 1] - bounds[segment]
        p, end = low + n * part // parts, low + n * (part + 1) // parts
        columns = cuda.local.array(per_lane, int64)
        sums = cuda.local.array(per_lane, float64)
        for c in range(per_lane):
            columns[c] = min(lane + LANES * c, width - 1)
            sums[c] = 0.0
        add_samples(data, width, columns, room, base, sorted_rows, ys, p, end, together, lane, sums)
        for c in range(per_lane):
            if lane + LANES * c < width:
                out[unit * width + lane + LANES * c] = sums[c]

    return gather


@cache
def move_kernel(per_lane: int, modes: int, kind: int, folds: bool) -> Any:
    """One step of every row: a block takes a row, its warps share out samples and columns.

    With a history one half of the warps multiplies by the folded matrices meanwhile.
    """
    together = at_once(per_lane, modes)
    add_samples = samples_function(per_lane, modes, together)
    others = modes - 1
    has_mean, has_second, has_top = kind in (ADAM, AMSGRAD), kind != SGD, kind == AMSGRAD
    folded_numbers = UNROLLED * per_lane

    @kernel
    def move(
        data,
        width,
        offsets,
        weights,
        numbers,
        room,
        slot,  # of the samples
        turn,  # number of the step
        sorted_rows,
        bounds,
        ys,  # (modes * room,)
        parts,  # (modes,) parts in which a mode's sums were gathered; 0: not yet, -1: does not move
        bases,  # (modes,) where they begin
        gathered,
        old,
        folded,  # (modes, 2, width, width)
        how,  # constants of a step
        rates,
        anchors,  # (modes,)
        rank,
        u,
        v,
        largest,
        moved,  # out: like data
    ):
        held = cuda.shared.array(0, float64)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        lane, warp, warps = me % LANES, me // LANES, threads // LANES
        i = cuda.blockIdx.x
        mode = 0
        while i >= offsets[mode + 1]:
            mode += 1
        count = parts[mode]
        if count < 0:
            return
        e = i * width + min(me, width - 1)
        a, mean, second, top = data[e], 0.0, 0.0, 0.0
        if has_mean:
            mean = u[e]
        if has_second:
            second = v[e]
        if has_top:
            top = largest[e]
        rate, ridge = rates[numbers[DONE] + turn], how[RIDGE]
        lower, tie = how[LOWER], anchors[mode]
        half = warps // 2 if folds and warps > 1 else warps
        columns = cuda.local.array(per_lane, int64)
        sums = cuda.local.array(per_lane, float64)
        for c in range(per_lane):
            columns[c] = min(lane + LANES * c, width - 1)
            sums[c] = 0.0
        if warp < half:
            if count > 0:
                first = bases[mode] + (i - offsets[mode]) * count * width
                q = int64(warp)
                while q < count:  # a range with a step would divide
                    for t in range(UNROLLED):
                        part = min(q + t * half, count - 1)
                        for c in range(per_lane):
                            found = gathered[U(first + part * width + columns[c])]
                            sums[c] += found if q + t * half < count else 0.0
                    q += UNROLLED * half
            else:
                segment = slot * (offsets[modes] + modes) + i + mode
                base = (slot * modes + mode) * others * room
                begin, end = bounds[segment] + warp * together, bounds[segment + 1]
                add_samples(
                    data, width, columns, room, base, sorted_rows, ys[mode * room :], begin, end,
                    half * together, lane, sums
                )  # fmt: skip
            for c in range(per_lane):
                sums[c] *= weights[columns[c]]
        if folds and warp >= warps - half:
            square = width * width
            B = cuda.local.array(folded_numbers, float64)
            C = cuda.local.array(folded_numbers, float64)
            x = cuda.local.array(UNROLLED, float64)
            z = cuda.local.array(UNROLLED, float64)
            q = int64(warp - (warps - half))
            while q < rank:
                for t in range(UNROLLED):
                    r = min(q + t * half, rank - 1)
                    x[t] = data[U(i * width + r)]
                    z[t] = old[U(i * width + r)]
                    at = 2 * mode * square + r * width
                    for c in range(per_lane):
                        B[t * per_lane + c] = folded[U(at + columns[c])]
                        C[t * per_lane + c] = folded[U(at + square + columns[c])]
                for t in range(UNROLLED):
                    here = 1.0 if q + t * half < rank else 0.0
                    for c in range(per_lane):
                        found = x[t] * B[t * per_lane + c] + z[t] * C[t * per_lane + c]
                        sums[c] += here * found
                q += UNROLLED * half
        for c in range(per_lane):
            if lane + LANES * c < width:
                held[warp * width + lane + LANES * c] = sums[c]
        cuda.syncthreads()
        r = me
        while r < width:
            e = i * width + r
            if r != me:
                a = data[e]
                if has_mean:
                    mean = u[e]
                if has_second:
                    second = v[e]
                if has_top:
                    top = largest[e]
            g = 0.0
            for w in range(warps):
                g += held[w * width + r]
            g += ridge * a
            if tie != 0.0:
                g += tie * (a - old[e])
            floor = lower if r < rank else 0.0
            a, mean, second, top = stepped(kind, a, g, rate, how, floor, mean, second, top)
            moved[e] = a
            if has_mean:
                u[e] = mean
            if has_second:
                v[e] = second
            if has_top:
                largest[e] = top
            r += threads

    return move


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
                kind, a, g, rates[numbers[DONE] + turn], how, floor, mean, second, top
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
