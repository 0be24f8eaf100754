"""Row sums that go from worker to worker, until those of all chunks are in them.

Row sums are added in the order of chunks. Where several workers in turn have chunks with the same
rows, the first adds up its own and hands the sum on, the next adds its own to that, one chunk after
the other, and so on: the same additions in the same order, and the driver gets each row once
instead of once per chunk. Of a grid that is shared out as blocks, these are its lines and columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from numpy.typing import NDArray

from onlinegcp.sums.chunks import RowChunks
from onlinegcp.sums.prefixes import ShareSums

Array = NDArray[Any]
# Sums of a share: one it has added up, by number; or others, by place of the chunk and which of it.
Pick = int | list[tuple[int, int]]


@dataclass(frozen=True)
class Relay:
    """Some rows of a mode, and whose chunks have sums of them.

    Attributes
    ----------
    mode
        The mode.
    rows
        The first of them, and the one after the last.
    legs
        In the order of chunks: who, and which chunks.
    """

    mode: int
    rows: tuple[int, int]
    legs: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def path(self) -> tuple[int, ...]:
        """Who, in order."""
        return tuple(owner for owner, _ in self.legs)


def relays(chunks: RowChunks, modes: range, owners: Sequence[int]) -> list[Relay]:
    """Rows whose sums can go from one to the next, each of whom has them once.

    Parameters
    ----------
    chunks
        The cells.
    modes
        The modes whose sums are wanted.
    owners
        Who has each chunk.

    Examples
    --------
    Four chunks of a grid, the left of them one's, the right another's:

    >>> import numpy as np
    >>> lows, highs = np.array([[0, 0], [0, 4], [2, 0], [2, 4]]), np.array([[2, 4], [2, 9]] * 2)
    >>> highs[2:, 0] = 7
    >>> grid = RowChunks((), np.arange(5), lows, highs)
    >>> [(relay.mode, relay.rows, relay.legs) for relay in relays(grid, range(2), [0, 1, 0, 1])]
    [(0, (0, 2), ((0, (0,)), (1, (1,)))), (0, (2, 7), ((0, (2,)), (1, (3,))))]
    """
    found = []
    for mode in modes:
        groups = defaultdict[tuple[int, int], list[int]](list)
        for chunk, spans in enumerate(chunks.spans):
            groups[spans[mode]].append(chunk)
        if any(low < high for (_, high), (low, _) in pairwise(sorted(groups))):
            continue  # a row with sums in two groups has an order between these
        for rows, own in groups.items():
            legs = [(who, tuple(some)) for who, some in groupby(own, key=owners.__getitem__)]
            each_once = len({who for who, _ in legs}) == len(legs)
            if len(legs) > 1 and each_once and rows[0] < rows[1]:
                found.append(Relay(mode, rows, tuple(legs)))
    return found


def by_path(some: Sequence[Relay]) -> list[list[Relay]]:
    """Relays in groups that go the same way."""
    found = defaultdict[tuple[int, ...], list[Relay]](list)
    for relay in some:
        found[relay.path].append(relay)
    return list(found.values())


def handed_on(
    share: ShareSums, picks: Sequence[Pick], before: Sequence[Array] | None
) -> list[Array]:
    """Sums that came from the one before, with those of a share; of the first, those alone.

    Parameters
    ----------
    share
        What the chunks of one worker gave.
    picks
        For each relay what there is to add.
    before
        The sums so far, which stay as they are: a task may be done twice.
    """
    if before is None:
        return [share.first[pick] for pick in picks if isinstance(pick, int)]
    found = []
    for total, pick in zip(before, picks, strict=True):
        assert not isinstance(pick, int)
        (place, which), *rest = pick
        more = total + share.others[place][which]
        for place, which in rest:
            more += share.others[place][which]
        found.append(more)
    return found
