"""What a streaming model may be fed: one slice, several, or scikit-learn's table of samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from onlinegcp.errors import DataError
from onlinegcp.slices import Slice, as_slice
from onlinegcp.streaming.naming import Names, align, names_of
from onlinegcp.streaming.told import NOTHING, Told

_NAMELESS = (Slice, np.ndarray)
# What only tensors of other packages have: xarray, pydata sparse, pyttb (dense, sparse), torch.
_TENSOR_MARKS = ("dims", "asformat", "tenfun", "to_sptenmat", "is_sparse")


def read_slices(
    model: Any, x: Any, time: Any = None, *, told: Told = NOTHING
) -> tuple[list[Slice], bool, Names | None]:
    """Turn what a caller passed into slices.

    A list is several slices. A matrix (2-D array, scipy sparse matrix, data frame, list of rows of
    numbers) may be one slice or scikit-learn's table of samples, whose rows are 1-way slices: a
    model that was told which takes it as that, and one that was not refuses it. Everything else
    that `as_slice` knows is one slice, a tuple (coords, values, shape) included.

    Parameters
    ----------
    model
        The estimator; its ``n_features_in_`` is set or checked when a table comes in.
    x
        What the caller passed.
    time
        Time of the slice, or one per slice where several come in.
    told
        What is known about slices.

    Returns
    -------
    slices, single, names
        `single` says that the caller passed exactly one slice, not a collection of them. `names`
        are those of `told` with what the data brought along.
    """
    if isinstance(x, Slice):
        one, names = read_one(x, time, told=told)
        return [one], True, names
    _refuse_events(x)
    if told.table and isinstance(x, list) and not x:
        raise DataError("at least one slice was needed, but the list is empty. Pass some.")
    if _is_matrix(x) or (told.table and _is_table(x)):
        if told.table or told.ndim == 1:
            return (
                _with_times(_rows(model, x), _row_times(x) if time is None else time),
                False,
                told.names,
            )
        if told.ndim is None:
            raise _ambiguous(x)
        if told.ndim > 2:
            raise DataError(
                f"this model works on {told.ndim}-way slices, but got a matrix of shape "
                f"{np.shape(x)}. Pass a Slice, an array of {told.ndim} dimensions, or a list of "
                f"them."
            )
    elif isinstance(x, list) and not _is_table(x):
        slices = []
        for part in x:
            one, names = read_one(part, told=told)
            if names is not told.names:
                told = replace(told, names=names)
            slices.append(one)
        return _with_times(slices, time), False, told.names
    one, names = read_one(x, time, told=told)
    return [one], True, names


def with_next(stream: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Every item with the one after it, None after the last.

    An error in asking for an item is raised when it is due, not before.

    Examples
    --------
    >>> list(with_next("abc"))
    [('a', 'b'), ('b', 'c'), ('c', None)]
    """
    items = iter(stream)
    nothing = object()
    here = next(items, nothing)
    while here is not nothing:
        try:
            after = next(items, nothing)
        except Exception:
            yield here, None
            raise
        yield here, None if after is nothing else after
        here = after


def read_one(x: Any, time: Any = None, *, told: Told = NOTHING) -> tuple[Slice, Names | None]:
    """One slice, its rows where their labels belong, and the names known after it."""
    if type(x) in _NAMELESS:
        return as_slice(x, time=time), told.names
    return align(
        as_slice(x, time=time),
        names_of(x),
        told.names,
        may_grow=told.may_grow,
        given=told.named,
    )


def aligned(stream: Iterable[Any]) -> Iterator[Slice]:
    """The slices of a stream, rows of those that came with labels where they were before."""
    names = None
    for x in stream:
        one, names = read_one(x, told=Told(names=names))
        yield one


def is_stream(x: Any) -> bool:
    """Whether x hands out slices one by one, such as a generator, and is not data itself."""
    return (
        isinstance(x, Iterable)
        and not isinstance(x, Slice | list | tuple | str | bytes)
        and not hasattr(type(x), "__array__")
        and not _is_tensor(x)
    )


def refuse_whole_tensor(stream: Any, ndim: int | None = None) -> None:
    """Refuse an array in which time could be any axis, and a matrix where matrices are slices."""
    if ndim is not None and ndim > 1 and _is_matrix(stream):
        raise DataError(
            f"a stream of {ndim}-way slices was needed, but got one matrix. Pass [matrix] if it "
            f"is a stream of one slice, or ndim=1 if its rows are the slices."
        )
    if isinstance(stream, np.ndarray) and stream.ndim > 2:
        raise DataError(
            f"a stream of slices was needed, but got one array of shape {stream.shape}, which "
            f"does not say along which axis time runs. Pass iter(array) for the first, "
            f"iter(np.moveaxis(array, -1, 0)) for the last, [array] if it is one slice; a list of "
            f"slices, list(array), can be cut into folds."
        )


def _refuse_events(x: Any) -> None:
    """Refuse a data frame with columns of times or text: its rows are events, not numbers."""
    kind = type(x)
    if not hasattr(kind, "columns") or not (hasattr(kind, "iloc") or hasattr(kind, "height")):
        return
    for name in x.columns:
        column = x[name]
        dtype = getattr(column, "dtype", None)
        numeric = getattr(dtype, "is_numeric", None)
        number = numeric() if callable(numeric) else getattr(dtype, "kind", "f") in "iufbc"
        # Numbers in columns of objects are still numbers.
        if not number and not _holds_numbers(column):
            raise DataError(
                f"a slice of numbers was needed, but column {name!r} of a table holds {dtype}. If "
                "its rows are events or measurements, from_events(table, time=..., every='1d', "
                "modes=[...]) of onlinegcp.events makes slices of them; if they are one slice, "
                f"leave {name!r} out or make it the index."
            )


def _holds_numbers(column: Any) -> bool:
    first = next((value for value in column if value is not None), None)
    return isinstance(first, bool | int | float | np.number | np.bool_)


def _ambiguous(x: Any) -> DataError:
    n, m = (len(x), len(x[0])) if isinstance(x, list) else np.shape(x)
    return DataError(
        f"a matrix of {n} x {m} may be one slice or a table of {n} slices, and this model was not "
        f"told which. If it is one slice, pass ndim=2 or mode_names to the model, or wrap the "
        f"first: partial_fit([matrix]). If each row is a slice of its own, as in scikit-learn's "
        f"tables, pass ndim=1, or begin with fit(table)."
    )


def _is_matrix(x: Any) -> bool:
    if isinstance(x, list):
        return _is_table(x) and bool(x) and isinstance(x[0], list)
    # Not np.shape, which asks what only claims to be an array.
    return _is_table(x) and (scipy.sparse.issparse(x) or np.asarray(x).ndim == 2)


def _is_table(x: Any) -> bool:
    if isinstance(x, list):
        # Rows of numbers. An empty list is an empty table, a flat one is refused as scikit-learn
        # does.
        return not x or (isinstance(x[0], list | float | int) and np.ndim(x[0]) <= 1)
    if scipy.sparse.issparse(x):
        return bool(getattr(x, "ndim", 2) == 2)
    return hasattr(type(x), "__array__") and not _is_tensor(x) and np.asarray(x).ndim <= 2


def _is_tensor(x: Any) -> bool:
    # Asked of the type: a data frame answers attribute requests with columns of that name.
    return any(hasattr(type(x), mark) for mark in _TENSOR_MARKS)


def _rows(model: Any, table: Any) -> list[Slice]:
    missing = "allow-nan" if model.takes_missing and not scipy.sparse.issparse(table) else True
    checked: Any = validate_data(
        model,
        table,
        reset=not hasattr(model, "n_features_in_"),
        accept_sparse="csr",
        dtype=np.float64,
        ensure_all_finite=missing,
    )
    if isinstance(checked, np.ndarray):
        return [Slice.dense(row) for row in checked]
    return [
        Slice(checked.indices[start:stop, None], checked.data[start:stop], checked.shape[1:])
        for start, stop in zip(checked.indptr[:-1], checked.indptr[1:], strict=True)
    ]


def _row_times(table: Any) -> Any:
    """What a data frame calls its rows, which in a table are the slices."""
    named = hasattr(type(table), "iloc") and type(table.index).__name__ != "RangeIndex"
    return list(table.index) if named else None


def _with_times(slices: list[Slice], time: Any) -> list[Slice]:
    if time is None:
        return slices
    if isinstance(time, str) or not hasattr(time, "__len__") or len(time) != len(slices):
        raise DataError(
            f"time must be a sequence of {len(slices)} times, one per slice passed in, but got "
            f"{time!r}. Pass as many times as slices."
        )
    return [x.with_time(t) for x, t in zip(slices, time, strict=True)]
