"""Slices and losses are split as the conjugate solver needs them."""

import numpy as np
import pytest

from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.cells import cells_of, odds_form


@pytest.mark.parametrize("name", ["poisson", "bernoulli_odds", "negative_binomial"])
def test_the_form_reproduces_the_loss(name):
    loss = get_loss(name)
    form = odds_form(loss)
    x, m = np.array([0.0, 1.0, 3.0]), np.array([0.5, 2.0, 1.5])
    part = m if form.linear else np.log1p(m)
    again = (form.base + form.slope * x) * part - x * np.log(m)
    np.testing.assert_allclose(again, loss.value(x, m), rtol=1e-9)


def test_losses_without_conjugate_history_have_no_form():
    assert odds_form(get_loss("gaussian")) is None
    assert odds_form(get_loss("gamma")) is None


def test_dense_and_sparse_slices_of_the_same_counts_give_the_same_cells():
    array = np.array([[0.0, 2.0], [1.0, 0.0]])
    sparse = cells_of(Slice(np.argwhere(array), array[array > 0], (2, 2)))
    dense = cells_of(Slice.dense(array))
    np.testing.assert_array_equal(sparse.index, dense.index)
    np.testing.assert_array_equal(sparse.value, dense.value)
    assert sparse.full
    assert dense.full


def test_a_slice_with_missing_cells_is_not_full_and_keeps_its_listed_zeros():
    cells = cells_of(Slice.dense([[0.0, 2.0], [np.nan, 1.0]]))
    assert not cells.full
    assert cells.seen_value.tolist() == [0.0, 2.0, 1.0]
    assert cells.value.tolist() == [2.0, 1.0]
