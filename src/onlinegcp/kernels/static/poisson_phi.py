"""Responsibilities of a Poisson model: what multiplicative updates multiply by.

For row i of one mode, phi[i] is the sum over its cells of x / m times the cell's Khatri-Rao row
p, where m = b'p. At a solution phi equals the cost of a component wherever b > 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import Blocks
from onlinegcp.kernels.static.fibres import RowGroups, fibre_sums


def poisson_phi(
    groups: RowGroups,
    blocks: Blocks,
    rows: NDArray[np.float64],
    *,
    epsilon: float = 1e-10,
    n_jobs: int = 1,
) -> NDArray[np.float64]:
    """Return phi[i] = sum over the cells of row i of x / max(b'p, epsilon) p: (I_n, width).

    Parameters
    ----------
    groups
        The cells, grouped by the rows of the mode; at least two modes.
    blocks
        All factors, columns summing to one; that of the mode is not read.
    rows
        B = A_n diag(weights), (I_n, width) in the padded layout.
    epsilon
        Smallest model value that is divided by.
    n_jobs
        Threads; the result is the same, bit for bit, for any number.
    """
    return fibre_sums(groups, blocks, rows=rows, epsilon=epsilon, n_jobs=n_jobs)
