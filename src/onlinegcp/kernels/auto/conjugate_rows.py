"""Compiled row updates of the conjugate history: blend old factors with a slice, then absorb it.

A factor entry is a ratio of counts to exposure; the history holds lam * rate of exposure at the
old value, the slice adds phi counts over its own exposure. Every function runs over the rows of
one mode, single writer, rows in order.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

from onlinegcp.kernels.jit import kernel


@kernel
def blend(
    parts,  # Blend
    first,
    last,
    sums,  # (width,) out: column sums before normalisation
    data,  # (rows, width) out: new factors, columns summing to one
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
    old, phi, rate, lam, exposure = parts
    width = data.shape[1]
    shared = exposure.shape[0] == 1
    if learn:
        for r in range(width):
            drift = 0.0
            for i in range(first, last):
                e = exposure[0 if shared else i, r]
                prior = lam[r] * rate[i, r]
                total = prior + e
                kept = prior / total if total > 0.0 else 1.0
                fresh = phi[i, r] / e if e > 0.0 else old[i, r]
                # d/d eta of (kept * old + (1 - kept) * fresh); that phi depends on the factors
                # is left out on purpose: with it the recursion explodes (docs/solver.md).
                value = kept * sensitivity[i, r] - (1.0 - kept) * kept * lift[r] * (
                    fresh - old[i, r]
                )
                sensitivity[i, r] = value
                drift += value
            for i in range(first, last):
                sensitivity[i, r] -= data[i, r] * drift
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
        if total > 0.0:
            for i in range(first, last):
                data[i, r] /= total


@kernel
def ratios(sensitivity, data, out):
    # out = sensitivity / data where data > 0, else 0.
    for i in range(data.shape[0]):
        for r in range(data.shape[1]):
            a = data[i, r]
            out[i, r] = sensitivity[i, r] / a if a > 0.0 else 0.0
