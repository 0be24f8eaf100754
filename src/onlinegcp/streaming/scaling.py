"""Rows in units of their own: one row a thousand times the size of the others drowns them.

Squared losses count units: of pressure in pascal beside wind in metres per second they see only the
first. Rows of one mode can be divided by their usual size, learned from the first slices, while the
solver works; factors and predictions keep the units of the data.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinegcp.checks import check_whole
from onlinegcp.errors import DataError, ScaleWarning
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice

if TYPE_CHECKING:
    from onlinegcp.streaming.model import StreamingModel

FloatArray: TypeAlias = NDArray[np.float64]
Called: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]] | None]

DROWNING = 100.0  # times the median row from which a row is told of


def row_sizes(slices: Sequence[Slice], mode: int) -> FloatArray:
    """Root mean square of the observed cells in each row of a mode; 0 for rows without any."""
    length = max(x.shape[mode] for x in slices)
    squares, cells = np.zeros(length), np.zeros(length)
    for x in slices:
        others = tuple(k for k in range(x.ndim) if k != mode)
        if x.array is not None:
            squares[: x.shape[mode]] += np.square(x.array).sum(axis=others)
            cells[: x.shape[mode]] += x.size / x.shape[mode]
            continue
        rows = x.index[:, mode]
        squares += np.bincount(rows, weights=x.value**2, minlength=length)
        observed = np.bincount(rows, minlength=length)
        if x.unlisted == "zero":
            observed = np.full(length, x.size / x.shape[mode])
        cells += observed
    return np.asarray(np.sqrt(squares / np.maximum(cells, 1.0)))


def units(slices: Sequence[Slice], mode: int, known: FloatArray | None = None) -> FloatArray:
    """The unit of each row: its usual size, or for rows that held nothing that of the median row.

    Parameters
    ----------
    slices
        Where sizes are taken from.
    mode
        Which rows.
    known
        Units of the first rows, which stay.
    """
    sizes = row_sizes(slices, mode)
    first = np.empty(0) if known is None else known
    usual = np.concatenate([first, sizes[len(first) :]])
    positive = usual[usual > 0.0]
    middle = float(np.median(positive)) if positive.size else 1.0
    return np.where(usual > 0.0, usual, middle)


def in_units(x: Slice, mode: int, sizes: FloatArray) -> Slice:
    """The slice with the rows of a mode divided by their units."""
    if x.array is not None:
        shape = [1] * x.ndim
        shape[mode] = -1
        return Slice.dense(x.array / sizes.reshape(shape), time=x.time)
    value = x.value / sizes[x.index[:, mode]]
    return Slice(x.index, value, x.shape, time=x.time, unlisted=x.unlisted)


def in_data_units(
    factors: Sequence[FloatArray], mode: int, sizes: FloatArray
) -> tuple[FloatArray, ...]:
    """Factors of slices in their own units, as factors of the data."""
    return tuple(a * sizes[:, None] if k == mode else a for k, a in enumerate(factors))


def check_scale(scale: Any, loss: Loss, *, auto: bool, given: bool) -> None:
    """Refuse a mode to scale where there is nothing to scale.

    Parameters
    ----------
    scale
        The parameter.
    loss
        The loss.
    auto
        Whether the default solver was chosen.
    given
        Whether the start was given by the caller.
    """
    if scale is None:
        return
    if not isinstance(scale, str):
        check_whole("scale", scale, 0)
    if not squared(loss):
        raise DataError(
            f"scale is for losses that count in squares of the data, but the loss is {loss.name}, "
            f"which knows the size of its noise. Leave it out."
        )
    if not auto or given:
        raise DataError(
            "scale needs solver='auto' and its own warm start, from which it learns the units, but "
            "another was chosen. Leave it out, and divide the data yourself."
        )


def squared(loss: Loss) -> bool:
    """Whether a loss grows with the square of the data, so that units count."""
    return loss.traits.quadratic or loss.traits.tempered


def drowning_row(slices: Sequence[Slice]) -> tuple[int, int, float] | None:
    """The first mode with a row beside which the others vanish.

    Returns
    -------
    mode, row, times
        Where it is, and how many times the size of the median row; None where there is none.
    """
    for mode in range(slices[0].ndim if slices else 0):
        sizes = row_sizes(slices, mode)
        held = np.sort(sizes[sizes > 0.0])
        if len(held) > 1 and held[-1] > DROWNING * held[(len(held) - 1) // 2]:
            return mode, int(sizes.argmax()), float(held[-1] / held[(len(held) - 1) // 2])
    return None


_CALLED: ContextVar[Called | None] = ContextVar("called", default=None)


@contextlib.contextmanager
def calling(modes: Sequence[str], labels: Sequence[Sequence[str]] | None) -> Iterator[None]:
    """Within the block, modes and rows of models that know no names are called by these.

    Parameters
    ----------
    modes
        Names of the modes.
    labels
        Names of the rows of each, if there are any.
    """
    before = _CALLED.set((modes, labels))
    try:
        yield
    finally:
        _CALLED.reset(before)


def tell_scale(model: StreamingModel, slices: Sequence[Slice]) -> None:
    """Say once that one row drowns the others."""
    if not squared(model.loss_) or getattr(model, "scale", None) is not None:
        return
    found = drowning_row(slices)
    if found is None:
        return
    mode, row, times = found
    modes, rows = _CALLED.get() or ((), None)
    names, known = model.mode_names_ or modes, model.row_labels_ or rows
    labels = (known[mode] if known is not None and mode < len(known) else None) or ()
    called = repr(labels[row]) if row < len(labels) else row
    named = names[mode] if mode < len(names) else f"mode {mode + 1}"
    advice = f"Pass scale={mode}" if hasattr(model, "scale") else "Use OnlineGCP with scale"
    warnings.warn(
        f"row {called} of {named} is {times:,.0f} times the size of the median row, and "
        f"squared errors see little else. {advice} to give each row of that mode its own unit.",
        ScaleWarning,
        stacklevel=6,
    )
