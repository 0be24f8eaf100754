"""Weights from half a slice, loss of the other half: against brute force over the cells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.held_out import by_cells, predict_halves
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


def test_poisson_halves_are_those_of_their_cells():
    loss = get_loss("poisson")
    state, x = state_of(loss)
    found = predict_halves(state.model, x, loss, seed=0, number=4)
    first, data, z = found.board.full(), x.to_dense(), cells_of(state)
    model, rank, lost = state.model, 2, 0.0
    event = model.unit * rank / x.total
    for half, own in ((first, found.weights[0]), (~first, found.weights[1])):
        # Maximum likelihood by the multiplicative updates of Lee and Seung.
        exposure, weights = z[half].sum(axis=0), np.full(rank, x.total / rank)
        for _ in range(3_000):
            ratio = data[half] / np.maximum(z[half] @ weights, 1e-300)
            weights = weights * (ratio @ z[half]) / exposure
        usual = model.mean_weights[:rank]
        usual = usual * data[half].sum() / (exposure @ usual)
        weights = (exposure * weights + event * usual) / (exposure + event)
        np.testing.assert_allclose(own, weights, rtol=2e-3)
        other = z[~half] @ own
        lost += other.sum() - data[~half] @ np.log(other)
    assert found.loss == pytest.approx(lost, rel=1e-9)


@pytest.mark.parametrize("lower", [None, 0.0])
@pytest.mark.parametrize("listed", [False, True])
def test_gaussian_halves_are_those_of_their_cells(lower, listed):
    loss = get_loss("gaussian")
    state, x = state_of(loss, lower=lower)
    if listed:
        x = Slice(x.index, x.value, x.shape)
    found = predict_halves(state.model, x, loss, seed=0, number=2)
    first, data, z = found.board.full(), x.to_dense(), cells_of(state)
    model, lost = state.model, 0.0
    hold = model.past.variance / np.mean(model.usage[:2] ** 2)
    for half, own in ((first, found.weights[0]), (~first, found.weights[1])):

        def objective(s, half=half):
            return ((data[half] - z[half] @ s) ** 2).sum() + hold * (
                (s - model.mean_weights[:2]) ** 2
            ).sum()

        bounds = None if lower is None else [(0.0, None)] * 2
        best = minimize(objective, own + 0.1, bounds=bounds, tol=1e-14)
        assert objective(own) <= best.fun * (1 + 1e-7)
        lost += ((data[~half] - z[~half] @ own) ** 2).sum()
    assert found.loss == pytest.approx(lost, rel=1e-8)


@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_closed_forms_agree_with_visits_of_every_cell(name):
    loss = get_loss(name)
    state, x = state_of(loss)
    found = predict_halves(state.model, x, loss, seed=0, number=3)
    visited = by_cells(state.model, x, loss, found.board, 0)
    # The priors differ a little for counts.
    assert found.loss == pytest.approx(visited.loss, rel=1e-8 if name == "gaussian" else 0.02)


@pytest.mark.parametrize("name", ["bernoulli_odds", "bernoulli_logit", "gamma"])
def test_other_losses_are_lost_in_the_other_half(name):
    loss = get_loss(name)
    state, x = state_of(loss)
    found = predict_halves(state.model, x, loss, seed=0, number=3)
    first, data, z = found.board.full(), x.to_dense(), cells_of(state)
    lost = sum(
        loss.value(data[~half], z[~half] @ own).sum()
        for half, own in zip((first, ~first), found.weights, strict=True)
    )
    assert found.loss == pytest.approx(lost, rel=1e-9)


def test_a_pattern_in_one_half_alone_is_expected_as_usual():
    loss = get_loss("poisson")
    state, x = state_of(loss)
    model = state.model.copy()
    # All of the second pattern in one cell: the half without that cell knows nothing of it.
    for view in model.factors.views():
        view[:, 1] = 1e-9
        view[0, 1] = 1.0
    found = predict_halves(model, x, loss, seed=0, number=0)
    unseen = found.weights[1] if found.board.full()[0, 0] else found.weights[0]
    usual = model.mean_weights[1]
    assert 0.2 * usual < unseen[1] < 5.0 * usual


def test_missing_cells_are_left_out():
    loss = get_loss("gaussian")
    state, x = state_of(loss)
    array = x.to_dense().copy()
    array[2, 3] = np.nan
    found = predict_halves(state.model, Slice.dense(array), loss, seed=0, number=1)
    array[2, 3] = 1e6
    assert (
        found.loss
        < 1e6
        < predict_halves(state.model, Slice.dense(array), loss, seed=0, number=1).loss
    )
