"""What a loss says about data beyond its value: domain, deviance, p-value and random draws.

f drops every term in x alone. The functions here put those terms back, loss by loss; they
take arrays (x data, m model values, p the loss's parameter) and are reached through `Loss`.
`scale` is the noise a loss leaves free: the standard deviation for gaussian, the standard
deviation over the mean for gamma (1, the default, is the exponential distribution).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinegcp.errors import DataError
from onlinegcp.losses.formulas import EPS, EXPONENT_LIMIT

FloatArray: TypeAlias = NDArray[np.float64]
Tails: TypeAlias = tuple[Any, Any]
SampleSize: TypeAlias = int | tuple[int, ...] | None
Domain: TypeAlias = str | tuple[float, float]


# What each kind of data is called, and what to do about an entry that does not belong.
_DOMAINS = {
    "real": ("finite data", "Leave the cell out, or make it NaN in a dense array: it is missing."),
    "nonnegative": (
        "data >= 0",
        "Use loss='gaussian' for signed data, or clip the values before fitting.",
    ),
    "positive": (
        "data > 0",
        "Use loss='gaussian' (or 'poisson' for counts) if the value is right; build the slice"
        " with unlisted='missing' if it stands for a cell without observation.",
    ),
    "binary": (
        "data that is 0 or 1",
        "Use loss='poisson' for counts, or pass values > 0 to keep only whether there were any.",
    ),
    "at_least_one": (
        "data >= 1",
        "Use loss='poisson' if counts below one are right; build the slice with"
        " unlisted='missing' if they stand for cells without observation.",
    ),
}


def inside(domain: Domain, values: FloatArray) -> NDArray[np.bool_]:
    """Say for each value whether it belongs to the domain; NaN and infinity never do."""
    finite = np.isfinite(values)
    if not isinstance(domain, str):
        return finite & (values >= domain[0]) & (values <= domain[1])
    if domain == "real":
        return finite
    if domain == "nonnegative":
        return finite & (values >= 0.0)
    if domain == "positive":
        return finite & (values > 0.0)
    if domain == "at_least_one":
        return finite & (values >= 1.0)
    binary: NDArray[np.bool_] = finite & ((values == 0.0) | (values == 1.0))
    return binary


def describe(domain: Domain) -> tuple[str, str]:
    """Name a domain in words and say what to do about data outside it."""
    if isinstance(domain, str):
        return _DOMAINS[domain]
    return (
        f"data in [{domain[0]:g}, {domain[1]:g}]",
        "Choose a loss that admits the value, or clip the values before fitting.",
    )


def check_domain(domain: Any, owner: str) -> Domain:
    """Return the domain a user gave, or say which ones exist."""
    if isinstance(domain, str) and domain in _DOMAINS:
        return domain
    try:
        low, high = (float(bound) for bound in domain)
        usable = not isinstance(domain, str) and low < high
    except (TypeError, ValueError):
        usable = False
    if usable:
        return low, high
    raise DataError(
        f"{owner} needs domain to be one of {', '.join(_DOMAINS)} or a pair (low, high) with"
        f" low < high, but it is {domain!r}. Leave it out if any finite number is allowed."
    )


@dataclass(frozen=True)
class Likelihood:
    """The distribution behind a loss.

    Parameters
    ----------
    tails
        (x, m, p, scale) to the probabilities P(X <= x) and P(X >= x).
    terms
        (x, p, scale) to (a, h): the log-likelihood is h(x) - a f(x, m).
    draw
        (rng, m, p, scale, size) to data of mean `Loss.mean(m)`.
    needs_scale
        Whether tails and terms mean nothing until a scale is given.
    """

    tails: Callable[[Any, Any, float, float], Tails]
    terms: Callable[[Any, float, float], tuple[float, Any]]
    draw: Callable[[np.random.Generator, Any, float, float, SampleSize], Any]
    needs_scale: bool = False


def check_scale(scale: float | None, owner: str) -> float:
    """Return the scale as a positive number, 1 when it is not given."""
    if scale is None:
        return 1.0
    try:
        number = float(scale)
    except (TypeError, ValueError):
        number = np.nan
    if not 0.0 < number < np.inf:
        raise DataError(
            f"{owner} needs scale to be a positive number, but it is {scale!r}."
            " Give the standard deviation for gaussian, sd / mean for gamma."
        )
    return number


def two_sided(lower: ArrayLike, upper: ArrayLike) -> FloatArray:
    """Twice the smaller tail, at most 1: valid for discrete data, where both tails hold x."""
    return np.asarray(np.minimum(1.0, 2.0 * np.minimum(lower, upper)))


def _gaussian_tails(x: Any, m: Any, p: float, scale: float) -> Tails:
    from scipy.special import ndtr

    u = (x - m) / scale
    return ndtr(u), ndtr(-u)


def _poisson_tails(x: Any, m: Any, p: float, scale: float) -> Tails:
    from scipy.special import gammainc, gammaincc

    # P(X >= 0) is 1, also at m = 0, where gammainc(0, 0) is NaN.
    count = np.ceil(x)
    upper = np.where(count > 0.0, gammainc(np.maximum(count, 1.0), m), 1.0)
    return gammaincc(np.floor(x) + 1.0, m), upper


def _poisson_log_tails(x: Any, m: Any, p: float, scale: float) -> Tails:
    return _poisson_tails(x, np.exp(np.minimum(m, EXPONENT_LIMIT)), p, scale)


def _odds_tails(x: Any, m: Any, p: float, scale: float) -> Tails:
    one = x > 0.0
    return np.where(one, 1.0, 1.0 / (1.0 + m)), np.where(one, m / (1.0 + m), 1.0)


def _logit_tails(x: Any, m: Any, p: float, scale: float) -> Tails:
    from scipy.special import expit

    one = x > 0.0
    return np.where(one, 1.0, expit(-m)), np.where(one, expit(m), 1.0)


def _rayleigh_tails(x: Any, m: Any, p: float, scale: float) -> Tails:
    exponent = -0.25 * np.pi * (x / (m + EPS)) ** 2
    return -np.expm1(exponent), np.exp(exponent)


def _gamma_tails(x: Any, m: Any, p: float, scale: float) -> Tails:
    from scipy.special import gammainc, gammaincc

    shape = scale**-2.0
    return gammainc(shape, shape * x / (m + EPS)), gammaincc(shape, shape * x / (m + EPS))


def _negative_binomial_tails(x: Any, m: Any, p: float, scale: float) -> Tails:
    from scipy.special import betainc

    count = np.ceil(x)
    upper = betainc(np.maximum(count, 1.0), p, m / (1.0 + m))
    return betainc(p, np.floor(x) + 1.0, 1.0 / (1.0 + m)), np.where(count > 0.0, upper, 1.0)


def _zero_truncated_poisson_tails(x: Any, m: Any, p: float, scale: float) -> Tails:
    from scipy.special import gammainc, gammaincc

    y = m + EPS
    positive = -np.expm1(-y)
    above = gammainc(np.floor(x) + 1.0, y) / positive
    below = (gammaincc(np.floor(x) + 1.0, y) - np.exp(-y)) / positive
    # Each form cancels where the other does not: the second at y = 1e-10, the first at y = 50.
    lower = np.where(y < 1.0, 1.0 - above, below)
    return np.clip(lower, 0.0, 1.0), np.minimum(gammainc(np.ceil(x), y) / positive, 1.0)


def _gaussian_terms(x: Any, p: float, scale: float) -> tuple[float, Any]:
    return 0.5 / scale**2, -np.log(scale) - 0.5 * np.log(2.0 * np.pi) + 0.0 * x


def _count_terms(x: Any, p: float, scale: float) -> tuple[float, Any]:
    from scipy.special import gammaln

    return 1.0, -gammaln(x + 1.0)


def _bernoulli_terms(x: Any, p: float, scale: float) -> tuple[float, Any]:
    return 1.0, 0.0 * x


def _rayleigh_terms(x: Any, p: float, scale: float) -> tuple[float, Any]:
    return 1.0, np.log(0.5 * np.pi * x)


def _gamma_terms(x: Any, p: float, scale: float) -> tuple[float, Any]:
    from scipy.special import gammaln

    shape = scale**-2.0
    return shape, shape * np.log(shape) + (shape - 1.0) * np.log(x) - gammaln(shape)


def _negative_binomial_terms(x: Any, p: float, scale: float) -> tuple[float, Any]:
    from scipy.special import gammaln

    return 1.0, gammaln(x + p) - gammaln(p) - gammaln(x + 1.0)


def _draw_zero_truncated(
    rng: np.random.Generator, m: Any, p: float, scale: float, size: SampleSize
) -> Any:
    # The first event of a Poisson process on [0, m], given that there is one, then the rest.
    rate = m + EPS
    uniform = rng.random(np.shape(rate) if size is None else size)
    first = -np.log1p(uniform * np.expm1(-rate))
    return 1.0 + rng.poisson(np.maximum(rate - first, 0.0))


def _draw_bernoulli(rng: np.random.Generator, chance: Any, size: SampleSize) -> Any:
    return rng.random(np.shape(chance) if size is None else size) < chance


GAUSSIAN = Likelihood(
    _gaussian_tails,
    _gaussian_terms,
    lambda rng, m, p, scale, size: rng.normal(m, scale, size),
    needs_scale=True,
)
POISSON = Likelihood(
    _poisson_tails, _count_terms, lambda rng, m, p, scale, size: rng.poisson(m, size)
)
POISSON_LOG = Likelihood(
    _poisson_log_tails,
    _count_terms,
    lambda rng, m, p, scale, size: rng.poisson(np.exp(m), size),
)
BERNOULLI_ODDS = Likelihood(
    _odds_tails,
    _bernoulli_terms,
    lambda rng, m, p, scale, size: _draw_bernoulli(rng, m / (1.0 + m), size),
)
BERNOULLI_LOGIT = Likelihood(
    _logit_tails,
    _bernoulli_terms,
    lambda rng, m, p, scale, size: _draw_bernoulli(rng, 0.5 + 0.5 * np.tanh(0.5 * m), size),
)
RAYLEIGH = Likelihood(
    _rayleigh_tails,
    _rayleigh_terms,
    lambda rng, m, p, scale, size: rng.rayleigh(m * np.sqrt(2.0 / np.pi), size),
)
GAMMA = Likelihood(
    _gamma_tails,
    _gamma_terms,
    lambda rng, m, p, scale, size: rng.gamma(scale**-2.0, m * scale**2.0, size),
)
NEGATIVE_BINOMIAL = Likelihood(
    _negative_binomial_tails,
    _negative_binomial_terms,
    # A gamma-distributed Poisson rate; numpy's own sampler refuses m = 0.
    lambda rng, m, p, scale, size: rng.poisson(rng.gamma(p, m, size)),
)
ZERO_TRUNCATED_POISSON = Likelihood(
    _zero_truncated_poisson_tails, _count_terms, _draw_zero_truncated
)


# The least value f(x, .) has, at the model value that explains x best.


def best_zero(x: Any, p: float) -> Any:
    """Nothing: a model value that explains x completely costs nothing."""
    return 0.0 * x


def best_poisson(x: Any, p: float) -> Any:
    """x - x log x."""
    return x - _log_of_own(x, x)


def best_rayleigh(x: Any, p: float) -> Any:
    """2 log x + log(pi / 4) + 1."""
    return 2.0 * np.log(x) + np.log(0.25 * np.pi) + 1.0


def best_gamma(x: Any, p: float) -> Any:
    """1 + log x."""
    return 1.0 + np.log(x)


def _log_of_own(x: Any, factor: Any) -> Any:
    # x log(factor), 0 where x is 0 whatever the factor: the limit of the saturated model.
    return x * np.log(np.where(x > 0.0, factor, 1.0))


def best_negative_binomial(x: Any, p: float) -> Any:
    """f at m = x / p."""
    return (p + x) * np.log1p(x / p) - _log_of_own(x, x / p)


def best_beta(x: Any, p: float) -> Any:
    """f at m = x."""
    # At x = 0 the best model value is 0, where f is not 0 but EPS^p / p (1 for p = 0.1).
    y = np.maximum(x, EPS)
    return np.power(y, p - 1.0) * (y / p - x / (p - 1.0))


def best_zero_truncated(x: Any, p: float) -> Any:
    """f at the rate whose truncated mean is x; 0 at x = 1, where f tends to 0."""
    from scipy.special import lambertw

    rate = np.maximum(x + np.real(lambertw(-x * np.exp(-x))), 0.0)
    y = rate + EPS
    return np.where(x > 1.0, y + np.log(-np.expm1(-y) / y) - (x - 1.0) * np.log(y), 0.0)
