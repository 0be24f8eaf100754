"""Anything that holds a tensor becomes the slice it stands for."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import pyttb
import scipy.sparse
import sparse
import xarray

from onlinegcp import OnlineGCP
from onlinegcp.errors import DataError
from onlinegcp.slices import Slice, as_slice

NAN = float("nan")


FULL = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
SPARSE = Slice([[0, 1], [1, 0], [1, 2]], [2.0, 1.0, 3.0], (2, 3), time="now")


@pytest.mark.parametrize("kind", ["csr", "coo", "csc", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("make", ["matrix", "array"])
def test_scipy_sparse_becomes_a_slice(kind, make):
    obj = getattr(scipy.sparse, f"{kind}_{make}")(FULL)
    assert as_slice(obj, time="now") == SPARSE


def test_scipy_duplicates_are_summed():
    obj = scipy.sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2))
    assert as_slice(obj).to_dense().tolist() == [[0.0, 3.0], [0.0, 0.0]]


@pytest.mark.parametrize("convert", [sparse.COO, sparse.GCXS, sparse.DOK])
def test_pydata_sparse_becomes_a_slice(convert):
    assert as_slice(convert(FULL), time="now") == SPARSE


def test_pydata_sparse_of_three_modes_and_of_one():
    rng = np.random.default_rng(0)
    full = rng.poisson(0.3, (4, 1, 5)).astype(float)
    np.testing.assert_array_equal(as_slice(sparse.COO(full)).to_dense(), full)
    np.testing.assert_array_equal(as_slice(sparse.GCXS(full)).to_dense(), full)
    np.testing.assert_array_equal(as_slice(sparse.COO(full[0, 0])).to_dense(), full[0, 0])


def test_pydata_fill_value_nan_means_missing_and_others_are_refused():
    full = np.array([[NAN, 0.0], [2.0, NAN]])
    x = as_slice(sparse.COO(full, fill_value=NAN))
    assert x == Slice.dense(full)
    with pytest.raises(DataError, match=r"fill value 0 .* but 3\.0 was found.*todense"):
        as_slice(sparse.COO(np.full((2, 2), 3.0), fill_value=3.0))


def test_pyttb_tensors_become_slices():
    dense = pyttb.tensor(np.arange(24.0).reshape(2, 3, 4))
    x = as_slice(dense, time=1)
    np.testing.assert_array_equal(x.array, np.arange(24.0).reshape(2, 3, 4))
    assert as_slice(pyttb.tensor(FULL).to_sptensor(), time="now") == SPARSE
    assert as_slice(pyttb.sptensor(shape=(2, 3))) == Slice([], [], (2, 3))


class TorchTensor:
    """Just enough of torch.Tensor: what as_slice may touch, with its names and meanings."""

    def __init__(self, numbers, entries=None, shape=None, layout="torch.strided"):
        self.numbers, self.entries = np.asarray(numbers), entries
        self.shape, self.layout = shape, layout
        self.dtype = f"torch.{self.numbers.dtype}"

    @property
    def is_sparse(self):
        return self.layout == "torch.sparse_coo"

    def is_complex(self):
        return np.iscomplexobj(self.numbers)

    def detach(self):
        return self

    cpu = coalesce = detach

    def to_sparse_coo(self):
        return TorchTensor(self.numbers, self.entries, self.shape, "torch.sparse_coo")

    def double(self):
        return TorchTensor(self.numbers.astype(float), self.entries, self.shape, self.layout)

    def numpy(self):
        return self.numbers

    def indices(self):
        return TorchTensor(self.entries)

    def values(self):
        return TorchTensor(self.numbers)


@pytest.mark.parametrize("layout", ["torch.sparse_coo", "torch.sparse_csr"])
def test_sparse_torch_tensors_become_slices(layout):
    obj = TorchTensor(SPARSE.value, SPARSE.index.T, (2, 3), layout)
    assert as_slice(obj, time="now") == SPARSE


def test_dense_torch_tensors_become_slices_and_odd_ones_are_refused():
    assert as_slice(TorchTensor(np.array([1, 2], dtype=np.int16))) == Slice.dense([1.0, 2.0])
    with pytest.raises(DataError, match=r"real numbers, but .*complex.*\.real"):
        as_slice(TorchTensor([1j]))
    with pytest.raises(DataError, match=r"one number per entry, .*\(3, 2\).*to_dense"):
        as_slice(TorchTensor(np.ones((3, 2)), SPARSE.index.T, (2, 3, 2), "torch.sparse_coo"))


def test_xarray_becomes_a_slice_with_nan_missing():
    array = xarray.DataArray([[1.0, NAN]], dims=("a", "b"), coords={"b": [10, 20]})
    x = as_slice(array, time=4)
    assert x == Slice([[0, 0]], [1.0], (1, 2), time=4, unlisted="missing")
    wrapped = xarray.DataArray(sparse.COO(FULL), dims=("a", "b"))
    assert as_slice(wrapped, time="now") == SPARSE


def test_arrays_lists_and_tables_become_dense_slices():
    for obj in (FULL, FULL.tolist(), pd.DataFrame(FULL), pl.DataFrame(FULL)):
        x = as_slice(obj, time=1)
        assert x == Slice.dense(FULL, time=1)
        assert x.array is not None
    # A table answers attribute requests with columns, which must not fool the recognition.
    assert as_slice(pd.DataFrame({"subs": [1.0], "vals": [2.0]})) == Slice.dense([[1.0, 2.0]])


@pytest.mark.parametrize("kind", ["Int64", "UInt8", "Float32", "boolean"])
def test_nullable_columns_of_pandas_are_numbers_and_their_gaps_are_missing(kind):
    whole = pd.DataFrame({"a": [0, 1], "b": [1, 1]})
    assert as_slice(whole.astype(kind)) == Slice.dense(whole)
    mixed = whole.astype({"b": kind})  # beside a column as NumPy has it
    assert as_slice(mixed) == Slice.dense(whole)
    assert as_slice(mixed["b"]) == Slice.dense([1.0, 1.0])
    mixed.loc[1, "b"] = pd.NA
    assert as_slice(mixed) == Slice.dense([[0.0, 1.0], [1.0, NAN]])
    assert as_slice(mixed["b"]) == Slice.dense([1.0, NAN])
    gaps = OnlineGCP(1, ndim=2).partial_fit(mixed)
    assert gaps.partial_fit(whole).row_labels_ == (None, ("a", "b"))


def test_decimal_columns_of_polars_are_numbers_and_their_gaps_are_missing():
    table = pl.DataFrame({"a": [Decimal("1.50"), None], "b": [2, 3]})
    assert as_slice(table) == Slice.dense([[1.5, 2.0], [NAN, 3.0]])
    assert as_slice(table["a"]) == Slice.dense([1.5, NAN])
    assert as_slice(table["b"]) == Slice.dense([2.0, 3.0])


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": ["1", "2"], "b": pd.array([1, 2], dtype="Int64")}),
        pd.DataFrame({"a": [1, "2"]}),
        pd.DataFrame({"a": pd.Categorical([1, 2])}).astype(object),
        pl.DataFrame({"a": ["1", "2"], "b": [Decimal(1), Decimal(2)]}),
    ],
)
def test_text_and_objects_in_a_table_are_no_numbers(table):
    with pytest.raises(DataError, match="must hold real numbers, but dtype object"):
        as_slice(table)


def test_tuples_are_coordinates_values_and_shape():
    assert as_slice((SPARSE.index, SPARSE.value, (2, 3)), time="now") == SPARSE


def test_a_slice_is_returned_as_it_is_unless_a_time_is_given():
    assert as_slice(SPARSE) is SPARSE
    assert as_slice(SPARSE, time=5).time == 5
    assert SPARSE.time == "now"
