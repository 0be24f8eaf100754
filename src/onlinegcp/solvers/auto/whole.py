"""Odds losses on a whole tensor: the sweeps of the streaming solver, without a past."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import pad_vector, stack_factors
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import OddsForm
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import forgetting
from onlinegcp.solvers.auto.cells import cells_of
from onlinegcp.solvers.auto.conjugate import SWEEPS, Conjugate
from onlinegcp.solvers.auto.model import Model
from onlinegcp.solvers.auto.odds_sums import OddsSums

Array = NDArray[Any]


def sweep_odds(x: Slice, init: KTensor, form: OddsForm, sweeps: int) -> KTensor:
    """Multiplicative sweeps over all modes, which cost no line search and keep entries positive.

    Parameters
    ----------
    x
        The tensor.
    init
        A nonnegative model to start from.
    form
        The loss.
    sweeps
        How many.
    """
    start = init.normalize(norm=1, sort=False)
    factors, weights = stack_factors(start.factors), pad_vector(start.weights)
    past, none = Conjugate.start(factors, bounded=True), np.zeros(factors.width)
    memory = forgetting.start(1.0, factors.width, 1.0)
    model, cells = Model(factors, memory, past, none, none, none, bounded=True), cells_of(x)
    for _ in range(max(1, sweeps // SWEEPS)):
        # With nothing kept of the past, the update is that of the tensor alone.
        weights = past.update(model, OddsSums(factors, cells, form), weights, 0.0, None)
    return KTensor(weights[: factors.rank], [view.copy() for view in factors.views()])
