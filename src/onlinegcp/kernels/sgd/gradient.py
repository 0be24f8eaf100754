"""Compiled model values, slopes and gradient scatter over a block of samples.

The shortest mode, called the head, is kept multiplied by the component weights (`head`), so that
the weights cost nothing per sample: model values are sums of head * other rows, and the gradient
of the weights follows from the head's gradient, which is collected without the weights.

Nothing is stored per sample and component. Every element of a gradient is summed in the order of
the samples, whichever columns a call is given, so that threads can share columns and still give
the same bits.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import LANES
from onlinegcp.kernels.loss_codes import loss_deriv, loss_value
from onlinegcp.kernels.simd import (
    add,
    fill,
    lane_sum,
    load,
    multiply,
    multiply_add,
    peek,
    poke,
    prefetch,
    store,
)

# Samples handled together: their scratch (rows, data, slopes) stays in the first-level cache.
BLOCK = 256

# How many samples ahead factor rows are asked for when they do not fit into the cache.
AHEAD = 6


@kernel(forceinline=True)
def _ask(array, start, width):
    for c in range(0, width, 2 * LANES):
        prefetch(array, start + c)


@kernel
def model_block(d, at, count, stride, width, far, rows, head, data, m):
    """Write the model values of a block of samples to `m`."""
    zero = fill(0.0)
    if d == 2:
        for s in range(at, at + count):
            r0, r1 = peek(rows, s), peek(rows, stride + s)
            if far and s + AHEAD < at + count:
                _ask(data, peek(rows, stride + s + AHEAD), width)
            total = zero
            for c in range(0, width, LANES):
                total = multiply_add(load(head, r0 + c), load(data, r1 + c), total)
            poke(m, s, lane_sum(total))
    elif d == 3:
        for s in range(at, at + count):
            r0, r1, r2 = peek(rows, s), peek(rows, stride + s), peek(rows, 2 * stride + s)
            if far and s + AHEAD < at + count:
                _ask(data, peek(rows, stride + s + AHEAD), width)
                _ask(data, peek(rows, 2 * stride + s + AHEAD), width)
            total = zero
            for c in range(0, width, LANES):
                product = multiply(load(head, r0 + c), load(data, r1 + c))
                total = multiply_add(product, load(data, r2 + c), total)
            poke(m, s, lane_sum(total))
    else:
        for s in range(at, at + count):
            r0 = peek(rows, s)
            total = zero
            for c in range(0, width, LANES):
                product = load(head, r0 + c)
                for k in range(1, d):
                    product = multiply(product, load(data, peek(rows, k * stride + s) + c))
                total = add(total, product)
            poke(m, s, lane_sum(total))


@kernel
def slope_block(code, parameter, corrected, at, count, xs, ws, m, y):
    """Write weight * f'(x, m) to `y` (less f'(0, m) where corrected)."""
    # A constant code lets the compiler drop the choice among losses from the loop, and vectorise
    # losses without transcendental functions; these are the common ones.
    if code == 0:
        for s in range(at, at + count):
            poke(y, s, peek(ws, s) * loss_deriv(0, parameter, peek(xs, s), peek(m, s)))
    elif code == 1:
        for s in range(at, at + count):
            poke(y, s, peek(ws, s) * loss_deriv(1, parameter, peek(xs, s), peek(m, s)))
    elif code == 3:
        for s in range(at, at + count):
            poke(y, s, peek(ws, s) * loss_deriv(3, parameter, peek(xs, s), peek(m, s)))
    else:
        for s in range(at, at + count):
            poke(y, s, peek(ws, s) * loss_deriv(code, parameter, peek(xs, s), peek(m, s)))
    if corrected:
        for s in range(at, at + count):
            zero = peek(ws, s) * loss_deriv(code, parameter, 0.0, peek(m, s))
            poke(y, s, peek(y, s) - zero)


@kernel
def objective_block(code, parameter, corrected, at, count, xs, ws, m):
    """Sum of weight * f(x, m) over a block, in the order of the samples."""
    total = 0.0
    for s in range(at, at + count):
        total += ws[s] * loss_value(code, parameter, xs[s], m[s])
    if corrected:
        for s in range(at, at + count):
            total -= ws[s] * loss_value(code, parameter, 0.0, m[s])
    return total


@kernel
def scatter_block(
    d,
    needed,  # (d,) int64, by place: 1 where the gradient is wanted; place 0 is the head
    at,
    count,
    stride,
    start,  # columns start .. stop are written
    stop,
    far,
    rows,
    head,
    data,
    y,
    head_gradient,  # (I_head * width,), added to
    gradient,  # like data, added to
):
    """Add a block's gradient: each wanted row gets slope * product of the other modes' rows."""
    n_needed = 0
    for k in range(d):
        n_needed += needed[k]
    if d == 2 and n_needed == 2:
        _scatter_2(
            at, count, stride, start, stop, far, rows, head, data, y, head_gradient, gradient
        )
    elif d == 3 and n_needed == 3:
        _scatter_3(
            at, count, stride, start, stop, far, rows, head, data, y, head_gradient, gradient
        )
    else:
        for k in range(d):
            if needed[k]:
                _scatter_one(
                    d,
                    k,
                    at,
                    count,
                    stride,
                    start,
                    stop,
                    rows,
                    head,
                    data,
                    y,
                    head_gradient,
                    gradient,
                )


@kernel
def _scatter_2(at, count, stride, start, stop, far, rows, head, data, y, head_gradient, gradient):
    for s in range(at, at + count):
        r0, r1 = peek(rows, s), peek(rows, stride + s)
        if far and s + AHEAD < at + count:
            _ask(gradient, peek(rows, stride + s + AHEAD) + start, stop - start)
        slope = fill(peek(y, s))
        for c in range(start, stop, LANES):
            a, b = load(head, r0 + c), load(data, r1 + c)
            store(head_gradient, r0 + c, multiply_add(slope, b, load(head_gradient, r0 + c)))
            store(gradient, r1 + c, multiply_add(slope, a, load(gradient, r1 + c)))


@kernel
def _scatter_3(at, count, stride, start, stop, far, rows, head, data, y, head_gradient, gradient):
    for s in range(at, at + count):
        r0, r1, r2 = peek(rows, s), peek(rows, stride + s), peek(rows, 2 * stride + s)
        if far and s + AHEAD < at + count:
            _ask(gradient, peek(rows, stride + s + AHEAD) + start, stop - start)
            _ask(gradient, peek(rows, 2 * stride + s + AHEAD) + start, stop - start)
        slope = fill(peek(y, s))
        for c in range(start, stop, LANES):
            a, b, e = load(head, r0 + c), load(data, r1 + c), load(data, r2 + c)
            slope_b, slope_a = multiply(slope, b), multiply(slope, a)
            store(head_gradient, r0 + c, multiply_add(slope_b, e, load(head_gradient, r0 + c)))
            store(gradient, r1 + c, multiply_add(slope_a, e, load(gradient, r1 + c)))
            store(gradient, r2 + c, multiply_add(slope_a, b, load(gradient, r2 + c)))


@kernel
def _scatter_one(
    d, place, at, count, stride, start, stop, rows, head, data, y, head_gradient, gradient
):
    for s in range(at, at + count):
        slope = fill(peek(y, s))
        r0 = peek(rows, s)
        for c in range(start, stop, LANES):
            product = slope
            for k in range(1, d):
                if k != place:
                    product = multiply(product, load(data, peek(rows, k * stride + s) + c))
            if place == 0:
                old = load(head_gradient, r0 + c)
                store(head_gradient, r0 + c, add(old, product))
            else:
                r = peek(rows, place * stride + s)
                old = load(gradient, r + c)
                store(gradient, r + c, multiply_add(product, load(head, r0 + c), old))
