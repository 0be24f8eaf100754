"""The table of built-in losses: one entry each, by name and by the code the kernels know."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from onlinegcp.errors import DataError
from onlinegcp.losses import formulas as f
from onlinegcp.losses.formulas import Numbers
from onlinegcp.losses.record import Formula, Loss


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
        (f.gaussian_value, f.gaussian_deriv),
        (f.gaussian_curvature, f.gaussian_curvature),
        _same, -np.inf, "real", "quadratic"),
    "poisson": _Recipe(
        (f.poisson_value, f.poisson_deriv),
        (f.poisson_curvature, f.poisson_fisher),
        _same, 0.0, "nonnegative", "linear"),
    "poisson_log": _Recipe(
        (f.poisson_log_value, f.poisson_log_deriv),
        (f.poisson_log_curvature, f.poisson_log_curvature),
        lambda m, p: np.exp(np.minimum(m, f.EXPONENT_LIMIT)), -np.inf, "nonnegative", "convex"),
    "bernoulli_odds": _Recipe(
        (f.bernoulli_odds_value, f.bernoulli_odds_deriv),
        (f.bernoulli_odds_curvature, f.bernoulli_odds_fisher),
        lambda m, p: m / (1.0 + m), 0.0, "binary", "concave"),
    "bernoulli_logit": _Recipe(
        (f.bernoulli_logit_value, f.bernoulli_logit_deriv),
        (f.bernoulli_logit_curvature, f.bernoulli_logit_curvature),
        lambda m, p: f.bernoulli_logit_deriv(0.0, m, p), -np.inf, "binary", "convex"),
    "rayleigh": _Recipe(
        (f.rayleigh_value, f.rayleigh_deriv),
        (f.rayleigh_curvature, f.rayleigh_fisher),
        _same, 0.0, "positive", None),
    "gamma": _Recipe(
        (f.gamma_value, f.gamma_deriv),
        (f.gamma_curvature, f.gamma_fisher),
        _same, 0.0, "positive", None),
    "huber": _Recipe(
        (f.huber_value, f.huber_deriv),
        (f.huber_curvature, f.huber_fisher),
        _same, -np.inf, "real", "convex", ("delta", 1.0)),
    "negative_binomial": _Recipe(
        (f.negative_binomial_value, f.negative_binomial_deriv),
        (f.negative_binomial_curvature, f.negative_binomial_fisher),
        lambda m, p: p * m, 0.0, "nonnegative", "concave", ("r", 1.0)),
    "beta": _Recipe(
        (f.beta_value, f.beta_deriv),
        (f.beta_curvature, f.beta_fisher),
        _same, 0.0, "nonnegative", "convex", ("b", 0.5)),
    "zero_truncated_poisson": _Recipe(
        (f.zero_truncated_poisson_value, f.zero_truncated_poisson_deriv),
        (f.zero_truncated_poisson_curvature, f.zero_truncated_poisson_fisher),
        lambda m, p: (m + f.EPS) / -np.expm1(-(m + f.EPS)), 0.0, "at_least_one", None),
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
        upper=f.EXPONENT_LIMIT if name == "poisson_log" else np.inf,
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
