"""Two halves of the cells: every row is in both, and sums over a half need no visit."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.solvers.auto.checkerboard import checkerboard


@pytest.mark.parametrize("shape", [(7,), (6, 4), (5, 3, 4), (9, 1, 2)])
def test_halves_are_about_as_large_and_depend_on_the_number_only(shape):
    board = checkerboard(shape, 3, 11)
    first = board.full()
    assert first.shape == shape
    assert abs(first.mean() - 0.5) <= 0.5 / 3
    np.testing.assert_array_equal(first, checkerboard(shape, 3, 11).full())
    others = [checkerboard(shape, 3, n).full() for n in range(6)]
    assert any((other != first).any() for other in others)
    index = np.argwhere(np.ones(shape))
    np.testing.assert_array_equal(board.of(index), first[tuple(index.T)])


def test_every_row_has_cells_in_both_halves():
    first = checkerboard((6, 8, 3), 0, 5).full()
    for axis in range(3):
        others = tuple(k for k in range(3) if k != axis)
        share = first.mean(axis=others)
        assert (share > 0.2).all()
        assert (share < 0.8).all()


def test_sums_over_a_half_are_those_of_its_cells():
    rng = np.random.default_rng(0)
    shape = (5, 4, 6)
    columns = [rng.standard_normal((n, 2)) for n in shape]
    board = checkerboard(shape, 0, 1)
    whole = [a.sum(axis=0) for a in columns]
    signed = [sign @ a for sign, a in zip(board.signs, columns, strict=True)]
    first, second = board.sums(whole, signed)
    cells = np.einsum("ir,jr,kr->ijkr", *columns)
    np.testing.assert_allclose(first, cells[board.full()].sum(axis=0))
    np.testing.assert_allclose(second, cells[~board.full()].sum(axis=0))
