"""Abrupt changes: who predicts, who challenges, who rests, and that a restart changes nothing."""

import pickle

import numpy as np
import pytest

from onlinegcp import OnlineGCP
from onlinegcp.slices import Slice

SHAPE, RANK = (14, 11), 3
TRUTH = []  # losses of the slices made last, at the means they were drawn from


def regimes_of(schedule, loss="gaussian", seed=0, shape=SHAPE, rank=RANK):
    """Slices of one planted regime after the other, `schedule` saying which for each slice."""
    rng = np.random.default_rng(seed)
    factors = {
        name: [rng.gamma(0.5, 1.0, (n, rank)) + 0.01 for n in shape] for name in set(schedule)
    }
    size = {"gaussian": 3.0, "poisson": 40.0}[loss]
    slices, TRUTH[:] = [], []
    for name in schedule:
        weights = size * rng.uniform(0.5, 1.5, rank)
        m = np.einsum("ir,jr,r->ij", *factors[name], weights)
        noisy = m + 0.1 * rng.standard_normal(shape) if loss == "gaussian" else rng.poisson(m)
        slices.append(Slice.dense(noisy.astype(float)))
        TRUTH.append(
            float(np.sum((noisy - m) ** 2 if loss == "gaussian" else m - noisy * np.log(m)))
        )
    return slices


def records(model, slices):
    found = []
    for x in slices:
        model.partial_fit(x)
        if model.last_ is not None:
            found.append(model.last_)
    return found


def told(steps):
    return [(step.regime, step.regime_since, step.births) for step in steps if step.regime]


@pytest.mark.parametrize("loss", ["gaussian", "poisson"])
def test_a_new_regime_is_learned_within_ten_slices_and_told(loss):
    slices = regimes_of("a" * 40 + "b" * 30, loss)
    steps = records(OnlineGCP(RANK, loss, random_state=0), slices)
    # Two of the nonnegative patterns of the Poisson stream are somewhat alike.
    ((regime, since, births),) = told(steps)
    assert (regime, since) == ("changed", 41)
    assert births >= RANK - 1
    assert all(step.deaths == step.births for step in steps if step.regime)
    excess = {step.number: step.prequential - TRUTH[step.number - 1] for step in steps}
    during = np.mean([excess[n] for n in range(41, 44)])
    after = np.mean([excess[n] for n in range(51, 71)])
    assert after < 0.05 * during


def test_a_regime_that_returns_is_known_after_three_slices():
    slices = regimes_of("a" * 40 + "b" * 30 + "a" * 20 + "b" * 20)
    steps = records(OnlineGCP(RANK, "gaussian", random_state=0), slices)
    assert [entry[:2] for entry in told(steps)] == [
        ("changed", 41),
        ("returned", 71),
        ("returned", 91),
    ]
    loss_of = {step.number: step.prequential for step in steps}
    usual = np.mean([loss_of[n] for n in range(31, 41)])
    for first in (71, 91):
        assert loss_of[first] > 20 * usual
        assert np.mean([loss_of[n] for n in range(first + 3, first + 13)]) < 1.5 * usual


@pytest.mark.slow
def test_a_third_regime_is_not_taken_for_the_first():
    for seed in range(4):
        slices = regimes_of("a" * 40 + "b" * 40 + "c" * 12, seed=seed)
        steps = records(OnlineGCP(RANK, "gaussian", random_state=0), slices)
        assert [entry[:2] for entry in told(steps)] == [("changed", 41), ("changed", 81)]


@pytest.mark.slow
def test_regimes_shorter_than_the_detectors_memory_return():
    slices = regimes_of(("a" * 15 + "b" * 15) * 3)
    steps = records(OnlineGCP(RANK, "gaussian", random_state=0), slices)
    assert [entry[:2] for entry in told(steps)] == [
        ("changed", 16),
        *(("returned", first) for first in (31, 46, 61, 76)),
    ]


def test_a_quiet_stream_is_left_alone():
    slices = regimes_of("a" * 120)
    model = OnlineGCP(RANK, "gaussian", random_state=0)
    assert told(records(model, slices)) == []
    assert model._state.live.rested is None


def test_one_odd_slice_changes_nothing_for_good():
    slices = regimes_of("a" * 40 + "b" + "a" * 30)
    model = OnlineGCP(RANK, "gaussian", random_state=0)
    assert told(records(model, slices)) == []
    live = model._state.live
    assert (live.challenger, live.before, live.buffer) == (None, None, ())


@pytest.mark.parametrize("seed", [10, 11, 12])
def test_patterns_far_below_the_noise_may_change_as_well(seed):
    """Their share of a slice's squared norm is a sixth."""
    rng = np.random.default_rng(seed)
    regimes = [[rng.standard_normal((n, 5)) for n in (40, 30)] for _ in range(2)]
    model = OnlineGCP(5, "gaussian", random_state=0)
    for t in range(100):
        rows, columns = regimes[t >= 60]
        mean = (rows * (0.06 * rng.uniform(0.5, 1.5, 5))) @ columns.T
        x = Slice.dense(mean + 0.3 * rng.standard_normal(mean.shape))
        if t == 99:
            error = model.inverse_transform(model.transform([x])[0]) - mean
            assert np.linalg.norm(error) < 0.4 * np.linalg.norm(mean)
        model.partial_fit(x)


@pytest.mark.parametrize(("failures", "found"), [(1, True), (9, False)])
def test_a_great_change_is_met_in_the_pause_after_a_false_alarm(failures, found):
    """The pause is to spare challengers, not to lose the stream for sixty slices."""
    slices = regimes_of("a" * 40 + "b" * 30, "poisson")
    model = OnlineGCP(RANK, "poisson", random_state=0)
    records(model, slices[:40])
    live = model._state.live
    live.failures, live.next_alarm = failures, live.age + 60
    regimes = [entry[0] for entry in told(records(model, slices[40:]))]
    assert regimes == (["changed"] if found else [])


def test_patterns_that_stay_keep_their_places():
    rng = np.random.default_rng(3)
    first = [rng.standard_normal((n, RANK)) for n in (20, 15)]
    second = [a.copy() for a in first]
    for a in second:
        a[:, 1] = rng.standard_normal(len(a))
    model = OnlineGCP(RANK, "gaussian", random_state=0)
    for t in range(70):
        a, b = first if t < 40 else second
        m = np.einsum("ir,jr,r->ij", a, b, rng.uniform(0.5, 1.5, RANK))
        if t == 40:
            old = model.factors_
        model.partial_fit(Slice.dense(m + 0.05 * rng.standard_normal(m.shape)))
        if model.last_ is not None and model.last_.regime:
            assert model.last_.births == 1
    alike = [
        abs(np.prod([a[:, r] @ b[:, r] for a, b in zip(old, model.factors_, strict=True)]))
        for r in range(RANK)
    ]
    assert sorted(alike)[1] > 0.98
    assert sorted(alike)[0] < 0.8


def test_a_fixed_forgetting_is_never_overruled():
    slices = regimes_of("a" * 40 + "b" * 20)
    assert told(records(OnlineGCP(RANK, "gaussian", forget=1.0, random_state=0), slices)) == []


# Slices after the change at which suspicion, gathering, the first trial and the second are on.
@pytest.mark.parametrize("stop", [41, 42, 43, 44, 45, 48, 50, 52])
@pytest.mark.parametrize("how", ["pickle", "save"])
def test_resumed_in_the_middle_of_a_challenge_goes_on_bit_for_bit(stop, how, tmp_path):
    slices = regimes_of("a" * 40 + "b" * 20)
    model = OnlineGCP(RANK, "gaussian", random_state=0)
    records(model, slices[:stop])
    if how == "pickle":
        twin = pickle.loads(pickle.dumps(model))
    else:
        model.save(tmp_path / "model")
        twin = OnlineGCP.load(tmp_path / "model")
    for one in (model, twin):
        records(one, slices[stop:])
    assert model.last_.prequential == twin.last_.prequential
    for a, b in zip(model.factors_, twin.factors_, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(model.weights_, twin.weights_)


def test_the_saved_state_is_bounded():
    model = OnlineGCP(RANK, "gaussian", random_state=0)
    most = 0
    for x in regimes_of("a" * 30 + "b" * 30 + "a" * 30 + "b" * 30):
        model.partial_fit(x)
        most = max(most, len(model._state.slices) if model._state else 0)
        if model._state is not None:
            assert len(model._state.live.losses) <= model.init_slices
    assert 0 < most <= model.init_slices


def test_new_rows_in_the_middle_of_a_challenge_are_taken_in():
    slices = regimes_of("a" * 40 + "b" * 20, "poisson")
    model = OnlineGCP(RANK, "poisson", random_state=0)
    for t, x in enumerate(slices):
        rows, columns = (SHAPE[0] + (t > 42), SHAPE[1] + (t > 46))
        listed = np.argwhere(x.array > 0)
        model.partial_fit(Slice(listed, x.array[x.array > 0], (rows, columns)))
    assert model.factors_[0].shape == (SHAPE[0] + 1, RANK)
    assert model.factors_[1].shape == (SHAPE[1] + 1, RANK)
    assert all(np.isfinite(a).all() for a in model.factors_)
