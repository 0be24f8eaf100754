"""Factors for Poisson and odds losses: the conjugate history, updated in closed form.

Per row and component the history is a Gamma prior, shape old factor times rate, which the slice's
responsibilities and exposure update: new = (lam rate old + phi) / (lam rate + exposure). There is
no step size, and entries stay positive. For Poisson all modes move at once, as in EM (one step for
the whole model), and slice loss plus history do not rise, the floor under the factors aside. Other
losses, and missing cells, move one mode after the other, because their exposure changes with every
mode; scaling the columns, or sampled exposure, may then raise the sum a little.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.auto import conjugate_rows, responsibilities, weights_newton
from onlinegcp.kernels.layout import Blocks
from onlinegcp.solvers.auto import forgetting
from onlinegcp.solvers.auto.cells import Cells, OddsForm
from onlinegcp.solvers.auto.forgetting import Forgetting
from onlinegcp.solvers.auto.zeros import Zeros

Array = NDArray[Any]

SWEEPS = 2
# Entries are kept above FLOOR_EVENTS over the component's mass, and never forced above
# FLOOR_SHARE of a uniform column: multiplicative updates cannot leave zero by themselves.
FLOOR_EVENTS = 0.1
FLOOR_SHARE = 0.01
_EMPTY = np.zeros((0, 0))


@dataclass
class History:
    """What the conjugate solver remembers besides the factors.

    Attributes
    ----------
    rate
        Accumulated exposure of every entry (rows, width).
    mass
        Accumulated counts per component (width,), forgotten by the schedule only: a floor that
        follows the learned forgetting would rise as memory shortens and leak mass.
    sensitivity
        Derivative of the factors with respect to the log-memory (rows, width).
    """

    rate: Array
    mass: Array
    sensitivity: Array


@dataclass(frozen=True)
class Slopes:
    """What the slice says at the factors before the update.

    Attributes
    ----------
    phi
        Responsibilities of all modes (rows, width).
    exposure
        Exposure of all modes, (rows, width), or (1, width) when all rows share it.
    logs
        Sum of x log m.
    """

    phi: Array
    exposure: Array
    logs: float


def learn_forgetting(
    factors: Blocks,
    cells: Cells,
    form: OddsForm,
    zeros: Zeros,
    weights: Array,
    history: History,
    memory: Forgetting,
    cap: float,
) -> Slopes:
    """Take the forgetting one step, in the pass over the cells that the update needs anyway."""
    data, offsets, width = factors.data, factors.offsets, factors.width
    # Single precision is plenty for a slope, and halves what a large slice reads at random.
    ratio, phi = np.empty(data.shape, dtype=np.float32), np.empty_like(data)
    slopes, bends = np.zeros(width), np.zeros(width)
    conjugate_rows.ratios(history.sensitivity, data, ratio)
    bend, logs = responsibilities.with_sensitivity(
        data, ratio, offsets, cells.index, cells.value, weights, phi, slopes, bends,
        np.zeros(width), np.zeros(width),
    )  # fmt: skip
    if shares_exposure(cells, form):
        # The model total does not depend on eta: columns of the sensitivity sum to zero.
        exposure = weights[None, :]
    else:
        exposure = np.empty_like(data)
        zeros.rates(weights, -1, exposure)
        slopes += np.einsum("ir,ir->r", exposure, history.sensitivity)
    forgetting.learn(memory, slopes, bends, float(bend), cap)
    return Slopes(phi, exposure, float(logs))


def update(
    factors: Blocks,
    cells: Cells,
    form: OddsForm,
    zeros: Zeros,
    weights: Array,
    history: History,
    memory: Forgetting,
    cap: float,
    unit: float,
    slopes: Slopes | None,
) -> tuple[Array, float, Array]:
    """Absorb one slice into the factors.

    Parameters
    ----------
    factors
        Updated in place; columns sum to one before and after.
    cells, form, zeros
        The slice, the loss, and the sums over its unlisted cells.
    weights
        Weights solved with the factors before the update.
    history, memory
        Updated in place.
    cap
        The schedule's forgetting factor for this slice.
    unit
        Size of one event in the data's units.
    slopes
        What `learn_forgetting` returned, None when the forgetting is fixed.

    Returns
    -------
    The weights for the updated factors, the loss there, and the forgetting factors.
    """
    lam, lift = forgetting.factors(memory, cap)
    old = factors.data.copy()
    if shares_exposure(cells, form):
        weights, phi, exposure, scale = _sweep_all(
            factors, cells, weights, history, lam, old, slopes
        )
    else:
        weights, phi, exposure, scale = _sweep_modes(
            factors, cells, zeros, weights, history, lam, old, slopes
        )
    prior = _mass(history.rate, old, factors) * lam
    counts = phi[factors.offsets[0] : factors.offsets[1]].sum(axis=0)
    history.mass *= cap
    history.mass += counts
    for k in range(factors.ndim):
        floor = floor_of(factors, history.mass, unit, k)
        conjugate_rows.absorb(
            old, phi, history.rate, lam, exposure, factors.offsets[k], factors.offsets[k + 1],
            scale[k], lift, floor, memory.learned, history.sensitivity, factors.data,
        )  # fmt: skip
    if memory.learned:
        memory.lift = prior * lift / np.maximum(prior + counts, 1e-300)
    zeros.refresh()
    # A further multiplicative step for the weights changed no loss by more than 1e-4.
    return weights, evaluate(factors, cells, zeros, weights), lam


def floor_of(factors: Blocks, mass: Array, unit: float, mode: int) -> Array:
    """Smallest entry of every column of a mode (width,)."""
    floor = np.minimum(
        FLOOR_EVENTS * unit / np.maximum(mass, 1e-300), FLOOR_SHARE / factors.shape[mode]
    )
    floor[factors.rank :] = 0.0
    return np.asarray(floor)


def apply_floor(factors: Blocks, mass: Array, unit: float) -> None:
    """Raise entries to the floor; columns sum to one afterwards."""
    for k, view in enumerate(factors.views()):
        np.maximum(view, floor_of(factors, mass, unit, k)[: factors.rank], out=view)
        view /= view.sum(axis=0)


def shares_exposure(cells: Cells, form: OddsForm) -> bool:
    """Whether all rows of a component have the same exposure: Poisson with every cell observed."""
    return form.linear and cells.full


def _sweep_all(
    factors: Blocks,
    cells: Cells,
    weights: Array,
    history: History,
    lam: Array,
    old: Array,
    slopes: Slopes | None,
) -> tuple[Array, Array, Array, Array]:
    """Move all modes and the weights at once, SWEEPS times."""
    data, offsets = factors.data, factors.offsets
    z, sums = np.zeros(factors.width), np.zeros(factors.width)
    phi = np.empty_like(data) if slopes is None else slopes.phi
    for sweep in range(SWEEPS):
        if sweep > 0 or slopes is None:
            responsibilities.responsibilities(
                data, offsets, cells.index, cells.value, weights, -1, phi, z
            )
        counts = phi[offsets[0] : offsets[1]].sum(axis=0)
        for k in range(factors.ndim):
            conjugate_rows.blend(
                old, phi, history.rate, lam, counts[None, :], offsets[k], offsets[k + 1], sums, data
            )
        weights = counts
    return weights, phi, weights[None, :], np.ones((factors.ndim, factors.width))


def _sweep_modes(
    factors: Blocks,
    cells: Cells,
    zeros: Zeros,
    weights: Array,
    history: History,
    lam: Array,
    old: Array,
    slopes: Slopes | None,
) -> tuple[Array, Array, Array, Array]:
    """Move one mode after the other, SWEEPS times; each column's scale goes to the weights."""
    data, offsets = factors.data, factors.offsets
    z = np.zeros(factors.width)
    scale = np.ones((factors.ndim, factors.width))
    if slopes is None:
        phi, exposure = np.empty_like(data), np.empty_like(data)
    else:
        phi, exposure = slopes.phi, slopes.exposure
    weights = weights.copy()
    for sweep in range(SWEEPS):
        for k in range(factors.ndim):
            if sweep > 0 or k > 0 or slopes is None:
                responsibilities.responsibilities(
                    data, offsets, cells.index, cells.value, weights, k, phi, z
                )
                zeros.rates(weights, k, exposure)
            conjugate_rows.blend(
                old, phi, history.rate, lam, exposure, offsets[k], offsets[k + 1], scale[k], data
            )
            scale[k][scale[k] <= 0.0] = 1.0
            weights *= scale[k]
            zeros.refresh()
    return weights, phi, exposure, scale


def _mass(rate: Array, old: Array, factors: Blocks) -> Array:
    """Counts the history stands for, per component, read off the first mode."""
    rows = slice(factors.offsets[0], factors.offsets[1])
    return np.asarray(np.einsum("ir,ir->r", rate[rows], old[rows]))


def evaluate(factors: Blocks, cells: Cells, zeros: Zeros, weights: Array) -> float:
    """Loss of the slice over every observed cell."""
    if cells.value.size == 0:
        return 0.0
    width = factors.width
    pull, block = np.zeros(width), np.zeros((weights_newton.BLOCK, width))
    logs = weights_newton.listed_sums(
        factors.data, factors.offsets, cells.index, cells.value, weights, False,
        pull, _EMPTY, block,
    )  # fmt: skip
    return zeros.value(weights) - float(logs)
