"""Names that data bring along: pandas and xarray know what their rows and axes are called.

Slices know positions only. What a container calls its rows is read here, kept by the model, and
compared with what it knows already: rows are matched by their labels, so that a frame whose columns
come in another order, or lack one, is still read as its owner means it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import numpy as np

from onlinegcp.errors import DataError, closest
from onlinegcp.slices import Slice

Labels: TypeAlias = tuple[tuple[str, ...] | None, ...]


@final
@dataclass(frozen=True)
class Names:
    """What the rows and the modes of slices are called.

    Attributes
    ----------
    labels
        Names of the rows of each mode, None for a mode without.
    modes
        Name of each mode, None for one without.
    """

    labels: Labels
    modes: tuple[str | None, ...]

    @property
    def any(self) -> bool:
        """Whether anything has a name."""
        return any(names is not None for names in (*self.labels, *self.modes))


def names_of(x: Any) -> Names | None:
    """The names a pandas, polars or xarray object brings along; None for all others."""
    kind = type(x)
    # Asked of the type: a data frame answers attribute requests with columns of that name.
    if all(hasattr(kind, name) for name in ("dims", "coords", "data")):
        dims = [str(dim) for dim in x.dims]
        labels = [x.coords[dim].values if dim in x.coords else None for dim in x.dims]
        # xarray's own names for axes without one.
        found = [None if dim == f"dim_{k}" else dim for k, dim in enumerate(dims)]
    elif hasattr(kind, "iloc") and hasattr(kind, "index"):
        axes = [x.index, x.columns] if hasattr(kind, "columns") else [x.index]
        # pandas numbers the rows of a frame without names by a RangeIndex.
        labels = [None if type(axis).__name__ == "RangeIndex" else axis for axis in axes]
        found = [None if axis.name is None else str(axis.name) for axis in axes]
    elif hasattr(kind, "with_columns") and hasattr(kind, "columns"):  # polars
        labels, found = [None, x.columns], [None, None]
    else:
        return None
    names = Names(tuple(_texts(axis, k) for k, axis in enumerate(labels)), tuple(found))
    return names if names.any else None


def align(
    x: Slice, found: Names | None, known: Names | None, *, may_grow: bool, given: bool = False
) -> tuple[Slice, Names | None]:
    """A slice in the order of modes and rows that a model knows, and the names known after it.

    Rows the slice has no label for are missing in it, unless it lists its cells; then they are what
    its other unlisted cells are.

    Parameters
    ----------
    x, found
        The slice, and the names it came with.
    known
        The names so far.
    may_grow
        Whether new labels become new rows; else they are refused.
    given
        Whether the names of the modes are the caller's own, and may differ from those of the data.
    """
    if found is None:
        return x, known
    if known is None:
        return x, found
    if len(known.modes) != x.ndim:
        return x, known  # refused soon, for its shape
    x, found = _turned(x, found, known, given=given)
    _refuse_exchanged(found.labels, known.labels)
    labels, places = [], []
    for k, (theirs, ours) in enumerate(zip(found.labels, known.labels, strict=True)):
        joined = _joined(theirs, ours, k, may_grow=may_grow)
        labels.append(joined)
        at = {label: i for i, label in enumerate(joined or ())}
        same = theirs is None or joined is None or theirs == joined[: len(theirs)]
        places.append(None if same else np.array([at[label] for label in theirs or ()]))
    modes = tuple(b if a is None else a for a, b in zip(known.modes, found.modes, strict=True))
    lengths = zip(labels, x.shape, strict=True)
    shape = tuple(n if names is None else max(n, len(names)) for names, n in lengths)
    return _placed(x, places, shape), replace(known, labels=tuple(labels), modes=modes)


def padded(labels: Labels, shape: Sequence[int]) -> Labels:
    """Labels for every row of a shape: rows that came without one are called by their number."""
    return tuple(
        None if names is None else (*names[:length], *(str(i) for i in range(len(names), length)))
        for names, length in zip(labels, shape, strict=True)
    )


def _texts(axis: Any, mode: int) -> tuple[str, ...] | None:
    if axis is None:
        return None
    texts = tuple(
        ", ".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in axis
    )
    if len(set(texts)) < len(texts):
        twice = next(text for i, text in enumerate(texts) if text in texts[:i])
        raise DataError(
            f"labels of one mode must differ, but {twice!r} occurs twice in mode {mode + 1}. "
            f"Rename one, or pass the bare array, whose rows go by their position."
        )
    return texts


def _turned(x: Slice, found: Names, known: Names, *, given: bool) -> tuple[Slice, Names]:
    """The slice with its modes in the known order, where both name all of them."""
    if None in found.modes or None in known.modes or found.modes == known.modes:
        return x, found
    if set(found.modes) != set(known.modes):
        if given and not set(found.modes) & set(known.modes):
            return x, found
        raise DataError(
            f"slices with the modes {_listed(known.modes)} were needed, but one has "
            f"{_listed(found.modes)}. Rename its axes, or pass the bare array."
        )
    order = [found.modes.index(mode) for mode in known.modes]
    labels = tuple(found.labels[k] for k in order)
    if x.array is not None:
        turned = Slice.dense(x.array.transpose(order), time=x.time)
    else:
        shape = [x.shape[k] for k in order]
        turned = Slice(x.index[:, order], x.value, shape, time=x.time, unlisted=x.unlisted)
    return turned, Names(labels, known.modes)


def _refuse_exchanged(found: Labels, known: Labels) -> None:
    """Refuse two modes without names each of which brings what the other one's rows are called.

    Few labels may do so by chance, as a sender and a receiver who never were the other before.
    """
    if found == known:
        return
    pairs = [
        (set(theirs or ()), set(ours or ())) for theirs, ours in zip(found, known, strict=True)
    ]
    strange = [k for k, (theirs, ours) in enumerate(pairs) if theirs.isdisjoint(ours)]
    for k, j in itertools.combinations(strange, 2):
        (one, ours), (other, others) = pairs[k], pairs[j]
        whole = 2 * len(one) >= len(others) and 2 * len(other) >= len(ours)
        if one and other and one <= others and other <= ours and whole and len(one | other) > 2:
            raise DataError(
                f"rows of mode {k + 1} came with labels of mode {j + 1}, such as {min(one)!r}, and "
                f"the other way round. Transpose the slice, or name its axes, which may then come "
                f"in any order."
            )


def _joined(
    theirs: tuple[str, ...] | None, ours: tuple[str, ...] | None, mode: int, *, may_grow: bool
) -> tuple[str, ...] | None:
    """Known labels and the new ones after them."""
    if theirs is None or ours is None or theirs == ours:
        return theirs if ours is None else ours
    seen = set(ours)
    new = [label for label in theirs if label not in seen]
    if new and not may_grow:
        advice = closest(new[0], ours) or " Learn a slice with it first, or leave it out."
        raise DataError(
            f"labels learned before were needed, but {new[0]!r} is new in mode {mode + 1}.{advice}"
        )
    return (*ours, *new)


def _placed(x: Slice, places: Sequence[Any], shape: tuple[int, ...]) -> Slice:
    if x.shape == shape and all(place is None for place in places):
        return x
    rows = [np.arange(n) if p is None else p for p, n in zip(places, x.shape, strict=True)]
    if x.array is not None:
        whole = np.full(shape, np.nan)
        whole[np.ix_(*rows)] = x.array
        return Slice.dense(whole, time=x.time)
    index = np.stack([row[x.index[:, k]] for k, row in enumerate(rows)], axis=1)
    return Slice(index, x.value, shape, time=x.time, unlisted=x.unlisted)


def _listed(modes: Sequence[str | None]) -> str:
    return ", ".join(map(str, modes))
