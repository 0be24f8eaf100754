"""Readings at a steady pace whose clocks do not agree to the second.

Each instrument reports every five minutes or so, a little late, and not when the others do: no two
rows share a time, yet rows are measurements and no events, which come when they like.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from onlinegcp.events.time_column import Ticks
from onlinegcp.planning.columns import Codes, Column
from onlinegcp.planning.when import STEPS, When

_ROWS = 30_000  # that are looked at
_ENOUGH = 20  # readings of each instrument, on average
_NEAR = 0.25  # of a step, that a reading may be early or late
_STEADY, _WHOLE = 0.95, 0.7  # shares of readings that come after whole steps, and after one
_UNITS = {"ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6}


def steady_pace(labels: Sequence[Column], when: When) -> tuple[tuple[str, ...], str] | None:
    """The labels that tell instruments apart, and the step they are read at; None if none do.

    Parameters
    ----------
    labels
        Columns that could tell them apart.
    when
        The time column.
    """
    if when.plain:
        return None
    ticks = when.ticks[:_ROWS]
    codes = {column.name: column.codes[:_ROWS] for column in labels[:8]}
    for size in range(4):
        for names in itertools.combinations(codes, size):
            key = np.zeros(len(ticks), dtype=np.int64)
            for name in names:
                joined = key * (int(codes[name].max()) + 2) + codes[name]
                key = np.unique(joined, return_inverse=True)[1].reshape(-1).astype(np.int64)
            if (step := _step(ticks, key)) is not None:
                return names, step
    return None


def _step(ticks: Ticks, key: Codes) -> str | None:
    """The step at which the rows of each key come, if they do."""
    n_keys = int(key.max()) + 1
    if len(key) < _ENOUGH * n_keys:
        return None
    order = np.lexsort((ticks, key))
    gaps = np.diff(ticks[order])[np.diff(key[order]) == 0]
    usual = float(np.median(gaps))
    if usual <= 0.0:
        return None
    steps = gaps / usual
    whole = np.round(steps)
    near = (np.abs(steps - whole) <= _NEAR) & (whole >= 1.0)
    if near.mean() < _STEADY or (whole[near] == 1.0).mean() < _WHOLE:
        return None
    # A step of clocks that holds one reading, or two where the pace is none that clocks have.
    lengths = {every: _length(every) for every in STEPS}
    return next((e for e, length in lengths.items() if length and length >= 0.9 * usual), None)


def _length(every: str) -> int:
    """Microseconds of a step; 0 for days and longer ones, at which clocks agree."""
    unit = every.lstrip("0123456789")
    return int(every.removesuffix(unit)) * _UNITS.get(unit, 0)
