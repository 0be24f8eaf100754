"""Row sums that a worker was asked for, and where on the driver they belong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from onlinegcp.sums.relays import Pick
from onlinegcp.sums.shares import Rows
from onlinegcp.sums.ways import Answer, Line

Array = NDArray[Any]
Place = tuple[int, Rows]  # where a mode begins, and rows of it


@dataclass
class Asked:
    """Row sums that a worker has been asked for.

    Attributes
    ----------
    answer
        Where they will be.
    chunks
        The chunks it has.
    firsts
        For each sum that is added up there, where it belongs.
    lines
        By the first chunk of a line of the grid, the other sums of its chunks that will be taken.
    alone
        Where the other sums of each chunk belong.
    sums
        What `first_sums` says of the chunks.
    """

    answer: Answer
    chunks: list[int]
    firsts: list[Place]
    lines: dict[int, Line]
    alone: list[list[Place]]
    sums: list[list[int]]

    def take_others(
        self, line: int, wait: Callable[[Any], None]
    ) -> list[tuple[int, list[tuple[Array, Place]]]]:
        """Other sums and where they belong, for the chunks of a line that have some."""
        wanted = self.lines.get(line)
        if not wanted:
            return []
        found = zip(wanted, self.answer.take_others(wanted, wait), strict=True)
        return [(self.chunks[p], list(zip(sums, self.alone[p], strict=True))) for p, sums in found]

    def pick(self, chunks: Sequence[int], mode: int) -> Pick:
        """What these chunks have to say of a mode (the first wanted is 0)."""
        places = [self.chunks.index(chunk) for chunk in chunks]
        if (number := self.sums[places[0]][mode]) >= 0:
            return number
        return [(place, other_number(self.sums[place], mode)) for place in places]


def other_number(sums: Sequence[int], mode: int) -> int:
    """Which of the other sums of a chunk is that of a mode (the first wanted is 0)."""
    return sum(number < 0 for number in sums[:mode])
