"""Matricised tensor times Khatri-Rao product (MTTKRP), sparse and dense.

For mode k the product is out[i, r] = sum over the cells with i_k = i of
x * prod over the other modes j of A_j[i_j, r]. It is the right-hand side of every alternating
least-squares step and, for a tensor of slopes, the gradient of a CP model.

Sparse tensors are summed fibre by fibre (`fibres.py`); dense ones are contracted half by
half with matrix products, so that no Khatri-Rao matrix longer than half the modes is formed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import Blocks
from onlinegcp.kernels.static.fibres import RowGroups, fibre_sums


def mttkrp(groups: RowGroups, blocks: Blocks, *, n_jobs: int = 1) -> NDArray[Any]:
    """Return the MTTKRP of a sparse tensor in one mode: (I_k, R), padded rows underneath.

    Parameters
    ----------
    groups
        The tensor's cells, grouped by the rows of the mode.
    blocks
        All factor matrices; that of the mode itself is not read.
    n_jobs
        Threads; the result is the same, bit for bit, for any number.
    """
    if len(groups.others) == 0:
        # The product over no other mode is one: row i is the value of cell i in every column.
        out = np.zeros((groups.n_rows, blocks.rank))
        out[np.flatnonzero(np.diff(groups.starts))] = groups.value[:, None]
        return out
    return fibre_sums(groups, blocks, n_jobs=n_jobs)[:, : blocks.rank]


def half_of(shape: Sequence[int]) -> int:
    """Number of leading modes to keep together, so that neither half has many cells.

    Examples
    --------
    >>> half_of((300, 300, 200)), half_of((24, 77, 32, 500)), half_of((9,))
    (1, 2, 1)
    """
    splits = range(1, len(shape)) or [1]
    return min(splits, key=lambda s: max(math.prod(shape[:s]), math.prod(shape[s:])))


def contract_half(
    array: NDArray[Any], factors: Sequence[NDArray[Any]], split: int, *, keep: str
) -> NDArray[Any]:
    """Contract a dense tensor with the factors of one half of its modes.

    One matrix product with the whole tensor serves every mode of the half that is kept, as long
    as the factors of the other half do not change.

    Parameters
    ----------
    array
        The tensor, C-contiguous.
    factors
        One (I_k, R) matrix per mode; those of the kept half are not read.
    split
        The first half is the modes before this one.
    keep
        "first" or "last": the half whose modes remain. The result has their lengths, then R.
    """
    rank = factors[0].shape[1]
    matrix = array.reshape(math.prod(array.shape[:split]), -1)
    if keep == "first":
        kept, product = array.shape[:split], matrix @ khatri_rao(factors[split:], rank)
    else:
        kept, product = array.shape[split:], matrix.T @ khatri_rao(factors[:split], rank)
    return np.reshape(product, (*kept, rank))


def finish_half(half: NDArray[Any], factors: Sequence[NDArray[Any]], position: int) -> NDArray[Any]:
    """Contract what `contract_half` left with the half's own factors, all but one.

    Parameters
    ----------
    half
        Array (lengths of the half's modes, R).
    factors
        The factors of these modes.
    position
        Which of them is left out.
    """
    rank = half.shape[-1]
    kept = half.shape[position]
    rest = half
    for j in reversed(range(len(factors))):
        if j != position:
            # Modes after j are gone by now, all but the one that is left out.
            after = kept if position > j else 1
            rest = rest.reshape(-1, len(factors[j]), after, rank)
            rest = np.einsum("pjqr,jr->pqr", rest, factors[j])
    return rest.reshape(kept, rank)


def dense_mttkrp(array: NDArray[Any], factors: Sequence[NDArray[Any]], mode: int) -> NDArray[Any]:
    """Return the MTTKRP of a dense tensor in one mode: (I_k, R)."""
    split = half_of(array.shape)
    if mode < split:
        half = contract_half(array, factors, split, keep="first")
        return finish_half(half, factors[:split], mode)
    half = contract_half(array, factors, split, keep="last")
    return finish_half(half, factors[split:], mode - split)


def khatri_rao(factors: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
    """Return the column-wise Kronecker product in C order, a row of ones for no factors."""
    product = np.ones((1, rank))
    for factor in factors:
        product = (product[:, None, :] * factor[None, :, :]).reshape(-1, rank)
    return product
