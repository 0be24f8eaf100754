"""Compiled history penalty: Gram matrices and matrix products of a few columns, in registers.

With S folded over the history (errata row 15), mode k's gradient gets A_k B - old_k C where
B = S * prod_{j != k} A_j'A_j and C = S * prod_{j != k} old_j'A_j (elementwise products). Products
are blocked 4 rows x 3 vectors: twelve sums live in registers while one operand streams by. Every
element is summed over rows in ascending order, whichever columns a call is given.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import LANES
from onlinegcp.kernels.simd import fill, load, multiply_add, spread, store

# Rows of a panel: two panels of 52 columns of float64 fill most of a first-level cache.
PANEL = 32


@kernel
def gram(first, last, width, left, right, symmetric, low, high, out):
    """Set rows of out (width, width) to the sum over rows first .. last - 1 of left' right.

    Only rows low .. high - 1 of `out` are set, `low` a multiple of four, and with `symmetric`
    nothing of them that is left of the diagonal.
    """
    zero = fill(0.0)
    for p in range(low, high, 4):
        for e in range(p * width, min(p + 4, width) * width, LANES):
            store(out, e, zero)
    for panel in range(first, last, PANEL):
        end = min(panel + PANEL, last)
        for p in range(low, high, 4):
            c = np.int64((p // LANES) * LANES if symmetric else 0)
            while c < width:
                wide = np.int64((width - c) // LANES)
                wide = np.int64(3) if wide >= 3 and wide != 4 else min(wide, np.int64(2))
                if wide == 3:
                    _gram_3(panel, end, width, left, right, p, c, out)
                elif wide == 2:
                    _gram_2(panel, end, width, left, right, p, c, out)
                else:
                    _gram_1(panel, end, width, left, right, p, c, out)
                c += wide * LANES


@kernel(forceinline=True)
def _gram_3(start, end, width, left, right, p, c, out):
    o0, o1, o2, o3 = (
        p * width + c,
        (p + 1) * width + c,
        (p + 2) * width + c,
        (p + 3) * width + c,
    )
    s00, s01, s02 = load(out, o0), load(out, o0 + LANES), load(out, o0 + 2 * LANES)
    s10, s11, s12 = load(out, o1), load(out, o1 + LANES), load(out, o1 + 2 * LANES)
    s20, s21, s22 = load(out, o2), load(out, o2 + LANES), load(out, o2 + 2 * LANES)
    s30, s31, s32 = load(out, o3), load(out, o3 + LANES), load(out, o3 + 2 * LANES)
    for i in range(start, end):
        row = i * width
        b0, b1, b2 = (
            load(right, row + c),
            load(right, row + c + LANES),
            load(right, row + c + 2 * LANES),
        )
        a = spread(left, row + p)
        s00, s01, s02 = multiply_add(a, b0, s00), multiply_add(a, b1, s01), multiply_add(a, b2, s02)
        a = spread(left, row + p + 1)
        s10, s11, s12 = multiply_add(a, b0, s10), multiply_add(a, b1, s11), multiply_add(a, b2, s12)
        a = spread(left, row + p + 2)
        s20, s21, s22 = multiply_add(a, b0, s20), multiply_add(a, b1, s21), multiply_add(a, b2, s22)
        a = spread(left, row + p + 3)
        s30, s31, s32 = multiply_add(a, b0, s30), multiply_add(a, b1, s31), multiply_add(a, b2, s32)
    store(out, o0, s00)
    store(out, o0 + LANES, s01)
    store(out, o0 + 2 * LANES, s02)
    store(out, o1, s10)
    store(out, o1 + LANES, s11)
    store(out, o1 + 2 * LANES, s12)
    store(out, o2, s20)
    store(out, o2 + LANES, s21)
    store(out, o2 + 2 * LANES, s22)
    store(out, o3, s30)
    store(out, o3 + LANES, s31)
    store(out, o3 + 2 * LANES, s32)


@kernel(forceinline=True)
def _gram_2(start, end, width, left, right, p, c, out):
    o0, o1, o2, o3 = (
        p * width + c,
        (p + 1) * width + c,
        (p + 2) * width + c,
        (p + 3) * width + c,
    )
    s00, s01 = load(out, o0), load(out, o0 + LANES)
    s10, s11 = load(out, o1), load(out, o1 + LANES)
    s20, s21 = load(out, o2), load(out, o2 + LANES)
    s30, s31 = load(out, o3), load(out, o3 + LANES)
    for i in range(start, end):
        row = i * width
        b0, b1 = load(right, row + c), load(right, row + c + LANES)
        a = spread(left, row + p)
        s00, s01 = multiply_add(a, b0, s00), multiply_add(a, b1, s01)
        a = spread(left, row + p + 1)
        s10, s11 = multiply_add(a, b0, s10), multiply_add(a, b1, s11)
        a = spread(left, row + p + 2)
        s20, s21 = multiply_add(a, b0, s20), multiply_add(a, b1, s21)
        a = spread(left, row + p + 3)
        s30, s31 = multiply_add(a, b0, s30), multiply_add(a, b1, s31)
    store(out, o0, s00)
    store(out, o0 + LANES, s01)
    store(out, o1, s10)
    store(out, o1 + LANES, s11)
    store(out, o2, s20)
    store(out, o2 + LANES, s21)
    store(out, o3, s30)
    store(out, o3 + LANES, s31)


@kernel(forceinline=True)
def _gram_1(start, end, width, left, right, p, c, out):
    o0, o1, o2, o3 = (
        p * width + c,
        (p + 1) * width + c,
        (p + 2) * width + c,
        (p + 3) * width + c,
    )
    s0, s1, s2, s3 = load(out, o0), load(out, o1), load(out, o2), load(out, o3)
    for i in range(start, end):
        row = i * width
        b = load(right, row + c)
        s0 = multiply_add(spread(left, row + p), b, s0)
        s1 = multiply_add(spread(left, row + p + 1), b, s1)
        s2 = multiply_add(spread(left, row + p + 2), b, s2)
        s3 = multiply_add(spread(left, row + p + 3), b, s3)
    store(out, o0, s0)
    store(out, o1, s1)
    store(out, o2, s2)
    store(out, o3, s3)


@kernel
def fold_grams(d, mode, width, S, grams, crosses, B, C):
    """Write B = S * prod_{j != mode} grams_j and C = -S * prod crosses_j, (width, width) each.

    Gram matrices are read on and right of the diagonal.
    """
    n = width * width
    for e in range(n):
        B[e] = S[e]
        C[e] = -S[e]
    for k in range(d):
        if k != mode:
            for e in range(n):
                C[e] *= crosses[k * n + e]
            for p in range(width):
                for q in range(p):
                    B[p * width + q] *= grams[k * n + q * width + p]
                for q in range(p, width):
                    B[p * width + q] *= grams[k * n + p * width + q]


@kernel
def add_product(first, last, rank, width, left, B, old, C, out):
    """Add left B + old C to `out`, rows first .. last - 1 (all arrays have `width` columns)."""
    i = np.int64(first)
    while i < last:
        tall = np.int64(4 if last - i >= 4 else 1)
        c = np.int64(0)
        while c < width:
            wide = np.int64((width - c) // LANES)
            wide = np.int64(3) if wide >= 3 and wide != 4 else min(wide, np.int64(2))
            if tall == 4 and wide == 3:
                _product_4_3(i, c, rank, width, left, B, out)
                _product_4_3(i, c, rank, width, old, C, out)
            elif tall == 4 and wide == 2:
                _product_4_2(i, c, rank, width, left, B, out)
                _product_4_2(i, c, rank, width, old, C, out)
            else:
                for row in range(i, i + tall):
                    for column in range(c, c + wide * LANES, LANES):
                        _product_1(row, column, rank, width, left, B, out)
                        _product_1(row, column, rank, width, old, C, out)
            c += wide * LANES
        i += tall


@kernel(forceinline=True)
def _product_4_3(i, c, rank, width, left, right, out):
    r0 = i * width
    r1 = (i + 1) * width
    r2 = (i + 2) * width
    r3 = (i + 3) * width
    s00, s01, s02 = load(out, r0 + c), load(out, r0 + c + LANES), load(out, r0 + c + 2 * LANES)
    s10, s11, s12 = load(out, r1 + c), load(out, r1 + c + LANES), load(out, r1 + c + 2 * LANES)
    s20, s21, s22 = load(out, r2 + c), load(out, r2 + c + LANES), load(out, r2 + c + 2 * LANES)
    s30, s31, s32 = load(out, r3 + c), load(out, r3 + c + LANES), load(out, r3 + c + 2 * LANES)
    for k in range(rank):
        at = k * width + c
        b0, b1, b2 = load(right, at), load(right, at + LANES), load(right, at + 2 * LANES)
        a = spread(left, r0 + k)
        s00, s01, s02 = multiply_add(a, b0, s00), multiply_add(a, b1, s01), multiply_add(a, b2, s02)
        a = spread(left, r1 + k)
        s10, s11, s12 = multiply_add(a, b0, s10), multiply_add(a, b1, s11), multiply_add(a, b2, s12)
        a = spread(left, r2 + k)
        s20, s21, s22 = multiply_add(a, b0, s20), multiply_add(a, b1, s21), multiply_add(a, b2, s22)
        a = spread(left, r3 + k)
        s30, s31, s32 = multiply_add(a, b0, s30), multiply_add(a, b1, s31), multiply_add(a, b2, s32)
    store(out, r0 + c, s00)
    store(out, r0 + c + LANES, s01)
    store(out, r0 + c + 2 * LANES, s02)
    store(out, r1 + c, s10)
    store(out, r1 + c + LANES, s11)
    store(out, r1 + c + 2 * LANES, s12)
    store(out, r2 + c, s20)
    store(out, r2 + c + LANES, s21)
    store(out, r2 + c + 2 * LANES, s22)
    store(out, r3 + c, s30)
    store(out, r3 + c + LANES, s31)
    store(out, r3 + c + 2 * LANES, s32)


@kernel(forceinline=True)
def _product_4_2(i, c, rank, width, left, right, out):
    r0 = i * width
    r1 = (i + 1) * width
    r2 = (i + 2) * width
    r3 = (i + 3) * width
    s00, s01 = load(out, r0 + c), load(out, r0 + c + LANES)
    s10, s11 = load(out, r1 + c), load(out, r1 + c + LANES)
    s20, s21 = load(out, r2 + c), load(out, r2 + c + LANES)
    s30, s31 = load(out, r3 + c), load(out, r3 + c + LANES)
    for k in range(rank):
        row = k * width
        b0, b1 = load(right, row + c), load(right, row + c + LANES)
        a = spread(left, r0 + k)
        s00, s01 = multiply_add(a, b0, s00), multiply_add(a, b1, s01)
        a = spread(left, r1 + k)
        s10, s11 = multiply_add(a, b0, s10), multiply_add(a, b1, s11)
        a = spread(left, r2 + k)
        s20, s21 = multiply_add(a, b0, s20), multiply_add(a, b1, s21)
        a = spread(left, r3 + k)
        s30, s31 = multiply_add(a, b0, s30), multiply_add(a, b1, s31)
    store(out, r0 + c, s00)
    store(out, r0 + c + LANES, s01)
    store(out, r1 + c, s10)
    store(out, r1 + c + LANES, s11)
    store(out, r2 + c, s20)
    store(out, r2 + c + LANES, s21)
    store(out, r3 + c, s30)
    store(out, r3 + c + LANES, s31)


@kernel(forceinline=True)
def _product_1(i, c, rank, width, left, right, out):
    r0 = i * width
    s00 = load(out, r0 + c)
    for k in range(rank):
        row = k * width
        b0 = load(right, row + c)
        a = spread(left, r0 + k)
        s00 = multiply_add(a, b0, s00)
    store(out, r0 + c, s00)
