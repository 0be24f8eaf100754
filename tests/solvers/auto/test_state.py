"""A state written to a flat mapping and read back continues to the last bit."""

import numpy as np
import pytest

from auto_steps import learn
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import components
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.state import from_dict, to_dict


def slices_of(name, count, missing=False):
    rng = np.random.default_rng(2)
    made = []
    for _ in range(count):
        x = rng.poisson(2.0, (6, 5)).astype(float)
        if name == "bernoulli_odds":
            x = np.sign(x)
        if name == "gamma":
            x += 0.5
        if missing:
            x[rng.random((6, 5)) < 0.2] = np.nan
        made.append(Slice.dense(x))
    return made


@pytest.mark.parametrize(
    ("name", "lower"),
    [("poisson", None), ("bernoulli_odds", None), ("gaussian", None), ("gamma", None),
     ("gaussian", 0.0), ("huber", 0.0)],
)  # fmt: skip
@pytest.mark.parametrize("missing", [False, True])
def test_a_resumed_state_continues_bit_for_bit(name, lower, missing, monkeypatch):
    monkeypatch.setattr(components, "PAUSE", 2)  # so that a trial is running
    loss, slices = get_loss(name), slices_of(name, 12, missing)
    rng = np.random.default_rng(0)
    state = auto.start(
        [rng.random((6, 3)), rng.random((5, 3))], rng.random((3, 3)), slices[:3], loss, lower=lower
    )
    state, _ = learn(state, slices[3:8], loss)
    assert state.trials.twin is not None
    flat = to_dict(state)
    for value in flat.values():
        assert isinstance(value, (np.ndarray, float, int, str, bool, np.generic))
    again = from_dict({key: np.asarray(value) for key, value in flat.items()})
    assert again.model.bounded == (name not in ("gaussian", "huber") or lower == 0.0)
    for x in slices[8:]:
        (state, one), (again, other) = auto.step(state, x, loss), auto.step(again, x, loss)
        np.testing.assert_array_equal(one.weights, other.weights)
        assert one.prequential == other.prequential
    np.testing.assert_array_equal(state.factors.data, again.factors.data)


@pytest.mark.parametrize("name", ["poisson", "bernoulli_odds", "gaussian", "gamma"])
@pytest.mark.parametrize("missing", [False, True])
def test_a_step_leaves_the_state_it_was_given_alone(name, missing, monkeypatch):
    monkeypatch.setattr(components, "PAUSE", 2)
    monkeypatch.setattr(components, "SPLIT_PAUSE", 3)
    loss, slices = get_loss(name), slices_of(name, 30, missing)
    rng = np.random.default_rng(0)
    state = auto.start(
        [rng.random((6, 3)), rng.random((5, 3))], rng.random((3, 3)), slices[:3], loss
    )
    trials = 0
    for x in slices[3:]:
        before = to_dict(state)
        after, _ = auto.step(state, x, loss)
        auto.grow(state, (7, 5))
        now = to_dict(state)
        assert now.keys() == before.keys()
        for key, value in now.items():
            np.testing.assert_array_equal(value, before[key], key)
        assert not np.array_equal(after.factors.data, state.factors.data)
        assert not np.shares_memory(after.factors.data, state.factors.data)
        trials += state.trials.twin is not None
        state = after
    assert trials
