"""The lines of a run told in bounded space: all that report and live page need of them.

Whatever the number of slices, memory is that of a few thousand points (`thinning`), of the slices
that keep their details, of the newest in full, and of sums. A line is taken once and let go.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.digest.batch import Batch
from onlinegcp.digest.by_component import padded, stacked
from onlinegcp.digest.sums import FitSums, WeightSums
from onlinegcp.digest.thinning import Point, Thinned
from onlinegcp.digest.which_loss import loss_name, loss_of
from onlinegcp.drawing.profiles import TimeProfile, scale
from onlinegcp.drawing.text import say_interval
from onlinegcp.errors import DataError
from onlinegcp.losses import LOSS_NAMES, Traits, get_loss
from onlinegcp.runlog import COUNTS, Details, Number, RunView, Step, anomaly_of, tell_in

FloatArray = NDArray[np.float64]

# Points a page draws per series at most, numbers per matrix, slices whose cells it keeps, and the
# newest slices it has in full: with 50 components together under 5 MB.
MOST_POINTS = 6000
MOST_NUMBERS = 300_000
MOST_DETAILS = 400
NEWEST = 500
NEWEST_DETAILS = 30
MOST_REGIMES = 50
_AT_ONCE = 128  # lines that are summed together
_FIRST_TIMES = 2000  # enough to know how far apart slices are


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
    weights : WeightSums
        What each component held, and how far it moved.
    fit : FitSums
        How well slices were predicted.
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
        self.regimes: deque[tuple[Step, Step]] = deque(maxlen=MOST_REGIMES)
        self.n_regimes = 0
        self.details = Details(MOST_DETAILS, NEWEST_DETAILS)
        self.times: list[Any] = []  # of the first slices
        self._pending: list[Step] = []
        self.weights = WeightSums()
        self.fit = FitSums()
        for step in view.steps:
            anomaly = step.get("anomaly")
            # A copy: lines that are not odd lose their details. All are told in the components
            # of the last one already.
            self.add({**step, "order": None, "anomaly": {**anomaly} if anomaly else None})
        self.settle()

    # ---- taking lines

    def add(self, step: Step) -> None:
        """One more line, in order, which is the digest's from now on."""
        if step.get("order"):
            self.reorder(step["order"] or ())
        self.details.take(step)
        self._pending.append(step)
        if len(self._pending) == _AT_ONCE:
            self.settle()

    def reorder(self, order: Sequence[int]) -> None:
        """Tell what came so far in the components there are after a change of the rank.

        Parameters
        ----------
        order
            As a line has it: place of each component before, -1 for a new one.
        """
        self.settle()
        self.series.reorder(order)
        self.weights.reorder(order)
        kept = (
            *self.newest,
            *self.details.odd,
            *self.alarms,
            *(s for p in self.regimes for s in p),
        )
        for step in {id(step): step for step in kept}.values():  # each once
            tell_in(step, order)

    def settle(self) -> None:
        """Sum up the lines added last; to be called before anything is asked."""
        steps, self._pending = self._pending, []
        if not steps:
            return
        batch = Batch(steps, self.divisor)
        if not self.count:
            self.first_time = steps[0].get("time")
            self.series = Thinned(min(MOST_POINTS, MOST_NUMBERS // max(batch.rank, 1)))
        self.times += [step.get("time") for step in steps[: _FIRST_TIMES - len(self.times)]]
        self.count += len(steps)
        self.series.add(batch)
        self.newest.extend(steps)
        self._add_counts(steps)
        self.weights.add(batch)
        self.fit.add(batch)

    def _add_counts(self, steps: Sequence[Step]) -> None:
        for step in steps:
            anomaly = anomaly_of(step)
            if anomaly:
                self.scored += 1
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
        return say_interval(self.times)

    @property
    def odd(self) -> list[Step]:
        """The oddest slices with their details, alarms before others."""
        return self.details.odd

    @property
    def alarms(self) -> list[Step]:
        """The newest alarms with their details, the newest first."""
        return self.details.alarms

    @property
    def held_in_all(self) -> FloatArray:
        """What each component added to all slices together, (rank,)."""
        return padded(self.weights.held, self.rank)[: self.rank] * self.scale

    @property
    def shares(self) -> FloatArray:
        """Share of each component in all slices together, (rank,); sums to 1 unless all are 0."""
        size = self.held_in_all
        total = size.sum()
        return np.asarray(size / total if total > 0 else size)

    @property
    def moved(self) -> FloatArray:
        """Sum of the drifts of each component, (rank,)."""
        return padded(self.weights.moved, self.rank)[: self.rank]

    def furthest(self, r: int) -> tuple[float, Any]:
        """The largest drift of a component, and when it was."""
        far = self.weights.furthest
        return far[r] if r < len(far) else (0.0, None)

    @property
    def calendar(self) -> TimeProfile:
        """How strong each component is by weekday, month or hour, relative to its mean."""
        first, last = self.weights.span
        unknown = not self.weights.dated or first is None or last is None
        if unknown or self.interval not in ("hourly", "daily", "weekly", "monthly", "quarterly"):
            return TimeProfile()
        days = (last - first).days  # type: ignore[operator]
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
            slope = loss_of(self.view).mean_slope
        except (DataError, TypeError, ValueError):  # a loss of the caller's
            return 1.0
        return 1.0 if slope is None else slope

    def _profile(self, name: str) -> FloatArray:
        sums, count = self.weights.calendar[name]
        mean = sums.sum(axis=0) / count.sum()
        found = (
            sums / np.where(count > 0, count, np.nan)[:, None] / np.where(mean > 0, mean, np.nan)
        )
        rank = max(self.rank, found.shape[1])
        return np.pad(found, ((0, 0), (0, rank - found.shape[1])))[:, : self.rank]

    def with_model(self, view: RunView) -> None:
        """Go on with other factors and labels."""
        self.view = dataclasses.replace(view, steps=[])


def as_digest(run: RunView | Digest) -> Digest:
    """The same without lines, if it has any."""
    return run if isinstance(run, Digest) else Digest(run)
