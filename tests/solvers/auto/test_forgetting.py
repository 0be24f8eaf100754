"""The forgetting obeys its schedule, its bounds and the sign of the slope."""

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.solvers.auto import forgetting


def test_a_half_life_halves_the_weight_of_a_slice():
    theta = forgetting.parse(7)
    assert theta**7 == pytest.approx(0.5)


@pytest.mark.parametrize("wrong", [0.93, 0.0, -1, "fast", None, True, float("nan")])
def test_other_values_are_refused_with_advice(wrong):
    with pytest.raises(DataError, match="half-life"):
        forgetting.parse(wrong)


def test_the_schedule_gives_slice_n_the_share_n_to_the_minus_kappa():
    # Weights of n slices after repeated forgetting: the last one's share of the sum.
    total = 0.0
    for n in range(1, 200):
        total = forgetting.schedule(n) * total + 1.0
        if n > 1:
            share = 1.0 / total
            assert n**-1.0 <= share <= 1.3 * n**-forgetting.KAPPA


def test_a_positive_slope_shortens_memory_and_a_negative_one_lengthens_it():
    for sign in (-1.0, 1.0):
        state = forgetting.start("auto", 4, 1.0)
        before = state.memory
        for _ in range(3):
            slopes = np.array([sign * 50.0, 0.0, 0.0, 0.0])
            forgetting.learn(state, slopes, np.full(4, 10.0), 40.0, 0.999)
        assert (state.memory - before) * sign < 0.0
        assert state.own[0] * sign < 0.0
        assert state.own[1] == 0.0


def test_memory_stays_within_its_bounds_whatever_the_slopes():
    state = forgetting.start("auto", 4, 1.0)
    for sign in (-1.0, 1.0):
        for _ in range(200):
            forgetting.learn(state, np.full(4, sign * 1e6), np.ones(4), 1.0, 0.9999)
            lam, lift = forgetting.factors(state, 0.9999)
            assert ((lam > 0.3) & (lam <= 0.9999)).all()
            assert np.isfinite(lift).all()


def test_a_fixed_forgetting_is_capped_by_the_schedule():
    state = forgetting.start(10.0, 4, 1.0)
    assert not state.learned
    lam, lift = forgetting.factors(state, 0.5)
    assert (lam == 0.5).all()
    assert not lift.any()
    lam, _ = forgetting.factors(state, 0.99)
    assert lam[0] == pytest.approx(0.5**0.1)


def test_a_reset_component_starts_afresh():
    state = forgetting.start("auto", 4, 2.0)
    forgetting.learn(state, np.full(4, 9.0), np.ones(4), 1.0, 0.99)
    forgetting.reset_component(state, 1, 2.0)
    assert state.own[1] == 0.0
    assert state.bends[1] == 20.0
    assert state.own[0] != 0.0
