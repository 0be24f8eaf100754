"""The paper's solver on the card against the CPU: samplers, histories, bits. Needs a card."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp import SGD, OnlineGCP, Slice, get_loss
from onlinegcp.kernels.cuda.card import why_not
from onlinegcp.kernels.layout import stack_factors
from onlinegcp.kernels.sgd.plan import FoldedHistory
from onlinegcp.solvers.sgd import SgdSettings, solve_sgd
from onlinegcp.solvers.sgd.sampling import Sampler

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=f"nothing ran on a card: {why_not()}"),
]

SHAPE, RANK = (40, 30, 12), 9


def _apart(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    return float(np.abs(ours - theirs).max() / max(np.abs(ours).max(), 1e-300))


def _problem(loss="poisson", shape=SHAPE, rank=RANK, density=0.1, seed=1, *, missing=False):
    rng = np.random.default_rng(seed)
    factors = [rng.random((n, rank)) + 0.1 for n in shape]
    count = int(density * np.prod(shape, dtype=float))
    linear = np.unique(rng.integers(np.prod(shape, dtype=np.int64), size=count))
    index = np.stack(np.unravel_index(linear, shape), axis=1)
    value = np.ones(len(index)) if "bernoulli" in loss else 1.0 + rng.poisson(1.0, len(index))
    x = Slice(index, value, shape, unlisted="missing" if missing else "zero")
    weights = rng.random(rank) * x.total / rank
    weights /= np.prod([a.sum(axis=0) for a in factors], axis=0)
    return x, factors, weights


def _history(factors, weights, *, anchors=None):
    rng = np.random.default_rng(4)
    past = weights * rng.uniform(0.5, 1.5, (20, len(weights)))
    old = stack_factors([a * rng.uniform(0.8, 1.2, a.shape) for a in factors])
    return FoldedHistory(past.T @ past, old, anchors)


def _both(x, factors, weights, loss, settings, **options):
    loss = get_loss(loss)
    here, there = (
        solve_sgd(x, factors, weights, loss, settings, seed=7, slice_number=3, kernels=k, **options)
        for k in ("cpu", "cuda")
    )
    return here, there


def _same(here, there, tolerance=1e-10):
    assert here.epochs == there.epochs
    assert here.failures == there.failures
    assert _apart(here.trace, there.trace) < tolerance
    assert _apart(here.weights, there.weights) < tolerance
    for ours, theirs in zip(here.factors, there.factors, strict=True):
        assert _apart(ours, theirs) < tolerance
    for name in ("u", "v", "largest", "weights_u", "weights_v", "weights_largest"):
        ours, theirs = getattr(here.moments, name), getattr(there.moments, name)
        assert ours.shape == theirs.shape
        if ours.size:
            assert _apart(ours, theirs) < 100 * tolerance, name
    assert here.moments.taken == there.moments.taken


SAMPLERS = {
    "stratified": Sampler("stratified", 300, 500),
    "every listed cell": Sampler("stratified", 10**9, 500),
    "semi_stratified": Sampler("semi_stratified", 300, 500),
    "uniform": Sampler("uniform", 700),
    "all": Sampler("all"),
}


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("update", [("factors",), ("weights",), ("weights", "factors"), (1,)])
def test_a_solve_gives_what_the_cpu_gives(sampler, update):
    x, factors, weights = _problem()
    settings = SgdSettings(
        rate=1e-3, epochs=2, iterations=30, sampler=SAMPLERS[sampler],
        objective_sampler=SAMPLERS[sampler], ridge=0.1, weight_ridge=0.2,
    )  # fmt: skip
    tie = _history(factors, weights, anchors=np.array([0.3, 0.0, 0.2]))
    _same(*_both(x, factors, weights, "poisson", settings, update=update, history=tie))


@pytest.mark.parametrize("step", ["sgd", "adam", "adagrad", "amsgrad"])
def test_every_step_method_gives_what_the_cpu_gives(step):
    x, factors, weights = _problem()
    settings = SgdSettings(step=step, rate=1e-5, epochs=2, iterations=60)
    tie = _history(factors, weights)
    _same(*_both(x, factors, weights, "poisson", settings, update=("factors",), history=tie))


@pytest.mark.parametrize(
    "loss",
    ["gaussian", "bernoulli_odds", "bernoulli_logit", "poisson_log", "huber", "negative_binomial"],
)
def test_other_losses_give_what_the_cpu_gives(loss):
    x, factors, weights = _problem(loss)
    settings = SgdSettings(rate=1e-3, epochs=2, iterations=40)
    _same(*_both(x, factors, weights, loss, settings, update=("factors",)))


@pytest.mark.parametrize("missing", [False, True])
def test_a_dense_array_and_missing_cells_give_what_the_cpu_gives(missing):
    rng = np.random.default_rng(3)
    x, factors, weights = _problem(missing=True)
    if not missing:
        x = Slice.dense(rng.poisson(1.0, SHAPE))
    for sampler in (None, "all"):
        settings = SgdSettings(rate=1e-3, epochs=2, iterations=25, sampler=sampler)
        _same(*_both(x, factors, weights, "poisson", settings, update=("factors",)))


def test_rare_zeros_are_the_same_cells():
    x, factors, weights = _problem(density=3.0)
    assert 2 * x.n_unlisted_zeros < x.size
    settings = SgdSettings(
        rate=1e-3, epochs=2, iterations=25, sampler=Sampler("stratified", 90, 80)
    )
    _same(*_both(x, factors, weights, "poisson", settings, update=("factors",)))


@pytest.mark.parametrize("sampler", ["stratified", "uniform"])
def test_slices_too_large_for_a_bitmap_give_the_same_cells(sampler):
    x, factors, weights = _problem(shape=(70_000, 60_000, 300), rank=4, density=1e-8)
    # A tenth of all cells, the default of uniform objectives, would be 10^11 of them.
    drawn = Sampler(sampler, 3000, 3000)
    settings = SgdSettings(
        rate=1e-3, epochs=1, iterations=12, sampler=drawn, objective_sampler=drawn
    )
    _same(*_both(x, factors, weights, "poisson", settings, update=("factors",)))


@pytest.mark.parametrize("shape", [(40, 30, 12), (300, 200), (9, 8, 7, 6), (700, 3, 40)])
@pytest.mark.parametrize("rank", [3, 40, 65])
def test_panels_of_rows_give_what_the_cpu_gives(monkeypatch, shape, rank):
    from onlinegcp.kernels.cuda.sgd import jobs

    x, factors, weights = _problem(shape=shape, rank=rank)
    tie = _history(factors, weights, anchors=np.full(len(shape), 0.1))
    settings = SgdSettings(rate=1e-3, epochs=2, iterations=20, ridge=0.1)
    options = {"update": ("factors",), "history": tie}
    for rows in (jobs.LONG_MODE, 30, 0):  # no mode is long, some are, all are
        monkeypatch.setattr(jobs, "LONG_MODE", rows)
        _same(*_both(x, factors, weights, "poisson", settings, **options))


def test_samples_drawn_a_few_iterations_at_a_time_are_the_same(monkeypatch):
    from onlinegcp.kernels.cuda.sgd import jobs

    x, factors, weights = _problem()
    settings = SgdSettings(rate=1e-3, epochs=2, iterations=53, sampler=SAMPLERS["stratified"])
    for iterations in (1, 7):
        monkeypatch.setattr(jobs, "DRAWN_TOGETHER", 1024 * iterations)
        _same(*_both(x, factors, weights, "poisson", settings, update=("factors",)))


def test_rows_with_very_many_samples_give_what_the_cpu_gives():
    x, factors, weights = _problem(shape=(300, 2, 50), rank=20, density=0.3)
    sampler = Sampler("stratified", 4000, 4000)
    settings = SgdSettings(rate=1e-3, epochs=2, iterations=20, sampler=sampler)
    tie = _history(factors, weights)
    _same(*_both(x, factors, weights, "poisson", settings, update=("factors",), history=tie))


def test_epochs_that_raise_the_objective_are_taken_back():
    x, factors, weights = _problem()
    settings = SgdSettings(rate=30.0, epochs=3, iterations=10)
    here, there = _both(x, factors, weights, "poisson", settings, update=("factors",))
    assert here.failures > 0
    _same(here, there)


def test_bits_repeat():
    x, factors, weights = _problem(shape=(300, 200, 24), rank=50, density=0.02)
    settings = SgdSettings(rate=1e-3, epochs=3, iterations=53)
    tie = _history(factors, weights)
    options = {"update": ("factors",), "history": tie, "kernels": "cuda"}
    found = [
        solve_sgd(x, factors, weights, get_loss("poisson"), settings, **options) for _ in range(3)
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].trace, other.trace)
        for ours, theirs in zip(found[0].factors, other.factors, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def _stream(n=100, seed=3):
    rng = np.random.default_rng(seed)
    a, b = rng.random((20, 4)) ** 3, rng.random((15, 4)) ** 3
    for t in range(n):
        yield Slice.dense(rng.poisson(a * (40 * rng.gamma(2.0, 1.0, 4)) @ b.T), time=t)


@pytest.mark.parametrize("history", ["reservoir", "last", "exponential", "data", "factors", "none"])
def test_a_stream_gives_what_the_cpu_gives(history):
    solver = SGD(history=history, history_size=5, weight_iterations=20, factor_iterations=20)
    here, there = (
        OnlineGCP(4, loss="poisson", solver=solver, init_slices=5, device=device).fit(_stream(12))
        for device in ("cpu", "cuda")
    )
    for ours, theirs in zip(here.factors_, there.factors_, strict=True):
        assert _apart(ours, theirs) < 1e-8


def test_a_hundred_slices_stay_within_a_millionth():
    solver = SGD(weight_iterations=20, factor_iterations=20)
    here, there = (
        OnlineGCP(4, loss="poisson", solver=solver, init_slices=5, device=device).fit(_stream())
        for device in ("cpu", "cuda")
    )
    for ours, theirs in zip(here.factors_, there.factors_, strict=True):
        assert _apart(ours, theirs) < 1e-6


def test_a_model_moves_between_devices(tmp_path):
    slices = list(_stream(20))
    solver = SGD(weight_iterations=20, factor_iterations=20)
    options = {"loss": "poisson", "solver": solver, "init_slices": 5, "device": "cuda"}
    whole = OnlineGCP(4, **options).fit(slices)
    OnlineGCP(4, **options).fit(slices[:12]).save(tmp_path / "half.npz")
    resumed = OnlineGCP.load(tmp_path / "half.npz")
    moved = OnlineGCP.load(tmp_path / "half.npz").set_params(device="cpu")
    for x in slices[12:]:
        resumed.partial_fit(x)
        moved.partial_fit(x)
    for ours, theirs, others in zip(whole.factors_, resumed.factors_, moved.factors_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert _apart(ours, others) < 1e-6


def test_a_users_own_loss_and_the_dense_sampler_stay_on_the_cpu_to_the_bit():
    x, factors, weights = _problem("gaussian")
    settings = SgdSettings(rate=1e-3, epochs=2, iterations=5, sampler="dense")
    here, there = _both(x, factors, weights, "gaussian", settings)
    for ours, theirs in zip(here.factors, there.factors, strict=True):
        np.testing.assert_array_equal(ours, theirs)
