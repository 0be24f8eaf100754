"""What a streaming model may be fed: one slice, several, or scikit-learn's table of samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from onlinegcp.errors import DataError
from onlinegcp.slices import Slice, as_slice, widen
from onlinegcp.streaming.keeping import check_size

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


def check_slices(
    model: Any, slices: Sequence[Slice], shape: tuple[int, ...], *, may_grow: bool
) -> list[Slice]:
    """The slices in the model's shape, or what it will have grown to; refuses bad ones.

    Parameters
    ----------
    model
        The model.
    slices
        What came in.
    shape
        What slices had before.
    may_grow
        Whether these slices may bring new rows, if the method takes them.
    """
    loss, checked = model.loss_, []
    for k, x in enumerate(slices):
        where = "the slice" if len(slices) == 1 else f"slice {k} of those passed in"
        if model._may_grow() and x.ndim == len(shape):
            larger = tuple(map(max, x.shape, shape))
            # A dense slice tells of every row there is, so it may not have fewer than before.
            if (may_grow or larger == shape) and (x.array is None or x.shape == larger):
                shape = larger
                x = widen(x, larger)
        if x.shape != shape:
            raise DataError(
                f"slices of shape {shape} were needed, as before, but {where} has shape "
                f"{x.shape}. Build all of them with the same number of rows per mode."
            )
        if x.n_observed < x.size and not model.takes_missing:
            raise DataError(
                f"{type(model).__name__} needs complete slices, but {where} misses "
                f"{x.size - x.n_observed:,} of {x.size:,} cells (NaN, or unlisted='missing'). "
                f"Use OnlineGCP or OnlineSGD, which take missing cells."
            )
        # A dense slice's own shape names the place; its index is better never built.
        values, index = (x.value, x.index) if x.array is None else (x.array, None)
        check_size(x, where)
        loss.check(values, index, unlisted_zeros=x.n_unlisted_zeros)
        checked.append(x)
    return checked


def is_stream(x: Any) -> bool:
    """Whether x hands out slices one by one, such as a generator, and is not data itself."""
    return (
        isinstance(x, Iterable)
        and not isinstance(x, Slice | list | tuple | str | bytes)
        and not hasattr(type(x), "__array__")
        and not _is_tensor(x)
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
