"""The entries of a slice: checked where they come in, sorted by cell, and summed within a cell.

An entry is a row of positions and a value; its cell is a position in the shape, or one integer, the
C-order linear index. What is wrong is refused with the place where it was found.
"""

from __future__ import annotations

import math
import reprlib
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from onlinegcp.errors import DataError

Numbers = npt.NDArray[np.float64]

_LARGEST_DIM = np.iinfo(np.int32).max
_LARGEST_SIZE = np.iinfo(np.int64).max
# Entries handled at a time when coordinates are rebuilt: the working set stays in the cache.
_CHUNK = 1 << 16
# Entries from which compiled code puts them in order: where Numba is loaded, or worth loading.
_MANY, _WORTH_LOADING = 1 << 18, 1 << 22


def in_order(
    index: Any, value: Any, shape: tuple[int, ...], *, keep_zeros: bool
) -> tuple[npt.NDArray[np.int32], Numbers]:
    """Return index and values of the cells in C order, one entry per cell, in their own memory."""
    rows = _positions(index, shape)
    if len(rows) >= (_MANY if "numba" in sys.modules else _WORTH_LOADING):
        from onlinegcp.kernels import sorting

        numbers = _one_per_row(value, len(rows))
        found = sorting.in_order(rows, numbers, shape, keep_zeros=keep_zeros)
        if found is not None:
            return found
    rows = _inside(rows, shape)
    numbers = checked_values(value, len(rows))
    linear = linear_index(rows, shape)
    linear, sums = sorted_sums(linear, numbers, shape, keep_zeros=keep_zeros)
    if sums is numbers:  # nothing had to change, so that these may still be the caller's own
        sums = numbers.copy()
    return unravel(linear, shape), sums


def checked_shape(shape: Iterable[Any]) -> tuple[int, ...]:
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Iterable):
        raise DataError(
            f"shape must be a sequence of mode lengths, but {shape!r} was found. "
            "Write (5,) for one mode of length 5."
        )
    dims = tuple(shape)
    for k, dim in enumerate(dims):
        whole = isinstance(dim, (int, np.integer)) and not isinstance(dim, bool)
        if not whole or not 1 <= dim <= _LARGEST_DIM:
            raise DataError(
                f"Every mode must have a whole length from 1 to {_LARGEST_DIM}, but mode {k} has "
                f"{dim!r}. Leave out a mode without positions, split one that is too long."
            )
    if not dims:
        raise DataError(
            "A tensor must have at least one mode, but the shape is (). "
            "Give a single number as a list of length one."
        )
    size = math.prod(int(dim) for dim in dims)
    if size > _LARGEST_SIZE:
        raise DataError(
            f"A tensor must have fewer than 2^63 cells, but shape {dims} has about 2^"
            f"{size.bit_length()}. Use coarser or fewer modes."
        )
    return tuple(int(dim) for dim in dims)


@lru_cache(maxsize=64)
def array_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """`checked_shape` of an array, which holds integers and nothing else."""
    return checked_shape(shape)


def real_numbers(values: Any, what: str) -> npt.NDArray[Any]:
    """Return values as an array of booleans, integers or floats, masked ones as NaN."""
    if isinstance(values, np.ma.MaskedArray) and values.dtype.kind in "biuf":
        return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(
            f"{what.capitalize()} must be an array of real numbers, but "
            f"{type(values).__qualname__} could not be read as one ({error}). "
            "Give rows of equal length, holding numbers only."
        ) from error
    if array.dtype.kind not in "biuf":
        example = f", first entry {reprlib.repr(array.flat[0])}" if array.size else ""
        advice = {
            "c": "Take .real or abs() of it first.",
            "O": "Give plain numbers only, in a dense slice NaN for missing; stack() joins slices.",
        }.get(array.dtype.kind, "Convert it to numbers first.")
        raise DataError(
            f"{what.capitalize()} must hold real numbers, but dtype {array.dtype} was found"
            f"{example}. {advice}"
        )
    return array


def _one_per_row(values: Any, n_rows: int) -> Numbers:
    """Return float64 values, one per row of the index, not necessarily a copy."""
    given = real_numbers(values, "value")
    if given.ndim != 1 or len(given) != n_rows:
        raise DataError(
            f"value must hold one number per row of index, shape ({n_rows},), but shape "
            f"{given.shape} was found. Pass as many values as index rows, in one dimension."
        )
    with np.errstate(over="ignore"):  # long doubles may overflow here; whoever checks will tell
        return given.astype(np.float64, copy=False)


def checked_values(values: Any, n_rows: int) -> Numbers:
    """Return finite float64 values, one per row of the index, not necessarily a copy."""
    numbers = _one_per_row(values, n_rows)
    if not all_finite(numbers):
        entry = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise DataError(
            f"value must be finite, but entry {entry} is {numbers[entry]}. Leave the entry out and "
            "use unlisted='missing' if the cell is unknown, or give a finite number."
        )
    return numbers


def own_floats(array: npt.NDArray[Any]) -> Numbers:
    """A copy in C order."""
    if array.dtype.itemsize <= 8:
        return np.array(array, dtype=np.float64, order="C")
    with np.errstate(over="ignore"):  # long doubles may overflow; whoever checks will tell
        return np.array(array, dtype=np.float64, order="C")


def all_finite(numbers: Numbers) -> bool:
    # One pass and no temporary in the usual case; a sum that overflows needs the second look.
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(numbers.sum()) or bool(np.isfinite(numbers).all())


def _positions(index: Any, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the index as (n, d) integers, not necessarily a copy."""
    d = len(shape)
    if isinstance(index, tuple) and any(isinstance(part, np.ndarray) for part in index):
        raise DataError(
            f"index must have one row per entry, shape (n, {d}), but a tuple of {len(index)} "
            "arrays was found. Use np.column_stack(index) on the result of np.nonzero."
        )
    rows = real_numbers(index, "index")
    if rows.size == 0 and (rows.ndim == 1 or rows.shape == (0, d)):
        return np.empty((0, d), dtype=np.int32)
    if rows.ndim == 1 and d == 1:
        rows = rows.reshape(-1, 1)
    if rows.ndim != 2 or rows.shape[1] != d:
        advice = "Transpose it with .T" if rows.shape[:1] == (d,) else f"Give {d} columns"
        raise DataError(
            f"index must have one row per entry and one column per mode, shape (n, {d}) for a "
            f"tensor of shape {shape}, but shape {rows.shape} was found. {advice}."
        )
    if rows.dtype.kind not in "iu":
        raise DataError(
            f"index must hold integers, but dtype {rows.dtype} was found, entry 0 being "
            f"{rows[0].tolist()}. Use .astype(int) if these are whole numbers."
        )
    return rows


def _inside(rows: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Refuse positions outside the shape."""
    if not len(rows):
        return rows
    for k, dim in enumerate(shape):
        column = rows[:, k]
        if column.min() < 0 or column.max() >= dim:
            entry = int(np.flatnonzero((column < 0) | (column >= dim))[0])
            raise DataError(
                f"index must lie between 0 and {dim - 1} in mode {k}, but entry {entry} has "
                f"{int(column[entry])} there. Enlarge the shape, or count positions from 0."
            )
    return rows


def linear_index(rows: npt.NDArray[Any], shape: Sequence[int]) -> npt.NDArray[np.int64]:
    """Place of every row of positions among all cells, in C order."""
    linear = rows[:, 0].astype(np.int64)
    for k in range(1, len(shape)):
        linear *= shape[k]
        # Every position fits in 32 bits by now, so narrowing unsigned 64-bit ones is safe.
        np.add(linear, rows[:, k], out=linear, casting="unsafe", dtype=np.int64)
    return linear


def unravel(linear: npt.NDArray[np.int64], shape: tuple[int, ...]) -> npt.NDArray[np.int32]:
    index = np.empty((len(linear), len(shape)), dtype=np.int32)
    for start in range(0, len(linear), _CHUNK):
        # Ten times faster than np.unravel_index: division by one number is vectorised.
        rest = linear[start : start + _CHUNK]
        for k in range(len(shape) - 1, 0, -1):
            above = rest // shape[k]
            index[start : start + _CHUNK, k] = rest - above * shape[k]
            rest = above
        index[start : start + _CHUNK, 0] = rest
    return index


def sorted_sums(
    linear: npt.NDArray[np.int64], value: Numbers, shape: tuple[int, ...], *, keep_zeros: bool
) -> tuple[npt.NDArray[np.int64], Numbers]:
    """Sort entries by cell, sum those of one cell and drop zeros.

    A sum depends on nothing but the values of its cell and their order, down to the last bit.
    `linear` is used up; the very same `value` comes back when nothing had to change.
    """
    if not (linear[1:] > linear[:-1]).all():
        if not (linear[1:] >= linear[:-1]).all():
            linear, value = _sort(linear, value, shape)
        first = np.ones(len(linear), dtype=bool)
        np.not_equal(linear[1:], linear[:-1], out=first[1:])
        if not first.all():
            starts = np.flatnonzero(first)
            linear = linear[starts]
            with np.errstate(over="ignore", invalid="ignore"):
                value = np.add.reduceat(value, starts)
            if not all_finite(value):
                entry = int(np.flatnonzero(~np.isfinite(value))[0])
                cell = tuple(unravel(linear[entry : entry + 1], shape)[0].tolist())
                raise DataError(
                    f"Entries of one cell are added and the sum must be finite, but for cell "
                    f"{cell} it is {value[entry]}. Scale the values down."
                )
    if not keep_zeros and not value.all():
        nonzero = np.flatnonzero(value)
        linear, value = linear[nonzero], value[nonzero]
    return linear, value


def _sort(
    linear: npt.NDArray[np.int64], value: Numbers, shape: tuple[int, ...]
) -> tuple[npt.NDArray[np.int64], Numbers]:
    position_bits = (len(linear) - 1).bit_length()
    if (math.prod(shape) - 1).bit_length() + position_bits > 63:
        order = np.argsort(linear, kind="stable")
        return linear[order], value[order]
    # Cell and position share one integer: sorting integers is several times faster than an argsort,
    # and equal cells keep their order, so that sums do not depend on the sorting algorithm. All of
    # it happens in place, since first use of new memory costs more than the arithmetic.
    key, mask = linear, (1 << position_bits) - 1
    key <<= position_bits
    for start in range(0, len(key), _CHUNK):
        part = key[start : start + _CHUNK]
        part |= np.arange(start, start + len(part))
    key.sort()
    ordered = np.empty(len(key))
    for start in range(0, len(key), _CHUNK):
        part = key[start : start + _CHUNK]
        ordered[start : start + _CHUNK] = value[part & mask]
    key >>= position_bits
    return key, ordered
