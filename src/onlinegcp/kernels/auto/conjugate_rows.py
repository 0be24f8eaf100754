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


# As written: what rounding is left must not depend on who calls it.
@kernel(fastmath={"contract"})
def follow(parts, first, last, lift, sensitivity, drift):
    # How the factors change with the memory now; `drift` (width,) out: its column sums.
    old, phi, rate, lam, exposure = parts
    width = old.shape[1]
    shared = exposure.shape[0] == 1
    drift[:] = 0.0
    for i in range(first, last):
        e, h, b, p, s = exposure[0 if shared else i], rate[i], old[i], phi[i], sensitivity[i]
        for r in range(width):
            prior = lam[r] * h[r]
            total = prior + e[r]
            kept = prior / total if total > 0.0 else 1.0
            fresh = p[r] / e[r] if e[r] > 0.0 else b[r]
            # d/d eta of (kept * old + (1 - kept) * fresh); that phi depends on the factors
            # is left out on purpose: with it the recursion explodes (docs/solver.md).
            value = kept * s[r] - (1.0 - kept) * kept * lift[r] * (fresh - b[r])
            s[r] = value
            drift[r] += value


@kernel
def settle(parts, first, last, scale, floor, learn, drift, sensitivity, data, sums):
    # Sensitivities without drift, exposure with the slice's, entries not below the floor;
    # `sums` (width,) out: column sums, and may be the array of the drift.
    _, _, rate, lam, exposure = parts
    width = data.shape[1]
    shared = exposure.shape[0] == 1
    if learn:
        for i in range(first, last):
            s, a = sensitivity[i], data[i]
            for r in range(width):
                s[r] -= a[r] * drift[r]
    sums[:] = 0.0
    for i in range(first, last):
        e, h, a = exposure[0 if shared else i], rate[i], data[i]
        for r in range(width):
            h[r] = (lam[r] * h[r] + e[r]) * scale[r]
            # Not max, which would make a floor of NaN.
            if a[r] < floor[r]:
                a[r] = floor[r]
            sums[r] += a[r]


@kernel
def divide_columns(first, last, sums, data):
    width = data.shape[1]
    share = np.ones(width)
    for r in range(width):
        if sums[r] > 0.0:
            share[r] = 1.0 / sums[r]
    for i in range(first, last):
        for r in range(width):
            data[i, r] *= share[r]


@kernel
def ratios(sensitivity, data, first, last, out):
    # out = sensitivity / data where data > 0, else 0.
    for i in range(first, last):
        for r in range(data.shape[1]):
            a = data[i, r]
            out[i, r] = sensitivity[i, r] / a if a > 0.0 else 0.0
