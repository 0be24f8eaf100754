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
from numpy.typing import NDArray

from onlinegcp.kernels.random import iteration_key_int
from onlinegcp.kernels.sgd.epoch import (
    corrected_rate,
    fill_head,
    finish_head,
    slopes,
    update_rows,
)
from onlinegcp.kernels.sgd.gradient import scatter_block
from onlinegcp.kernels.sgd.history import fold_grams, gram
from onlinegcp.kernels.sgd.step import step_rows

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
    strata: NDArray[np.int64],
    stratum_weights: NDArray[np.float64],
    cells: tuple[Any, ...],
    row_weights: NDArray[np.float64],
    code: int,
    parameter: float,
    rank: int,
    width: int,
    far: bool,
    head_mode: int,
    offsets: NDArray[np.int64],
    update: NDArray[np.int64],
    needed: NDArray[np.int64],
    kind: int,
    steps: NDArray[np.float64],
    ridge: float,
    weight_ridge: float,
    anchors: NDArray[np.float64],
    has_history: bool,
    S: Any,
    old: Any,
    floor: Any,
    data: Any,
    weights: Any,
    gradient: Any,
    weights_gradient: Any,
    moments: tuple[Any, ...],
    head: Any,
    head_gradient: Any,
    matrices: tuple[Any, ...],
) -> None:
    """Run SGD iterations in place on several threads; arguments as for `epoch.run_epoch`."""
    d = len(offsets) - 1
    offset, length = int(offsets[head_mode]), int(offsets[head_mode + 1] - offsets[head_mode])
    n = int(strata[:, 1].sum())
    rows, vectors = np.zeros(d * n, np.int64), [np.zeros(n) for _ in range(4)]
    grams, crosses, B, C = (matrix.reshape(d, -1) for matrix in matrices)
    columns = _column_parts(width, data.itemsize, n_jobs)
    u, v, largest, *weights_moments = moments
    sampled = (head, data, rows, *vectors)
    sums = (rows, head, data, vectors[3], head_gradient, gradient)
    moved = (gradient, u, v, largest)

    with ThreadPoolExecutor(n_jobs) as pool:
        for j in range(iterations):
            own_key = np.uint64(iteration_key_int(int(key), first_iteration + j))
            fill_head(offset, length, width, data, weights, head)
            pieces = []
            for stratum, weight in zip(strata, stratum_weights, strict=True):
                for first in range(0, int(stratum[1]), SAMPLES_PER_PIECE):
                    count = min(SAMPLES_PER_PIECE, int(stratum[1]) - first)
                    at = int(stratum[4]) + first
                    named: tuple[Any, ...] = (
                        stratum,
                        weight,
                        own_key,
                        first,
                        count,
                        at,
                        n,
                        far,
                        width,
                    )
                    pieces.append(
                        partial(slopes, *named, code, parameter, *cells, row_weights, *sampled)
                    )
            _share_out(pool, pieces)
            _share_out(
                pool,
                [partial(scatter_block, d, needed, 0, n, n, *part, far, *sums) for part in columns],
            )
            finish_head(
                offset, length, width, data, weights, head_gradient, gradient, weights_gradient
            )
            rate = float(corrected_rate(kind, steps[0], steps[1], steps[2], taken + j + 1))
            if update[d]:
                step_rows(
                    kind, 0, 1, width, rate, steps[1], steps[2], steps[3], weight_ridge, 0.0,
                    floor, weights, weights, weights_gradient, *weights_moments,
                )  # fmt: skip
            if has_history:
                pieces = []
                for k in range(d):
                    if j == 0 or update[k]:
                        part = (offsets[k], offsets[k + 1], width)
                        pieces.append(partial(gram, *part, data, data, 1, grams[k]))
                        pieces.append(partial(gram, *part, old, data, 0, crosses[k]))
                _share_out(pool, pieces)
                for k in range(d):
                    fold_grams(d, k, width, S, grams.reshape(-1), crosses.reshape(-1), B[k], C[k])
            pieces = []
            for k in range(d):
                if not update[k]:
                    continue
                named = (B[k], C[k], kind, rate, steps, ridge, anchors[k], floor, data, old)
                end = int(offsets[k + 1])
                for first in range(int(offsets[k]), end, ROWS_PER_PIECE):
                    last = min(first + ROWS_PER_PIECE, end)
                    pieces.append(
                        partial(update_rows, first, last, rank, width, has_history, *named, *moved)
                    )
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
