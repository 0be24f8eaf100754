"""Iterations of stochastic gradient descent shared out to threads, bit for bit as on one.

Each phase of an iteration is cut so that no sum is split: slopes by samples, the scatter by
columns, Gram matrices by their rows, steps by rows. How many threads there are therefore cannot be
seen in the result. Every thread runs all iterations in compiled code and waits for the others there
between phases: a phase takes less time than Python needs to hand it out.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

from typing import Any

import numpy as np

from onlinegcp.kernels.barrier import AVAILABLE, new_room, wait_for_all
from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import LANES, aligned_zeros
from onlinegcp.kernels.sgd.arguments import (
    Matrices,
    Modes,
    Past,
    Rule,
    Samples,
    Sampling,
    Variables,
)
from onlinegcp.kernels.sgd.epoch import (
    FULL,
    NONE,
    ONE,
    corrected_rate,
    fill_head,
    finish_head,
    key_of_iteration,
    slopes,
    step_weights,
    update_rows,
)
from onlinegcp.kernels.sgd.gradient import scatter_block
from onlinegcp.kernels.sgd.history import fold_grams, gram
from onlinegcp.kernels.simd import fill, load, store
from onlinegcp.sums.local import Local

# Multiply-adds of an iteration that are worth a thread: 0.15 ms, in which it waits four times for
# the others. With less, sixteen threads are no faster than four and take three times the time.
WORK_EACH = 750_000
MOST_APART = 1 << 21  # numbers of a gradient of which each thread has one
PAIR = 16  # numbers in two cache lines


def crew_for(n_jobs: int, work: int) -> int:
    """How many of so many threads are worth it, and possible, for an iteration of this work."""
    return max(1, min(n_jobs, work // WORK_EACH)) if AVAILABLE else 1


def run_threads(
    n_jobs: int,
    iterations: int,
    first_iteration: int,
    taken: int,
    key: Any,
    sampling: Sampling,
    modes: Modes,
    rule: Rule,
    past: Past,
    moved: Variables,
    matrices: Matrices,
) -> None:
    """Run SGD iterations in place on several threads; arguments as for `epoch.run_epoch`."""
    d, n = len(modes.offsets) - 1, int(sampling.strata[:, 1].sum())
    samples = Samples(np.zeros(d * n, np.int64), *(np.zeros(n) for _ in range(4)))
    room = new_room()
    # Rows need not fill whole cache lines, and lines are fetched in pairs: where threads add to
    # columns of the same row, these travel between processors with every sample, which takes ten
    # times as long as the work. In long modes (numbers in all) two threads seldom meet.
    heads, gradients = moved.head_gradient[None, :], moved.gradient[None, :]
    apart = moved.gradient.size <= MOST_APART
    if apart:
        heads, gradients = (
            aligned_zeros((n_jobs, -(-a.shape[1] // PAIR) * PAIR)) for a in (heads, gradients)
        )

    def share(me: int) -> None:
        # Folded matrices are short work, so that every thread makes its own.
        B, C = (aligned_zeros(matrices.B.shape) for _ in range(2))
        own = Matrices(matrices.grams, matrices.crosses, B, C)
        run_share(
            me, n_jobs, room, iterations, first_iteration, taken, key, sampling, modes, rule, past,
            moved, own, samples, apart, heads, gradients,
        )  # fmt: skip

    # As many pieces as threads, none of which ends before all have begun: each has its thread.
    Local(n_jobs).run(share, n_jobs)


@kernel
def run_share(
    me,  # number of this thread
    crew,  # how many there are
    room,  # where they wait
    iterations,
    first_iteration,
    taken,
    key,
    sampling,
    modes,
    rule,
    past,
    moved,
    matrices,  # B and C are this thread's own
    samples,  # of a whole iteration
    apart,  # whether each thread adds to memory of its own, a line of the next two
    heads,  # like the head's gradient
    gradients,  # like the gradient
):
    """One thread's share of SGD iterations."""
    strata, width, offsets, update = sampling.strata, modes.width, modes.offsets, modes.update
    data, weights, head, gradient = moved.data, moved.weights, moved.head, moved.gradient
    grams, crosses, steps = matrices.grams, matrices.crosses, rule.steps
    d = len(sampling.cells.shape)
    n = width * width
    count = len(samples.y)
    offset, length = offsets[modes.head], sampling.cells.shape[modes.head]
    vectors = width // LANES
    start, stop = vectors * me // crew * LANES, vectors * (me + 1) // crew * LANES
    own_head, own_gradient = heads[me if apart else 0], gradients[me if apart else 0]
    for j in range(iterations):
        draw_key = key_of_iteration(key, first_iteration + j)
        first, last = length * me // crew, length * (me + 1) // crew
        fill_head(offset, first, last, width, data, weights, head)
        wait_for_all(room, crew)
        block = NONE  # in turn, because samples of one stratum cost more than those of another
        for t in range(len(strata)):
            for first in range(NONE, strata[t, 1], FULL):
                if block % crew == me:
                    slopes(
                        strata[t], sampling.weights[t], draw_key, first,
                        min(FULL, strata[t, 1] - first), strata[t, 4] + first, count, width,
                        sampling, head, data, samples,
                    )  # fmt: skip
                block += 1
        wait_for_all(room, crew)
        scatter_block(
            d, modes.needed, NONE, count, count, start, stop, sampling.far, samples.rows, head,
            data, samples.y, own_head, own_gradient,
        )  # fmt: skip
        finish_head(
            offset, length, width, start, stop, data, weights, own_head, own_gradient,
            moved.weights_gradient,
        )  # fmt: skip
        wait_for_all(room, crew)
        rate = corrected_rate(rule.kind, steps[0], steps[1], steps[2], taken + j + 1)
        if update[d] and me == crew - 1:
            step_weights(rate, modes, rule, moved)
        if past.counts:
            # Fours of rows of all matrices in one line, cut by work: a thread then reads few modes.
            total, done = NONE, NONE
            for k in range(d):
                if j == 0 or update[k]:
                    total += (offsets[k + 1] - offsets[k]) * (_fours(width, ONE) + _fours(width, 0))
            for k in range(d):
                if j == 0 or update[k]:
                    own, cross = grams[k * n : (k + 1) * n], crosses[k * n : (k + 1) * n]
                    low, high = offsets[k], offsets[k + 1]
                    done = share_gram(low, high, width, data, data, ONE, me, crew, done, total, own)
                    done = share_gram(
                        low, high, width, past.old, data, NONE, me, crew, done, total, cross
                    )
            wait_for_all(room, crew)
        for k in range(d):
            if update[k]:
                B, C = matrices.B[k * n : (k + 1) * n], matrices.C[k * n : (k + 1) * n]
                if past.counts:
                    fold_grams(d, k, width, past.S, grams, crosses, B, C)
                rows = offsets[k + 1] - offsets[k]
                low, high = offsets[k] + rows * me // crew, offsets[k] + rows * (me + 1) // crew
                if apart:
                    gather_rows(low, high, width, crew, gradients, gradient)
                update_rows(low, high, rate, rule.anchors[k], modes, rule, past, moved, B, C)
        wait_for_all(room, crew)


@kernel
def gather_rows(first, last, width, crew, gradients, gradient):
    """Put rows together from the columns that each thread has added up; clear these."""
    vectors = width // LANES
    zero = fill(0.0)
    for thread in range(crew):
        own = gradients[thread]
        start, stop = vectors * thread // crew * LANES, vectors * (thread + 1) // crew * LANES
        for i in range(first, last):
            for e in range(i * width + start, i * width + stop, LANES):
                store(gradient, e, load(own, e))
                store(own, e, zero)


@kernel
def _fours(width, symmetric):
    # Vectors of four in all fours of rows of a matrix, or in its right upper part.
    count = (width + 3) // 4
    return count * (count + 1) // 2 if symmetric else count * count


@kernel
def share_gram(first, last, width, left, right, symmetric, me, crew, done, total, out):
    """One thread's fours of rows of a Gram matrix: those whose work begins in its share of all.

    `done` is the work before this matrix; returned is that with it.
    """
    count = (width + 3) // 4
    low, high = NONE, NONE
    for p in range(count):
        if done * crew // total == me:
            low = low if high > NONE else NONE + 4 * p
            high = NONE + min(width, 4 * p + 4)
        done += (last - first) * (count - p if symmetric else count)
    if low < high:
        gram(first, last, width, left, right, symmetric, low, high, out)
    return done
