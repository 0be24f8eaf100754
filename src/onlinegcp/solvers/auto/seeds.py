"""One new component fitted to what a model leaves unexplained of a slice, with a weight.

Each way to look for it serves one kind of past; None says that nothing is left to explain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import fisher_sums
from onlinegcp.kernels.auto.new_component import new_shares, row_sums
from onlinegcp.kernels.layout import Blocks, stack_factors
from onlinegcp.kernels.random import uniform
from onlinegcp.losses import OddsForm
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto.cells import Cells
from onlinegcp.solvers.auto.fisher_sums import FisherSums
from onlinegcp.solvers.auto.slice_products import SliceProducts

Array = NDArray[Any]
Seed = tuple[list[Array], float]

STEPS = 10  # towards one pattern, which its trial moves on from


def seed_counts(factors: Blocks, cells: Cells, form: OddsForm, weights: Array) -> Seed | None:
    """Rank-one EM on the nonzeros against the fixed rest, from the excess over the model."""
    m = np.empty(cells.value.size)
    fisher_sums.model_values(factors.data, factors.offsets, cells.index, weights, m)
    share = np.maximum(cells.value - m, 0.0) if form.linear else cells.value / (1.0 + m)
    columns = np.empty(int(factors.offsets[-1]))
    for step in range(STEPS + 1):
        size = float(share.sum())
        if not size > 0.0:
            return None
        row_sums(cells.index, share, factors.offsets, columns)
        columns /= size
        if step < STEPS:
            new_shares(cells.index, cells.value, m, columns, factors.offsets, size, share)
    return np.split(columns, factors.offsets[1:-1]), float(share.sum())


def seed_residual(
    factors: Blocks, x: Slice, weights: Array, key: int, *, bounded: bool
) -> Seed | None:
    """Leading rank-one term of the residual of a complete slice."""
    views, rank = factors.views(), factors.rank
    one = stack_factors([c[:, None] for c in _random_columns(factors, key)])
    if bounded:
        np.abs(one.data, out=one.data)
    columns, products = [view[:, 0] for view in one.views()], np.zeros_like(one.data)
    times = SliceProducts(x, one.width)

    def asked(k: int) -> Array:
        times(one, k, products)
        inner = np.ones(rank)
        for j, other in enumerate(columns):
            if j != k:
                inner *= views[j].T @ other
        mine = products[one.offsets[k] : one.offsets[k + 1], 0]
        return np.asarray(mine - views[k] @ (weights[:rank] * inner))

    length = _alternate(columns, asked, bounded=bounded)
    return None if length is None else ([c.copy() for c in columns], length)


def seed_slopes(sums: FisherSums, weights: Array, key: int, *, bounded: bool) -> Seed | None:
    """Rank-one direction of steepest descent of the loss, with a Newton step for its size."""
    slopes, bend = sums.slopes(weights)
    columns = leading_pattern(sums.factors, sums.cells.index, -slopes, key, bounded=bounded)
    if columns is None:
        return None
    z = at_cells(columns, sums.cells.index)
    below = float(bend @ z**2)
    size = -float(slopes @ z) / below if below > 0.0 else 0.0
    return (columns, size) if size > 0.0 else None


def leading_pattern(
    factors: Blocks, index: NDArray[np.int32], pull: Array, key: int, *, bounded: bool
) -> list[Array] | None:
    """Columns of unit length whose product is most like what cells pull towards."""
    columns = _random_columns(factors, key)
    if bounded:
        columns = [np.abs(c) for c in columns]

    def asked(k: int) -> Array:
        others = [c if j != k else np.ones_like(c) for j, c in enumerate(columns)]
        rest = pull * at_cells(others, index)
        return np.bincount(index[:, k], weights=rest, minlength=len(columns[k]))

    return None if _alternate(columns, asked, bounded=bounded) is None else columns


def at_cells(columns: list[Array], index: NDArray[np.int32]) -> Array:
    """The rank-one pattern of these columns in some cells."""
    return np.asarray(np.prod([c[index[:, k]] for k, c in enumerate(columns)], axis=0))


def _alternate(
    columns: list[Array], asked: Callable[[int], Array], *, bounded: bool
) -> float | None:
    """Replace one column after the other by what the rest asks for, scaled to length one.

    Returns the length of the last one before that, None if nothing is asked for.
    """
    length = 0.0
    for _ in range(STEPS):
        for k, column in enumerate(columns):
            fresh = asked(k)
            if bounded:
                fresh = np.maximum(fresh, 0.0)
            length = float(np.sqrt(fresh @ fresh))
            if not length > 0.0:
                return None
            column[:] = fresh / length
    return length


def _random_columns(factors: Blocks, key: int) -> list[Array]:
    draws = uniform(key, int(factors.offsets[-1])) - 0.5
    columns = np.split(draws, factors.offsets[1:-1])
    return [c / max(float(np.sqrt(c @ c)), 1e-300) for c in columns]
