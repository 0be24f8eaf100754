"""The card against the CPU: steps, streams, files and bits. Needs a card."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onlinegcp import OnlineGCP, Slice, get_loss
from onlinegcp.kernels.cuda import poisson
from onlinegcp.kernels.cuda.card import Card
from onlinegcp.kernels.cuda.slice_cells import SliceCells
from onlinegcp.solvers.auto import odds_draws, odds_sums, solver
from onlinegcp.solvers.cuda import residence
from onlinegcp.solvers.cuda.engine import Engine, device_problem
from onlinegcp.solvers.objective import log_sum

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(device_problem()), reason=f"nothing ran on a card: {device_problem()}"),
]

SHAPE, RANK = (30, 25, 12), 10


def _slice(rng, loss, *, missing=False, shape=SHAPE, count=1500):
    index = np.stack([(rng.random(count) ** 2 * n).astype(np.int64) for n in shape], axis=1)
    linear = np.unique(np.ravel_multi_index(tuple(index.T), shape))
    index = np.stack(np.unravel_index(linear, shape), axis=1)
    value = np.ones(len(index)) if "odds" in loss else 1.0 + rng.poisson(1.0, len(index))
    if missing:
        value *= rng.random(len(value)) < 0.5
    return Slice(index, value, shape, unlisted="missing" if missing else "zero")


def _start(rng, loss, shape=SHAPE, rank=RANK, **options):
    factors = [rng.random((n, rank)) ** 3 for n in shape]
    slices = [_slice(rng, loss, shape=shape, **options) for _ in range(3)]
    sizes = np.prod([a.sum(axis=0) for a in factors], axis=0)
    rows = rng.random((3, rank)) * np.array([[x.total] for x in slices]) / rank / sizes
    return factors, rows, slices


def _apart(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    return float(np.abs(ours - theirs).max() / max(np.abs(ours).max(), 1e-300))


@pytest.mark.parametrize("forget", ["auto", 20.0])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("loss", ["poisson", "bernoulli_odds"])
def test_a_step_gives_what_the_cpu_gives(loss, missing, forget):
    rng, f = np.random.default_rng(1), get_loss(loss)
    here = there = solver.start(*_start(rng, loss, missing=missing), f, forget=forget)
    for _ in range(3):
        x = _slice(rng, loss, missing=missing)
        here, ours = solver.step(here, x, f)
        there, theirs = solver.step(there, x, f, card=Engine(picky=False))
        assert type(there.model).__name__ == "CardModel"
        assert ours.newton_steps == theirs.newton_steps
        for name in ("weights", "prequential", "local", "forget"):
            assert _apart(getattr(ours, name), getattr(theirs, name)) < 1e-10, name
        assert _apart(here.factors.data, there.factors.data) < 1e-10
        assert _apart(here.model.past.rate, there.model.past.rate) < 1e-10


@pytest.mark.parametrize("rate_budget", [3e7, 1e5])
def test_drawn_zeros_are_the_same_cells(monkeypatch, rate_budget):
    monkeypatch.setattr(odds_sums, "EXACT_BUDGET", 10.0)
    monkeypatch.setattr(odds_draws, "RATE_BUDGET", rate_budget)
    test_a_step_gives_what_the_cpu_gives("bernoulli_odds", False, "auto")


def test_a_subset_of_many_cells_gives_what_the_cpu_gives():
    rng, f, shape = np.random.default_rng(2), get_loss("poisson"), (70, 60, 24)
    start = solver.start(*_start(rng, "poisson", shape=shape, rank=33, count=9000), f)
    x = _slice(rng, "poisson", shape=shape, count=120_000)
    assert x.n_listed > 2 * 16384
    here, ours = solver.step(start, x, f)
    there, theirs = solver.step(start, x, f, card=Engine(picky=False))
    assert _apart(ours.weights, theirs.weights) < 1e-10
    assert _apart(here.factors.data, there.factors.data) < 1e-10


@pytest.mark.parametrize("loss", ["poisson", "bernoulli_odds"])
def test_a_step_that_was_broken_off_leaves_no_trace(monkeypatch, loss):
    rng, f = np.random.default_rng(8), get_loss(loss)
    start = solver.start(*_start(rng, loss), f)
    x, engine = _slice(rng, loss), Engine(picky=False)
    expected, _ = solver.step(start, x, f, card=engine)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # The launches have been made, and nobody has seen their end.
        patch.setattr(Card, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            solver.step(start, _slice(rng, loss), f, card=engine)
    found, _ = solver.step(start, x, f, card=engine)
    np.testing.assert_array_equal(found.factors.data, expected.factors.data)
    np.testing.assert_array_equal(found.model.past.rate, expected.model.past.rate)


@pytest.mark.parametrize(("shape", "count"), [(SHAPE, 9000), ((300, 300, 20), 90_000)])
def test_weights_of_a_slice_are_those_of_the_cpu(shape, count):
    # Above 32,768 cells the CPU takes another way to the same optimum.
    rng, f = np.random.default_rng(12), get_loss("poisson")
    start = solver.start(*_start(rng, "poisson", shape=shape, count=count), f)
    there, _ = solver.step(start, _slice(rng, "poisson", shape=shape, count=count), f, card=Engine(
        picky=False
    ))  # fmt: skip
    x = _slice(rng, "poisson", shape=shape, count=count)
    assert x.n_listed * RANK >= residence.WORTH_ASKING
    before = there.factors.data.copy()
    ours, theirs = (solver.solve(s, x, f, tolerance=1e-8) for s in (there.copy(), there))
    assert np.abs(ours.weights - theirs.weights).max() < 1e-6 * ours.weights.max()
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-12)
    assert theirs.optimality <= 1e-6
    np.testing.assert_array_equal(there.factors.data, before)


@pytest.mark.parametrize("forget", ["auto", 20.0])
def test_a_step_in_two_recordings_has_the_same_bits(monkeypatch, forget):
    rng, f = np.random.default_rng(13), get_loss("poisson")
    start = solver.start(*_start(rng, "poisson"), f, forget=forget)
    slices, found = [_slice(rng, "poisson") for _ in range(4)], []
    for most in (10**9, 0):
        monkeypatch.setattr(poisson, "AT_ONCE", most)
        now = start
        for x in slices:
            now, done = solver.step(now, x, f, card=Engine(picky=False))
        found.append((now.factors.data, now.model.past.rate, done.weights))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("missing", "each"), [(False, 1), (True, 2)])
def test_slices_that_come_ahead_are_the_same_slices(monkeypatch, missing, each):
    rng, f = np.random.default_rng(9), get_loss("poisson")
    start = solver.start(*_start(rng, "poisson", missing=missing), f)
    slices = [_slice(rng, "poisson", missing=missing) for _ in range(7)]
    engine = Engine(picky=False)
    sent = []
    send = SliceCells.send_ahead
    monkeypatch.setattr(SliceCells, "send_ahead", lambda *a: sent.append(1) or send(*a))

    def learned(expected):
        now = start
        for x, coming in zip(slices, expected, strict=True):
            if coming is not None:
                engine.expect(coming)
            now, _ = solver.step(now, x, f, card=engine)
        return now.factors.data

    plain = learned([None] * 7)
    np.testing.assert_array_equal(learned([*slices[1:], None]), plain)
    assert len(sent) == 6 * each
    # Others than those that were announced, twice the same, and the one that is there.
    np.testing.assert_array_equal(learned(slices[::-1]), plain)
    np.testing.assert_array_equal(learned(slices), plain)


def test_the_surprise_of_a_slice_is_that_of_the_cpu():
    rng, f = np.random.default_rng(14), get_loss("poisson")
    start = solver.start(*_start(rng, "poisson", count=5000), f)
    there, _ = solver.step(start, _slice(rng, "poisson"), f, card=Engine(picky=False))
    x, weights = _slice(rng, "poisson", count=5000), rng.random(RANK)
    assert x.n_listed * RANK >= residence.WORTH_ASKING
    values = np.einsum("r,nr->n", weights, np.prod(
        [a[x.index[:, k]] for k, a in enumerate(there.factors.views())], axis=0
    ))  # fmt: skip
    for floor in (1e-12 * values.max(), float(np.median(values))):
        found = there.factors.log_sum(x, weights, floor)
        assert found == pytest.approx(log_sum(x, there.factors.views(), weights, floor), rel=1e-12)
    assert there.factors.log_sum(_slice(rng, "poisson", count=20), weights, 1.0) is None


def _stream(n=100, seed=3):
    rng = np.random.default_rng(seed)
    a, b = rng.random((20, 4)) ** 3, rng.random((15, 4)) ** 3
    for t in range(n):
        # Patterns move, and one is replaced, so that trials and alarms come and go.
        a[:, 0] = np.roll(a[:, 0], 1 if t % 30 == 29 else 0)
        weights = 40 * rng.gamma(2.0, 1.0, 4)
        yield Slice.dense(rng.poisson(a * weights @ b.T), time=t)


def test_a_hundred_slices_with_trials_stay_within_a_millionth():
    here, there = (
        OnlineGCP(4, loss="poisson", init_slices=5, device=device).fit(_stream())
        for device in ("cpu", "cuda")
    )
    for ours, theirs in zip(here.factors_, there.factors_, strict=True):
        assert _apart(ours, theirs) < 1e-6
    assert math.isclose(here.last_.prequential, there.last_.prequential, rel_tol=1e-6)


def test_bits_repeat_and_a_model_moves_between_devices(tmp_path):
    slices = list(_stream(40))
    whole = OnlineGCP(4, loss="poisson", init_slices=5, device="cuda").fit(slices)
    again = OnlineGCP(4, loss="poisson", init_slices=5, device="cuda").fit(slices[:25])
    again.save(tmp_path / "half.npz")
    resumed = OnlineGCP.load(tmp_path / "half.npz")
    for x in slices[25:]:
        resumed.partial_fit(x)
    for ours, theirs in zip(whole.factors_, resumed.factors_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    moved = OnlineGCP.load(tmp_path / "half.npz").set_params(device="cpu")
    for x in slices[25:]:
        moved.partial_fit(x)
    for ours, theirs in zip(whole.factors_, moved.factors_, strict=True):
        assert _apart(ours, theirs) < 1e-6


@pytest.mark.parametrize("loss", ["poisson", "gaussian", "gamma"])
def test_the_rank_is_found_on_the_card_as_on_the_cpu(loss):
    def stream():
        rng = np.random.default_rng(9)
        a, b = rng.random((14, 3)) ** 2, rng.random((11, 3)) ** 2
        for t in range(45):
            m = 20 * a * rng.gamma(2.0, 1.0, 3) @ b.T + 0.1
            x = rng.poisson(m) if loss == "poisson" else m * rng.gamma(20.0, 0.05, m.shape)
            yield Slice.dense(x, time=t)

    here, there = (
        OnlineGCP("auto", loss=loss, init_slices=5, max_rank=5, device=device).fit(stream())
        for device in ("cpu", "cuda")
    )
    assert here.weights_.shape == there.weights_.shape
    assert math.isclose(here.last_.prequential, there.last_.prequential, rel_tol=1e-4)


def test_modes_may_grow_on_the_card():
    rng = np.random.default_rng(4)
    model = OnlineGCP(3, loss="poisson", init_slices=4, device="cuda")
    other = OnlineGCP(3, loss="poisson", init_slices=4)
    for t in range(12):
        n = 10 + t // 5
        index = np.argwhere(rng.random((n, 8)) < 0.5)
        x = Slice(index, 1.0 + rng.poisson(2.0, len(index)), (n, 8))
        model.partial_fit(x)
        other.partial_fit(x)
    for ours, theirs in zip(other.factors_, model.factors_, strict=True):
        assert _apart(ours, theirs) < 1e-9


@pytest.mark.parametrize("lower", [None, 0.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_least_squares_give_what_the_cpu_gives(sparse, lower):
    rng, loss = np.random.default_rng(6), get_loss("gaussian")
    drawn = (lambda *n: np.maximum(rng.standard_normal(n), 0.0)) if lower == 0.0 else (
        lambda *n: rng.standard_normal(n)
    )  # fmt: skip
    factors = [drawn(n, 5) for n in (40, 30, 12)]

    def one():
        whole = np.einsum("r,ar,br,cr->abc", drawn(5), *factors)
        whole += 0.3 * rng.standard_normal(whole.shape)
        if not sparse:
            return Slice.dense(whole)
        index = np.argwhere(rng.random(whole.shape) < 0.2)
        return Slice(index, whole[tuple(index.T)], whole.shape)

    first = [one() for _ in "abc"]
    here = there = solver.start(factors, drawn(3, 5), first, loss, lower=lower)
    for _ in range(4):
        x = one()
        here, ours = solver.step(here, x, loss)
        there, theirs = solver.step(there, x, loss, card=Engine(picky=False))
        assert type(there.model).__name__ == "CardModel"
        for name in ("weights", "prequential", "local", "forget"):
            assert _apart(getattr(ours, name), getattr(theirs, name)) < 1e-10, name
        assert _apart(here.factors.data, there.factors.data) < 1e-10
        assert _apart(here.model.past.sensitivity, there.model.past.sensitivity) < 1e-8
        assert _apart(here.model.past.products, there.model.past.products) < 1e-10
        assert lower is None or _apart(here.model.past.slope, there.model.past.slope) < 1e-9


def test_a_card_that_is_full_says_so(monkeypatch):
    from onlinegcp import BackendError
    from onlinegcp.kernels.cuda.card import card

    with pytest.raises(BackendError, match="GiB more for this model or slice, but it is full"):
        card().zeros(10**14)
