"""The cells of a sparse tensor grouped by row, and sums over the cells of every row.

Cells are grouped once per mode (`group_rows`). Neighbours in a row share all indices but the last,
a fibre: the rows of the factors that they share are met once for all of them. `fibre_sums` serves
least squares (MTTKRP) and Poisson likelihood alike.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
# mypy: disable-error-code="call-arg,var-annotated,unreachable,assignment"

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import LANES, Blocks, aligned_zeros
from onlinegcp.kernels.simd import add, fill, lane_sum, load, multiply, multiply_add, peek, store
from onlinegcp.sums.local import Local

# Cells per unit of work. Sums are cut at the same cells whatever the number of threads.
CHUNK = 1 << 15

# Bytes that grouping may add, as a share of the tensor's own: with the tensor itself and the
# factors a solve then stays below three times the tensor.
EXTRA_SHARE = 1.85


@dataclass(frozen=True)
class RowGroups:
    """The listed cells of a tensor, grouped by their row in one mode.

    Position p stands for cell ``order[p]`` of `index` and `value`, or for cell p itself where
    `order` is empty. Within a row, cells keep the C order of their other indices, so that
    neighbours share all but the last of them (a fibre).

    Attributes
    ----------
    mode
        The mode whose rows are grouped.
    index
        Array (n, columns) int32 of indices, with or without the column of the mode itself.
    value
        Array (n,) of float64.
    order
        Cell of every position, int32 or int64; empty when cells already lie in order.
    columns
        Column of `index` for each of the other modes.
    others
        The other modes, increasing.
    starts
        First position of every row, and the number of cells: (I_k + 1,) int64.
    """

    mode: int
    index: NDArray[np.int32]
    value: NDArray[np.float64]
    order: NDArray[np.signedinteger[Any]]
    columns: NDArray[np.int64]
    others: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """Length of the mode."""
        return len(self.starts) - 1

    @property
    def nbytes(self) -> int:
        """Memory of everything but the tensor itself."""
        own = self.starts.nbytes + self.order.nbytes
        copied = self.index.shape[1] == len(self.others)
        return own + (self.index.nbytes + self.value.nbytes if copied else 0)


def group_rows(
    index: NDArray[np.int32],
    value: NDArray[np.float64],
    shape: Sequence[int],
    *,
    share: float | None = None,
) -> tuple[RowGroups, ...]:
    """Group the cells of a sparse tensor by row, once for every mode.

    The first mode, like one of length 1, is in order already. The others get a reordered copy of
    their cells, which a kernel reads from front to back, as far as memory allows; the rest get a
    list of positions. Copies go to the last modes first: their cells lie farthest apart.

    Parameters
    ----------
    index
        Array (n, d) int32, C-contiguous, sorted by C-order linear index.
    value
        Array (n,) float64.
    shape
        Lengths of the modes.
    share
        Memory that may be added, as a share of the tensor's own; `EXTRA_SHARE` if None.
    """
    n, d = index.shape
    # Compiled code distinguishes read-only arrays: with both kinds it would be compiled twice.
    index, value = _read_only(index), _read_only(value)
    order_type: np.dtype[Any] = np.dtype(np.int32 if n < 2**31 else np.int64)
    order_bytes = n * order_type.itemsize
    copy_bytes = n * ((d - 1) * 4 + 8)
    share = EXTRA_SHARE if share is None else share
    room = share * (index.nbytes + value.nbytes) - (d - 1) * order_bytes
    groups: list[RowGroups] = []
    for mode in range(d - 1, -1, -1):
        others = np.array([j for j in range(d) if j != mode], dtype=np.int64)
        starts = np.zeros(shape[mode] + 1, dtype=np.int64)
        _count_rows(index, mode, starts)
        np.cumsum(starts, out=starts)
        cells, numbers, columns = index, value, others
        order = np.empty(0, dtype=order_type)
        if shape[mode] == 1 or math.prod(shape[:mode]) == 1:
            pass  # in order as they are
        elif copy_bytes - order_bytes <= room:
            room -= copy_bytes - order_bytes
            cells, numbers = np.empty((n, d - 1), dtype=np.int32), np.empty(n)
            columns = np.arange(d - 1, dtype=np.int64)
            _reorder(index, value, mode, starts[:-1].copy(), cells, numbers)
        else:
            order = np.empty(n, dtype=order_type)
            _place(index, mode, starts[:-1].copy(), order)
        cells, numbers = _read_only(cells), _read_only(numbers)
        groups.append(RowGroups(mode, cells, numbers, order, columns, others, starts))
    return tuple(reversed(groups))


def with_value(groups: RowGroups, value: NDArray[np.float64]) -> RowGroups:
    """The same cells with other values, given in the order of `groups.value`."""
    return replace(groups, value=_read_only(value))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def fibre_sums(
    groups: RowGroups,
    blocks: Blocks,
    *,
    rows: NDArray[np.float64] | None = None,
    epsilon: float = 0.0,
    n_jobs: int = 1,
) -> NDArray[Any]:
    """Return the sum over the cells of every row of x p, or of x / max(b'p, epsilon) p.

    Here p is the cell's Khatri-Rao row: the product of its rows in the factors of the other modes.
    The second is what multiplicative updates of a Poisson model multiply by: at a solution it
    equals the cost of a component wherever b > 0.

    Parameters
    ----------
    groups
        The tensor's cells, grouped by the rows of a mode; at least two modes.
    blocks
        All factor matrices; that of the mode itself is not read.
    rows
        Row b of every row of the mode (I_k, width); None for sums of x p.
    epsilon
        Smallest model value that is divided by.
    n_jobs
        Threads; the result is the same, bit for bit, for any number.
    """
    n_rows, n_chunks = groups.n_rows, -(-len(groups.value) // CHUNK)
    # One row more per chunk, for what it holds of a row that began in an earlier one.
    out = aligned_zeros((n_rows + n_chunks, blocks.width))
    head_rows = np.full(n_chunks, -1, dtype=np.int64)
    first_rows = blocks.offsets[groups.others]

    def work(first: int, last: int) -> None:
        _sum_chunks(
            groups.index,
            groups.value,
            groups.order,
            groups.columns,
            first_rows,
            groups.starts,
            blocks.data,
            rows,
            float(epsilon),
            out,
            head_rows,
            first,
            last,
        )

    run_chunks(work, n_chunks, n_jobs)
    # What chunks found of rows begun in an earlier one, in the order of the chunks.
    used = np.flatnonzero(head_rows >= 0)
    np.add.at(out, head_rows[used], out[n_rows + used])
    return out[:n_rows]


def run_chunks(work: Callable[[int, int], object], n_chunks: int, n_jobs: int) -> None:
    """Call `work(first, last)` so that the ranges cover all chunks, on up to `n_jobs` threads."""
    workers = min(n_jobs, n_chunks)
    if workers <= 1:
        if n_chunks:
            work(0, n_chunks)
        return
    # More ranges than threads, because chunks do not all take the same time.
    cuts = np.unique(np.linspace(0, n_chunks, 4 * workers + 1).astype(int)).tolist()
    Local(workers).run(lambda piece: work(cuts[piece], cuts[piece + 1]), len(cuts) - 1)


@kernel
def _count_rows(index, mode, starts):
    for s in range(index.shape[0]):
        starts[index[s, mode] + 1] += 1


@kernel
def _place(index, mode, cursor, order):
    # Cells are visited in C order, so every row keeps that order (a stable counting sort).
    for s in range(index.shape[0]):
        row = index[s, mode]
        order[cursor[row]] = s
        cursor[row] += 1


@kernel
def _reorder(index, value, mode, cursor, cells, numbers):
    for s in range(index.shape[0]):
        row = index[s, mode]
        p = cursor[row]
        cursor[row] = p + 1
        numbers[p] = value[s]
        for j in range(cells.shape[1]):
            cells[p, j] = index[s, j if j < mode else j + 1]


@kernel
def _sum_chunks(
    index,  # (n, columns) int32
    value,  # (n,)
    order,  # (n,), or (0,) for cells in order
    columns,  # (d - 1,) column of each other mode; the last is the leaf, the rest the prefix
    first_rows,  # (d - 1,) where the factor of each other mode begins in `data`
    starts,  # (rows + 1,)
    data,  # (sum of lengths, width)
    rows,  # (rows, width) to divide x by b'p, or None
    epsilon,
    out,  # (rows + chunks, width), zeros
    head_rows,  # (chunks,), -1
    first,
    last,
):
    # A chunk adds to the rows that begin in it, which no other chunk touches, and to its own row
    # of `heads` what it holds of a row begun earlier. Sums run in the order of the cells.
    # Written as one body: array arguments of a helper cost more than a short fibre's arithmetic.
    width = data.shape[1]
    vectors = width // LANES
    n = value.shape[0]
    n_rows = starts.shape[0] - 1
    stride = index.shape[1]
    permuted = order.shape[0] > 0
    n_prefix = columns.shape[0] - 1
    lead_column, leaf_column = columns[0], columns[n_prefix]
    lead_row, leaf_row = first_rows[0], first_rows[n_prefix]
    zero, one = fill(0.0), fill(1.0)
    total = np.zeros(width)  # sum over the fibre of x, or x / m, times leaf rows
    prefix = np.zeros(width)  # where x is divided: product of the rows a fibre shares
    shared = np.zeros(width)  # the same times b
    for chunk in range(first, last):
        begin = chunk * CHUNK
        end = min(n, begin + CHUNK)
        row = np.searchsorted(starts, begin, side="right") - 1
        p = begin
        while p < end:
            while starts[row + 1] <= p:
                row += 1
            stop = min(end, starts[row + 1])
            base, own = row * width, row * width
            if starts[row] < begin:
                base = (n_rows + chunk) * width
                head_rows[chunk] = row
            lead = before = at = s = np.int64(-1)
            while p <= stop:
                fresh = p == stop
                if not fresh:
                    s = np.int64(peek(order, p)) if permuted else p
                    at = s * stride
                    if n_prefix > 0:
                        fresh = peek(index, at + lead_column) != lead
                        for c in range(1, n_prefix):
                            column = peek(columns, c)
                            if before >= 0 and peek(index, at + column) != peek(
                                index, before + column
                            ):
                                fresh = True
                if fresh and before >= 0 and rows is not None:
                    for v in range(vectors):
                        r = v * LANES
                        product = multiply_add(load(prefix, r), load(total, r), load(out, base + r))
                        store(out, base + r, product)
                        store(total, r, zero)
                elif fresh and before >= 0:
                    # The fibre's sum of x times leaf rows, times the rows its cells share,
                    # joins the row's sum.
                    for c in range(1, n_prefix):
                        source = peek(first_rows, c) + peek(index, before + peek(columns, c))
                        for v in range(vectors):
                            r = v * LANES
                            factor = load(data, source * width + r)
                            store(total, r, multiply(load(total, r), factor))
                    if n_prefix > 0:
                        source = (lead_row + lead) * width
                        for v in range(vectors):
                            r = v * LANES
                            factor = load(data, source + r)
                            old = load(out, base + r)
                            store(out, base + r, multiply_add(factor, load(total, r), old))
                            store(total, r, zero)
                    else:
                        for v in range(vectors):
                            r = v * LANES
                            store(out, base + r, add(load(total, r), load(out, base + r)))
                            store(total, r, zero)
                if p < stop:
                    if rows is not None and (fresh or before < 0):
                        source = (lead_row + peek(index, at + lead_column)) * width
                        for v in range(vectors):
                            r = v * LANES
                            store(prefix, r, load(data, source + r) if n_prefix > 0 else one)
                        for c in range(1, n_prefix):
                            source = (first_rows[c] + peek(index, at + columns[c])) * width
                            for v in range(vectors):
                                r = v * LANES
                                factor = load(data, source + r)
                                store(prefix, r, multiply(load(prefix, r), factor))
                        for v in range(vectors):
                            r = v * LANES
                            store(shared, r, multiply(load(prefix, r), load(rows, own + r)))
                    if fresh:
                        lead = np.int64(peek(index, at + lead_column))
                    before = at
                    source = (leaf_row + peek(index, at + leaf_column)) * width
                    number = peek(value, s)
                    if rows is not None:
                        dot = zero
                        for v in range(vectors):
                            r = v * LANES
                            dot = multiply_add(load(shared, r), load(data, source + r), dot)
                        number /= max(lane_sum(dot), epsilon)
                    x = fill(number)
                    for v in range(vectors):
                        r = v * LANES
                        store(total, r, multiply_add(x, load(data, source + r), load(total, r)))
                p += 1
            p = stop
