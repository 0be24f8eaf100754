"""Passes over the counts of a slice for one new component beside a fixed model, in listed order."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from onlinegcp.kernels.jit import kernel


@kernel(fastmath=False)
def row_sums(index, share, offsets, sums):
    # sums[offsets[k] + i] = sum of the shares of cells in row i of mode k: one pass for all modes.
    sums[:] = 0.0
    for j in range(index.shape[0]):
        for k in range(index.shape[1]):
            sums[offsets[k] + index[j, k]] += share[j]


@kernel(fastmath=False)
def new_shares(index, value, rest, columns, offsets, size, share):
    # share[j] = what the component `size * columns` has of a count, beside a model value `rest`.
    for j in range(index.shape[0]):
        own = columns[offsets[0] + index[j, 0]]
        for k in range(1, index.shape[1]):
            own *= columns[offsets[k] + index[j, k]]
        own *= size
        share[j] = value[j] * own / (rest[j] + own + 1e-300)
