"""Losses: the only place that knows the formulas f(x, m) of datum x and model value m.

Each built-in formula is a plain function of (x, m, p), p being the loss's one parameter,
written with arithmetic and NumPy ufuncs only and without branches: called on arrays it is
array code, compiled by the kernels it is scalar code, and there is one copy of it.

Bounded losses evaluate their logarithms and quotients at m + EPS, so that m = 0 is finite.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from onlinegcp.errors import DataError
from onlinegcp.likelihoods import EPS
from onlinegcp.loss_record import Formula, Loss

__all__ = ["CODES", "CURVATURES", "EPS", "FORMULAS", "LOSS_NAMES", "Loss", "from_dict", "get_loss"]

# exp(709.8) overflows, and long before that one cell drowns all others: poisson_log goes on
# as a straight line above this model value.
EXPONENT_LIMIT = 50.0

Numbers: TypeAlias = Any  # arrays here, scalars once compiled


def _gaussian_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    return (x - m) * (x - m)


def _gaussian_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 2.0 * (m - x)


def _gaussian_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 2.0 + 0.0 * m


def _poisson_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    return m - x * np.log(m + EPS)


def _poisson_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 1.0 - x / (m + EPS)


def _poisson_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return x / (m + EPS) / (m + EPS)


def _poisson_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 1.0 / (m + EPS)


def _poisson_log_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    # The second factor is 1 up to the limit and continues the tangent above it, so that
    # value and slope still belong together where the exponent is held.
    held = np.exp(np.minimum(m, EXPONENT_LIMIT))
    return held * (1.0 + np.maximum(m - EXPONENT_LIMIT, 0.0)) - x * m


def _poisson_log_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return np.exp(np.minimum(m, EXPONENT_LIMIT)) - x


def _poisson_log_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    # Above the limit the true second derivative is 0; holding it keeps Newton steps finite.
    return np.exp(np.minimum(m, EXPONENT_LIMIT))


def _bernoulli_odds_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    return np.log1p(m) - x * np.log(m + EPS)


def _bernoulli_odds_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 1.0 / (1.0 + m) - x / (m + EPS)


def _bernoulli_odds_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return x / (m + EPS) / (m + EPS) - 1.0 / (1.0 + m) / (1.0 + m)


def _bernoulli_odds_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 1.0 / (m + EPS) / (1.0 + m) / (1.0 + m)


def _bernoulli_logit_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    # log(1 + e^m) overflows past m = 709, and softplus(m) - m is 0 from m = 37 on.
    return np.maximum(m, 0.0) - x * m + np.log1p(np.exp(-np.abs(m)))


def _bernoulli_logit_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    # exp(80) is the largest round power that float32 holds; 1 / (1 + exp(80)) is 2e-35.
    return 1.0 / (1.0 + np.exp(-np.maximum(m, -80.0))) - x


def _bernoulli_logit_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    tail = np.exp(-np.abs(m))
    return tail / (1.0 + tail) / (1.0 + tail)


def _rayleigh_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    ratio = x / (m + EPS)
    return 2.0 * np.log(m + EPS) + 0.25 * np.pi * ratio * ratio


def _rayleigh_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    ratio = x / (m + EPS)
    return (2.0 - 0.5 * np.pi * ratio * ratio) / (m + EPS)


def _rayleigh_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    ratio = x / (m + EPS)
    return (1.5 * np.pi * ratio * ratio - 2.0) / (m + EPS) / (m + EPS)


def _rayleigh_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 4.0 / (m + EPS) / (m + EPS)


def _gamma_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    return x / (m + EPS) + np.log(m + EPS)


def _gamma_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return (1.0 - x / (m + EPS)) / (m + EPS)


def _gamma_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return (2.0 * x / (m + EPS) - 1.0) / (m + EPS) / (m + EPS)


def _gamma_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 1.0 / (m + EPS) / (m + EPS)


def _huber_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    clipped = np.minimum(np.maximum(x - m, -p), p)
    return clipped * (2.0 * (x - m) - clipped)


def _huber_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return -2.0 * np.minimum(np.maximum(x - m, -p), p)


def _huber_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return 2.0 * (np.abs(x - m) <= p)


def _huber_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    # No likelihood stands behind it: this is the weight of iteratively reweighted least squares.
    return 2.0 * p / np.maximum(np.abs(x - m), p)


def _negative_binomial_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    return (p + x) * np.log1p(m) - x * np.log(m + EPS)


def _negative_binomial_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return (p + x) / (1.0 + m) - x / (m + EPS)


def _negative_binomial_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return x / (m + EPS) / (m + EPS) - (p + x) / (1.0 + m) / (1.0 + m)


def _negative_binomial_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    return p / (m + EPS) / (1.0 + m)


def _beta_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    return np.power(m + EPS, p - 1.0) * ((m + EPS) / p - x / (p - 1.0))


def _beta_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    return np.power(m + EPS, p - 2.0) * (m + EPS - x)


def _beta_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    return np.power(m + EPS, p - 3.0) * ((p - 1.0) * (m + EPS) - (p - 2.0) * x)


def _beta_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    return np.power(m + EPS, p - 2.0)


# P(x) = m^x / (x! (e^m - 1)), so f = log(e^m - 1) - x log m. With y = m + EPS,
# 1 / (e^y - 1) = 1/y - 1/2 + T(y), and the poles 1/y and x/y (1e10 each at m = 0) are
# subtracted on paper. T itself cancels for small y, where its power series is used instead:
# exact(max(y, 1/8)) + series(min(y, 1/8)) - series(1/8) is one or the other without a branch.
def _zero_truncated_poisson_value(x: Numbers, m: Numbers, p: float) -> Numbers:
    y = m + EPS
    return y + np.log(-np.expm1(-y) / y) - (x - 1.0) * np.log(y)


def _zero_truncated_poisson_deriv(x: Numbers, m: Numbers, p: float) -> Numbers:
    y = m + EPS
    large = np.maximum(y, 0.125)
    small = np.minimum(y, 0.125)
    square = small * small
    exact = 1.0 - 1.0 / large - np.exp(-large) / np.expm1(-large)
    series = small * (1 / 12 - square * (1 / 720 - square * (1 / 30240 - square * (1 / 1209600))))
    return exact + (series - 0.010413955001840516) - (x - 1.0) / y


def _zero_truncated_poisson_curvature(x: Numbers, m: Numbers, p: float) -> Numbers:
    y = m + EPS
    large = np.maximum(y, 0.125)
    square = np.minimum(y, 0.125) * np.minimum(y, 0.125)
    shrink = np.expm1(-large)
    exact = 1.0 / large / large - np.exp(-large) / shrink / shrink
    series = 1 / 12 - square * (1 / 240 - square * (1 / 6048 - square * (1 / 172800)))
    return exact + (series - 0.0832682695117577) + (x - 1.0) / y / y


def _zero_truncated_poisson_fisher(x: Numbers, m: Numbers, p: float) -> Numbers:
    # The expected x - 1 is y (1/2 + T(y)), so this is 1/(2y) + T(y)/y + T'(y).
    y = m + EPS
    large = np.maximum(y, 0.125)
    square = np.minimum(y, 0.125) * np.minimum(y, 0.125)
    shrink = np.expm1(-large)
    exact = 0.5 / large - np.exp(-large) / shrink * (1.0 / large + 1.0 / shrink)
    series = 1 / 6 - square * (1 / 180 - square * (1 / 5040 - square * (1 / 151200)))
    return 0.5 / y + exact + (series - 0.16657990952648183)


@dataclass(frozen=True)
class _Recipe:
    """Everything the registry holds about one built-in loss."""

    formulas: tuple[Formula, Formula]
    second: tuple[Formula, Formula]  # observed and expected curvature
    mean: Callable[[Numbers, float], Numbers]
    lower: float
    domain: str
    zero_shape: str | None
    parameter: tuple[str, float] | None = None


def _same(m: Numbers, p: float) -> Numbers:
    return 1.0 * m  # a copy: the caller may change what it gets


# The position in this table is the loss's code in the kernels: append, never reorder.
# fmt: off
_RECIPES = {
    "gaussian": _Recipe(
        (_gaussian_value, _gaussian_deriv), (_gaussian_curvature, _gaussian_curvature),
        _same, -np.inf, "real", "quadratic"),
    "poisson": _Recipe(
        (_poisson_value, _poisson_deriv), (_poisson_curvature, _poisson_fisher),
        _same, 0.0, "nonnegative", "linear"),
    "poisson_log": _Recipe(
        (_poisson_log_value, _poisson_log_deriv), (_poisson_log_curvature, _poisson_log_curvature),
        lambda m, p: np.exp(np.minimum(m, EXPONENT_LIMIT)), -np.inf, "nonnegative", "convex"),
    "bernoulli_odds": _Recipe(
        (_bernoulli_odds_value, _bernoulli_odds_deriv),
        (_bernoulli_odds_curvature, _bernoulli_odds_fisher),
        lambda m, p: m / (1.0 + m), 0.0, "binary", "concave"),
    "bernoulli_logit": _Recipe(
        (_bernoulli_logit_value, _bernoulli_logit_deriv),
        (_bernoulli_logit_curvature, _bernoulli_logit_curvature),
        lambda m, p: _bernoulli_logit_deriv(0.0, m, p), -np.inf, "binary", "convex"),
    "rayleigh": _Recipe(
        (_rayleigh_value, _rayleigh_deriv), (_rayleigh_curvature, _rayleigh_fisher),
        _same, 0.0, "positive", None),
    "gamma": _Recipe(
        (_gamma_value, _gamma_deriv), (_gamma_curvature, _gamma_fisher),
        _same, 0.0, "positive", None),
    "huber": _Recipe(
        (_huber_value, _huber_deriv), (_huber_curvature, _huber_fisher),
        _same, -np.inf, "real", "convex", ("delta", 1.0)),
    "negative_binomial": _Recipe(
        (_negative_binomial_value, _negative_binomial_deriv),
        (_negative_binomial_curvature, _negative_binomial_fisher),
        lambda m, p: p * m, 0.0, "nonnegative", "concave", ("r", 1.0)),
    "beta": _Recipe(
        (_beta_value, _beta_deriv), (_beta_curvature, _beta_fisher),
        _same, 0.0, "nonnegative", "convex", ("b", 0.5)),
    "zero_truncated_poisson": _Recipe(
        (_zero_truncated_poisson_value, _zero_truncated_poisson_deriv),
        (_zero_truncated_poisson_curvature, _zero_truncated_poisson_fisher),
        lambda m, p: (m + EPS) / -np.expm1(-(m + EPS)), 0.0, "at_least_one", None),
}
# fmt: on

LOSS_NAMES = tuple(_RECIPES)
CODES = {name: code for code, name in enumerate(LOSS_NAMES)}
FORMULAS: dict[int, tuple[Formula, Formula]] = {
    code: _RECIPES[name].formulas for name, code in CODES.items()
}
CURVATURES: dict[int, tuple[Formula, Formula]] = {
    code: _RECIPES[name].second for name, code in CODES.items()
}


def get_loss(loss: str | Loss, **parameters: float) -> Loss:
    """Return the built-in loss of that name; a `Loss` is returned as it is.

    Parameters
    ----------
    loss
        One of `LOSS_NAMES`, or a `Loss`.
    **parameters
        ``delta > 0`` for huber (default 1), ``r > 0`` for negative_binomial (default 1), ``b``
        other than 0 and 1 for beta (default 0.5).

    Examples
    --------
    >>> get_loss("poisson").value([2.0, 0.0], [1.0, 3.0])
    array([1., 3.])
    >>> get_loss("negative_binomial", r=3)
    negative_binomial(r=3.0)
    """
    if isinstance(loss, Loss) and not parameters:
        return loss
    if not isinstance(loss, str):
        raise DataError(
            f"A loss is given by its name, with parameters if it has any, or as a Loss alone, but"
            f" {loss!r} came with parameters {parameters}. The names are {', '.join(LOSS_NAMES)}."
        )
    if loss not in _RECIPES:
        raise DataError(f"No loss is called {loss!r}.{_suggest(loss, LOSS_NAMES)}")
    wanted = _RECIPES[loss].parameter
    for given in parameters:
        if wanted is None or given != wanted[0]:
            known = "takes no parameter" if wanted is None else f"takes the parameter {wanted[0]}"
            raise DataError(
                f"The loss {loss!r} {known}, but {given!r} = {parameters[given]!r} was given."
                f"{_suggest(given, wanted[:1]) if wanted else ' Leave it out.'}"
            )
    if wanted is None:
        return _built_in(loss, 0.0)
    return _built_in(loss, _check_parameter(loss, wanted[0], parameters.get(*wanted)))


def _suggest(given: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(given.lower(), known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{hint} Choose one of {', '.join(known)}."


def _check_parameter(loss: str, name: str, given: object) -> float:
    rule = "a finite number other than 0 and 1" if loss == "beta" else "a positive finite number"
    advice = f"The default is {_RECIPES[loss].parameter[1]}."  # type: ignore[index]
    if loss == "beta":
        advice = "Use loss='gamma' for b = 0, loss='poisson' for b = 1."
    try:
        number = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number) or (number in (0.0, 1.0) if loss == "beta" else number <= 0.0):
        raise DataError(
            f"The loss {loss!r} needs {name} to be {rule}, but it is {given!r}. {advice}"
        )
    return number


@lru_cache(maxsize=128)
def _built_in(name: str, parameter: float) -> Loss:
    recipe = _RECIPES[name]
    domain, zero_shape = recipe.domain, recipe.zero_shape
    if name == "beta":  # f(0, m) is m^b / b, which has no minimum for b < 0
        zero_shape = "concave" if parameter < 1.0 else "convex"
        zero_shape = "quadratic" if parameter == 2.0 else zero_shape
        domain, zero_shape = ("positive", None) if parameter < 0.0 else (domain, zero_shape)
    return Loss._built_in(
        name=name,
        parameters={} if recipe.parameter is None else {recipe.parameter[0]: parameter},
        code=CODES[name],
        formulas=(*recipe.formulas, *recipe.second),
        mean=recipe.mean,
        lower=recipe.lower,
        upper=EXPONENT_LIMIT if name == "poisson_log" else np.inf,
        domain=domain,
        zero_shape=zero_shape,
        rebuild=get_loss,
    )


def from_dict(record: Mapping[str, Any]) -> Loss:
    """Rebuild a built-in loss from `Loss.to_dict`, as a checkpoint holds it."""
    try:
        name, parameters = record["name"], dict(record["parameters"])
    except (KeyError, TypeError, ValueError) as failure:
        raise DataError(
            f"A stored loss needs the keys 'name' and 'parameters', but the record is {record!r}."
            " Write it with Loss.to_dict()."
        ) from failure
    return get_loss(name, **parameters)
