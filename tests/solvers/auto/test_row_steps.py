"""Row by row solves: each row as if alone, held entries still."""

import numpy as np
import pytest

from onlinegcp.solvers.auto.row_steps import solve_damped, times


@pytest.mark.parametrize("full", [True, False])
def test_each_row_is_solved_on_its_own_and_held_entries_do_not_move(full):
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((5, 4, 9))
    matrices = roots @ roots.transpose(0, 2, 1)
    if not full:
        matrices = np.einsum("irr->ir", matrices)[:, :, None]
    right, hold = rng.standard_normal((5, 4)), np.array([0.5, 0.0, 1.0, 0.0])
    held = rng.random((5, 4)) < 0.3
    found = solve_damped(matrices, hold, right, held, 3)
    for i in range(5):
        free = ~held[i]
        free[3] = False  # padding
        whole = matrices[i] if full else np.diag(matrices[i, :, 0])
        part = (whole + np.diag(hold))[np.ix_(free, free)]
        np.testing.assert_allclose(found[i, free], np.linalg.solve(part, right[i, free]), rtol=1e-5)
        assert (found[i, ~free] == 0.0).all()


def test_products_are_those_of_whole_matrices():
    rng = np.random.default_rng(1)
    diagonals, vectors = rng.random((3, 2, 1)), rng.random((3, 2))
    whole = np.stack([np.diag(d[:, 0]) for d in diagonals])
    np.testing.assert_allclose(times(diagonals, vectors), times(whole, vectors))
