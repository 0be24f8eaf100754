"""What may become a model's state: data of a size that can be learned, and finite numbers only.

Every method and loss goes through here. A slice is looked at before it is learned, and the state
that a step would leave behind before it takes the place of the old one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.slices import Slice
from onlinegcp.streaming.state import ModelState

# Solvers form fourth powers of values and add up many of them, which must stay below 1e308. A value
# beyond does not spoil its own step only, but the memory of it, and with it every step after.
LARGEST = 1e70


def check_size(x: Slice, where: str) -> None:
    """Refuse a slice with a value that no method can learn.

    Parameters
    ----------
    x
        The slice.
    where
        What to call it.
    """
    values = x.value if x.array is None else x.array
    # Both ends, so that no array of absolute values is made.
    if not values.size or (values.max() <= LARGEST and values.min() >= -LARGEST):
        return
    cell, value = largest_cell(x)
    raise CellError(
        f"values of at most {LARGEST:.0e} were needed, but {where} holds {value:.6g} in cell "
        f"{cell}. Correct it, or scale the data down.",
        cell,
    )


def is_finite(state: ModelState) -> bool:
    """Whether every number of a state is finite, but for what a solver keeps to itself."""
    numbers = [array for array in state.arrays.values() if array.dtype.kind == "f"]
    return all_finite([*state.factors, state.weights, state.mean_weights, *numbers])


def all_finite(arrays: Sequence[NDArray[Any]]) -> bool:
    """Whether arrays hold finite numbers only."""
    sums = [np.add.reduce(array, axis=None) for array in arrays]  # one pass, no temporaries
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
