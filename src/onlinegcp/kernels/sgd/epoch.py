"""Compiled iterations of stochastic gradient descent, and the phases they consist of.

One iteration is: head times weights; draw, model value, slope and scatter, block by block; Gram
matrices of the history; then, panel by panel, history gradient and step. The phases are separate
functions over ranges of samples, columns or rows so that `onlinegcp.kernels.sgd.threads` can share
them out; no result depends on how the ranges are cut.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import numpy as np

from onlinegcp.kernels import random
from onlinegcp.kernels.jit import kernel
from onlinegcp.kernels.layout import LANES
from onlinegcp.kernels.sgd.draws import draw_block
from onlinegcp.kernels.sgd.gradient import (
    BLOCK,
    model_block,
    objective_block,
    scatter_block,
    slope_block,
)
from onlinegcp.kernels.sgd.history import PANEL, add_product, fold_grams, gram
from onlinegcp.kernels.sgd.membership import mix64
from onlinegcp.kernels.sgd.plan import ADAM, AMSGRAD
from onlinegcp.kernels.sgd.step import step_rows
from onlinegcp.kernels.simd import fill, load, multiply, multiply_add, store

GOLDEN = random.GOLDEN

# Typed numbers: a literal argument would make Numba compile the callee once more for that value.
NONE, ONE, FULL = np.int64(0), np.int64(1), np.int64(BLOCK)


@kernel
def key_of_iteration(key, iteration):
    """Key of one iteration of a stream; `random.iteration_key_int` compiled."""
    return mix64(key + GOLDEN * (np.uint64(iteration) + np.uint64(1)))


@kernel
def fill_head(offset, first, last, width, data, weights, head):
    """Set rows first .. last - 1 of `head` to the head mode's rows times the weights."""
    for i in range(first, last):
        for c in range(0, width, LANES):
            store(
                head,
                i * width + c,
                multiply(load(data, (offset + i) * width + c), load(weights, c)),
            )


@kernel
def finish_head(
    offset, length, width, start, stop, data, weights, head_gradient, gradient, weights_gradient
):
    """Turn the head's collected sums into its gradient and that of the weights; clear the sums.

    Only for columns from start to stop.
    """
    zero = fill(0.0)
    for c in range(start, stop, LANES):
        total = zero
        weight = load(weights, c)
        for i in range(length):
            e = (offset + i) * width + c
            raw = load(head_gradient, i * width + c)
            total = multiply_add(load(data, e), raw, total)
            store(gradient, e, multiply(weight, raw))
            store(head_gradient, i * width + c, zero)
        store(weights_gradient, c, total)


@kernel
def slopes(stratum, weight, key, first, count, at, stride, width, sampling, head, data, samples):
    """Draw samples of one stratum and write their rows and slopes, from position `at` on."""
    rows, xs, ws, m = samples.rows, samples.xs, samples.ws, samples.m
    draw_block(stratum, weight, key, first, count, sampling.cells, width, at, stride, rows, xs, ws)
    d = len(sampling.cells.shape)
    model_block(d, at, count, stride, width, sampling.far, rows, head, data, m)
    slope_block(sampling.code, sampling.parameter, stratum[3], at, count, xs, ws, m, samples.y)


@kernel
def sampled_objective(key, width, sampling, head, data, samples):
    """Sum of weight * f(x, m) over a sample: block by block, blocks added in order."""
    strata, code, parameter = sampling.strata, sampling.code, sampling.parameter
    rows, xs, ws, m = samples.rows, samples.xs, samples.ws, samples.m
    d = len(sampling.cells.shape)
    total = 0.0
    for t in range(len(strata)):
        for first in range(NONE, strata[t, 1], FULL):
            count = min(FULL, strata[t, 1] - first)
            draw_block(
                strata[t], sampling.weights[t], key, first, count, sampling.cells, width, NONE,
                FULL, rows, xs, ws,
            )  # fmt: skip
            model_block(d, NONE, count, FULL, width, sampling.far, rows, head, data, m)
            total += objective_block(code, parameter, strata[t, 3], NONE, count, xs, ws, m)
    return total


@kernel
def mode_grams(mode, offsets, width, data, old, grams, crosses):
    """Write A'A (right of its diagonal) and old'A of a mode into `grams` and `crosses`."""
    n = width * width
    first, last = offsets[mode], offsets[mode + 1]
    gram(first, last, width, data, data, ONE, NONE, width, grams[mode * n : (mode + 1) * n])
    gram(first, last, width, old, data, NONE, NONE, width, crosses[mode * n : (mode + 1) * n])


@kernel
def update_rows(first, last, rate, anchor, modes, rule, past, moved, B, C):
    """Add the history's gradient to rows first .. last - 1 and step them, a panel at a time."""
    steps, data, old, width = rule.steps, moved.data, past.old, modes.width
    for panel in range(first, last, PANEL):
        end = min(panel + PANEL, last)
        if past.counts:
            add_product(panel, end, modes.rank, width, data, B, old, C, moved.gradient)
        step_rows(
            rule.kind, panel, end, width, rate, steps[1], steps[2], steps[3], rule.ridge, anchor,
            rule.floor, data, old, moved.gradient, moved.u, moved.v, moved.largest,
        )  # fmt: skip


@kernel
def step_weights(rate, modes, rule, moved):
    """Step the weights, which are one row."""
    steps, weights = rule.steps, moved.weights
    step_rows(
        rule.kind, NONE, ONE, modes.width, rate, steps[1], steps[2], steps[3], rule.weight_ridge,
        0.0, rule.floor, weights, weights, moved.weights_gradient, moved.weights_u,
        moved.weights_v, moved.weights_largest,
    )  # fmt: skip


@kernel
def corrected_rate(kind, rate, beta_1, beta_2, number):
    """Rate of Adam's step `number` = 1, 2, ... (errata row 3); the plain rate for the others."""
    if kind in (ADAM, AMSGRAD):
        return rate * np.sqrt(1.0 - beta_2**number) / (1.0 - beta_1**number)
    return rate


@kernel
def run_epoch(
    iterations,  # how many
    first_iteration,  # number of the first, for the draws
    taken,  # steps taken before, for the bias correction
    key,
    sampling,
    modes,
    rule,
    past,
    moved,
    matrices,
    samples,  # of one block
):
    """Run SGD iterations in place: the solver's inner loop, on one thread."""
    strata, width, offsets, update = sampling.strata, modes.width, modes.offsets, modes.update
    data, weights, head, gradient = moved.data, moved.weights, moved.head, moved.gradient
    grams, crosses, steps = matrices.grams, matrices.crosses, rule.steps
    d = len(sampling.cells.shape)
    n = width * width
    offset, length = offsets[modes.head], sampling.cells.shape[modes.head]
    for j in range(iterations):
        draw_key = key_of_iteration(key, first_iteration + j)
        fill_head(offset, NONE, length, width, data, weights, head)
        for t in range(len(strata)):
            for first in range(NONE, strata[t, 1], FULL):
                count = min(FULL, strata[t, 1] - first)
                slopes(
                    strata[t], sampling.weights[t], draw_key, first, count, NONE, FULL, width,
                    sampling, head, data, samples,
                )  # fmt: skip
                scatter_block(
                    d, modes.needed, NONE, count, FULL, NONE, width, sampling.far, samples.rows,
                    head, data, samples.y, moved.head_gradient, gradient,
                )  # fmt: skip
        finish_head(
            offset, length, width, NONE, width, data, weights, moved.head_gradient, gradient,
            moved.weights_gradient,
        )  # fmt: skip
        rate = corrected_rate(rule.kind, steps[0], steps[1], steps[2], taken + j + 1)
        if update[d]:
            step_weights(rate, modes, rule, moved)
        if past.counts:
            # Modes that are not updated keep their Gram matrices from the first iteration.
            for k in range(d):
                if j == 0 or update[k]:
                    mode_grams(k, offsets, width, data, past.old, grams, crosses)
            for k in range(d):
                if update[k]:
                    B, C = matrices.B[k * n : (k + 1) * n], matrices.C[k * n : (k + 1) * n]
                    fold_grams(d, k, width, past.S, grams, crosses, B, C)
        for k in range(d):
            if update[k]:
                update_rows(
                    offsets[k], offsets[k + 1], rate, rule.anchors[k], modes, rule, past, moved,
                    matrices.B[k * n : (k + 1) * n], matrices.C[k * n : (k + 1) * n],
                )  # fmt: skip
