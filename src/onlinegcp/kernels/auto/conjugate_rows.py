"""Compiled row updates of the conjugate history: blend old factors with a slice, then absorb it.

A factor entry is a ratio of counts to exposure; the history holds lam * rate of exposure at the
old value, the slice adds phi counts over its own exposure. Every function runs over rows of one
mode, single writer, rows in order. Where a mode is cut into blocks, columns are summed between
`blend_rows` and `divide`, and between `follow`, `settle` and `divide_columns`.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.jit import kernel


@kernel
def blend(parts, first, last, sums, data):
    # A whole mode: new factors, columns summing to one; `sums` are those before.
    blend_rows(parts, first, last, sums, data)
    divide(first, last, sums, data)


@kernel
def blend_rows(
    parts,  # Blend
    first,
    last,
    sums,  # (width,) out: column sums
    data,  # (rows, width) out: new factors, before they are divided by the sums
):
    old, phi, rate, lam, exposure = parts
    width = data.shape[1]
    shared = exposure.shape[0] == 1
    sums[:] = 0.0
    for i in range(first, last):
        e = exposure[0 if shared else i]
        a, b, p, h = data[i], old[i], phi[i], rate[i]
        for r in range(width):
            prior = lam[r] * h[r]
            below = prior + e[r]
            # A row never seen has neither history nor exposure: it keeps its value.
            a[r] = (prior * b[r] + p[r]) / below if below > 0.0 else b[r]
            sums[r] += a[r]


@kernel
def divide(first, last, sums, data):
    width = data.shape[1]
    for i in range(first, last):
        a = data[i]
        for r in range(width):
            if sums[r] > 0.0:
                a[r] /= sums[r]


@kernel
def absorb(
    parts,  # Blend; its rate becomes (lam * rate + exposure) * scale
    first,
    last,
    scale,  # (width,) column sums divided out since `old`
    lift,  # (width,) d log(lam * rate) / d eta
    floor,  # (width,) smallest entry
    learn,  # whether `sensitivity` is kept
    sensitivity,  # (rows, width) dA / d eta, updated
    data,  # (rows, width) floored, columns summing to one again
):
    # A whole mode.
    sums = np.zeros(data.shape[1])
    if learn:
        follow(parts, first, last, lift, sensitivity, sums)
    settle(parts, first, last, scale, floor, learn, sums, sensitivity, data, sums)
    divide_columns(first, last, sums, data)


@kernel
def follow(parts, first, last, lift, sensitivity, drift):
    # How the factors change with the memory now; `drift` (width,) out: its column sums.
    old, phi, rate, lam, exposure = parts
    shared = exposure.shape[0] == 1
    for r in range(old.shape[1]):
        moved = 0.0
        for i in range(first, last):
            e = exposure[0 if shared else i, r]
            prior = lam[r] * rate[i, r]
            total = prior + e
            kept = prior / total if total > 0.0 else 1.0
            fresh = phi[i, r] / e if e > 0.0 else old[i, r]
            # d/d eta of (kept * old + (1 - kept) * fresh); that phi depends on the factors
            # is left out on purpose: with it the recursion explodes (docs/solver.md).
            value = kept * sensitivity[i, r] - (1.0 - kept) * kept * lift[r] * (fresh - old[i, r])
            sensitivity[i, r] = value
            moved += value
        drift[r] = moved


@kernel
def settle(parts, first, last, scale, floor, learn, drift, sensitivity, data, sums):
    # Sensitivities without drift, exposure with the slice's, entries not below the floor;
    # `sums` (width,) out: column sums, and may be the array of the drift.
    _, _, rate, lam, exposure = parts
    width = data.shape[1]
    shared = exposure.shape[0] == 1
    if learn:
        for r in range(width):
            moved = drift[r]
            for i in range(first, last):
                sensitivity[i, r] -= data[i, r] * moved
    for i in range(first, last):
        e = exposure[0 if shared else i]
        h = rate[i]
        for r in range(width):
            h[r] = (lam[r] * h[r] + e[r]) * scale[r]
    for r in range(width):
        total = 0.0
        for i in range(first, last):
            if data[i, r] < floor[r]:
                data[i, r] = floor[r]
            total += data[i, r]
        sums[r] = total


@kernel
def divide_columns(first, last, sums, data):
    for r in range(data.shape[1]):
        total = sums[r]
        if total > 0.0:
            for i in range(first, last):
                data[i, r] /= total


@kernel
def ratios(sensitivity, data, first, last, out):
    # out = sensitivity / data where data > 0, else 0.
    for i in range(first, last):
        for r in range(data.shape[1]):
            a = data[i, r]
            out[i, r] = sensitivity[i, r] / a if a > 0.0 else 0.0
