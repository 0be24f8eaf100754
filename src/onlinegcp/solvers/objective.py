"""The loss of a slice under a model: exact where that is affordable, estimated where it is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.kernels import random
from onlinegcp.kernels.exact import exact_objective
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice

# Beyond this many cells a loss whose zeros have no closed form is estimated from a sample.
EXACT_CELLS = 20_000_000
SAMPLE_BLOCK = 10_000  # rows of a temporary that still fits in cache
SAMPLE_BLOCKS = 50


def is_affordable(x: Slice, loss: Loss) -> bool:
    """Whether every cell of the slice can be counted."""
    return (
        x.n_unlisted_zeros == 0
        or loss.zero_shape in ("linear", "quadratic")
        or x.size <= EXACT_CELLS
    )


def least_loss(x: Slice, loss: Loss) -> float:
    """The least loss any model could have on a slice: each cell explained as well as can be."""
    if loss.minimum is None:
        raise DataError(
            f"The least loss of a slice needs the smallest value of f(x, .), but the loss "
            f"{loss.name!r} has none. Pass minimum=... when you build it."
        )
    least = float(loss.minimum(x.value).sum())
    if x.n_unlisted_zeros:
        least += x.n_unlisted_zeros * float(loss.minimum(np.zeros(1))[0])
    return least


def log_sum(
    x: Slice,
    factors: Sequence[NDArray[np.float64]],
    weights: NDArray[np.float64],
    floor: float,
) -> float:
    """Sum of x log max(m, floor) over the listed cells of a slice."""
    products = factors[0].take(x.index[:, 0], axis=0)
    for k, factor in enumerate(factors[1:], 1):
        products *= factor.take(x.index[:, k], axis=0)
    return float(x.value @ np.log(np.maximum(products @ weights, floor)))


def slice_loss(
    x: Slice,
    factors: Sequence[NDArray[np.float64]],
    weights: NDArray[np.float64],
    loss: Loss,
    *,
    seed: int = 0,
) -> float:
    """Sum of the loss over every observed cell of a slice.

    Parameters
    ----------
    x
        The slice.
    factors, weights
        The model of the slice.
    loss
        The loss.
    seed
        Seed of the sample of zeros, used only for slices too large to count.
    """
    if is_affordable(x, loss):
        return exact_objective(x, factors, weights, loss)
    # Sum of f(0, m) over all cells from uniform draws; the listed cells are put right exactly.
    key = np.uint64(random.stream_key(seed, x.n_listed, random.SCORED_ZEROS))
    total = 0.0
    for block in range(SAMPLE_BLOCKS):
        samples = np.arange(block * SAMPLE_BLOCK, (block + 1) * SAMPLE_BLOCK, dtype=np.uint64)
        products = np.broadcast_to(weights, (SAMPLE_BLOCK, len(weights)))
        for k, factor in enumerate(factors):
            bits = random.word(key, samples, np.uint64(k))
            products = products * factor[random.multiply_high(bits, np.uint64(len(factor)))]
        total += float(np.sum(loss.value(np.zeros(SAMPLE_BLOCK), products.sum(axis=1))))
    as_data = Slice(x.index, x.value, x.shape, unlisted="missing")
    as_zeros = Slice(x.index, np.zeros(x.n_listed), x.shape, unlisted="missing")
    return (
        x.size * total / (SAMPLE_BLOCK * SAMPLE_BLOCKS)
        + exact_objective(as_data, factors, weights, loss)
        - exact_objective(as_zeros, factors, weights, loss)
    )
