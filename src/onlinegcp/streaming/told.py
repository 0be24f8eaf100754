"""What a model was told about its slices: how many modes they have, what those and rows are called.

Parameters say it, or the first slice does. A matrix, which could be one slice or a table of many,
is read by what was told and refused where nothing was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from onlinegcp.checks import check_whole
from onlinegcp.errors import DataError
from onlinegcp.slices import Slice
from onlinegcp.streaming.naming import Labels, Names, padded


@dataclass(frozen=True)
class Told:
    """What is known about slices before they are read.

    Attributes
    ----------
    ndim
        Number of modes; None if nobody said.
    table
        Whether what comes in is scikit-learn's: it was fitted to a table, or a target comes along.
    names
        What rows and modes are called.
    named
        Whether the names of the modes are the caller's own.
    may_grow
        Whether new labels may come.
    """

    ndim: int | None = None
    table: bool = False
    names: Names | None = None
    named: bool = False
    may_grow: bool = True


NOTHING = Told()


class Telling:
    """The part of every streaming model that knows what it was told."""

    ndim: int | None
    mode_names: Sequence[str] | None
    feature_names_in_: Any
    _names: Names | None

    def _shape(self) -> tuple[int, ...] | None:
        raise NotImplementedError

    def _expect(self, x: Slice | None) -> None:
        """Take note of the slice after the one that is learned next, where it is known."""

    def coming(self, stream: Iterable[Any]) -> Iterable[Any]:
        """The items of a stream, each to be learned at once; a card is sent the next meanwhile."""
        return stream

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "n_slices_", 0) > 0

    def _check_fitted(self) -> None:
        """Refuse a model that has learned nothing, as scikit-learn does, whose check takes longer
        than all else in many a call."""
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)

    @property
    def row_labels_(self) -> Labels | None:
        """Names of the rows of each mode, where the data had any."""
        self._check_fitted()
        shape = self._shape()
        assert shape is not None
        if hasattr(self, "feature_names_in_"):
            return (tuple(map(str, self.feature_names_in_)),)
        if self._names is None or not any(self._names.labels):
            return None
        return padded(self._names.labels, shape)

    @property
    def mode_names_(self) -> tuple[str, ...] | None:
        """Names of the modes, where a parameter or the data told one."""
        self._check_fitted()
        if self._names is None or not any(self._names.modes):
            return None
        return tuple(name or f"mode {k + 1}" for k, name in enumerate(self._names.modes))

    def _declared(self) -> int | None:
        """How many modes the parameters say that slices have."""
        return self.ndim if self.mode_names is None else len(self.mode_names)

    def _told(self, *, table: bool = False, may_grow: bool = True) -> Told:
        """What parameters and earlier slices say about the next."""
        shape, ndim, names = self._shape(), self._declared(), self._names
        if ndim is None and shape is not None:
            ndim = len(shape)
        if names is not None and shape is not None:
            names = replace(names, labels=padded(names.labels, shape))
        table = (table and ndim in (None, 1)) or hasattr(self, "n_features_in_")
        return Told(ndim, table, names, self.mode_names is not None, may_grow)

    def _first_names(self) -> Names | None:
        """The names before the first slice."""
        if self.mode_names is None:
            return None
        return Names((None,) * len(self.mode_names), tuple(self.mode_names))


def check_told(ndim: Any, mode_names: Any) -> None:
    """Refuse parameters that contradict themselves or each other."""
    if ndim is not None:
        check_whole("ndim", ndim, 1)
    if mode_names is None:
        return
    several = isinstance(mode_names, Iterable) and not isinstance(mode_names, str)
    names = list(mode_names) if several else None
    if not names or not all(isinstance(name, str) and name for name in names):
        raise DataError(
            f"mode_names must be a sequence of names, one per mode, but got {mode_names!r}. Pass "
            f"such as ('station', 'hour')."
        )
    if len(set(names)) < len(names):
        raise DataError(f"mode_names must differ, but got {mode_names!r}. Rename one.")
    if ndim is not None and ndim != len(names):
        raise DataError(
            f"ndim and mode_names must agree, but ndim is {ndim} and {len(names)} names were "
            f"given. Leave out ndim, which follows from the names."
        )
