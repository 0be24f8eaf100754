"""Parts of the cells: every row is in all of them, and sums over a part need no visit."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.solvers.auto.checkerboard import checkerboard


@pytest.mark.parametrize("shape", [(7,), (6, 4), (5, 3, 4), (9, 1, 2)])
def test_halves_are_about_as_large_and_depend_on_the_number_only(shape):
    board = checkerboard(shape, 3, 11)
    first = board.full() == 0
    assert first.shape == shape
    assert abs(first.mean() - 0.5) <= 0.5 / 3
    np.testing.assert_array_equal(first, checkerboard(shape, 3, 11).full() == 0)
    others = [checkerboard(shape, 3, n).full() == 0 for n in range(6)]
    assert any((other != first).any() for other in others)
    index = np.argwhere(np.ones(shape))
    np.testing.assert_array_equal(board.of(index) == 0, first[tuple(index.T)])


def test_every_row_has_cells_in_both_halves():
    first = checkerboard((6, 8, 3), 0, 5).full() == 0
    for axis in range(3):
        others = tuple(k for k in range(3) if k != axis)
        share = first.mean(axis=others)
        assert (share > 0.2).all()
        assert (share < 0.8).all()


def test_two_boards_make_quarters_of_which_the_first_divides_halves():
    shape = (16, 12, 6)
    halves, quarters = checkerboard(shape, 3, 11), checkerboard(shape, 3, 11, boards=2)
    part_of = quarters.full()
    np.testing.assert_array_equal(part_of // 2, halves.full())
    counts = np.bincount(part_of.ravel(), minlength=4) / part_of.size
    assert (abs(counts - 0.25) < 0.05).all()
    index = np.argwhere(np.ones(shape))
    np.testing.assert_array_equal(quarters.of(index), part_of[tuple(index.T)])


@pytest.mark.parametrize("boards", [1, 2])
def test_sums_over_a_part_are_those_of_its_cells(boards):
    rng = np.random.default_rng(0)
    shape = (5, 4, 6)
    columns = [rng.standard_normal((n, 2)) for n in shape]
    board = checkerboard(shape, 0, 1, boards)
    sums = board.sums(
        lambda numbers: np.prod([n @ a for n, a in zip(numbers, columns, strict=True)], axis=0)
    )
    cells, part_of = np.einsum("ir,jr,kr->ijkr", *columns), board.full()
    assert len(sums) == board.n_parts == 2**boards
    for part, found in enumerate(sums):
        np.testing.assert_allclose(found, cells[part_of == part].sum(axis=0), atol=1e-12)
