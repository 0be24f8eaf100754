"""Residuals in units of their noise, added up over slices, and what noise alone would make of them.

Noise adds up like a random walk, a pattern straight. As a matrix, the longest mode against the
rest, the sum of pure noise has singular values up to an edge; what lies beyond is a pattern, and a
pattern whose own sum does not reach beyond cannot be told from noise in so few slices.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.losses import Loss
from onlinegcp.slices import Slice

FloatArray: TypeAlias = NDArray[np.float64]

MOST_CELLS = 2**16  # of slices that are written out
LARGEST = 8.0  # standard deviations one cell can count


def measurable(x: Slice) -> bool:
    """Whether residuals of a slice say anything here: complete, not long, more than one mode."""
    return x.ndim > 1 and x.size <= MOST_CELLS and x.n_observed == x.size


def full(weights: FloatArray, views: tuple[FloatArray, ...]) -> FloatArray:
    """The model as an array: no checks and no copies, as this is done for every slice."""
    left = views[0] * weights
    for a in views[1:-1]:
        left = (left[:, None, :] * a[None, :, :]).reshape(-1, len(weights))
    return np.asarray((left @ views[-1].T).reshape([len(a) for a in views]))


def cells(x: Slice) -> FloatArray:
    """The data of a complete slice."""
    return x.array if x.array is not None else x.to_dense()


def residuals(data: FloatArray, fitted: FloatArray, loss: Loss) -> FloatArray:
    """Slopes over the square roots of the expected curvatures, one per cell, flat."""
    with np.errstate(all="ignore"):
        scores = loss.deriv(data, fitted) / np.sqrt(loss.fisher(data, fitted))
        if not math.isfinite(scores.sum()):  # seldom, and to look at each takes as long as the rest
            scores = np.nan_to_num(scores)
    return np.asarray(np.minimum(np.maximum(scores, -LARGEST), LARGEST).reshape(-1))


def squared_sizes(total: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Squared singular values of a sum of residuals, largest first."""
    longest = int(np.argmax(shape))
    matrix = np.moveaxis(total.reshape(shape), longest, 0).reshape(shape[longest], -1)
    small = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    return np.asarray(np.linalg.eigvalsh(small @ small.T)[::-1])


def noise_edge(energy: float, shape: tuple[int, ...]) -> float:
    """The largest of them that noise alone would make.

    Parameters
    ----------
    energy
        Sum of all squared residuals.
    shape
        Of the slices.
    """
    count, longest = math.prod(shape), max(shape)
    return energy / count * (math.sqrt(longest) + math.sqrt(count // longest)) ** 2


def component_sizes(
    weights: FloatArray, views: tuple[FloatArray, ...], precision: FloatArray
) -> FloatArray:
    """Squared size of what each component explains, in the same units (R,).

    Parameters
    ----------
    weights
        Sums over the slices (R,).
    views
        One matrix (I_k, R) per mode.
    precision
        Expected curvature of each cell.
    """
    sizes = np.zeros(len(weights))
    for r, weight in enumerate(weights):
        part = full(np.array([weight]), tuple(a[:, r : r + 1] for a in views))
        sizes[r] = float(np.sum(part * part * precision))
    return sizes
