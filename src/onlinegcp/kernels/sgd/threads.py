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
from onlinegcp.kernels.layout import aligned_zeros
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
from onlinegcp.kernels.simd import lanes_of
from onlinegcp.sums.local import Local

# Samples x columns x modes below which one iteration is over before threads have met: 0.3 ms.
LEAST_WORK = 1_500_000


def pays(n_jobs: int, work: int) -> bool:
    """Whether so many threads are worth it, and possible, for an iteration of this work."""
    return AVAILABLE and n_jobs > 1 and work >= LEAST_WORK


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

    def share(me: int) -> None:
        # Folded matrices are short work, so that every thread makes its own.
        B, C = (aligned_zeros(matrices.B.shape, matrices.B.dtype) for _ in range(2))
        own = Matrices(matrices.grams, matrices.crosses, B, C)
        run_share(
            me, n_jobs, room, iterations, first_iteration, taken, key, sampling, modes, rule, past,
            moved, own, samples,
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
):
    """One thread's share of SGD iterations."""
    strata, width, offsets, update = sampling.strata, modes.width, modes.offsets, modes.update
    data, weights, head, gradient = moved.data, moved.weights, moved.head, moved.gradient
    grams, crosses, steps = matrices.grams, matrices.crosses, rule.steps
    d = len(sampling.cells.shape)
    n = width * width
    count = len(samples.y)
    offset, length = offsets[modes.head], sampling.cells.shape[modes.head]
    lanes = lanes_of(data)
    vectors = width // lanes
    start, stop = vectors * me // crew * lanes, vectors * (me + 1) // crew * lanes
    blocks = NONE
    for t in range(len(strata)):
        blocks += (strata[t, 1] + FULL - 1) // FULL
    begin, end = blocks * me // crew, blocks * (me + 1) // crew
    for j in range(iterations):
        draw_key = key_of_iteration(key, first_iteration + j)
        first, last = length * me // crew, length * (me + 1) // crew
        fill_head(offset, first, last, width, data, weights, head)
        wait_for_all(room, crew)
        block = NONE
        for t in range(len(strata)):
            for first in range(NONE, strata[t, 1], FULL):
                if block >= begin and block < end:
                    slopes(
                        strata[t], sampling.weights[t], draw_key, first,
                        min(FULL, strata[t, 1] - first), strata[t, 4] + first, count, width,
                        sampling, head, data, samples,
                    )  # fmt: skip
                block += 1
        wait_for_all(room, crew)
        scatter_block(
            d, modes.needed, NONE, count, count, start, stop, sampling.far, samples.rows, head,
            data, samples.y, moved.head_gradient, gradient,
        )  # fmt: skip
        finish_head(
            offset, length, width, start, stop, data, weights, moved.head_gradient, gradient,
            moved.weights_gradient,
        )  # fmt: skip
        wait_for_all(room, crew)
        rate = corrected_rate(rule.kind, steps[0], steps[1], steps[2], taken + j + 1)
        if update[d] and me == crew - 1:
            step_weights(rate, modes, rule, moved)
        if past.counts:
            for k in range(d):
                if j == 0 or update[k]:
                    own, cross = grams[k * n : (k + 1) * n], crosses[k * n : (k + 1) * n]
                    low, high = offsets[k], offsets[k + 1]
                    gram(low, high, width, data, data, ONE, me, crew, own)
                    gram(low, high, width, past.old, data, NONE, me, crew, cross)
            wait_for_all(room, crew)
        for k in range(d):
            if update[k]:
                B, C = matrices.B[k * n : (k + 1) * n], matrices.C[k * n : (k + 1) * n]
                if past.counts:
                    fold_grams(d, k, width, past.S, grams, crosses, B, C)
                rows = offsets[k + 1] - offsets[k]
                update_rows(
                    offsets[k] + rows * me // crew, offsets[k] + rows * (me + 1) // crew, rate,
                    rule.anchors[k], modes, rule, past, moved, B, C,
                )  # fmt: skip
        wait_for_all(room, crew)
