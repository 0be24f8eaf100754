"""Formulas of the built-in losses, checked by differences, exact arithmetic and other packages."""

from __future__ import annotations

import re
import subprocess
import sys
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.losses import CODES, EPS, FORMULAS, LOSS_NAMES, Loss, from_dict, get_loss

VARIANTS = [get_loss(name) for name in LOSS_NAMES] + [
    get_loss("huber", delta=0.3),
    get_loss("negative_binomial", r=3.0),
    get_loss("negative_binomial", r=0.7),
    get_loss("beta", b=-1.5),
    get_loss("beta", b=1.5),
    get_loss("beta", b=2.0),
    get_loss("beta", b=3.0),
]
ALL = pytest.mark.parametrize("loss", VARIANTS, ids=repr)
BOUNDED = [loss for loss in VARIANTS if loss.lower == 0.0]


def data_for(loss: Loss, count: int, seed: int = 0) -> np.ndarray:
    """Data all over the domain, its boundary included."""
    rng = np.random.default_rng(seed)
    if loss.domain == "binary":
        return rng.integers(0, 2, count).astype(float)
    if loss.domain == "at_least_one":
        return rng.integers(1, 9, count).astype(float)
    if loss.domain == "nonnegative":
        return rng.poisson(2.0, count).astype(float)
    if loss.domain == "positive":
        return rng.gamma(1.5, 2.0, count) + 1e-3
    return rng.normal(0.0, 3.0, count)


def model_for(loss: Loss, count: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if loss.lower == 0.0:
        return np.exp(rng.uniform(np.log(0.02), np.log(30.0), count))
    return rng.uniform(-6.0, 6.0, count)


def difference(function, x: np.ndarray, m: np.ndarray, lower: float) -> np.ndarray:
    """Fourth-order central differences, with steps relative to m near a bound."""
    h = 1e-3 * (m if lower == 0.0 else np.ones_like(m))
    near = function(x, m + h) - function(x, m - h)
    far = function(x, m + 2 * h) - function(x, m - 2 * h)
    return (8.0 * near - far) / (12.0 * h)


def away_from_kinks(loss: Loss, x: np.ndarray, m: np.ndarray) -> np.ndarray:
    if loss.name != "huber":
        return np.ones(x.shape, bool)
    return np.abs(np.abs(x - m) - loss.parameter) > 0.01


@ALL
def test_deriv_is_the_slope_of_value(loss):
    x, m = data_for(loss, 500), model_for(loss, 500)
    keep = away_from_kinks(loss, x, m)
    slope = difference(loss.value, x, m, loss.lower)
    scale = np.abs(slope) + np.abs(loss.value(x, m)) + np.abs(x / m) + 1.0
    np.testing.assert_array_less(np.abs(loss.deriv(x, m) - slope)[keep], (1e-8 * scale)[keep])


@ALL
def test_curvature_is_the_slope_of_deriv(loss):
    x, m = data_for(loss, 500), model_for(loss, 500)
    keep = away_from_kinks(loss, x, m)
    bend = difference(loss.deriv, x, m, loss.lower)
    scale = np.abs(bend) + np.abs(loss.deriv(x, m)) + np.abs(x / m**2) + 1.0
    np.testing.assert_array_less(np.abs(loss.curvature(x, m) - bend)[keep], (1e-8 * scale)[keep])


@pytest.mark.parametrize(
    "loss", [loss for loss in VARIANTS if loss.name not in ("huber", "beta")], ids=repr
)
def test_fisher_is_the_expected_curvature_and_mean_the_expected_datum(loss):
    rng = np.random.default_rng(11)
    models = (-2.5, -0.3, 0.0, 1.7) if loss.lower < 0 else (0.05, 0.4, 1.0, 6.0)
    for m in models:
        x = loss.sample(rng, np.full(40_000, m), scale=0.5 if loss.name == "gamma" else None)
        assert loss.check(x) is None
        for drawn, expected in (
            (loss.curvature(x, m), loss.fisher(x[:1], m)[0]),
            (x, loss.mean(m)),
        ):
            error = drawn.std() / np.sqrt(drawn.size)
            assert abs(drawn.mean() - expected) <= 4.0 * error + 1e-12 * abs(expected), (
                m,
                expected,
            )


def test_huber_fisher_gives_a_parabola_above_the_loss_that_touches_it():
    loss = get_loss("huber", delta=0.7)
    x, m = data_for(loss, 400), model_for(loss, 400)
    for shift in np.linspace(-5.0, 5.0, 41):
        bound = loss.value(x, m) + loss.deriv(x, m) * shift + 0.5 * loss.fisher(x, m) * shift**2
        assert np.all(bound >= loss.value(x, m + shift) - 1e-9)


@pytest.mark.parametrize("b", [-1.5, 0.5, 1.5, 2.0, 3.0])
def test_beta_fisher_is_the_curvature_where_model_and_data_agree(b):
    loss = get_loss("beta", b=b)
    m = model_for(loss, 50)
    np.testing.assert_allclose(loss.fisher(m, m), loss.curvature(m, m), rtol=1e-7)


@ALL
def test_fisher_is_positive_everywhere(loss):
    m = np.array([0.0, 1e-12, 1e-6, 0.1, 1.0, 1e3])
    m = m if loss.lower == 0.0 else np.concatenate([-m, m[:5], [30.0]])
    m = m[m > -700.0]
    for x in data_for(loss, 5):
        phi = loss.fisher(x, m)
        assert np.all(phi > 0.0)
        assert np.all(np.isfinite(phi))


@ALL
def test_every_function_is_finite_and_silent_at_the_extremes(loss):
    m = np.array([0.0, 1e-300, 1e-12, 800.0, 1e6])
    if loss.lower < 0.0:
        m = np.concatenate([m, -m])
    for x in (*data_for(loss, 4), 1.0):
        for function in (loss.value, loss.deriv, loss.curvature, loss.fisher):
            assert np.all(np.isfinite(function(x, m))), function
    assert np.all(np.isfinite(loss.mean(m)))


@ALL
def test_scalars_lists_integers_and_broadcasting_give_arrays_of_the_common_shape(loss):
    x = np.array([[1.0], [1.0], [1.0]])
    m = np.array([1.0, 2.0])
    for function in (loss.value, loss.deriv, loss.curvature, loss.fisher):
        assert function(x, m).shape == (3, 2)
        assert function(1, 2).shape == ()
        assert function(np.empty(0), np.empty(0)).shape == (0,)
        np.testing.assert_allclose(function([1, 1], [1, 2]), function(x, m)[0])
        result = function(x, m)
        result *= 2.0  # a caller may change what it gets
    assert loss.mean([1, 2]).shape == (2,)


@ALL
def test_results_do_not_share_memory_with_the_arguments(loss):
    x, m = np.ones(3), np.ones(3)
    for result in (loss.value(x, m), loss.deriv(x, m), loss.mean(m), loss.fisher(x, m)):
        assert not np.shares_memory(result, m)
        assert not np.shares_memory(result, x)


@ALL
def test_float32_stays_float32_and_agrees(loss):
    x, m = data_for(loss, 200), model_for(loss, 200)
    keep = away_from_kinks(loss, x, m)
    for function in (loss.value, loss.deriv):
        single = function(x.astype(np.float32), m.astype(np.float32))
        assert single.dtype == np.float32
        double = function(x, m)
        scale = np.abs(double) + np.abs(x / m) + 1.0
        assert np.all((np.abs(single - double) <= 2e-4 * scale)[keep])


@ALL
def test_zero_shape_is_the_shape_of_the_loss_at_zero(loss):
    if loss.zero_shape is None:
        assert not loss.unlisted_zeros_allowed
        with pytest.raises(DataError):
            loss.check([0.0])
        return
    assert loss.unlisted_zeros_allowed
    loss.check([0.0])
    m = np.linspace(0.5 if loss.lower == 0 else -4.0, 6.0, 57)
    third = np.diff(loss.value(0.0, m), 3)
    second = np.diff(loss.value(0.0, m), 2)
    shapes = {
        "linear": np.allclose(second, 0.0),
        "quadratic": np.allclose(third, 0.0) and np.all(second > 1e-6),
        "concave": np.all(second < 0.0),
        "convex": np.all(second >= -1e-12),
    }
    assert shapes[loss.zero_shape]


def test_logit_is_exact_far_out():
    loss = get_loss("bernoulli_logit")
    np.testing.assert_array_equal(
        loss.value([0, 1, 0, 1], [800, 800, -800, -800]), [800, 0, 0, 800]
    )
    np.testing.assert_array_equal(loss.deriv([0, 1, 1], [800, 800, -800]), [1, 0, -1])
    # log(1 + e^-40) as an exact series term; softplus(40) - 40 in floating point is 0
    np.testing.assert_allclose(loss.value(1.0, 40.0), np.exp(-40.0), rtol=1e-12)
    np.testing.assert_allclose(loss.deriv(0.0, -40.0), np.exp(-40.0), rtol=1e-12)


def test_poisson_log_goes_on_as_its_tangent_above_fifty():
    loss = get_loss("poisson_log")
    m = np.array([40.0, 49.9, 50.5, 60.0, 800.0])
    slope = (loss.value(3.0, m + 1e-4) - loss.value(3.0, m - 1e-4)) / 2e-4
    np.testing.assert_allclose(loss.deriv(3.0, m), slope, rtol=1e-7)
    assert np.all(np.diff(loss.value(3.0, m)) > 0.0)


@pytest.mark.parametrize("m", [0.0, 1e-9, 1e-4, 0.1249, 0.125, 0.1251, 0.9, 7.0, 60.0])
@pytest.mark.parametrize("x", [1.0, 2.0, 9.0])
def test_zero_truncated_poisson_follows_its_likelihood_to_the_last_digits(x, m):
    # P(x) = y^x / (x! (e^y - 1)) at y = m + EPS, in 60 decimal digits.
    with localcontext() as context:
        context.prec = 60
        y, count = Decimal(m + EPS), Decimal(x)
        grown = y.exp() - 1
        value = grown.ln() - count * y.ln()
        deriv = y.exp() / grown - count / y
        curvature = count / y**2 - y.exp() / grown**2
        mean = y * y.exp() / grown
        fisher = mean / y**2 - y.exp() / grown**2
    loss = get_loss("zero_truncated_poisson")
    np.testing.assert_allclose(loss.value(x, m), float(value), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(loss.deriv(x, m), float(deriv), rtol=2e-14, atol=5e-15)
    np.testing.assert_allclose(loss.curvature(x, m), float(curvature), rtol=5e-14, atol=3e-14)
    np.testing.assert_allclose(loss.fisher(x, m), float(fisher), rtol=2e-13)
    np.testing.assert_allclose(loss.mean(m), float(mean), rtol=1e-14)


@pytest.mark.slow  # for the import of pyttb
@pytest.mark.parametrize(
    "name",
    [
        "gaussian",
        "poisson",
        "poisson_log",
        "bernoulli_odds",
        "bernoulli_logit",
        "rayleigh",
        "gamma",
    ],
)
def test_values_and_slopes_are_those_of_pyttb_where_pyttb_is_right(name):
    handles = pytest.importorskip("pyttb.gcp.handles")
    loss = get_loss(name)
    x, m = data_for(loss, 300), model_for(loss, 300)
    np.testing.assert_allclose(loss.value(x, m), getattr(handles, name)(x, m), rtol=1e-9)
    np.testing.assert_allclose(
        loss.deriv(x, m), getattr(handles, f"{name}_grad")(x, m), rtol=1e-8, atol=1e-9
    )


@pytest.mark.slow
def test_losses_with_a_parameter_have_the_values_of_pyttb():
    handles = pytest.importorskip("pyttb.gcp.handles")
    x, m = np.array([0.0, 1.0, 4.0, 7.0]), np.array([0.3, 1.0, 2.0, 0.5])
    huber = get_loss("huber", delta=0.4)
    np.testing.assert_allclose(huber.value(x, m), handles.huber(x, m, 0.4))
    np.testing.assert_allclose(huber.deriv(x, m), handles.huber_grad(x, m, 0.4))
    beta = get_loss("beta", b=0.5)
    np.testing.assert_allclose(beta.value(x, m), handles.beta(x, m, 0.5), rtol=1e-8)
    np.testing.assert_allclose(beta.deriv(x, m), handles.beta_grad(x, m, 0.5), rtol=1e-7)
    negative_binomial = get_loss("negative_binomial", r=3)
    np.testing.assert_allclose(
        negative_binomial.value(x, m), handles.negative_binomial(x, m, 3), rtol=1e-8
    )
    # pyttb 1.8.6 has r + 1 for r + x in this slope; ours is the slope of the value we share.
    slope = difference(lambda x, m: handles.negative_binomial(x, m, 3), x, m, 0.0)
    np.testing.assert_allclose(negative_binomial.deriv(x, m), slope, rtol=1e-7)


def test_beta_at_two_is_half_the_squared_error_and_near_the_ends_gamma_and_poisson():
    x, m = np.array([0.5, 1.0, 3.0]), np.array([0.7, 2.0, 0.9])
    np.testing.assert_allclose(
        get_loss("beta", b=2).deriv(x, m), 0.5 * get_loss("gaussian").deriv(x, m), rtol=1e-9
    )
    for name, b in (("gamma", 1e-9), ("poisson", 1.0 + 1e-9)):
        near = get_loss("beta", b=b)
        np.testing.assert_allclose(near.deriv(x, m), get_loss(name).deriv(x, m), rtol=1e-8)


def test_codes_are_places_in_the_table_and_stay_what_they_are():
    assert LOSS_NAMES[:11] == (
        *("gaussian", "poisson", "poisson_log", "bernoulli_odds", "bernoulli_logit", "rayleigh"),
        *("gamma", "huber", "negative_binomial", "beta", "zero_truncated_poisson"),
    )
    assert list(CODES.values()) == list(range(len(LOSS_NAMES))) == list(FORMULAS)
    for name in LOSS_NAMES:
        assert get_loss(name).code == CODES[name]


def test_the_same_loss_is_the_same_object_and_a_loss_passes_through():
    loss = get_loss("huber", delta=2)
    assert get_loss("huber", delta=2.0) is loss
    assert get_loss(loss) is loss
    assert get_loss("huber") != loss
    assert loss.parameter == 2.0
    assert loss.parameters == {"delta": 2.0}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: get_loss("poison"), r"No loss is called 'poison'. Did you mean 'poisson'\?.*beta"),
        (lambda: get_loss("Gaussian"), "Did you mean 'gaussian'"),
        (lambda: get_loss("zzz"), "No loss is called 'zzz'. Choose one of gaussian, poisson"),
        (lambda: get_loss(3), "given by its name.*but 3 came"),
        (lambda: get_loss(get_loss("huber"), delta=1), "came with parameters {'delta': 1}"),
        (
            lambda: get_loss("huber", detla=1),
            "takes the parameter delta, but 'detla'.*mean 'delta'",
        ),
        (lambda: get_loss("gaussian", delta=1), "takes no parameter, but 'delta' = 1.*Leave it"),
        (lambda: get_loss("huber", delta=0), "delta to be a positive finite number, but it is 0"),
        (lambda: get_loss("negative_binomial", r=-2.0), "r to be a positive.*but it is -2.0"),
        (lambda: get_loss("negative_binomial", r=np.inf), "but it is inf"),
        (lambda: get_loss("huber", delta="wide"), "but it is 'wide'. The default is 1.0"),
        (lambda: get_loss("beta", b=1), "other than 0 and 1, but it is 1. Use loss='gamma' for b"),
        (lambda: get_loss("beta", b=np.nan), "but it is nan"),
        (lambda: from_dict({"name": "poisson"}), "needs the keys 'name' and 'parameters'"),
        (lambda: from_dict(None), "the record is None"),
    ],
)
def test_a_wrong_name_or_parameter_is_refused_with_advice(call, message):
    with pytest.raises(DataError, match=message):
        call()


@ALL
def test_a_built_in_loss_survives_being_written_down(loss):
    assert from_dict(loss.to_dict()) == loss


@pytest.mark.slow
def test_importing_the_losses_needs_neither_numba_nor_scipy():
    code = (
        "import sys, onlinegcp.losses; print([m for m in ('numba', 'scipy') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_documentation_names_every_loss_and_its_examples_run():
    page = Path(__file__).parents[2] / "docs" / "losses.md"
    text = page.read_text(encoding="utf-8")
    assert all(re.search(rf"^\| `{name}[`(]", text, re.MULTILINE) for name in LOSS_NAMES)
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(example, str(page), "exec"), {})
