"""What is remembered while a period is looked for: the total and the heaviest rows, by slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.anomaly.season import CYCLES, find_period, sought

FloatArray: TypeAlias = NDArray[np.float64]

WATCHED = 16  # heaviest rows of each mode that are looked at
LONGEST = CYCLES * 168  # slices of which so many rows are remembered


@final
class PeriodSearch:
    """The newest slices, until it is known at which period they repeat.

    Parameters
    ----------
    known
        Period that they have in any case; 1 for none.
    on
        Whether a longer one is looked for.
    """

    def __init__(self, known: int = 1, *, on: bool = True) -> None:
        self.known = known
        self.on = on and bool(sought(known))
        self.rows: list[list[int]] = []
        self.values = np.zeros((0, 0))

    def add(self, total: float, rows: Sequence[FloatArray] | None, *, counted: bool) -> int:
        """Remember a slice, and see now and then whether slices repeat: the period, or 0.

        Parameters
        ----------
        total
            Of the slice.
        rows
            What the rows of each mode hold; None where nothing was observed.
        counted
            Whether they are sums of counts, whose roots vary alike.
        """
        looks = looks_for(self.known)
        if not self.rows:
            if rows is None:
                return 0  # nothing tells yet which rows are heavy
            # As many numbers for a week of quarters of an hour as for one of hours.
            most = max(1, WATCHED * LONGEST // max(looks[-1], LONGEST))
            self.rows = [
                np.argsort(-np.nan_to_num(row), kind="stable")[:most].tolist() for row in rows
            ]
            self.values = np.zeros((0, 1 + sum(map(len, self.rows))))
        newest = np.full((1, self.values.shape[1]), np.nan)
        if rows is not None:
            held = [row[places] for row, places in zip(rows, self.rows, strict=True)]
            newest[0] = np.concatenate([[total], *held])
            if counted:
                newest[0, 1:] = np.sqrt(np.maximum(newest[0, 1:], 0.0))
        self.values = np.concatenate([self.values, newest])
        return find_period(self.values, self.known) if len(self.values) in looks else 0

    def end(self) -> None:
        """Forget all, once there is nothing more to find."""
        if len(self.values) >= looks_for(self.known)[-1]:
            self.on, self.values = False, np.zeros((0, 0))

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and numbers it goes on from."""
        return {"watched": self.values}, {
            "looking": self.on,
            "known": self.known,
            "watched_rows": self.rows,
        }

    @classmethod
    def from_state(
        cls, arrays: Mapping[str, NDArray[Any]], record: Mapping[str, Any]
    ) -> PeriodSearch:
        """What `state` described."""
        # An earlier version looked only where nothing was known.
        made = cls(int(record.get("known", 1)), on=bool(record["looking"]))
        made.rows = [list(map(int, rows)) for rows in record["watched_rows"]]
        made.values = np.array(arrays["watched"], dtype=np.float64)
        return made


@cache
def looks_for(known: int) -> tuple[int, ...]:
    """Numbers of slices after which a period is looked for, where one is known.

    Examples
    --------
    >>> looks_for(1), looks_for(24)
    ((21, 36, 42, 72, 144, 156, 504), (504,))
    """
    periods = sought(known)
    short = [period for period in periods if 6 * period < periods[-1]]
    return tuple(sorted({CYCLES * p for p in periods} | {2 * CYCLES * p for p in short}))
