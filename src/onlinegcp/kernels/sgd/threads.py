"""Iterations of stochastic gradient descent shared out to threads, bit for bit as on one.

Each phase of an iteration is cut so that no sum is split: slopes by samples, the scatter by
columns, Gram matrices by matrix, steps by rows. How many pieces there are therefore cannot be seen
in the result. Threads come from a pool of Python threads (compiled code releases the interpreter
lock); Numba's own threading layers abort after a fork or under other threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from onlinegcp.kernels.random import iteration_key_int
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
    corrected_rate,
    fill_head,
    finish_head,
    slopes,
    step_weights,
    update_rows,
)
from onlinegcp.kernels.sgd.gradient import scatter_block
from onlinegcp.kernels.sgd.history import fold_grams, gram

# Samples x columns x modes below which one iteration is over sooner than threads wake up: 1 ms.
LEAST_WORK = 4_000_000

# Pieces of a phase: a few per thread, so that an unlucky thread can be helped out.
SAMPLES_PER_PIECE = 8192
ROWS_PER_PIECE = 4096


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
    offsets, width, update, steps = modes.offsets, modes.width, modes.update, rule.steps
    data, head, d = moved.data, moved.head, len(offsets) - 1
    offset, length = int(offsets[modes.head]), int(sampling.cells.shape[modes.head])
    n = int(sampling.strata[:, 1].sum())
    samples = Samples(np.zeros(d * n, np.int64), *(np.zeros(n) for _ in range(4)))
    grams, crosses, B, C = (matrix.reshape(d, -1) for matrix in matrices)
    columns = _column_parts(width, data.itemsize, n_jobs)
    sums = (samples.rows, head, data, samples.y, moved.head_gradient, moved.gradient)

    with ThreadPoolExecutor(n_jobs) as pool:
        for j in range(iterations):
            own_key = np.uint64(iteration_key_int(int(key), first_iteration + j))
            fill_head(offset, length, width, data, moved.weights, head)
            pieces = []
            for stratum, weight in zip(sampling.strata, sampling.weights, strict=True):
                for first in range(0, int(stratum[1]), SAMPLES_PER_PIECE):
                    count = min(SAMPLES_PER_PIECE, int(stratum[1]) - first)
                    part = (stratum, weight, own_key, first, count, int(stratum[4]) + first, n)
                    pieces.append(partial(slopes, *part, width, sampling, head, data, samples))
            _share_out(pool, pieces)
            scatter = partial(scatter_block, d, modes.needed, 0, n, n)
            _share_out(pool, [partial(scatter, *part, sampling.far, *sums) for part in columns])
            finish_head(
                offset, length, width, data, moved.weights, moved.head_gradient, moved.gradient,
                moved.weights_gradient,
            )  # fmt: skip
            rate = float(corrected_rate(rule.kind, steps[0], steps[1], steps[2], taken + j + 1))
            if update[d]:
                step_weights(rate, modes, rule, moved)
            if past.counts:
                pieces = []
                for k in range(d):
                    if j == 0 or update[k]:
                        rows = (offsets[k], offsets[k + 1], width)
                        pieces.append(partial(gram, *rows, data, data, 1, grams[k]))
                        pieces.append(partial(gram, *rows, past.old, data, 0, crosses[k]))
                _share_out(pool, pieces)
                for k in range(d):
                    fold_grams(d, k, width, past.S, matrices.grams, matrices.crosses, B[k], C[k])
            pieces = []
            for k in range(d):
                if not update[k]:
                    continue
                named = (rate, rule.anchors[k], modes, rule, past, moved, B[k], C[k])
                end = int(offsets[k + 1])
                for first in range(int(offsets[k]), end, ROWS_PER_PIECE):
                    last = min(first + ROWS_PER_PIECE, end)
                    pieces.append(partial(update_rows, first, last, *named))
            _share_out(pool, pieces)


def _share_out(pool: ThreadPoolExecutor, pieces: Sequence[Callable[[], Any]]) -> None:
    """Run pieces on the pool and wait; errors of a piece are raised here."""
    for future in [pool.submit(piece) for piece in pieces]:
        future.result()


def _column_parts(width: int, itemsize: int, n_jobs: int) -> list[tuple[int, int]]:
    """Cut the columns into one part per thread, at cache lines, so that no line is shared."""
    line = 64 // itemsize
    lines = -(-width // line)
    share = -(-lines // n_jobs) * line
    return [(start, min(start + share, width)) for start in range(0, width, share)]
