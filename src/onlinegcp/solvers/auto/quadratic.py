"""Least squares: exact weights, and factors with the folded history of past weights.

The history sum_h |old model - new model|^2 depends on the past through the R x R matrix S of
summed s s' only, so each mode solves one R x R system for all rows. With complete slices and a
fixed forgetting this is CP-Stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import dense_products, responsibilities
from onlinegcp.kernels.layout import Blocks
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import forgetting
from onlinegcp.solvers.auto.forgetting import Forgetting
from onlinegcp.solvers.auto.nonnegative import solve_free, solve_positive, solve_rows, solve_vector

Array = NDArray[Any]

RIDGE = 1e-10
WEIGHT_RIDGE = 1e-12
VARIANCE_STEP = 0.05


@dataclass
class SquareHistory:
    """What the least-squares solver remembers besides the factors.

    Attributes
    ----------
    products
        S, the forgotten sum of s s' over past slices (R, R).
    sensitivity
        Derivative of the factors with respect to the log-memory (rows, width).
    variance
        Running mean of the squared residual per cell, the unit in which slopes are measured.
    slope
        Half the slope that the bound held back in past slices (rows, width); without a bound
        there is none and the array is empty. It keeps noise from lifting entries off zero.
    """

    products: Array
    sensitivity: Array
    variance: float
    slope: Array


def slice_products(x: Slice, factors: Blocks, mode: int, out: Array) -> None:
    """Set `out` to the slice times the rows of all modes but one (-1: for every mode)."""
    if x.array is not None:
        dense_products.dense_products(x.array, factors.data, factors.offsets, mode, out)
        return
    first = 0 if mode < 0 else factors.offsets[mode]
    last = factors.offsets[-1] if mode < 0 else factors.offsets[mode + 1]
    out[first:last] = 0.0
    ones, z = np.ones(factors.width), np.zeros(factors.width)
    responsibilities.listed_rates(
        factors.data, factors.offsets, x.index, x.value, ones, True, 0.0, 1.0, mode, out, z
    )


def grams(factors: Blocks) -> list[Array]:
    """A'A of every mode."""
    return [view.T @ view for view in factors.views()]


def solve_weights(gram: Array, right: Array, *, bounded: bool = False) -> Array:
    """Minimise s' gram s - 2 right' s, over s >= 0 where asked.

    Parameters
    ----------
    gram
        Z'Z (R, R).
    right
        Z'x (R,).
    bounded
        Solve over s >= 0, by active sets with exact zeros.
    """
    rank = len(right)
    ridge = WEIGHT_RIDGE * max(float(np.trace(gram)) / rank, 1e-300)
    ridged = gram + ridge * np.eye(rank)
    return solve_vector(ridged, right) if bounded else solve_positive(ridged, right)


def step(
    factors: Blocks,
    x: Slice,
    history: SquareHistory,
    memory: Forgetting,
    cap: float,
    share: float = 1.0,
    *,
    bounded: bool = False,
) -> tuple[Array, float, float, Array]:
    """Score one slice, then absorb it.

    Parameters
    ----------
    factors
        Updated in place; columns have unit length before and after.
    x
        A slice without missing cells.
    history, memory
        Updated in place.
    cap
        The schedule's forgetting factor for this slice.
    share
        Weight of the slice in the factors.
    bounded
        Keep factors and weights at or above zero.

    Returns
    -------
    Weights after the update, loss before and after it, and the forgetting factors.
    """
    views, rank = factors.views(), factors.rank
    old = [view.copy() for view in views]
    products = np.zeros_like(factors.data)
    slice_products(x, factors, -1 if memory.learned else 0, products)
    right = np.einsum("ir,ir->r", _rows(factors, products, 0), views[0])
    gram = grams(factors)
    everything = np.prod(gram, axis=0)
    weights = solve_weights(everything, right, bounded=bounded)
    square = x.norm_squared
    before = square - 2.0 * float(weights @ right) + float(weights @ everything @ weights)
    if memory.learned:
        _learn(factors, history, memory, weights, gram, products, cap, share)
        history.variance += VARIANCE_STEP * (before / x.size - history.variance)
    lam_of, lift_of = forgetting.factors(memory, cap)
    lam, lift = float(lam_of[0]), float(lift_of[0])

    prior = lam * history.products
    outer = share * np.outer(weights, weights)
    scale, lengths = np.ones(rank), []
    crossed = [g.copy() for g in gram]  # old'new of every mode
    for k, view in enumerate(views):
        if k > 0:
            slice_products(x, factors, k, products)
        others = _product_without(gram, k)
        system = (prior + outer) * others
        kept = prior * _product_without(crossed, k)
        target = _rows(factors, products, k) * (share * weights) + old[k] @ kept
        ridge = RIDGE * max(float(np.trace(system)) / rank, 1e-300)
        system = system + ridge * np.eye(rank)
        target += ridge * old[k]
        if bounded:
            held = _rows(factors, history.slope, k)
            target -= lam * held
            new = solve_rows(system, target, old[k])
            held[...] = np.where(new > 0.0, 0.0, np.maximum(new @ system - target, 0.0))
        else:
            new = solve_positive(system, target.T).T
        if memory.learned:
            change = _rows(factors, history.sensitivity, k) + lift * (old[k] - new)
            moved = change @ (prior * others)
            # Entries held at zero do not follow the memory.
            _rows(factors, history.sensitivity, k)[...] = (
                solve_free(system, moved, new > 0.0)
                if bounded
                else solve_positive(system, moved.T).T
            )
        view[...] = new
        gram[k], crossed[k] = new.T @ new, old[k].T @ new
    for k, view in enumerate(views):
        length = np.sqrt(np.diag(gram[k]))
        if bounded and not length.all():
            # A column of zeros could never come back: the pattern stays, its weight will be zero.
            lost = length <= 0.0
            view[:, lost] = old[k][:, lost]
            _rows(factors, history.slope, k)[:, lost] = 0.0
            gram[k] = view.T @ view
            length[lost] = 1.0
        length = np.where(length > 0.0, length, 1.0)
        view /= length
        slopes = _rows(factors, history.sensitivity, k)
        slopes /= length
        # The part along the column only changes its length, which the weights absorb.
        slopes -= view * np.einsum("ir,ir->r", view, slopes)
        if bounded:
            _rows(factors, history.slope, k)[...] *= length
        gram[k] /= np.outer(length, length)
        scale *= length
        lengths.append(length)

    if memory.learned:
        mass, fresh = float(np.trace(prior)), float(np.trace(outer))
        memory.lift[:] = lift * mass / max(mass + fresh, 1e-300)
    # The last mode's product was made with the new, not yet normalised, rows of the others.
    last = len(views) - 1
    ending = _rows(factors, products, last) * (lengths[last] / scale)
    right = np.einsum("ir,ir->r", ending, views[last])
    everything = np.prod(gram, axis=0)
    weights = solve_weights(everything, right, bounded=bounded)
    after = square - 2.0 * float(weights @ right) + float(weights @ everything @ weights)
    history.products = prior * np.outer(scale, scale) + share * np.outer(weights, weights)
    return weights, before, after, lam_of


def _learn(
    factors: Blocks,
    history: SquareHistory,
    memory: Forgetting,
    weights: Array,
    gram: list[Array],
    products: Array,
    cap: float,
    share: float,
) -> None:
    """Move the common memory by the slope of the squared error, in units of its variance."""
    views = factors.views()
    slopes = [_rows(factors, history.sensitivity, k) for k in range(factors.ndim)]
    outer = np.outer(weights, weights)
    slope = 0.0
    for k, view in enumerate(views):
        gradient = view @ (outer * _product_without(gram, k)) - (
            _rows(factors, products, k) * weights
        )
        slope += float(np.einsum("ir,ir->", gradient, slopes[k]))
    # |dM / d eta|^2 from R x R matrices: the change of mode k against the change of mode l.
    mixed = [view.T @ change for view, change in zip(views, slopes, strict=True)]
    bend = 0.0
    for k in range(factors.ndim):
        bend += float((outer * _product_without(gram, k) * (slopes[k].T @ slopes[k])).sum())
        for l in range(k):
            rest = np.prod([g for j, g in enumerate(gram) if j not in (k, l)], axis=0)
            bend += 2.0 * float((outer * rest * mixed[k].T * mixed[l]).sum())
    variance = max(history.variance, 1e-300) / share
    per_component = np.zeros_like(memory.own)
    per_component[0] = slope / variance
    forgetting.learn(memory, per_component, np.zeros_like(memory.own), bend / variance, cap)
    # One matrix S serves all components, so only the common memory is learned.
    memory.own[:] = 0.0


def _rows(factors: Blocks, stacked: Array, k: int) -> Array:
    return stacked[factors.offsets[k] : factors.offsets[k + 1], : factors.rank]


def _product_without(matrices: list[Array], k: int) -> Array:
    rest = [g for j, g in enumerate(matrices) if j != k]
    return np.asarray(np.prod(rest, axis=0)) if rest else np.ones_like(matrices[0])
