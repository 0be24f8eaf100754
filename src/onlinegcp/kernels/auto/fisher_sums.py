"""Compiled sums for damped Fisher scoring: slopes and curvatures of the weights and of every row.

The loss itself stays outside: callers pass each cell's weighted slope y and weighted curvature h,
so a user's loss in NumPy is served like a built-in one. `tests/kernel_twins.py` says it in NumPy.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.auto.weights_newton import BLOCK, add_outer_products, khatri_rao_row
from onlinegcp.kernels.jit import kernel

NO_MODE = -1  # to leave out of a product


@kernel
def model_values(data, offsets, index, weights, out):
    # out[j] = sum_r weights[r] z_jr
    width = data.shape[1]
    z = np.empty(width)
    for j in range(index.shape[0]):
        khatri_rao_row(data, offsets, index, j, z)
        m = 0.0
        for r in range(width):
            m += z[r] * weights[r]
        out[j] = m


@kernel
def weight_sums(data, offsets, index, y, h, slope, hessian):
    # slope = Z'y and hessian = Z' diag(h) Z (lower triangle), h >= 0. Listed order.
    n, width = index.shape[0], data.shape[1]
    slope[:] = 0.0
    hessian[:] = 0.0
    block = np.zeros((BLOCK, width))
    start = 0
    while start < n:
        stop = min(start + BLOCK, n)
        for j in range(start, stop):
            z = block[j - start]
            khatri_rao_row(data, offsets, index, j, z)
            root = np.sqrt(h[j])
            for r in range(width):
                slope[r] += y[j] * z[r]
                z[r] *= root
        add_outer_products(block, stop - start, hessian)
        start = stop


@kernel
def other_rows(data, offsets, index, j, weights, mode, z):
    # z = weights times the rows of all modes but one (NO_MODE: of all).
    width = data.shape[1]
    for r in range(width):
        z[r] = weights[r]
    for k in range(mode):
        a = data[offsets[k] + index[j, k]]
        for r in range(width):
            z[r] *= a[r]
    for k in range(mode + 1, index.shape[1]):
        a = data[offsets[k] + index[j, k]]
        for r in range(width):
            z[r] *= a[r]


@kernel
def row_sums(data, offsets, index, weights, y, h, mode, by_row, slopes, hessians):
    # For row i of the mode, over its cells order[starts[i]:starts[i+1]] with n the weighted
    # product of the other modes' rows: slopes[i] = sum y n and hessians[i] = sum h n n'
    # (both triangles), or, when `hessians` is (I, width, 1), its diagonal. Rows in order.
    order, starts = by_row
    width = data.shape[1]
    block = np.zeros((BLOCK, width))
    diagonal = hessians.shape[2] == 1
    for i in range(slopes.shape[0]):
        g = slopes[i]
        g[:] = 0.0
        full = hessians[i]
        full[:] = 0.0
        q = starts[i]
        while q < starts[i + 1]:
            here = min(starts[i + 1] - q, BLOCK)
            for p in range(here):
                j = order[q + p]
                z = block[p]
                other_rows(data, offsets, index, j, weights, mode, z)
                root = np.sqrt(h[j])
                for r in range(width):
                    g[r] += y[j] * z[r]
                    z[r] *= root
                if diagonal:
                    for r in range(width):
                        full[r, 0] += z[r] * z[r]
            if not diagonal:
                add_outer_products(block, here, full)
            q += here
        if not diagonal:
            for r in range(width):
                for c in range(r):
                    full[c, r] = full[r, c]


@kernel
def model_changes(data, change, offsets, index, weights, out):
    # out[j] = d m_j when the factors move along `change`.
    width = data.shape[1]
    z = np.empty(width)
    for j in range(index.shape[0]):
        total = 0.0
        for k in range(index.shape[1]):
            other_rows(data, offsets, index, j, weights, k, z)
            c = change[offsets[k] + index[j, k]]
            for r in range(width):
                total += z[r] * c[r]
        out[j] = total
