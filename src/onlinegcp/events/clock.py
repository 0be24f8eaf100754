"""The clock that the many streams of one table have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(frozen=True)
class Clock:
    """How the table's times are read, and how far it has come.

    A customer who buys nothing today has a silent day, not none: bins are closed by the events of
    everybody. And 01/02/2018 means one thing to all of them, however little each has to say.

    Attributes
    ----------
    columns
        How times are read, from `RowReader.state`.
    open_from
        The first bin that is not closed when the table ends.
    cut
        Bins of which the table holds a part only.
    """

    columns: Mapping[str, Any]
    open_from: int
    cut: Sequence[int] = ()

    def cut_at_start(self, key: int) -> bool:
        """Whether the table holds a part of a bin only, be it cut at its start or its end."""
        return key in self.cut
