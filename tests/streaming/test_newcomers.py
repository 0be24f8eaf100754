"""What people who have never seen the library pass first, and what they are told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from onlinegcp import OnlineGCP
from onlinegcp.errors import DataError
from onlinegcp.events import from_events
from onlinegcp.streaming import METHODS

EVENTS = {"when": pd.date_range("2024", periods=6), "shop": list("ababab"), "n": range(6)}


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.__name__)
def test_a_misspelt_parameter_is_suggested(method):
    with pytest.raises(
        TypeError, match=r"no parameter 'ran'\. Did you mean 'rank'\? Choose one of"
    ):
        method(ran=3)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(EVENTS),
        pd.DataFrame({"shop": pd.Categorical(EVENTS["shop"]), "n": EVENTS["n"]}),
        pl.DataFrame({"shop": EVENTS["shop"], "n": list(EVENTS["n"])}),
    ],
)
@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_a_table_of_events_is_sent_to_from_events(table, call):
    with pytest.raises(DataError, match=r"holds .* from_events\(table, time"):
        getattr(OnlineGCP(2, "poisson"), call)(table)


def test_frames_of_numbers_are_slices_whatever_their_columns_are_kept_as():
    x = np.random.default_rng(0).poisson(3.0, (5, 4))
    frames = [
        pd.DataFrame(x),
        pl.DataFrame(x),
    ]
    for frame in frames:
        assert OnlineGCP(1, "poisson", ndim=2).partial_fit(frame).shape_ == x.shape


def test_a_path_is_sent_to_from_events():
    with pytest.raises(DataError, match=r"str was found: 'trips\.csv'.*from_events"):
        OnlineGCP(2).partial_fit("trips.csv")


def test_an_empty_list_is_no_stream():
    with pytest.raises(DataError, match="at least one slice was needed, but the list is empty"):
        OnlineGCP(2).fit([])


def test_an_index_of_pandas_that_says_when_is_a_column():
    table = pd.DataFrame(EVENTS).set_index("when")
    options = {"every": "1d", "modes": ["shop"]}
    named = [x.total for x in from_events(table, time="when", **options)]
    table.index.name = None
    assert named == [x.total for x in from_events(table, time="index", **options)] == [1.0] * 6
    both = pd.DataFrame(EVENTS).set_index("when", drop=False)
    assert [x.total for x in from_events(both, time="when", **options)] == named
