"""The record of one loss: what solvers, kernels and users ask of it, built in or their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from onlinegcp.errors import DataError, StateError
from onlinegcp.losses import likelihoods
from onlinegcp.losses.formulas import EPS
from onlinegcp.losses.likelihoods import Domain, FloatArray, Likelihood, SampleSize
from onlinegcp.losses.traits import Traits
from onlinegcp.losses.trial import ArrayFunction, CutAtZero, Difference, Guarded, as_float, try_out

Formula: TypeAlias = Callable[[Any, Any, float], Any]
MeanFunction: TypeAlias = Callable[[ArrayLike], FloatArray]

ZERO_SHAPES = ("linear", "quadratic", "concave", "convex", "unknown")


@final
class Loss:
    """What a model value m costs when the datum is x, and everything derived from it.

    Built-in losses come from `get_loss`. Your own needs value and deriv; both are functions
    of two arrays of one shape that return an array of that shape. deriv (and curvature, if
    given) is compared with central differences once, here.

    Parameters
    ----------
    name
        What messages and records call it.
    value
        f(x, m).
    deriv
        The slope of f in m.
    lower
        Smallest model value allowed: 0 for a rate, -inf (the default) for no bound.
    curvature
        Second derivative of f in m; central differences of deriv if left out.
    fisher
        Nonnegative curvature for Newton steps; the curvature, cut at 0, if left out.
    mean
        Function of m that gives the expected datum; m itself if left out.
    minimum
        Function of x that gives the smallest value f(x, .) has; needed by `deviance` only.
    likelihood
        The distribution of the data (its functions get p = 0); needed by `log_likelihood`,
        `p_value` and `sample`.
    traits
        What is special about it, which solvers and scores make use of; see `Traits`. What you say
        here is believed, not checked.
    domain
        Data allowed: "real", "nonnegative", "positive", "binary", "at_least_one" or (low, high).
    zero_shape
        Shape of f(0, m) in m: "linear", "quadratic", "concave", "convex" or "unknown".
    check
        False skips the comparison with central differences, for a slope that is off on purpose.

    Attributes
    ----------
    value, deriv, curvature, fisher
        Functions of the arrays (x, m). fisher is the expectation of the curvature over x (for
        huber, which has no likelihood, the weight of reweighted least squares).
    mean
        Function of the array m.
    minimum
        Function of the array x, the smallest value of f(x, .); None if it is not known.
    likelihood, traits
        As above.
    code, parameter
        What the kernels know a built-in loss by; code is -1 for your own.
    parameters
        The parameter by name, as given to `get_loss`.
    zero_shape
        As above, None where x = 0 is outside the domain. Only "linear" and "quadratic" sums
        over unlisted zeros are exact without visiting the cells.
    eps
        Added to m in logarithms and quotients, so that m = 0 is finite.

    Examples
    --------
    >>> import numpy as np
    >>> loss = Loss(
    ...     name="log_cosh",
    ...     value=lambda x, m: np.log(np.cosh(m - x)),
    ...     deriv=lambda x, m: np.tanh(m - x),
    ... )
    >>> loss.deriv([0.0, 1.0], [0.0, 1.0])
    array([0., 0.])
    """

    name: str
    value: ArrayFunction
    deriv: ArrayFunction
    curvature: ArrayFunction
    fisher: ArrayFunction
    mean: MeanFunction
    lower: float
    domain: Domain
    zero_shape: str | None
    code: int
    parameter: float
    parameters: Mapping[str, float]
    eps: ClassVar[float] = EPS
    minimum: MeanFunction | None
    likelihood: Likelihood | None
    traits: Traits
    _rebuild: Callable[..., Loss] | None

    def __init__(
        self,
        name: str,
        *,
        value: Callable[[Any, Any], Any],
        deriv: Callable[[Any, Any], Any],
        lower: float = -np.inf,
        curvature: Callable[[Any, Any], Any] | None = None,
        fisher: Callable[[Any, Any], Any] | None = None,
        mean: Callable[[Any], Any] | None = None,
        minimum: Callable[[Any], Any] | None = None,
        likelihood: Likelihood | None = None,
        traits: Traits | None = None,
        domain: Domain = "real",
        zero_shape: str = "unknown",
        check: bool = True,
    ) -> None:
        owner = f"The loss {name!r}"
        if not isinstance(name, str) or not name:
            raise DataError(f"A loss needs a name of at least one letter, but it is {name!r}.")
        domain = likelihoods.check_domain(domain, owner)
        if zero_shape not in ZERO_SHAPES:
            raise DataError(
                f"{owner} needs zero_shape to be one of {', '.join(ZERO_SHAPES)}, but it is"
                f" {zero_shape!r}. Leave it out if you do not know."
            )
        if isinstance(lower, bool) or not isinstance(lower, int | float) or not lower < np.inf:
            raise DataError(
                f"{owner} needs lower to be a number below infinity, but it is {lower!r}."
                " Leave it out if model values may be anything."
            )
        for what, given, kind in (
            ("likelihood", likelihood, Likelihood),
            ("traits", traits, Traits),
        ):
            if not (given is None or isinstance(given, kind)):
                raise DataError(
                    f"{owner} needs {what} to be a {kind.__name__}, but it is {given!r}."
                    " Leave it out if you do not know."
                )
        slope = Guarded(name, "deriv", deriv)
        bend = (
            Guarded(name, "curvature", curvature)
            if curvature is not None
            else Difference(slope, lower)
        )
        zero_allowed = bool(likelihoods.inside(domain, np.zeros(1))[0])
        self._store(
            name=name,
            value=Guarded(name, "value", value),
            deriv=slope,
            curvature=bend,
            fisher=Guarded(name, "fisher", fisher) if fisher is not None else CutAtZero(bend),
            mean=Guarded(name, "mean", mean) if mean is not None else np.positive,
            lower=float(lower),
            domain=domain,
            zero_shape=zero_shape if zero_allowed else None,
            code=-1,
            parameter=0.0,
            parameters={},
            minimum=Guarded(name, "minimum", minimum) if minimum is not None else None,
            likelihood=likelihood,
            traits=_cautious(float(lower)) if traits is None else traits,
            _rebuild=None,
        )
        try_out(self, slopes=check, curvature=check and curvature is not None)

    @classmethod
    def _built_in(
        cls,
        *,
        formulas: tuple[Formula, Formula, Formula, Formula],
        mean: Callable[[Any, float], Any],
        minimum: Callable[[Any, float], Any],
        rebuild: Callable[..., Loss],
        **fields: Any,
    ) -> Loss:
        """Make a loss from trusted parts, without the checks a user's functions get."""
        loss = object.__new__(cls)
        parameter = next(iter(fields["parameters"].values()), 0.0)
        roles = ("value", "deriv", "curvature", "fisher")
        functions = {
            role: _Bound(formula, parameter) for role, formula in zip(roles, formulas, strict=True)
        }
        loss._store(
            **functions,
            **fields,
            mean=_BoundMean(mean, parameter),
            parameter=parameter,
            minimum=_BoundMean(minimum, parameter),
            _rebuild=rebuild,
        )
        return loss

    def _store(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise StateError(
            f"A loss is read-only, but {name} = {value!r} was assigned to {self!r}."
            " Build another with get_loss or Loss."
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise StateError(f"A loss is read-only, but {name} was deleted from {self!r}. Keep it.")

    def __repr__(self) -> str:
        inside = ", ".join(f"{key}={number!r}" for key, number in self.parameters.items())
        if self._rebuild is None:
            return f"Loss({self.name!r})"
        return f"{self.name}({inside})" if inside else self.name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Loss) or self._rebuild is None or other._rebuild is None:
            return self is other
        return (self.name, self.parameter) == (other.name, other.parameter)

    def __hash__(self) -> int:
        return hash((self.name, self.parameter))

    def __reduce__(self) -> tuple[Any, ...]:
        if self._rebuild is None:
            return _restore, (dict(self.__dict__),)
        return _rebuild, (self._rebuild, self.name, dict(self.parameters))

    def __copy__(self) -> Loss:
        return self

    def __deepcopy__(self, memo: object) -> Loss:
        return self

    def to_dict(self) -> dict[str, Any]:
        """Describe a built-in loss by name and parameters, for `losses.from_dict`."""
        if self._rebuild is None:
            raise DataError(
                f"Only built-in losses can be written down, but {self.name!r} was made from"
                " functions. Store its name yourself and pass the same Loss when you resume."
            )
        return {"name": self.name, "parameters": dict(self.parameters)}

    @property
    def mean_slope(self) -> float | None:
        """What data a model value of one means, where they are multiples of it; None elsewhere."""
        zero, one, three = (float(self.mean(np.array(m))) for m in (0.0, 1.0, 3.0))
        return one if zero == 0.0 and np.isclose(three, 3.0 * one) else None

    @property
    def unlisted_zeros_allowed(self) -> bool:
        """Whether x = 0 is in the domain, so that unlisted cells may mean zero."""
        return self.zero_shape is not None

    def check(
        self, values: ArrayLike, index: ArrayLike | None = None, *, unlisted_zeros: int = 0
    ) -> None:
        """Refuse data outside the domain, naming the first entry that does not belong.

        Parameters
        ----------
        values
            The data, of any shape.
        index
            (n, d) positions of the n values in their tensor, for the message.
        unlisted_zeros
            Number of cells that are not listed and mean zero (`Slice.n_unlisted_zeros`).
        """
        needed, advice = likelihoods.describe(self.domain)
        data = np.asarray(values)
        if data.dtype.kind not in "fiub":
            raise DataError(
                f"The loss {self.name!r} needs {needed}, but the values have type {data.dtype}."
                " Convert them to real numbers first."
            )
        data = as_float(data)
        allowed = likelihoods.inside(self.domain, data)
        if not allowed.all():
            entry = int(np.argmin(allowed.reshape(-1)))
            if index is not None:
                place = tuple(int(i) for i in np.atleast_1d(np.asarray(index)[entry]))
            else:
                place = tuple(int(i) for i in np.unravel_index(entry, data.shape))
            where = f"entry {entry}" + (
                f" at index {place}" if len(place) > 1 or index is not None else ""
            )
            raise DataError(
                f"The loss {self.name!r} needs {needed}, but {where} is"
                f" {float(data.reshape(-1)[entry])!r}. {advice}"
            )
        if unlisted_zeros and not self.unlisted_zeros_allowed:
            raise DataError(
                f"The loss {self.name!r} needs {needed}, but {unlisted_zeros} unlisted cells mean"
                f" zero. {advice}"
            )

    def deviance(self, x: ArrayLike, m: ArrayLike) -> FloatArray:
        """Cost above the best any model value could do for x: 0 for a perfect fit, else more.

        Twice f(x, m) - min f(x, .), the usual deviance; for gaussian and huber, whose f is
        already twice a negative log-likelihood, f itself.
        """
        if self.minimum is None:
            raise DataError(
                f"Deviance needs the smallest value of f(x, .), but the loss {self.name!r} has"
                " none. Pass minimum=... when you build it."
            )
        # Rounding can put a perfect fit a hair below zero.
        above = self.value(x, m) - self.minimum(x)
        return np.maximum(self.traits.deviance_factor * above, 0.0)

    def log_likelihood(
        self, x: ArrayLike, m: ArrayLike, *, scale: float | None = None
    ) -> FloatArray | None:
        """Complete log-probability (or log-density) of x, with the terms f leaves out.

        None where there is no likelihood: huber, beta, your own losses without one, and gaussian
        without a scale. `scale` is explained at `p_value`.
        """
        likelihood = self._likelihood(scale)
        if likelihood is None:
            return None
        noise = likelihoods.check_scale(scale, f"The loss {self.name!r}")
        factor, rest = likelihood.terms(as_float(x), self.parameter, noise)
        return np.asarray(rest - factor * self.value(x, m))

    def p_value(
        self,
        x: ArrayLike,
        m: ArrayLike,
        *,
        tail: str = "two-sided",
        scale: float | None = None,
    ) -> FloatArray | None:
        """Probability, under the model, of data at least as far out as x.

        Never smaller than it should be: under the model P(p <= a) <= a, with equality for
        continuous data. None where there is no likelihood, as in `log_likelihood`.

        Parameters
        ----------
        x, m
            Data and model values.
        tail
            "upper" is P(X >= x), "lower" is P(X <= x), "two-sided" is twice the smaller of the
            two, at most 1.
        scale
            Standard deviation for gaussian (needed there); standard deviation over mean for
            gamma (1, the exponential distribution, if not given). Other losses have none.
        """
        if tail not in ("two-sided", "upper", "lower"):
            raise DataError(
                f"A p-value needs tail to be two-sided, upper or lower, but it is {tail!r}."
            )
        likelihood = self._likelihood(scale)
        if likelihood is None:
            return None
        noise = likelihoods.check_scale(scale, f"The loss {self.name!r}")
        lower, upper = likelihood.tails(as_float(x), as_float(m), self.parameter, noise)
        if tail == "two-sided":
            return likelihoods.two_sided(lower, upper)
        return np.asarray(upper if tail == "upper" else lower)

    def sample(
        self,
        rng: np.random.Generator,
        m: ArrayLike,
        size: SampleSize = None,
        *,
        scale: float | None = None,
    ) -> FloatArray:
        """Draw data whose expectation is mean(m), of the shape of m unless a size is given.

        `scale` is the standard deviation for gaussian and sd / mean for gamma, 1 if not given.
        """
        likelihood = self.likelihood
        if likelihood is None:
            raise DataError(
                f"Drawing data needs a likelihood, but the loss {self.name!r} has none. Choose"
                " another loss, or pass likelihood=... when you build your own."
            )
        noise = likelihoods.check_scale(scale, f"The loss {self.name!r}")
        return np.asarray(
            likelihood.draw(rng, as_float(m), self.parameter, noise, size), dtype=np.float64
        )

    def _likelihood(self, scale: float | None) -> Likelihood | None:
        likelihood = self.likelihood
        if likelihood is None or (likelihood.needs_scale and scale is None):
            return None
        return likelihood


def _cautious(lower: float) -> Traits:
    """What is assumed of a loss that says nothing: it may fall for ever if nothing bounds m."""
    free = np.isinf(lower)
    return Traits(prior_strength=0.1 if free else 0.0, capped_dispersion=lower == 0.0)


def _rebuild(get_loss: Callable[..., Loss], name: str, parameters: dict[str, float]) -> Loss:
    return get_loss(name, **parameters)


def _restore(fields: dict[str, Any]) -> Loss:
    loss = object.__new__(Loss)
    loss._store(**fields)
    return loss


@dataclass(frozen=True)
class _Bound:
    """A built-in formula with its parameter filled in, for arrays that broadcast."""

    formula: Formula
    parameter: float

    def __call__(self, x: ArrayLike, m: ArrayLike) -> FloatArray:
        data, model = np.broadcast_arrays(as_float(x), as_float(m))
        return np.asarray(self.formula(data, model, self.parameter))


@dataclass(frozen=True)
class _BoundMean:
    formula: Callable[[Any, float], Any]
    parameter: float

    def __call__(self, m: ArrayLike) -> FloatArray:
        return np.asarray(self.formula(as_float(m), self.parameter))
