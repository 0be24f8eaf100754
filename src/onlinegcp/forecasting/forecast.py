"""A forecast: the weights of the next slices, with totals and cells and how sure they are."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from onlinegcp.drawing.text import number, parse_time, say_interval
from onlinegcp.errors import DataError
from onlinegcp.forecasting.smoothing import carry_on
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.notebook.html import bars, card, table, text

FloatArray = NDArray[np.float64]

_LEAST = 4
_DENSE_CELLS = 20_000_000
_SEASONS = {"hourly": 24, "daily": 7, "weekly": 52, "monthly": 12}


@final
@dataclass(frozen=True)
class Forecast:
    """The next slices as far as the past tells.

    Attributes
    ----------
    times : tuple
        When; 1, 2, ... where that is not known.
    weights : (steps, R) array
        Expected weight of each component, in the units of the factors.
    total, low, high : (steps,) arrays
        Expected sum of all cells, and the interval around it.
    level : float
        Share of slices whose total should lie in the interval.
    period : int
        Slices after which weights repeat; 1 if they do not.
    """

    times: tuple[Any, ...]
    weights: FloatArray
    total: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    period: int
    factors: tuple[FloatArray, ...]
    labels: tuple[tuple[str, ...], ...] | None
    loss: Loss
    covariance: FloatArray

    def __len__(self) -> int:
        return len(self.times)

    def dense(self, step: int = 0) -> FloatArray:
        """All cells of one of the slices, counted from 0."""
        return np.asarray(self.loss.mean(KTensor(self.weights[step], self.factors).full()))

    def cells(self, step: int = 0, top: int = 10) -> list[dict[str, Any]]:
        """The cells that are expected to hold most, with labels and how sure they are.

        Parameters
        ----------
        step
            Which slice, counted from 0.
        top
            How many cells.
        """
        shape = tuple(len(a) for a in self.factors)
        # Cells that hold most are found among the rows that hold most.
        kept = [
            np.sort(np.argsort(-np.abs(a @ self.weights[step]), kind="stable")[:60])
            for a in self.factors
        ]
        small = [a[rows] for a, rows in zip(self.factors, kept, strict=True)]
        values = np.asarray(self.loss.mean(KTensor(self.weights[step], small).full())).reshape(-1)
        best = np.argsort(-values, kind="stable")[:top]
        places = np.stack(np.unravel_index(best, tuple(map(len, kept))), axis=1)
        reach = float(ndtri(0.5 + self.level / 2))
        found = []
        for place, value in zip(places, values[best], strict=True):
            index = [int(rows[i]) for rows, i in zip(kept, place, strict=True)]
            row = np.prod([a[i] for a, i in zip(self.factors, index, strict=True)], axis=0)
            spread = float(row @ self.covariance[step] @ row) + _noise(self.loss, float(value))
            width = reach * math.sqrt(max(spread, 0.0))
            least = 0.0 if self.loss.lower == 0.0 else -math.inf
            found.append(
                {
                    "labels": [self._label(k, i) for k, i in enumerate(index)],
                    "expected": float(value),
                    "low": max(float(value) - width, least),
                    "high": float(value) + width,
                }
            )
        assert len(shape) == len(kept)
        return found

    def _label(self, k: int, i: int) -> str:
        known = self.labels[k] if self.labels is not None else ()
        return known[i] if i < len(known) else str(i)

    def to_json(self, top: int = 10) -> dict[str, Any]:
        """Everything for programs."""
        return {
            "level": self.level,
            "period": self.period,
            "steps": [
                {
                    "time": str(time) if isinstance(time, datetime.date) else time,
                    "total": float(self.total[h]),
                    "low": float(self.low[h]),
                    "high": float(self.high[h]),
                    "weights": self.weights[h].tolist(),
                    "cells": self.cells(h, top),
                }
                for h, time in enumerate(self.times)
            ],
        }

    def __repr__(self) -> str:
        rows = [
            (str(time), number(total), f"{number(low)} to {number(high)}")
            for time, total, low, high in zip(
                self.times, self.total, self.low, self.high, strict=True
            )
        ]
        head = ("time", "total", f"{self.level:.0%} interval")
        widths = [max(len(line[k]) for line in (head, *rows)) for k in range(3)]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in (head, *rows)
        )

    def _repr_html_(self) -> str:
        rows = [
            [text(time), number(total), f"{number(low)} to {number(high)}"]
            for time, total, low, high in zip(
                self.times, self.total, self.low, self.high, strict=True
            )
        ]
        body = bars(self.total, [str(time) for time in self.times])
        listed = table(["time", "total", f"{self.level:.0%} interval"], rows)
        return card("Forecast", f"{len(self)} slices", f"<br>{body}{listed}")


def forecast(
    past: FloatArray,
    factors: Sequence[FloatArray],
    loss: Loss,
    steps: int,
    *,
    times: Sequence[Any] = (),
    labels: Sequence[Sequence[str]] | None = None,
    period: int | None = None,
    level: float = 0.8,
) -> Forecast:
    """Carry the weights of a stream on.

    Parameters
    ----------
    past
        (slices, R) weights times the sums of absolute values of the columns of all factors, oldest
        first: what each component held, whatever the scale of its columns was then.
    factors
        Factors now.
    loss
        What turns model values into expected data.
    steps
        How many slices.
    times
        Times of the past slices, if known.
    labels
        Names of the rows of each mode.
    period
        Slices after which weights repeat; by default what the calendar says, or what fits.
    level
        Share of totals that should lie in the interval.
    """
    if (
        isinstance(steps, bool)
        or not isinstance(steps, int | np.integer)
        or not 1 <= steps <= 10_000
    ):
        raise DataError(f"steps must be a whole number from 1 to 10,000, but is {steps!r}.")
    if not 0.0 < level < 1.0:
        raise DataError(f"level must lie between 0 and 1, but is {level!r}. Write 0.8 for 80 %.")
    if len(past) < _LEAST:
        raise DataError(
            f"A forecast needs at least {_LEAST} slices after the warm start, but there are "
            f"{len(past)}. Learn more of them first."
        )
    spoken = [str(time) for time in times]
    if period is None:
        period = _SEASONS.get(say_interval(spoken))
    carried = carry_on(past, int(steps), period)
    sums = np.prod([np.abs(a).sum(axis=0) for a in factors], axis=0)
    unit = 1.0 / np.where(sums > 0, sums, 1.0)
    least = 0.0 if loss.lower == 0.0 or all((a >= 0).all() for a in factors) else -np.inf
    weights = np.maximum(carried.mean, least) * unit
    covariance = carried.covariance * np.outer(unit, unit)
    matrices = tuple(np.asarray(a, dtype=np.float64) for a in factors)
    total, spread = _totals(matrices, weights, covariance, loss)
    width = float(ndtri(0.5 + level / 2)) * np.sqrt(np.maximum(spread, 0.0))
    floor = 0.0 if np.isfinite(least) else -np.inf
    return Forecast(
        tuple(next_times(times, int(steps))),
        weights,
        total,
        np.maximum(total - width, floor),
        total + width,
        level,
        carried.period,
        matrices,
        None if labels is None else tuple(tuple(map(str, names)) for names in labels),
        loss,
        covariance,
    )


def _totals(
    factors: tuple[FloatArray, ...], weights: FloatArray, covariance: FloatArray, loss: Loss
) -> tuple[FloatArray, FloatArray]:
    """Sums of the expected cells of each slice, and the variance of these sums."""
    sums = np.prod([a.sum(axis=0) for a in factors], axis=0)
    slope = float(loss.mean(np.array(2.0)) - loss.mean(np.array(1.0)))
    straight = float(loss.mean(np.array(0.0))) == 0.0 and np.isclose(
        float(loss.mean(np.array(3.0))), 3.0 * slope
    )
    spread = slope**2 * np.einsum("r,hrs,s->h", sums, covariance, sums)
    if straight:
        return slope * weights @ sums, spread
    if math.prod(len(a) for a in factors) > _DENSE_CELLS:
        raise DataError(
            f"Totals of at most {_DENSE_CELLS:,} cells can be summed for the loss {loss.name!r}, "
            "whose expectations are not sums, but slices are larger. Use fewer labels."
        )
    dense = [np.asarray(loss.mean(KTensor(row, factors).full())).sum() for row in weights]
    return np.array(dense), spread


def _noise(loss: Loss, value: float) -> float:
    """Variance of one cell around its expectation, where the loss says it."""
    if loss.name == "poisson":
        return value
    if loss.name == "negative_binomial":
        return value + value**2 / float(loss.parameters["r"])
    return 0.0


def next_times(times: Sequence[Any], steps: int) -> list[Any]:
    """Times of the next slices; 1, 2, ... where the last ones do not tell.

    Examples
    --------
    >>> next_times(["2024-01-30", "2024-01-31"], 2), next_times([3, 5], 2)
    (['2024-02-01', '2024-02-02'], [7, 9])
    >>> next_times(["2024-11-01", "2024-12-01"], 2)
    ['2025-01-01', '2025-02-01']
    """
    known = [time for time in times if time is not None]
    if len(known) < 2:
        return list(range(1, steps + 1))
    last, before = known[-1], known[-2]
    if isinstance(last, int | float) and isinstance(before, int | float):
        return [last + (last - before) * h for h in range(1, steps + 1)]
    moments = [parse_time(str(time)) for time in known[-5:]]
    if any(moment is None for moment in moments):
        return list(range(1, steps + 1))
    end = moments[-1]
    assert end is not None
    days = isinstance(last, str) and len(last) == 10
    if say_interval([str(time) for time in known[-5:]]) == "monthly":
        months = [end.year * 12 + end.month - 1 + h for h in range(1, steps + 1)]
        found = [end.replace(year=m // 12, month=m % 12 + 1, day=1) for m in months]
    else:
        known_moments = [moment for moment in moments if moment is not None]
        gaps = sorted(b - a for a, b in itertools.pairwise(known_moments))
        found = [end + h * gaps[len(gaps) // 2] for h in range(1, steps + 1)]
    whole = days or (isinstance(last, datetime.date) and not isinstance(last, datetime.datetime))
    return [moment.date().isoformat() if whole else moment.isoformat() for moment in found]
