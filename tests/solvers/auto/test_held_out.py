"""Weights from some cells of a slice, loss of the others: against brute force over the cells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.checkerboard import checkerboard
from onlinegcp.solvers.auto.held_out import by_cells, usual_weights
from onlinegcp.streaming.warm_start import static_start
from onlinegcp.testing import planted_stream

SHAPE = (11, 9)


def state_of(loss, rank=2, n_slices=9, lower=None):
    bound = loss.lower if lower is None else lower
    positive = bound == 0.0
    stream = planted_stream(loss, shape=SHAPE, rank=2, n_slices=n_slices, nonnegative=positive)
    first = stream.slices[:-1]
    start = static_start(first, rank, loss, lower=bound, starts=1, seed=0)
    state = auto.start(start.factors, start.rows, first, loss, lower=lower)
    return state, stream.slices[-1]


def cells_of(state):
    return np.einsum("ir,jr->ijr", *state.factors.views())


def predict_parts(model, x, loss, *, number, boards=2):
    return model.past.predict_parts(model, x, loss, checkerboard(x.shape, 0, number, boards), 0)


def parts_of(found):
    """For every part its cells, and the weights by which they were predicted."""
    return [(found.board.full() == part, row) for part, row in enumerate(found.weights)]


@pytest.mark.parametrize("boards", [1, 2])
def test_poisson_parts_are_predicted_by_the_rest_of_the_cells(boards):
    loss = get_loss("poisson")
    state, x = state_of(loss)
    found = predict_parts(state.model, x, loss, number=4, boards=boards)
    data, z = x.to_dense(), cells_of(state)
    model, rank, lost = state.model, 2, 0.0
    event = model.unit * rank / x.total
    assert len(found.weights) == 2**boards
    for unseen, own in parts_of(found):
        rest = ~unseen
        # Maximum likelihood by the multiplicative updates of Lee and Seung.
        exposure, weights = z[rest].sum(axis=0), np.full(rank, x.total / rank)
        for _ in range(3_000):
            ratio = data[rest] / np.maximum(z[rest] @ weights, 1e-300)
            weights = weights * (ratio @ z[rest]) / exposure
        usual = model.mean_weights[:rank]
        usual = usual * data[rest].sum() / (exposure @ usual)
        weights = (exposure * weights + event * usual) / (exposure + event)
        np.testing.assert_allclose(own, weights, rtol=2e-3)
        other = z[unseen] @ own
        lost += other.sum() - data[unseen] @ np.log(other)
    assert found.loss == pytest.approx(lost, rel=1e-9)


@pytest.mark.parametrize("boards", [1, 2])
@pytest.mark.parametrize("lower", [None, 0.0])
@pytest.mark.parametrize("listed", [False, True])
def test_gaussian_parts_are_predicted_by_the_rest_of_the_cells(lower, listed, boards):
    loss = get_loss("gaussian")
    state, x = state_of(loss, lower=lower)
    if listed:
        x = Slice(x.index, x.value, x.shape)
    found = predict_parts(state.model, x, loss, number=2, boards=boards)
    data, z = x.to_dense(), cells_of(state)
    model, lost = state.model, 0.0
    own_width = model.usage[:2]
    hold = model.past.variance / (own_width * np.sqrt(np.mean(own_width**2)))
    for unseen, own in parts_of(found):

        def objective(s, rest=~unseen):
            return ((data[rest] - z[rest] @ s) ** 2).sum() + (
                hold * (s - model.mean_weights[:2]) ** 2
            ).sum()

        bounds = None if lower is None else [(0.0, None)] * 2
        best = minimize(objective, own + 0.1, bounds=bounds, tol=1e-14)
        assert objective(own) <= best.fun * (1 + 1e-7)
        lost += ((data[unseen] - z[unseen] @ own) ** 2).sum()
    assert found.loss == pytest.approx(lost, rel=1e-8)


@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_closed_forms_agree_with_visits_of_every_cell(name):
    loss = get_loss(name)
    state, x = state_of(loss)
    found = predict_parts(state.model, x, loss, number=3)
    visited = by_cells(state.model, x, loss, found.board, 0)
    # The priors differ a little for counts.
    assert found.loss == pytest.approx(visited.loss, rel=1e-8 if name == "gaussian" else 0.02)


@pytest.mark.parametrize("name", ["bernoulli_odds", "bernoulli_logit", "gamma"])
def test_other_losses_are_lost_where_the_weights_saw_nothing(name):
    loss = get_loss(name)
    state, x = state_of(loss)
    found = predict_parts(state.model, x, loss, number=3)
    data, z = x.to_dense(), cells_of(state)
    lost = sum(loss.value(data[unseen], z[unseen] @ own).sum() for unseen, own in parts_of(found))
    assert found.loss == pytest.approx(lost, rel=1e-9)


def test_a_pattern_in_one_part_alone_is_expected_as_usual():
    loss = get_loss("poisson")
    state, x = state_of(loss)
    model = state.model.copy()
    # All of the second pattern in one cell: weights for that cell know nothing of it.
    for view in model.factors.views():
        view[:, 1] = 1e-9
        view[0, 1] = 1.0
    found = predict_parts(model, x, loss, number=0)
    expected = found.weights[found.board.full()[0, 0]]
    usual = model.mean_weights[1]
    assert 0.2 * usual < expected[1] < 5.0 * usual


def test_a_weight_that_rests_is_held_more_tightly_than_others_but_not_at_its_usual_size():
    """Between what is usual for it and for all, by the geometric mean: it may wake."""
    state, _ = state_of(get_loss("bernoulli_odds"))
    model = state.model.copy()
    model.usage[:2] = [3.0, 0.04]
    usual = np.sqrt((3.0**2 + 0.04**2) / 2)
    np.testing.assert_allclose(
        1.0 / usual_weights(model).precision[:2], [3.0 * usual, 0.04 * usual], rtol=1e-12
    )
    model.usage[:2] = 0.0
    assert not usual_weights(model).precision.any()


def test_missing_cells_are_left_out():
    loss = get_loss("gaussian")
    state, x = state_of(loss)
    array = x.to_dense().copy()
    array[2, 3] = np.nan
    found = predict_parts(state.model, Slice.dense(array), loss, number=1)
    array[2, 3] = 1e6
    assert found.loss < 1e6 < predict_parts(state.model, Slice.dense(array), loss, number=1).loss
