"""Slices: canonical form, dense ones, immutability and stacking."""

from __future__ import annotations

import copy
import datetime
import math
import pickle
import weakref

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinegcp.slices import Slice, as_slice, stack

NAN = float("nan")
FULL = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])


@st.composite
def listings(draw, shape=None):
    """Entries with many duplicates and zeros; small whole values, so that sums are exact."""
    if shape is None:
        shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    rows = st.tuples(*(st.integers(0, dim - 1) for dim in shape))
    index = draw(st.lists(rows, max_size=30))
    value = draw(st.lists(st.integers(-2, 2), min_size=len(index), max_size=len(index)))
    return np.array(index, dtype=int).reshape(-1, len(shape)), np.array(value, dtype=float), shape


@st.composite
def slices_of_one_shape(draw):
    shape = draw(st.sampled_from([(1,), (3,), (2, 3), (2, 1, 3)]))
    parts = []
    for _ in range(draw(st.integers(1, 4))):
        index, value, _ = draw(listings(shape))
        kind = draw(st.sampled_from(["zero", "missing", "dense", "holes"]))
        if kind in ("zero", "missing"):
            parts.append(Slice(index, value, shape, unlisted=kind))
        else:
            full = Slice(index, value, shape).to_dense()
            if kind == "holes":
                full[tuple(index[:1].T)] = NAN
            parts.append(Slice.dense(full))
    return parts


def scattered(index, value, shape):
    full = np.zeros(shape)
    np.add.at(full, tuple(index.T), value)
    return full


# Canonical form


@settings(deadline=None)
@given(listings())
def test_unlisted_zero_equals_scattering_the_entries(entries):
    index, value, shape = entries
    x = Slice(index, value, shape)
    full = scattered(index, value, shape)
    np.testing.assert_array_equal(x.to_dense(), full)
    np.testing.assert_array_equal(x.index, np.argwhere(full))
    np.testing.assert_array_equal(x.value, full[full != 0])
    assert x.nnz == x.n_listed == np.count_nonzero(full)
    assert x.n_unlisted_zeros == (full == 0).sum()
    assert x.n_observed == full.size
    assert x.total == full.sum()
    assert x.norm_squared == (full**2).sum()


@settings(deadline=None)
@given(listings())
def test_unlisted_missing_keeps_explicit_zeros_and_leaves_the_rest_unknown(entries):
    index, value, shape = entries
    x = Slice(index, value, shape, unlisted="missing")
    seen = scattered(index, np.ones(len(value)), shape) > 0
    expected = np.where(seen, scattered(index, value, shape), NAN)
    np.testing.assert_array_equal(x.to_dense(), expected)
    assert x.n_listed == x.n_observed == seen.sum()
    assert x.n_unlisted_zeros == 0


@settings(deadline=None)
@given(listings(), st.randoms(use_true_random=False))
def test_the_order_of_the_entries_is_irrelevant(entries, random):
    index, value, shape = entries
    order = list(range(len(value)))
    random.shuffle(order)
    assert Slice(index, value, shape) == Slice(index[order], value[order], shape)


def test_arrays_have_the_promised_types_and_layout():
    x = Slice([[1, 0], [0, 1]], [1, 2], (2, 2))
    assert x.index.dtype == np.int32
    assert x.index.flags.c_contiguous
    assert x.value.dtype == np.float64
    assert x.shape == (2, 2)
    assert all(type(dim) is int for dim in Slice([], [], np.array([2, 3])).shape)
    assert (x.ndim, x.size, x.array, x.time, x.unlisted) == (2, 4, None, None, "zero")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64, np.uint64])
def test_every_integer_type_is_an_index(dtype):
    index = np.array([[2, 0, 1], [0, 3, 0]], dtype=dtype)
    x = Slice(index, [1.0, 2.0], (3, 4, 2))
    np.testing.assert_array_equal(x.index, [[0, 3, 0], [2, 0, 1]])


def test_a_fortran_ordered_or_strided_index_reads_the_same():
    rng = np.random.default_rng(0)
    index = rng.integers(0, 7, size=(50, 3))
    value = rng.random(50)
    expected = Slice(index, value, (7, 7, 7))
    assert Slice(np.asfortranarray(index), value, (7, 7, 7)) == expected
    assert Slice(index[::-1][::-1], value[::-1][::-1], (7, 7, 7)) == expected


@pytest.mark.parametrize("shape", [(2**31 - 1, 2**31 - 1, 2), (2**31 - 1,), (2**20, 2**20, 2**20)])
def test_tensors_with_very_many_cells_sort_by_linear_index(shape):
    rng = np.random.default_rng(1)
    index = np.stack([rng.integers(0, dim, 101) for dim in shape], axis=1)
    index = np.concatenate([index, index[:50], [[dim - 1 for dim in shape]]])
    x = Slice(index, np.arange(1.0, 153.0), shape)
    assert x.size == math.prod(shape)
    assert x.n_unlisted_zeros == math.prod(shape) - 102
    assert [tuple(row) for row in x.index.tolist()] == sorted({tuple(r) for r in index.tolist()})
    assert x.total == np.arange(1.0, 153.0).sum()


@pytest.mark.parametrize("shape", [(3,), (3, 2**30, 2**30)])
def test_sums_of_duplicates_depend_on_their_own_order_only(shape):
    rng = np.random.default_rng(3)
    triple = [1e16, 1.0, -1e16]  # the sum depends on the order
    rest = [0] * (len(shape) - 1)
    alone = Slice([[2, *rest]] * 3, triple, shape, unlisted="missing").value
    places = np.sort(rng.choice(500, 3, replace=False))
    index = np.array([[row, *rest] for row in rng.integers(0, 2, 500)])
    value = rng.random(500)
    index[places, 0], value[places] = 2, triple
    joined = Slice(index, value, shape, unlisted="missing")
    assert joined.value[2:].tolist() == alone.tolist()


def test_duplicates_that_cancel_are_dropped_as_zeros():
    assert Slice([[0], [0]], [1.0, -1.0], (2,)).n_listed == 0
    assert Slice([[0], [0]], [1.0, -1.0], (2,), unlisted="missing").n_listed == 1


@pytest.mark.parametrize("index", [[], np.empty((0, 2)), np.empty((0, 2), dtype=int)])
def test_a_slice_without_entries_is_a_slice(index):
    x = Slice(index, [], (2, 3))
    assert x.index.shape == (0, 2)
    assert (x.n_listed, x.n_unlisted_zeros, x.total, x.norm_squared) == (0, 6, 0.0, 0.0)
    assert Slice(index, [], (2, 3), unlisted="missing").n_observed == 0


def test_one_way_slices_take_a_flat_index():
    assert Slice([2, 0], [1, 2], (3,)) == Slice([[2], [0]], [1, 2], (3,))


def test_booleans_and_wide_integers_become_floats():
    np.testing.assert_array_equal(Slice([0, 1], [True, True], (2,)).value, [1.0, 1.0])
    wide = np.array([2**63 + 1, 2**53 + 2], dtype=np.uint64)
    np.testing.assert_array_equal(Slice([0, 1], wide, (2,)).value, [2.0**63, 2.0**53 + 2])


# Dense slices


def test_a_dense_array_is_kept_and_every_cell_listed():
    array = np.arange(24.0).reshape(2, 3, 4)
    x = Slice.dense(np.asfortranarray(array), time=3)
    np.testing.assert_array_equal(x.array, array)
    assert x.array.flags.c_contiguous
    assert x.unlisted == "missing"
    assert (x.n_listed, x.n_observed, x.n_unlisted_zeros, x.nnz) == (24, 24, 0, 23)
    assert np.shares_memory(x.value, x.array)
    np.testing.assert_array_equal(array[tuple(x.index.T)], x.value)
    assert x.index.dtype == np.int32
    assert x.index.flags.c_contiguous
    assert x.index is x.index
    # The same cells given one by one are the same slice, but hold no array.
    listed = Slice(x.index[::-1], x.value[::-1], x.shape, time=3, unlisted="missing")
    assert listed == x
    assert listed.array is None


def test_nan_and_masked_cells_of_a_dense_array_are_missing():
    array = np.array([[1.0, NAN], [0.0, 4.0]])
    x = Slice.dense(array)
    assert x.array is None
    np.testing.assert_array_equal(x.index, [[0, 0], [1, 0], [1, 1]])
    np.testing.assert_array_equal(x.to_dense(), array)
    masked = np.ma.masked_array([[1, 7], [0, 4]], mask=[[0, 1], [0, 0]])
    assert as_slice(masked) == x
    assert Slice.dense([NAN, NAN]).n_observed == 0


def test_dense_values_whose_sum_overflows_are_still_finite_data():
    x = Slice.dense([1.5e308, 1.5e308, -1.0])
    assert x.array is not None
    assert x.total == math.inf
    assert x.norm_squared == math.inf


# Immutability and identity


def test_inputs_are_neither_changed_nor_shared():
    index = np.array([[1], [0], [1]], dtype=np.int32)
    value = np.array([1.0, 2.0, 3.0])
    ordered = np.array([[0], [1]], dtype=np.int32)
    array = np.ones(2)
    x, y, z = Slice(index, value, (2,)), Slice(ordered, value[:2], (2,)), Slice.dense(array)
    assert index.tolist() == [[1], [0], [1]]
    assert value.tolist() == [1.0, 2.0, 3.0]
    index[:], value[:], ordered[:], array[:] = 0, 9.0, 0, 9.0
    assert x.to_dense().tolist() == [2.0, 4.0]
    assert y.to_dense().tolist() == [1.0, 2.0]
    assert z.to_dense().tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "x", [Slice([[1], [0]], [1, 2], (3,)), Slice.dense([1.0, 2.0]), Slice.dense([1.0, NAN])]
)
def test_nothing_in_a_slice_can_be_changed(x):
    revived = pickle.loads(pickle.dumps(x))
    for holder in (x, revived, x.with_time(5), copy.deepcopy(x)):
        for array in (holder.index, holder.value, holder.array):
            if array is not None:
                with pytest.raises(ValueError, match="read-only"):
                    array[...] = 0
        with pytest.raises(AttributeError):
            holder.shape = (9,)
    x.to_dense()[:] = 0  # the copy is the caller's own
    assert x.total > 0


def test_a_slice_survives_pickling():
    for x in (
        Slice([[1, 2]], [3.0], (2, 3), time=datetime.date(2013, 1, 1), unlisted="missing"),
        Slice.dense(np.eye(3), time="a"),
        Slice([], [], (2,)),
    ):
        revived = pickle.loads(pickle.dumps(x))
        assert revived == x
        assert revived.time == x.time
        assert (revived.array is None) == (x.array is None)
    size = len(pickle.dumps(Slice.dense(np.zeros(10_000))))
    assert size < 8 * 10_000 + 1_000


def test_with_time_changes_the_time_only():
    x = Slice([[1]], [2.0], (3,), time=1)
    y = x.with_time(2)
    assert (x.time, y.time) == (1, 2)
    assert y != x
    assert y.with_time(1) == x
    assert y.value is x.value


def test_equality_looks_at_content_shape_time_and_meaning():
    x = Slice([[1]], [2.0], (3,))
    assert x == Slice([[1], [1]], [0.5, 1.5], (3,))
    for other in (
        Slice([[1]], [2.0], (4,)),
        Slice([[0]], [2.0], (3,)),
        Slice([[1]], [2.5], (3,)),
        Slice([[1]], [2.0], (3,), time=0),
        Slice([[1]], [2.0], (3,), unlisted="missing"),
        "a slice",
    ):
        assert x != other
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    assert weakref.ref(x)() is x


def test_repr_tells_what_matters():
    assert repr(Slice([[1]], [2], (3,))) == "Slice(shape=(3,), n_listed=1, unlisted='zero')"
    assert "dense" in repr(Slice.dense([1.0]))
    assert "time=7" in repr(Slice.dense([1.0], time=7))


# Stacking


@settings(deadline=None)
@given(slices_of_one_shape())
def test_stack_equals_stacking_the_dense_arrays(parts):
    joined = stack(parts)
    expected = np.stack([x.to_dense() for x in parts], axis=-1)
    np.testing.assert_array_equal(joined.to_dense(), expected)
    assert joined.shape == (*parts[0].shape, len(parts))
    assert joined.n_observed == sum(x.n_observed for x in parts)
    order = np.ravel_multi_index(tuple(joined.index.T), joined.shape)
    assert (np.diff(order) > 0).all()


def test_stacking_dense_slices_stays_dense():
    joined = stack([np.eye(2), np.ones((2, 2))])
    assert joined.array is not None
    assert joined.array.flags.c_contiguous


def test_stack_takes_anything_iterable_that_holds_tensors():
    joined = stack(scipy.sparse.csr_array(FULL) * t for t in range(3))
    np.testing.assert_array_equal(joined.to_dense(), FULL[:, :, None] * np.arange(3))
    assert joined.n_listed == 6
