"""Rows of counts against their own past: each has a share of the total, a season and a spread.

A row's forecast is its share of the slice's total times its season, and times what usually is left
of how far it was off in the slice before. The total is that of the rows that are as usual, so that
one row's collapse is not every other row's rise. The spread is learned in both directions: rows
that vary more than Poisson get the size of a negative binomial, rows that vary less a factor below
one; and at times that are more restless than others, such as nights, all rows vary more than that.
A row never seen has forecast zero, give or take half an event in all the past. What a row
shows beyond three standard deviations is not learned, unless it stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.shares import (
    DEVIATION,
    EVENTS,
    EXPOSURE,
    FIELDS,
    FORECAST,
    HALF,
    LATELY,
    ODD,
    SURPRISE,
    criticism,
    extremes,
    judge_rows,
    learn_slice,
    row_shares,
    settle_rows,
    unrest_of,
    usual_total,
)

FloatArray: TypeAlias = NDArray[np.float64]
Range: TypeAlias = tuple[float, float, float]  # low end, middle, high end

MEMORY = 20.0  # slices a share is the average of
SEASONS = 12.0  # slices of the same phase its season is the average of
INHERITED = 2.0  # slices that a shorter season counts for in each phase of a longer one
SPREAD_MEMORY = 60.0  # slices its spread is the average of
LOUDEST = 3.0  # times the usual total that a slice may count for
SPECIAL = 2  # kinds of special days beside ordinary ones
USUAL = 2.0  # standard deviations that a usual range reaches on either side
LEAST = 4  # slices before a row is judged
LEAST_USUAL = 0.05  # part of the events that rows which are as usual must hold
HEAVY = 20.0  # events of a row that says by itself how large a slice is
SAME = 0.5  # odd things that two stories may differ by and still blame as many
JUDGED = 0.1  # expected events of a row, or pair, that counts among those of which one is odd
_NONE = np.zeros((2, 0))


@dataclass(frozen=True)
class Judged:
    """Rows of one slice against their forecasts.

    Attributes
    ----------
    observed
        Sums of the rows.
    compared
        (3, n), whose parts are `forecast`, `deviation` and `surprise`: what was expected, the
        standard deviation of the difference, and the signed standard normal quantile of every row,
        negative where there was less.
    total
        What the known rows would hold in all, as those that are as usual tell it.
    n_known
        Rows seen before; those behind are new.
    ready
        Whether there was enough of a past.
    told_extremes
        What `extremes` would find, where that is known.
    """

    observed: FloatArray
    compared: FloatArray
    total: float
    n_known: int
    ready: bool
    told_extremes: tuple[float, float, int] | None = None

    @property
    def forecast(self) -> FloatArray:
        row: FloatArray = self.compared[FORECAST]
        return row

    @property
    def deviation(self) -> FloatArray:
        row: FloatArray = self.compared[DEVIATION]
        return row

    @property
    def surprise(self) -> FloatArray:
        row: FloatArray = self.compared[SURPRISE]
        return row

    @cached_property
    def extremes(self) -> tuple[float, float, int]:
        """Largest surprise upwards and downwards, the latter negative, and how many are judged."""
        if self.told_extremes is not None:
            return self.told_extremes
        found: tuple[float, float, int] = extremes(self.compared, JUDGED)
        return found

    @property
    def any_odd(self) -> bool:
        """Whether some row is odd."""
        largest, smallest, _ = self.extremes
        return largest >= ODD or smallest <= -ODD


@final
class RowShares:
    """Shares of the rows of one mode, or of pairs of rows.

    Parameters
    ----------
    period
        Slices after which shares repeat; 1 for none.
    fields
        Numbers that are kept of a row, as the kernels have them.
    """

    def __init__(self, period: int = 1, fields: int = FIELDS) -> None:
        self.period = period
        self.n_slices = 0
        self.whole = 0.0  # exposure of a row that was there from the start
        self.newcomer = HALF  # events that a new row is given
        self.pool = np.zeros(3)  # squares, noise and sizes of all rows
        self.rows = np.zeros((fields, 0))
        self.season = np.zeros((period if period > 1 else 0, 2, 0))
        self.special = np.zeros((SPECIAL, 2, 0))
        self.unrest = np.zeros((3, period))  # as `kernels.unrest` has it

    def __len__(self) -> int:
        return self.rows.shape[1]

    @property
    def events(self) -> FloatArray:
        row: FloatArray = self.rows[EVENTS]
        return row

    def judge(
        self,
        sums: FloatArray,
        *,
        special: int = 0,
        total: float | None = None,
        expected: Sequence[Range] = (),
    ) -> Judged:
        """Compare row sums with their forecasts; nothing is changed.

        Parameters
        ----------
        sums
            At least as many as there are rows; those behind are new. NaN where a row was not
            observed: it is taken to be as the others, of which the total must be found.
        special
            Kind of special day, 0 for none.
        total
            The total to expect shares of; by default found from the rows.
        expected
            Low end, middle and high end of each forecast of the total there is.
        """
        n_known, n = len(self), len(sums)
        share, out, phase, day = np.empty(n), np.zeros((3, n)), self._phase(), self._day(special)
        # Of nothing there is no share.
        newcomer = self.newcomer / self.whole if self.whole > 0.0 else 0.0
        ready = self.n_slices >= LEAST and n_known > 0
        if ready and total is not None:
            found = judge_rows(
                self.rows, phase, day, newcomer, self.pool, self.unrest,
                self.n_slices % self.period, share, sums, total, JUDGED, out,
            )  # fmt: skip
            return Judged(sums, out, total, n_known, True, found)
        row_shares(self.rows, phase, day, newcomer, share)
        whole = float(sums.sum())
        if not math.isfinite(whole):
            hidden = np.isnan(sums)
            scale = float(np.nansum(sums)) / max(float(share[~hidden].sum()), 1e-12)
            sums = np.where(hidden, share * scale, sums)
            whole = float(sums.sum())
        if ready:
            total = self._compare(sums, share, whole, expected, out)
            return Judged(sums, out, total, n_known, True)
        total = whole if total is None else total
        out[FORECAST] = share * total
        out[DEVIATION] = np.sqrt(out[FORECAST] + 0.25)
        return Judged(sums, out, total, n_known, False)

    def _compare(
        self,
        sums: FloatArray,
        share: FloatArray,
        everything: float,
        ahead: Sequence[Range],
        out: FloatArray,
    ) -> float:
        """Compare rows given the total that those as usual tell, and return that total.

        Half an event for every row that was ever seen would be most of the events where labels
        come and go by the thousand. So the total is told by shares without it, and it is what
        these add up to: exposures stay in events, however many rows there are.

        Where rows or the total are odd there are several stories: the total is what most of the
        events say, or what was forecast. The one with fewer odd things is told, in which what is
        a little odd counts a little: of four rows one that fell is less than three that rose while
        all fell.
        """
        n_known, events = len(self), self.events
        unrest = float(unrest_of(self.unrest, self.n_slices % self.period))
        bare = share[:n_known] * (events / (events + HALF))
        parts, known = float(bare.sum()), sums[:n_known]
        if parts <= 0.0:
            bare = share[:n_known]
            parts = float(bare.sum())

        def settle(
            total: float, rounds: int, out: FloatArray, doubt: float = 0.0
        ) -> tuple[float, float, float]:
            """The total of rows that are as usual; odd things, rows or it; the oddest row."""
            total, odd, oddest = settle_rows(
                self.rows, self.pool, unrest, share, bare, sums, total, rounds, doubt, out
            )
            off = bool(ahead) and not any(_within(ahead, total * parts))
            return total, odd + off, oddest

        whole = everything if n_known == len(sums) else float(known.sum())
        usual, told, oddest = settle(usual_total(known, bare, whole, parts, HEAVY), 2, out)
        plain = whole / parts
        if ahead and usual < LEAST_USUAL * plain:
            middle = _nearest(ahead, usual * parts)[1]
            far, near = (abs(math.log(t * parts / middle)) for t in (max(usual, 1e-9), plain))
            if far > near:  # no burst, but rows that take turns, such as days of the week
                usual, told, oddest = settle(plain, 0, out)
        forecast = False
        if oddest >= ODD or not all(_within(ahead, usual * parts)):
            for low, middle, high in dict.fromkeys(ahead):
                rival = np.zeros_like(out)
                doubt = 0.5 * (high - low) / (USUAL * middle)
                other, things, _ = settle(middle / parts, 2, rival, doubt)
                # Of equal ones that which blames no row for what it always does.
                held = (np.abs(out[SURPRISE]) >= ODD) & (np.abs(rival[SURPRISE]) < ODD)
                if things < told - SAME or (things < told + SAME and held.any()):
                    out[:], usual, told, forecast = rival, other, things, True
        if not forecast:  # a row with more than half of everything says nothing that others do not
            out[SURPRISE, out[FORECAST] > 0.5 * max(usual * parts, everything)] = 0.0
        return usual * parts

    def learn(self, seen: Judged, *, special: int = 0, n_rows: int | None = None) -> None:
        """Remember a judged slice; what is odd about a row is left out until it has stayed.

        Parameters
        ----------
        seen
            The slice, judged.
        special
            As in `judge`.
        n_rows
            Rows that are remembered, of those judged the first; all by default.
        """
        self._grow(len(seen.observed) if n_rows is None else n_rows)
        keep = 1.0 - 1.0 / min(MEMORY, self.n_slices + 1.5)
        cycles = self.n_slices // self.period
        keeps = (
            keep,
            1.0 - 1.0 / min(SEASONS, cycles + 1.5),
            1.0 - 1.0 / min(SPREAD_MEMORY, self.n_slices + 1.5),
        )
        day = self._day(special)
        weight = 1.0
        if self.n_slices >= LEAST:
            usual = self.whole / min(MEMORY, self.n_slices)
            weight = min(1.0, LOUDEST * usual / max(seen.total, 1e-12)) if usual > 0.0 else 1.0
        learn_slice(
            self.rows, self._phase(), day, self.pool, seen.observed, seen.compared,
            seen.n_known, seen.total, weight, seen.ready, keeps, cycles == 0,
            self.unrest, self.n_slices % self.period,
        )  # fmt: skip
        if not day.size:
            self.whole = keep * self.whole + weight * seen.total
        self.n_slices += 1

    def skip(self) -> None:
        """Let a slice pass that nothing was observed of, so that the phase is kept."""
        self.rows[LATELY : LATELY + 1] = 0.0  # pairs have none
        self.n_slices += 1

    def start_season(self, period: int) -> None:
        """Begin to learn a season that has been found, from a shorter one that it consists of."""
        before, self.season = self.season, np.zeros((period, 2, len(self)))
        if len(before) and period % self.period == 0:  # hours of a day tell those of a week
            slices = min(SEASONS, self.n_slices // self.period + 0.5)  # that are in its sums
            self.season += np.tile(
                before * min(1.0, INHERITED / slices), (period // self.period, 1, 1)
            )
        old, self.unrest = self.unrest, np.zeros((3, period))
        if period % self.period == 0:
            self.unrest += np.tile(old, (1, period // self.period))
        self.period = period

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Forget all rows but these, in this order."""
        self.rows = self.rows.take(rows, axis=1)
        self.season = self.season.take(rows, axis=2)
        self.special = self.special.take(rows, axis=2)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and numbers it goes on from."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        names = ("period", "n_slices", "whole", "newcomer")
        return arrays, {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(
        cls, arrays: dict[str, NDArray[Any]], record: dict[str, Any], fields: int = FIELDS
    ) -> RowShares:
        """What `state` described."""
        made = cls(int(record["period"]))
        made.n_slices, made.whole = int(record["n_slices"]), float(record["whole"])
        made.newcomer = float(record["newcomer"])
        for name in _ARRAYS:
            if name in arrays:  # a run of an earlier version knows nothing of unrest
                setattr(made, name, np.array(arrays[name], dtype=np.float64, order="C"))
        # A run of an earlier version has no habits of rows yet: zeros, as for a new row.
        missing = np.zeros((fields - len(made.rows), len(made)))
        made.rows = np.concatenate([made.rows, missing])
        return made

    def _phase(self) -> FloatArray:
        return self.season[self.n_slices % self.period] if len(self.season) else _NONE

    def _day(self, special: int) -> FloatArray:
        known = special and self.n_slices >= max(14, 2 * self.period)
        return self.special[special - 1] if known else _NONE

    def _grow(self, n: int) -> None:
        more = n - len(self)
        if more > 0:
            new = np.zeros((len(self.rows), more))
            new[EXPOSURE] = self.whole
            self.rows = np.concatenate([self.rows, new], axis=1)
            self.season, self.special = (
                np.concatenate([old, np.zeros((len(old), 2, more))], axis=2)
                for old in (self.season, self.special)
            )


_ARRAYS = ("pool", "rows", "season", "special", "unrest")


def _nearest(ahead: Sequence[Range], total: float) -> Range:
    """That of some forecasts which a total is nearest to."""
    return min(ahead, key=lambda forecast: abs(total - forecast[1]))


def _within(ahead: Sequence[Range], total: float) -> list[bool]:
    return [low <= total <= high for low, _, high in ahead]


def total_without_odd(
    totals: Sequence[float],
    odd: Sequence[bool],
    ahead: Sequence[Range],
    of: tuple[int, ...] | None = None,
) -> float:
    """What a slice would hold without its odd rows: the mode tells it whose rows explain most.

    Parameters
    ----------
    totals
        What the rows of each mode tell, as `Judged` has it.
    odd
        Whether `Judged.any_odd` of them is.
    ahead
        The forecasts, as `RowShares.judge` takes them.
    of
        Modes that are asked; all by default. What an odd row of another mode has taken away is
        missing in these, as it is in all their rows.
    """
    if of is not None and any(odd):
        odd, totals = [odd[k] for k in of], [totals[k] for k in of]
    if ahead and any(odd):
        blamed = [total for total, is_odd in zip(totals, odd, strict=True) if is_odd]
        return min(blamed, key=lambda total: min(abs(total - middle) for _, middle, _ in ahead))
    return sorted(totals)[len(totals) // 2]


def highest_criticism(p: FloatArray) -> float:
    """How far the small p-values of many rows outnumber what chance would give.

    Examples
    --------
    >>> even = (np.arange(20) + 0.5) / 20
    >>> highest_criticism(even) < 1.0 < highest_criticism(even**2)
    True
    """
    return float(criticism(np.sort(p)))
