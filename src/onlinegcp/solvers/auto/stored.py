"""Copying and storing of a record that holds nothing but arrays and floats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from onlinegcp.sums.verbs import copied


class Stored:
    """What a dataclass of arrays and floats gets by deriving from this."""

    def copy(self) -> Self:
        """The same numbers in new memory."""
        return type(self)(**{name: _own(value) for name, value in vars(self).items()})

    def to_arrays(self, *, own: bool = True) -> dict[str, Any]:
        """Everything by name, in memory of its own or, to be read only, as it lies there."""
        # What copies in its own way, as from a card, has no arrays to be read before.
        copied = own or type(self).copy is not Stored.copy
        return dict(vars(self.copy() if copied else self))

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
