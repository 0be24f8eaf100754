"""Lines of a run whose components came and went, all told in the components of the last one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from onlinegcp.runlog.files import STEPS, PathLike
from onlinegcp.runlog.line import Step, Vector

# Found without parsing: a label that holds this is escaped within JSON.
_TOLD = b'"order":['
_VECTORS: tuple[Vector, ...] = ("weights", "drift")


class Aligner:
    """Rewrites weights and drift of lines before a change of the rank.

    A component that was not there yet had no weight; those that are gone are left out.

    Parameters
    ----------
    changes
        Number of each line that changed the rank, in order, with its `order`.

    Examples
    --------
    >>> step = {"number": 1, "weights": [1.0, 2.0]}
    >>> Aligner([(2, [1, -1])]).take(step)
    >>> step["weights"]
    [2.0, 0.0]
    """

    def __init__(self, changes: list[tuple[int, list[int]]]) -> None:
        self._numbers = [number for number, _ in changes]
        # For the lines before each change, where the last line's components are in them.
        self._places: list[list[int]] = []
        places: list[int] | None = None
        for _, order in reversed(changes):
            places = order if places is None else [order[p] if p >= 0 else -1 for p in places]
            self._places.insert(0, places)

    @classmethod
    def of(cls, path: PathLike) -> Aligner:
        """The changes that a run directory tells of; most tell of none."""
        try:
            with (Path(path) / STEPS).open("rb") as lines:
                return cls.by_stream(lines).get(None, cls([]))
        except OSError:
            return cls([])  # whoever reads the lines says what is wrong with them

    @classmethod
    def by_stream(cls, lines: Iterable[bytes]) -> dict[Any, Aligner]:
        """Those of the streams that changed their rank; a line of a single run names None."""
        changes: dict[Any, list[tuple[int, list[int]]]] = {}
        try:
            for line in lines:
                if _TOLD in line and line.endswith(b"\n"):
                    step = json.loads(line)
                    change = int(step["number"]), [int(p) for p in step["order"]]
                    changes.setdefault(step.get("stream"), []).append(change)
        except (ValueError, KeyError, TypeError, RecursionError):
            return {}  # whoever reads the lines says what is wrong with them
        return {stream: cls(of) for stream, of in changes.items()}

    def take(self, step: Step) -> None:
        """Rewrite one line in place."""
        number = step.get("number", 0)
        for change, places in zip(self._numbers, self._places, strict=True):
            if number < change:
                tell_in(step, places)
                return


def tell_in(step: Step, places: Sequence[int]) -> None:
    """Rewrite weights and drift of a line in components that had these places in it, -1 for none.

    Examples
    --------
    >>> step = {"weights": [1.0, 2.0]}
    >>> tell_in(step, [1, -1])
    >>> step["weights"]
    [2.0, 0.0]
    """
    for name in _VECTORS:
        given = step.get(name)
        if given is not None:
            step[name] = [given[p] if 0 <= p < len(given) else 0.0 for p in places]
