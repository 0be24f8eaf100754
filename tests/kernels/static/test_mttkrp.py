"""Sparse and dense MTTKRP against dense contractions."""

from __future__ import annotations

import numpy as np
import pytest

import kernel_twins
from onlinegcp.kernels.layout import stack_factors
from onlinegcp.kernels.static import fibres
from onlinegcp.kernels.static.fibres import group_rows, run_chunks
from onlinegcp.kernels.static.mttkrp import (
    contract_half,
    dense_mttkrp,
    finish_half,
    half_of,
    khatri_rao,
    mttkrp,
)

SHAPES = [(7,), (1,), (5, 3), (1, 11), (7, 1, 5), (6, 5, 4), (3, 4, 1, 5), (2, 3, 2, 3, 2)]


def sparse_tensor(shape, density, seed=0):
    rng = np.random.default_rng(seed)
    array = rng.normal(size=shape) * (rng.random(shape) < density)
    index = np.ascontiguousarray(np.argwhere(array), dtype=np.int32)
    return array, index, array[tuple(index.T)]


def random_factors(shape, rank, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, rank)) for n in shape]


def unfolded_product(array, factors, mode):
    """Oracle: the unfolding times the Khatri-Rao product, by one einsum over all modes."""
    letters = "abcdefg"[: array.ndim]
    terms = [letters] + [f"{letters[j]}z" for j in range(array.ndim) if j != mode]
    if len(terms) == 1:
        return np.repeat(array[:, None], factors[0].shape[1], axis=1)
    operands = [array] + [factors[j] for j in range(array.ndim) if j != mode]
    return np.einsum(",".join(terms) + f"->{letters[mode]}z", *operands)


@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sparse_product_equals_the_dense_contraction(shape, density):
    array, index, value = sparse_tensor(shape, density)
    for rank in (1, 5):
        factors = random_factors(shape, rank)
        blocks = stack_factors(factors)
        for mode, groups in enumerate(group_rows(index, value, shape)):
            out = mttkrp(groups, blocks)
            expected = unfolded_product(array, factors, mode)
            np.testing.assert_allclose(out, expected, rtol=1e-12, atol=2e-11)
            np.testing.assert_allclose(
                kernel_twins.mttkrp(index, value, factors, mode), expected, rtol=1e-12, atol=1e-12
            )


@pytest.mark.parametrize("share", [0.0, 0.7, 10.0])
def test_positions_and_copies_give_the_same_product(monkeypatch, share):
    monkeypatch.setattr(fibres, "EXTRA_SHARE", share)
    shape = (4, 5, 3, 6)
    array, index, value = sparse_tensor(shape, 0.4)
    factors = random_factors(shape, 7)
    for mode, groups in enumerate(group_rows(index, value, shape)):
        out = mttkrp(groups, stack_factors(factors))
        np.testing.assert_allclose(out, unfolded_product(array, factors, mode), atol=1e-12)


@pytest.mark.parametrize("d", [2, 3, 4, 5, 6])
def test_grouping_stays_within_its_share_of_memory(d):
    shape = (5,) * d
    _, index, value = sparse_tensor(shape, 1.0)
    groups = group_rows(index, value, shape)
    extra = sum(g.nbytes - g.starts.nbytes for g in groups)
    assert extra <= fibres.EXTRA_SHARE * (index.nbytes + value.nbytes)


def test_groups_list_every_cell_of_a_row_in_c_order():
    shape = (4, 3, 5)
    _, index, value = sparse_tensor(shape, 0.5)
    for mode, groups in enumerate(group_rows(index, value, shape)):
        order = np.argsort(index[:, mode], kind="stable")
        cells = groups.order if groups.order.size else np.arange(len(value))
        np.testing.assert_array_equal(groups.value[cells], value[order])
        np.testing.assert_array_equal(
            groups.index[cells][:, groups.columns], index[order][:, groups.others]
        )


@pytest.mark.parametrize("shape", [(1, 40, 9), (40, 1, 9), (2, 30, 17), (19, 19)], ids=str)
def test_threads_and_rows_longer_than_a_chunk_do_not_change_a_bit(shape):
    _, index, value = sparse_tensor(shape, 1.0)
    factors = random_factors(shape, 6)
    blocks = stack_factors(factors)
    # A compiled kernel keeps the constant it was compiled with, so the tensor is repeated until
    # it holds several chunks of that size.
    copies = 3 * fibres.CHUNK // len(value) + 1
    index = np.repeat(index, copies, axis=0)
    value = np.repeat(value, copies)
    for mode, groups in enumerate(group_rows(index, value, shape)):
        one = mttkrp(groups, blocks, n_jobs=1)
        for n_jobs in (2, 3):
            np.testing.assert_array_equal(mttkrp(groups, blocks, n_jobs=n_jobs), one)
        expected = kernel_twins.mttkrp(index, value, factors, mode)
        np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_padding_columns_stay_zero_and_factors_are_not_touched():
    shape = (6, 5, 4)
    _, index, value = sparse_tensor(shape, 0.5)
    blocks = stack_factors(random_factors(shape, 5))
    before = blocks.data.copy()
    for groups in group_rows(index, value, shape):
        out = mttkrp(groups, blocks)
        padded = np.lib.stride_tricks.as_strided(out, (len(out), 8))
        assert padded.any()
        assert not padded[:, 5:].any()
    np.testing.assert_array_equal(blocks.data, before)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dense_product_equals_the_einsum_over_all_modes(shape):
    array = np.random.default_rng(3).normal(size=shape)
    factors = random_factors(shape, 4)
    for mode in range(len(shape)):
        np.testing.assert_allclose(
            dense_mttkrp(array, factors, mode), unfolded_product(array, factors, mode), atol=1e-12
        )


@pytest.mark.parametrize("split", [1, 2, 3, 4])
def test_one_half_contraction_serves_all_its_modes(split):
    shape = (3, 4, 2, 3, 5)
    array = np.random.default_rng(3).normal(size=shape)
    factors = random_factors(shape, 3)
    first = contract_half(array, factors, split, keep="first")
    last = contract_half(array, factors, split, keep="last")
    assert first.shape == (*shape[:split], 3)
    for mode in range(5):
        out = (
            finish_half(first, factors[:split], mode)
            if mode < split
            else finish_half(last, factors[split:], mode - split)
        )
        np.testing.assert_allclose(out, unfolded_product(array, factors, mode), atol=1e-11)


def test_the_split_keeps_both_halves_small():
    assert half_of((10, 10, 10, 10)) == 2
    assert half_of((2, 3, 1000)) == 2
    assert half_of((1000, 3, 2)) == 1


def test_khatri_rao_columns_are_kronecker_products():
    a, b, c = random_factors((3, 4, 2), 3)
    expected = np.stack([np.kron(np.kron(a[:, r], b[:, r]), c[:, r]) for r in range(3)], axis=1)
    np.testing.assert_allclose(khatri_rao([a, b, c], 3), expected)
    np.testing.assert_array_equal(khatri_rao([], 2), np.ones((1, 2)))


@pytest.mark.parametrize("n_chunks", [0, 1, 2, 5, 97])
@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_ranges_cover_every_chunk_once(n_chunks, n_jobs):
    seen = []
    run_chunks(lambda first, last: seen.extend(range(first, last)), n_chunks, n_jobs)
    assert sorted(seen) == list(range(n_chunks))
