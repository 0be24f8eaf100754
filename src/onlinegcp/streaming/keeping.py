"""What may become a model's state: data of a size that can be learned, and finite numbers only.

Every method and loss goes through here. A slice is looked at before it is learned, and the state
that a step would leave behind before it takes the place of the old one.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError, OnlineGCPError, ScaleWarning
from onlinegcp.kernels.blas import one_blas_thread
from onlinegcp.slices import Slice
from onlinegcp.streaming.state import ModelState, with_zeros

# Solvers form fifth powers of values and add up many of them, which must stay below 1e308. A value
# beyond does not spoil its own step only, but the memory of it, and with it every step after.
LARGEST = 1e50
# No slice of such values has weights beyond this: a solver that says so has run away, and would
# take every step after with it.
RUNAWAY = 1e75
# Numbers up to which arrays are added up together.
SHORT = 4096
_PLAIN = frozenset({float, int, str, bool, type(None)})


def check_values(x: Slice, where: str) -> None:
    """Refuse a slice with a value that no method can learn.

    Parameters
    ----------
    x
        The slice.
    where
        What to call it.
    """
    values = x.value if x.array is None else x.array
    # Both ends, so that no array of absolute values is made; what an array's methods call.
    if not values.size or (
        np.maximum.reduce(values, axis=None) <= LARGEST
        and np.minimum.reduce(values, axis=None) >= -LARGEST
    ):
        return
    cell, value = largest_cell(x)
    raise CellError(
        f"values of at most {LARGEST:.0e} were needed, but {where} holds {value:.6g} in cell "
        f"{cell}. Correct it, or scale the data down.",
        cell,
    )


@contextlib.contextmanager
def learning(slices: Sequence[Slice]) -> Iterator[None]:
    """In the block a method learns slices; a failure of its solver is told as theirs.

    Parameters
    ----------
    slices
        Those that may be to blame.
    """
    try:
        # What NumPy would only warn of is refused by `kept`.
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            yield
    except OnlineGCPError:
        raise
    except (ArithmeticError, ValueError) as error:  # a singular matrix is one of the latter
        raise not_learned(slices, f"the solver failed ({error})") from error


def begun(
    slices: Sequence[Slice], begin: Callable[[tuple[Slice, ...]], ModelState]
) -> tuple[ModelState, list[int]]:
    """The state that the first slices make, and the numbers of those that had to be left out.

    Whoever gathers slices has accepted them all: one that no model can begin with must not stand
    in the way for ever. The one with the largest value is left out until the rest can be learned.

    Parameters
    ----------
    slices
        All of them.
    begin
        Makes a state of some.
    """
    left = list(range(len(slices)))
    while True:
        some = tuple(slices[number] for number in left)
        try:
            with learning(some):
                found = begin(some)
            if is_finite(found):
                return found, sorted(set(range(len(slices))) - set(left))
            failure = not_learned(some)
        except CellError as error:
            failure = error
        left.remove(max(left, key=lambda number: abs(largest_cell(slices[number])[1])))
        if not left:
            raise failure


def tell_left_out(slices: Sequence[Slice], numbers: Sequence[int]) -> None:
    """Say which slices of a warm start no model could begin with.

    Parameters
    ----------
    slices
        All of them.
    numbers
        Those that were left out, from 0.
    """
    for number in numbers:
        cell, value = largest_cell(slices[number])
        warnings.warn(
            f"slice {number + 1} of the warm start was left out, because no model with it would "
            f"be finite: it holds {value:.6g} in cell {cell}. Correct it, or mark it as missing.",
            ScaleWarning,
            stacklevel=6,
        )


def kept(found: ModelState, before: ModelState, slices: Sequence[Slice]) -> ModelState:
    """What a step led to, if it may take the place of the state before.

    Parameters
    ----------
    found, before
        The states.
    slices
        Those that are to blame if not.
    """
    if not is_finite(found):
        raise not_learned(slices)
    return alive(found, before)


def alive(found: ModelState, before: ModelState) -> ModelState:
    """The state, with the factors it had before where a mode's are all zeros now.

    Slices of zeros before anything was learned make them so, and nothing that comes after could
    move them again: every update is a product with the other modes. With zeros for weights the
    model says the same.
    """
    if found.live is not None or all(a.any() for a in found.factors):
        return found
    if not all(a.any() for a in before.factors) or found.weights.shape != before.weights.shape:
        return found
    factors = tuple(
        with_zeros(old, len(new)) for new, old in zip(found.factors, before.factors, strict=True)
    )
    return replace(found, factors=factors, weights=np.zeros_like(found.weights))


def is_finite(state: ModelState) -> bool:
    """Whether every number of a state is finite, and no weight has run away."""
    if np.abs(state.weights).max(initial=0.0) > RUNAWAY:
        return False
    arrays = [state.weights, state.mean_weights]
    arrays += [array for array in state.arrays.values() if array.dtype.kind == "f"]
    if state.live is None:
        arrays += state.factors
    else:
        _gather(state.live, arrays)  # the factors are in it
    return all_finite(arrays)


def _gather(record: Any, arrays: list[NDArray[Any]]) -> None:
    """Arrays of a dataclass and of those in it."""
    for value in vars(record).values():
        kind = type(value)
        if kind is np.ndarray:
            if value.size and value.dtype.kind == "f":
                arrays.append(value)
        elif kind not in _PLAIN and hasattr(value, "__dataclass_fields__"):
            _gather(value, arrays)


def all_finite(arrays: Sequence[NDArray[Any]]) -> bool:
    """Whether arrays hold finite numbers only."""
    # One sum over all that is short: many calls would cost more than the additions.
    short = [array.reshape(-1) for array in arrays if array.size <= SHORT]
    sums = [np.add.reduce(array, axis=None) for array in arrays if array.size > SHORT]
    if short:
        sums.append(np.add.reduce(np.concatenate(short)))
    # A sum can overflow where no number does.
    return all(map(math.isfinite, sums)) or all(bool(np.isfinite(a).all()) for a in arrays)


def not_learned(
    slices: Sequence[Slice], why: str = "the model would no longer be finite"
) -> CellError:
    """The error for slices that no step could take in; names the largest of their cells."""
    cell, value = max((largest_cell(x) for x in slices), key=lambda found: abs(found[1]))
    which = "the slice" if len(slices) == 1 else f"the {len(slices)} slices at hand"
    return CellError(
        f"data that can be learned were needed, but with {which} {why}. The largest of their "
        f"values is {value:.6g} in cell {cell}: correct it, scale the data, or choose another "
        f"loss. The model is as it was before.",
        cell,
    )


class CellError(DataError):
    """A slice was refused because of one of its cells, which `cell` names."""

    def __init__(self, message: str, cell: tuple[int, ...]) -> None:
        super().__init__(message)
        self.cell = cell


def largest_cell(x: Slice) -> tuple[tuple[int, ...], float]:
    """The cell with the largest absolute value, and the value; zeros where nothing is listed."""
    if x.array is not None:
        cell = np.unravel_index(int(np.abs(x.array).argmax()), x.array.shape)
        return tuple(int(i) for i in cell), float(x.array[cell])
    if not len(x.value):
        return (0,) * x.ndim, 0.0
    entry = int(np.abs(x.value).argmax())
    return tuple(int(i) for i in x.index[entry]), float(x.value[entry])
