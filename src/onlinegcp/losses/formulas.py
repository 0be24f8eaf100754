"""The formulas f(x, m) of datum x and model value m, with their slopes and curvatures.

Each is a plain function of (x, m, p), p being the loss's one parameter, written with arithmetic
and NumPy ufuncs only and without branches: called on arrays it is array code, compiled by the
kernels it is scalar code, and there is one copy of it.

Bounded losses evaluate their logarithms and quotients at m + EPS, so that m = 0 is finite.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

EPS = 1e-10  # added to m in logarithms and quotients of bounded losses

# exp(709.8) overflows, and long before that one cell drowns all others: poisson_log goes on
# as a straight line above this model value.
EXPONENT_LIMIT = 50.0

Numbers: TypeAlias = Any  # arrays here, scalars once compiled


def gaussian_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    return (x - m) * (x - m)


def gaussian_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 2.0 * (m - x)


def gaussian_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 2.0 + 0.0 * m


def poisson_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    return m - x * np.log(m + EPS)


def poisson_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 1.0 - x / (m + EPS)


def poisson_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return x / (m + EPS) / (m + EPS)


def poisson_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 1.0 / (m + EPS)


def poisson_log_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    # The second factor is 1 up to the limit and continues the tangent above it, so that
    # value and slope still belong together where the exponent is held.
    held = np.exp(np.minimum(m, EXPONENT_LIMIT))
    return held * (1.0 + np.maximum(m - EXPONENT_LIMIT, 0.0)) - x * m


def poisson_log_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return np.exp(np.minimum(m, EXPONENT_LIMIT)) - x


def poisson_log_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    # Above the limit the true second derivative is 0; holding it keeps Newton steps finite.
    return np.exp(np.minimum(m, EXPONENT_LIMIT))


def bernoulli_odds_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    return np.log1p(m) - x * np.log(m + EPS)


def bernoulli_odds_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 1.0 / (1.0 + m) - x / (m + EPS)


def bernoulli_odds_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return x / (m + EPS) / (m + EPS) - 1.0 / (1.0 + m) / (1.0 + m)


def bernoulli_odds_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 1.0 / (m + EPS) / (1.0 + m) / (1.0 + m)


def bernoulli_logit_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    # log(1 + e^m) overflows past m = 709, and softplus(m) - m is 0 from m = 37 on.
    return np.maximum(m, 0.0) - x * m + np.log1p(np.exp(-np.abs(m)))


def bernoulli_logit_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    # exp(80) is the largest round power that float32 holds; 1 / (1 + exp(80)) is 2e-35.
    return 1.0 / (1.0 + np.exp(-np.maximum(m, -80.0))) - x


def bernoulli_logit_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    tail = np.exp(-np.abs(m))
    return tail / (1.0 + tail) / (1.0 + tail)


def rayleigh_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    ratio = x / (m + EPS)
    return 2.0 * np.log(m + EPS) + 0.25 * np.pi * ratio * ratio


def rayleigh_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    ratio = x / (m + EPS)
    return (2.0 - 0.5 * np.pi * ratio * ratio) / (m + EPS)


def rayleigh_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    ratio = x / (m + EPS)
    return (1.5 * np.pi * ratio * ratio - 2.0) / (m + EPS) / (m + EPS)


def rayleigh_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 4.0 / (m + EPS) / (m + EPS)


def gamma_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    return x / (m + EPS) + np.log(m + EPS)


def gamma_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return (1.0 - x / (m + EPS)) / (m + EPS)


def gamma_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return (2.0 * x / (m + EPS) - 1.0) / (m + EPS) / (m + EPS)


def gamma_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 1.0 / (m + EPS) / (m + EPS)


def huber_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    clipped = np.minimum(np.maximum(x - m, -p), p)
    return clipped * (2.0 * (x - m) - clipped)


def huber_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return -2.0 * np.minimum(np.maximum(x - m, -p), p)


def huber_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 2.0 * (np.abs(x - m) <= p)


def huber_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    # No likelihood stands behind it: this is the weight of iteratively reweighted least squares.
    return 2.0 * p / np.maximum(np.abs(x - m), p)


def negative_binomial_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    return (p + x) * np.log1p(m) - x * np.log(m + EPS)


def negative_binomial_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return (p + x) / (1.0 + m) - x / (m + EPS)


def negative_binomial_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return x / (m + EPS) / (m + EPS) - (p + x) / (1.0 + m) / (1.0 + m)


def negative_binomial_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    return p / (m + EPS) / (1.0 + m)


def beta_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    return np.power(m + EPS, p - 1.0) * ((m + EPS) / p - x / (p - 1.0))


def beta_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return np.power(m + EPS, p - 2.0) * (m + EPS - x)


def beta_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return np.power(m + EPS, p - 3.0) * ((p - 1.0) * (m + EPS) - (p - 2.0) * x)


def beta_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    return np.power(m + EPS, p - 2.0)


# P(x) = m^x / (x! (e^m - 1)), so f = log(e^m - 1) - x log m. With y = m + EPS,
# 1 / (e^y - 1) = 1/y - 1/2 + T(y), and the poles 1/y and x/y (1e10 each at m = 0) are
# subtracted on paper. T itself cancels for small y, where its power series is used instead:
# exact(max(y, 1/8)) + series(min(y, 1/8)) - series(1/8) is one or the other without a branch.
def zero_truncated_poisson_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    y = m + EPS
    return y + np.log(-np.expm1(-y) / y) - (x - 1.0) * np.log(y)


def zero_truncated_poisson_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    y = m + EPS
    large = np.maximum(y, 0.125)
    small = np.minimum(y, 0.125)
    square = small * small
    exact = 1.0 - 1.0 / large - np.exp(-large) / np.expm1(-large)
    series = small * (1 / 12 - square * (1 / 720 - square * (1 / 30240 - square * (1 / 1209600))))
    return exact + (series - 0.010413955001840516) - (x - 1.0) / y


def zero_truncated_poisson_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    y = m + EPS
    large = np.maximum(y, 0.125)
    square = np.minimum(y, 0.125) * np.minimum(y, 0.125)
    shrink = np.expm1(-large)
    exact = 1.0 / large / large - np.exp(-large) / shrink / shrink
    series = 1 / 12 - square * (1 / 240 - square * (1 / 6048 - square * (1 / 172800)))
    return exact + (series - 0.0832682695117577) + (x - 1.0) / y / y


def zero_truncated_poisson_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    # The expected x - 1 is y (1/2 + T(y)), so this is 1/(2y) + T(y)/y + T'(y).
    y = m + EPS
    large = np.maximum(y, 0.125)
    square = np.minimum(y, 0.125) * np.minimum(y, 0.125)
    shrink = np.expm1(-large)
    exact = 0.5 / large - np.exp(-large) / shrink * (1.0 / large + 1.0 / shrink)
    series = 1 / 6 - square * (1 / 180 - square * (1 / 5040 - square * (1 / 151200)))
    return 0.5 / y + exact + (series - 0.16657990952648183)
