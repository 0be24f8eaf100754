"""Taking back half a step of a solver that changes its state in place.

Before a step all arrays of the state are copied into one buffer, which stays from step to step: the
copy runs at the speed of memory, where new arrays would cost ten times as much.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.streaming.keeping import all_finite

Array = NDArray[Any]

# Numbers up to which one new array is made and looked at, instead of each by itself.
SMALL = 8192
_PLAIN = frozenset({float, int, str, bool, type(None)})


@final
class Undo:
    """Remembers a state, a dataclass of arrays, scalars and such dataclasses, as it is.

    Attributes
    ----------
    pending
        Whether the state may have been changed since, and must be taken back before it is used.

    Examples
    --------
    >>> from onlinegcp.solvers.auto.forgetting import Forgetting
    >>> state = Forgetting(0.9, 1.0, np.ones(2), 1.0, np.ones(2), np.ones(2))
    >>> undo = Undo()
    >>> undo.note(state)
    True
    >>> state.memory, state.own[0], state.lift = 7.0, 7.0, np.zeros(3)
    >>> undo.undo()
    >>> state.memory, state.own, state.lift
    (1.0, array([1., 1.]), array([1., 1.]))
    """

    def __init__(self) -> None:
        self.pending = False
        self._state: Any = None
        self._records: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._arrays: list[Array] = []
        self._others: list[tuple[Array, Array]] = []  # that are not of floats
        self._buffer = np.empty(0)

    def __reduce__(self) -> tuple[type[Undo], tuple[()]]:
        return Undo, ()  # a copied model has other arrays

    def knows(self, state: Any) -> bool:
        """Whether this state, as it is, was noted last."""
        return self._state is state and not self.pending

    def note(self, state: Any) -> bool:
        """Remember a state; False, and what was remembered before stays, if it is not finite."""
        records: list[dict[str, Any]] = []
        arrays: list[Array] = []
        others: list[Array] = []
        _walk(vars(state), records, arrays, others)
        flat = [array.reshape(-1) for array in arrays]
        size = sum(map(len, flat))
        if size <= SMALL:
            together = np.concatenate(flat)
            if not all_finite([together]):
                return False
            self._buffer = together
        elif all_finite(arrays):
            if len(self._buffer) != size:
                self._buffer = np.empty(size)
            np.concatenate(flat, out=self._buffer)
        else:
            return False
        self._state, self._arrays = state, arrays
        self._records = [(fields, fields.copy()) for fields in records]
        self._others = [(array, array.copy()) for array in others]
        self.pending = False
        return True

    def undo(self) -> None:
        """Make the state what it was; may be done again where it was cut off."""
        for fields, before in self._records:
            fields.clear()
            fields.update(before)
        start = 0
        for array in self._arrays:
            array[...] = self._buffer[start : start + array.size].reshape(array.shape)
            start += array.size
        for array, copied in self._others:
            array[...] = copied
        self.pending = False


def _walk(
    fields: dict[str, Any],
    records: list[dict[str, Any]],
    arrays: list[Array],
    others: list[Array],
) -> None:
    records.append(fields)
    for value in fields.values():
        kind = type(value)
        if kind is np.ndarray:
            if value.size:
                (arrays if value.dtype == np.float64 else others).append(value)
        elif kind not in _PLAIN and hasattr(value, "__dataclass_fields__"):
            _walk(vars(value), records, arrays, others)
