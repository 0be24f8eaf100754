"""RLST's step compiled: a basis of whole slices by recursive least squares, slice after slice."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.tracking.columns import (
    add_rows,
    along_line,
    holdings,
    lines_of,
    products,
    solve_normal,
    sweep,
    tails_of,
    times,
    usual,
)

# Recursive inverses are computed anew when they are this far from being inverses.
DRIFT = 1e-7


@kernel
def weigh(inverse, sums, x, seen, s):
    # seen = D+ x, and s = P D+ x: the least-squares weights of a slice under the basis.
    times(inverse, x, seen)
    times(sums, seen, s)


@kernel
def count(
    basis, inverse, sums, inverse_sums, x, seen, s, share, fade,
    new_basis, new_inverse, new_sums, new_inverse_sums, u, h, error,
):  # fmt: skip
    # Weighs all that was seen down by `fade`, then counts slice x with weights s, `share` times
    # (a negative share takes it out again); `seen` is D+ x before and after. What the matrices are
    # says `streaming.rlst`; u, h and error (cells,) are scratch. Returns how far the new inverses
    # are from being inverses.
    rank, cells = basis.shape
    k, t, along, q = np.empty(rank), np.empty(rank), np.empty(rank), np.empty(rank)
    for c in range(cells):
        u[c] = -share * x[c]
        h[c] = 0.0
        error[c] = -x[c]
    times(inverse_sums, s, q)
    beta, scale = 1.0, 0.0
    for r in range(rank):
        k[r] = share * seen[r] / fade
        q[r] /= fade
        beta += s[r] * k[r]
        scale += s[r] * q[r]
    scale = share / (1.0 + share * scale)
    times(sums, k, t)
    for r in range(rank):
        t[r] *= fade
        for i in range(rank):
            new_inverse_sums[r, i] = inverse_sums[r, i] / fade - scale * q[r] * q[i]
            new_sums[r, i] = fade * sums[r, i] + share * s[r] * s[i]
    add_rows(s, inverse, h)
    add_rows(t, basis, u)
    add_rows(s, basis, error)
    nu, theta, ux, hx = 0.0, 0.0, 0.0, 0.0
    for c in range(cells):
        h[c] /= fade
        u[c] = -u[c]
        nu += u[c] * u[c]
        theta += h[c] * h[c]
        ux += u[c] * x[c]
        hx += h[c] * x[c]
    sigma = theta * nu + beta * beta
    # D+ after D + share x s', for D of full column rank.
    times(inverse, h, along)
    for r in range(rank):
        p = -nu / beta * (along[r] / fade) - k[r]
        first, second = along[r] / fade / beta + theta / sigma * p, beta / sigma * p
        seen[r] = seen[r] / fade + first * ux + second * hx
        for c in range(cells):
            new_inverse[r, c] = inverse[r, c] / fade + first * u[c] + second * h[c]

    times(new_inverse_sums, s, q)
    for r in range(rank):
        total, gain = 0.0, share * q[r]
        for i in range(rank):
            total += new_sums[r, i]
        t[r] = total
        for c in range(cells):
            new_basis[r, c] = basis[r, c] - gain * error[c]
    # What inverses make of sums over components should be ones.
    for c in range(cells):
        error[c] = 0.0
    add_rows(t, new_basis, error)
    times(new_inverse, error, along)
    times(new_inverse_sums, t, q)
    far = 0.0
    for r in range(rank):
        gap = abs(along[r] - 1.0) + abs(q[r] - 1.0)
        if not gap < DRIFT:  # which is also true of what is not a number
            return np.inf
        far = max(far, gap)
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
    matrix, lower = np.empty((rank, rank)), np.empty((rank, rank))
    lines, sums = x.reshape((n, length)), np.empty(n)
    products(columns, offsets, -1, matrix)
    for r in range(rank):
        times(lines, tails[r], sums)
        out[r, 0] = 0.0
        for i in range(n):
            out[r, 0] += sums[i] * along_line(columns, r, rows, i, -1)
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
    moved, rows = np.empty((rank, columns.shape[1])), lines_of(offsets, 0, offsets.shape[0] - 2)
    u, h, error = np.empty(cells), np.empty(cells), np.empty(cells)
    prequential, local, done = 0.0, 0.0, 0
    for t in range(n):
        x = slices[t]
        weigh(inverse, sums, x, seen, s)
        far = count(
            basis, inverse, sums, inverse_sums, x, seen, s, 1.0, forget,
            next_basis, next_inverse, next_sums, next_inverse_sums, u, h, error,
        )  # fmt: skip
        if not far < DRIFT:
            break
        times(next_sums, seen, s)
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
