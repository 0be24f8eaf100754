"""Tensors of rank one near given ones: how subspace trackers get factors from their basis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

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
    rank = len(basis)
    tensors = basis.reshape(rank, *(len(a) for a in factors))
    vectors = [_unit(a) for a in factors]
    last = len(vectors) - 1
    for mode in range(last, -1, -1):
        new = _contract(tensors, vectors, mode)
        vectors[mode] = new if mode == last else _unit(new)
    return tuple(vectors)


def _contract(tensors: FloatArray, vectors: Sequence[FloatArray], keep: int) -> FloatArray:
    """Each tensor times the vectors of all modes but one: (I_keep, R)."""
    rank = len(tensors)
    for a in reversed(vectors[keep + 1 :]):
        tensors = (tensors.reshape(rank, -1, len(a)) @ a.T[:, :, None])[..., 0]
    for a in vectors[:keep]:
        tensors = (a.T[:, None, :] @ tensors.reshape(rank, len(a), -1))[:, 0]
    return np.ascontiguousarray(tensors.reshape(rank, -1).T)


def _unit(a: FloatArray) -> FloatArray:
    norms = np.linalg.norm(a, axis=0)
    # A component that vanished keeps its zero column.
    return a / np.where(norms > 0.0, norms, 1.0)
