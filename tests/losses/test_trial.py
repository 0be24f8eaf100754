"""What happens to a loss somebody wrote: defaults, and the checks at construction."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.losses import EPS, LOSS_NAMES, Loss, get_loss


def squared(x, m):
    return (x - m) ** 2


def squared_slope(x, m):
    return 2.0 * (m - x)


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_every_built_in_loss_passes_the_trial_as_a_users_loss(name):
    known = get_loss(name)
    own = Loss(
        "own",
        value=known.value,
        deriv=known.deriv,
        curvature=known.curvature,
        fisher=known.fisher,
        mean=known.mean,
        lower=known.lower,
        domain=known.domain,
    )
    assert own.code == -1
    x, m = np.array([1.0, 1.0]), np.array([0.5, 2.0])
    np.testing.assert_array_equal(own.value(x, m), known.value(x, m))
    np.testing.assert_array_equal(own.fisher(x, m), known.fisher(x, m))
    np.testing.assert_array_equal(own.mean(m), known.mean(m))


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_the_curvature_left_out_is_found_by_differences(name):
    known = get_loss(name)
    own = Loss("own", value=known.value, deriv=known.deriv, lower=known.lower, domain=known.domain)
    x, m = np.array([1.0, 1.0, 1.0]), np.array([0.37, 1.9, 4.4])
    np.testing.assert_allclose(own.curvature(x, m), known.curvature(x, m), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        own.fisher(x, m), np.maximum(known.curvature(x, m), 0.0), rtol=1e-6, atol=1e-7
    )
    np.testing.assert_array_equal(own.mean(m), m)


def test_differences_never_step_below_the_bound():
    def deriv(x, m):
        assert np.all(m >= 0.0)
        return 1.0 - x / (m + 1.0)

    own = Loss("own", value=lambda x, m: m - x * np.log(m + 1.0), deriv=deriv, lower=0.0)
    np.testing.assert_allclose(own.curvature(2.0, 0.0), 2.0, rtol=1e-4)


def test_a_wrong_slope_is_refused_with_the_place_where_it_differs():
    # the slope pyttb 1.8.6 ships for the negative binomial: r + 1 in place of r + x
    def value(x, m):
        return (3.0 + x) * np.log1p(m) - x * np.log(m + EPS)

    def deriv(x, m):
        return (3.0 + 1.0) / (1.0 + m) - x / (m + EPS)

    with pytest.raises(
        DataError,
        match=r"'nb' needs deriv to be the slope of value.*at x = 4, m = 0.137.*central differences"
        r".*15 of 20 points differ.*check=False",
    ):
        Loss("nb", value=value, deriv=deriv, lower=0.0, domain="nonnegative")
    Loss("nb", value=value, deriv=deriv, lower=0.0, domain="nonnegative", check=False)


def test_a_wrong_curvature_is_refused():
    with pytest.raises(DataError, match=r"needs curvature to be the slope of deriv.*it is 1 and"):
        Loss("mine", value=squared, deriv=squared_slope, curvature=lambda x, m: 1.0 + 0 * m)


def test_a_kink_does_not_count_as_a_wrong_slope():
    Loss("absolute", value=lambda x, m: np.abs(x - m), deriv=lambda x, m: np.sign(m - x))


def test_an_overflow_is_found_before_any_data():
    with pytest.raises(DataError, match=r"needs value to be finite.*at x = -2.41, m = .* it is"):
        Loss("log", value=lambda x, m: m - x * np.log(m), deriv=lambda x, m: 1.0 - x / m)
    Loss("log", value=lambda x, m: m - x * np.log(m), deriv=lambda x, m: 1.0 - x / m, lower=0.0)


def test_a_negative_fisher_curvature_is_refused():
    with pytest.raises(DataError, match=r"needs fisher to be nonnegative.*it is -1"):
        Loss("mine", value=squared, deriv=squared_slope, fisher=lambda x, m: 0 * m - 1.0)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"value": lambda x, m: np.sum((x - m) ** 2)}, r"value .*returned shape \(\).*Do not sum"),
        ({"deriv": lambda x, m: 2.0}, r"deriv .*returned shape \(\).*c \+ 0 \* m"),
        ({"value": lambda x, m: math.sqrt(m)}, "value .*raised TypeError: only.*whole arrays"),
        ({"value": lambda x: x}, "value .*raised TypeError: .*positional argument"),
        ({"value": 3}, "value .*raised TypeError: 'int' object is not callable"),
        ({"value": lambda x, m: 1j * m}, "value .*real numbers, but it returned type complex128"),
        ({"value": lambda x, m: None}, "value .*real numbers, but it returned type object"),
        ({"mean": lambda m: m[:1]}, r"mean to be a function of one array.*returned shape \(1,\)"),
        ({"minimum": lambda x: 0.0}, r"minimum to be a function of one array.*shape \(\)"),
        ({"fisher": lambda x, m: m.nothing}, "fisher .*raised AttributeError"),
        ({"lower": np.inf}, "lower to be a number below infinity, but it is inf"),
        ({"lower": np.nan}, "but it is nan"),
        ({"lower": "0"}, "but it is '0'"),
        ({"lower": True}, "but it is True"),
        ({"zero_shape": "round"}, "zero_shape to be one of linear, quadratic.*but it is 'round'"),
        ({"domain": "counts"}, "domain to be one of real, nonnegative.*but it is 'counts'"),
        ({"name": ""}, "needs a name"),
        ({"name": 7}, "needs a name of at least one letter, but it is 7"),
    ],
)
def test_parts_that_cannot_work_are_reported_by_name_with_the_reason(parts, message):
    with pytest.raises(DataError, match=message):
        Loss(**{"name": "mine", "value": squared, "deriv": squared_slope, **parts})


def test_a_function_that_fails_later_is_reported_too():
    def value(x, m):
        if m.max() > 100.0:
            raise OverflowError("too big")
        return (x - m) ** 2

    loss = Loss("mine", value=value, deriv=squared_slope)
    with pytest.raises(DataError, match=r"'mine' needs value .*raised OverflowError: too big"):
        loss.value([1.0], [1000.0])


def test_integers_and_booleans_returned_by_a_users_function_become_floats():
    loss = Loss(
        "hinge", value=lambda x, m: np.maximum(m, 0.0), deriv=lambda x, m: m > 0.0, lower=-1.0
    )
    assert loss.deriv([1, 1], [2, -1]).dtype == np.float64
