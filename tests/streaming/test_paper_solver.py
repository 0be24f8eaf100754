"""The paper's solver inside OnlineGCP: its whole objective by differences, and the errata rows."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.kernels.layout import stack_factors
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.sgd import SgdSettings, solve_sgd
from onlinegcp.solvers.sgd.history import KINDS
from onlinegcp.streaming import CPStream
from onlinegcp.streaming.paper_solver import starting_weights
from paper_models import RANK, SHAPE, WARM, counts, gcp_model, start

FINE = {"solver": "sgd", "sampler": "all", "init_slices": WARM, "init_starts": 1}


def differences(objective, blocks, step=1e-5):
    slopes = []
    for k, block in enumerate(blocks):
        slope = np.empty_like(block)
        for place in np.ndindex(*block.shape):
            up, down = ([a.copy() for a in blocks] for _ in range(2))
            up[k][place] += step
            down[k][place] -= step
            slope[place] = (objective(up) - objective(down)) / (2 * step)
        slopes.append(slope)
    return slopes


# ---- the factor objective


def whole_objective(kind, loss, data, rows, old, penalty, weight, decay):
    """F of the paper at the last slice, written with dense tensors."""
    now = len(data)
    x, s = data[-1], rows[-1]

    def objective(blocks):
        total = loss.value(x, KTensor(s, blocks).full()).sum()
        total += 0.5 * penalty * sum(np.sum(a**2) for a in blocks)
        past = list(range(now - 1))
        if kind in ("reservoir", "last", "data"):
            past = past[-2:]  # history_size = 2, and these tests have a reservoir that keeps these
        for h in past:
            count = weight * decay ** (now - (h + 1))
            if kind in ("reservoir", "last", "exponential"):
                gap = KTensor(rows[h], old).full() - KTensor(rows[h], blocks).full()
                total += 0.5 * count * np.sum(gap**2)
            elif kind == "data":
                total += count * loss.value(data[h], KTensor(rows[h], blocks).full()).sum()
        if kind == "factors":
            total += weight * sum(np.sum((a - b) ** 2) for a, b in zip(old, blocks, strict=True))
        return total

    return objective


@pytest.mark.parametrize("name", ["gaussian", "poisson", "huber"])
@pytest.mark.parametrize("kind", KINDS)
def test_value_and_gradient_of_the_whole_factor_problem(kind, name):
    """One and two plain gradient steps give a point and the gradient there, history included.

    The history term vanishes where a solve starts, hence the second step. Rows and slices of the
    past are those of the warm start: a slice is never in its own history (errata row 10).
    """
    loss = get_loss(name)
    data = counts(WARM + 1)
    # Two warm slices fill the window of two, and nothing is drawn against them before the solve.
    data = data[-3:]
    weight, decay, penalty, rate = 0.7, 0.8, 0.3, 1e-5
    models = [
        gcp_model(
            RANK,
            name,
            **{**FINE, "init_slices": 2},
            history=kind,
            history_size=2,
            history_weight=weight,
            history_decay=decay,
            factor_penalty=penalty,
            weight_iterations=20,
            weight_epochs=1,
            step="sgd",
            weight_rate=1e-4,
            factor_rate=rate,
            factor_epochs=1,
            factor_iterations=iterations,
        ).partial_fit([Slice.dense(x) for x in data])
        for iterations in (1, 2)
    ]
    once, twice = models
    assert once.last_.factor_failures == twice.last_.factor_failures == 0
    warm = gcp_model(RANK, name, **{**FINE, "init_slices": 2}).fit(
        [Slice.dense(x) for x in data[:2]]
    )
    stored = warm.get_state()["state"].arrays["history.rows"]
    rows = np.vstack([stored, once.weights_])
    objective = whole_objective(kind, loss, data, rows, warm.factors_, penalty, weight, decay)
    assert once.last_.objective == pytest.approx(objective(once.factors_), rel=1e-9)
    assert twice.last_.objective == pytest.approx(objective(twice.factors_), rel=1e-9)
    slopes = differences(objective, [a.copy() for a in once.factors_])
    for a, b, slope in zip(once.factors_, twice.factors_, slopes, strict=True):
        scale = np.abs(slope).max()
        np.testing.assert_allclose((a - b) / rate, slope, rtol=1e-4, atol=1e-5 * scale)


def test_weight_solve_descends_loss_plus_mu_half_norm():
    """Errata row 1: the penalty of the weights is mu."""
    x, mu, rate = counts(1)[0], 3.0, 1e-4
    model = gcp_model(
        RANK,
        "poisson",
        **FINE,
        step="sgd",
        weight_penalty=mu,
        weight_rate=rate,
        weight_epochs=1,
        weight_iterations=1,
        factor_epochs=0,
        init=start(),
    )
    model.partial_fit(Slice.dense(x))
    factors = [np.asarray(a) for a in start().factors]
    begin = starting_weights(np.full(RANK, 20.0), tuple(factors), Slice.dense(x), 0.0)
    loss = get_loss("poisson")

    def objective(blocks):
        fit = loss.value(x, KTensor(blocks[0], factors).full()).sum()
        return fit + 0.5 * mu * np.sum(blocks[0] ** 2)

    slope = differences(objective, [begin])[0]
    np.testing.assert_allclose((begin - model.weights_) / rate, slope, rtol=1e-5)


@pytest.mark.slow
def test_gaussian_problem_has_the_normal_equations_of_cp_stream():
    """The minimiser of CP-Stream is a stationary point of OnlineGCP's factor problem.

    CP-Stream counts past slices with forget^(t-h), OnlineGCP with 1/2 w theta^(t-h), while both
    count the new slice with (x - m)^2: w = 2 makes them the same problem.
    """
    forget, init = 0.7, start(rows=4)
    x = Slice.dense(np.random.default_rng(1).normal(size=SHAPE) + 5.0)
    stream = CPStream(RANK, forget=forget, max_passes=4000, tolerance=1e-15, init=init)
    stream.partial_fit(x)
    options = {
        **FINE,
        "weight_solver": "least_squares",
        "history": "exponential",
        "history_decay": forget,
        "history_weight": 2.0,
        "step": "sgd",
        "factor_rate": 1e-4,
        "init": init,
    }
    online = gcp_model(RANK, **options, factor_epochs=400, factor_iterations=100)
    online.partial_fit(x)
    # From the same start both end in the same model, one by least squares, one by gradients.
    np.testing.assert_allclose(
        online.to_ktensor().full(), stream.to_ktensor().full(), rtol=1e-5, atol=1e-5
    )
    # And the gradient that OnlineGCP's solver sees vanishes at CP-Stream's solution.
    s = online.weights_
    solution = stream.factors_
    solution = (solution[0] * (stream.weights_ / s), *solution[1:])
    state = gcp_model(RANK, **options, factor_epochs=0).partial_fit(x).get_state()["state"]
    old = [np.asarray(a) for a in init.factors[:-1]]
    folded = state.arrays["history.folded"] - 2.0 * np.outer(s, s)  # without slice t itself
    moved = solve_sgd(
        x,
        solution,
        s,
        get_loss("gaussian"),
        SgdSettings(step="sgd", rate=1e-9, epochs=1, iterations=1, sampler="all"),
        update=("factors",),
        history=type("Tie", (), {"S": folded, "old": stack_factors(old), "anchors": None})(),
    )
    from_start = solve_sgd(
        x,
        old,
        s,
        get_loss("gaussian"),
        SgdSettings(step="sgd", rate=1e-9, epochs=1, iterations=1, sampler="all"),
        update=("factors",),
    )
    size = max(np.abs(a - b).max() for a, b in zip(from_start.factors, old, strict=True))
    for a, b in zip(moved.factors, solution, strict=True):
        assert np.abs(a - b).max() < 1e-4 * size


# ---- errata


def test_first_adam_step_has_the_length_of_the_rate():
    """Errata row 3: with the count at 0, bias correction would divide 0 by 0."""
    model = gcp_model(
        RANK, "poisson", **FINE, init=start(), factor_rate=1e-4, factor_epochs=1,
        factor_iterations=1, history="none", weight_epochs=0,
    )  # fmt: skip
    model.partial_fit(Slice.dense(counts(1)[0]))
    for a, b in zip(model.factors_, start().factors, strict=True):
        np.testing.assert_allclose(np.abs(a - b), 1e-4, rtol=1e-3)
    assert model.get_state()["state"].scalars["taken"] == 1


def test_a_failing_first_epoch_gives_back_the_factors():
    """Errata row 4: the snapshot is taken before the first epoch; errata row 12: A_old exists."""
    model = gcp_model(
        RANK, "poisson", **FINE, init=start(), step="sgd", factor_rate=1e6, factor_epochs=1
    )
    model.partial_fit(Slice.dense(counts(1)[0]))
    assert model.last_.factor_failures == 1
    for a, b in zip(model.factors_, start().factors, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15)  # the start's columns are made unit again
    assert model.last_.local == model.last_.prequential


def test_a_failed_epoch_lowers_the_rate_for_this_slice_only():
    """Errata row 5: a solve starts with the full rate, whatever happened before."""
    x = counts(2, scale=20.0)
    options = {
        **FINE, "init": start(), "step": "sgd", "history": "none", "factor_rate": 1e-5,
        "factor_iterations": 1, "weight_solver": "least_squares",
    }  # fmt: skip
    hard = Slice.dense(1e4 * x[0])
    plain = gcp_model(RANK, **options, factor_epochs=1).partial_fit(hard)
    assert plain.last_.factor_failures == 1
    plain.partial_fit(Slice.dense(x[1]))
    fresh = gcp_model(RANK, **options, factor_epochs=1).partial_fit(Slice.dense(x[1]))
    for a, b, c in zip(plain.factors_, fresh.factors_, start().factors, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
        assert np.abs(a - c).max() > 0
    # Within a slice the rate falls tenfold until an epoch succeeds.
    several = gcp_model(RANK, **options, factor_epochs=12).partial_fit(hard)
    assert 1 <= several.last_.factor_failures < 12
    assert several.last_.local < several.last_.prequential


@pytest.mark.parametrize("total", [0.0, 1.0, 1e9])
@pytest.mark.parametrize("mean", [np.zeros(RANK), np.array([0.0, 5.0]), np.array([1e-300, 0.0])])
def test_weights_never_start_at_zero_under_a_logarithm(mean, total):
    """Errata row 6."""
    factors = tuple(np.asarray(a) for a in start().factors)
    x = Slice([[0, 0, 0]], [total], SHAPE)
    begin = starting_weights(mean, factors, x, 0.0)
    assert np.all(begin > 0)
    assert np.all(np.isfinite(begin))
    if total:
        volume = KTensor(begin, factors).full().sum()
        assert volume == pytest.approx(total, rel=1e-6)


def test_weights_started_at_zero_stall():
    """Errata row 6: the reason for the above. Adam's second moment remembers a slope of 1e10."""
    rng = np.random.default_rng(0)
    factors = [np.abs(rng.normal(size=(n, RANK))) for n in (9, 8)]
    truth = np.array([40.0, 70.0])
    x = Slice.dense(rng.poisson(KTensor(truth, factors).full()))
    settings = SgdSettings(rate=1.0, epochs=5, iterations=100, sampler="all")
    loss = get_loss("poisson")
    zero = solve_sgd(x, factors, np.zeros(RANK), loss, settings, update=("weights",))
    begin = starting_weights(np.ones(RANK), tuple(factors), x, 0.0)
    good = solve_sgd(x, factors, begin, loss, settings, update=("weights",))
    np.testing.assert_allclose(good.weights, truth, rtol=0.15)
    assert zero.objective > good.objective + 100.0


def test_tolerance_is_relative_and_off_by_default():
    """Errata row 7: Poisson losses are negative, so that an absolute test would stop at once."""
    x = Slice.dense(counts(1)[0])
    epochs = {}
    for tolerance in (0.0, 1e-3):
        model = gcp_model(
            RANK, "poisson", **FINE, init=start(scale=2.0), weight_tolerance=tolerance,
            factor_tolerance=tolerance, weight_rate=1.0, weight_iterations=5, weight_epochs=40,
            factor_epochs=40, factor_rate=1e-6,
        )  # fmt: skip
        model.partial_fit(x)
        epochs[tolerance] = (model.last_.weight_epochs, model.last_.factor_epochs)
        assert model.last_.local < 0
    assert epochs[0.0] == (40, 40)
    assert 1 < epochs[1e-3][0] < 40
    assert epochs[1e-3][1] == 1  # so small a rate gains nothing


def test_epochs_are_compared_on_one_sample():
    """Errata row 8: with new samples, half of all epochs that change nothing would fail."""
    x = counts(1, shape=(30, 20))[0]
    model = gcp_model(
        RANK, "poisson", solver="sgd", sampler="stratified", init=start(shape=(30, 20)),
        objective_listed=10, objective_zeros=10, gradient_listed=10, gradient_zeros=10,
        weight_rate=1e-200, factor_rate=1e-200, weight_epochs=20, factor_epochs=20,
        weight_iterations=1, factor_iterations=1,
    )  # fmt: skip
    objectives = set()
    for _ in range(2):
        model.partial_fit(Slice(np.argwhere(x > 3), x[x > 3], x.shape))
        assert model.last_.weight_epochs == model.last_.factor_epochs == 20
        assert model.last_.weight_failures == model.last_.factor_failures == 0
        objectives.add(model.last_.objective)
    assert len(objectives) == 2  # another slice, another sample


def test_asking_for_all_cells_takes_each_exactly_once():
    """Errata row 9."""
    x = counts(1, scale=4.0)[0]
    x[x < 2] = 0.0
    sparse = Slice(np.argwhere(x), x[x != 0], SHAPE)
    common = {"solver": "sgd", "init": start(), "history": "none", "factor_iterations": 7}
    every = gcp_model(RANK, "poisson", sampler="all", **common).partial_fit(sparse)
    asked = gcp_model(
        RANK, "poisson", sampler="stratified", gradient_listed=sparse.n_listed,
        gradient_zeros=sparse.n_unlisted_zeros, objective_listed=10**6, objective_zeros=10**6,
        **common,
    ).partial_fit(sparse)  # fmt: skip
    assert sparse.n_unlisted_zeros > 0
    for a, b in zip(every.factors_, asked.factors_, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    assert asked.last_.objective == pytest.approx(every.last_.objective, rel=1e-12)


@pytest.mark.slow
def test_warm_rows_are_slices_one_to_h_init_and_count_for_the_reservoir():
    """Errata row 11: every slice, warm ones too, is kept equally often."""
    n_slices, size, n_runs = 9, 3, 200
    data = [Slice.dense(x) for x in counts(n_slices)]
    kept = np.zeros(n_slices)
    for seed in range(n_runs):
        model = gcp_model(
            RANK, solver="sgd", sampler="dense", history_size=size, init=start(rows=5),
            weight_solver="least_squares", factor_epochs=0, random_state=seed,
        )  # fmt: skip
        model.partial_fit(data[:4])
        state = model.get_state()["state"]
        assert state.scalars["offered"] == model.n_slices_ == n_slices
        kept[state.arrays["history.stamps"] - 1] += 1
    expected = n_runs * size / n_slices
    deviation = np.sqrt(expected * (1 - size / n_slices))
    assert kept.sum() == n_runs * size
    assert np.all(np.abs(kept - expected) < 4 * deviation)


@pytest.mark.parametrize("kind", ["reservoir", "last", "data"])
def test_weights_are_stored_with_their_slot_and_returned(kind):
    """Errata row 12."""
    data = [Slice.dense(x) for x in counts(6)]
    model = gcp_model(RANK, "poisson", **FINE, history=kind, history_size=10)
    seen = []
    for x in data:
        model.partial_fit(x)
        seen.append(model.weights_)
    arrays = model.get_state()["state"].arrays
    np.testing.assert_array_equal(arrays["history.stamps"], range(1, 7))
    np.testing.assert_array_equal(arrays["history.rows"][WARM:], seen[WARM:])


# ---- the rest


def test_the_past_holds_the_factors():
    """The heavier the history, the less a strange slice moves the model of past slices."""
    strange = Slice.dense(counts(1, seed=9)[0][::-1])
    moved = []
    for weight in (0.0, 1.0, 100.0):
        model = gcp_model(
            RANK, "poisson", **FINE, init=start(rows=4), history_weight=weight, factor_rate=1e-2
        ).partial_fit(strange)
        row = start(rows=4).factors[-1][0]
        before = KTensor(row, start().factors).full()
        moved.append(np.linalg.norm(KTensor(row, model.factors_).full() - before))
    assert moved[0] > 1.5 * moved[1] > 2 * moved[2]


def test_reference_and_compiled_kernels_agree():
    data = [Slice.dense(x) for x in counts(5)]
    options = {**FINE, "weight_iterations": 10, "factor_iterations": 5}
    models = [
        gcp_model(RANK, "poisson", device=device, **options).fit(data)
        for device in ("cpu", "reference")
    ]
    for a, b in zip(*(model.factors_ for model in models), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_lower_bound_holds_for_factors_and_weights():
    data = [Slice.dense(x) for x in counts(8)]
    model = gcp_model(RANK, **FINE, lower=0.1, factor_rate=0.1).fit(data)
    assert min(a.min() for a in model.factors_) >= 0.1
    assert model.weights_.min() >= 0.1
    assert model.transform(data[0]).min() >= 0.1


def test_a_negative_lower_bound_holds_for_weights_that_stay_where_they_started():
    # Unit columns, so that all the scale of this start is in its weights: far below the bound.
    given = KTensor(np.full(RANK, -0.4), [np.full((n, RANK), 2.0) for n in SHAPE])
    model = gcp_model(RANK, **FINE, init=given, lower=-0.5, weight_epochs=0)
    x = Slice.dense(np.ones(SHAPE))
    model.partial_fit(x)
    assert model.weights_.min() >= -0.5
    assert model.transform(x).min() >= -0.5


def test_a_nonnegative_gaussian_model_starts_from_a_nonnegative_fit():
    rng = np.random.default_rng(3)
    factors = [rng.random((n, RANK)) for n in (8, 7)]
    data = [Slice.dense(KTensor(rng.random(RANK), factors).full()) for _ in range(8)]
    model = gcp_model(RANK, solver="sgd", lower=0.0, init_slices=8).fit(data)
    assert model.score(data) > -1e-5
