"""One new component fitted to what a model leaves unexplained of a slice, with a weight.

Each way to look for it serves one kind of past; None says that nothing is left to explain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import fisher_sums
from onlinegcp.kernels.layout import Blocks, pad_vector, stack_factors
from onlinegcp.kernels.random import stream_key, uniform
from onlinegcp.losses import Loss, OddsForm
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto.cells import Cells, Weighted
from onlinegcp.solvers.auto.slice_products import slice_products

Array = NDArray[Any]
Seed = tuple[list[Array], float]

STEPS = 10
PURPOSE = 13


def seed_counts(factors: Blocks, cells: Cells, form: OddsForm, weights: Array) -> Seed | None:
    """Rank-one EM on the nonzeros against the fixed rest, from the excess over the model."""
    m = np.empty(cells.value.size)
    fisher_sums.model_values(factors.data, factors.offsets, cells.index, weights, m)
    share = np.maximum(cells.value - m, 0.0) if form.linear else cells.value / (1.0 + m)
    columns: list[Array] = []
    for step in range(STEPS + 1):
        size = float(share.sum())
        if not size > 0.0:
            return None
        columns = [
            np.bincount(cells.index[:, k], weights=share, minlength=n) / size
            for k, n in enumerate(factors.shape)
        ]
        if step < STEPS:
            own = size * np.prod([c[cells.index[:, k]] for k, c in enumerate(columns)], axis=0)
            share = cells.value * own / (m + own + 1e-300)
    return columns, float(share.sum())


def seed_residual(
    factors: Blocks, x: Slice, weights: Array, seed: int, number: int, *, bounded: bool
) -> Seed | None:
    """Leading rank-one term of the residual, by alternating products."""
    views, rank = factors.views(), factors.rank
    one = _random_columns(factors, seed, number, bounded=bounded)
    products = np.zeros_like(one.data)

    def fresh(k: int) -> Array:
        slice_products(x, one, k, products)
        inner = np.ones(rank)
        for j, other in enumerate(one.views()):
            if j != k:
                inner *= views[j].T @ other[:, 0]
        mine = products[one.offsets[k] : one.offsets[k + 1], 0]
        return np.asarray(mine - views[k] @ (weights[:rank] * inner))

    size = _alternate(one, fresh, bounded=bounded)
    return None if size is None else (_columns(one), size)


def seed_slopes(
    factors: Blocks,
    cells: Weighted,
    loss: Loss,
    weights: Array,
    seed: int,
    number: int,
    *,
    bounded: bool,
) -> Seed | None:
    """Rank-one direction of steepest descent of the loss, with a Newton step for its size."""
    m = np.empty(cells.value.size)
    fisher_sums.model_values(factors.data, factors.offsets, cells.index, weights, m)
    pull = -cells.weight * loss.deriv(cells.value, m)
    bend = cells.weight * np.maximum(loss.fisher(cells.value, m), 0.0)
    one = _random_columns(factors, seed, number, bounded=bounded)
    unit, slopes = pad_vector(np.ones(1)), np.zeros_like(one.data)

    def fresh(k: int) -> Array:
        fisher_sums.row_slopes(one.data, one.offsets, cells.index, unit, pull, slopes)
        return slopes[one.offsets[k] : one.offsets[k + 1], 0].copy()

    if _alternate(one, fresh, bounded=bounded) is None:
        return None
    z = np.empty(cells.value.size)
    fisher_sums.model_values(one.data, one.offsets, cells.index, unit, z)
    below = float(bend @ z**2)
    size = float(pull @ z) / below if below > 0.0 else 0.0
    return (_columns(one), size) if size > 0.0 else None


def _alternate(one: Blocks, fresh: Callable[[int], Array], *, bounded: bool) -> float | None:
    """Replace one mode after the other by what the others ask for; return the last length."""
    length = 0.0
    for _ in range(STEPS):
        for k, column in enumerate(one.views()):
            asked = fresh(k)
            if bounded:
                np.maximum(asked, 0.0, out=asked)
            length = float(np.sqrt(asked @ asked))
            if not length > 0.0:
                return None
            column[:, 0] = asked / length
    return length


def _random_columns(factors: Blocks, seed: int, number: int, *, bounded: bool) -> Blocks:
    draws = uniform(stream_key(seed, number, PURPOSE), int(factors.offsets[-1])) - 0.5
    columns = np.split(draws, factors.offsets[1:-1])
    one = stack_factors([(c / max(float(np.sqrt(c @ c)), 1e-300))[:, None] for c in columns])
    if bounded:
        np.abs(one.data, out=one.data)
    return one


def _columns(one: Blocks) -> list[Array]:
    return [column[:, 0].copy() for column in one.views()]
