"""Deviance, log-likelihood, p-values and draws, against scipy.stats, scikit-learn and sums."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from onlinegcp.errors import DataError
from onlinegcp.losses import LOSS_NAMES, Loss, get_loss
from onlinegcp.losses.likelihoods import check_domain, describe, inside

VARIANTS = [loss for loss in map(get_loss, LOSS_NAMES) if loss.likelihood is not None]
VARIANTS += [get_loss("negative_binomial", r=2.5)]
WITH_LIKELIHOOD = pytest.mark.parametrize("loss", VARIANTS, ids=repr)
SCALE = 0.6  # of gaussian and gamma; the others have none


def scale_of(loss: Loss) -> float | None:
    return SCALE if loss.name in ("gaussian", "gamma") else None


def models_of(loss: Loss) -> np.ndarray:
    return np.array([-2.0, 0.0, 0.7, 2.0] if loss.lower < 0 else [1e-8, 0.3, 1.0, 4.0])


def distribution(loss: Loss, m: float):
    """The same distribution from scipy.stats, by its own parametrisation."""
    mean = float(loss.mean(m))
    return {
        "gaussian": lambda: stats.norm(m, SCALE),
        "poisson": lambda: stats.poisson(mean),
        "poisson_log": lambda: stats.poisson(mean),
        "bernoulli_odds": lambda: stats.bernoulli(mean),
        "bernoulli_logit": lambda: stats.bernoulli(mean),
        "rayleigh": lambda: stats.rayleigh(scale=m / np.sqrt(np.pi / 2.0)),
        "gamma": lambda: stats.gamma(SCALE**-2, scale=m * SCALE**2),
        "negative_binomial": lambda: stats.nbinom(loss.parameter, 1.0 / (1.0 + m)),
        "zero_truncated_poisson": lambda: None,
    }[loss.name]()


def data_of(loss: Loss) -> np.ndarray:
    return {
        "real": np.array([-3.0, -0.2, 0.0, 1.1, 9.0]),
        "nonnegative": np.array([0.0, 1.0, 2.0, 7.0, 40.0]),
        "positive": np.array([1e-3, 0.3, 1.0, 5.0]),
        "binary": np.array([0.0, 1.0]),
        "at_least_one": np.array([1.0, 2.0, 7.0, 40.0]),
    }[str(loss.domain)]


@WITH_LIKELIHOOD
def test_log_likelihood_and_tails_are_those_of_scipy(loss):
    x = data_of(loss)
    for m in models_of(loss):
        other = distribution(loss, m)
        if other is None or (m < 1e-6 and loss.name in ("rayleigh", "gamma")):
            continue
        expected = other.logpdf(x) if loss.domain in ("real", "positive") else other.logpmf(x)
        ours = loss.log_likelihood(x, m, scale=scale_of(loss))
        # EPS = 1e-10 beside m = 1e-8 is one percent of it
        np.testing.assert_allclose(ours, expected, rtol=1e-6 if m > 1e-6 else 0.02)
        lower = loss.p_value(x, m, tail="lower", scale=scale_of(loss))
        upper = loss.p_value(x, m, tail="upper", scale=scale_of(loss))
        whole = loss.domain in ("nonnegative", "binary")
        np.testing.assert_allclose(lower, other.cdf(x), rtol=1e-9)
        np.testing.assert_allclose(upper, other.sf(x - whole), rtol=1e-6, atol=1e-300)


@WITH_LIKELIHOOD
def test_probabilities_sum_to_one(loss):
    for m in models_of(loss)[1:]:
        if loss.domain in ("real", "positive"):
            x = np.linspace(-40.0 if loss.domain == "real" else 1e-6, 60.0, 400_001)
            density = np.exp(loss.log_likelihood(x, m, scale=scale_of(loss)))
            total = np.trapezoid(density, x)
        else:
            first = 1.0 if loss.domain == "at_least_one" else 0.0
            x = np.array([0.0, 1.0]) if loss.domain == "binary" else np.arange(first, 400.0)
            total = np.exp(loss.log_likelihood(x, m)).sum()
        np.testing.assert_allclose(total, 1.0, atol=1e-5)


@pytest.mark.parametrize("m", [0.0, 1e-7, 0.4, 0.9999, 1.0, 3.0, 50.0])
def test_tails_of_the_zero_truncated_poisson_are_sums_of_probabilities(m):
    loss = get_loss("zero_truncated_poisson")
    x = np.arange(1.0, 500.0)
    chance = np.exp(loss.log_likelihood(x, m))
    lower = loss.p_value(x, m, tail="lower")
    upper = loss.p_value(x, m, tail="upper")
    np.testing.assert_allclose(lower, np.cumsum(chance), rtol=1e-8)
    np.testing.assert_allclose(
        upper[:300], np.cumsum(chance[::-1])[::-1][:300], rtol=1e-6, atol=1e-280
    )


@WITH_LIKELIHOOD
def test_p_values_are_never_too_small_and_exact_for_continuous_data(loss):
    rng = np.random.default_rng(5)
    count = 20_000
    for m in models_of(loss)[1:]:
        x = loss.sample(rng, np.full(count, m), scale=scale_of(loss))
        for tail in ("two-sided", "upper", "lower"):
            p = loss.p_value(x, m, tail=tail, scale=scale_of(loss))
            assert np.all((p >= 0.0) & (p <= 1.0))
            for level in (0.01, 0.1, 0.5):
                slack = 4.0 * np.sqrt(level * (1.0 - level) / count)
                share = np.mean(p <= level)
                assert share <= level + slack
                if loss.domain in ("real", "positive"):
                    assert share >= level - slack


def test_two_sided_is_twice_the_smaller_tail_at_most_one():
    loss = get_loss("poisson")
    x = np.arange(30.0)
    lower, upper = (loss.p_value(x, 6.0, tail=tail) for tail in ("lower", "upper"))
    np.testing.assert_array_equal(
        loss.p_value(x, 6.0), np.minimum(1.0, 2.0 * np.minimum(lower, upper))
    )
    assert loss.p_value(6.0, 6.0) == 1.0
    # fractional data lie between two counts: P(X <= 2.5) = P(X <= 2), P(X >= 2.5) = P(X >= 3)
    np.testing.assert_array_equal(loss.p_value(2.5, 6.0, tail="lower"), lower[2])
    np.testing.assert_array_equal(loss.p_value(2.5, 6.0, tail="upper"), upper[3])


def test_an_event_where_none_is_possible_has_p_value_zero_and_its_absence_one():
    for name in ("poisson", "bernoulli_odds", "negative_binomial"):
        np.testing.assert_array_equal(get_loss(name).p_value([0.0, 1.0], [0.0, 0.0]), [1.0, 0.0])
    np.testing.assert_array_equal(
        get_loss("bernoulli_logit").p_value([0, 1, 0, 1], [800, 800, -800, -800]), [0, 1, 1, 0]
    )
    for name in ("gamma", "rayleigh"):
        assert get_loss(name).p_value(1.0, 0.0) == 0.0


def test_gamma_without_a_scale_is_exponential():
    loss = get_loss("gamma")
    x = np.array([0.1, 1.0, 4.0])
    np.testing.assert_allclose(loss.p_value(x, 2.0, tail="upper"), np.exp(-x / 2.0), rtol=1e-9)
    np.testing.assert_allclose(loss.log_likelihood(x, 2.0), -x / 2.0 - np.log(2.0), rtol=1e-9)


def test_losses_without_a_likelihood_have_no_p_value_and_refuse_to_draw():
    own = Loss("poisson", value=lambda x, m: (x - m) ** 2, deriv=lambda x, m: 2 * (m - x))
    for loss in (get_loss("huber"), get_loss("beta"), own):
        assert loss.p_value([1.0], [1.0]) is None
        assert loss.log_likelihood([1.0], [1.0]) is None
        with pytest.raises(DataError, match=r"needs a likelihood, but the loss .* has none"):
            loss.sample(np.random.default_rng(0), [1.0])
    assert get_loss("gaussian").p_value(1.0, 0.0) is None
    assert get_loss("gaussian").log_likelihood(1.0, 0.0) is None


def test_a_wrong_tail_or_scale_is_refused():
    loss = get_loss("gaussian")
    with pytest.raises(DataError, match="tail to be two-sided, upper or lower, but it is 'both'"):
        loss.p_value(1.0, 1.0, tail="both", scale=1.0)
    for scale in (0.0, -1.0, np.nan, np.inf, "wide"):
        with pytest.raises(DataError, match="needs scale to be a positive number"):
            loss.p_value(1.0, 1.0, scale=scale)
        with pytest.raises(DataError, match="needs scale to be a positive number"):
            loss.sample(np.random.default_rng(0), 1.0, scale=scale)


def saturated(loss: Loss, x: np.ndarray) -> np.ndarray:
    """The best model value for each x among many, refined three times."""
    m = np.linspace(-30.0, 60.0, 4001) if loss.lower < 0 else np.linspace(0.0, 60.0, 4001)
    m = np.append(m, 1e12) if loss.name == "bernoulli_odds" else m  # best at infinity for x = 1
    best = m[np.argmin(loss.value(x[:, None], m), axis=1)]
    for width in (0.1, 1e-3, 1e-5):
        near = np.maximum(best[:, None] + np.linspace(-width, width, 401), loss.lower)
        cost = loss.value(x[:, None], near)
        best = near[np.arange(x.size), np.argmin(cost, axis=1)]
    return best


@pytest.mark.parametrize(
    "loss", [*VARIANTS, get_loss("huber"), get_loss("beta"), get_loss("beta", b=3)], ids=repr
)
def test_deviance_is_nonnegative_and_zero_at_the_best_model_value(loss):
    x = data_of(loss)
    m = np.linspace(-5.0 if loss.lower < 0 else 0.0, 50.0, 300)
    assert np.all(loss.deviance(x[:, None], m) >= 0.0)
    np.testing.assert_allclose(loss.deviance(x, saturated(loss, x)), 0.0, atol=1e-7)


def test_every_built_in_loss_has_a_deviance_of_the_usual_size():
    assert all(get_loss(name).minimum is not None for name in LOSS_NAMES)
    # -2 log(likelihood ratio) against the best model value, by the complete log-likelihoods
    for loss in VARIANTS:
        if loss.name == "gaussian":
            continue
        x = data_of(loss)[1:]
        best = saturated(loss, x)
        other = best * 0.8 + 0.1
        ratio = loss.log_likelihood(x, best) - loss.log_likelihood(x, other)
        np.testing.assert_allclose(loss.deviance(x, other), 2.0 * ratio, rtol=1e-5, atol=1e-7)


@pytest.mark.slow  # for the import of scikit-learn
@pytest.mark.parametrize(
    ("loss", "power"),
    [
        (get_loss("gaussian"), 0),
        (get_loss("poisson"), 1),
        (get_loss("gamma"), 2),
        (get_loss("beta", b=0.5), 1.5),
        (get_loss("beta", b=-1.0), 3),
        (get_loss("beta", b=2.0), 0),
    ],
    ids=repr,
)
def test_deviance_is_that_of_scikit_learn(loss, power):
    metrics = pytest.importorskip("sklearn.metrics")
    x, m = np.array([0.4, 1.0, 2.0, 7.0]), np.array([0.5, 3.0, 2.0, 1.5])
    for one, model in zip(x, m, strict=True):
        expected = metrics.mean_tweedie_deviance([one], [model], power=power)
        np.testing.assert_allclose(loss.deviance(one, model), expected, rtol=1e-7, atol=1e-9)


def test_draws_have_the_asked_shape_and_the_same_seed_draws_the_same():
    for loss in VARIANTS:
        m = np.full((3, 1, 2), 0.5)
        first = loss.sample(np.random.default_rng(3), m)
        assert first.shape == m.shape
        assert first.dtype == np.float64
        np.testing.assert_array_equal(first, loss.sample(np.random.default_rng(3), m))
        assert loss.sample(np.random.default_rng(3), 0.5, (2, 5)).shape == (2, 5)
        assert loss.sample(np.random.default_rng(3), 0.5, 0).shape == (0,)
        assert loss.sample(np.random.default_rng(3), np.empty((0, 4))).shape == (0, 4)


def test_draws_at_model_value_zero_are_possible():
    rng = np.random.default_rng(0)
    zeros = np.zeros(50)
    for name, expected in (
        ("poisson", 0.0),
        ("bernoulli_odds", 0.0),
        ("negative_binomial", 0.0),
        ("zero_truncated_poisson", 1.0),
    ):
        np.testing.assert_array_equal(get_loss(name).sample(rng, zeros), expected)


def test_nan_and_infinity_are_in_no_domain():
    values = np.array([np.nan, np.inf, -np.inf, 1.0])
    for domain in ("real", "nonnegative", "positive", "binary", "at_least_one", (0.0, np.inf)):
        np.testing.assert_array_equal(inside(domain, values), [False, False, False, True])
        assert all(describe(domain))


def test_a_domain_is_a_known_word_or_a_pair():
    assert check_domain("binary", "It") == "binary"
    assert check_domain([0, 5], "It") == (0.0, 5.0)
    for wrong in ("counts", (3, 1), (1,), 7, None, "ab", (0, "x")):
        with pytest.raises(DataError, match="It needs domain to be one of real, nonnegative"):
            check_domain(wrong, "It")
