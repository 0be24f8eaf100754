"""Starts of slices that say little: seen to be so, checked, and looked at again."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from onlinegcp.ktensor import KTensor
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP, second_opinion
from onlinegcp.streaming.second_opinion import CLEAR, MOST_LOOKED_AT, clearness, sure_start
from onlinegcp.streaming.warm_start import WarmStart, static_start

SHAPE, RANK = (20, 15), 3


def planted(size, seed, count, loss="poisson"):
    """Sparse nonnegative patterns whose slices have about 3 * size events."""
    rng = np.random.default_rng([seed, 3])
    factors = [rng.gamma(0.3, 1.0, (n, RANK)) + 1e-3 for n in SHAPE]
    factors = [a / a.sum(axis=0) for a in factors]
    rows = size * rng.uniform(0.5, 1.5, (count, RANK))
    means = [np.einsum("ir,jr,r->ij", *factors, row) for row in rows]
    if loss == "bernoulli_odds":
        means = [m / (1.0 + m) for m in means]
        data = [(rng.random(SHAPE) < m).astype(float) for m in means]
    else:
        data = [rng.poisson(m).astype(float) for m in means]
    return [Slice.dense(x) for x in data], means, factors, rows


def of_truth(size, seed, count):
    slices, _, factors, rows = planted(size, seed, count)
    return clearness(WarmStart.of(KTensor(None, [*factors, rows]), slices), get_loss("poisson"))


def test_clearness_grows_with_slices_and_with_events():
    base = of_truth(100.0, 0, 8)
    assert base.left < 1.5  # the truth leaves noise
    assert of_truth(100.0, 0, 32).least / base.least == pytest.approx(4.0, rel=0.3)
    assert of_truth(400.0, 0, 8).least / base.least == pytest.approx(4.0, rel=0.3)


def test_what_is_left_out_is_seen():
    slices, _, factors, rows = planted(300.0, 0, 10)
    rows[:, 0] = 0.0
    found = clearness(WarmStart.of(KTensor(None, [*factors, rows]), slices), get_loss("poisson"))
    assert found.left > CLEAR
    assert found.least == 0.0


def test_slices_with_gaps_are_not_measured():
    holes = np.ones(SHAPE)
    holes[0, 0] = np.nan
    start = WarmStart((np.ones((20, 1)), np.ones((15, 1))), np.ones((2, 1)), np.ones(1))
    assert clearness(start, get_loss("gaussian")) is None
    with_gaps = WarmStart(start.factors, start.rows, start.mean, (Slice.dense(holes),) * 2)
    assert clearness(with_gaps, get_loss("gaussian")) is None


def opinions(monkeypatch, slices):
    """The start, and how many static fits it took."""
    made = []

    def counted(*args, **options):
        made.append(static_start(*args, **options))
        return made[-1]

    monkeypatch.setattr(second_opinion, "static_start", counted)
    loss = get_loss("poisson")
    return sure_start(slices, RANK, loss, lower=0.0, starts=3, seed=0), made


def test_clear_slices_need_one_opinion(monkeypatch):
    found, made = opinions(monkeypatch, planted(2000.0, 0, 8)[0])
    assert len(made) == 1
    assert found is made[0]
    assert found.look == 0


def test_faint_ones_get_a_second_and_are_looked_at_again_if_it_differs(monkeypatch):
    looked = []
    for size, seed in ((8.0, 0), (8.0, 1), (20.0, 0), (20.0, 1)):
        found, made = opinions(monkeypatch, planted(size, seed, 8)[0])
        loss = [clearness(one, get_loss("poisson")).loss for one in made]
        assert len(made) == 2
        looked.append(found.look)
        if found.look:
            assert 8 < found.look <= MOST_LOOKED_AT * 8
            assert clearness(found, get_loss("poisson")).loss == min(loss)
    assert 0 < sum(look > 0 for look in looked) < len(looked)


def test_where_much_is_left_unexplained_one_start_is_as_good_as_another(monkeypatch):
    slices = planted(30.0, 0, 8)[0]
    rng = np.random.default_rng(1)
    rest = rng.gamma(0.1, 10.0, SHAPE)  # no pattern
    loud = [Slice.dense(x.to_dense() + rng.poisson(rest)) for x in slices]
    assert len(opinions(monkeypatch, loud)[1]) == 1


def error(model, slices, means):
    found = np.array([model.inverse_transform(row) for row in model.transform(slices)])
    return np.linalg.norm(found - means) / np.linalg.norm(means)


def looking(seed=0):
    """A model that was given a wrong start without a past, and what it will see."""
    slices, means, factors, rows = planted(200.0, seed, 44)
    wrong = np.random.default_rng(seed)
    given = [wrong.random((n, RANK)) for n in SHAPE]
    given = [a / a.sum(axis=0) for a in given]
    return (
        OnlineGCP(RANK, "poisson", init=KTensor(rows[0], given), init_slices=8, random_state=0),
        OnlineGCP(RANK, "poisson", init=KTensor(rows[0], factors), init_slices=8, random_state=0),
        slices,
        means,
    )


def test_a_model_given_without_a_past_must_prove_itself():
    wrong, right, slices, means = looking()
    steps = []
    for x in slices[:40]:
        wrong.partial_fit([x])
        right.partial_fit([x])
        steps.append((wrong.last_, right.last_))
    assert error(wrong, slices[40:], means[40:]) < 1.3 * error(right, slices[40:], means[40:])
    assert sum(mine.births for mine, _ in steps) > 0
    assert sum(theirs.births for _, theirs in steps) == 0  # a good one stays
    assert not any(step.regime for pair in steps for step in pair)
    for model in (wrong, right):
        live = model._state.live
        assert (live.look, live.buffer, live.failures) == (0, (), 0)


def test_whoever_fixes_the_forgetting_is_not_overruled():
    wrong, _, slices, _ = looking()
    wrong.set_params(forget=1.0)
    wrong.partial_fit(slices[:12])
    assert wrong._state.live.look == 0
    assert wrong._state.live.challenger is None


@pytest.mark.parametrize("stop", [3, 8, 11])
def test_resumed_in_the_middle_of_a_look_goes_on_bit_for_bit(stop):
    model, _, slices, _ = looking()
    model.partial_fit(slices[:stop])
    again = pickle.loads(pickle.dumps(model))
    saved = OnlineGCP(**model.get_params()).set_state(model.get_state())
    for one in (model, again, saved):
        one.partial_fit(slices[stop:24])
    for one in (again, saved):
        for a, b in zip(one.factors_, model.factors_, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_faint_starts_are_not_stuck():
    """Yes-or-no slices in which ten leave patterns in doubt, beside a model begun at the truth."""
    stuck = 0
    for seed in range(12):
        slices, means, factors, rows = planted(75.0, seed, 60, "bernoulli_odds")
        ours = OnlineGCP(RANK, "bernoulli_odds", random_state=seed).fit(slices[:56])
        ideal = OnlineGCP(RANK, "bernoulli_odds", random_state=seed)
        ideal.start_from(KTensor(None, [*factors, rows[:10]]), slices[:10])
        ideal.partial_fit(slices[10:56])
        last, true = slices[56:], np.array(means[56:])
        stuck += error(ours, last, true) > 2.0 * error(ideal, last, true)
    assert stuck == 0
