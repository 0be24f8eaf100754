"""Lines of a run whose components came and went, all told in the components of the last one."""

from __future__ import annotations

from collections.abc import Sequence

from onlinegcp.runlog.line import Step, Vector

_VECTORS: tuple[Vector, ...] = ("weights", "drift")


def align(steps: Sequence[Step]) -> None:
    """Rewrite weights and drift of lines before a change of the rank, in place.

    A component that was not there yet had no weight; those that are gone are left out.

    Examples
    --------
    >>> steps = [{"weights": [1.0, 2.0]}, {"weights": [5.0, 6.0], "order": [1, -1]}]
    >>> align(steps)
    >>> steps[0]["weights"]
    [2.0, 0.0]
    """
    places: list[int] | None = None  # of the last line's components, in the line at hand
    for step in reversed(steps):
        if places is not None:
            for name in _VECTORS:
                given = step.get(name)
                if given is not None:
                    step[name] = [given[p] if 0 <= p < len(given) else 0.0 for p in places]
        order = step.get("order")
        if order is not None:
            places = list(order) if places is None else [order[p] if p >= 0 else -1 for p in places]
        if places is not None:
            step["order"] = None  # told once, so that aligning again changes nothing
