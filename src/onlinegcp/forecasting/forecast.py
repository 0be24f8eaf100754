"""A forecast: the weights of the next slices, with totals and cells and how sure they are."""

from __future__ import annotations

import calendar
import datetime
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from onlinegcp.checks import check_number, check_whole
from onlinegcp.drawing.text import number, parse_time, say_interval
from onlinegcp.errors import DataError
from onlinegcp.forecasting.cells import Drawn, Judged, draw, patterns_only
from onlinegcp.forecasting.recent import Recent
from onlinegcp.forecasting.seen import Seen
from onlinegcp.forecasting.smoothing import carry_on, conformal, reach
from onlinegcp.forecasting.totals import brought_to, held_instead, totals
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss
from onlinegcp.notebook.html import bars, card, table, text

FloatArray = NDArray[np.float64]

_LEAST = 4  # slices with patterns, at least, for those without to count as unknown
NOTHING = Recent()
_SHOWN = 60  # rows of a forecast that shows itself; days of two months fit
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
        Expected sum of all cells that are usually observed, and the interval around it.
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
    drawn: Drawn
    noise: FloatArray  # of single cells, over what is usual for the loss
    reach: FloatArray  # (steps,) standard errors to either side of a cell
    floor: float

    def __len__(self) -> int:
        return len(self.times)

    def dense(self, step: int = 0) -> FloatArray:
        """All cells of one of the slices, counted from 0."""
        values = KTensor(self.drawn.weights[step], self.factors).full()
        values[tuple(self.drawn.index.T)] += self.drawn.listed(step)
        return np.maximum(self.loss.mean(values), self.floor)

    def cells(self, step: int = 0, top: int = 10) -> list[dict[str, Any]]:
        """The cells that are expected to hold most, with labels and how sure they are.

        Parameters
        ----------
        step
            Which slice, counted from 0.
        top
            How many cells.
        """
        weights = self.drawn.weights[step]
        # Cells that hold most are found among the rows that hold most, and those held lately.
        kept = [np.sort(np.argsort(-np.abs(a @ weights), kind="stable")[:60]) for a in self.factors]
        grid = np.stack([part.reshape(-1) for part in np.meshgrid(*kept, indexing="ij")], axis=1)
        listed = self.drawn.listed(step)
        places = np.concatenate([self.drawn.index, grid])
        shape = tuple(len(a) for a in self.factors)
        linear = np.ravel_multi_index(tuple(places.T), shape)
        _, first = np.unique(linear, return_index=True)  # a listed cell comes before the grid's
        values = KTensor(weights, self.factors).values(places[first])
        values += np.concatenate([listed, np.zeros(len(grid))])[first]
        values = np.maximum(self.loss.mean(values), self.floor)
        best = np.argsort(-values, kind="stable")[:top]
        slope = self.loss.mean_slope or 1.0
        found = []
        for index, value in zip(places[first[best]], values[best], strict=True):
            row = np.prod([a[i] for a, i in zip(self.factors, index, strict=True)], axis=0)
            spread = slope**2 * float(row @ self.covariance[step] @ row)
            spread += float(self.noise[step] * _noise(self.loss, value))
            width = float(self.reach[step]) * math.sqrt(max(spread, 0.0))
            found.append(
                {
                    "labels": [self._label(k, int(i)) for k, i in enumerate(index)],
                    "expected": float(value),
                    "low": max(float(value) - width, self.floor),
                    "high": float(value) + width,
                }
            )
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
        head, rows = self._table()
        widths = [max(len(line[k]) for line in (head, *rows)) for k in range(3)]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in (head, *rows)
        )

    def _repr_html_(self) -> str:
        head, rows = self._table()
        body = bars(self.total, [str(time) for time in self.times])
        listed = table(head, [[text(time), *numbers] for time, *numbers in rows])
        return card("Forecast", f"{len(self)} slices", f"<br>{body}{listed}")

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows as they are shown: all of them, or the first and the last."""
        rows = [
            [str(time), number(total), f"{number(low)} to {number(high)}"]
            for time, total, low, high in zip(
                self.times, self.total, self.low, self.high, strict=True
            )
        ]
        if len(rows) > _SHOWN:
            rows[_SHOWN - 2 : -1] = [["…", "", ""]]
        return ["time", "total", f"{self.level:.0%} interval"], rows


def forecast(
    past: FloatArray,
    factors: Sequence[FloatArray],
    loss: Loss,
    steps: int,
    *,
    times: Sequence[Any] = (),
    labels: Sequence[Sequence[str] | None] | None = None,
    period: int | None = None,
    level: float = 0.8,
    recent: Recent = NOTHING,
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
        Names of the rows of each mode, None for one without.
    period
        Slices after which weights repeat; by default what the calendar says, or what fits.
    level
        Share of totals that should lie in the interval.
    recent
        The newest slices, those of the last rows of `past`: what single cells held is carried on
        as far as it would have helped lately. Losses whose expectations are no multiples of model
        values go without.
    """
    check_whole("steps", steps, 1, 10_000)
    check_number("level", level, "(0, 1)", "Write 0.8 for 80 %.")
    if period is not None:
        check_whole("period", period, 1)
    if len(past) < _LEAST:
        raise DataError(
            f"A forecast needs at least {_LEAST} slices after the warm start, but there are "
            f"{len(past)}. Learn more of them first."
        )
    spoken = [str(time) for time in times]
    if period is None:
        period = _SEASONS.get(say_interval(spoken))
    past = _since_there_were_patterns(past)
    carried = carry_on(past, int(steps), period)
    sums = np.prod([np.abs(a).sum(axis=0) for a in factors], axis=0)
    unit = 1.0 / np.where(sums > 0, sums, 1.0)
    least = 0.0 if loss.lower == 0.0 or all((a >= 0).all() for a in factors) else -np.inf
    mean = np.maximum(carried.mean, least)
    matrices = tuple(np.asarray(a, dtype=np.float64) for a in factors)
    slope = loss.mean_slope
    if slope is None:
        drawn = patterns_only(mean, len(matrices))
    else:
        columns = [a / np.maximum(np.abs(a).sum(axis=0), 1e-300) for a in matrices]
        drawn = draw(recent, past, carried, mean, columns, slope, period or carried.period)
    covariance = carried.covariance
    if slope is not None and all((a >= 0).all() for a in factors):
        alone = held_instead(recent, past, carried, int(steps), period, slope, matrices)
        if alone is not None:
            held = np.maximum(alone.mean[:, 0], 0.0) / slope
            spreads = alone.covariance[:, 0, 0] / slope**2
            drawn, mean, covariance = brought_to(held, spreads, drawn, mean)
            carried = alone
    covariance = covariance * np.outer(unit, unit)
    drawn = replace(drawn, weights=drawn.weights * unit)
    seen = Seen.lately(recent, tuple(map(len, matrices)))
    total, spread = totals(matrices, drawn, covariance, loss, seen)
    total = np.maximum(total, least)
    ends = [reach(carried.near.sum(axis=1), level), reach(carried.far.sum(axis=1), level)]
    width = np.linspace(ends[0], ends[1], steps) * np.sqrt(np.maximum(spread, 0.0))
    noise = _noise_levels(matrices, drawn, covariance, loss, recent)
    return Forecast(
        tuple(next_times(times, int(steps))),
        mean * unit,
        total,
        np.maximum(total - width, least),
        total + width,
        level,
        carried.period,
        matrices,
        None
        if labels is None
        else tuple(() if names is None else tuple(map(str, names)) for names in labels),
        loss,
        covariance,
        drawn,
        noise,
        _reach_of_cells(drawn.judged, carried.covariance, noise, loss, level),
        least,
    )


def _since_there_were_patterns(past: FloatArray) -> FloatArray:
    """The past, unknown where none of the patterns was there yet.

    Where a stream changed so much that all of its patterns are new, they had no weight before: that
    is no slice in which nothing happened, and no rise from nothing either.
    """
    there = np.flatnonzero(np.any(past != 0.0, axis=1))
    first = int(there[0]) if len(there) else 0
    if not 0 < first <= len(past) - _LEAST:
        return past
    found = np.array(past, dtype=np.float64)
    found[:first] = np.nan
    return found


def _noise(loss: Loss, value: FloatArray) -> FloatArray:
    """Variance of cells around what is expected as the loss has it; 1 where it does not say."""
    if not loss.traits.counts:
        return np.ones_like(value)
    r = loss.parameters.get("r")
    return value if r is None else value + value**2 / r


def _noise_levels(
    factors: tuple[FloatArray, ...],
    drawn: Drawn,
    covariance: FloatArray,
    loss: Loss,
    recent: Recent,
) -> FloatArray:
    """By how much cells vary more than the loss says, or by how much where it does not say."""
    if drawn.missed is None:
        return np.full(len(covariance), 1.0 if loss.traits.counts else 0.0)
    slope = float(loss.mean(np.array(1.0)))
    gram = np.prod([np.einsum("ir,is->rs", a, a) for a in factors], axis=0)
    left = slope**2 * (drawn.missed - np.einsum("hrs,rs->h", covariance, gram))
    # What the loss has for all cells, as they were lately.
    size = math.prod(map(len, factors))
    usual = np.mean(
        [
            size
            if x.whole and not loss.traits.counts
            else _noise(loss, x.value.astype(float)).sum()
            for x in recent.slices
        ]
    )
    return np.asarray(np.maximum(left, 0.0) / max(float(usual), 1e-300))


def _reach_of_cells(
    judged: tuple[Judged, ...],
    covariance: FloatArray,
    noise: FloatArray,
    loss: Loss,
    level: float,
) -> FloatArray:
    """How many standard errors to either side hold a share of the largest cells, by step."""
    steps = len(noise)
    normal = float(ndtri(0.5 + level / 2))
    if not judged or loss.mean_slope is None:
        return np.full(steps, normal)
    unit, ends = loss.mean_slope, []
    for cells, step in zip(judged, (0, steps - 1), strict=True):
        spread = unit**2 * np.einsum("nr,rs,ns->n", cells.rows, covariance[step], cells.rows)
        spread += noise[step] * _noise(loss, np.maximum(unit * cells.values, 0.0))
        sizes = unit * np.abs(cells.errors) / np.sqrt(np.maximum(spread, 1e-300))
        ends.append(conformal(sizes, cells.slices / (step + 1), level))
    return np.asarray(np.linspace(ends[0], ends[1], steps))


def next_times(times: Sequence[Any], steps: int) -> list[Any]:
    """Times of the next slices; 1, 2, ... where the last ones do not tell.

    Examples
    --------
    >>> next_times(["2024-01-30", "2024-01-31"], 2), next_times([3, 5], 2)
    (['2024-02-01', '2024-02-02'], [7, 9])
    >>> next_times(["2024-11-01", "2024-12-01"], 2)
    ['2025-01-01', '2025-02-01']
    >>> next_times(["2022-01-01", "2023-01-01"], 2), next_times(["2024-04-30", "2024-05-31"], 1)
    (['2024-01-01', '2025-01-01'], ['2024-06-30'])
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
    known_moments = [moment for moment in moments if moment is not None]
    found = _by_months(known_moments, steps)
    if found is None:
        gaps = sorted(b - a for a, b in itertools.pairwise(known_moments))
        found = [end + h * gaps[len(gaps) // 2] for h in range(1, steps + 1)]
    whole = days or (isinstance(last, datetime.date) and not isinstance(last, datetime.datetime))
    return [moment.date().isoformat() if whole else moment.isoformat() for moment in found]


def _by_months(moments: Sequence[datetime.datetime], steps: int) -> list[datetime.datetime] | None:
    """The next moments where the last ones lie whole months apart: quarters and years, too."""
    last = [calendar.monthrange(moment.year, moment.month)[1] for moment in moments]
    closing = all(moment.day == day for moment, day in zip(moments, last, strict=True))
    if not closing and len({moment.day for moment in moments}) > 1:
        return None
    months = [12 * moment.year + moment.month - 1 for moment in moments]
    gaps = sorted(b - a for a, b in itertools.pairwise(months))
    if gaps[0] < 1:
        return None
    found = []
    for h in range(1, steps + 1):
        year, month = divmod(months[-1] + h * gaps[len(gaps) // 2], 12)
        day = calendar.monthrange(year, month + 1)[1]
        found.append(
            moments[-1].replace(
                year=year, month=month + 1, day=day if closing else min(day, moments[-1].day)
            )
        )
    return found
