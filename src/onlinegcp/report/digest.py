"""The lines of a run told in bounded space: all that report and live page need of them.

Whatever the number of slices, memory is that of a few thousand points (`thinning`), of the slices
that keep their details, of the newest in full, and of sums. A line is taken once and let go.
"""

from __future__ import annotations

import dataclasses
import os
from collections import deque
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.drawing.profiles import TimeProfile, matrix, scale
from onlinegcp.drawing.text import parse_time, say_interval
from onlinegcp.errors import DataError
from onlinegcp.losses import LOSS_NAMES, Loss, Traits, get_loss
from onlinegcp.losses.registry import from_dict
from onlinegcp.report.thinning import LOSSES, Point, Thinned, numbers, padded, stacked
from onlinegcp.runlog import (
    COUNTS,
    Details,
    Number,
    RunView,
    Step,
    StoredSteps,
    anomaly_of,
    read_head,
)

FloatArray = NDArray[np.float64]

# Points a page draws per series at most, numbers per matrix, slices whose cells it keeps, and the
# newest slices it has in full: with 50 components together under 5 MB.
MOST_POINTS = 6000
MOST_NUMBERS = 300_000
MOST_DETAILS = 400
NEWEST = 500
NEWEST_DETAILS = 30
_AT_ONCE = 128  # lines that are summed together
_FIRST_TIMES = 2000  # enough to know how far apart slices are
_MOST_REGIMES = 50
_GROUPS = {"hour": 24, "weekday": 7, "month": 12}


@final
class Digest:
    """A run without its lines.

    Parameters
    ----------
    view
        The run; its lines, if it has any, are taken.

    Attributes
    ----------
    view : RunView
        Settings, factors and labels, without lines.
    series : Thinned
        All slices, several in one point where they are many.
    newest : deque of Step
        The last slices, each whole.
    count, scored, flagged, warm, held, births, deaths, merges : int
        How many there are.
    events, seconds : float
        Sums over all slices.
    first_time : Any
        Time of the first slice.
    regimes : deque of (Step, Step)
        When many patterns changed at once: the slice that noticed, and the one it began with.
    n_regimes : int
        How often that was.
    """

    def __init__(self, view: RunView) -> None:
        self.view = dataclasses.replace(view, steps=[])
        name = loss_name(view)
        self.traits = get_loss(name).traits if name in LOSS_NAMES else Traits()
        counted = self.traits.counts or self.traits.binary
        self.divisor: Number = "total" if counted else "norm_squared"
        self.series = Thinned(MOST_POINTS)
        self.newest: deque[Step] = deque(maxlen=NEWEST)
        self.count = self.scored = self.flagged = self.warm = self.held = 0
        self.births = self.deaths = self.merges = 0
        self.events = self.seconds = 0.0
        self.first_time: Any = None
        self.regimes: deque[tuple[Step, Step]] = deque(maxlen=_MOST_REGIMES)
        self.n_regimes = 0
        self._details = Details(MOST_DETAILS, NEWEST_DETAILS)
        self._pending: list[Step] = []
        self._times: list[Any] = []
        self._span: list[Any] = [None, None]
        self._dated = True
        self._held = np.zeros(0)  # sum of absolute weights, by component
        self._moved = np.zeros(0)  # sum of drifts
        self._furthest: list[tuple[float, Any]] = []  # largest drift, and when
        self._calendar = {name: (np.zeros((n, 0)), np.zeros(n)) for name, n in _GROUPS.items()}
        self.fit = FitSums()
        for step in view.steps:
            anomaly = step.get("anomaly")
            # A copy: lines that are not odd lose their details.
            self.add({**step, "anomaly": {**anomaly} if anomaly else None})
        self.settle()

    # ---- taking lines

    def add(self, step: Step) -> None:
        """One more line, in order, which is the digest's from now on."""
        self._details.take(step)
        self._pending.append(step)
        if len(self._pending) == _AT_ONCE:
            self.settle()

    def settle(self) -> None:
        """Sum up the lines added last; to be called before anything is asked."""
        steps, self._pending = self._pending, []
        if not steps:
            return
        if not self.count:
            self.first_time = steps[0].get("time")
            rank = max(len(step.get("weights") or ()) for step in steps)
            self.series = Thinned(min(MOST_POINTS, MOST_NUMBERS // max(rank, 1)))
        self._times += [step.get("time") for step in steps[: _FIRST_TIMES - len(self._times)]]
        self.count += len(steps)
        self.series.add(steps, self.divisor)
        self.newest.extend(steps)
        self._add_counts(steps)
        self._add_weights(steps)
        self.fit.add(steps, self.divisor)

    def _add_counts(self, steps: Sequence[Step]) -> None:
        for step in steps:
            anomaly = anomaly_of(step)
            self.scored += bool(anomaly)
            self.flagged += bool(anomaly.get("flagged"))
            self.warm += bool(step.get("warm"))
            self.held += bool(step.get("held"))
            self.events += step.get("total") or 0.0
            self.seconds += step.get("seconds") or 0.0
            for name in COUNTS:
                if step.get(name):
                    setattr(self, name, getattr(self, name) + step[name])
            if step.get("regime"):
                self.n_regimes += 1
                since = step.get("regime_since")
                began = (s for s in reversed(self.newest) if s.get("number") == since)
                self.regimes.append((step, next(began, step)))

    def _add_weights(self, steps: Sequence[Step]) -> None:
        rank = max(len(step.get("weights") or ()) for step in steps)
        size = np.nan_to_num(np.abs(matrix(steps, "weights", rank)))
        self._held = _added(self._held, size.sum(axis=0))
        drift = np.nan_to_num(matrix(steps, "drift", rank))
        self._moved = _added(self._moved, drift.sum(axis=0))
        self._furthest += [(0.0, None)] * (rank - len(self._furthest))
        for r in np.flatnonzero(drift.max(axis=0, initial=0.0) > 0.0):
            at = int(drift[:, r].argmax())
            if drift[at, r] > self._furthest[r][0]:
                self._furthest[r] = float(drift[at, r]), steps[at].get("time")
        moments = [parse_time(step.get("time")) for step in steps] if self._dated else [None]
        if None in moments:
            self._dated = False
            return
        known = [moment for moment in moments if moment is not None]
        first, last = self._span
        self._span = [
            min(known) if first is None else min(first, *known),
            max(known) if last is None else max(last, *known),
        ]
        codes = {
            "hour": [moment.hour for moment in known],
            "weekday": [moment.weekday() for moment in known],
            "month": [moment.month - 1 for moment in known],
        }
        for name, groups in codes.items():
            sums, count = self._calendar[name]
            if sums.shape[1] < rank:
                sums = np.pad(sums, ((0, 0), (0, rank - sums.shape[1])))
            np.add.at(sums[:, :rank], groups, size)
            self._calendar[name] = sums, count + np.bincount(groups, minlength=len(count))

    # ---- what is known

    @property
    def rank(self) -> int:
        """Number of components."""
        return self.view.rank

    @property
    def unit(self) -> str:
        """What losses are divided by: "event" or "squared norm"."""
        return "event" if self.divisor == "total" else "squared norm"

    @property
    def last_time(self) -> Any:
        """Time of the last slice."""
        return self.newest[-1].get("time") if self.newest else None

    @property
    def interval(self) -> str:
        """How far apart slices are, as `say_interval` calls it."""
        return say_interval(self._times)

    @property
    def odd(self) -> list[Step]:
        """The oddest slices with their details, alarms before others."""
        return self._details.odd

    @property
    def alarms(self) -> list[Step]:
        """The newest alarms with their details, the newest first."""
        return self._details.alarms

    @property
    def held_in_all(self) -> FloatArray:
        """What each component added to all slices together, (rank,)."""
        return padded(self._held, max(self.rank, len(self._held)))[: self.rank] * self.scale

    @property
    def shares(self) -> FloatArray:
        """Share of each component in all slices together, (rank,); sums to 1 unless all are 0."""
        size = self.held_in_all
        total = size.sum()
        return np.asarray(size / total if total > 0 else size)

    @property
    def moved(self) -> FloatArray:
        """Sum of the drifts of each component, (rank,)."""
        return padded(self._moved, max(self.rank, len(self._moved)))[: self.rank]

    def furthest(self, r: int) -> tuple[float, Any]:
        """The largest drift of a component, and when it was."""
        return self._furthest[r] if r < len(self._furthest) else (0.0, None)

    @property
    def calendar(self) -> TimeProfile:
        """How strong each component is by weekday, month or hour, relative to its mean."""
        if not self._dated or not self.count or self.interval in ("", "yearly"):
            return TimeProfile()
        days = (self._span[1] - self._span[0]).days
        weekday = month = hour = None
        if self.interval in ("hourly", "daily") and days >= 14:
            weekday = self._profile("weekday")
        if days >= 270:
            month = self._profile("month")
        if self.interval == "hourly" and days >= 3:
            hour = self._profile("hour")
        return TimeProfile(weekday, month, hour)

    def activations(self, points: Sequence[Point]) -> FloatArray:
        """What each component adds to a slice of each point on average, (points, rank)."""
        found = stacked([p.size for p in points], self.rank)
        return np.asarray(found * self.scale)

    @property
    def scale(self) -> FloatArray:
        """What a weight of 1 adds to the total of a slice, (rank,), or to its norm."""
        if not self.view.factors:
            return np.zeros(self.rank)
        return np.asarray(np.abs(scale(self.view.factors)) * self._slope)

    @property
    def _slope(self) -> float:
        """What a model value of 1 means in data, where that is a multiple of it; 1 otherwise."""
        try:
            mean = loss_of(self.view).mean(np.array([0.0, 1.0, 2.0]))
        except (DataError, TypeError, ValueError):  # a loss of the caller's
            return 1.0
        straight = mean[0] == 0.0 and np.isclose(mean[2], 2.0 * mean[1])
        return float(mean[1]) if straight else 1.0

    def _profile(self, name: str) -> FloatArray:
        sums, count = self._calendar[name]
        mean = sums.sum(axis=0) / count.sum()
        found = (
            sums / np.where(count > 0, count, np.nan)[:, None] / np.where(mean > 0, mean, np.nan)
        )
        rank = max(self.rank, found.shape[1])
        return np.pad(found, ((0, 0), (0, rank - found.shape[1])))[:, : self.rank]

    def with_model(self, view: RunView) -> None:
        """Go on with other factors and labels."""
        self.view = dataclasses.replace(view, steps=[])


@final
class FitSums:
    """Sums over the slices that were predicted before they were learned.

    Attributes
    ----------
    count : int
        How many they are.
    loss, size, even_counts, even_binary : float
        Their losses, what these are divided by, and what one rate for all cells would lose.
    means : dict
        By loss: the sum of its quotients, and how many are in it.
    """

    def __init__(self) -> None:
        self.count = 0
        self.loss = self.size = self.even_counts = self.even_binary = 0.0
        self.means = {name: [0.0, 0] for name in LOSSES}

    def add(self, steps: Sequence[Step], divisor: Number) -> None:
        """More slices."""
        size, before = numbers(steps, divisor), numbers(steps, "prequential")
        good = np.isfinite(before) & np.isfinite(size) & (size > 0)
        if not good.any():
            return
        n, cells = size[good], numbers(steps, "n_observed")[good]
        self.count += int(good.sum())
        self.loss += float(before[good].sum())
        self.size += float(n.sum())
        with np.errstate(invalid="ignore", divide="ignore"):
            self.even_counts += float((n - n * np.log(n / cells)).sum())
            rate = np.clip(n / cells, 1e-12, 1 - 1e-12)
            self.even_binary -= float((n * np.log(rate) + (cells - n) * np.log1p(-rate)).sum())
        for name, sums in self.means.items():
            quotients = numbers(steps, name)[good] / n
            known = np.isfinite(quotients)
            sums[0] += float(quotients[known].sum())
            sums[1] += int(known.sum())


def read_digest(path: str | os.PathLike[str], final: FloatArray | None = None) -> Digest:
    """A run directory without its lines; it may be written to meanwhile.

    Parameters
    ----------
    path
        The directory.
    final
        Loss of each slice under the factors the run ended with, if known; lines that came since
        are left out.
    """
    found = Digest(read_head(path))
    for number, step in enumerate(StoredSteps(path)):
        if final is not None:
            if number == len(final):
                break
            step["global"] = float(final[number])
        found.add(step)
    found.settle()
    return found


def as_digest(run: RunView | Digest) -> Digest:
    """The same without lines, if it has any."""
    return run if isinstance(run, Digest) else Digest(run)


def loss_name(view: RunView) -> str:
    """Name of the loss the run was fitted with."""
    given = (view.info.get("model") or {}).get("parameters", {}).get("loss", "gaussian")
    if isinstance(given, dict):
        inner = given.get("loss", given)
        given = inner.get("name", "own") if isinstance(inner, dict) else given.get("own_loss")
    return str(given)


def loss_of(view: RunView) -> Loss:
    """The loss of a run; methods without one measure squares."""
    stored = ((view.info.get("model") or {}).get("parameters") or {}).get("loss", "gaussian")
    if isinstance(stored, dict) and "own_loss" in stored:
        raise DataError(
            "A loss of the package is needed to forecast a run from the command line, but this one "
            f"has {stored['own_loss']!r}. Load its model in Python and use model.forecast."
        )
    return from_dict(stored["loss"]) if isinstance(stored, dict) else get_loss(stored)


def _added(sums: FloatArray, more: FloatArray) -> FloatArray:
    rank = max(len(sums), len(more))
    return padded(sums, rank) + padded(more, rank)
