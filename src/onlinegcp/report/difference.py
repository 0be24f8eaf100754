"""Two runs side by side: which patterns are the same, what grew, what is new, what is gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.optimize import linear_sum_assignment

from onlinegcp.drawing.profiles import FloatArray, activations
from onlinegcp.errors import DataError
from onlinegcp.report.words import Pattern, patterns
from onlinegcp.runlog import RunView

# Two patterns are the same if the cosines of their columns, multiplied over modes, reach this.
SAME = 0.6


@final
@dataclass(frozen=True)
class Pair:
    """A pattern of the first run and one of the second; None where there is none.

    Attributes
    ----------
    before, after
        The patterns in words.
    similarity
        Product of the cosines of their columns, 1 for the same.
    held, holds
        What a slice holds of it on average, in the first run and in the second.
    """

    before: Pattern | None
    after: Pattern | None
    similarity: float | None
    held: float
    holds: float

    @property
    def kind(self) -> str:
        """ "new", "gone", or "both"."""
        return "new" if self.before is None else "gone" if self.after is None else "both"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "kind": self.kind,
            "before": None if self.before is None else self.before.component + 1,
            "after": None if self.after is None else self.after.component + 1,
            "name": (self.after or self.before).headline,  # type: ignore[union-attr]
            "similarity": self.similarity,
            "held": self.held,
            "holds": self.holds,
        }


def difference(first: RunView, second: RunView) -> list[Pair]:
    """Patterns of two runs, matched by their labels; the largest change first.

    Parameters
    ----------
    first, second
        Two runs with the same modes, or one run at two times.
    """
    if set(first.modes) != set(second.modes):
        raise DataError(
            f"Runs with the same modes are needed, but {first.path} has {', '.join(first.modes)} "
            f"and {second.path} has {', '.join(second.modes)}. Fit one of them again."
        )
    alike = _similarity(first, second)
    rows, columns = linear_sum_assignment(-alike)
    matched = {int(r): int(c) for r, c in zip(rows, columns, strict=True) if alike[r, c] >= SAME}
    old = {pattern.component: pattern for pattern in patterns(first)}
    new = {pattern.component: pattern for pattern in patterns(second)}
    held, holds = (_means(view) for view in (first, second))
    pairs = [
        Pair(old[r], new[c], float(alike[r, c]), float(held[r]), float(holds[c]))
        for r, c in matched.items()
    ]
    pairs += [Pair(old[r], None, None, float(held[r]), 0.0) for r in old if r not in matched]
    known = set(matched.values())
    pairs += [Pair(None, new[c], None, 0.0, float(holds[c])) for c in new if c not in known]
    return sorted(pairs, key=lambda pair: -abs(pair.holds - pair.held))


def _means(view: RunView) -> FloatArray:
    """What a slice holds of each pattern on average."""
    return np.asarray(np.nan_to_num(np.nanmean(np.abs(activations(view)), axis=0)))


def _similarity(first: RunView, second: RunView) -> FloatArray:
    """Cosines of all pairs of patterns over the labels of both, multiplied over modes."""
    alike = np.ones((first.rank, second.rank))
    for mode, names, a in zip(first.modes, first.labels, first.factors, strict=True):
        k = second.modes.index(mode)
        labels = {label: i for i, label in enumerate(dict.fromkeys([*names, *second.labels[k]]))}
        here = np.zeros((len(labels), first.rank))
        there = np.zeros((len(labels), second.rank))
        here[[labels[label] for label in names]] = a
        there[[labels[label] for label in second.labels[k]]] = second.factors[k]
        norms = np.outer(np.linalg.norm(here, axis=0), np.linalg.norm(there, axis=0))
        # The signs of two modes may swap without changing a pattern.
        alike *= np.abs(here.T @ there) / np.where(norms > 0, norms, 1.0)
    return alike
