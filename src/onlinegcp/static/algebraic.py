"""A start for least squares that alternating sweeps seldom leave in the wrong direction.

Random starts of signed data lose a pattern in one case out of four, and several of them all the
same one now and then. What two mixtures of the slices have in common needs no luck.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse
import scipy.sparse.linalg

from onlinegcp.entries import linear_index
from onlinegcp.slices import Slice

FloatArray = npt.NDArray[np.float64]

# Unfoldings with more rows than this get Lanczos vectors instead of a full eigendecomposition.
DENSE_EIGEN_ROWS = 2_000


def algebraic_start(x: Slice, rank: int, rng: np.random.Generator) -> list[FloatArray] | None:
    """Return the factors that two random mixtures of the tensor have in common, for least squares.

    Every mixture of slices along the third mode is A diag(c) B' with one c for each, so that the
    eigenvectors of one mixture times the inverse of another are the columns of A. Without noise
    that is the exact solution; with noise a start from which alternating sweeps seldom get lost,
    while one in four random starts does. None where the eigenvectors tell nothing: fewer
    than three modes, or more components than rows in the two longest ones.

    Parameters
    ----------
    x
        The tensor; missing cells count as zeros.
    rank
        Number of components.
    rng
        Source of the mixtures.

    References
    ----------
    S. E. Leurgans, R. T. Ross and R. B. Abel, A decomposition for three-way arrays, SIAM Journal on
    Matrix Analysis and Applications 1993.
    """
    order = sorted(range(x.ndim), key=lambda k: -x.shape[k])
    if x.ndim < 3 or x.shape[order[1]] < rank:
        return None
    first, second, rest = order[0], order[1], sorted(order[2:])
    bases = [_left_vectors(_unfold(x, k), rank, rng) for k in (first, second)]
    core = _core(x, (first, second), rest, bases)
    one, other = (core @ rng.standard_normal(core.shape[2]) for _ in range(2))
    try:
        columns = _real_vectors(one @ np.linalg.pinv(other))
        parts = np.einsum("rq,qsk->rks", np.linalg.pinv(columns), core)
        left, sizes, right = np.linalg.svd(parts, full_matrices=False)
    except np.linalg.LinAlgError:
        return None
    factors: list[FloatArray] = [np.empty(0)] * x.ndim
    factors[first] = bases[0] @ columns
    factors[second] = bases[1] @ right[:, 0, :].T
    lengths = [x.shape[k] for k in rest]
    for k in rest:
        factors[k] = np.empty((x.shape[k], rank))
    for r in range(rank):
        # What is left of a component in the other modes is one array; its leading vectors serve.
        block = (left[r, :, 0] * sizes[r, 0]).reshape(lengths)
        for at, k in enumerate(rest):
            flat = np.moveaxis(block, at, 0).reshape(lengths[at], -1)
            vectors, strength, _ = np.linalg.svd(flat, full_matrices=False)
            factors[k][:, r] = vectors[:, 0] * (strength[0] if at == 0 else 1.0)
    return factors


def _core(
    x: Slice, pair: tuple[int, int], rest: Sequence[int], bases: Sequence[FloatArray]
) -> FloatArray:
    """The tensor in the coordinates of two bases, the other modes as one: (R, R, cells)."""
    cells = math.prod(x.shape[k] for k in rest)
    rank = bases[0].shape[1]
    if x.array is not None:
        moved = np.moveaxis(x.array, pair, (0, 1)).reshape(*(x.shape[k] for k in pair), cells)
        half = np.tensordot(bases[0].T, moved, axes=1)
        return np.asarray(np.einsum("rjk,js->rsk", half, bases[1]))
    at = linear_index(x.index[:, rest], [x.shape[k] for k in rest])
    core = np.zeros((rank, rank, cells))
    sides = [base[x.index[:, k]] for base, k in zip(bases, pair, strict=True)]
    for r in range(rank):
        for s in range(rank):
            shares = x.value * sides[0][:, r] * sides[1][:, s]
            core[r, s] = np.bincount(at, weights=shares, minlength=cells)
    return core


def _real_vectors(matrix: FloatArray) -> FloatArray:
    """Eigenvectors as real columns: a conjugate pair gives its real and its imaginary part."""
    values, vectors = np.linalg.eig(matrix)
    real = vectors.real.copy()
    # Pairs come one after the other, the one with the positive imaginary part first.
    second = values.imag < 0.0
    real[:, second] = -vectors.imag[:, second]
    return np.asarray(real)


def _unfold(x: Slice, mode: int) -> scipy.sparse.csr_array | FloatArray:
    if x.array is not None:
        return np.moveaxis(x.array, mode, 0).reshape(x.shape[mode], -1)
    others = [k for k in range(x.ndim) if k != mode]
    column = linear_index(x.index[:, others], [x.shape[k] for k in others])
    # Columns without a listed cell would only cost memory: number the used ones.
    used, column = np.unique(column, return_inverse=True)
    shape = (x.shape[mode], max(1, used.size))
    return scipy.sparse.csr_array((x.value, (x.index[:, mode], column)), shape=shape)


def _left_vectors(
    unfolding: scipy.sparse.csr_array | FloatArray, count: int, rng: np.random.Generator
) -> FloatArray:
    n = unfolding.shape[0]
    if n <= DENSE_EIGEN_ROWS or count >= n:
        gram = unfolding @ unfolding.T
        dense = gram if isinstance(gram, np.ndarray) else gram.toarray()
        vectors = np.linalg.eigh(dense)[1][:, ::-1][:, :count]
    else:
        product = scipy.sparse.linalg.LinearOperator(
            (n, n), matvec=lambda v: unfolding @ (unfolding.T @ v), dtype=np.float64
        )
        values, vectors = scipy.sparse.linalg.eigsh(product, k=count, v0=rng.standard_normal((n,)))
        vectors = vectors[:, np.argsort(values)[::-1]]
    # A singular vector's sign is arbitrary and differs between BLAS builds; make its largest
    # entry positive so that a seed means the same start everywhere.
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return np.asarray(vectors * np.where(largest < 0.0, -1.0, 1.0), dtype=np.float64)
