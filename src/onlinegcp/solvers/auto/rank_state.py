"""Where the search for the rank stands: a record of arrays and scalars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.solvers.auto.model import Model

Array = NDArray[Any]

PAUSE = 15  # slices after a failure, doubled with every further one
LONGEST_PAUSE = 960  # even trials that always failed are made anew
BOLDEST = 8  # components in one trial
WAYS = ((4, False), (4, True), (1, False), (1, True))  # to grow: how many, and whether anew
URGENT = 4  # slices from which new patterns are made when slices surprise


@dataclass
class Direction:
    """Where the trials of one kind stand: those that grow, or those that shrink.

    Attributes
    ----------
    next
        Slices the model must have learned before the next.
    failures
        In a row.
    count
        Components of the next trial.
    """

    next: int = 0
    failures: int = 0
    count: int = 1

    def succeed(self, soon: int) -> None:
        """Go on soon, with twice as many."""
        self.next, self.failures, self.count = soon, 0, min(2 * self.count, BOLDEST)

    def fail(self, soon: int, ways: int) -> None:
        """Wait, once all ways to do it have failed."""
        self.failures += 1
        self.next = soon + pause_after(self.failures - ways + 1)

    def retreat(self, soon: int) -> None:
        """Try half as many; wait, once it was one that failed."""
        if self.count > 1:
            self.next, self.count = soon, self.count // 2
        else:
            self.fail(soon, 1)


def pause_after(failures: int) -> int:
    """Slices until the next trial."""
    return int(min(PAUSE * 2.0 ** (failures - 1), LONGEST_PAUSE)) if failures > 0 else 0


@dataclass
class RankTrials:
    """The search for the rank, along the stream.

    Attributes
    ----------
    most
        Largest rank.
    twin
        A second model with other components, while it is on trial.
    order
        For every component of the twin its place in the model, -1 for a new one.
    gains
        Number, sum and sum of squares of its gains on cells not seen, recent ones counting more;
        then how many more were positive than negative.
    judged
        Slices it was judged on.
    spare
        Of the twin of a look, how many components a study could not tell from none; -1 for others.
    window
        Slices from which new components are made; 0 for as many as a warm start takes.
    look, gap
        Slices the model must have learned before the rank is studied once more, and how many more
        before the study after that; 0 where that is not yet known.
    growing, shrinking
        The two kinds of trials.
    """

    most: int
    twin: Model | None = None
    order: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    gains: Array = field(default_factory=lambda: np.zeros(4))
    judged: int = 0
    spare: int = -1
    window: int = 0
    look: int = 0
    gap: int = 0
    growing: Direction = field(default_factory=Direction)
    shrinking: Direction = field(default_factory=Direction)

    def larger_than(self, rank: int) -> bool:
        """Whether the twin has more components than these, or as many but others."""
        return len(self.order) >= rank

    def copy(self) -> RankTrials:
        """Trials that share no memory with these."""
        return replace(
            self,
            twin=None if self.twin is None else self.twin.copy(),
            order=self.order.copy(),
            gains=self.gains.copy(),
            growing=replace(self.growing),
            shrinking=replace(self.shrinking),
        )

    def begin(self, twin: Model, order: list[int], spare: int = -1) -> None:
        """Put a twin on trial."""
        self.twin, self.order, self.spare = twin, np.array(order, dtype=np.int64), spare
        self.gains, self.judged = np.zeros(4), 0

    def end(self) -> None:
        """Give up the trial that is running, if any."""
        self.twin, self.order = None, np.zeros(0, dtype=np.int64)
        self.gains, self.judged, self.spare, self.window = np.zeros(4), 0, -1, 0

    def urge(self, model: Model, since: int) -> None:
        """Look for new components soon, because slices surprise, `since` so many that are kept."""
        now, rank = model.n_slices, model.factors.rank
        wins = self.twin is not None and self.larger_than(rank) and self.gains[1] > 0.0
        if self.window == URGENT or wins:
            return
        self.end()
        # One new pattern, most likely, besides those that are known.
        wait = max(1, URGENT - since)
        self.window, self.growing = URGENT, Direction(now + wait, failures=2)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the twin as arrays and scalars."""
        flat: dict[str, Any] = {"most": self.most, "order": self.order.copy()}
        flat |= {"gains": self.gains.copy(), "judged": self.judged, "spare": self.spare}
        flat |= {"window": self.window, "look": self.look, "gap": self.gap}
        for name in ("growing", "shrinking"):
            part = getattr(self, name)
            flat[name] = np.array([part.next, part.failures, part.count], dtype=np.int64)
        return flat

    @staticmethod
    def from_dict(flat: Mapping[str, Any], twin: Model | None) -> RankTrials:
        """What `to_dict` gave."""
        kinds = {
            name: Direction(*(int(number) for number in flat[name]))
            for name in ("growing", "shrinking")
        }
        return RankTrials(
            most=int(flat["most"]),
            twin=twin,
            order=np.array(flat["order"], dtype=np.int64),
            gains=np.array(flat["gains"], dtype=np.float64),
            judged=int(flat["judged"]),
            spare=int(flat.get("spare", -1)),
            window=int(flat["window"]),
            look=int(flat.get("look", 0)),
            gap=int(flat.get("gap", 0)),
            **kinds,
        )
