"""The table of built-in losses: one entry each, by name and by the code the kernels know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from onlinegcp.errors import DataError, closest
from onlinegcp.losses import formulas as f
from onlinegcp.losses import likelihoods as like
from onlinegcp.losses.formulas import Numbers
from onlinegcp.losses.record import Formula, Loss
from onlinegcp.losses.traits import OddsForm, Traits


@dataclass(frozen=True)
class Parameter:
    """The one number a loss may have.

    Attributes
    ----------
    name, default
        As in `get_loss`.
    rule, allowed, advice
        What it must be, in words and as a test, and what to do if it is not ("" for the default).
    fit
        The entry for a value of the parameter, where other things depend on it.
    """

    name: str
    default: float
    rule: str = "a positive finite number"
    allowed: Callable[[float], bool] = lambda number: number > 0.0
    advice: str = ""
    fit: Callable[[Recipe, float], Recipe] = lambda recipe, number: recipe


def _same(m: Numbers, p: float) -> Numbers:
    return 1.0 * m  # a copy: the caller may change what it gets


@dataclass(frozen=True)
class Recipe:
    """Everything there is to say about one built-in loss.

    Attributes
    ----------
    value, deriv, curvature
        Functions of (x, m, p), as in `formulas`.
    fisher
        The same; the curvature where that does not depend on x.
    mean
        Expected datum at a model value: a function of (m, p); the model value itself by default.
    minimum
        Least value of f(x, .): a function of (x, p); zero by default.
    lower, domain, zero_shape, likelihood, traits
        As in `Loss`.
    parameter
        Its parameter, if it has one.
    """

    value: Formula
    deriv: Formula
    curvature: Formula
    lower: float
    domain: str
    zero_shape: str | None
    traits: Traits
    fisher: Formula | None = None
    mean: Callable[[Numbers, float], Numbers] = _same
    minimum: Callable[[Numbers, float], Numbers] = like.best_zero
    likelihood: like.Likelihood | None = None
    parameter: Parameter | None = None

    @property
    def fisher_or_curvature(self) -> Formula:
        return self.curvature if self.fisher is None else self.fisher


def _fit_negative_binomial(recipe: Recipe, r: float) -> Recipe:
    return replace(recipe, traits=replace(recipe.traits, odds_form=OddsForm(False, r, 1.0)))


def _fit_beta(recipe: Recipe, b: float) -> Recipe:
    if b < 0.0:  # f(0, m) is m^b / b, which has no minimum
        return replace(recipe, domain="positive", zero_shape=None)
    shape = "concave" if b < 1.0 else "convex"
    return replace(recipe, zero_shape="quadratic" if b == 2.0 else shape)


# The position in this table is the loss's code in the kernels: append, never reorder.
_RECIPES = {
    "gaussian": Recipe(
        value=f.gaussian_value,
        deriv=f.gaussian_deriv,
        curvature=f.gaussian_curvature,
        lower=-np.inf,
        domain="real",
        zero_shape="quadratic",
        likelihood=like.GAUSSIAN,
        traits=Traits(quadratic=True, tempered=True, deviance_factor=1.0, person=True),
    ),
    "poisson": Recipe(
        value=f.poisson_value,
        deriv=f.poisson_deriv,
        curvature=f.poisson_curvature,
        fisher=f.poisson_fisher,
        minimum=like.best_poisson,
        lower=0.0,
        domain="nonnegative",
        zero_shape="linear",
        likelihood=like.POISSON,
        traits=Traits(
            odds_form=OddsForm(linear=True),
            capped_dispersion=True,
            counts=True,
            person=True,
            usual_weight=12.0,
        ),
    ),
    "poisson_log": Recipe(
        value=f.poisson_log_value,
        deriv=f.poisson_log_deriv,
        curvature=f.poisson_log_curvature,
        mean=lambda m, p: np.exp(np.minimum(m, f.EXPONENT_LIMIT)),
        minimum=like.best_poisson,
        lower=-np.inf,
        domain="nonnegative",
        zero_shape="convex",
        likelihood=like.POISSON_LOG,
        traits=Traits(
            prior_strength=1.0,
            capped_dispersion=True,
            counts=True,
            person=True,
            usual_weight=2.0,
        ),
    ),
    "bernoulli_odds": Recipe(
        value=f.bernoulli_odds_value,
        deriv=f.bernoulli_odds_deriv,
        curvature=f.bernoulli_odds_curvature,
        fisher=f.bernoulli_odds_fisher,
        mean=lambda m, p: m / (1.0 + m),
        lower=0.0,
        domain="binary",
        zero_shape="concave",
        likelihood=like.BERNOULLI_ODDS,
        traits=Traits(
            odds_form=OddsForm(linear=False),
            capped_dispersion=True,
            binary=True,
            person=True,
            usual_weight=1.0,
        ),
    ),
    "bernoulli_logit": Recipe(
        value=f.bernoulli_logit_value,
        deriv=f.bernoulli_logit_deriv,
        curvature=f.bernoulli_logit_curvature,
        mean=lambda m, p: f.bernoulli_logit_deriv(0.0, m, p),
        lower=-np.inf,
        domain="binary",
        zero_shape="convex",
        likelihood=like.BERNOULLI_LOGIT,
        traits=Traits(
            prior_strength=1.0,
            capped_dispersion=True,
            binary=True,
            person=True,
            usual_weight=2.0,
        ),
    ),
    "rayleigh": Recipe(
        value=f.rayleigh_value,
        deriv=f.rayleigh_deriv,
        curvature=f.rayleigh_curvature,
        fisher=f.rayleigh_fisher,
        minimum=like.best_rayleigh,
        lower=0.0,
        domain="positive",
        zero_shape=None,
        likelihood=like.RAYLEIGH,
        traits=Traits(capped_dispersion=True, person=True),
    ),
    "gamma": Recipe(
        value=f.gamma_value,
        deriv=f.gamma_deriv,
        curvature=f.gamma_curvature,
        fisher=f.gamma_fisher,
        minimum=like.best_gamma,
        lower=0.0,
        domain="positive",
        zero_shape=None,
        likelihood=like.GAMMA,
        traits=Traits(capped_dispersion=True),
    ),
    "huber": Recipe(
        value=f.huber_value,
        deriv=f.huber_deriv,
        curvature=f.huber_curvature,
        fisher=f.huber_fisher,
        lower=-np.inf,
        domain="real",
        zero_shape="convex",
        traits=Traits(tempered=True, deviance_factor=1.0, person=True),
        parameter=Parameter("delta", 1.0),
    ),
    "negative_binomial": Recipe(
        value=f.negative_binomial_value,
        deriv=f.negative_binomial_deriv,
        curvature=f.negative_binomial_curvature,
        fisher=f.negative_binomial_fisher,
        mean=lambda m, p: p * m,
        minimum=like.best_negative_binomial,
        lower=0.0,
        domain="nonnegative",
        zero_shape="concave",
        likelihood=like.NEGATIVE_BINOMIAL,
        traits=Traits(
            rows_first=True,  # Fisher scoring beat the conjugate form on every problem it fits
            prior_strength=1.0,  # a finite optimum it has, but it gains by the prior
            capped_dispersion=True,
            counts=True,
            usual_weight=6.0,
        ),
        parameter=Parameter("r", 1.0, fit=_fit_negative_binomial),
    ),
    "beta": Recipe(
        value=f.beta_value,
        deriv=f.beta_deriv,
        curvature=f.beta_curvature,
        fisher=f.beta_fisher,
        minimum=like.best_beta,
        lower=0.0,
        domain="nonnegative",
        zero_shape="convex",
        traits=Traits(capped_dispersion=True),
        parameter=Parameter(
            "b",
            0.5,
            "a finite number other than 0 and 1",
            lambda number: number not in (0.0, 1.0),
            "Use loss='gamma' for b = 0, loss='poisson' for b = 1.",
            _fit_beta,
        ),
    ),
    "zero_truncated_poisson": Recipe(
        value=f.zero_truncated_poisson_value,
        deriv=f.zero_truncated_poisson_deriv,
        curvature=f.zero_truncated_poisson_curvature,
        fisher=f.zero_truncated_poisson_fisher,
        mean=lambda m, p: (m + f.EPS) / -np.expm1(-(m + f.EPS)),
        minimum=like.best_zero_truncated,
        lower=0.0,
        domain="at_least_one",
        zero_shape=None,
        likelihood=like.ZERO_TRUNCATED_POISSON,
        traits=Traits(capped_dispersion=True, counts=True),
    ),
}

LOSS_NAMES = tuple(_RECIPES)
CODES = {name: code for code, name in enumerate(LOSS_NAMES)}
FORMULAS: dict[int, tuple[Formula, Formula]] = {
    code: (_RECIPES[name].value, _RECIPES[name].deriv) for name, code in CODES.items()
}
FISHER: dict[int, Formula] = {
    code: _RECIPES[name].fisher_or_curvature for name, code in CODES.items()
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
            f"A loss is given by its name, with parameters if it has any, or as a Loss alone, but "
            f"{loss!r} came{f' with parameters {parameters}' if parameters else ''}. The names are "
            f"{', '.join(LOSS_NAMES)}."
        )
    if loss not in _RECIPES:
        raise DataError(f"No loss is called {loss!r}.{_suggest(loss, LOSS_NAMES)}")
    wanted = _RECIPES[loss].parameter
    for given in parameters:
        if wanted is None or given != wanted.name:
            known = "takes no parameter" if wanted is None else f"takes the parameter {wanted.name}"
            raise DataError(
                f"The loss {loss!r} {known}, but {given!r} = {parameters[given]!r} was given."
                f"{_suggest(given, (wanted.name,)) if wanted else ' Leave it out.'}"
            )
    if wanted is None:
        return _built_in(loss, 0.0)
    number = parameters.get(wanted.name, wanted.default)
    return _built_in(loss, _check_parameter(loss, wanted, number))


def _suggest(given: str, known: tuple[str, ...]) -> str:
    return f"{closest(given, known)} Choose one of {', '.join(known)}."


def _check_parameter(loss: str, wanted: Parameter, given: object) -> float:
    try:
        number = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and wanted.allowed(number)):
        raise DataError(
            f"The loss {loss!r} needs {wanted.name} to be {wanted.rule}, but it is {given!r}. "
            f"{wanted.advice or f'The default is {wanted.default}.'}"
        )
    return number


@lru_cache(maxsize=128)
def _built_in(name: str, parameter: float) -> Loss:
    recipe = _RECIPES[name]
    wanted = recipe.parameter
    recipe = recipe if wanted is None else wanted.fit(recipe, parameter)
    return Loss._built_in(
        name=name,
        parameters={} if wanted is None else {wanted.name: parameter},
        code=CODES[name],
        formulas=(recipe.value, recipe.deriv, recipe.curvature, recipe.fisher_or_curvature),
        mean=recipe.mean,
        minimum=recipe.minimum,
        lower=recipe.lower,
        domain=recipe.domain,
        zero_shape=recipe.zero_shape,
        likelihood=recipe.likelihood,
        traits=recipe.traits,
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
