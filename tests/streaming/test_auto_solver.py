"""The default solver behind OnlineGCP: bounds, from the warm start to the saved file."""

import itertools

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import Loss, get_loss
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP
from onlinegcp.testing import check_streaming

FREE = ["gaussian", "huber", "bernoulli_logit", "poisson_log"]


def log_cosh():
    return Loss(
        "log_cosh",
        value=lambda x, m: np.logaddexp(m - x, x - m),
        deriv=lambda x, m: np.tanh(m - x),
    )


def nonnegative_stream(count=50, seed=0, noise=0.3):
    """Patterns with many zeros, noise of both signs."""
    rng = np.random.default_rng(seed)
    factors = [rng.random((n, 3)) * (rng.random((n, 3)) < 0.5) + 0.0 for n in (20, 17)]
    rows = rng.gamma(2.0, 1.0, (count, 3)) * (rng.random((count, 3)) < 0.8)
    slices = [
        Slice.dense((factors[0] * row) @ factors[1].T + noise * rng.standard_normal((20, 17)))
        for row in rows
    ]
    return factors, rows, slices


def match(truth, found):
    """Mean congruence under the best pairing."""
    alike = np.ones((3, 3))
    for a, b in zip(truth, found, strict=True):
        alike *= (a / np.linalg.norm(a, axis=0)).T @ (b / np.linalg.norm(b, axis=0))
    return max(alike[range(3), list(p)].mean() for p in itertools.permutations(range(3)))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_nonnegative_model_is_recovered_better_than_without_the_bound(missing):
    factors, _, slices = nonnegative_stream()
    if missing:
        rng = np.random.default_rng(1)
        hidden = [np.where(rng.random((20, 17)) < missing, np.nan, x.to_dense()) for x in slices]
        slices = [Slice.dense(x) for x in hidden]
    scores, losses = {}, {}
    for lower in (None, 0.0):
        model, losses[lower] = OnlineGCP(3, lower=lower), 0.0
        for x in slices:
            model.partial_fit(x)
            losses[lower] += 0.0 if model.last_ is None else model.last_.prequential
        scores[lower] = match(factors, model.factors_)
    assert scores[0.0] > 0.99
    assert scores[0.0] >= scores[None]
    assert losses[0.0] < losses[None]
    planted = np.concatenate([(a == 0.0).ravel() for a in factors]).mean()
    exact = np.concatenate([(a == 0.0).ravel() for a in model.factors_]).mean()
    assert 0.4 * planted < exact < 1.3 * planted


@pytest.mark.parametrize("loss", [*FREE, log_cosh()], ids=str)
def test_transform_and_predict_respect_the_bound_from_the_first_slice_on(loss):
    rng = np.random.default_rng(3)
    kind = getattr(loss, "name", loss)
    slices = [
        Slice.dense(
            rng.integers(0, 2, (7, 5)).astype(float)
            if kind == "bernoulli_logit"
            else rng.poisson(2.0, (7, 5)).astype(float)
        )
        for _ in range(9)
    ]
    model = OnlineGCP(2, loss, lower=0, init_slices=4, init_starts=1)
    for x in slices:
        model.partial_fit(x)  # during the warm start, too
        assert (model.transform(slices) >= 0.0).all()
        assert all((a >= 0.0).all() for a in model.factors_)
        assert (model.weights_ >= 0.0).all()
    cells = np.array([[0, 0], [6, 4]])
    assert (model.predict(cells) >= get_loss(loss).mean(np.zeros(1))).all()


def test_a_given_start_must_respect_the_bound():
    _, rows, slices = nonnegative_stream(12)
    signed = KTensor(None, [np.ones((20, 3)), -np.ones((17, 3)), rows])
    with pytest.raises(DataError, match="bound"):
        OnlineGCP(3, lower=0.0, init=signed).partial_fit(slices[0])
    fine = KTensor(None, [np.ones((20, 3)), np.eye(17)[:, :3], rows])
    model = OnlineGCP(3, lower=0.0, init=fine).partial_fit(slices)
    assert all((a >= 0.0).all() for a in model.factors_)


@pytest.mark.parametrize("lower", [0.1, -1.0, -np.inf])
def test_other_bounds_are_refused_with_what_is_possible(lower):
    model = OnlineGCP(2, "poisson", lower=lower)
    with pytest.raises(DataError, match=r"lower = 0 with loss 'poisson'.*solver='sgd'"):
        model.partial_fit(Slice.dense(np.ones((3, 2))))


def test_a_saved_model_goes_on_under_its_bound_bit_for_bit(tmp_path):
    _, _, slices = nonnegative_stream(40)
    through = OnlineGCP(3, lower=0.0).partial_fit(slices)
    for stop in (5, 26):  # in the warm start, and while a component is on trial
        OnlineGCP(3, lower=0.0).partial_fit(slices[:stop]).save(tmp_path / "model")
        resumed = OnlineGCP.load(tmp_path / "model").partial_fit(slices[stop:])
        for a, b in zip(through.factors_, resumed.factors_, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(through.transform(slices[3]), resumed.transform(slices[3]))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["gaussian", "huber", log_cosh()], ids=str)
def test_the_whole_conformance_suite_holds_under_a_bound(loss):
    options = {"init_slices": 5, "init_starts": 1}
    check_streaming(OnlineGCP(2, loss, lower=0.0, **options))
