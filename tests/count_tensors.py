"""Sparse counts and factors whose columns sum to one, for the kernels of Poisson models."""

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.layout import stack_factors


def counts(shape, density, seed=0):
    """Where the counts of a tensor are that has some in this share of its cells, and they."""
    rng = np.random.default_rng(seed)
    array = rng.poisson(3.0, shape) * (rng.random(shape) < density)
    index = np.ascontiguousarray(np.argwhere(array), dtype=np.int32)
    return index, array[tuple(index.T)].astype(float)


def shares(shape, rank, seed=1):
    rng = np.random.default_rng(seed)
    factors = [rng.gamma(0.5, size=(n, rank)) + 1e-3 for n in shape]
    return [a / a.sum(axis=0) for a in factors]


def padded(rows):
    return stack_factors([rows]).data
