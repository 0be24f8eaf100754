"""Bins that are cut off: told by since and until, or by a silence longer than any before."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest

from onlinegcp import from_events
from onlinegcp.events.cut_off import Edges
from onlinegcp.events.time_bins import TimeBins
from onlinegcp.events.time_column import TimeColumn
from onlinegcp.run import Run
from onlinegcp.runlog import read_run
from run_tools import small_model

START = datetime.datetime(2024, 3, 25)  # clocks change within the week that follows


def table(days, *, until_hour=24.0, opening=(0, 24), every_minutes=20):
    """Events at even distances in the opening hours; the last day ends at `until_hour`."""
    minutes = np.arange(0, days * 1440, every_minutes)
    hour = minutes % 1440 / 60
    kept = (hour >= opening[0]) & (hour < opening[1])
    kept &= (minutes < (days - 1) * 1440) | (hour < until_hour)
    times = [START + datetime.timedelta(minutes=int(m)) for m in minutes[kept]]
    return pl.DataFrame({"when": times, "a": [f"a{i % 5}" for i in range(len(times))]})


def partial(frame, **options):
    settings = {"time": "when", "every": "1d", "modes": "a", **options}
    stream = from_events(frame, **settings)
    return [stream.partial for _ in stream]


@pytest.mark.parametrize(
    ("hour", "opening", "cut"),
    [(24, (0, 24), False), (12, (0, 24), True), (12, (8, 18), True), (18, (8, 18), False)],
)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_the_last_day_of_a_source_that_ends_within_it(hour, opening, cut, zone):
    frame = table(12, until_hour=hour, opening=opening)
    if zone is not None:
        frame = frame.with_columns(pl.col("when").dt.replace_time_zone(zone, non_existent="null"))
    found = partial(frame.drop_nulls())
    assert found == [False] * 11 + [cut]


def test_rows_in_any_order_say_the_same():
    frame = table(12, until_hour=12).sample(fraction=1.0, shuffle=True, seed=1)
    assert partial(frame) == [False] * 11 + [True]


def test_until_and_since_within_a_bin_cut_it_off():
    frame = table(6)
    assert partial(frame, until="2024-03-30T10:00") == [False] * 5 + [True]
    assert partial(frame, until="2024-03-30") == [False] * 5
    assert partial(frame, since="2024-03-26T10:00") == [True] + [False] * 4
    assert partial(frame, since="2024-03-26") == [False] * 5


def test_too_few_bins_or_a_bin_that_stays_open_say_nothing():
    assert partial(table(5, until_hour=6)) == [False] * 5
    assert partial(table(12, until_hour=6), close_last=False) == [False] * 11


@pytest.mark.parametrize(("every", "n"), [("1w", 13), ("1mo", 9)])
def test_one_row_per_bin_is_never_cut_off(every, n):
    step = "1w" if every == "1w" else "1mo"
    dates = pl.date_range(datetime.date(2024, 1, 1), datetime.date(2024, 12, 31), step, eager=True)
    frame = pl.DataFrame({"when": dates[:n], "a": ["x"] * n})
    assert partial(frame, every=every) == [False] * n


def test_numbers_have_bins_that_are_cut_off_as_well():
    frame = pl.DataFrame({"when": np.arange(1035), "a": ["x", "y", "z"] * 345})
    assert partial(frame, every=100) == [False] * 10 + [True]


def edges_of(last):
    """Bins of a hundred ticks whose last events are these."""
    found = Edges(TimeBins(100, TimeColumn("t")))
    for key, tick in enumerate(last):
        found.saw(np.array([key]), np.array([100 * key + tick]))
    return found


def test_seven_whole_bins_say_what_is_usual():
    assert edges_of([99] * 7 + [50]).cut_at_end(7)
    assert not edges_of([99] * 6 + [50]).cut_at_end(6)


def test_a_silence_counts_from_half_as_long_again_as_any_and_a_tenth_of_the_bin():
    # The others end five ticks before their bins do: 1.5 * 5 + 0.1 * 100 = 17.5.
    assert not edges_of([95] * 9 + [83]).cut_at_end(9)
    assert edges_of([95] * 9 + [82]).cut_at_end(9)


def test_a_long_silence_is_forgotten_with_its_bin():
    assert not edges_of([40, *[95] * 30, 60]).cut_at_end(31)
    assert edges_of([40, *[95] * 31, 60]).cut_at_end(32)


def test_a_bin_that_was_cut_off_is_learned_and_not_scored(tmp_path):
    settings = {"time": "when", "every": "1d", "modes": ["a"]}
    with Run.create(
        tmp_path / "r", small_model(rank=1), modes=["a"], events=settings, period=7
    ) as run:
        run.learn(run.stream(table(30, until_hour=6)))
        tracker = run._point.tracker
        assert tracker.n_slices == 30  # the season goes on
    steps = read_run(tmp_path / "r").steps
    assert [step["partial"] for step in steps] == [False] * 29 + [True]
    assert steps[-2]["anomaly"] is not None
    assert steps[-1]["anomaly"] is None
    assert steps[-1]["total"] == 18
    assert steps[-1]["prequential"] is not None
