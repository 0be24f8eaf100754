"""The losses as functions that kernels of the card call, made from the formulas of `losses`.

A formula is Python that names `np`. The card's compiler knows the functions of `math`, so a copy of
the formula is compiled whose `np` is a module of these: there is still one text. Built-in losses go
into kernels by their integer code, so that compiled kernels can be kept on disk; a user's own loss
takes the place of all of them in kernels of its own (`bound_to`).
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,attr-defined"

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import cuda

from onlinegcp.kernels.cuda.lanes import SIMULATED, device
from onlinegcp.losses import FISHER, FORMULAS, Loss
from onlinegcp.losses.trial import CutAtZero, Difference, Guarded, difference

Function = Callable[..., Any]


def _smaller(a, b):
    return a if a < b or a != a else b


def _larger(a, b):
    return a if a > b or a != a else b


def _chosen(condition, a, b):
    return a if condition else b


def _sign(a):
    return 1.0 if a > 0.0 else (-1.0 if a < 0.0 else a)


def _numpy_of_numbers() -> ModuleType:
    """What `np` means in a formula of numbers."""
    known: dict[str, Any] = {name: getattr(math, name) for name in (
        "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "sin", "cos", "tan", "sinh",
        "cosh", "tanh", "hypot", "floor", "ceil", "pi", "e", "inf", "nan",
    )}  # fmt: skip
    known |= {"abs": math.fabs, "absolute": math.fabs, "fabs": math.fabs, "power": math.pow}
    known |= {"arctan": math.atan, "arcsinh": math.asinh, "float64": np.float64}
    known |= {"minimum": device(_smaller), "fmin": device(_smaller), "maximum": larger}
    known |= {"fmax": larger, "where": device(_chosen), "sign": device(_sign)}
    known |= {"square": device(lambda a: a * a), "negative": device(lambda a: -a)}
    module = ModuleType("numpy_of_numbers")
    vars(module).update(known)
    return module


# As `np.maximum`: what is not a number stays so.
larger = device(_larger)
_NUMBERS = np if SIMULATED else _numpy_of_numbers()


def of_numbers(formula: Function, **known: Any) -> Any:
    """A formula of arrays, compiled for numbers on the card; `known` takes the place of names."""
    seen = {name: of for name, of in formula.__globals__.items() if of is np}
    names = {**formula.__globals__, **dict.fromkeys(seen, _NUMBERS), **known}
    # A fresh function, for the one the CPU uses must keep its names.
    copy = FunctionType(
        formula.__code__, names, formula.__name__, formula.__defaults__, formula.__closure__
    )
    return device(copy)


def _by_code(name: str, formulas: Mapping[int, Function]) -> Any:
    """A function of (code, p, x, m): the formula of that code, as `kernels.loss_codes` makes it."""
    lines = [f"def {name}(code, p, x, m):"]
    for code in formulas:
        lines += [f"    if code == {code}:", f"        return formula_{code}(x, m, p)"]
    lines.append("    return nan")
    known = {f"formula_{code}": of_numbers(formula) for code, formula in formulas.items()}
    known |= {"nan": float("nan"), "__name__": __name__}
    exec(compile("\n".join(lines), __file__, "exec"), known)
    return device(known[name])


value_of = _by_code("value_of", {code: value for code, (value, _) in FORMULAS.items()})
deriv_of = _by_code("deriv_of", {code: deriv for code, (_, deriv) in FORMULAS.items()})
fisher_of = _by_code("fisher_of", FISHER)


@dataclass(frozen=True)
class Formulas:
    """A loss as the kernels know it.

    Attributes
    ----------
    code, parameter
        Of a built-in loss; -1 for a user's own.
    own
        What a user's own puts in the place of `value_of`, `deriv_of` and `fisher_of`; None for a
        built-in one.
    """

    code: int
    parameter: float
    own: Mapping[str, Any] | None = None

    def bound_to(self, factory: Function, *arguments: Any) -> Any:
        """The kernel that a cached factory of kernels makes for this loss."""
        if self.own is None:
            return factory(*arguments, self.code)
        return _made(self, factory, arguments)

    def __hash__(self) -> int:
        return hash((self.code, self.parameter, id(self.own)))


@functools.lru_cache(maxsize=256)
def _made(formulas: Formulas, factory: Function, arguments: tuple[Any, ...]) -> Any:
    # The same text with the user's functions for names. Nothing is kept on disk: what such a
    # kernel does is not told by the file it stands in.
    plain = factory.__wrapped__
    names = {**plain.__globals__, **(formulas.own or {}), "kernel": cuda.jit}
    return FunctionType(plain.__code__, names, plain.__name__)(*arguments, formulas.code)


@functools.lru_cache(maxsize=64)
def formulas_of(loss: Loss) -> Formulas:
    """The loss for the kernels; raises whatever the compiler says of a user's function."""
    if loss.code >= 0:
        return Formulas(loss.code, loss.parameter)
    value, deriv = _numbers(loss.value), _numbers(loss.deriv)
    return Formulas(-1, 0.0, {
        "value_of": _without_code(value),
        "deriv_of": _without_code(deriv),
        "fisher_of": _without_code(_numbers(loss.fisher)),
    })  # fmt: skip


def _numbers(function: Any) -> Any:
    """A function of a user's loss, and what stands for one that was not given."""
    if isinstance(function, Guarded):
        if not isinstance(function.function, FunctionType):
            kind = type(function.function).__name__
            raise TypeError(f"{function.role} is a {kind}, not a function written in Python")
        return of_numbers(function.function)
    if isinstance(function, Difference):
        deriv, lower, inner = _numbers(function.deriv), function.lower, of_numbers(difference)
        return device(lambda x, m: inner(deriv, x, m, lower))
    if isinstance(function, CutAtZero):
        curvature = _numbers(function.curvature)
        return device(lambda x, m: larger(curvature(x, m), 0.0))
    raise TypeError(f"no formula is known of {function!r}")


def _without_code(function: Any) -> Any:
    return device(lambda code, p, x, m: function(x, m))
