"""The formulas of a loss on the card, at a few points."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.formulas import Formulas, deriv_of, fisher_of, value_of
from onlinegcp.kernels.cuda.lanes import LANES, kernel

Array = NDArray[Any]


@cache
def formulas_kernel(code: int) -> Any:
    """Value, slope and Fisher curvature at every point."""

    @kernel
    def at_points(p_loss, x, m, out):  # out (3 * points,)
        i, n = cuda.grid(1), x.shape[0]
        if i < n:
            out[i] = value_of(code, p_loss, x[i], m[i])
            out[n + i] = deriv_of(code, p_loss, x[i], m[i])
            out[2 * n + i] = fisher_of(code, p_loss, x[i], m[i])

    return at_points


def try_kernel(card: Card, formulas: Formulas, x: Array, m: Array) -> Array:
    """Value, slope and Fisher curvature (3, n)."""
    n = len(x)
    with card.turn:
        there = [card.zeros(n), card.zeros(n), card.zeros(3 * n)]
        card.push(x, there[0])
        card.push(m, there[1])
        blocks = -(-n // LANES)
        formulas.bound_to(formulas_kernel)[blocks, LANES, card.stream](formulas.parameter, *there)
        return np.asarray(card.pull(there[2], 3 * n)).reshape(3, n)
