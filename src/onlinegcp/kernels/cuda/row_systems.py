"""One small system per row on the card: damped steps, and what a slice leaves.

A block takes a row. Its past is 1/2 (a - old)' P (a - old) + b'(a - old) with P and b forgotten by
lam; `solvers.auto.fisher_rows` says the same in NumPy, and `row_steps` how systems are damped.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from functools import cache, partial
from typing import Any

from numba import cuda, float64, int32

from onlinegcp.kernels.auto.weights_newton import ARMIJO
from onlinegcp.kernels.cuda.cells import U
from onlinegcp.kernels.cuda.formulas import value_of
from onlinegcp.kernels.cuda.lanes import (
    GROUP,
    LANES,
    TOGETHER,
    device,
    from_lane,
    kernel,
    lane_max,
    lane_sum,
    lane_sums,
)
from onlinegcp.kernels.cuda.newton import ACROSS, solve_held
from onlinegcp.kernels.cuda.overlap import after_others

RELATIVE_RIDGE = 1e-8
TRACE_RIDGE = 1e-10
HALVINGS = 20
REGISTERS = 128  # of a thread, of which a block may have 512
PIVOT = 1e-14  # share of its diagonal below which a pivot is a rounding error
SLACK = 1e-12  # share of the objective that rounding may add
AT_BOUND = 1e-8
VECTORS = 8  # of a row, in shared memory, and two numbers per warp behind them
START, BASE, LEFT, RIGHT, STEP, POINT, FIXED, AWAY = range(VECTORS)
SUMS = 2 * LANES


@device
def past_times(curvature, at, width, full, vector, r, lane):
    """Entry r of a row's matrix (or diagonal) times a vector; known to the warp."""
    if not full:
        return curvature[at + r] * vector[r]
    found = 0.0
    c = lane
    while c < width:
        found += curvature[U(at + r * width + c)] * vector[c]
        c += LANES
    return lane_sum(found)


@device
def add_pieces(parts, first, last, stride, place):
    """A number summed over the pieces of a row, in order."""
    total = 0.0
    for piece in range(first, last):
        total += parts[U(piece * stride + place)]
    return total


@device
def fill_system(parts, first, last, curvature, at, width, rank, lam, held, me, threads):
    """Curvature of slice and past, to the lower triangle of held (rank + 1, rank + 1)."""
    edge, stride = rank + 1, width + 1 + width * width
    i = me // ACROSS
    while i < rank:
        j = me % ACROSS
        while j <= i:
            place = i * width + j
            fresh = add_pieces(parts, first, last, stride, width + 1 + place)
            held[i * edge + j] = fresh + lam * curvature[U(at + place)]
            j += ACROSS
        i += threads // ACROSS


@device
def ridge_of(held, rank, hold, lane):
    """What is added to every diagonal entry."""
    trace = 0.0
    r = lane
    while r < rank:
        trace += held[r * (rank + 1) + r] + hold[r]
        r += LANES
    return TRACE_RIDGE * lane_sum(trace) / rank + 1e-300


@device
def damp(held, rank, hold, fixed, right, ridge, me, threads):
    """Make the system ready to be solved: ridges, fixed entries, right-hand side."""
    edge = rank + 1
    i = me // ACROSS
    while i <= rank:
        j = me % ACROSS
        while j <= rank:
            if i < rank and j < i:
                if fixed[i] != 0.0 or fixed[j] != 0.0:
                    held[i * edge + j] = 0.0
            elif i < rank and j == i:
                whole = held[i * edge + i] + hold[i]
                free = fixed[i] == 0.0
                held[i * edge + i] = whole * (1.0 + RELATIVE_RIDGE) + ridge if free else 1.0
                held[i * edge + rank] = PIVOT * whole + 1e-300
            elif i == rank and j < rank:
                held[rank * edge + j] = right[j] if fixed[j] == 0.0 else 0.0
            j += ACROSS
        i += threads // ACROSS


@cache
def move_kernel(per_lane: int, modes: int, full: bool, in_shared: bool, code: int) -> Any:
    """A damped Fisher step of every row of a mode, shortened where its objective would rise."""

    @partial(kernel, max_registers=REGISTERS)
    def move(
        data,  # (rows * width,) factors, changed in the rows of the mode
        width,
        rank,
        offsets,
        index,
        value,
        weight,
        share,
        order,  # (n,) cells by row
        starts,  # (rows of the mode + 1,) in the order
        piece_starts,  # (rows of the mode + 1,)
        mode,
        weights,
        p_loss,
        parts,  # of `fisher_cells.pieces_kernel` at the factors as they are
        old,
        curvature,  # (rows * width * width,) or (rows * width,), before the slice
        left,  # (rows * width,) slopes that were left, likewise
        given,  # (2,) lam, lift
        holds,  # (modes * width,) precision of the prior on every entry
        bounded,
        zeroing,  # put what is held at the bound there exactly
        scratch,  # (rows of the mode * (rank + 1)^2,) where shared memory has no room
    ):
        after_others()
        short = cuda.shared.array(0, float64)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        lane, warp, warps = me % LANES, me // LANES, threads // LANES
        mine = cuda.blockIdx.x
        row = offsets[mode] + mine
        first, last = piece_starts[mine], piece_starts[mine + 1]
        lam = given[0]
        start = short[START * width : (START + 1) * width]
        base = short[BASE * width : (BASE + 1) * width]
        leaves = short[LEFT * width : (LEFT + 1) * width]
        gradient = short[RIGHT * width : (RIGHT + 1) * width]
        step = short[STEP * width : (STEP + 1) * width]
        point = short[POINT * width : (POINT + 1) * width]
        fixed = short[FIXED * width : (FIXED + 1) * width]
        away = short[AWAY * width : (AWAY + 1) * width]
        sums = short[VECTORS * width : VECTORS * width + SUMS]
        edge = rank + 1
        hold = holds[mode * width : (mode + 1) * width]
        matrix_at = row * width * width if full else row * width
        outside = scratch[mine * edge * edge :]
        held = short[VECTORS * width + SUMS :] if in_shared else outside
        stride = width + 1 + (width * width if full else width)
        r = me
        while r < width:
            start[r] = data[row * width + r]
            base[r] = old[row * width + r]
            leaves[r] = lam * left[row * width + r]
            away[r] = start[r] - base[r]
            gradient[r] = add_pieces(parts, first, last, stride, r)
            fixed[r] = 0.0 if r < rank else 1.0
            r += threads
        cuda.syncthreads()
        if full:
            fill_system(
                parts, first, last, curvature, matrix_at, width, rank, lam, held, me, threads
            )
        top = 0.0
        r = lane
        while r < width:
            top = max(top, start[r])
            r += LANES
        top = lane_max(top)
        r = warp
        while r < width:
            turned = lam * past_times(curvature, matrix_at, width, full, away, r, lane)
            if lane == 0:
                found = gradient[r] + turned + leaves[r] + hold[r] * start[r]
                step[r] = found
                if bounded and start[r] <= AT_BOUND * top and found > 0.0:
                    fixed[r] = 1.0
            r += warps
        cuda.syncthreads()
        r = me
        while r < width:
            gradient[r] = step[r]
            if zeroing and fixed[r] != 0.0:
                start[r] = 0.0
            r += threads
        cuda.syncthreads()
        if full:
            ridge = ridge_of(held, rank, hold, lane)
            cuda.syncthreads()
            damp(held, rank, hold, fixed, gradient, ridge, me, threads)
            solve_held(held, rank, me, threads)
            r = me
            while r < width:
                step[r] = held[rank * edge + r] if r < rank else 0.0
                r += threads
        else:
            total = 0.0
            r = lane
            while r < width:
                fresh = add_pieces(parts, first, last, stride, width + 1 + r)
                total += fresh + lam * curvature[matrix_at + r] + hold[r]
                r += LANES
            ridge = TRACE_RIDGE * lane_sum(total) / width + 1e-300
            cuda.syncthreads()
            r = me
            while r < width:
                fresh = add_pieces(parts, first, last, stride, width + 1 + r)
                whole = fresh + lam * curvature[matrix_at + r] + hold[r]
                found = gradient[r] / (whole * (1.0 + RELATIVE_RIDGE) + ridge)
                step[r] = found if fixed[r] == 0.0 else 0.0
                r += threads
        cuda.syncthreads()

        # Ever shorter steps, the first of length 0: what the objective is now.
        fixed_part = cuda.local.array(per_lane, float64)
        z = cuda.local.array(per_lane, float64)
        part = cuda.local.array(TOGETHER, float64)
        rows = cuda.local.array(modes, int32)
        begin, end = starts[mine], starts[mine + 1]
        goal, length, tried = 0.0, 1.0, -1
        while tried < HALVINGS:
            r = me
            while r < width:
                to = start[r]
                if tried >= 0:
                    to -= length * step[r]
                    if bounded:
                        to = max(to, 0.0)
                point[r] = to
                away[r] = to - base[r]
                r += threads
            cuda.syncthreads()
            total = 0.0
            if tried < 0 and not zeroing:
                if me == 0:
                    total = add_pieces(parts, first, last, stride, width)
            else:
                for p in range(per_lane):
                    r = lane + LANES * p
                    fixed_part[p] = weights[r] * point[r] if r < width else 0.0
                at = begin + warp * LANES
                while at < end:
                    cell = order[min(at + lane, end - 1)]
                    for k in range(modes):
                        rows[k] = offsets[k] + index[cell * modes + k]
                    m_mine = 0.0
                    for c in range(0, min(LANES, end - at), TOGETHER):
                        for u in range(TOGETHER):
                            for p in range(per_lane):
                                z[p] = fixed_part[p]
                            for k in range(modes):
                                if k != mode:
                                    there = from_lane(rows[k], c + u) * width
                                    for p in range(per_lane):
                                        r = lane + LANES * p
                                        if r < width:
                                            z[p] *= data[U(there + r)]
                            m = 0.0
                            for p in range(per_lane):
                                m += z[p]
                            part[u] = m
                        m = lane_sums(part[0], part[1], part[2], part[3], lane)
                        for u in range(TOGETHER):
                            found = from_lane(m, u * GROUP)
                            if lane == c + u:
                                m_mine = found
                    if at + lane < end:
                        counts = weight[cell] * share[0]
                        total += counts * value_of(code, p_loss, value[cell], m_mine)
                    at += warps * LANES
                total = lane_sum(total)
            gain = 0.0
            r = warp
            while r < width:
                turned = lam * past_times(curvature, matrix_at, width, full, away, r, lane)
                if lane == 0:
                    total += away[r] * (0.5 * turned + leaves[r])
                    total += 0.5 * hold[r] * point[r] * point[r]
                r += warps
            if lane == 0:
                sums[warp] = total
            cuda.syncthreads()
            total = 0.0
            for q in range(warps):
                total += sums[q]
            r = lane
            while r < width:
                gain += gradient[r] * (start[r] - point[r])
                r += LANES
            gain = ARMIJO * lane_sum(gain)
            cuda.syncthreads()
            if tried < 0:
                # Rounding of a sum over many cells must not look like an increase.
                goal = total + SLACK * abs(total)
            elif total <= goal - gain:
                break
            else:
                length *= 0.5
            tried += 1
        r = me
        while r < width:
            data[row * width + r] = point[r] if tried < HALVINGS else start[r]
            r += threads

    return move


@cache
def store_kernel(full: bool, in_shared: bool) -> Any:
    """The slice made part of the past: curvature, slopes that are left, and sensitivity."""

    @partial(kernel, max_registers=REGISTERS)
    def store(
        data,
        width,
        rank,
        first_row,
        piece_starts,
        parts,
        old,
        curvature,
        left,
        sensitivity,
        given,
        hold,
        learned,
        zeroing,
        new_curvature,
        new_left,
        new_sensitivity,
        traces,
        scratch,
    ):  # traces (rows * 2,) out: of the new curvature, and of the old one, forgotten
        after_others()
        short = cuda.shared.array(0, float64)
        me, threads = cuda.threadIdx.x, cuda.blockDim.x
        lane, warp, warps = me % LANES, me // LANES, threads // LANES
        mine = cuda.blockIdx.x
        row = first_row + mine
        first, last = piece_starts[mine], piece_starts[mine + 1]
        lam, lift = given[0], given[1]
        right = short[RIGHT * width : (RIGHT + 1) * width]
        change = short[STEP * width : (STEP + 1) * width]
        fixed = short[FIXED * width : (FIXED + 1) * width]
        away = short[AWAY * width : (AWAY + 1) * width]
        edge = rank + 1
        matrix_at = row * width * width if full else row * width
        outside = scratch[mine * edge * edge :]
        held = short[VECTORS * width + SUMS :] if in_shared else outside
        stride = width + 1 + (width * width if full else width)
        r = me
        while r < width:
            now = data[row * width + r]
            away[r] = now - old[row * width + r]
            change[r] = sensitivity[row * width + r]
            # What is held at zero does not follow the memory.
            fixed[r] = 1.0 if r >= rank or (zeroing and now <= 0.0) else 0.0
            r += threads
        cuda.syncthreads()
        r = warp
        while r < width:
            follow = lam * past_times(curvature, matrix_at, width, full, away, r, lane)
            follow += lam * left[row * width + r]
            turned = lam * past_times(curvature, matrix_at, width, full, change, r, lane)
            if lane == 0:
                fresh = add_pieces(parts, first, last, stride, r)
                new_left[row * width + r] = fresh + follow
                right[r] = turned - lift * follow
            r += warps
        after, before = 0.0, 0.0
        if full:
            # Both triangles; the lower one is what the pieces hold.
            i = me // ACROSS
            while i < width:
                j = me % ACROSS
                while j < width:
                    place = i * width + j
                    below = max(i, j) * width + min(i, j)
                    number = add_pieces(parts, first, last, stride, width + 1 + below)
                    past = lam * curvature[U(matrix_at + place)]
                    new_curvature[U(matrix_at + place)] = number + past
                    if i < rank and j <= i:
                        held[i * edge + j] = number + past
                    if i == j:
                        after += number + past
                        before += past
                    j += ACROSS
                i += threads // ACROSS
        else:
            r = me
            while r < width:
                past = lam * curvature[matrix_at + r]
                number = add_pieces(parts, first, last, stride, width + 1 + r) + past
                new_curvature[matrix_at + r] = number
                after += number
                before += past
                r += threads
        after, before = lane_sum(after), lane_sum(before)
        sums = short[VECTORS * width : VECTORS * width + SUMS]
        if lane == 0:
            sums[2 * warp] = after
            sums[2 * warp + 1] = before
        cuda.syncthreads()
        if me == 0:
            after, before = 0.0, 0.0
            for q in range(warps):
                after += sums[2 * q]
                before += sums[2 * q + 1]
            traces[2 * row] = after
            traces[2 * row + 1] = before
        if not learned:
            r = me
            while r < width:
                new_sensitivity[row * width + r] = change[r]
                r += threads
            return
        if full:
            ridge = ridge_of(held, rank, hold, lane)
            cuda.syncthreads()
            damp(held, rank, hold, fixed, right, ridge, me, threads)
            solve_held(held, rank, me, threads)
            r = me
            while r < width:
                new_sensitivity[row * width + r] = held[rank * edge + r] if r < rank else 0.0
                r += threads
        else:
            cuda.syncthreads()
            total = 0.0
            r = lane
            while r < width:
                total += new_curvature[matrix_at + r] + hold[r]
                r += LANES
            ridge = TRACE_RIDGE * lane_sum(total) / width + 1e-300
            r = me
            while r < width:
                whole = new_curvature[matrix_at + r] + hold[r]
                found = right[r] / (whole * (1.0 + RELATIVE_RIDGE) + ridge)
                new_sensitivity[row * width + r] = found if fixed[r] == 0.0 else 0.0
                r += threads

    return store
