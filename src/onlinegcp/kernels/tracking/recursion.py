"""RLST's step compiled: a basis of whole slices by recursive least squares, slice after slice."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.tracking.columns import (
    along_line,
    holdings,
    lines_of,
    products,
    solve_normal,
    sweep,
    tails_of,
    usual,
)

# Recursive inverses are computed anew when they are this far from being inverses.
DRIFT = 1e-7


@kernel
def weigh(inverse, sums, x, seen, s):
    # seen = D+ x, and s = P D+ x: the least-squares weights of a slice under the basis.
    rank = sums.shape[0]
    for r in range(rank):
        total = 0.0
        for c in range(x.shape[0]):
            total += inverse[r, c] * x[c]
        seen[r] = total
    for r in range(rank):
        total = 0.0
        for i in range(rank):
            total += sums[r, i] * seen[i]
        s[r] = total


@kernel
def count(
    basis, inverse, sums, inverse_sums, x, seen, s, share, fade,
    new_basis, new_inverse, new_sums, new_inverse_sums, u, h,
):  # fmt: skip
    # Weighs all that was seen down by `fade`, then counts slice x with weights s, `share` times
    # (a negative share takes it out again); `seen` is D+ x. What the matrices are says
    # `streaming.rlst`; u and h (cells,) are scratch. Returns how far the new inverses are from
    # being inverses.
    rank, cells = basis.shape
    k, t, along, q = np.empty(rank), np.empty(rank), np.empty(rank), np.empty(rank)
    for c in range(cells):
        u[c] = share * x[c]
        h[c] = 0.0
    for r in range(rank):
        part = s[r] / fade
        for c in range(cells):
            h[c] += part * inverse[r, c]
        k[r] = share * seen[r] / fade
    beta = 1.0
    for r in range(rank):
        beta += s[r] * k[r]
        total = 0.0
        for i in range(rank):
            total += sums[r, i] * k[i]
        t[r] = fade * total
    for r in range(rank):
        for c in range(cells):
            u[c] -= t[r] * basis[r, c]
    nu, theta = 0.0, 0.0
    for c in range(cells):
        nu += u[c] * u[c]
        theta += h[c] * h[c]
    sigma = theta * nu + beta * beta
    # D+ after D + share x s', for D of full column rank.
    for r in range(rank):
        total = 0.0
        for c in range(cells):
            total += inverse[r, c] * h[c]
        along[r] = total / fade
    for r in range(rank):
        p = -nu / beta * along[r] - k[r]
        first, second = along[r] / beta + theta / sigma * p, beta / sigma * p
        for c in range(cells):
            new_inverse[r, c] = inverse[r, c] / fade + first * u[c] + second * h[c]

    scale = 0.0
    for r in range(rank):
        total = 0.0
        for i in range(rank):
            total += inverse_sums[r, i] * s[i]
        q[r] = total / fade
        scale += s[r] * q[r]
    scale = share / (1.0 + share * scale)
    for r in range(rank):
        for i in range(rank):
            new_inverse_sums[r, i] = inverse_sums[r, i] / fade - scale * q[r] * q[i]
            new_sums[r, i] = fade * sums[r, i] + share * s[r] * s[i]

    error, check = u, h  # which are not needed any more
    for c in range(cells):
        error[c] = x[c]
        check[c] = 0.0
    for r in range(rank):
        for c in range(cells):
            error[c] -= s[r] * basis[r, c]
    far = 0.0
    for r in range(rank):
        gain, ones = 0.0, 0.0
        for i in range(rank):
            gain += share * new_inverse_sums[r, i] * s[i]
            ones += new_sums[r, i]
        t[r] = ones
        for c in range(cells):
            value = basis[r, c] + gain * error[c]
            new_basis[r, c] = value
            check[c] += ones * value
    for r in range(rank):
        gap, same = -1.0, -1.0
        for c in range(cells):
            gap += new_inverse[r, c] * check[c]
        for i in range(rank):
            same += new_inverse_sums[r, i] * t[i]
        far = max(far, abs(gap), abs(same))
        if not np.isfinite(gap + same):
            return np.inf
    return far


@kernel
def squared_error(x, columns, offsets, rows, weights):
    # Sum of (x - m)^2 over all cells.
    n, tails = rows.shape[0], tails_of(columns, offsets)
    rank, length = tails.shape
    lines, error, squares = x.reshape((n, length)), np.empty(length), 0.0
    for i in range(n):
        for c in range(length):
            error[c] = lines[i, c]
        for r in range(rank):
            factor = weights[r] * along_line(columns, r, rows, i, -1)
            for c in range(length):
                error[c] -= factor * tails[r, c]
        for c in range(length):
            squares += error[c] * error[c]
    return squares


@kernel
def least_squares_weights(x, columns, offsets, rows, out):
    # Weights (R, 1) with which the factors explain a slice best.
    n, tails = rows.shape[0], tails_of(columns, offsets)
    rank, length = tails.shape
    matrix, lower, lines = np.empty((rank, rank)), np.empty((rank, rank)), x.reshape((n, length))
    products(columns, offsets, -1, matrix)
    for r in range(rank):
        cross = 0.0
        for i in range(n):
            total = 0.0
            for c in range(length):
                total += lines[i, c] * tails[r, c]
            cross += total * along_line(columns, r, rows, i, -1)
        out[r, 0] = cross
    solve_normal(matrix, out, 0, 1, lower)


@kernel
def follow(
    slices, basis, inverse, sums, inverse_sums, columns, offsets, mean, forget,
    next_basis, next_inverse, spare_basis, spare_inverse, held,
):  # fmt: skip
    # Learns slices (n, cells) in turn, up to the first that is out of the ordinary: recursive
    # inverses that are none any more, numbers that are not finite, a mode of zeros. Changes
    # `columns` and `mean`, writes what components hold into `held` (n, R), and uses the next and,
    # for several slices, the spare arrays for what it returns.
    n, cells = slices.shape
    rank = sums.shape[0]
    next_sums, next_inverse_sums = np.empty((rank, rank)), np.empty((rank, rank))
    spare_sums, spare_inverse_sums = np.empty((rank, rank)), np.empty((rank, rank))
    seen, s, weights, before = (
        np.empty(rank), np.empty(rank), np.empty(rank), np.empty((rank, 1)),
    )  # fmt: skip
    moved, rows = np.empty((rank, columns.shape[1])), lines_of(offsets)
    u, h = np.empty(cells), np.empty(cells)
    prequential, local, done = 0.0, 0.0, 0
    for t in range(n):
        x = slices[t]
        weigh(inverse, sums, x, seen, s)
        far = count(
            basis, inverse, sums, inverse_sums, x, seen, s, 1.0, forget,
            next_basis, next_inverse, next_sums, next_inverse_sums, u, h,
        )  # fmt: skip
        if not far < DRIFT:
            break
        weigh(next_inverse, next_sums, x, seen, s)
        sweep(next_basis, columns, offsets, rows, moved)
        if not usual(moved, offsets):
            break
        if t == n - 1:  # of the others nobody keeps a record
            least_squares_weights(x, columns, offsets, rows, before)
            prequential = squared_error(x, columns, offsets, rows, before.reshape(rank))
            local = squared_error(x, moved, offsets, rows, s)
        for r in range(rank):
            weights[r] = s[r]
            mean[r] = 0.9 * mean[r] + 0.1 * s[r]
            for i in range(columns.shape[1]):
                columns[r, i] = moved[r, i]
        holdings(columns, offsets, weights, held, t)
        basis, inverse, sums, inverse_sums = (
            next_basis, next_inverse, next_sums, next_inverse_sums,
        )  # fmt: skip
        next_basis, spare_basis = spare_basis, next_basis
        next_inverse, spare_inverse = spare_inverse, next_inverse
        next_sums, spare_sums = spare_sums, next_sums
        next_inverse_sums, spare_inverse_sums = spare_inverse_sums, next_inverse_sums
        done += 1
    return done, basis, inverse, sums, inverse_sums, weights, prequential, local
