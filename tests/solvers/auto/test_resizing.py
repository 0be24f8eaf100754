"""Models of some components of another predict what those predict."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.model import AutoState, Trials
from onlinegcp.solvers.auto.redundancy import most_redundant, without
from onlinegcp.solvers.auto.resizing import taken, with_components
from onlinegcp.solvers.auto.state import to_dict
from onlinegcp.testing import planted_stream


def state_of(name, rank=3, lower=None):
    loss = get_loss(name)
    positive = loss.lower == 0.0 or lower == 0.0
    stream = planted_stream(loss, shape=(12, 9), rank=rank, n_slices=14, nonnegative=positive)
    state = auto.start(
        stream.factors[0], stream.rows[:8], stream.slices[:8], loss, lower=lower, reseed=False
    )
    for x in stream.slices[8:12]:
        state, _ = auto.step(state, x, loss)
    return state, loss, stream.slices[12:]


CASES = [
    ("gaussian", None), ("gaussian", 0.0), ("poisson", None), ("bernoulli_odds", None),
    ("bernoulli_logit", None), ("gamma", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "lower"), CASES)
def test_another_order_is_the_same_model(name, lower):
    state, loss, rest = state_of(name, lower=lower)
    order = [2, 0, 1]
    turned = AutoState(with_components(state.model, order), Trials(), reseed=False)
    for x in rest:
        state, done = auto.step(state, x, loss)
        turned, other = auto.step(turned, x, loss)
        assert other.prequential == pytest.approx(done.prequential, rel=1e-5)
        np.testing.assert_allclose(other.weights, done.weights[order], rtol=1e-3, atol=1e-6)
    for one, two in zip(state.factors.views(), turned.factors.views(), strict=True):
        np.testing.assert_allclose(two, one[:, order], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("name", "lower"), CASES)
def test_room_for_more_changes_nothing_of_the_others(name, lower):
    state, _, _ = state_of(name, lower=lower)
    order = [0, 1, 2, -1, -1]
    wider = with_components(state.model, order)
    assert wider.factors.rank == 5
    back = with_components(wider, [0, 1, 2])
    first, second = (to_dict(AutoState(m, Trials())) for m in (state.model, back))
    assert first.keys() == second.keys()
    for key, value in first.items():
        other = second[key]
        if key.startswith("memory.") and np.ndim(value):  # what the padding holds means nothing
            value, other = value[:3], other[:3]
        np.testing.assert_array_equal(value, other, key)


def test_arrays_are_padded_anew():
    padded = np.arange(8.0)
    assert taken(padded, [3, -1]).tolist() == [3.0, 0.0, 0.0, 0.0]
    table = np.arange(8.0).reshape(2, 4, 1)
    np.testing.assert_array_equal(taken(table, [1], axis=1)[:, 0, 0], [1.0, 5.0])


@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_the_copy_of_another_is_missed_least(name):
    state, loss, rest = state_of(name)
    model = with_components(state.model, [0, 1, 2, 1])
    model.usage[[1, 3]] *= 0.5
    found = most_redundant(model)
    assert found.given in (1, 3)
    twin = 4 - found.given
    np.testing.assert_allclose(found.shares[twin], 1.0, rtol=1e-3)
    left = without(model, found)
    assert left.factors.rank == 3
    before = auto.solve(AutoState(model, Trials()), rest[0], loss).objective
    after = auto.solve(AutoState(left, Trials()), rest[0], loss).objective
    assert after == pytest.approx(before, rel=1e-6)


def test_slices_of_cells_and_arrays_have_the_same_halves():
    state, loss, rest = state_of("gaussian")
    x = rest[0]
    listed = Slice(x.index, x.value, x.shape)
    a, b = (auto.held_out(state.model, one, loss, 0, 7) for one in (x, listed))
    assert a == pytest.approx(b, rel=1e-9)
