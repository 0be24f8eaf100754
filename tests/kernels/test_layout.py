"""The stacked layout of factor matrices."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from onlinegcp.kernels.layout import aligned_zeros, pad_matrix, pad_vector, stack_factors


@pytest.mark.parametrize("rank", [1, 4, 7, 8, 31, 256])
@pytest.mark.parametrize("shape", [(1,), (5, 1), (2, 3, 7)])
def test_factors_come_back_as_views_of_an_aligned_zero_padded_array(shape, rank):
    rng = np.random.default_rng(0)
    factors = [rng.random((n, rank)) for n in shape]
    blocks = stack_factors(factors)
    assert blocks.shape == shape
    assert blocks.ndim == len(shape)
    assert blocks.data.ctypes.data % 64 == 0
    assert blocks.width % 4 == 0
    assert 0 <= blocks.width - rank < 4
    assert not blocks.data[:, rank:].any()
    for view, factor in zip(blocks.views(), factors, strict=True):
        np.testing.assert_array_equal(view, factor)
        assert np.shares_memory(view, blocks.data)


def test_a_copy_and_zeros_have_their_own_aligned_memory():
    blocks = stack_factors([np.ones((3, 5))])
    copy, zeros = blocks.copy(), blocks.zeros_like()
    copy.data[0, 0] = 9.0
    assert blocks.data[0, 0] == 1.0
    assert not zeros.data.any()
    assert copy.data.ctypes.data % 64 == zeros.data.ctypes.data % 64 == 0


@pytest.mark.parametrize("rows", [range(1, 3), np.array([0, 2])])
def test_some_rows_and_what_is_pickled_keep_single_precision(rows):
    blocks = stack_factors([np.arange(15.0).reshape(3, 5)])
    narrow = replace(blocks, data=blocks.data.astype(np.float32))
    some = narrow.some_rows([rows])
    assert narrow.copy().data.dtype == np.float32
    assert some.data.dtype == pickle.loads(pickle.dumps(some)).data.dtype == np.float32
    assert some.data[:, :5].tolist() == np.arange(15.0).reshape(3, 5)[rows].tolist()


def test_vectors_and_matrices_are_padded_with_zeros():
    assert pad_vector(np.ones(5)).tolist() == [1.0] * 5 + [0.0] * 3
    matrix = pad_matrix(np.ones((3, 3)))
    assert matrix.shape == (4, 4)
    assert matrix.sum() == 9.0


def test_empty_shapes_are_allowed():
    assert aligned_zeros((0, 4)).shape == (0, 4)
