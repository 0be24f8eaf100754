"""Arrays that go into kernels together; kernels unpack them in their first line."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

Array = NDArray[Any]


class Listed(NamedTuple):
    """Factors, and listed cells of a slice.

    Attributes
    ----------
    data, offsets
        Stacked factors (rows, width), and the first row of each mode (d + 1,).
    cells, value
        The cells (n, d) and what is in them (n,).
    """

    data: Array
    offsets: Array
    cells: Array
    value: Array


class Blend(NamedTuple):
    """What new factors of a conjugate past are made of.

    Attributes
    ----------
    old
        The factors before the slice (rows, width).
    phi
        Counts of the slice (rows, width).
    rate
        Accumulated exposure (rows, width).
    lam
        Forgetting factors (width,).
    exposure
        Exposure of the slice, (rows, width), or (1, width) when all rows share it.
    """

    old: Array
    phi: Array
    rate: Array
    lam: Array
    exposure: Array


class ByRow(NamedTuple):
    """Cells of a slice by row of a mode: row i has cells order[starts[i]:starts[i + 1]]."""

    order: Array
    starts: Array
