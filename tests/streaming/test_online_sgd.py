"""OnlineSGD: one gradient step, checked by differences, by units, and against OnlineGCP."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice
from onlinegcp.streaming import SGD, OnlineGCP, OnlineSGD
from reference_outputs import gap, stored

SHAPE, RANK = (5, 4, 3), 2


def start(seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=(n, RANK)) for n in SHAPE]
    factors = [a / np.linalg.norm(a, axis=0) for a in factors]
    return KTensor(scale * np.ones(RANK), factors)


def slices(n=3, seed=1, scale=1.0):
    rng = np.random.default_rng(seed)
    return [scale * rng.normal(size=SHAPE) for _ in range(n)]


@pytest.mark.parametrize("missing", [False, True])
def test_one_update_is_one_gradient_step(missing):
    x = slices(1)[0]
    if missing:
        x[np.random.default_rng(2).random(SHAPE) < 0.3] = np.nan
    rate, penalty = 1e-3, 0.4
    init = start()
    model = OnlineSGD(RANK, rate=rate, factor_penalty=penalty, init=init)
    model.partial_fit(Slice.dense(x))
    s, before = model.weights_, [np.asarray(a) for a in init.factors]

    def objective(blocks):
        # Slice number 1, so that the penalty is this / 1.
        gap = np.nansum((x - KTensor(s, blocks).full()) ** 2)
        return gap + 0.5 * penalty * sum(np.sum(a**2) for a in blocks)

    for k, (old, new) in enumerate(zip(before, model.factors_, strict=True)):
        for i, r in np.ndindex(*old.shape):
            up, down = ([a.copy() for a in before] for _ in range(2))
            up[k][i, r] += 1e-6
            down[k][i, r] -= 1e-6
            slope = (objective(up) - objective(down)) / 2e-6
            assert (old[i, r] - new[i, r]) / rate == pytest.approx(slope, rel=1e-5, abs=1e-5)
    assert model.last_.factor_failures == 0


def test_units_cancel_when_the_rate_follows_them():
    """Data times c and rate over c squared: the same factors (methods.md 2.3)."""
    c = 32.0
    one = OnlineSGD(RANK, rate=1e-3, init=start())
    other = OnlineSGD(RANK, rate=1e-3 / c**2, init=start(scale=c))
    for x, scaled in zip(slices(), slices(scale=c), strict=True):
        one.partial_fit(Slice.dense(x))
        other.partial_fit(Slice.dense(scaled))
        assert one.last_.factor_failures == 0
        np.testing.assert_allclose(other.weights_, c * one.weights_, rtol=1e-9)
    for a, b in zip(one.factors_, other.factors_, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_the_automatic_rate_knows_no_units():
    models = [OnlineSGD(RANK, init=start(scale=c)) for c in (1.0, 1e4)]
    for x in slices(6):
        for model, c in zip(models, (1.0, 1e4), strict=True):
            model.partial_fit(Slice.dense(c * x))
    for a, b in zip(*(model.factors_ for model in models), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)


def test_the_automatic_rate_never_has_to_be_taken_back():
    rng = np.random.default_rng(5)
    model = OnlineSGD(RANK, relative_rate=1.0, init=start())
    for x in slices(20, seed=6):
        model.partial_fit(Slice.dense(x * rng.lognormal(sigma=2.0)))
        assert model.last_.factor_failures == 0
        assert model.last_.local <= model.last_.prequential


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_it_is_the_special_case_of_online_gcp(penalty):
    """Gaussian loss, least-squares weights, dense gradient, no history, one step (Section 5)."""
    rate = 2e-3
    plain = OnlineSGD(RANK, rate=rate, ridge=penalty, init=start())
    general = OnlineGCP(
        RANK,
        solver=SGD(
            weight_solver="least_squares",
            weight_penalty=penalty,
            sampler="dense",
            history="none",
            step="sgd",
            factor_rate=rate,
            factor_epochs=1,
            factor_iterations=1,
        ),
        init=start(),
    )
    for x in slices(5):
        plain.partial_fit(Slice.dense(x))
        general.partial_fit(Slice.dense(x))
        np.testing.assert_array_equal(plain.weights_, general.weights_)
        assert plain.last_.factor_failures == 0
    for a, b in zip(plain.factors_, general.factors_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_decay_shortens_later_steps():
    x = slices(1)[0]
    moved = []
    for past in (0, 9):
        rows = np.ones((past, RANK))
        init = KTensor(None, [*start().factors, rows]) if past else start()
        model = OnlineSGD(RANK, rate=1e-3, decay=0.5, init=init).partial_fit(Slice.dense(x))
        moved.append(np.linalg.norm(model.factors_[0] - start().factors[0]))
    assert moved[0] / moved[1] == pytest.approx((1 + 0.5 * 10) / (1 + 0.5 * 1), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"rate": 0.0}, "rate"),
        ({"rate": "fast"}, "rate"),
        ({"relative_rate": 1.5}, "relative_rate"),
        ({"decay": -1.0}, "decay"),
        ({"ridge": np.nan}, "ridge"),
        ({"factor_penalty": -1.0}, "factor_penalty"),
    ],
)
def test_options_out_of_range_are_refused(options, word):
    with pytest.raises(DataError, match=word):
        OnlineSGD(RANK, **options).partial_fit(Slice.dense(np.ones(SHAPE)))


@pytest.mark.parametrize(
    "name", [key.removesuffix("_A") for key in stored("tecpsgd") if key.endswith("_A")]
)
def test_the_authors_numbers_after_every_slice(name):
    """TeCPSGD, complete and with missing cells, with and without penalty."""
    given, theirs = stored("inputs"), stored("tecpsgd")
    penalty, step = map(float, theirs[f"{name}_lambda_step"].ravel())
    model = OnlineSGD(
        3,
        variant="tecpsgd",
        rate=step / 2,
        decay=penalty * step,
        ridge=2 * penalty,
        factor_penalty=2 * penalty,
        init=KTensor(None, [given["A0"], given["B0"]]),
    )
    seen = given["W"] > 0 if "masked" in name else np.ones_like(given["W"], dtype=bool)
    for t in range(14):
        model.partial_fit(Slice.dense(np.where(seen, given["X"], np.nan)[..., t]))
        factors = theirs[f"{name}_A"][..., t], theirs[f"{name}_B"][..., t]
        assert gap(model, factors, theirs[f"{name}_C"][t]) < 1e-9


def test_the_authors_variant_keeps_a_step_that_raises_the_loss():
    x = Slice.dense(slices(1)[0])
    loud = {"rate": 100.0, "init": start()}
    kept = OnlineSGD(RANK, variant="tecpsgd", **loud).partial_fit(x)
    taken_back = OnlineSGD(RANK, **loud).partial_fit(x)
    np.testing.assert_array_equal(taken_back.factors_[0], start().factors[0])
    assert np.abs(kept.factors_[0] - start().factors[0]).max() > 0.1
