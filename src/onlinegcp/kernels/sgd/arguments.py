"""What the compiled iterations take, in named tuples: Numba reads their fields at no cost.

Arrays are flat: matrices by rows, padded to `width` columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class CellArrays(NamedTuple):
    """A slice as draws read it: the arrays of `membership.Cells`, and where rows begin."""

    counts: IntArray  # (6,)
    shape: IntArray  # (d,)
    words: IntArray  # (d,)
    places: IntArray  # (2 d,) first element of each mode's rows; place of the mode among rows
    listed: NDArray[np.int32]  # coordinates
    value: FloatArray
    linear: IntArray
    bitmap: NDArray[np.uint64]
    ranks: IntArray
    keys: IntArray
    positions: IntArray
    row_weights: FloatArray  # (I_d,) or empty


class Sampling(NamedTuple):
    """What is drawn, and what it costs."""

    strata: IntArray  # (n, 6): source, count, values, corrected, number of the first, share
    weights: FloatArray  # (n,) what each sample of a stratum counts for
    cells: CellArrays
    far: bool  # whether factors are too large for the cache, and rows are fetched ahead
    code: int  # of the loss
    parameter: float


class Samples(NamedTuple):
    """Room for one block of samples."""

    rows: IntArray  # (d n,) first elements of the samples' rows
    xs: FloatArray  # (n,) data
    ws: FloatArray  # (n,) weights
    m: FloatArray  # (n,) model values
    y: FloatArray  # (n,) slopes


class Modes(NamedTuple):
    """How the factors lie in memory, and which of them move."""

    rank: int
    width: int
    head: int  # the mode that is multiplied by the weights
    offsets: IntArray  # (d + 1,)
    update: IntArray  # (d + 1,): modes, then weights
    needed: IntArray  # (d,) gradients wanted, by place


class Rule(NamedTuple):
    """How a step is taken."""

    kind: int
    steps: FloatArray  # (4,) rate, beta_1, beta_2, epsilon
    ridge: float
    weight_ridge: float
    anchors: FloatArray  # (d,)
    floor: Any  # (width,)


class Past(NamedTuple):
    """The history term."""

    counts: bool  # whether there is one
    S: Any  # (width, width)
    old: Any  # factors before


class Variables(NamedTuple):
    """What moves, its gradients and its moments."""

    data: Any
    weights: Any
    gradient: Any
    weights_gradient: Any
    u: Any
    v: Any
    largest: Any
    weights_u: Any
    weights_v: Any
    weights_largest: Any
    head: Any  # rows of the head mode times the weights
    head_gradient: Any


class Matrices(NamedTuple):
    """Room for the Gram matrices of the history, (d, width, width) each."""

    grams: Any
    crosses: Any
    B: Any
    C: Any
