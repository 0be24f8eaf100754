"""One small symmetric system per row of a factor matrix: build it, factor it, solve it.

With all other modes fixed, a CP model is linear in each row of one factor, and rows do not share
cells. So alternating least squares with missing cells solves one R x R system per row
(`solve_least_squares_rows`), and Newton's method for counts does the same several times over
(`poisson_rows.py`).
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
# mypy: disable-error-code="call-arg,var-annotated,unreachable"

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import LANES, Blocks, aligned_zeros
from onlinegcp.kernels.simd import fill, load, multiply, multiply_add, peek, store
from onlinegcp.kernels.static.fibres import RowGroups, run_chunks

# Cells of a row that are laid out at a time: 64 rows of 64 doubles fill a first-level cache.
TILE = 64

# Cells per unit of work; a row is never cut.
ROW_CHUNK = 1 << 12

# Share of the largest diagonal entry that is added to every system. It pulls towards the row's
# old value, so that rows with fewer cells than components have one answer, the nearest.
NEARNESS = 1e-12


def solve_least_squares_rows(
    groups: RowGroups, blocks: Blocks, *, ridge: float = 0.0, n_jobs: int = 1
) -> tuple[NDArray[np.float64], float]:
    """Solve min ||x - N a||^2 + ridge ||a||^2 over the listed cells of every row of one mode.

    Returns the rows (I_k, R), padded underneath, and the sum over all rows of
    ||N a||^2 - 2 x' N a, which with ||x||^2 makes the squared residual. Rows without cells are 0.

    Parameters
    ----------
    groups
        The listed cells, grouped by the rows of the mode.
    blocks
        All factor matrices, float64; those of the mode itself are the old rows.
    ridge
        Weight of the penalty.
    n_jobs
        Threads; the result does not depend on their number.
    """
    out = aligned_zeros((groups.n_rows, blocks.width))
    values = np.zeros(groups.n_rows)
    cuts = row_cuts(groups.starts)
    first_rows = blocks.offsets[groups.others]

    def work(first: int, last: int) -> None:
        _solve_rows(
            groups.index,
            groups.value,
            groups.order,
            groups.columns,
            first_rows,
            groups.starts,
            blocks.data,
            int(blocks.offsets[groups.mode]),
            blocks.rank,
            float(ridge),
            out,
            values,
            int(cuts[first]),
            int(cuts[last]),
        )

    run_chunks(work, len(cuts) - 1, n_jobs)
    return out[:, : blocks.rank], float(values.sum())


def row_cuts(starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return row numbers that cut a mode into pieces of roughly `ROW_CHUNK` cells.

    Examples
    --------
    >>> row_cuts(np.array([0, 3000, 3000, 6000, 9000])).tolist()
    [0, 3, 4]
    """
    n_rows, n = len(starts) - 1, int(starts[-1])
    if n <= ROW_CHUNK and n_rows:  # asked in every pass: a small tensor has one piece
        return np.array([0, n_rows], dtype=np.int64)
    inside = np.searchsorted(starts, np.arange(ROW_CHUNK, n, ROW_CHUNK))
    return np.unique(np.concatenate([[0], inside, [n_rows]])).astype(np.int64)


@kernel
def fill_tile(
    tile,
    index,
    order,
    columns,
    first_rows,
    data,
    rank,
    begin,
    end,  # (TILE, width)
):
    """Lay out the Khatri-Rao rows of positions `begin` to `end`, one per row of the tile."""
    width = data.shape[1]
    vectors = width // LANES
    stride = index.shape[1]
    permuted = order.shape[0] > 0
    for p in range(begin, end):
        to = (p - begin) * width
        at = (np.int64(peek(order, p)) if permuted else p) * stride
        if columns.shape[0] == 0:
            for r in range(width):
                tile[p - begin, r] = 1.0 if r < rank else 0.0
            continue
        source = (peek(first_rows, 0) + peek(index, at + peek(columns, 0))) * width
        if columns.shape[0] == 1:
            for v in range(vectors):
                store(tile, to + v * LANES, load(data, source + v * LANES))
            continue
        other = (peek(first_rows, 1) + peek(index, at + peek(columns, 1))) * width
        for v in range(vectors):
            r = v * LANES
            store(tile, to + r, multiply(load(data, source + r), load(data, other + r)))
        for c in range(2, columns.shape[0]):
            other = (peek(first_rows, c) + peek(index, at + peek(columns, c))) * width
            for v in range(vectors):
                r = v * LANES
                store(tile, to + r, multiply(load(tile, to + r), load(data, other + r)))


@kernel
def add_outer_products(system, tile, weight, count, rank):
    """Add sum over `count` tile rows of weight * row row' to the lower triangle of a matrix.

    Whole vectors are written, so entries right of the diagonal are filled in part and mean
    nothing. Rows beyond `count` are read up to the next multiple of four with weight 0.
    """
    width = system.shape[1]
    for p in range(count, min((count + 3) // 4 * 4, tile.shape[0])):
        weight[p] = 0.0
        for r in range(width):
            tile[p, r] = 0.0
    for p in range(0, count, 4):
        t0, t1, t2, t3 = p * width, (p + 1) * width, (p + 2) * width, (p + 3) * width
        w0, w1, w2, w3 = weight[p], weight[p + 1], weight[p + 2], weight[p + 3]
        for a in range(rank):
            x0 = fill(w0 * peek(tile, t0 + a))
            x1 = fill(w1 * peek(tile, t1 + a))
            x2 = fill(w2 * peek(tile, t2 + a))
            x3 = fill(w3 * peek(tile, t3 + a))
            base = a * width
            for v in range(a // LANES + 1):
                r = v * LANES
                total = multiply_add(x0, load(tile, t0 + r), load(system, base + r))
                total = multiply_add(x1, load(tile, t1 + r), total)
                total = multiply_add(x2, load(tile, t2 + r), total)
                store(system, base + r, multiply_add(x3, load(tile, t3 + r), total))


@kernel
def cholesky(system, n):
    """Factor the leading n x n lower triangle in place; False where it is not definite."""
    for i in range(n):
        for j in range(i + 1):
            total = system[i, j]
            for r in range(j):
                total -= system[i, r] * system[j, r]
            if j < i:
                system[i, j] = total / system[j, j]
            # A pivot this small is what rounding leaves of zero.
            elif total > 1e-15 * system[i, i]:
                system[i, i] = np.sqrt(total)
            else:
                return False
    return True


@kernel
def solve_factored(system, vector, n):
    """Solve L L' y = vector in place."""
    for i in range(n):
        total = vector[i]
        for r in range(i):
            total -= system[i, r] * vector[r]
        vector[i] = total / system[i, i]
    for i in range(n - 1, -1, -1):
        vector[i] /= system[i, i]
        for r in range(i):
            vector[r] -= system[i, r] * vector[i]


@kernel
def _solve_rows(
    index,
    value,
    order,
    columns,
    first_rows,
    starts,
    data,
    own,
    rank,
    ridge,
    out,
    values,
    first,
    last,
):
    # Rows `first` to `last` of `out` and `values` are written here and by no other thread.
    width = data.shape[1]
    permuted = order.shape[0] > 0
    tile = np.zeros((TILE, width))
    weight = np.zeros(TILE)
    system = np.zeros((width, width))
    factor = np.zeros((width, width))
    right = np.zeros(width)
    step = np.zeros(width)
    for row in range(first, last):
        if starts[row] == starts[row + 1]:
            continue
        system[:] = 0.0
        right[:] = 0.0
        for begin in range(starts[row], starts[row + 1], TILE):
            end = min(begin + TILE, starts[row + 1])
            fill_tile(tile, index, order, columns, first_rows, data, rank, begin, end)
            for p in range(begin, end):
                x = value[order[p] if permuted else p]
                weight[p - begin] = 1.0
                for r in range(width):
                    right[r] += x * tile[p - begin, r]
            add_outer_products(system, tile, weight, end - begin, rank)
        largest = ridge
        for a in range(rank):
            largest = max(largest, system[a, a] + ridge)
            for b in range(a + 1, rank):
                system[a, b] = system[b, a]
        # The step from the old row, not the row itself: what the nearness term adds then fades
        # with the step, and the squared error can only fall.
        near = NEARNESS * largest
        solved = False
        while 0.0 < near <= largest and not solved:
            for a in range(rank):
                total = right[a] - ridge * data[own + row, a]
                for b in range(rank):
                    total -= system[a, b] * data[own + row, b]
                    factor[a, b] = system[a, b]
                step[a] = total
                factor[a, a] += ridge + near
            solved = cholesky(factor, rank)
            near *= 100.0
        if solved:
            solve_factored(factor, step, rank)
        quadratic = 0.0
        for a in range(rank):
            out[row, a] = data[own + row, a] + (step[a] if solved else 0.0)
        for a in range(rank):
            total = -2.0 * right[a]
            for b in range(rank):
                total += system[a, b] * out[row, b]
            quadratic += total * out[row, a]
        values[row] = quadratic
