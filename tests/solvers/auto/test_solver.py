"""The tuning-free solver: invariances, bounded state, growing modes, missing cells, any loss."""

import math

import numpy as np
import pytest

from auto_steps import learn
from onlinegcp.errors import DataError
from onlinegcp.kernels.blas import one_blas_thread
from onlinegcp.losses import LOSS_NAMES, Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import cells, components
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.conjugate import Conjugate
from onlinegcp.solvers.auto.fisher_rows import FisherRows
from onlinegcp.solvers.auto.quadratic import Square
from onlinegcp.solvers.auto.state import to_dict
from onlinegcp.sums.local import jobs

RANK = 3


@pytest.fixture(autouse=True)
def one_thread():
    """As in the models: threaded BLAS spins for seconds where other work is running."""
    with one_blas_thread():
        yield


def stream(name, shape=(7, 1, 5), count=16, seed=0, missing=0.0, scale=1.0, lower=None):
    """Slices of a fixed model with changing weights, and a start near its factors."""
    rng = np.random.default_rng(seed)
    loss = get_loss(name)
    bounded = lower == 0.0 or not math.isinf(loss.lower)
    factors = [
        rng.gamma(0.7, 1.0, (n, RANK)) + 0.05 if bounded else rng.standard_normal((n, RANK))
        for n in shape
    ]
    letters = "abcdef"[: len(shape)]
    spec = ",".join(["z", *(f"{c}z" for c in letters)])
    rows, slices = rng.random((count, RANK)) + 0.5, []
    for row in rows:
        m = np.einsum(f"{spec}->{letters}", row, *factors)
        if loss.domain == "binary":
            x = (rng.random(shape) < loss.mean(m)).astype(float)
        elif loss.domain == "at_least_one":
            x = 1.0 + rng.poisson(m)
        elif loss.domain == "positive":
            x = rng.gamma(2.0, m / 2.0) + 0.01
        elif loss.domain == "nonnegative":
            x = rng.poisson(np.minimum(loss.mean(m), 50.0)).astype(float)
        else:
            x = m + 0.3 * rng.standard_normal(shape)
        x = scale * x
        hidden = np.where(rng.random(shape) < missing, np.nan, x)
        slices.append(Slice.dense(hidden if missing else x))
    near = [a * (1.0 + 0.3 * rng.random(a.shape)) for a in factors]
    return loss, near, rows * scale, slices


def run(loss, factors, rows, slices, warm=4, **options):
    state = auto.start(factors, rows[:warm], slices[:warm], loss, **options)
    return learn(state, slices[warm:], loss)


@pytest.mark.parametrize("name", LOSS_NAMES)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_every_loss_streams_with_finite_numbers(name, missing):
    loss, factors, rows, slices = stream(name, missing=missing)
    state, infos = run(loss, factors, rows, slices)
    for info in infos:
        assert math.isfinite(info.prequential)
        assert info.local <= info.prequential + 1e-3 * (1.0 + abs(info.prequential))
        assert np.isfinite(info.weights).all()
        assert info.weights.shape == (RANK,)
        assert ((info.forget > 0.0) & (info.forget <= 1.0)).all()
    for view in state.factors.views():
        assert np.isfinite(view).all()
    if not math.isinf(loss.lower):
        assert all((view >= 0.0).all() for view in state.factors.views())


FREE = [name for name in LOSS_NAMES if math.isinf(get_loss(name).lower)]


@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_under_a_bound_nothing_is_ever_negative_and_zeros_are_exact(name, missing, monkeypatch):
    monkeypatch.setattr(components, "PAUSE", 3)  # so that components are replaced, too
    loss, factors, rows, slices = stream(name, (9, 1, 7), 24, missing=missing, lower=0.0)
    for a in factors[::2]:
        a[: len(a) // 2, 0] = a[len(a) // 2 :, 1] = 1e-3
    state, infos = run(loss, factors, rows, slices, lower=0.0)
    square = name == "gaussian" and not missing
    assert isinstance(state.model.past, Square if square else FisherRows)
    assert state.model.bounded
    for info in infos:
        assert math.isfinite(info.local)
        assert (info.weights >= 0.0).all()
    assert all((view >= 0.0).all() for view in state.factors.views())
    found = np.array([auto.solve_weights(state, x, loss) for x in slices])
    assert (found >= 0.0).all()
    everything = np.concatenate([view.ravel() for view in state.factors.views()])
    assert (everything == 0.0).any()
    assert not ((everything > 0.0) & (everything < 1e-12)).any()


@pytest.mark.parametrize("name", FREE)
def test_weights_under_a_bound_meet_the_optimality_conditions(name):
    loss, factors, rows, slices = stream(name, lower=0.0, shape=(9, 7))
    state, _ = run(loss, factors, rows, slices, lower=0.0, forget=1.0)
    if isinstance(state.model.past, FisherRows):
        state.model.past.variance[:] = 0.0  # no prior on the weights
    x = Slice.dense(np.abs(np.sign(slices[0].to_dense())) * (np.arange(9) < 3)[:, None])
    found = auto.solve_weights(state, x, loss)
    a, b = state.factors.views()
    design = np.einsum("ir,jr->ijr", a, b).reshape(-1, RANK)
    slope = design.T @ loss.deriv(x.value, design @ found)
    assert (found >= 0.0).all()
    assert (found == 0.0).any() or name != "gaussian"
    np.testing.assert_allclose(slope[found > 0.0], 0.0, atol=1e-3)
    assert (slope[found == 0.0] >= 0.0).all()


@pytest.mark.parametrize("name", ["poisson", "gamma", "gaussian"])
def test_the_losses_own_bound_may_be_named(name):
    loss, factors, rows, slices = stream(name)
    one, _ = run(loss, factors, rows, slices)
    other, _ = run(loss, factors, rows, slices, lower=loss.lower)
    np.testing.assert_array_equal(one.factors.data, other.factors.data)


@pytest.mark.parametrize(
    ("name", "lower"), [("gaussian", 0.5), ("gaussian", -1.0), ("poisson", -np.inf), ("gamma", 0.1)]
)
def test_a_bound_other_than_zero_is_refused_with_what_is_possible(name, lower):
    loss, factors, rows, slices = stream(name)
    with pytest.raises(DataError, match=r"takes lower = 0.*solver='sgd', which takes any"):
        run(loss, factors, rows, slices, lower=lower)


def test_a_loss_whose_own_bound_is_not_zero_is_refused():
    odd = Loss(
        "shifted", value=lambda x, m: (x - m) ** 2, deriv=lambda x, m: 2.0 * (m - x), lower=0.5
    )
    _, factors, rows, slices = stream("gaussian", lower=0.0)
    with pytest.raises(DataError, match="'shifted' has"):
        run(odd, factors, rows, slices)


def test_a_negative_start_is_refused_under_a_bound():
    loss, factors, rows, slices = stream("gaussian")
    with pytest.raises(DataError, match="below the bound 0"):
        run(loss, factors, rows, slices, lower=0.0)


@pytest.mark.parametrize(
    ("name", "lower"),
    [("poisson", None), ("gaussian", None), ("bernoulli_odds", None), ("bernoulli_logit", None),
     ("gaussian", 0.0), ("huber", 0.0)],
)  # fmt: skip
@pytest.mark.parametrize(
    "shape", [(9,), (1,), (5, 4), (3, 1, 4), (3, 1, 4, 2), (2, 3, 2, 2, 2), (2, 2, 2, 1, 2, 2)],
    ids=str,
)  # fmt: skip
def test_one_to_six_modes_are_served(name, lower, shape, monkeypatch):
    monkeypatch.setattr(components, "PAUSE", 2)  # trials and splits included
    monkeypatch.setattr(components, "SPLIT_PAUSE", 2)
    loss, factors, rows, slices = stream(name, shape=shape, count=12, lower=lower)
    _, infos = run(loss, factors, rows, slices, lower=lower)
    assert all(math.isfinite(info.local) for info in infos)


@pytest.mark.parametrize("name", ["poisson", "gaussian"])
@pytest.mark.parametrize("scale", [1e-3, 4096.0])
def test_rescaling_the_data_leaves_the_normalised_factors_unchanged(name, scale):
    runs = []
    for c in (1.0, scale):
        loss, factors, rows, slices = stream(name, scale=c, count=40)
        runs.append(run(loss, factors, rows, slices))
    for one, other in zip(runs[0][0].factors.views(), runs[1][0].factors.views(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-8)
    for one, other in zip(runs[0][1], runs[1][1], strict=True):
        np.testing.assert_allclose(one.weights * scale, other.weights, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("name", ["poisson", "gaussian", "bernoulli_odds", "gamma"])
def test_permuting_a_mode_permutes_its_factor(name):
    loss, factors, rows, slices = stream(name)
    order = np.random.default_rng(1).permutation(7)
    plain, _ = run(loss, factors, rows, slices)
    moved = [Slice.dense(x.to_dense()[order]) for x in slices]
    permuted, _ = run(loss, [factors[0][order], *factors[1:]], rows, moved)
    expected = [plain.factors.views()[0][order], *plain.factors.views()[1:]]
    for one, other in zip(expected, permuted.factors.views(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["poisson", "bernoulli_odds", "gaussian"])
def test_sparse_and_dense_slices_of_the_same_data_agree(name):
    loss, factors, rows, slices = stream(name)
    listed = []
    for x in slices:
        full = x.to_dense()
        listed.append(Slice(np.argwhere(full), full[full != 0], full.shape))
    one, _ = run(loss, factors, rows, slices)
    other, _ = run(loss, factors, rows, listed)
    np.testing.assert_allclose(one.factors.data, other.factors.data, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", ["poisson", "bernoulli_odds", "gaussian", "gamma"])
def test_one_and_two_threads_give_the_same_bits(name, monkeypatch):
    monkeypatch.setattr(components, "PAUSE", 2)  # a trial has work for the second thread
    monkeypatch.setattr(components, "SPLIT_PAUSE", 2)
    loss, factors, rows, slices = stream(name, count=30)
    ends, trials = [], 0
    for count in (1, 2):
        state = auto.start(factors, rows[:4], slices[:4], loss)
        for x in slices[4:]:
            trials += state.trials.twin is not None
            with jobs(count):
                state, _ = auto.step(state, x, loss)
        ends.append(to_dict(state))
    assert trials
    for key, value in ends[0].items():
        np.testing.assert_array_equal(value, ends[1][key], key)


def test_an_error_in_the_second_thread_reaches_the_caller(monkeypatch):
    monkeypatch.setattr(components, "PAUSE", 2)
    loss, factors, rows, slices = stream("gaussian", count=30)
    state = auto.start(factors, rows[:4], slices[:4], loss)
    state, _ = learn(state, slices[4:12], loss)
    assert state.trials.twin is not None
    state.trials.twin.past.products = np.zeros((1, 7))  # a twin that cannot be stepped
    with pytest.raises(ValueError, match="broadcast"), jobs(2):
        auto.step(state, slices[12], loss)


@pytest.mark.parametrize("name", ["poisson", "gaussian", "bernoulli_odds", "poisson_log"])
def test_solving_the_weights_changes_nothing_and_beats_other_weights(name):
    loss, factors, rows, slices = stream(name)
    state, _ = run(loss, factors, rows, slices)
    before = to_dict(state)
    found = auto.solve(state, slices[0], loss)
    np.testing.assert_array_equal(auto.solve_weights(state, slices[0], loss), found.weights[:RANK])
    for key, value in to_dict(state).items():
        np.testing.assert_array_equal(value, before[key])
    full = slices[0].to_dense()

    def total(s):
        return float(
            loss.value(full, np.einsum("z,az,bz,cz->abc", s, *state.factors.views())).sum()
        )

    best = total(found.weights[:RANK])
    assert found.objective == pytest.approx(best, rel=1e-6)
    if name != "poisson_log":  # its prior on the weights moves the optimum a little
        for direction in np.random.default_rng(0).standard_normal((20, RANK)):
            trial = found.weights[:RANK] + 1e-2 * direction * np.abs(found.weights[:RANK])
            assert total(trial) >= best - 1e-7 * abs(best)


@pytest.mark.parametrize("name", ["poisson", "bernoulli_odds", "gaussian", "bernoulli_logit"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_modes_may_grow(name, missing):
    loss, factors, rows, slices = stream(name, shape=(7, 2, 5), missing=missing)
    small = [Slice.dense(x.to_dense()[:5, :, :4]) for x in slices[:10]]
    state, _ = run(loss, [factors[0][:5], factors[1], factors[2][:4]], rows[:10], small)
    state = auto.grow(state, (7, 2, 5))
    assert state.factors.shape == (7, 2, 5)
    state, infos = learn(state, slices[10:], loss)
    losses = [info.prequential for info in infos]
    assert np.isfinite(losses).all()
    assert np.abs(state.factors.views()[0][5:]).max() > 1e-3  # the new rows were learned


def test_modes_never_shrink():
    loss, factors, rows, slices = stream("poisson")
    state, _ = run(loss, factors, rows, slices)
    with pytest.raises(DataError, match="only grow"):
        auto.grow(state, (6, 1, 5))
    auto.grow(state, (7, 1, 5))


@pytest.mark.parametrize("name", ["poisson", "bernoulli_odds", "gaussian", "poisson_log"])
def test_empty_slices_leave_a_usable_model(name):
    loss, factors, rows, slices = stream(name)
    state, _ = run(loss, factors, rows, slices)
    empty = Slice(np.zeros((0, 3)), np.zeros(0), slices[0].shape)
    for _ in range(5):
        state, info = auto.step(state, empty, loss)
        assert np.isfinite(info.weights).all()
    unseen = Slice(np.zeros((0, 3)), np.zeros(0), slices[0].shape, unlisted="missing")
    state, info = auto.step(state, unseen, loss)
    assert info.prequential == pytest.approx(0.0, abs=1e-9)
    _, after = auto.step(state, slices[-1], loss)
    assert math.isfinite(after.prequential)


VOLUMES = {
    "conjugate": ("poisson", None),
    "square": ("gaussian", None),
    "bounded square": ("gaussian", 0.0),
    "rows": ("gamma", None),
    "bounded rows": ("huber", 0.0),
}


@pytest.mark.parametrize("kind", VOLUMES)
def test_one_event_next_to_a_million_does_no_harm(kind):
    # The model of loud slices must be as good as if the near-empty ones between had never come.
    name, lower = VOLUMES[kind]
    rng = np.random.default_rng(7)
    shape, loss = (12, 9), get_loss(name)
    factors = [rng.dirichlet(np.full(n, 0.5), RANK).T + 0.01 for n in shape]
    loud, quiet, rows = [], [], []
    for _ in range(40):
        row = 3e5 * rng.gamma(2.0, 0.5, RANK)
        m = (factors[0] * row) @ factors[1].T
        loud.append(Slice.dense(rng.gamma(4.0, m / 4.0) if name == "gamma" else rng.poisson(m)))
        single = np.full(shape, 1e-3 if name == "gamma" else 0.0)
        single[rng.integers(12), rng.integers(9)] = 1.0
        quiet.append(Slice.dense(single))
        rows.append(row)
    near = [a * (1.0 + 0.5 * rng.random(a.shape)) for a in factors]
    totals = []
    for mixed in (False, True):
        state = auto.start(near, rows[:4], loud[:4], loss, lower=lower)
        total = 0.0
        for x, small in zip(loud[4:], quiet[4:], strict=True):
            if mixed:
                state, info = auto.step(state, small, loss)
                assert np.isfinite(info.weights).all()
            state, info = auto.step(state, x, loss)
            total += info.prequential
        totals.append(total)
    assert totals[1] <= totals[0] + 0.02 * abs(totals[0])


def test_a_wrong_shape_is_refused():
    loss, factors, rows, slices = stream("poisson")
    state, _ = run(loss, factors, rows, slices)
    with pytest.raises(DataError, match="grow"):
        auto.step(state, Slice.dense(np.ones((7, 1, 6))), loss)


def test_the_warm_start_needs_as_many_rows_as_slices():
    loss, factors, rows, slices = stream("poisson")
    with pytest.raises(DataError, match="one row of weights"):
        auto.start(factors, rows[:3], slices[:4], loss)
    with pytest.raises(DataError, match="at least one slice"):
        auto.start(factors, rows[:0], [], loss)


def test_the_model_learns_what_the_warm_start_got_wrong():
    loss, factors, rows, slices = stream("poisson", shape=(12, 9), count=80, seed=5)
    rng = np.random.default_rng(0)
    rough = [a + 2.0 * a.mean() * rng.random(a.shape) for a in factors]
    _, infos = run(loss, rough, rows, slices)
    frozen = auto.start(rough, rows[:4], slices[:4], loss)
    late = slices[-20:]
    learned = sum(info.prequential for info in infos[-20:])
    assert learned < sum(auto.solve(frozen, x, loss).objective for x in late)


def test_large_negative_binomial_slices_use_the_conjugate_history(monkeypatch):
    monkeypatch.setattr(cells, "CELL_BUDGET", 10)
    loss, factors, rows, slices = stream("negative_binomial")
    state, infos = run(loss, factors, rows, slices)
    assert isinstance(state.model.past, Conjugate)
    assert all(math.isfinite(info.local) for info in infos)


def test_sampled_sums_keep_the_stream_close_to_exact_ones(monkeypatch):
    loss, factors, rows, slices = stream("bernoulli_odds", shape=(12, 11, 5), count=30)
    exact = sum(info.prequential for info in run(loss, factors, rows, slices)[1])
    monkeypatch.setattr("onlinegcp.solvers.auto.odds_sums.EXACT_BUDGET", 0.0)
    sampled = sum(info.prequential for info in run(loss, factors, rows, slices)[1])
    assert sampled == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize(
    ("name", "lower"),
    [("poisson", None), ("bernoulli_odds", None), ("gaussian", None), ("huber", None),
     ("huber", 0.0), pytest.param("gaussian", 0.0, marks=pytest.mark.slow)],
)  # fmt: skip
def test_rank_200_is_served(name, lower):
    # More components than rows or cells of a mode: every system is singular.
    rng = np.random.default_rng(0)
    factors = [rng.random((n, 200)) for n in (11, 7)]
    slices = [Slice.dense(np.minimum(rng.poisson(0.5, (11, 7)), 1) * 1.0) for _ in range(6)]
    loss = get_loss(name)
    state = auto.start(factors, rng.random((3, 200)) / 200, slices[:3], loss, lower=lower)
    for x in slices[3:]:
        state, info = auto.step(state, x, loss)
        assert info.weights.shape == (200,)
        assert np.isfinite(info.weights).all()
        assert info.local <= info.prequential + 1e-6 * (1.0 + abs(info.prequential))
    assert np.isfinite(state.factors.data).all()
    if state.model.bounded:
        assert (info.weights >= 0.0).all()
        assert (state.factors.data >= 0.0).all()


def test_the_state_does_not_grow_with_the_stream(monkeypatch):
    monkeypatch.setattr(components, "PAUSE", 10**6)
    loss, factors, rows, slices = stream("poisson", count=40)
    state = auto.start(factors, rows[:4], slices[:4], loss)

    def size():
        return sum(np.asarray(v).nbytes for v in to_dict(state).values())

    state, _ = auto.step(state, slices[4], loss)
    early = size()
    state, _ = learn(state, slices[5:], loss)
    assert size() == early
