"""Shares and calendars of components from all lines of a run at once: what a digest must equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onlinegcp.drawing.profiles import FloatArray, ModeProfile, TimeProfile, matrix, scale
from onlinegcp.drawing.text import parse_time, say_interval
from onlinegcp.report.week import Days
from onlinegcp.report.words import Pattern, in_words, life_words
from onlinegcp.runlog import RunView


def activations(view: RunView) -> FloatArray:
    """How much each component adds to each slice, (slices, rank)."""
    return matrix(view.steps, "weights", view.rank) * scale(view.factors)


def strengths(active: FloatArray) -> FloatArray:
    """Share of each component in all slices together, (rank,); sums to 1 unless all are 0."""
    if not active.size:
        return np.zeros(active.shape[1])
    size = np.nansum(np.abs(active), axis=0)
    total = size.sum()
    return np.asarray(size / total if total > 0 else size)


def time_profile(times: Sequence[Any], active: FloatArray) -> TimeProfile:
    """The calendar of the activations.

    Parameters
    ----------
    times
        Time of each slice.
    active
        From `activations`.
    """
    moments = [parse_time(time) for time in times]
    interval = say_interval(times)
    known = [m for m in moments if m is not None]
    if len(known) < len(moments) or not known or interval in ("", "yearly"):
        return TimeProfile()
    days = (max(known) - min(known)).days
    weekday = month = hour = None
    if interval in ("hourly", "daily") and days >= 14:
        weekday = _means([m.weekday() for m in known], active, 7)
    if days >= 270:
        month = _means([m.month - 1 for m in known], active, 12)
    if interval == "hourly" and days >= 3:
        hour = _means([m.hour for m in known], active, 24)
    return TimeProfile(weekday, month, hour)


def _means(group: Sequence[int], active: FloatArray, length: int) -> FloatArray:
    """Mean per group over the mean of all, so that 1 is usual."""
    codes, size = np.array(group), np.nan_to_num(np.abs(active))
    count = np.bincount(codes, minlength=length).astype(float)
    sums = np.stack([np.bincount(codes, column, length) for column in size.T], axis=1)
    count[count == 0] = np.nan
    mean = size.mean(axis=0)
    return np.asarray(sums / count[:, None] / np.where(mean > 0, mean, np.nan))


def describe(
    modes: Sequence[ModeProfile], active: FloatArray, times: Sequence[Any]
) -> list[Pattern]:
    """Components in words, strongest first.

    Parameters
    ----------
    modes
        Their columns along each mode.
    active
        (slices, rank) what each adds to each slice.
    times
        Time of each slice.
    """
    lives = [life_words(column, times) for column in active.T]
    days = Days.of(times, active)
    return in_words(modes, strengths(active), time_profile(times, active), lives, days)
