"""What a streaming model may be fed: one slice, several, or scikit-learn's table of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from onlinegcp.errors import DataError
from onlinegcp.slices import Slice, as_slice


def read_slices(
    model: Any, x: Any, time: Any = None, *, ndim: int | None = None, reset: bool = False
) -> tuple[list[Slice], bool]:
    """Turn what a caller passed into slices.

    A `Slice`, a (coords, values, shape) triple, an array of three or more dimensions, or anything
    else `as_slice` knows is one slice. A list is several slices. A bare table (2-D array, scipy
    sparse matrix, data frame) is scikit-learn's (n_samples, n_features): every row is a 1-way
    slice; only a model that already works on matrices reads it as one 2-way slice.

    Parameters
    ----------
    model
        The estimator; its ``n_features_in_`` is set or checked when a table comes in.
    x
        What the caller passed.
    time
        Time of the slice, or one per slice where several come in.
    ndim
        Number of modes the model already works with, if any.
    reset
        Whether this input may redefine the number of features.

    Returns
    -------
    slices, single
        `single` says that the caller passed exactly one slice, not a collection of them.
    """
    if isinstance(x, list | tuple) and not _is_triple(x) and not _is_rows_of_numbers(x):
        slices = [as_slice(part) for part in x]
        return _with_times(slices, time), False
    if _is_table(x) and ndim != 2:
        if ndim is not None and ndim > 2:
            raise DataError(
                f"this model works on {ndim}-way slices, but got a table of shape {np.shape(x)}. "
                f"Pass a Slice, an array of {ndim} dimensions, or a list of them."
            )
        return _with_times(_rows(model, x, reset=reset), time), False
    slices = [as_slice(x)]
    return ([slices[0].with_time(time)] if time is not None else slices), True


def _rows(model: Any, table: Any, *, reset: bool) -> list[Slice]:
    checked: Any = validate_data(
        model,
        table,
        reset=reset or not hasattr(model, "n_features_in_"),
        accept_sparse="csr",
        dtype=np.float64,
        ensure_all_finite=False if scipy.sparse.issparse(table) else "allow-nan",
    )
    if isinstance(checked, np.ndarray):
        return [Slice.dense(row) for row in checked]
    return [
        Slice(
            checked.indices[start:stop, None].astype(np.int64),
            checked.data[start:stop],
            (checked.shape[1],),
        )
        for start, stop in zip(checked.indptr[:-1], checked.indptr[1:], strict=True)
    ]


def _with_times(slices: list[Slice], time: Any) -> list[Slice]:
    if time is None:
        return slices
    if isinstance(time, str) or not hasattr(time, "__len__") or len(time) != len(slices):
        raise DataError(
            f"{len(slices)} slices came in, so `time` must be a sequence of {len(slices)} times, "
            f"but got {time!r}."
        )
    return [x.with_time(t) for x, t in zip(slices, time, strict=True)]


def _is_triple(x: Sequence[Any]) -> bool:
    """(coords, values, shape): three parts, the last a short run of whole numbers."""
    return (
        isinstance(x, tuple)
        and len(x) == 3
        and not any(isinstance(part, Slice) for part in x)
        and np.ndim(x[2]) == 1
        and np.ndim(x[0]) == 2
    )


def _is_rows_of_numbers(x: Sequence[Any]) -> bool:
    """A table written as nested lists, or a flat list of numbers (which is refused later)."""
    first = x[0] if len(x) else None
    return not isinstance(first, Slice | np.ndarray) and (
        first is None or np.isscalar(first) or (isinstance(first, list) and np.ndim(first) <= 1)
    )


def _is_table(x: Any) -> bool:
    if isinstance(x, Slice) or hasattr(x, "dims") or hasattr(x, "subs") or hasattr(x, "coords"):
        return False
    if scipy.sparse.issparse(x) or hasattr(x, "columns") or isinstance(x, list | tuple):
        return not (isinstance(x, tuple) and _is_triple(x))
    if isinstance(x, np.ndarray):
        return x.ndim <= 2
    return hasattr(x, "__array__") and not hasattr(x, "is_sparse") and np.asarray(x).ndim <= 2
