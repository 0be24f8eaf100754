"""What `from_events` can be asked for, once it has been checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, final

from onlinegcp.events.cells import Aggregation
from onlinegcp.events.reading import Workers
from onlinegcp.events.vocabulary import OnNew

OnLate = Literal["drop", "error"]
Empty = Literal["zero", "missing", "skip"]
Groups = tuple[tuple[str, ...], ...]


@final
@dataclass(frozen=True)
class Options:
    """What `from_events` was asked for, checked; see there. `known` and `top` go by group."""

    aggregation: Aggregation
    empty: Empty
    on_new: OnNew
    on_late: OnLate
    in_order: bool | None
    close_last: bool
    max_gap: int
    workers: Workers | None = None
    known: Mapping[str, Sequence[str]] = field(default_factory=dict)
    top: Mapping[str, int] = field(default_factory=dict)
