"""Which slices a method takes, by what its class declares; a refusal names the methods that do."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onlinegcp.errors import DataError, RankWarning
from onlinegcp.slices import Slice, widen
from onlinegcp.streaming.keeping import check_values

if TYPE_CHECKING:
    from onlinegcp.streaming.model import StreamingModel

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
    loss, admitted = model.loss_, []
    for k, x in enumerate(slices):
        where = "the slice" if len(slices) == 1 else f"slice {k} of those passed in"
        if model._declared() not in (None, x.ndim):
            raise DataError(
                f"slices of {model._declared()} modes were needed, as ndim or mode_names say, but "
                f"{where} has {x.ndim}. Change the parameter, or reshape the data."
            )
        expected = x.shape if expected is None else expected
        if model._may_grow() and x.ndim == len(expected):
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
        check_values(x, where)
        # A dense slice's own shape names the place; its index is better never built.
        values, index = (x.value, x.index) if x.array is None else (x.array, None)
        loss.check(values, index, unlisted_zeros=x.n_unlisted_zeros)
        if model.dense_only and x.array is None and x.n_observed == x.size:
            x = Slice.dense(x.to_dense(), time=x.time)
        admitted.append(x)
    return admitted


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
