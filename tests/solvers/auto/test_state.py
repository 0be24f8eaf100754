"""A state written to a flat mapping and read back continues to the last bit."""

import numpy as np
import pytest

from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import components
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.state import AutoState


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
    for x in slices[3:8]:
        auto.step(state, x, loss)
    assert state.trial is not None
    flat = state.to_dict()
    for value in flat.values():
        assert isinstance(value, (np.ndarray, float, int, str, bool, np.generic))
    again = AutoState.from_dict({key: np.asarray(value) for key, value in flat.items()})
    assert again.bounded == (name not in ("gaussian", "huber") or lower == 0.0)
    for x in slices[8:]:
        one, other = auto.step(state, x, loss), auto.step(again, x, loss)
        np.testing.assert_array_equal(one.weights, other.weights)
        assert one.prequential == other.prequential
    np.testing.assert_array_equal(state.factors.data, again.factors.data)


def test_a_clone_shares_no_memory():
    loss, slices = get_loss("poisson"), slices_of("poisson", 5)
    rng = np.random.default_rng(0)
    state = auto.start(
        [rng.random((6, 3)), rng.random((5, 3))], rng.random((3, 3)), slices[:3], loss
    )
    twin = state.clone()
    before = twin.to_dict()
    auto.step(state, slices[3], loss)
    for key, value in twin.to_dict().items():
        np.testing.assert_array_equal(value, before[key])
