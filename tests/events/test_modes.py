"""Modes: both spellings agree, clocks and calendars are right, mistakes are explained."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinegcp.errors import DataError
from onlinegcp.events import modes
from onlinegcp.events.modes import (
    Mode,
    bins,
    column,
    hour,
    month,
    parse_mode,
    parse_share,
    weekday,
)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("pu", column("pu")),
        ("pickup:hour", hour("pickup")),
        ("pickup:weekday", weekday("pickup")),
        ("pickup:month", month("pickup")),
        ("fare:bins=0/5/10.5", bins("fare", [0, 5, 10.5])),
        ("t:bins=-1", bins("t", [-1])),
        ("a:b:hour", hour("a:b")),
    ],
)
def test_the_command_line_spelling_means_the_same_as_the_object(text, mode):
    assert parse_mode(text) == mode
    assert parse_mode(mode) is mode


def test_a_column_whose_name_has_a_colon_is_found():
    assert parse_mode("a:hour", ["a:hour"]) == Mode("a:hour", "column", "a:hour")


def test_modes_can_be_named():
    assert hour("pickup", name="h").name == "h"
    assert bins("fare", [1], name="price").name == "price"
    assert column("pu", name="from").source == "pu"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pickup:hours", "Did you mean 'hour'"),
        ("pickup:weekdy", "Did you mean 'weekday'"),
        ("fare:bins", "bins"),
        ("fare:bins=", "numbers with /"),
        ("fare:bins=0/x", "numbers with /"),
        ("fare:bins=5/0", "increasing"),
        ("fare:bins=0/inf", "finite"),
        ("pickup:hour=3", "hour=3"),
        (":hour", "name of a column"),
        ("", "name of a column"),
        (3, "3"),
        (None, "None"),
    ],
)
def test_a_misspelt_mode_is_explained(text, message):
    with pytest.raises(DataError, match=message):
        parse_mode(text)


@pytest.mark.parametrize("edges", [[], [1, 1], [2, 1], [float("nan")], ["x"], 5])
def test_edges_must_increase(edges):
    with pytest.raises(DataError, match="increasing"):
        bins("fare", edges)


def test_labels_known_beforehand_are_all_there():
    assert hour("t").labels[5] == "05"
    assert weekday("t").labels == ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    assert [len(mode("t").labels) for mode in (hour, weekday, month)] == [24, 7, 12]
    assert column("t").labels is None
    assert bins("t", [-1, 0.5]).labels == ("<-1", "-1 to 0.5", ">=0.5")


@given(st.lists(st.datetimes(min_value=datetime.datetime(1, 1, 1)), max_size=5))
def test_clock_and_calendar_agree_with_the_standard_library(times):
    ticks = np.array(times, dtype="datetime64[us]").view(np.int64)
    assert hour("t").of_wall(ticks).tolist() == [time.hour for time in times]
    assert weekday("t").of_wall(ticks).tolist() == [time.weekday() for time in times]
    assert month("t").of_wall(ticks).tolist() == [time.month - 1 for time in times]


@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=5, unique=True),
    st.lists(st.integers(-60, 60), max_size=20),
)
def test_a_number_lies_in_the_range_that_its_label_says(edges, numbers):
    mode = bins("x", sorted(edges))
    for number, code in zip(numbers, mode.of_numbers(np.array(numbers, dtype=float)), strict=True):
        label = mode.labels[code]
        if label[0] == "<":
            assert number < float(label[1:])
        elif label[0] == ">":
            assert number >= float(label[2:])
        else:
            low, high = map(float, label.split(" to "))
            assert low <= number < high


def test_an_unknown_number_is_in_no_range():
    assert bins("x", [0]).of_numbers(np.array([np.nan, -1.0, 0.0])).tolist() == [-1, 0, 1]


def test_sharing_is_spelt_with_equals():
    assert parse_share("pu=do") == ("pu", "do")
    assert parse_share("a = b=c") == ("a", "b", "c")
    for wrong in ("pu", "pu=", "=do", ""):
        with pytest.raises(DataError, match="pu=do"):
            parse_share(wrong)


def test_importing_modes_needs_no_polars():
    import subprocess
    import sys

    code = f"import {modes.__name__}, onlinegcp.events, sys; print('polars' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
