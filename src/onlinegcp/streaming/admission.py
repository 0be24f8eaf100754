"""Which slices a method takes, by what its class declares; a refusal names the methods that do."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinegcp.errors import DataError, RankWarning
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice, widen
from onlinegcp.streaming.keeping import LARGEST, check_values
from onlinegcp.streaming.state import FloatArray

if TYPE_CHECKING:
    from onlinegcp.streaming.model import StreamingModel

# Numbers up to which values of several slices are looked at together.
TOGETHER = 1 << 15
# Bytes of state that a method may take where its caller sets no `state_limit`.
STATE_LIMIT = 2**30


def admit(
    model: StreamingModel,
    slices: Sequence[Slice],
    expected: tuple[int, ...] | None,
    *,
    may_grow: bool,
) -> list[Slice]:
    """The slices in the model's shape, or what it will have grown to; refuses bad ones.

    Parameters
    ----------
    model
        The model.
    slices
        What came in.
    expected
        Shape of the model, None before its first slice.
    may_grow
        Whether the slices will be learned, so that modes may get longer.
    """
    loss, declared, grows, admitted = model.loss_, model._declared(), model._may_grow(), []
    restricted = loss.domain != "real"  # else what a slice can hold is inside
    like: tuple[int, ...] | None = None  # shape of a dense slice that was admitted
    for k, x in enumerate(slices):
        if x.array is not None and x.shape == like:
            admitted.append(x)
            continue
        where = _where(k, len(slices))
        if declared not in (None, x.ndim):
            raise DataError(
                f"slices of {declared} modes were needed, as ndim or mode_names say, but "
                f"{where} has {x.ndim}. Change the parameter, or reshape the data."
            )
        expected = x.shape if expected is None else expected
        if grows and x.ndim == len(expected):
            larger = tuple(map(max, x.shape, expected))
            # A dense slice tells of every row there is, so it may not have fewer than before.
            if (may_grow or larger == expected) and (x.array is None or x.shape == larger):
                expected = larger
                x = widen(x, larger)
        if x.shape != expected:
            raise DataError(
                f"slices of shape {expected} were needed, as before, but {where} has shape "
                f"{x.shape}. Build all of them with the same number of rows per mode."
            )
        if x.n_observed < x.size and not model.takes_missing:
            raise DataError(
                f"{type(model).__name__} needs complete slices, but {where} misses "
                f"{x.size - x.n_observed:,} of {x.size:,} cells (NaN, or unlisted='missing'). "
                f"Use {_names(cls for cls in _methods() if cls.takes_missing)}, which take "
                f"missing cells."
            )
        _check_size(model, x)
        like = None if x.array is None else expected  # a slice between may have made it longer
        if x.array is None:
            check_values(x, where)
            if restricted or (x.n_unlisted_zeros and not loss.unlisted_zeros_allowed):
                loss.check(x.value, x.index, unlisted_zeros=x.n_unlisted_zeros)
            if model.dense_only and x.n_observed == x.size:
                x = Slice.dense(x.to_dense(), time=x.time)
        admitted.append(x)
    _check_dense(admitted, loss if restricted else None)
    return admitted


def _where(k: int, count: int) -> str:
    return "the slice" if count == 1 else f"slice {k} of those passed in"


def _check_dense(slices: Sequence[Slice], loss: Loss | None) -> None:
    """Refuse values of dense slices; many small ones are looked at together."""
    at = 0
    while at < len(slices):
        first, at = at, at + max(1, TOGETHER // slices[at].size)
        arrays = [x.value for x in slices[first:at] if x.array is not None]
        if len(arrays) > 1 and _fits(np.concatenate(arrays), loss):
            continue
        for k in range(first, min(at, len(slices))):
            if (array := slices[k].array) is not None:
                check_values(slices[k], _where(k, len(slices)))
                if loss is not None:  # the slice's own shape names the place
                    loss.check(array)


def _fits(values: FloatArray, loss: Loss | None) -> bool:
    if loss is not None:
        try:
            loss.check(values)
        except DataError:
            return False
    return bool(values.max() <= LARGEST and values.min() >= -LARGEST)


def tell_rank(model: StreamingModel, cells: int) -> None:
    """Say once that there are more components than any stream of such slices can need."""
    if not model.changes_rank and model.rank > cells:
        warnings.warn(
            f"{model.rank} components were asked for, but slices of {cells} "
            f"{'cell' if cells == 1 else 'cells'} are explained by {cells} without any error: "
            f"the others mean nothing. Use rank={cells} or less.",
            RankWarning,
            stacklevel=5,
        )


def _check_size(model: StreamingModel, x: Slice) -> None:
    """Refuse a slice shape whose state would take more memory than allowed, before it does."""
    limit = getattr(model, "state_limit", STATE_LIMIT)
    needed = _bytes_for(model, x)
    if needed <= limit:
        return
    rivals = (
        cls
        for cls in _methods()
        if (cls.takes_missing or x.n_observed == x.size) and _bytes_for(cls(model.rank), x) <= limit
    )
    raise DataError(
        f"{type(model).__name__} may hold {limit:,} bytes (state_limit), but with rank "
        f"{model.rank} it needs {needed:,} for slices of shape {x.shape}, {x.size:,} cells. Use "
        f"{_names(rivals)}, a smaller rank or fewer rows, or raise state_limit."
    )


def _bytes_for(model: StreamingModel, x: Slice) -> int:
    written_out = 8 * x.size if model.dense_only and x.array is None else 0
    return (model._largest_state(x.shape) or 0) + written_out


def _methods() -> list[Any]:
    from onlinegcp.streaming import METHODS

    return list(METHODS.values())


def _names(classes: Any) -> str:
    *others, last = [cls.__name__ for cls in classes]
    return f"{', '.join(others)} or {last}" if others else str(last)
