"""Which patterns of one model are those of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

FloatArray: TypeAlias = NDArray[np.float64]

SAME = 0.8  # congruence, the product of the cosines over the modes, from which patterns are one


def match(
    old: Sequence[FloatArray], new: Sequence[FloatArray]
) -> tuple[NDArray[np.intp], FloatArray]:
    """The order of the new components in which they resemble the old ones most.

    Parameters
    ----------
    old, new
        One matrix (I_k, R) per mode each.

    Returns
    -------
    order, congruence
        ``new[k][:, order]`` matches ``old[k]`` column by column, with these congruences (R,).
    """
    alike = np.ones((old[0].shape[1], new[0].shape[1]))
    for a, b in zip(old, new, strict=True):
        alike *= _unit(a).T @ _unit(b)
    rows, order = linear_sum_assignment(-np.abs(alike))
    return order, np.abs(alike[rows, order])


def places(old: Sequence[FloatArray], new: Sequence[FloatArray]) -> list[int]:
    """For every component of a model its place in another of any rank, -1 for those not in it."""
    found = [-1] * new[0].shape[1]
    # Rows of an assignment are all assigned only where they are not more than the columns.
    fewer = new[0].shape[1] <= old[0].shape[1]
    order, alike = match(new, old) if fewer else match(old, new)
    for row, column in enumerate(order.tolist()):
        if alike[row] >= SAME:
            at, place = (row, column) if fewer else (column, row)
            found[at] = place
    return found


def n_replaced(old: Sequence[FloatArray], new: Sequence[FloatArray]) -> int:
    """How many patterns of a model are not in another."""
    return int((match(old, new)[1] < SAME).sum())


def _unit(a: FloatArray) -> FloatArray:
    length = np.sqrt((a**2).sum(axis=0))
    return np.asarray(a / np.where(length > 0.0, length, 1.0))
