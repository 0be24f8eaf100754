"""What models may be fed: every container is read as what its owner means by it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray

from onlinegcp.errors import DataError
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineCP
from onlinegcp.streaming.inputs import is_stream, read_slices
from onlinegcp.streaming.told import Told

TABLE = np.arange(12.0).reshape(4, 3)


def shapes(x, ndim=None):
    slices, single, _ = read_slices(OnlineCP(2), x, told=Told(ndim))
    return [part.shape for part in slices], single


@pytest.mark.parametrize(
    "table",
    [
        TABLE,
        TABLE.tolist(),
        TABLE.astype(int),
        np.asfortranarray(TABLE),
        scipy.sparse.csr_array(TABLE),
        scipy.sparse.coo_matrix(TABLE),
        scipy.sparse.lil_array(TABLE),
        pd.DataFrame(TABLE),
    ],
    ids=["array", "lists", "integers", "fortran", "csr", "coo", "lil", "frame"],
)
@pytest.mark.parametrize("told", [Told(1), Told(table=True)], ids=["one mode", "scikit-learn"])
def test_a_table_is_rows(table, told):
    slices, single, _ = read_slices(OnlineCP(2), table, told=told)
    assert not single
    assert [x.shape for x in slices] == [(3,)] * 4
    for x, row in zip(slices, TABLE, strict=True):
        np.testing.assert_array_equal(x.to_dense(), row)


@pytest.mark.parametrize("table", [TABLE, scipy.sparse.csr_array(TABLE), pd.DataFrame(TABLE)])
def test_a_model_of_matrices_reads_a_table_as_one_slice(table):
    slices, single, _ = read_slices(OnlineCP(2), table, told=Told(2))
    assert single
    np.testing.assert_array_equal(slices[0].to_dense(), TABLE)


@pytest.mark.parametrize(
    "matrix",
    [TABLE, TABLE.tolist(), scipy.sparse.csr_array(TABLE), pd.DataFrame(TABLE)],
    ids=["array", "lists", "csr", "frame"],
)
def test_a_matrix_nobody_spoke_of_is_refused_with_the_ways_to_say_it(matrix):
    with pytest.raises(DataError, match=r"4 x 3 may be one slice or a table of 4.*ndim=2.*ndim=1"):
        shapes(matrix)
    model = OnlineCP(1, init_slices=2)
    with pytest.raises(DataError, match="not told which"):
        model.partial_fit(matrix)
    assert not hasattr(model, "n_slices_")
    # Each way the message names works, for this model and any container.
    ways = (
        OnlineCP(1, init_slices=2, ndim=2),
        OnlineCP(1, init_slices=2, mode_names=("row", "column")),
        OnlineCP(1, init_slices=2).partial_fit([matrix]),
    )
    for told in ways:
        seen = getattr(told, "n_slices_", 0)
        told.partial_fit(matrix)
        told.partial_fit(matrix)
        assert (told.n_slices_ - seen, told.factors_[0].shape) == (2, (4, 1))
    tables = (
        OnlineCP(1, init_slices=2, ndim=1).partial_fit(matrix),
        OnlineCP(1, init_slices=2).fit(matrix),
        OnlineCP(1, init_slices=2).partial_fit(matrix, np.zeros(4)),
    )
    for told in tables:
        assert told.n_slices_ == 4
        assert told.partial_fit(matrix).n_slices_ == 8


def test_vectors_are_slices_of_one_mode():
    model = OnlineCP(1, init_slices=2)
    for _ in range(3):
        model.partial_fit(TABLE[0] + 1.0)
    assert model.n_slices_ == 3
    assert model.partial_fit(TABLE + 1.0).n_slices_ == 7  # which can only be rows now
    assert model.transform(TABLE).shape == (4, 1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ndim": 0}, "ndim must be a whole number >= 1"),
        ({"ndim": 2.0}, "ndim must be a whole number"),
        ({"mode_names": "ab"}, "sequence of names"),
        ({"mode_names": ()}, "sequence of names"),
        ({"mode_names": ("a", "a")}, "must differ"),
        ({"mode_names": ("a", "b"), "ndim": 3}, "must agree, but ndim is 3 and 2 names"),
        ({"ndim": 3}, "slices of 3 modes were needed, as ndim or mode_names say"),
    ],
)
def test_what_models_are_told_must_make_sense(parameters, message):
    with pytest.raises(DataError, match=message):
        OnlineCP(1, **parameters).partial_fit([TABLE])


def test_a_model_of_matrices_does_not_take_a_matrix_for_a_stream():
    model = OnlineCP(1, init_slices=2, ndim=2)
    with pytest.raises(DataError, match=r"stream of 2-way slices.*\[matrix\]"):
        model.fit(TABLE)
    assert model.fit([TABLE, TABLE]).n_slices_ == 2


def test_a_model_of_larger_slices_refuses_a_table():
    with pytest.raises(
        DataError, match=r"works on 3-way slices, but got a matrix of shape \(4, 3\)"
    ):
        shapes(TABLE, ndim=3)


def test_lists_are_several_slices():
    three = [np.ones((2, 2)), Slice.dense(np.ones((2, 2))), ([[0, 1]], [2.0], (2, 2))]
    assert shapes(three) == ([(2, 2)] * 3, False)
    assert shapes([TABLE]) == ([(4, 3)], False)
    assert shapes([TABLE.tolist()]) == ([(4, 3)], False)
    assert shapes([TABLE[0], TABLE[1]]) == ([(3,)] * 2, False)


def test_everything_else_is_one_slice():
    sparse = pytest.importorskip("sparse")
    assert shapes(Slice.dense(TABLE)) == ([(4, 3)], True)
    assert shapes(np.ones((2, 3, 4))) == ([(2, 3, 4)], True)
    assert shapes(([[0, 1]], [2.0], (2, 2))) == ([(2, 2)], True)
    assert shapes(xarray.DataArray(TABLE)) == ([(4, 3)], True)
    assert shapes(sparse.COO.from_numpy(TABLE)) == ([(4, 3)], True)


@pytest.mark.parametrize("bad", ["text", 3.5, None, {"a": 1}, [object()], [TABLE, "text"]])
def test_what_is_no_data_is_refused(bad):
    with pytest.raises(DataError):
        shapes(bad)


def test_times_go_to_their_slices():
    one, *_ = read_slices(OnlineCP(2), Slice.dense(TABLE), "noon")
    assert one[0].time == "noon"
    two, *_ = read_slices(OnlineCP(2), [TABLE, TABLE], ["noon", "night"])
    assert [x.time for x in two] == ["noon", "night"]
    rows, *_ = read_slices(OnlineCP(2), TABLE, np.arange(4), told=Told(1))
    assert [x.time for x in rows] == [0, 1, 2, 3]
    for times in ("noon", 3, ["noon"], range(5)):
        with pytest.raises(DataError, match="a sequence of 2 times"):
            read_slices(OnlineCP(2), [TABLE, TABLE], times)


def test_streams_are_told_from_data():
    class Source:
        def __iter__(self):
            yield Slice.dense(TABLE)

    assert is_stream(Source())
    assert is_stream(iter([TABLE]))
    assert is_stream({1: TABLE}.values())
    for data in (TABLE, [TABLE], TABLE.tolist(), Slice.dense(TABLE), pd.DataFrame(TABLE),
                 scipy.sparse.csr_array(TABLE), ([[0]], [1.0], (2,)), "text",
                 xarray.DataArray(TABLE), SimpleNamespace()):  # fmt: skip
        assert not is_stream(data)


def test_fit_does_not_guess_the_time_axis_of_an_array():
    rng = np.random.default_rng(0)
    stack = rng.random((6, 4, 3))
    model = OnlineCP(1, init_slices=3)
    with pytest.raises(DataError, match=r"shape \(6, 4, 3\), which does not say.*iter\(array\)"):
        model.fit(stack)
    assert model.fit(iter(stack)).n_slices_ == 6
    assert model.fit(iter(np.moveaxis(stack, -1, 0))).n_slices_ == 3
    assert model.fit([stack]).n_slices_ == 1
