"""Copying and storing of a record that holds nothing but arrays and floats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeVar

import numpy as np

from onlinegcp.sums.verbs import copied

T = TypeVar("T")


def altered(record: T, **changes: Any) -> T:
    """A record with some fields changed: `dataclasses.replace` in a fifth of its time.

    For records that check nothing when they are made.
    """
    new = object.__new__(type(record))
    vars(new).update(vars(record))
    vars(new).update(changes)
    return new


class Stored:
    """What a dataclass of arrays and floats gets by deriving from this."""

    def copy(self) -> Self:
        """The same numbers in new memory."""
        return type(self)(**{name: _own(value) for name, value in vars(self).items()})

    def to_arrays(self) -> dict[str, Any]:
        """Everything by name, in memory of its own."""
        return dict(vars(self.copy()))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """What `to_arrays` gave; scalars may come back from a file as 0-d arrays."""
        return cls(
            **{
                name: np.array(value, dtype=np.float64) if np.ndim(value) else float(value)
                for name, value in arrays.items()
            }
        )


def _own(value: Any) -> Any:
    return copied(value) if isinstance(value, np.ndarray) else value
