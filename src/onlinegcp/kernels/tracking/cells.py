"""Listed cells of several slices behind each other, as `adapt` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onlinegcp.slices import Slice

Array = NDArray[Any]

# Slices of up to so many cells share the list of their coordinates from call to call.
SMALL = 1 << 16

WHOLE, ZEROS, MISSING = range(3)


class ListedCells(NamedTuple):
    """Cells of slices; arrays are read-only, as those of a slice are.

    Attributes
    ----------
    value
        Values of all of them.
    coordinates
        Coordinates (m, d), once for all slices that list every cell.
    begins
        Slice t has value[begins[t] : begins[t + 1]].
    places
        Where its coordinates begin in `coordinates`.
    kinds
        What its other cells are: WHOLE (there are none), ZEROS, MISSING.
    """

    value: Array
    coordinates: Array
    begins: Array
    places: Array
    kinds: Array


def listed_cells(slices: Sequence[Slice]) -> ListedCells:
    """The listed cells of slices of one shape."""
    begins, kinds = np.zeros(len(slices) + 1, np.int64), np.empty(len(slices), np.int64)
    places, parts, length, whole = np.empty(len(slices), np.int64), [], 0, -1
    for t, x in enumerate(slices):
        begins[t + 1] = begins[t] + len(x.value)
        kinds[t] = WHOLE if len(x.value) == x.size else _unlisted(x)
        places[t] = length if kinds[t] != WHOLE or whole < 0 else whole
        if places[t] == length:
            parts.append(_coordinates(x, int(kinds[t])))
            whole = length if kinds[t] == WHOLE else whole
            length += len(x.value)
    value, index = _joined([x.value for x in slices]), _joined(parts)
    return ListedCells(value, index, begins, places, kinds)


def _unlisted(x: Slice) -> int:
    return ZEROS if x.unlisted == "zero" else MISSING


def _coordinates(x: Slice, kind: int) -> Array:
    # A dense slice would make its list anew.
    return _grid(x.shape) if kind == WHOLE and x.size <= SMALL else x.index


@lru_cache(maxsize=4)
def _grid(shape: tuple[int, ...]) -> Array:
    grid = np.ascontiguousarray(np.indices(shape, np.int32).reshape(len(shape), -1).T)
    grid.flags.writeable = False
    return grid


def _joined(parts: list[Array]) -> Array:
    if len(parts) == 1:
        return parts[0]
    joined = np.concatenate(parts)
    joined.flags.writeable = False
    return joined
