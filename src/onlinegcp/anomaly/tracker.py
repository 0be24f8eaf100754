"""The judge of a stream: rows, pairs, total and misfit against their own past, as one p-value.

Each kind of oddity has a statistic: the largest surprise among the rows of a mode, upwards or
downwards; among pairs of rows, and within a row; of the total; of the misfit; and higher criticism
for many small ones. Each is compared with its own past, the smallest p-value is corrected for their
number, and that again is compared with its past. So alarms are as rare as promised, whatever the
data vary like.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Mapping
from typing import Any, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly.common import CommonMoves
from onlinegcp.anomaly.levels import Levels, ranges_of_counts
from onlinegcp.anomaly.looking import PeriodSearch
from onlinegcp.anomaly.oddities import statistics_of
from onlinegcp.anomaly.pairs import HeavyPairs
from onlinegcp.anomaly.season import FIRST_OF_MONTH, HOLIDAY, calendar, moment_of
from onlinegcp.anomaly.shares import RowShares, total_without_odd
from onlinegcp.anomaly.tails import (
    NO_MARKS,
    NO_TAIL,
    Marks,
    Past,
    Theory,
    after_one_more,
    largest_of,
    log_tail,
    log_tails,
    settled,
    smallest_of,
)
from onlinegcp.anomaly.verdict import Verdict
from onlinegcp.errors import DataError
from onlinegcp.runlog.label_history import LabelHistory
from onlinegcp.slices import Slice

FloatArray: TypeAlias = NDArray[np.float64]
LEAST, LONGEST_START = 10, 60  # slices before anything is flagged, at least and at most
MOST_SEASONS = 1 << 22  # numbers that the seasons of a mode may take
COUNTING = 0.5  # least standard deviation of a total's root: half that of Poisson
# Part of all alarms that the total may raise by itself: where rows are often very odd, a slice must
# be odder than they are, but a total that collapsed has a past of its own to be compared with.
OF_THE_TOTAL = 0.05
REAL = math.log(1e-5)  # p-value of a slice below which it tells nothing of how rare chance is


@final
class AnomalyTracker:
    """What the recent past looked like, in memory that grows with the number of labels only.

    Hand it to `score_slice` and call `update` with the result, flagged or not: what is odd about a
    row is not learned until it has stayed for a while, and a stream that fell silent is no new
    usual for two seasons (sixty slices at least); all the rest is learned.

    Parameters
    ----------
    period
        Slices after which they repeat, such as 7 for days; 1 for none; None to look for it among
        7, 12, 24, 52 and 168.
    longer
        Whether the period is only what the calendar says of a day, such as 24 for hours, and a week
        of such days is looked for.
    holidays
        Country whose holidays are days of their own, such as US or DE-BY; needs the package
        `holidays` and slices whose times are dates.

    Examples
    --------
    >>> from onlinegcp.anomaly import score_slice
    >>> from onlinegcp.streaming import OnlineGCP
    >>> rng = np.random.default_rng(0)
    >>> model, tracker = OnlineGCP(1, "poisson", init_slices=5), AnomalyTracker(period=1)
    >>> flags = []
    >>> for t in range(40):
    ...     x = Slice.dense(rng.poisson(300.0 if t == 35 else 3.0, (6, 5)))
    ...     if t >= 5:
    ...         anomaly = score_slice(model, x, history=tracker)
    ...         tracker.update(anomaly)
    ...         flags += [t] if anomaly.flagged else []
    ...     _ = model.partial_fit(x)
    >>> flags, anomaly.kind
    ([35], None)
    """

    def __init__(
        self, period: int | None = None, holidays: str | None = None, *, longer: bool = False
    ) -> None:
        whole = isinstance(period, int | np.integer) and not isinstance(period, bool)
        if period is not None and (not whole or period < 1):
            raise DataError(
                f"period must be a whole number of slices >= 1, or None to look for one, but got "
                f"{period!r}. Use 1 for no season, 7 for days with a weekly one."
            )
        self.holidays = holidays
        self._is_holiday = calendar(holidays)
        self.period = 1 if period is None else int(period)
        self.search = PeriodSearch(self.period, on=period is None or longer)
        self.n_slices = self.n_scored = 0
        self.counted: bool | None = None  # whether rows are sums of counts, or means of values
        self.unit = 1.0
        self.last: datetime.datetime | None = None
        self.daily = False
        self.alarm = 0  # flagged slices in a row
        self.silent = 0  # of these without any event, up to now
        self.whole = Levels(self.period)  # see its places
        self.weights = np.zeros(0)
        self.rows: list[RowShares | Levels] = []
        self.newcomers = RowShares()
        self.common = CommonMoves()
        self.pairs: list[HeavyPairs] = []
        self.labels = LabelHistory()  # for those who ask what changed; no slice is judged by it
        self.past: dict[str, Past] = {}
        self.tails: dict[str, FloatArray] = {}

    # ---- judging

    def judge(
        self,
        x: Slice,
        *,
        counted: bool,
        misfit: float = math.nan,
        weights: FloatArray | None = None,
    ) -> Verdict:
        """Compare a slice with the past; nothing but the kind of data is settled here.

        Parameters
        ----------
        x
            The slice.
        counted
            Whether data are counts or amounts that add up; else rows are judged by their means.
        misfit
            What the model leaves unexplained of it, on a scale that does not depend on its size.
        weights
            Usual weights of the model, to be remembered.
        """
        if not self.rows:
            self._start(x, counted)
        moment = moment_of(x.time)
        special = self._special(moment)
        observed = x.n_observed > 0
        whole = self.whole.judge(np.array([self._volume(x), misfit, math.nan]), special=special)
        sums = [self._sums(x, k) for k in range(x.ndim)]
        ahead = ranges_of_counts(whole)
        rows = [
            part.judge(s, special=special, expected=ahead)
            if isinstance(part, RowShares)
            else part.judge(s, special=special)
            for part, s in zip(self.rows, sums, strict=True)
        ]
        totals, odd = [seen.total for seen in rows], [seen.any_odd for seen in rows]
        usual = total_without_odd(totals, odd, ahead)
        if self.counted and observed:
            self.whole.judge_late(whole, Levels.REST, 2.0 * math.sqrt(max(usual, 0.0)))
        fresh = [
            float(seen.observed[seen.n_known :].sum()) if seen.n_known < len(seen.observed) else 0.0
            for seen in rows
        ]
        newcomers = self.newcomers.judge(np.array(fresh if self.counted else []), total=usual)
        pairs = []
        for part in self.pairs:
            total = total_without_odd(totals, odd, ahead, of=(part.first, part.second))
            pairs.append(part.judge(x, self.unit, special=special, total=total))
        alone = None
        if observed and all(seen.ready for seen in rows):
            alone = self.common.judge(rows, counted=bool(self.counted))
        shown = alone if self.common.ready else None
        found = (
            statistics_of(whole, rows, newcomers, pairs, shown, counted=bool(self.counted))
            if observed
            else {}
        )
        plain = self._plain(found)
        families = {name: self._settled(name, log_p) for name, log_p in plain.items()}
        statistics = {name: value for name, (value, _) in found.items()}
        log_p, family = 0.0, ""
        if families:
            family = min(families, key=families.__getitem__)
            surprise = -smallest_of(families[family], len(families))
            statistics["slice"] = surprise
            plain["slice"] = log_tail(self._marks("slice"), surprise)
            log_p = self._settled("slice", plain["slice"]) - math.log1p(-OF_THE_TOTAL)
            total = families.get("volume", 0.0) - math.log(OF_THE_TOTAL)
            if total < log_p:
                log_p, family = total, "volume"
            log_p = min(log_p, 0.0)
        ready = observed and self.n_slices >= self._least()
        kept = np.zeros(0) if weights is None else weights
        return Verdict(
            log_p if ready else 0.0, family, families, whole, rows, newcomers, pairs, alone, kept,
            special, moment, x.shape, observed, statistics, ready, plain,
        )  # fmt: skip

    def log_p_of(self, family: str, value: float, n: int) -> float:
        """Log-probability that the largest surprise of a family is as large as one row's.

        Parameters
        ----------
        family
            Its name, as in `Verdict`.
        value
            The row's surprise, upwards or downwards as the family is.
        n
            Rows in the family.
        """
        of_rows = family.startswith(("up", "down", "alone"))
        theory = n if of_rows else largest_of(n)
        return self._settled(family, self._plain({family: (value, theory)})[family])

    def learn(self, verdict: Verdict, *, flagged: bool = False) -> None:
        """Remember a judged slice."""
        self.n_slices += 1
        if verdict.moment is not None:
            gap = None if self.last is None else verdict.moment - self.last
            self.daily = gap == datetime.timedelta(days=1)
            self.last = verdict.moment
        special = verdict.special
        if not verdict.observed:
            self._let_pass(verdict)
            return  # an alarm goes on: nobody saw it end
        goes_on = self.goes_on(verdict)
        self.alarm = self.alarm + 1 if flagged else self.alarm if goes_on else 0
        unit = self.unit if self.counted else 1.0
        self.labels.add(self.n_slices, [seen.observed * unit for seen in verdict.rows])
        silent = self._is_silent(verdict) and (flagged or self.silent > 0)
        self.silent = self.silent + 1 if silent else 0
        if 0 < self.silent <= self._patience():
            if self.silent == 1:  # an outage is one, however long it lasts
                self._remember(verdict)
            self._let_pass(verdict)
            return
        self.whole.learn(verdict.whole, special=special)
        self.weights = verdict.weights
        for part, seen in zip(self.rows, verdict.rows, strict=True):
            part.learn(seen, special=special)
        if verdict.alone is not None:
            self.common.learn(verdict.alone)
        if self.counted and verdict.rows[0].ready:  # in the first slices every row is new
            self.newcomers.learn(verdict.newcomers)
        for pairs, (keys, seen) in zip(self.pairs, verdict.pairs, strict=True):
            pairs.learn(keys, seen, special=special, shape=verdict.shape)
        self._remember(verdict)
        if self.search.on:
            self._look_for_period(verdict)

    def goes_on(self, verdict: Verdict) -> bool:
        """Whether an alarm goes on over a slice that is not odd by itself.

        Nothing was observed of it; or a stream that fell silent still is, if only by night.
        """
        lasts = 0 < self.silent < self._patience()
        return not verdict.observed or (lasts and self._is_silent(verdict))

    def update(self, anomaly: Any) -> None:
        """Remember a slice that `score_slice` scored."""
        self.learn(anomaly.verdict, flagged=anomaly.flagged)

    def update_unscored(self, x: Slice, *, counted: bool) -> None:
        """Remember a slice that no model has seen, as in a warm start.

        Parameters
        ----------
        x
            The slice.
        counted
            As in `judge`.
        """
        self.learn(self.judge(x, counted=counted))

    # ---- storing

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """All it goes on from: arrays, and a record of plain numbers."""
        arrays, record = self.search.state()
        record |= {name: getattr(self, name) for name in (*_NUMBERS, "holidays", "period")}
        record["last"] = None if self.last is None else self.last.isoformat()
        arrays["weights"] = self.weights
        arrays |= {f"rarity.{name}": past.to_array() for name, past in self.past.items()}
        arrays |= {f"tail.{name}": values for name, values in self.tails.items()}
        record["parts"] = {}
        for name, part in self._parts().items():
            held, record["parts"][name] = part.state()
            arrays |= {f"{name}.{field}": values for field, values in held.items()}
        return arrays, record

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]) -> Self:
        """The tracker that `state` described; it goes on exactly where that one stood."""
        made = cls(int(record["period"]), record["holidays"])
        for name in _NUMBERS:
            if name in record:  # of silence an earlier version knew nothing
                setattr(made, name, record[name])
        made.search = PeriodSearch.from_state(arrays, record)
        made.last = None if record["last"] is None else moment_of(record["last"])
        made.weights = np.array(arrays["weights"], dtype=np.float64)
        for name, part in record["parts"].items():
            prefix = f"{name}."
            held = {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}
            kind = name.split(" ")[0]
            if kind == "whole":
                made.whole = Levels.from_state(held, part)
            elif kind == "pairs":
                made.pairs.append(HeavyPairs.from_state(held, part))
            elif kind == "newcomers":
                made.newcomers = RowShares.from_state(held, part)
            elif kind == "common":
                made.common = CommonMoves.from_state(held, part)
            elif kind == "labels":
                made.labels = LabelHistory.from_state(held, part)
            else:
                of_counts = bool(made.counted)
                made.rows.append((RowShares if of_counts else Levels).from_state(held, part))
        rarities, made.tails = (
            {
                name.removeprefix(kind): np.array(values, dtype=np.float64)
                for name, values in arrays.items()
                if name.startswith(kind)
            }
            for kind in ("rarity.", "tail.")
        )
        made.past = {name: Past(values.tolist()) for name, values in rarities.items()}
        return made

    def copy(self) -> Self:
        """Another one that goes on from here by itself."""
        return self.from_state(*self.state())

    def __reduce__(self) -> tuple[Any, ...]:
        return AnomalyTracker.from_state, self.state()  # a calendar can be neither pickled nor kept

    def _parts(self) -> dict[str, Levels | RowShares | HeavyPairs | CommonMoves | LabelHistory]:
        return {
            "whole": self.whole,
            "common": self.common,
            **{f"rows {k}": part for k, part in enumerate(self.rows)},
            "newcomers": self.newcomers,
            **{f"pairs {n}": part for n, part in enumerate(self.pairs)},
            "labels": self.labels,
        }

    # ---- parts

    def _least(self) -> int:
        """Slices before anything is flagged: two cycles, or every weekend would be odd."""
        return max(LEAST, min(2 * self.period, LONGEST_START))

    def _marks(self, name: str) -> Marks:
        """What the past of a statistic says."""
        past = self.past.get(name)
        return NO_MARKS if past is None else past.marks

    def _plain(self, found: Mapping[str, tuple[float, Theory]]) -> dict[str, float]:
        """How rare values of statistics are by the quantiles of their pasts."""
        looks = [(self._marks(name), value, theory) for name, (value, theory) in found.items()]
        return dict(zip(found, log_tails(looks), strict=True))

    def _settled(self, name: str, log_p: float) -> float:
        """A log-probability as its own past has borne it out."""
        return settled(self.tails.get(name, NO_TAIL), log_p)

    def _start(self, x: Slice, counted: bool) -> None:
        """Settle what rows are, with the first slice."""
        whole = x.n_observed == x.size
        self.counted = counted and whole
        if self.counted and not np.array_equal(x.value, np.rint(x.value)):
            self.unit = max(float(np.abs(x.value).mean()), 1e-12)
        modes = range(x.ndim)
        self.labels = LabelHistory(adds_up=self.counted)
        if self.counted:
            self.whole.noise = COUNTING
            self.rows = [RowShares(self.period) for _ in modes]
            self.pairs = [
                HeavyPairs(a, b, self.period) for a, b in itertools.combinations(modes, 2)
            ]
        else:
            self.rows = [Levels(self.period) for _ in modes]

    def _volume(self, x: Slice) -> float:
        """The total as it is forecast, as if no cell were missing.

        Square roots of counts have a variance that does not depend on their mean.
        """
        if x.n_observed == 0:
            return math.nan
        total = x.total * (x.size / x.n_observed)
        return 2.0 * math.sqrt(max(total, 0.0) / self.unit) if self.counted else total

    def _sums(self, x: Slice, k: int) -> FloatArray:
        """Sums of the rows of a mode in units, or their means where data do not add up."""
        length = max(x.shape[k], len(self.rows[k]))
        sums = np.bincount(x.index[:, k], x.value, minlength=length)
        if self.counted and x.n_observed == x.size:
            return np.asarray(sums) if self.unit == 1.0 else np.asarray(sums / self.unit)
        cells = np.bincount(x.index[:, k], minlength=length).astype(np.float64)
        if x.unlisted == "zero":
            cells[:] = x.size // x.shape[k]
        means = np.divide(sums, cells, out=np.full(length, np.nan), where=cells > 0)
        return np.asarray(means * (x.size // x.shape[k]) / self.unit) if self.counted else means

    def _special(self, moment: datetime.datetime | None) -> int:
        if moment is None:
            return 0
        if self._is_holiday(moment.date()):
            return HOLIDAY
        return FIRST_OF_MONTH if self.daily and moment.day == 1 else 0

    def _is_silent(self, verdict: Verdict) -> bool:
        return bool(self.counted) and not verdict.rows[0].observed.any()

    def _patience(self) -> int:
        """Silent slices that are no new usual: two cycles, or as many as any start may take."""
        return max(2 * self.period, LONGEST_START)

    def _remember(self, verdict: Verdict) -> None:
        """What a slice tells of how rare things are."""
        if verdict.statistics:
            self.n_scored += 1
        for name, value in verdict.statistics.items():
            self.past.setdefault(name, Past()).add(value)
        for name, log_p in verdict.plain.items() if verdict.log_p > REAL else ():
            self.tails[name] = after_one_more(self.tails.get(name, NO_TAIL), log_p)

    def _let_pass(self, verdict: Verdict) -> None:
        """Let a slice pass that tells nothing of those to come."""
        for part in (self.whole, *self.rows, *(pairs.shares for pairs in self.pairs)):
            part.skip()
        if self.search.on:
            self._look_for_period(verdict)

    def _look_for_period(self, verdict: Verdict) -> None:
        rows = [seen.observed for seen in verdict.rows] if verdict.observed else None
        total = float(verdict.whole.observed[Levels.TOTAL])
        found = self.search.add(total, rows, counted=bool(self.counted))
        if found > self.period:
            self._set_period(found)
        self.search.end()

    def _set_period(self, period: int) -> None:
        """Go on with a season; the total learns it from what was remembered, rows from now on."""
        self.period = period
        fresh = Levels(period, self.whole.noise)
        fresh.n_slices = self.n_slices - len(self.search.values)
        for value in self.search.values[:, 0]:
            fresh.learn(fresh.judge(np.array([value, math.nan, value])))
        self.whole = fresh
        for part in (*self.rows, *(pairs.shares for pairs in self.pairs)):
            if len(part) * period <= MOST_SEASONS:
                part.start_season(period)


_NUMBERS = ("n_slices", "n_scored", "counted", "unit", "daily", "alarm", "silent")
