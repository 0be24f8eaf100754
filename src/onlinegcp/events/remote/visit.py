"""What a stream of events keeps of the places it reads; where it reads a file, next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

from onlinegcp.errors import DataError

if TYPE_CHECKING:
    from onlinegcp.events.remote.place import Place
    from onlinegcp.events.rows import RowReader, Rows

Bin = dict[str, Any] | None


@final
class Visit:
    """A stream's dealings with the place it reads.

    Parameters
    ----------
    place
        The place; None if the stream reads anything else.
    """

    def __init__(self, place: Place | None) -> None:
        self._place = place
        self._begun = False
        self._positions: dict[str, Any] = {}  # of all places of the run, by name
        self._brought: Bin = None  # the open bin of the state that was restored

    def restore(self, state: Mapping[str, Any]) -> bool:
        """Take over a state; whether no row that was read before will come again."""
        self._positions, self._brought = dict(state.get("positions") or {}), state["open"]
        return self._place is not None and self._place.continues(self._positions)

    def begin(self, reader: RowReader, closed: int | None, *, refuse_late: bool) -> int:
        """Tell the place how far the run has come; how many rows came late meanwhile."""
        self._begun = True
        if self._place is None:
            return 0
        n_late = self._place.begin(reader, closed, self._positions.get(self._place.name))
        if n_late and closed is not None and refuse_late:
            raise DataError(
                f"Rows must come before their time bin is closed, but {self._place.name} has "
                f"{n_late:,} new ones in bins up to {reader.bins.time(closed)}. Use on_late='drop' "
                "to leave such rows out and count them."
            )
        return n_late

    def reached(self, rows: Rows, start: int, end: int) -> None:
        """Rows of one bin come next."""
        if self._place is not None:
            row = rows.row(start)
            self._place.reached(int(rows.keys[start]), row, rows.row(end - 1) - row + 1)

    def ended(self) -> None:
        """All rows have been read."""
        if self._place is not None:
            self._place.ended()

    def open_bin(self, closed: int | None, packed: Callable[[], Bin]) -> Bin:
        """The open bin as a state keeps it: without rows that will be asked for again."""
        if self._place is None or self._place.keeps_open:
            return packed()
        kept = self._brought
        return kept if kept and (closed is None or kept["key"] > closed) else None

    def positions(self, closed: int | None) -> dict[str, Any]:
        """How far all places have been read when bins up to this one are stored."""
        if self._place is None or not self._begun:
            return dict(self._positions)
        return {**self._positions, self._place.name: self._place.position(closed)}

    def stored(self) -> None:
        """What `positions` gave last is stored."""
        if self._place is not None:
            self._place.stored()
