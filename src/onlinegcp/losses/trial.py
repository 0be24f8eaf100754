"""A user's own loss on trial: guarded calls, differences in place of a curvature, one check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from onlinegcp.errors import DataError
from onlinegcp.losses.likelihoods import FloatArray

if TYPE_CHECKING:
    from onlinegcp.losses.record import Loss

ArrayFunction: TypeAlias = Callable[[ArrayLike, ArrayLike], FloatArray]


def as_float(values: ArrayLike) -> FloatArray:
    """Make an array of float32 or float64; integers and booleans become float64."""
    array = np.asarray(values)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


@dataclass(frozen=True)
class Guarded:
    """A user's function, whose failures are reported with its name and the reason."""

    loss: str
    role: str
    function: Callable[..., Any]

    def __call__(self, *arguments: ArrayLike) -> FloatArray:
        arrays = np.broadcast_arrays(*(as_float(argument) for argument in arguments))
        owner = f"The loss {self.loss!r} needs {self.role} to be a function of"
        owner += " arrays (x, m)" if len(arrays) == 2 else " one array"
        try:
            result = np.asarray(self.function(*arrays))
        except Exception as failure:
            raise DataError(
                f"{owner}, but it raised {type(failure).__name__}: {failure}. Write it with"
                " arithmetic and NumPy functions that work on whole arrays."
            ) from failure
        if result.dtype.kind not in "fiub":
            raise DataError(
                f"{owner} that returns real numbers, but it returned type {result.dtype}."
                " Write it with arithmetic and NumPy functions."
            )
        if result.shape != arrays[0].shape:
            raise DataError(
                f"{owner} that returns one number per entry, but for shape {arrays[0].shape} it"
                f" returned shape {result.shape}. Do not sum inside it; write a constant c as"
                " c + 0 * m."
            )
        return result if result.dtype.kind == "f" else result.astype(np.float64)


def difference(deriv: Callable[[Any, Any], Any], x: Any, m: Any, lower: float) -> Any:
    """Central difference of a slope, of arrays here and of numbers once compiled."""
    step = 1e-5 * np.maximum(1.0, np.abs(m))
    below = np.maximum(m - step, lower)
    above = m + step
    return (deriv(x, above) - deriv(x, below)) / (above - below)


@dataclass(frozen=True)
class Difference:
    """Slope of a user's slope, for losses that come without a curvature."""

    deriv: ArrayFunction
    lower: float

    def __call__(self, x: ArrayLike, m: ArrayLike) -> FloatArray:
        return np.asarray(difference(self.deriv, x, as_float(m), self.lower))


@dataclass(frozen=True)
class CutAtZero:
    """Curvature without its negative part, for Newton steps that must go down."""

    curvature: ArrayFunction

    def __call__(self, x: ArrayLike, m: ArrayLike) -> FloatArray:
        return np.maximum(self.curvature(x, m), 0.0)


# Odd decimals, so that no point sits on a kink such as x = m or |x - m| = 1.
_TRIAL_STEPS = np.array([0.137, 0.591, 1.283, 2.719, 5.837])
_TRIAL_DATA = {
    "real": [-2.41, -1.0, 0.0, 0.53, 1.0, 4.0],
    "nonnegative": [0.0, 0.53, 1.0, 4.0],
    "positive": [0.21, 0.53, 1.0, 4.0],
    "binary": [0.0, 1.0],
    "at_least_one": [1.0, 2.0, 4.0],
}


def trial_points(loss: Loss) -> tuple[FloatArray, FloatArray]:
    """Data and model values at which a user's functions are tried."""
    if isinstance(loss.domain, str):
        data = np.array(_TRIAL_DATA[loss.domain])
    else:
        low, high = np.maximum(loss.domain[0], -3.0), np.minimum(loss.domain[1], 7.0)
        data = low + (high - low) * np.array([0.0, 0.313, 0.671, 1.0])
    steps = _TRIAL_STEPS if np.isfinite(loss.lower) else np.append(-_TRIAL_STEPS, _TRIAL_STEPS)
    start = loss.lower if np.isfinite(loss.lower) else 0.0
    x, m = (part.reshape(-1) for part in np.meshgrid(data, start + steps))
    return x, m


def try_out(loss: Loss, *, slopes: bool, curvature: bool) -> None:
    """Call every function of a user's loss once, and compare slopes with central differences."""
    x, m = trial_points(loss)
    with np.errstate(all="ignore"):  # what is not finite is reported below, with its place
        outputs = {role: getattr(loss, role)(x, m) for role in ("value", "deriv", "fisher")}
        loss.mean(m)
        if loss.minimum is not None:
            loss.minimum(x)
        for role, output in outputs.items():
            _refuse_at(loss, role, x, m, ~np.isfinite(output), output, "be finite")
        fisher = outputs["fisher"]
        _refuse_at(loss, "fisher", x, m, fisher < 0.0, fisher, "be nonnegative")
        if slopes:
            _compare(loss, "value", "deriv", x, m)
        if curvature:
            _compare(loss, "deriv", "curvature", x, m)


def _compare(loss: Loss, role: str, slope_role: str, x: FloatArray, m: FloatArray) -> None:
    step = 1e-5 * np.maximum(1.0, np.abs(m))
    function = getattr(loss, role)
    difference = (function(x, m + step) - function(x, m - step)) / (2.0 * step)
    given = getattr(loss, slope_role)(x, m)
    wrong = ~(np.abs(given - difference) <= 1e-5 * (1.0 + np.abs(difference)))
    if wrong.any():
        # The first point is arbitrary; the worst shows the mistake best.
        worst = int(np.argmax(np.abs(given - difference)))
        raise DataError(
            f"The loss {loss.name!r} needs {slope_role} to be the slope of {role} in m, but at"
            f" x = {x[worst]:g}, m = {m[worst]:g} it is {given[worst]:.6g} and central"
            f" differences of {role} give {difference[worst]:.6g} ({int(wrong.sum())} of {x.size}"
            f" points differ). Correct one of them, or pass check=False if this is meant."
        )


def _refuse_at(
    loss: Loss, role: str, x: FloatArray, m: FloatArray, bad: Any, output: FloatArray, need: str
) -> None:
    if bad.any():
        first = int(np.argmax(bad))
        raise DataError(
            f"The loss {loss.name!r} needs {role} to {need} wherever its domain and lower bound"
            f" allow, but at x = {x[first]:g}, m = {m[first]:g} it is {output[first]:g}."
            " Correct it, or narrow domain or lower."
        )
