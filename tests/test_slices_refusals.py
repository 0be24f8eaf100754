"""Slices that cannot be: what was required, what was found and where, what to do."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import pyttb
import scipy.sparse
import xarray

from onlinegcp.errors import DataError
from onlinegcp.slices import Slice, as_slice, stack

NAN = float("nan")
FULL = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
SPARSE = Slice([[0, 1], [1, 0], [1, 2]], [2.0, 1.0, 3.0], (2, 3), time="now")


BAD_SLICES = {
    "index of three columns": (
        ([[0, 0, 0]], [1], (2, 2)),
        r"shape \(n, 2\).*but shape \(1, 3\).*Give 2 columns",
    ),
    "index of entries in columns": (
        (np.zeros((2, 5), int), np.ones(5), (2, 2)),
        r"shape \(2, 5\) was found\. Transpose",
    ),
    "index as np.nonzero gives it": (
        (np.nonzero(np.eye(2)), [1, 1], (2, 2)),
        r"tuple of 2 arrays.*column_stack",
    ),
    "flat index": (([0, 1], [1, 1], (2, 2)), r"but shape \(2,\) was found"),
    "empty index of other width": ((np.empty((0, 3)), [], (2, 2)), r"but shape \(0, 3\)"),
    "ragged index": (([[0, 0], [1]], [1, 1], (2, 2)), r"Index must be an array.*equal length"),
    "fewer values": (([[0], [1]], [1], (2,)), r"shape \(2,\), but shape \(1,\) was found"),
    "values in a column": (([[0]], [[1]], (2,)), r"shape \(1,\), but shape \(1, 1\)"),
    "scalar value": (([[0]], 1, (2,)), r"but shape \(\) was found"),
    "negative index": (([[0, 1], [1, -3]], [1, 1], (2, 3)), r"0 and 2 in mode 1, but entry 1.*-3"),
    "index too large": (
        ([[0, 1], [2, 0]], [1, 1], (2, 3)),
        r"0 and 1 in mode 0, but entry 1 has 2",
    ),
    "huge unsigned index": (
        (np.array([[2**64 - 1]], np.uint64), [1], (2,)),
        r"1844674407370955161",
    ),
    "float index": (([[0.0], [1.5]], [1, 1], (2,)), r"integers, but dtype float64.*astype\(int\)"),
    "whole float index": (([[1.0]], [1], (2,)), r"entry 0 being \[1\.0\].*astype\(int\)"),
    "boolean index": (([[True]], [1], (2,)), r"integers, but dtype bool"),
    "text index": (([["a"]], [1], (2,)), r"Index must hold real numbers, but dtype <U1"),
    "NaN": (([[0], [1]], [1, NAN], (2,)), r"finite, but entry 1 is nan.*unlisted='missing'"),
    "masked": (([0, 1], np.ma.masked_equal([1, 7], 7), (2,)), r"entry 1 is nan"),
    "infinity": (([[0], [1]], [-math.inf, 1], (2,)), r"finite, but entry 0 is -inf"),
    "overflowing sum": (([[0, 1]] * 2, [1e308] * 2, (1, 2)), r"cell \(0, 1\) it is inf.*Scale"),
    "text values": (([[0]], ["x"], (2,)), r"real numbers, but dtype <U1 was found, first entry"),
    "complex values": (([[0]], [1j], (2,)), r"real numbers, but dtype complex128.*\.real"),
    "objects": (([[0]], [None], (2,)), r"dtype object was found, first entry None"),
    "dates": (([[0]], np.array(["2020"], "M8[Y]"), (2,)), r"real numbers, but dtype datetime64"),
    "no modes": (([], [], ()), r"at least one mode, but the shape is \(\)"),
    "mode without positions": (([], [], (2, 0)), r"from 1 to 2147483647, but mode 1 has 0.*Leave"),
    "negative mode": (([], [], (-2, 1)), r"mode 0 has -2"),
    "long mode": (([], [], (2**31,)), r"mode 0 has 2147483648.*split"),
    "float mode": (([], [], (2.0,)), r"whole length.*mode 0 has 2\.0"),
    "boolean mode": (([], [], (True,)), r"mode 0 has True"),
    "text shape": (([], [], "23"), r"sequence of mode lengths, but '23'"),
    "number for shape": (([], [], 5), r"but 5 was found\. Write \(5,\)"),
    "too many cells": (([], [], (2**31 - 1,) * 3), r"fewer than 2\^63 cells, but .* 2\^93\. Use"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD_SLICES.values(), ids=BAD_SLICES)
def test_bad_entries_are_refused_with_place_and_advice(arguments, message):
    with pytest.raises(DataError, match=message):
        Slice(*arguments)


def test_an_unknown_meaning_of_unlisted_is_refused():
    with pytest.raises(DataError, match=r"'zero' or 'missing', but 'nan' was found\. Choose"):
        Slice([], [], (2,), unlisted="nan")


BAD_TENSORS = {
    "infinity": ([[1.0, 2.0], [math.inf, NAN]], r"finite values, but cell \(1, 0\) is inf.*NaN"),
    "minus infinity": ([-math.inf, math.inf], r"cell \(0,\) is -inf"),
    "long double beyond float64": (np.array([np.longdouble("1e4000")]), r"cell \(0,\) is inf"),
    "a number": (np.float64(3.0), r"at least one mode"),
    "an empty list": ([], r"mode 0 has 0"),
    "no rows": (np.empty((0, 3)), r"mode 0 has 0"),
    "complex": (np.ones(2, complex), r"real numbers, but dtype complex128"),
    "objects": (np.array([1, None]), r"dtype object was found, first entry 1"),
    "text": (np.array(["a"]), r"dtype <U1"),
    "ragged list": ([[1, 2], [3]], r"A dense slice must be an array.*rows of equal length"),
    "python int": (3, r"made from a Slice.*scipy\.sparse.*but int was found\. Convert"),
    "string": ("abc", r"but str was found"),
    "nothing": (None, r"but NoneType was found"),
    "dictionary": ({"a": 1}, r"but dict was found"),
    "pair": (([[0]], [1]), r"but a tuple of 2 was found"),
    "list of slices": ([SPARSE, SPARSE], r"stack\(\) joins slices"),
    "ktensor": (pyttb.ktensor([np.ones((2, 1)), np.ones((2, 1))]), r"but ktensor was found"),
    "data set": (xarray.Dataset({"data": ("a", [1.0])}), r"real numbers|Dataset"),
    "scipy NaN": (scipy.sparse.csr_array([[NAN, 0.0]]), r"finite, but entry 0 is nan"),
}


@pytest.mark.parametrize(("obj", "message"), BAD_TENSORS.values(), ids=BAD_TENSORS)
def test_what_holds_no_tensor_is_refused(obj, message):
    with pytest.raises(DataError, match=message):
        as_slice(obj)


def test_stack_refuses_nothing_one_slice_and_different_shapes():
    with pytest.raises(DataError, match="at least one slice, but there are none"):
        stack([])
    with pytest.raises(DataError, match="list of slices, but Slice was found"):
        stack(SPARSE)
    with pytest.raises(DataError, match=r"slice 0 has \(2, 3\) and slice 1 has \(3, 2\)"):
        stack([FULL, FULL.T])
    with pytest.raises(DataError, match=r"fewer than 2\^63"):
        stack([Slice([], [], (2**31 - 1, 2**31 - 1))] * 3)


def test_to_dense_of_a_tensor_beyond_memory_says_so():
    x = Slice([[0, 0, 0]], [1.0], (2**20, 2**20, 2**20))
    with pytest.raises(DataError, match=r"memory for every cell.*Use index and value"):
        x.to_dense()


@pytest.mark.slow
def test_ten_million_entries_cost_less_than_three_argsorts():
    rng = np.random.default_rng(0)
    index = rng.integers(0, [2000, 3000, 500], size=(10**7, 3), dtype=np.int32)
    value = np.ones(10**7)
    start = time.process_time()
    x = Slice(index, value, (2000, 3000, 500))
    ours = time.process_time() - start
    start = time.process_time()
    np.argsort(np.ravel_multi_index(tuple(index.T), x.shape), kind="stable")
    assert ours < 3 * (time.process_time() - start)
    assert x.total == 1e7
