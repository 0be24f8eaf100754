"""Responsibilities of a Poisson model: what multiplicative updates multiply by.

For row i of one mode, phi[i] is the sum over its cells of x / m times the cell's Khatri-Rao row
p, where m = b'p. At a solution phi equals the cost of a component wherever b > 0.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"
# mypy: disable-error-code="call-arg,var-annotated,unreachable,assignment"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import Blocks, aligned_zeros
from onlinegcp.kernels.simd import (
    fill,
    lane_sum,
    lanes_of,
    load,
    multiply,
    multiply_add,
    peek,
    store,
)
from onlinegcp.kernels.static.mttkrp import CHUNK, RowGroups, add_heads, run_chunks


def poisson_phi(
    groups: RowGroups,
    blocks: Blocks,
    rows: NDArray[np.float64],
    *,
    epsilon: float = 1e-10,
    n_jobs: int = 1,
) -> NDArray[np.float64]:
    """Return phi[i] = sum over the cells of row i of x / max(b'p, epsilon) p: (I_n, width).

    Parameters
    ----------
    groups
        The cells, grouped by the rows of the mode; at least two modes.
    blocks
        All factors, columns summing to one; that of the mode is not read.
    rows
        B = A_n diag(weights), (I_n, width) in the padded layout.
    epsilon
        Smallest model value that is divided by.
    n_jobs
        Threads; the result is the same, bit for bit, for any number.
    """
    n_rows, n_chunks = groups.n_rows, -(-len(groups.value) // CHUNK)
    out = aligned_zeros((n_rows + n_chunks, blocks.width))
    head_rows = np.full(n_chunks, -1, dtype=np.int64)
    first_rows = blocks.offsets[groups.others]

    def work(first: int, last: int) -> None:
        _phi_chunks(
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
    add_heads(out, head_rows)
    return out[:n_rows]


def poisson_phi_reference(
    index: NDArray[np.integer[Any]],
    value: NDArray[np.float64],
    factors: Sequence[NDArray[np.float64]],
    mode: int,
    rows: NDArray[np.float64],
    epsilon: float = 1e-10,
) -> NDArray[np.float64]:
    """Return the same phi, one line of NumPy per step: the oracle of `poisson_phi`."""
    basis = np.ones((len(value), rows.shape[1]))
    for j, factor in enumerate(factors):
        if j != mode:
            basis *= factor[index[:, j]]
    m = np.sum(rows[index[:, mode]] * basis, axis=1)
    out = np.zeros(rows.shape)
    np.add.at(out, index[:, mode], (value / np.maximum(m, epsilon))[:, None] * basis)
    return out


@kernel
def _phi_chunks(
    index,  # (n, columns) int32
    value,  # (n,)
    order,  # (n,), or (0,) for cells in order
    columns,  # (d - 1,) column of each other mode; the last is the leaf, the rest the prefix
    first_rows,  # (d - 1,)
    starts,  # (rows + 1,)
    data,  # (sum of lengths, width)
    rows,  # (rows, width)
    epsilon,
    out,  # (rows + chunks, width), zeros
    head_rows,  # (chunks,), -1
    first,
    last,
):
    # As in MTTKRP: a chunk writes the rows that begin in it and one head row of its own, and
    # sums run in the order of the cells.
    width = data.shape[1]
    lanes = lanes_of(data)
    vectors = width // lanes
    n = value.shape[0]
    n_rows = starts.shape[0] - 1
    stride = index.shape[1]
    permuted = order.shape[0] > 0
    n_prefix = columns.shape[0] - 1
    leaf_column = columns[n_prefix]
    leaf_row = first_rows[n_prefix]
    zero, one = fill(data, 0.0), fill(data, 1.0)
    prefix = np.zeros(width)  # product of the rows that a fibre's cells share
    scaled = np.zeros(width)  # the same times b
    total = np.zeros(width)  # sum over the fibre of x / m times leaf rows
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
            before = np.int64(-1)
            while p < stop:
                s = np.int64(peek(order, p)) if permuted else p
                at = s * stride
                fresh = before < 0
                if not fresh:
                    for c in range(n_prefix):
                        column = peek(columns, c)
                        if peek(index, at + column) != peek(index, before + column):
                            fresh = True
                if fresh:
                    if before >= 0:
                        for v in range(vectors):
                            r = v * lanes
                            old = load(out, base + r)
                            store(out, base + r, multiply_add(load(prefix, r), load(total, r), old))
                            store(total, r, zero)
                    if n_prefix > 0:
                        source = (peek(first_rows, 0) + peek(index, at + peek(columns, 0))) * width
                        for v in range(vectors):
                            store(prefix, v * lanes, load(data, source + v * lanes))
                    else:
                        for v in range(vectors):
                            store(prefix, v * lanes, one)
                    for c in range(1, n_prefix):
                        source = (peek(first_rows, c) + peek(index, at + peek(columns, c))) * width
                        for v in range(vectors):
                            r = v * lanes
                            store(prefix, r, multiply(load(prefix, r), load(data, source + r)))
                    for v in range(vectors):
                        r = v * lanes
                        store(scaled, r, multiply(load(prefix, r), load(rows, own + r)))
                before = at
                source = (leaf_row + peek(index, at + leaf_column)) * width
                dot = zero
                for v in range(vectors):
                    r = v * lanes
                    dot = multiply_add(load(scaled, r), load(data, source + r), dot)
                ratio = fill(data, peek(value, s) / max(lane_sum(dot), epsilon))
                for v in range(vectors):
                    r = v * lanes
                    store(total, r, multiply_add(ratio, load(data, source + r), load(total, r)))
                p += 1
            for v in range(vectors):
                r = v * lanes
                old = load(out, base + r)
                store(out, base + r, multiply_add(load(prefix, r), load(total, r), old))
                store(total, r, zero)
