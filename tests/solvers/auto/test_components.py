"""Components are replaced when that predicts better, and only then."""

import numpy as np
import pytest

from auto_steps import learn
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import components
from onlinegcp.solvers.auto import solver as auto


def make(kind, name="poisson", count=90, seed=0):
    """A stream whose third pattern is absent from, or doubled in, the warm-start model."""
    rng = np.random.default_rng(seed)
    if name == "poisson":
        factors = [rng.dirichlet(np.full(n, 0.2), 3).T for n in (20, 15)]
        rows = 150.0 * rng.gamma(2.0, 1.0, (count, 3))
    else:
        factors = [rng.standard_normal((n, 3)) for n in (20, 15)]
        rows = rng.standard_normal((count, 3)) + 1.0
    slices = []
    for row in rows:
        m = (factors[0] * row) @ factors[1].T
        x = rng.poisson(m).astype(float) if name == "poisson" else m + rng.standard_normal(m.shape)
        slices.append(Slice.dense(x))
    model, weights = [a.copy() for a in factors], rows[:10].copy()
    if kind == "lacking":
        for a in model:
            a[:, 2] = a[:, 0]  # equal columns stay equal: only a reseed can part them
    return get_loss(name), model, weights, slices


def counts(loss, model, weights, slices, **options):
    state = auto.start(model, weights, slices[:10], loss, **options)
    return learn(state, slices[10:], loss)


@pytest.mark.parametrize("name", ["poisson", "gaussian", "huber"])
def test_a_good_model_is_left_alone(name):
    _, infos = counts(*make("good", name))
    assert sum(info.births for info in infos) == 0


def test_a_doubled_component_is_merged_and_its_slot_reused():
    loss, model, weights, slices = make("lacking")
    _, without = counts(loss, model, weights, slices, reseed=False)
    state, infos = counts(loss, model, weights, slices)
    births = sum(info.births for info in infos)
    assert births >= 1
    assert births == sum(info.deaths + info.merges for info in infos)
    tail = slice(-20, None)
    assert sum(i.prequential for i in infos[tail]) <= sum(i.prequential for i in without[tail])
    assert state.trials.failures >= 0


def test_a_failed_trial_doubles_the_waiting_time():
    loss, model, weights, slices = make("good", count=120)
    state, _ = counts(loss, model, weights, slices)
    assert state.trials.failures >= 1
    assert state.trials.next >= state.model.n_slices or state.trials.twin is not None
    waits = components.PAUSE * 2**state.trials.failures
    assert waits > components.PAUSE


def test_splits_fill_the_pauses_and_never_delay_another_trial(monkeypatch):
    loss, model, weights, slices = make("good", count=150)
    begun = {}
    for pause in (components.SPLIT_PAUSE, 10**6):
        monkeypatch.setattr(components, "SPLIT_PAUSE", pause)
        state = auto.start(model, weights, slices[:10], loss)
        begun[pause] = []
        for x in slices[10:]:
            state, _ = auto.step(state, x, loss)
            trials, now = state.trials, state.model.n_slices
            if trials.twin is not None and trials.started == now:
                begun[pause].append((now, trials.split))
    with_splits, without = begun.values()
    assert any(split for _, split in with_splits)
    assert [when for when, split in with_splits if not split] == [when for when, _ in without]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["poisson", "gaussian"])
def test_frequent_trials_do_no_harm_on_a_stationary_stream(name, monkeypatch):
    monkeypatch.setattr(components, "LONGEST_PAUSE", 20)
    monkeypatch.setattr(components, "SPLIT_PAUSE", 15)
    loss, model, weights, slices = make("good", name, count=200)
    sums = {}
    for reseed in (True, False):
        _, infos = counts(loss, model, weights, slices, reseed=reseed)
        sums[reseed] = sum(info.prequential for info in infos)
    assert sums[True] <= sums[False] + 1e-3 * abs(sums[False])


def test_signed_components_that_are_joined_leave_the_history_of_their_sum():
    loss, model, weights, slices = make("lacking", "gaussian", count=20)
    state = auto.start(model, weights, slices[:10], loss)
    before = state.model.past.products.copy()
    row = np.zeros(state.factors.width)
    row[:3] = [3.0, 1.0, -2.0]
    components._merge(state.model, 0, 2, row)
    total = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(state.model.past.products, total @ before @ total.T)
    assert row[0] == 1.0


def test_no_trial_runs_when_reseeding_is_off():
    loss, model, weights, slices = make("lacking", count=50)
    state, infos = counts(loss, model, weights, slices, reseed=False)
    assert state.trials.twin is None
    assert sum(info.births for info in infos) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "huber"])
def test_a_lost_component_is_found_again_with_signed_factors(name):
    loss, model, weights, slices = make("good", name, count=110)
    rng = np.random.default_rng(1)
    for a in model:
        a[:, 2] = 1e-3 * rng.standard_normal(len(a))
    _, infos = counts(loss, model, weights, slices)
    frozen = auto.start(model, weights, slices[:10], loss)
    late = slice(-10, None)
    assert sum(i.prequential for i in infos[late]) < sum(
        auto.solve(frozen, x, loss).objective for x in slices[late]
    )


@pytest.mark.parametrize("name", ["gaussian", "huber"])
def test_new_components_respect_the_bound(name):
    rng = np.random.default_rng(2)
    factors = [rng.random((n, 3)) * (rng.random((n, 3)) < 0.4) for n in (20, 15)]
    rows = rng.gamma(2.0, 1.0, (60, 3))
    slices = [
        Slice.dense((factors[0] * row) @ factors[1].T + 0.2 * rng.standard_normal((20, 15)))
        for row in rows
    ]
    model = [a.copy() for a in factors]
    for a in model:
        a[:, 2] = a[:, 0]
    loss = get_loss(name)
    state = auto.start(model, rows[:10], slices[:10], loss, lower=0.0)
    seeded = 0
    for x in slices[10:]:
        state, last = auto.step(state, x, loss)
        for part in (state.model, state.trials.twin):
            if part is not None:
                assert all((view >= 0.0).all() for view in part.factors.views())
        seeded += state.trials.twin is not None
    assert seeded
    assert last.prequential < 1.2 * 0.2**2 * 300  # the pattern that was missing is found
