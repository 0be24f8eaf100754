"""The slice: one d-way tensor of a stream, in the canonical form every other part relies on.

A cell of the tensor is listed or unlisted; unlisted cells are all zeros or all missing. Everything
is checked here, once, so that no other module has to: indices in range and integral, values finite,
entries sorted by linear index without duplicates.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, final, get_args

import numpy as np
import numpy.typing as npt

from onlinegcp.entries import (
    Numbers,
    all_finite,
    array_shape,
    checked_shape,
    in_order,
    linear_index,
    own_floats,
    real_numbers,
    sorted_sums,
    unravel,
)
from onlinegcp.errors import DataError
from onlinegcp.notebook.html import bars, card, joined, table

Unlisted = Literal["zero", "missing"]


@final
@dataclass(frozen=True, init=False, eq=False, repr=False, slots=True, weakref_slot=True)
class Slice:
    """An immutable d-way tensor, sparse or dense, with d >= 1.

    Entries are copied, checked, sorted by C-order linear index, and those of one cell are summed.

    Parameters
    ----------
    index
        (n, d) integers, one row per entry, counted from 0. For d = 1 also (n,).
    value
        (n,) finite real numbers.
    shape
        Length of each mode, from 1 to 2^31 - 1, with fewer than 2^63 cells in all.
    time
        When the slice was observed, in whatever unit the caller likes.
    unlisted
        What a cell without an entry is: "zero" (then explicit zeros are dropped) or "missing"
        (then explicit zeros are data).

    Attributes
    ----------
    index : (n_listed, d) int32 array, read-only
        Coordinates of the listed cells, in C order.
    value : (n_listed,) float64 array, read-only
        Values of the listed cells.
    array : float64 array, read-only, or None
        The whole tensor when it was given dense and without missing cells.

    Examples
    --------
    >>> x = Slice([[1, 2], [0, 0], [1, 2]], [1.0, 5.0, 2.0], shape=(2, 3), time="Monday")
    >>> x
    Slice(shape=(2, 3), n_listed=2, unlisted='zero', time='Monday')
    >>> x.to_dense()
    array([[5., 0., 0.],
           [0., 0., 3.]])
    >>> x.n_unlisted_zeros, x.total
    (4, 8.0)
    """

    shape: tuple[int, ...]
    value: Numbers
    array: Numbers | None
    time: Any
    unlisted: Unlisted
    _index: npt.NDArray[np.int32] | None

    def __new__(
        cls,
        index: npt.ArrayLike,
        value: npt.ArrayLike,
        shape: Sequence[int],
        *,
        time: Any = None,
        unlisted: Unlisted = "zero",
    ) -> Slice:
        if unlisted not in get_args(Unlisted):
            raise DataError(
                f"unlisted must be 'zero' or 'missing', but {unlisted!r} was found. "
                "Choose 'zero' when cells without an entry are zeros, else 'missing'."
            )
        dims = checked_shape(shape)
        listed, sums = in_order(index, value, dims, keep_zeros=unlisted == "missing")
        return _trusted(dims, sums, None, time, unlisted, listed)

    @staticmethod
    def dense(array: npt.ArrayLike, *, time: Any = None) -> Slice:
        """Make a slice from a full array whose NaN (or masked) cells are missing.

        Every other cell is listed, zeros included, so that nothing is left unlisted.

        Examples
        --------
        >>> Slice.dense([[1.0, 0.0], [2.0, float("nan")]]).value
        array([1., 0., 2.])
        """
        given = real_numbers(array, "a dense slice")
        dims = array_shape(given.shape)
        whole = own_floats(given)
        if all_finite(whole):
            return _trusted(dims, None, whole, time, "missing", None)
        infinite = np.isinf(whole)
        if infinite.any():
            cell = tuple(np.argwhere(infinite)[0].tolist())
            raise DataError(
                f"A slice needs finite values, but cell {cell} is {whole[cell]}. "
                "Set it to NaN if it is missing, or to a finite number."
            )
        linear = np.flatnonzero(~np.isnan(whole))
        observed = whole.reshape(-1)[linear]
        return _trusted(dims, observed, None, time, "missing", unravel(linear, dims))

    @property
    def index(self) -> npt.NDArray[np.int32]:
        if self._index is None:
            # Dense slices are often used whole: their d x size coordinates wait until asked for.
            grid = np.empty((*self.shape, self.ndim), dtype=np.int32)
            for k, line in enumerate(np.ix_(*(np.arange(dim) for dim in self.shape))):
                grid[..., k] = line
            listing = grid.reshape(self.size, self.ndim)
            listing.flags.writeable = False
            object.__setattr__(self, "_index", listing)
            return listing
        return self._index

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def n_listed(self) -> int:
        """Number of listed cells."""
        return len(self.value)

    @property
    def nnz(self) -> int:
        """Number of listed cells whose value is not 0."""
        return int(np.count_nonzero(self.value))

    @property
    def n_unlisted_zeros(self) -> int:
        """Number of cells known to be 0 without being listed."""
        return self.size - self.n_listed if self.unlisted == "zero" else 0

    @property
    def n_observed(self) -> int:
        """Number of cells that are not missing."""
        return self.n_listed + self.n_unlisted_zeros

    @property
    def norm_squared(self) -> float:
        """Sum of the squared values."""
        # Not a dot product: BLAS sums in an order that depends on its number of threads. Not
        # np.square either: it would need as much memory as the values themselves. Nor does it
        # warn of a sum that is too large.
        return float(np.einsum("i,i->", self.value, self.value))

    @property
    def total(self) -> float:
        """Sum of the values."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(self.value.sum())

    def to_dense(self) -> Numbers:
        """Return the tensor as a new array, NaN where cells are missing."""
        if self.array is not None:
            return self.array.copy()
        try:
            full = np.full(self.shape, 0.0 if self.unlisted == "zero" else np.nan)
        except (MemoryError, ValueError) as error:
            raise DataError(
                f"to_dense needs memory for every cell, but shape {self.shape} has {self.size:,} "
                f"({self.size / 2**27:,.0f} GiB). Use index and value, which list few of them."
            ) from error
        full[tuple(self.index.T)] = self.value
        return full

    def with_time(self, time: Any) -> Slice:
        """Return the same slice at another time; the arrays are shared."""
        return _trusted(self.shape, self.value, self.array, time, self.unlisted, self._index)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Slice):
            return NotImplemented
        if (self.shape, self.unlisted, self.time) != (other.shape, other.unlisted, other.time):
            return False
        if not np.array_equal(self.value, other.value):
            return False
        return self.n_listed == self.size or np.array_equal(self.index, other.index)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        listed = "dense" if self.array is not None else f"n_listed={self.n_listed}"
        time = "" if self.time is None else f", time={self.time!r}"
        return f"Slice(shape={self.shape}, {listed}, unlisted={self.unlisted!r}{time})"

    def _repr_html_(self) -> str:
        facts = f"{self.n_listed:,} of {self.size:,} cells listed, the others {self.unlisted}"
        facts += "" if self.time is None else f"; {self.time}"
        rows = []
        for k, length in enumerate(self.shape):
            sums = joined(self.index[:, k], self.value, length)
            rows.append([f"mode {k + 1}", f"{length:,}", bars(sums)])
        return card("Slice", facts, table(["", "rows", "sums"], rows))

    def __reduce__(self) -> tuple[Any, ...]:
        # For a dense slice, value and index follow from the array; storing them would triple it.
        value = self.value if self.array is None else None
        index = self._index if self.array is None else None
        return _trusted, (self.shape, value, self.array, self.time, self.unlisted, index)


def _trusted(
    shape: tuple[int, ...],
    value: Numbers | None,
    array: Numbers | None,
    time: Any,
    unlisted: Unlisted,
    index: npt.NDArray[np.int32] | None,
) -> Slice:
    """Wrap arrays that already are canonical and belong to nobody else."""
    if array is not None:
        array.flags.writeable = False
        value = array.reshape(-1)  # a view, so that a dense slice is held once
    for owned in (value, index):
        if owned is not None:
            owned.flags.writeable = False
    made = object.__new__(Slice)
    parts = (shape, value, array, time, unlisted, index)
    for name, part in zip(_PARTS, parts, strict=True):
        object.__setattr__(made, name, part)
    return made


_PARTS = tuple(field.name for field in fields(Slice))


def as_slice(obj: Any, *, time: Any = None) -> Slice:
    """Turn whatever holds a tensor into a `Slice`.

    Accepts a Slice, a NumPy array or nested list, a tuple (coords, values, shape) with coords
    (n, d), a scipy.sparse, pydata sparse, pyttb or torch tensor, dense or sparse, and an xarray
    DataArray. Unlisted cells of sparse objects are zeros, or missing where the fill value is NaN;
    cells of dense ones are missing where they are NaN.

    Examples
    --------
    >>> as_slice(([[0, 1], [2, 0]], [4, 1], (3, 2)), time=7)
    Slice(shape=(3, 2), n_listed=2, unlisted='zero', time=7)
    >>> as_slice([[1, 2], [3, 4]])
    Slice(shape=(2, 2), dense, unlisted='missing')
    """
    # Other packages are known by what their objects can do, and are never imported.
    if isinstance(obj, Slice):
        return obj if time is None else obj.with_time(time)
    if isinstance(obj, tuple) and len(obj) == 3:
        return Slice(*obj, time=time)
    if isinstance(obj, (np.ndarray, list)):
        return Slice.dense(obj, time=time)
    if _can(obj, "dims", "coords", "data"):  # xarray, which may wrap any of the others
        return as_slice(obj.data, time=time)
    if _can(obj, "asformat"):
        return _from_sparse_array(obj, time)
    if _can(obj, "tenfun"):  # pyttb.tensor
        return Slice.dense(obj.data, time=time)
    if _can(obj, "to_sptenmat"):  # pyttb.sptensor; without entries its arrays are (1, 0)
        rows = obj.subs if obj.vals.size else []
        return Slice(rows, obj.vals.reshape(-1), obj.shape, time=time)
    if _can(obj, "is_sparse", "detach"):
        return _from_torch(obj, time)
    if _can(obj, "__array__"):
        return Slice.dense(_without_objects(obj), time=time)
    if isinstance(obj, (str, os.PathLike)):
        raise DataError(
            f"A slice is made from numbers, but {type(obj).__qualname__} was found: "
            f"{os.fspath(obj)!r}. A file of events is cut into slices by from_events of "
            "onlinegcp.events, with time=..., every=... and modes=[...], or learned at once with "
            "`onlinegcp fit`."
        )
    found = f"a tuple of {len(obj)}" if isinstance(obj, tuple) else type(obj).__qualname__
    raise DataError(
        "A slice is made from a Slice, a NumPy array or list of numbers, a tuple (coords, values, "
        "shape), or a scipy.sparse, pydata sparse, pyttb, torch or xarray object, but "
        f"{found} was found. Convert it to one of these first."
    )


def stack(slices: Iterable[Any]) -> Slice:
    """Join slices of one shape into a tensor with one more mode, time, which comes last.

    Accepts whatever `as_slice` does. If some slices have missing cells and others unlisted zeros,
    those zeros become listed data, which takes memory for every cell of these slices.

    Examples
    --------
    >>> stack([Slice([[0]], [1], (3,)), Slice([[2]], [5], (3,))]).to_dense()
    array([[1., 0.],
           [0., 0.],
           [0., 5.]])
    """
    if not _can(slices, "__iter__"):
        found = type(slices).__qualname__
        raise DataError(f"stack needs a list of slices, but {found} was found. Put it in a list.")
    parts = [as_slice(x) for x in slices]
    if not parts:
        raise DataError("stack needs at least one slice, but there are none. Give some slices.")
    for t, x in enumerate(parts):
        if x.shape != parts[0].shape:
            raise DataError(
                f"stack needs slices of one shape, but slice 0 has {parts[0].shape} and slice {t} "
                f"has {x.shape}. Build all of them with the largest shape."
            )
    shape = checked_shape((*parts[0].shape, len(parts)))
    arrays = [x.array for x in parts if x.array is not None]
    if len(arrays) == len(parts):
        whole = np.ascontiguousarray(np.stack(arrays, axis=-1))
        return _trusted(shape, None, whole, None, "missing", None)

    unlisted: Unlisted = "missing"
    if any(x.n_observed < x.size for x in parts):
        parts = [Slice.dense(x.to_dense()) if x.n_unlisted_zeros else x for x in parts]
    elif any(x.unlisted == "zero" for x in parts):
        unlisted = "zero"
    linear = np.empty(sum(x.n_listed for x in parts), dtype=np.int64)
    end = 0
    for t, x in enumerate(parts):
        start, end = end, end + x.n_listed
        cells = np.arange(x.size) if x.array is not None else linear_index(x.index, x.shape)
        linear[start:end] = cells * len(parts) + t
    value = np.concatenate([x.value for x in parts])
    linear, value = sorted_sums(linear, value, shape, keep_zeros=unlisted == "missing")
    return _trusted(shape, value, None, None, unlisted, unravel(linear, shape))


def _can(obj: Any, *names: str) -> bool:
    # Asked of the type: a data frame answers attribute requests with columns of that name.
    return all(hasattr(type(obj), name) for name in names)


def _without_objects(obj: Any) -> Any:
    """The numbers of a table whose columns have types of its package's own, missing ones as NaN.

    NumPy makes Python objects of them: of pandas' nullable numbers, and of polars' decimal ones.
    """
    if _can(obj, "iloc", "to_numpy"):
        kinds = np.atleast_1d(obj.dtypes).tolist()
        if all(isinstance(kind, np.dtype) or kind.kind not in "biuf" for kind in kinds):
            return obj
        if all(kind.kind in "biuf" for kind in kinds):
            return obj.to_numpy(dtype=np.float64, na_value=np.nan)
    elif _can(obj, "with_columns") or _can(obj, "to_physical"):
        kinds = obj.dtypes if _can(obj, "with_columns") else [obj.dtype]
        if any(kind.is_decimal() for kind in kinds) and all(kind.is_numeric() for kind in kinds):
            return np.asarray(obj).astype(np.float64)
    return obj


def _from_sparse_array(obj: Any, time: Any) -> Slice:
    """Read scipy.sparse and pydata sparse, which agree on asformat, coords and data."""
    entries = obj.asformat("coo")
    fill = float(getattr(entries, "fill_value", 0.0))
    if fill != 0.0 and not math.isnan(fill):
        raise DataError(
            f"A sparse array needs fill value 0 (zeros) or NaN (missing), but {fill} was found. "
            "Call .todense() on it first, or subtract the fill value."
        )
    rows = np.stack(entries.coords, axis=1)
    unlisted: Unlisted = "missing" if math.isnan(fill) else "zero"
    return Slice(rows, entries.data, entries.shape, time=time, unlisted=unlisted)


def _from_torch(obj: Any, time: Any) -> Slice:
    tensor = obj.detach().cpu()
    if not tensor.is_complex():  # which is refused below like any other complex array
        tensor = tensor.double()  # NumPy has no bfloat16
    if "sparse" not in str(tensor.layout):
        return Slice.dense(tensor.numpy(), time=time)
    entries = (tensor if tensor.is_sparse else tensor.to_sparse_coo()).coalesce()
    values = entries.values().numpy()
    if values.ndim != 1:
        raise DataError(
            f"A sparse torch tensor must hold one number per entry, but its values have shape "
            f"{values.shape}. Call .to_dense() on it first."
        )
    return Slice(entries.indices().numpy().T, values, tuple(entries.shape), time=time)


def widen(x: Slice, shape: tuple[int, ...]) -> Slice:
    """The slice with more rows, which hold what its other unlisted cells hold.

    A dense slice lists every cell it knows of, so in its case the new cells are missing.
    """
    if x.shape == shape:
        return x
    return Slice(x.index, x.value, shape, time=x.time, unlisted=x.unlisted)


def widened(slices: Sequence[Slice]) -> list[Slice]:
    """Slices of a stream whose modes grew, all of the shape that holds every one of them."""
    if len({x.ndim for x in slices}) > 1:
        return list(slices)  # whoever takes them says what is wrong
    shape = tuple(map(max, *(x.shape for x in slices))) if len(slices) > 1 else slices[0].shape
    return [widen(x, shape) for x in slices]
