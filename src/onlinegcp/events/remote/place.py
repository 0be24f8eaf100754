"""A place that keeps events and can be told how far a run has come: a database, or a log.

Files are given again after an interruption, and what was learned is passed over. A place is asked
only for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from onlinegcp.events.rows import RowReader


class Place(Protocol):
    """What a stream of events asks and tells a place.

    Attributes
    ----------
    name : str
        Names it in errors and in the run, without secrets.
    described : dict
        Its line in sources.jsonl: `kind`, and what else tells where the rows were.
    keeps_open : bool
        Whether the rows of a bin that is still open at the end are kept in the run. If not, they
        are asked for again.
    """

    @property
    def name(self) -> str: ...

    @property
    def described(self) -> dict[str, Any]: ...

    @property
    def keeps_open(self) -> bool: ...

    def continues(self, positions: Mapping[str, Any]) -> bool:
        """Whether no row that was read before comes again, given all positions of the run."""
        ...

    def begin(self, reader: RowReader, closed: int | None, position: Any) -> int:
        """Called once, before the first row is read.

        Parameters
        ----------
        reader
            Knows the time column and its bins.
        closed
            The last bin that was closed; None at the start of a run.
        position
            What `position` gave when the run was last stored; None at the start.

        Returns
        -------
        n_late
            Rows that have come to closed bins since, and will not be handed out.
        """
        ...

    def reached(self, key: int, row: int, n_rows: int) -> None:
        """Rows of one bin come next: all rows before this one belong to earlier bins.

        Parameters
        ----------
        key
            The bin.
        row
            Number of the first of them, counted from 1.
        n_rows
            How many there are.
        """
        ...

    def ended(self) -> None:
        """All rows have been read."""
        ...

    def position(self, closed: int | None) -> Any:
        """Where to go on when bins up to this one are stored, ready for JSON."""
        ...

    def stored(self) -> None:
        """What `position` gave last is stored."""
        ...
