"""What kernels compute, said in NumPy on whole arrays: the oracles of their tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.losses.formulas import EPS

Array = NDArray[Any]


def mttkrp(
    index: NDArray[np.integer[Any]],
    value: NDArray[np.float64],
    factors: Sequence[NDArray[Any]],
    mode: int,
) -> NDArray[Any]:
    """Return the MTTKRP of a sparse tensor, one line of NumPy per step: the oracle of `mttkrp`."""
    terms = np.repeat(value[:, None], factors[0].shape[1], axis=1)
    for j, factor in enumerate(factors):
        if j != mode:
            terms = terms * factor[index[:, j]]
    out = np.zeros(factors[mode].shape)
    np.add.at(out, index[:, mode], terms)
    return out


def poisson_phi(
    index: NDArray[np.integer[Any]],
    value: NDArray[np.float64],
    factors: Sequence[NDArray[np.float64]],
    mode: int,
    rows: NDArray[np.float64],
    epsilon: float = 1e-10,
) -> NDArray[np.float64]:
    """Return the same phi, one line of NumPy per step: the oracle of `fibre_sums`."""
    basis = np.ones((len(value), rows.shape[1]))
    for j, factor in enumerate(factors):
        if j != mode:
            basis *= factor[index[:, j]]
    m = np.sum(rows[index[:, mode]] * basis, axis=1)
    out = np.zeros(rows.shape)
    np.add.at(out, index[:, mode], (value / np.maximum(m, epsilon))[:, None] * basis)
    return out


def least_squares_rows(
    index: NDArray[np.integer[Any]],
    value: NDArray[np.float64],
    factors: Sequence[NDArray[np.float64]],
    mode: int,
    ridge: float = 0.0,
) -> NDArray[np.float64]:
    """Return the same rows by one dense least-squares solve each: the oracle of the kernel."""
    rank = factors[mode].shape[1]
    out = np.zeros(factors[mode].shape)
    for row in np.unique(index[:, mode]):
        cells = index[:, mode] == row
        basis = np.ones((int(cells.sum()), rank))
        for j, factor in enumerate(factors):
            if j != mode:
                basis *= factor[index[cells, j]]
        basis = np.vstack([basis, np.sqrt(ridge) * np.eye(rank)])
        target = np.concatenate([value[cells], np.zeros(rank)])
        old = factors[mode][row] * (ridge == 0.0)
        step = np.linalg.lstsq(basis, target - basis @ old, rcond=None)[0]
        out[row] = old + step
    return out


def tangent_sums(factors: list[Array], weights: Array) -> tuple[float, Array, list[Array]]:
    """Say in NumPy, on the full array, what `log_sums` and `rate_sums` compute."""
    letters = "abcdef"[: len(factors)]
    terms = ",".join(f"{letter}z" for letter in letters)
    m = np.einsum(f"z,{terms}->{letters}", weights, *factors)
    h = 1.0 / (1.0 + m)
    pull = np.einsum(f"{letters},{terms}->z", h, *factors)
    rates = []
    for k, letter in enumerate(letters):
        others = [f"{other}z" for other in letters if other != letter]
        matrices = [a for other, a in enumerate(factors) if other != k]
        spec = ",".join([letters, "z", *others])
        rates.append(np.einsum(f"{spec}->{letter}z", h, weights, *matrices))
    return float(np.log1p(m).sum()), pull, rates


def row_sums(
    factors: list[Array], index: Array, weights: Array, y: Array, h: Array, mode: int
) -> tuple[Array, Array]:
    """Say in NumPy what `row_sums` computes: sum y n and sum h n n' by row."""
    parts = [a[index[:, k]] for k, a in enumerate(factors) if k != mode]
    n = np.prod(parts, axis=0) * weights if parts else np.tile(weights, (len(index), 1))
    slopes = np.zeros_like(factors[mode])
    hessians = np.zeros((*factors[mode].shape, factors[mode].shape[1]))
    np.add.at(slopes, index[:, mode], y[:, None] * n)
    np.add.at(hessians, index[:, mode], h[:, None, None] * n[:, :, None] * n[:, None, :])
    return slopes, hessians


def responsibilities(
    factors: list[Array], index: Array, value: Array, weights: Array
) -> list[Array]:
    """Say in NumPy what `responsibilities` computes for all modes."""
    rows = np.prod([a[index[:, k]] for k, a in enumerate(factors)], axis=0) * weights
    share = rows * (value / (rows.sum(axis=1) + EPS))[:, None]
    phi = [np.zeros_like(a) for a in factors]
    for k, target in enumerate(phi):
        np.add.at(target, index[:, k], share)
    return phi


def dense_products(array: Array, factors: list[Array], mode: int) -> Array:
    """Say in NumPy what `dense_products` computes for one mode."""
    letters = "abcdef"[: array.ndim]
    others = [f"{letter}z" for k, letter in enumerate(letters) if k != mode]
    matrices = [a for k, a in enumerate(factors) if k != mode]
    if not matrices:
        return np.repeat(array[:, None], factors[0].shape[1], axis=1)
    spec = ",".join([letters, *others])
    return np.asarray(np.einsum(f"{spec}->{letters[mode]}z", array, *matrices))


def listed_sums(
    factors: list[Array], index: Array, value: Array, weights: Array
) -> tuple[float, Array, Array]:
    """Say in NumPy what `listed_sums` computes: sum x log m, Z'(x/m), Z' diag(x/m^2) Z."""
    rows = np.prod([a[index[:, k]] for k, a in enumerate(factors)], axis=0)
    m = rows @ weights + EPS
    curved = rows * (value / m**2)[:, None]
    return float(value @ np.log(m)), rows.T @ (value / m), rows.T @ curved


def unrest_at(known, time):
    """How many times as far as usual slices are off at a time: between and within, as in ANOVA."""
    number, whole, squares = known[:, known[0] > 0.0]
    found, spare = len(number), np.maximum(number - 1.0, 0.0).sum()
    if found < 2 or spare < 2.0:
        return 1.0
    mean = whole / number
    within = np.maximum(squares - number * mean**2, 0.0).sum() / spare
    doubt = 1.0 + 2.0 * np.sqrt(2.0 / (found - 1) + 2.0 / spare)
    real = np.var(mean, ddof=1) - doubt * within * np.mean(1.0 / number)
    if real <= 0.0:
        return 1.0
    held = within / real
    told = (known[1, time] + held * mean.mean()) / (known[0, time] + held)
    return float(np.clip(told / mean.mean(), 0.25, 16.0))


def lasting(habits):
    """What is left of how far every expert was off."""
    lately, product, power = habits
    return np.clip(product / (power + 20.0), 0.0, 0.95) * lately


def judge_levels(values, base, habits, errors, spread, unrest, time, seen, least, noise):
    """Forecast, deviation and surprise of series, and the sum of their values."""
    more, ahead = len(values) - len(seen), base + lasting(habits)
    wild = np.array([unrest_at(unrest[:, i], time) for i in range(len(seen))])
    forecast = ahead[np.argmin(errors, axis=0), np.arange(len(seen))]
    deviation = np.maximum(1.2533 * spread[0] / np.maximum(spread[1], 1e-12) * wild, noise)
    deviation = np.where(spread[1] < 2.0, np.inf, deviation)
    young = np.concatenate([seen < least, np.ones(more, dtype=bool)])
    forecast = np.nan_to_num(np.concatenate([forecast, values[len(seen) :]]))
    deviation = np.concatenate([deviation, np.full(more, np.inf)])
    error = np.where(np.isnan(values) | young, 0.0, values - forecast)
    surprise = error / np.maximum(deviation, 1e-12 * (1.0 + np.abs(forecast)))
    return np.stack([forecast, deviation, surprise]), np.nansum(values)


def learn_levels(
    values, compared, base, habits, rates, trends, least, keep, early, cycle, place, kind, part,
    unrest, time, level, trend, errors, spread, streak, seen,
):  # fmt: skip
    """What `kernels.levels.learn_levels` makes of a cycle, series, habits and unrest."""
    forecast, deviation, surprise = compared
    known, old = ~np.isnan(values), seen >= least
    told = known & old
    error = np.where(known, values - base, 0.0)
    left = np.where(known, error - lasting(habits), 0.0)
    streak = np.where(known, np.where(np.abs(surprise) > 4.0, streak + 1.0, 0.0), streak)
    limit = np.where(old & (streak < 3), 3.0 * deviation, np.inf)
    errors = 0.95 * errors + np.minimum(np.abs(left), limit)
    lately, product, power = habits
    tells = old & (np.abs(surprise) <= 4.0) & (kind != 2)
    now, variance = np.where(tells, error, 0.0), deviation * deviation
    sure = tells & (variance > 0.0)
    product = np.where(sure, (1.0 - 1.0 / 200.0) * product + now * lately / variance, product)
    power = np.where(sure, (1.0 - 1.0 / 200.0) * power + lately * lately / variance, power)
    mine = np.minimum(np.where(told, np.abs(values - forecast), 0.0), limit)
    wild = np.array([unrest_at(unrest[:, i], time) for i in range(len(seen))])
    unrest = unrest.copy()
    for i in np.flatnonzero(told & (spread[1] >= 2.0) & (spread[0] > 0.0)):
        off = min(1.2533 * mine[i] / (1.2533 * spread[0, i] / spread[1, i]), 2.0 * wild[i])
        unrest[:, i, time] = (1.0 - 1.0 / 12.0) * unrest[:, i, time] + [1.0, off, off * off]
    spread = keep * spread + np.stack([mine / wild, told])
    error = np.maximum(np.minimum(error, limit), -limit)
    rate = np.maximum(rates, 1.0 / (seen + 1.0)) * known
    cycle = cycle.copy()
    if kind == 2:
        cycle[:, :, place] += error / part
        error = np.zeros_like(error)
    elif kind == 1:
        cycle[:, :, place] += part * (1.0 - rate) * error
    moved = level + 0.9 * trend + early * rate * error
    trend = 0.9 * trend + trends * rate * error
    series = moved, trend, errors, spread, streak, seen + known
    return cycle, *series, now, product, power, unrest
