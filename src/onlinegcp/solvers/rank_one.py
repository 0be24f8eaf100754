"""Tensors of rank one near given ones: how subspace trackers get factors from their basis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.tracking.columns import lines_of, sweep, to_columns, to_factors

FloatArray: TypeAlias = NDArray[np.float64]


def khatri_rao(factors: Sequence[FloatArray]) -> FloatArray:
    """Every component multiplied out: (R, cells), cells in C order.

    Examples
    --------
    >>> khatri_rao([np.array([[1.0], [2.0]]), np.array([[1.0], [10.0]])])
    array([[ 1., 10.,  2., 20.]])
    """
    product = factors[0].T
    for a in factors[1:]:
        product = (product[:, :, None] * a.T[:, None, :]).reshape(len(product), -1)
    return np.ascontiguousarray(product)


def power_sweep(basis: FloatArray, factors: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
    """One sweep of the higher-order power method on every component, last mode first.

    With two modes it is the bi-iteration of Nion and Sidiropoulos. The last mode carries the
    scale, all others have unit columns.

    Parameters
    ----------
    basis
        Tensors to approximate, one per row (R, cells), cells in C order.
    factors
        Where to start, one matrix (I_k, R) per mode; their scale does not matter.
    """
    columns, offsets = to_columns(factors)
    new = np.empty_like(columns)
    lines = lines_of(offsets, 0, len(factors) - 1)
    sweep(np.ascontiguousarray(basis), columns, offsets, lines, new)
    return to_factors(new, offsets)
