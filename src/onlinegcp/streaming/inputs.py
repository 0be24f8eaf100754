"""What a streaming model may be fed: one slice, several, or scikit-learn's table of samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from onlinegcp.errors import DataError
from onlinegcp.slices import Slice, as_slice

# What only tensors of other packages have: xarray, pydata sparse, pyttb (dense, sparse), torch.
_TENSOR_MARKS = ("dims", "asformat", "tenfun", "to_sptenmat", "is_sparse")


def read_slices(
    model: Any, x: Any, time: Any = None, *, ndim: int | None = None
) -> tuple[list[Slice], bool]:
    """Turn what a caller passed into slices.

    A list is several slices. A table (2-D array, scipy sparse matrix, data frame, list of rows of
    numbers) is scikit-learn's (n_samples, n_features): every row is a 1-way slice; only a model
    that already works on matrices reads it as one 2-way slice. Everything else that `as_slice`
    knows is one slice, a tuple (coords, values, shape) included.

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

    Returns
    -------
    slices, single
        `single` says that the caller passed exactly one slice, not a collection of them.
    """
    if _is_table(x) and ndim != 2:
        if ndim is not None and ndim > 2:
            raise DataError(
                f"this model works on {ndim}-way slices, but got a table of shape {np.shape(x)}. "
                f"Pass a Slice, an array of {ndim} dimensions, or a list of them."
            )
        return _with_times(_rows(model, x), time), False
    if isinstance(x, list) and not _is_table(x):
        return _with_times([as_slice(part) for part in x], time), False
    return [as_slice(x, time=time)], True


def is_stream(x: Any) -> bool:
    """Whether x hands out slices one by one, such as a generator, and is not data itself."""
    return (
        isinstance(x, Iterable)
        and not isinstance(x, Slice | list | tuple | str | bytes)
        and not hasattr(type(x), "__array__")
        and not _is_tensor(x)
    )


def refuse_whole_tensor(stream: Any) -> None:
    """Refuse an array in which time could be any axis."""
    if isinstance(stream, np.ndarray) and stream.ndim > 2:
        raise DataError(
            f"a stream of slices was needed, but got one array of shape {stream.shape}, which "
            f"does not say along which axis time runs. Pass iter(array) for the first, "
            f"iter(np.moveaxis(array, -1, 0)) for the last, [array] if it is one slice."
        )


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


def _with_times(slices: list[Slice], time: Any) -> list[Slice]:
    if time is None:
        return slices
    if isinstance(time, str) or not hasattr(time, "__len__") or len(time) != len(slices):
        raise DataError(
            f"time must be a sequence of {len(slices)} times, one per slice passed in, but got "
            f"{time!r}. Pass as many times as slices."
        )
    return [x.with_time(t) for x, t in zip(slices, time, strict=True)]
