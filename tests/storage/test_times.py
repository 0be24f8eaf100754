"""Times through JSON: every kind comes back equal and of its type, or is refused."""

from __future__ import annotations

import datetime
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinegcp.errors import DataError
from onlinegcp.storage.times import pack_time, unpack_time


def through_json(time, **options):
    return unpack_time(json.loads(json.dumps(pack_time(time, **options))))


@given(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(datetime.UTC))
    | st.timedeltas()
)
def test_python_times_come_back_as_they_were(time):
    back = through_json(time)
    assert back == time
    assert type(back) is type(time)


@pytest.mark.parametrize(
    "time",
    [
        np.datetime64("2013-01-31"),
        np.datetime64("2013-01-31T05", "h"),
        np.datetime64("2013-01-31T05:00:00.123456789", "ns"),
        np.datetime64(77, "25s"),
        np.datetime64("-12000", "Y"),
        np.timedelta64(90, "s"),
    ],
    ids=repr,
)
def test_numpy_times_keep_their_unit(time):
    back = through_json(time)
    assert back == time
    assert back.dtype == time.dtype


@pytest.mark.parametrize("time", [np.datetime64("NaT"), np.datetime64("NaT", "s")])
def test_a_numpy_time_that_is_none_stays_one(time):
    assert np.isnat(through_json(time))


def test_numbers_that_equal_nothing_come_back_too():
    assert math.isnan(through_json(math.nan))
    assert through_json(-math.inf) == -math.inf


@pytest.mark.parametrize("time", [np.int32(4), np.float32(0.1), np.bool_(True), np.str_("noon")])
def test_numpy_scalars_become_those_of_python(time):
    back = through_json(time)
    assert back == time
    assert type(back) in (int, float, bool, str)


def test_pandas_times_are_kept_where_python_can_hold_them():
    assert through_json(pd.Timestamp("2013-01-31 04:00")) == pd.Timestamp("2013-01-31 04:00")
    assert through_json(pd.Timedelta("3h")) == pd.Timedelta("3h")


@pytest.mark.parametrize(
    "time",
    [
        (1, 2),
        [1],
        1j,
        b"bytes",
        np.longdouble(1),
        pd.NaT,
        pd.Timestamp("2013-01-31 04:00:00.123456789"),
        pd.Timedelta(1, "ns"),
    ],
    ids=repr,
)
def test_what_would_not_come_back_is_refused_or_kept_as_text(time):
    with pytest.raises(DataError, match=r"time that is saved must be .* was found\. Change it"):
        pack_time(time)
    assert through_json(time, or_text=True) == str(time)
