"""No state that is not finite is ever kept: values of every size, every method, every loss."""

from __future__ import annotations

import copy
import threading

import numpy as np
import pytest

from onlinegcp.errors import DataError, ScaleWarning, StateError
from onlinegcp.losses import LOSS_NAMES, Loss
from onlinegcp.slices import Slice
from onlinegcp.streaming import METHODS, OnlineGCP, keeping
from onlinegcp.streaming.keeping import LARGEST

SHAPE = (4, 3)


def ordinary(rng, loss):
    """A slice the loss accepts."""
    if loss.startswith("bernoulli"):
        cells = rng.integers(0, 2, SHAPE)
    elif loss in ("gaussian", "huber"):
        cells = rng.normal(size=SHAPE)
    else:
        cells = 1 + rng.poisson(2.0, SHAPE)
    return Slice.dense(np.asarray(cells, dtype=np.float64))


def with_value(x, value):
    cells = x.to_dense()
    cells[1, 2] = value
    return Slice.dense(cells)


def numbers_of(model):
    """Every number a saved file would hold."""
    from onlinegcp.streaming.storage import pack_model

    return {name: a for name, a in pack_model(model)[0].items() if a.dtype.kind == "f"}


def same(first, second):
    one, two = numbers_of(first), numbers_of(second)
    return one.keys() == two.keys() and all(np.array_equal(one[n], two[n]) for n in one)


def cases():
    for name in LOSS_NAMES:
        yield pytest.param(lambda name=name: OnlineGCP(2, name), name, id=f"auto-{name}")
        yield pytest.param(
            lambda name=name: OnlineGCP(2, name, solver="sgd"), name, id=f"sgd-{name}",
            marks=pytest.mark.slow,
        )  # fmt: skip
    for name, method in METHODS.items():
        if name != "online_gcp":
            yield pytest.param(lambda method=method: method(2), "gaussian", id=name)


@pytest.mark.filterwarnings("ignore::onlinegcp.errors.DivergenceWarning")  # SDT, rightly
@pytest.mark.filterwarnings("ignore::onlinegcp.errors.CancellingWarning")  # after such values
@pytest.mark.parametrize(("make", "loss"), list(cases()))
def test_values_of_any_size_leave_a_finite_model_that_goes_on(make, loss):
    """An enormous value is refused with its cell; the others are learned, or refused likewise."""
    rng = np.random.default_rng(5)
    model = make().set_params(init_slices=3, init_starts=1, random_state=0)
    model.partial_fit([ordinary(rng, loss) for _ in range(5)])
    yes_or_no = loss.startswith("bernoulli")
    sizes = () if yes_or_no else (1e-300, 1e-9, 1e9, 1e30, 1e50, 1e51, 1e155, 1e200, 1e308)
    for size in sizes:
        x = with_value(ordinary(rng, loss), size)
        before = copy.deepcopy(model)
        if size > LARGEST:
            with pytest.raises(DataError, match=r"at most 1e\+50 .* cell \(1, 2\)"):
                model.partial_fit([x])
            assert same(model, before)
            continue
        try:
            model.partial_fit([x])
        except DataError as error:
            refused = str(error)
        else:
            refused = ""
        assert not refused or ("(1, 2)" in refused and same(model, before))
        for _ in range(3):
            # Rivals may not get over a value 1e30 times as large as all others; they say so then,
            # and leave no trace either.
            before = copy.deepcopy(model)
            try:
                model.partial_fit([ordinary(rng, loss)])
            except DataError:
                assert size > 1e9
                assert not isinstance(model, OnlineGCP)
                assert same(model, before)
            assert all(np.isfinite(a).all() for a in numbers_of(model).values())


@pytest.mark.parametrize("size", [1e160, 1e200, np.finfo(float).max])
def test_the_warm_start_refuses_it_too(size):
    rng = np.random.default_rng(0)
    model = OnlineGCP(2, "poisson", init_slices=4).partial_fit([ordinary(rng, "poisson")] * 2)
    with pytest.raises(DataError, match="cell"):
        model.partial_fit([with_value(ordinary(rng, "poisson"), size)])
    model.partial_fit([ordinary(rng, "poisson")] * 4)
    assert np.isfinite(model.weights_).all()


def test_a_step_that_overflows_is_refused_and_names_the_largest_cell(monkeypatch):
    rng = np.random.default_rng(0)
    model = OnlineGCP(2, "poisson", init_slices=2).partial_fit([ordinary(rng, "poisson")] * 4)
    before, learn = copy.deepcopy(model), OnlineGCP._learn

    def spoiling(self, *arguments):
        state, record = learn(self, *arguments)
        inside = []
        keeping._gather(state.live, inside)
        inside[0].flat[0] = np.nan  # others may be shared with the state before
        return state, record

    with monkeypatch.context() as patch:
        patch.setattr(OnlineGCP, "_learn", spoiling)
        with pytest.raises(DataError, match=r"no longer be finite.* 50 in cell \(1, 2\)") as caught:
            model.partial_fit([with_value(ordinary(rng, "poisson"), 50.0)])
    assert caught.value.cell == (1, 2)
    assert same(model, before)
    with monkeypatch.context() as patch:
        patch.setattr(OnlineGCP, "_learn", lambda *_: 1 / 0)
        with pytest.raises(DataError, match=r"the solver failed \(division by zero\)"):
            model.partial_fit([ordinary(rng, "poisson")])
    assert same(model, before)


def test_an_error_of_the_callers_own_loss_comes_through_and_leaves_no_trace():
    calls = {"left": None}

    def value(x, m):
        if calls["left"] is not None:
            calls["left"] -= 1
            if calls["left"] < 0:
                raise ZeroDivisionError("mine")
        return (x - m) ** 2

    own = Loss("own", value=value, deriv=lambda x, m: 2 * (m - x))
    rng = np.random.default_rng(0)
    model = OnlineGCP(2, own, init_slices=2, init_starts=1)
    model.partial_fit([ordinary(rng, "gaussian") for _ in range(4)])
    for left in range(0, 12, 3):
        before = copy.deepcopy(model)
        calls["left"] = left
        with pytest.raises(DataError, match="ZeroDivisionError: mine"):
            model.partial_fit([ordinary(rng, "gaussian") for _ in range(3)])
        calls["left"] = None
        assert same(model, before)


def test_a_state_that_is_not_finite_is_not_taken_over():
    rng = np.random.default_rng(0)
    model = OnlineGCP(2, init_slices=2, solver="sgd").partial_fit([ordinary(rng, "gaussian")] * 4)
    saved = model.get_state()
    saved["state"].factors[0][0, 0] = np.inf
    with pytest.raises(StateError, match="finite numbers"):
        OnlineGCP(2, init_slices=2, solver="sgd").set_state(saved)


def test_calls_from_several_threads_all_count():
    rng = np.random.default_rng(0)
    slices = [ordinary(rng, "poisson") for _ in range(10)]
    model = OnlineGCP(2, "poisson", init_slices=2).partial_fit(slices[:4])

    def learn():
        for x in slices:
            model.partial_fit([x])
            model.transform([x])

    threads = [threading.Thread(target=learn) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.n_slices_ == 4 + 30
    assert np.isfinite(model.weights_).all()


@pytest.mark.parametrize("loss", ["gamma", "rayleigh"])
@pytest.mark.parametrize("seed", [0, 5])
def test_a_slice_that_no_row_can_follow_does_not_spoil_those_after_it(loss, seed):
    rng, shape = np.random.default_rng(seed), (5, 6)

    def amounts():
        return Slice.dense(rng.gamma(1.0, 2.0, shape) + 1e-3)

    model = OnlineGCP(3, loss, init_slices=3, init_starts=1).partial_fit(
        [amounts() for _ in range(5)]
    )
    apart = rng.gamma(1.0, 1.0, shape) * 10.0 ** rng.uniform(-300.0, 48.0, shape)
    model.partial_fit([Slice.dense(apart)])
    for number in range(7, 12):
        model.partial_fit([amounts()])
        assert model.n_slices_ == number


@pytest.mark.parametrize("loss", ["gamma", "rayleigh"])
@pytest.mark.parametrize("seed", [2, 3])
def test_weights_do_not_run_away_from_rows_that_absurd_cells_left_close_to_zero(loss, seed):
    rng, shape = np.random.default_rng(seed), [2, 4, 2]
    model = OnlineGCP(2, loss, init_slices=3, init_starts=1)
    for number in range(1, 37):
        if number % 7 == 0:
            shape[number % 3] += 1
        amounts = rng.gamma(2.0, 0.5, shape)
        if number <= 30:
            absurd = rng.random(shape) < 0.1
            amounts[absurd] = rng.choice([1e10, 1e25, 1e49], int(absurd.sum()))
        model.partial_fit([Slice.dense(amounts)])  # none is refused
        assert model.n_slices_ == number
    assert model.weights_.max() < 1e12


@pytest.mark.filterwarnings("ignore::onlinegcp.errors.CancellingWarning")
def test_a_first_slice_that_no_model_can_begin_with_is_left_out_and_told():
    rng = np.random.default_rng(0)
    slices = [ordinary(rng, "poisson_log") for _ in range(8)]
    slices[2] = with_value(slices[2], 1e40)
    model = OnlineGCP(2, "poisson_log", init_slices=4).partial_fit(slices[:3])
    with pytest.warns(ScaleWarning, match=r"slice 3 of the warm start .* 1e\+40 in cell \(1, 2\)"):
        model.partial_fit([slices[3]])
    without = OnlineGCP(2, "poisson_log", init_slices=3).partial_fit([*slices[:2], slices[3]])
    assert all(map(np.array_equal, model.factors_, without.factors_))
    model.partial_fit(slices[4:])
    assert model.n_slices_ == 8


@pytest.mark.parametrize("loss", ["gaussian", "huber", "poisson"])
@pytest.mark.parametrize("size", [1e-200, 1e-170, 1e14])
def test_slices_of_any_one_size_can_be_begun_with_and_read(loss, size):
    rng = np.random.default_rng(1)
    model = OnlineGCP(2, loss, init_slices=3)
    for number in range(1, 6):
        model.partial_fit([Slice.dense(size * (1.0 + rng.random(SHAPE)))])
        assert all(np.isfinite(a).all() for a in (*model.factors_, model.weights_))
        assert model.n_slices_ == number
