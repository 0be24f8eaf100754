"""What a column is, by its values first and its name second: a time, a label, a number, or nothing.

A name counts only where values leave it open: whole numbers may be codes (zone 117) or amounts
(117 minutes), and nothing but their name tells.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, final

import numpy as np
import numpy.typing as npt

from onlinegcp.drawing.text import words_of
from onlinegcp.errors import DataError
from onlinegcp.events.absent import known, stripped
from onlinegcp.events.numbers import in_seconds, read_numbers, two_ways, units_of
from onlinegcp.events.spelling import fitting
from onlinegcp.events.time_column import AmbiguousDatesError, Ticks, TimeColumn, calendar_digits
from onlinegcp.planning import words

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["time", "label", "number", "none"]
Numbers = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

# Rows looked at to reject what is no time before all of them are read.
_LOOK = 200
_LONG_TEXT = 80
_STEPS = 10  # from time to time, which may show how they are written
_FARTHER = 4.0  # times as far leap rows whose dates are read wrongly, at least
_DIGITS = 5  # of numbers that may be names, at least
_TOO_FEW_TO_TELL = 10  # different numbers, whether they are amounts
_SMOOTH = 0.5  # of the steps from one number to the next; 2 if they have nothing in common
_TIME_OF_DAY = r"^\d{1,2}:\d\d(:\d\d([.,]\d+)?)?\s?([AaPp]\.?[Mm]\.?)?$"


@final
@dataclass(frozen=True, eq=False)
class Column:
    """One column of a sample.

    Attributes
    ----------
    name
        Its name.
    kind
        "time", "label", "number", or "none" for what is of no use.
    reason
        Why it is of no use, or what speaks against it as a label; else empty.
    values
        The rows of the sample.
    numbers
        The same as numbers, NaN for none; None where it is not a column of numbers.
    ticks
        The same as microseconds since 1970; None where it is no time.
    problem
        What stopped it from being read as times, if it looked like some.
    source
        The rows as they stand in the source, if `values` are something else.
    ambiguous
        Whether it holds dates that can be read in several ways.
    hours
        Whether it holds times of day without a day.
    layout
        How its times are written, if they are numbers, or nothing but the order of the rows tells.
    """

    name: str
    kind: Kind
    values: pl.Series
    reason: str = ""
    numbers: Numbers | None = None
    ticks: Ticks | None = None
    problem: str = ""
    source: pl.Series | None = None
    ambiguous: bool = False
    hours: bool = False
    layout: str = ""

    @property
    def written(self) -> pl.Series:
        """The rows as they stand in the source."""
        return self.values if self.source is None else self.source

    @property
    def words(self) -> list[str]:
        """The words of its name, in small letters."""
        return words_of(self.name)

    @cached_property
    def present(self) -> Numbers:
        """Its numbers without missing ones."""
        assert self.numbers is not None
        return self.numbers[~np.isnan(self.numbers)]

    @cached_property
    def whole(self) -> bool:
        """Whether it holds whole numbers from 0 on."""
        found = self.present
        return bool(len(found)) and bool((found >= 0).all() and (found == np.round(found)).all())

    @property
    def is_count(self) -> bool:
        """Whether it says how often something happened."""
        if self.numbers is None or not self.whole:
            return False
        return self._named_count

    @property
    def counts_both_ways(self) -> bool:
        """Whether it says how often something happened, or was undone: quantities with returns."""
        found = self.present
        return self._named_count and bool((found == np.round(found)).all())

    @property
    def _named_count(self) -> bool:
        named = self.words
        return bool(named) and bool({named[0], named[-1]} & words.COUNTS)

    @property
    def intensive(self) -> bool:
        """Whether its values are levels, such as temperatures, of which sums mean nothing."""
        return bool(words.LEVELS & set(self.words)) and not self.is_count

    @cached_property
    def codes(self) -> Codes:
        """Its values as whole numbers from 0 on, -1 for none."""
        ranks = self.values.rank("dense").fill_null(0).cast(int).to_numpy()
        return np.asarray(ranks, dtype=np.int64) - 1

    @cached_property
    def n_labels(self) -> int:
        """How many distinct values it has."""
        return int(self.values.drop_nulls().n_unique())

    @property
    def rows_each(self) -> float:
        """Rows that have each of its labels, on average."""
        return (len(self.values) - self.values.null_count()) / max(1, self.n_labels)

    @cached_property
    def labels(self) -> set[str]:
        """Its distinct values as text."""
        import polars as pl

        present = self.values.drop_nulls().unique()
        if self.numbers is not None and self.values.dtype != pl.String:
            return {f"{number:g}" for number in np.unique(self.present)}
        return set(present.cast(pl.String, strict=False).drop_nulls().to_list())


def column_of(values: pl.Series) -> Column:
    """What a column of a sample is."""
    return replace(_column_of(values), source=values)


def _column_of(values: pl.Series) -> Column:
    import polars as pl

    name, dtype = values.name, values.dtype
    if values.null_count() == len(values):
        return Column(name, "none", values, "is empty")
    if dtype.is_nested():
        held = "fields of its own" if isinstance(dtype, pl.Struct) else "lists"
        return Column(name, "none", values, f"holds {held}, neither labels nor numbers")
    if dtype == pl.Time:
        return Column(name, "none", values, "is a time of day", hours=True)
    if dtype in (pl.Binary, pl.Object):
        return Column(name, "none", values, f"holds {dtype}, which is neither label nor number")
    if dtype == pl.Duration:
        values = in_seconds(values)
    if dtype in (pl.Date, pl.Datetime):
        return _with_ticks(Column(name, "time", values))
    if dtype in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String)
    if values.dtype == pl.String:
        values = stripped(values)
        if values.null_count() == len(values):
            return Column(name, "none", values, "is empty")
        given, numbers = read_numbers(values)
        # Eight digits may be a day: 20240131.
        days = given.drop_nulls().str.contains(r"^(19|20)\d{6}$").all()
        if numbers.null_count() > given.null_count() or days or len(given) == given.null_count():
            return _of_text(name, values)
        if len(units := units_of(given)) > 1:
            return Column(name, "none", values, f"amounts in {' and '.join(units)}")
        if given.str.contains(r"^0\d+$").any() and given.drop_nulls().str.contains(r"^\d+$").all():
            array = numbers.fill_null(float("nan")).to_numpy()
            if _clock_digits(values.name, array):
                return _time_of_day(Column(name, "none", values, numbers=array))
            return _checked(Column(name, "label", given, numbers=array))  # 00501: nobody counts so
        values = numbers
    if values.dtype == pl.Boolean:
        return _checked(Column(name, "label", values))
    numbers = values.cast(pl.Float64).fill_nan(None)
    if numbers.null_count() == len(numbers):
        return Column(name, "none", values, "is empty")
    array = numbers.fill_null(float("nan")).to_numpy()
    return _of_numbers(Column(name, "number", values, numbers=array))


def _with_ticks(column: Column) -> Column:
    reader = TimeColumn(column.name, layout=column.layout or None)
    ticks, valid = reader.read(column.values, lambda row: f"row {row + 1:,}")
    ticks = reader.wall(ticks)
    if valid is not None:
        ticks = ticks[valid]
    return replace(column, kind="time", ticks=ticks)


def _in_order(column: Column) -> Column | None:
    """Dates that can mean several, read in the one way in which rows do not leap to and fro."""
    found = [_with_ticks(replace(column, layout=layout)) for layout in fitting(column.values)]
    found.sort(key=_leaps)
    near, far = _leaps(found[0]), _leaps(found[1])
    if not 0.0 < _FARTHER * near <= far:
        return None
    return found[0] if _FARTHER * near <= _leaps_of_any_order(found[0]) else None


def _leaps(column: Column) -> float:
    """How far it is from row to row in all; 0 if hardly any two rows differ."""
    assert column.ticks is not None
    steps = np.abs(np.diff(column.ticks).astype(np.float64))
    return float(steps.sum()) if np.count_nonzero(steps) >= _STEPS else 0.0


def _leaps_of_any_order(column: Column) -> float:
    """How far it would be if the days came in any order, each with its rows."""
    assert column.ticks is not None
    days = np.unique(column.ticks).astype(np.float64)
    n_steps = np.count_nonzero(np.diff(column.ticks))
    place = 2.0 * np.arange(len(days)) - len(days) + 1.0
    return float(2.0 * (place * days).sum() / (len(days) * (len(days) - 1.0)) * n_steps)


def _of_text(name: str, values: pl.Series) -> Column:
    """Times, or labels."""
    label = Column(name, "label", values)
    times = known(values)
    start = times.drop_nulls().head(_LOOK)
    if not len(start):
        return _checked(label)
    if start.str.contains(_TIME_OF_DAY).all():
        return Column(name, "none", values, "is a time of day", hours=True)
    if (odd := two_ways(times)) is not None:
        return Column(name, "none", values, f"{odd!r} can mean two numbers")
    if start.str.contains(r"\d").mean() >= 0.5:  # type: ignore[operator]
        try:
            with contextlib.suppress(AmbiguousDatesError):  # those behind them may settle it
                _with_ticks(Column(name, "time", start))
            return _with_ticks(Column(name, "time", times))
        except AmbiguousDatesError as error:
            if (read := _in_order(Column(name, "time", times))) is not None:
                return read
            reason = "dates that can mean several"
            return Column(name, "none", values, reason, problem=str(error), ambiguous=True)
        except DataError as error:
            label = Column(name, "label", values, problem=str(error))
    return _checked(label)


def _of_numbers(column: Column) -> Column:
    """Codes, or amounts."""
    found = column.present
    distinct = np.unique(found)
    named = set(column.words)
    if len(distinct) == 1:
        return _none(column, f"is always {distinct[0]:g}")
    if named & words.PLACES:
        return _none(column, "is a place on the map, neither label nor amount")
    if len(distinct) >= _STEPS and (layout := calendar_digits(column.values)):
        layout = "%G%V" if layout == "%Y%m" and words.WEEKS & named else layout
        with contextlib.suppress(DataError):  # the 31st of June: no dates, then
            return _with_ticks(replace(column, layout=layout))
    if _clock_digits(column.name, column.numbers):
        return _time_of_day(column)
    if not column.whole or column.is_count or named & words.AMOUNTS - words.CODES:
        return column
    # A table of pandas brings its index along, without a name.
    numbered = named & {"id", "key", "no", "number", "index", "row", "unnamed"} or not named
    one_by_one = len(found) == len(column.values) and bool((np.abs(np.diff(found)) == 1.0).all())
    if len(distinct) == len(found) > 50 and (numbered or one_by_one):
        return _none(column, "numbers the rows")
    # Codes are few and use up their range from 0 or 1 on; amounts leave gaps.
    span = distinct[-1] - distinct[0] + 1
    compact = distinct[0] <= 1 and len(distinct) >= 0.5 * span and len(distinct) <= 400
    compact = compact and (bool(named & words.CODES) or not _is_smooth(found))
    # What is called a service may be served once: such a number says how much, not which.
    repeated = len(distinct) < len(found) / 5 or named & {"id", "user"}
    if (named & words.CODES and repeated) or compact or _names(found, distinct):
        return _checked(Column(column.name, "label", column.values, numbers=column.numbers))
    return column


def _is_smooth(found: Numbers) -> bool:
    """Whether small whole numbers say how much: 7 is about as frequent as 6 and 8 are.

    Of codes neighbours have nothing in common. Square roots of counts have all the same noise.
    """
    counts = np.bincount((found - found.min()).astype(np.int64))
    if len(counts) < _TOO_FEW_TO_TELL:
        return False
    heights = np.sqrt(counts)
    spread = float(np.square(heights - heights.mean()).sum())
    steps = float(np.square(np.diff(heights)).sum())
    return spread > len(counts) and steps < _SMOOTH * spread  # else it is all noise


def _clock_digits(name: str, numbers: Numbers | None) -> bool:
    """Whether numbers are times of day without a colon: 5 for 00:05, 2359 for a minute to 24."""
    assert numbers is not None
    found = np.unique(numbers[~np.isnan(numbers)])
    minutes = (found % 100.0 < 60.0).all() and (found == np.round(found)).all()
    return bool(
        (words.TIMES_OF_DAY & set(words_of(name)))
        and (len(found) >= _STEPS and minutes and found[0] >= 0.0 and 100.0 < found[-1] <= 2400.0)
    )


def _time_of_day(column: Column) -> Column:
    return replace(_none(column, "is a time of day"), hours=True)


def _names(found: Numbers, distinct: Numbers) -> bool:
    """Whether long numbers are names of things, as those of ships or bank accounts.

    Few of them come again and again, have the same number of digits, and are as seldom round as
    chance has it.
    """
    few = 2 < len(distinct) <= len(found) / 20
    digits = len(f"{distinct[0]:.0f}")
    alike = digits >= _DIGITS and len(f"{distinct[-1]:.0f}") == digits
    return few and alike and bool((distinct % 10.0 == 0.0).mean() <= 0.25)


def _checked(column: Column) -> Column:
    """Labels, unless nearly all rows have the same, or they are sentences."""
    import polars as pl

    present = column.values.drop_nulls()
    counts = present.value_counts(sort=True)
    top, share = counts.row(0)[0], counts.row(0)[1] / len(present)
    if isinstance(top, float):
        top = f"{top:g}"
    if counts.height == 1:
        return _none(column, f"is always {top}")
    if share > 0.99:
        return _none(column, f"is {top} in {share:.1%} of rows")
    if present.dtype == pl.String and float(present.str.len_chars().median() or 0) > _LONG_TEXT:  # type: ignore[arg-type]
        return _none(column, "is free text")
    return column


def _none(column: Column, reason: str) -> Column:
    return Column(
        column.name, "none", column.values, reason, column.numbers, column.ticks, column.problem
    )
