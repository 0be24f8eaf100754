"""Labels and names of modes: read from the data, kept by the model, matched from slice to slice."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse
import xarray

from onlinegcp.errors import DataError
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineCP, OnlineGCP, StreamingModel
from onlinegcp.streaming.naming import Names, align, names_of, padded

STATIONS, HOURS = ["north", "south", "west"], ["06", "12"]


def days(count, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.random((3, 2)), rng.random((2, 2))
    return [(a * rng.uniform(1, 2, 2)) @ b.T for _ in range(count)]


def frame(day):
    made = pd.DataFrame(day, index=STATIONS, columns=HOURS)
    return made.rename_axis(index="station", columns="hour")


def cube(day):
    return xarray.DataArray(
        day, dims=("station", "hour"), coords={"station": STATIONS, "hour": HOURS}
    )


@pytest.mark.parametrize(
    ("x", "labels", "modes"),
    [
        (frame(days(1)[0]), (tuple(STATIONS), tuple(HOURS)), ("station", "hour")),
        (cube(days(1)[0]), (tuple(STATIONS), tuple(HOURS)), ("station", "hour")),
        (pd.DataFrame({"a": [1.0], "b": [2.0]}), (None, ("a", "b")), (None, None)),
        (pd.Series([1.0, 2.0], index=[7, 8]), (("7", "8"),), (None,)),
        (pd.Series([1.0], index=pd.MultiIndex.from_tuples([("a", 1)])), (("a, 1",),), (None,)),
        (polars.DataFrame({"a": [1.0], "b": [2.0]}), (None, ("a", "b")), (None, None)),
        (xarray.DataArray(np.ones((2, 2)), dims=("x", "y")), (None, None), ("x", "y")),
    ],
    ids=["frame", "cube", "columns", "series", "tuples", "polars", "axes"],
)
def test_containers_tell_their_names(x, labels, modes):
    assert names_of(x) == Names(labels, modes)


@pytest.mark.parametrize(
    "x",
    [
        np.ones((2, 2)),
        [[1.0]],
        scipy.sparse.csr_array(np.ones((2, 2))),
        pd.DataFrame(np.ones((2, 2))),
        xarray.DataArray(np.ones((2, 2))),
        Slice.dense([1.0]),
    ],
)
def test_others_have_none(x):
    assert names_of(x) is None


@pytest.mark.parametrize("wrap", [frame, cube])
def test_labels_live_in_the_model_its_tables_and_its_figures(wrap, tmp_path):
    model = OnlineGCP(2, init_slices=4, ndim=2)
    for day in days(8):
        model.partial_fit(wrap(day))
    model.save(tmp_path / "model")
    for found in (model, pickle.loads(pickle.dumps(model)), OnlineGCP.load(tmp_path / "model")):
        assert found.row_labels_ == (tuple(STATIONS), tuple(HOURS))
        assert found.mode_names_ == ("station", "hour")
        table = found.components()
        assert table.modes == ("station", "hour")
        assert {label for label, _ in table[0]["modes"]["station"]} == set(STATIONS)
        tidy = found.to_ktensor().to_dataframe()
        assert set(tidy["label"]) == {*STATIONS, *HOURS}
        assert set(tidy["mode_name"]) == {"station", "hour"}
        assert list(found.to_ktensor().to_xarray()["factor_station"].station) == STATIONS
        titles = [note.text for note in found.plot_components().layout.annotations]
        assert titles[:2] == ["station", "hour"]
        assert "north" in found._repr_html_()
    assert model.fit(days(4)).row_labels_ is None


def test_streams_and_lists_of_frames_keep_them_too():
    frames = [frame(day) for day in days(6)]
    for found in (
        OnlineGCP(2, init_slices=4).fit(frames),
        OnlineGCP(2, init_slices=4).fit(iter(frames)),
        OnlineGCP(2, init_slices=4).partial_fit(frames),
    ):
        assert found.row_labels_ == (tuple(STATIONS), tuple(HOURS))


def test_a_table_names_its_columns():
    table = pd.DataFrame(np.random.default_rng(0).random((9, 3)), columns=STATIONS)
    model = OnlineGCP(2, init_slices=4).fit(table)
    assert model.row_labels_ == (tuple(STATIONS),)
    assert {label for label, _ in model.components()[0]["modes"]["mode 1"]} <= set(STATIONS)


def same(a: StreamingModel, b: StreamingModel) -> None:
    for one, other in zip(a.factors_, b.factors_, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("wrap", [frame, cube])
def test_rows_are_matched_by_their_labels(wrap):
    plain, mixed = OnlineGCP(2, init_slices=4), OnlineGCP(2, init_slices=4)
    for t, day in enumerate(days(8)):
        named = wrap(day)
        if t % 3 == 1:
            named = named.T
        if t % 2 and isinstance(named, pd.DataFrame):
            named = named.sort_index(ascending=False).sort_index(axis=1, ascending=False)
        elif t % 2:
            named = named.isel(station=[2, 0, 1], hour=[1, 0])
        plain.partial_fit([day])
        mixed.partial_fit([named])
        np.testing.assert_array_equal(mixed.transform(named), plain.transform(day))
    same(plain, mixed)


def test_labels_that_are_absent_are_missing_and_new_ones_are_new_rows():
    model = OnlineGCP(1, init_slices=3, ndim=2)
    for day in days(5):
        model.partial_fit(frame(day))
    short = frame(days(1)[0]).drop(index="south")
    other = OnlineGCP(1, init_slices=3).fit(days(5))
    holes = days(1)[0].copy()
    holes[1] = np.nan
    same(model.partial_fit(short), other.partial_fit([holes]))
    with pytest.raises(DataError, match="'east' is new in mode 1"):
        model.transform(frame(days(1)[0]).rename(index={"west": "east"}))
    model.partial_fit(frame(days(1)[0]).rename(index={"west": "east"}))
    assert model.row_labels_ == (("north", "south", "west", "east"), tuple(HOURS))
    assert model.factors_[0].shape == (4, 1)
    # One that cannot take missing cells says so instead of reading rows where they do not belong.
    strict = OnlineCP(1, init_slices=3).fit([frame(day) for day in days(5)])
    with pytest.raises(DataError, match="misses 2 of 6 cells"):
        strict.partial_fit(short)


def test_sparse_data_have_zeros_where_a_label_is_absent():
    known = Names((("a", "b", "c"), None), (None, None))
    x, names = align(
        Slice([[0, 1], [1, 0]], [5.0, 7.0], (2, 2)),
        Names((("c", "a"), None), (None, None)),
        known,
        may_grow=True,
    )
    assert names == known
    np.testing.assert_array_equal(x.to_dense(), [[7.0, 0.0], [0.0, 0.0], [0.0, 5.0]])


def test_arrays_go_by_position_beside_frames():
    model = OnlineGCP(1, init_slices=2, ndim=2)
    model.partial_fit(days(1)[0])
    assert model.row_labels_ is None
    model.partial_fit(frame(days(1)[0]))  # names may come late
    assert model.row_labels_ == (tuple(STATIONS), tuple(HOURS))
    for day in days(3):
        model.partial_fit(day)
    longer = np.vstack([days(1)[0], np.ones(2)])
    model.partial_fit(longer)
    assert model.row_labels_ == ((*STATIONS, "3"), tuple(HOURS))
    assert padded((None, ("a",)), (4, 2)) == (None, ("a", "1"))


def test_names_that_contradict_are_refused():
    twice = pd.DataFrame(np.ones((2, 2)), columns=["a", "a"])
    model = OnlineGCP(1, init_slices=2)
    with pytest.raises(DataError, match="'a' occurs twice in mode 2"):
        model.partial_fit([twice])
    model.partial_fit([cube(days(1)[0])])
    with pytest.raises(DataError, match="modes station, hour were needed, but one has x, hour"):
        model.partial_fit(cube(days(1)[0]).rename(station="x"))
    assert model.n_slices_ == 1


def test_a_frame_on_its_side_is_refused_and_leaves_the_model_as_it_was():
    """Its axes have no names: all its rows would be new ones, and all its columns, too."""
    day = pd.DataFrame(np.arange(12.0).reshape(4, 3), index=list("abcd"), columns=list("xyz"))
    model = OnlineGCP(1, init_slices=2, ndim=2).partial_fit(day).partial_fit(day)
    for turned in (day.T, day.T.iloc[:, :3], day.T[["d", "a"]]):
        with pytest.raises(
            DataError, match=r"rows of mode 1 came with labels of mode 2, .* Transp"
        ):
            model.partial_fit(turned)
    assert model.partial_fit(day).shape_ == (4, 3)


def test_new_labels_are_new_whatever_the_other_mode_has():
    """Senders that have received before, and receivers that have sent before."""
    first = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], index=["ann", "bob"], columns=["cid", "dan"])
    for later, shape in (
        (pd.DataFrame([[5.0]], index=["cid"], columns=["ann"]), (3, 3)),
        (pd.DataFrame([[5.0, 6.0]], index=["cid"], columns=["ann", "eve"]), (3, 4)),
        (pd.DataFrame([[5.0], [6.0]], index=["cid", "dan"], columns=["dan"]), (4, 2)),
    ):
        model = OnlineGCP(1, init_slices=2, ndim=2).partial_fit(first).partial_fit(later)
        assert model.shape_ == shape


def test_a_caller_may_call_modes_as_he_likes():
    model = OnlineGCP(1, init_slices=2, mode_names=("Station", "Stunde"))
    for day in days(3):
        model.partial_fit(cube(day))
    assert model.mode_names_ == ("Station", "Stunde")
    assert model.row_labels_ == (tuple(STATIONS), tuple(HOURS))
    turned = OnlineGCP(1, init_slices=2, mode_names=("hour", "station"))
    for day in days(3):
        turned.partial_fit(cube(day))
    assert turned.row_labels_ == (tuple(HOURS), tuple(STATIONS))
    assert [a.shape for a in turned.factors_] == [(2, 1), (3, 1)]


@pytest.mark.parametrize("labels", [7, "abc", [["a"]]])
def test_labels_that_fit_no_modes_are_refused_in_words(labels):
    model = OnlineGCP(1, "poisson", init_slices=2).partial_fit([Slice.dense(np.ones((2, 3)))] * 3)
    with pytest.raises(DataError, match="names of the rows of each of 2 modes"):
        model.components(labels)
