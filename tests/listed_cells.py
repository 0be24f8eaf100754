"""Listed cells of a small problem, as the kernels of the default solver take them."""

from __future__ import annotations

import numpy as np

from onlinegcp.kernels.auto.arguments import Listed


def problem(shape, rank=5, count=23, seed=0):
    """Factors, places and values of cells, and weights."""
    rng = np.random.default_rng(seed)
    factors = [rng.random((n, rank)) + 0.05 for n in shape]
    index = np.stack([rng.integers(0, n, count) for n in shape], axis=1).astype(np.int32)
    return factors, index, rng.poisson(3.0, count) + 1.0, rng.random(rank) + 0.1


def listed(blocks, index, value):
    """The same in one argument."""
    return Listed(blocks.data, blocks.offsets, index, value)
