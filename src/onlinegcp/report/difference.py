"""Two runs, or two periods of one, side by side: what is the same, grew, is new, is gone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from scipy.optimize import linear_sum_assignment

from onlinegcp.digest import Digest, as_digest
from onlinegcp.digest.sums import TURNED
from onlinegcp.drawing.profiles import FloatArray
from onlinegcp.errors import DataError
from onlinegcp.report.label_changes import LabelChange, label_changes
from onlinegcp.report.words import Pattern, patterns
from onlinegcp.runlog import RunView
from onlinegcp.runlog.label_history import LabelHistory
from onlinegcp.runlog.names import read_names

# Two patterns are the same if the cosines of their columns, multiplied over modes, reach this.
SAME = 1.0 - TURNED
# A pattern that holds less than this part of what it holds elsewhere is not there.
NOTHING = 0.05


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


def difference(one: RunView | Digest, other: RunView | Digest) -> list[Pair]:
    """Patterns of two runs, matched by their labels; the largest change first.

    Parameters
    ----------
    one, other
        Two runs with the same modes, or two periods of one run (`periods`). Of one run only the
        patterns it ended with are known: one that turned into what it is in the second period is
        new there, and what was in its place before is not kept.
    """
    parts = as_digest(one), as_digest(other)
    first, second = (part.view for part in parts)
    if set(first.modes) != set(second.modes):
        raise DataError(
            f"Runs with the same modes are needed, but {first.path} has {', '.join(first.modes)} "
            f"and {second.path} has {', '.join(second.modes)}. Fit one of them again."
        )
    one_run = first.path.resolve() == second.path.resolve()
    pairs = _of_one(*parts) if one_run else _of_two(*parts)
    return sorted(pairs, key=lambda pair: -abs(pair.holds - pair.held))


def changed_labels(one: RunView | Digest, other: RunView | Digest) -> list[LabelChange]:
    """Labels that hold more or less than before; the largest change first.

    Parameters
    ----------
    one, other
        As in `difference`.
    """
    first, second = as_digest(one), as_digest(other)
    return label_changes(first.view, second.view, _past_of(first), _past_of(second))


def _past_of(digest: Digest) -> LabelHistory:
    """What labels held in the slices of a digest."""
    points = list(digest.series)
    if not points:
        return LabelHistory()
    return digest.view.past_labels.between(points[0].first, points[-1].last)


def _of_two(first: Digest, second: Digest) -> list[Pair]:
    alike = _similarity(first.view, second.view)
    rows, columns = linear_sum_assignment(-alike)
    matched = {int(r): int(c) for r, c in zip(rows, columns, strict=True) if alike[r, c] >= SAME}
    old = {pattern.component: pattern for pattern in patterns(first)}
    new = {pattern.component: pattern for pattern in patterns(second)}
    given, given_later = (read_names(part.view.path) for part in (first, second))
    for r, c in matched.items():  # a name that people gave in one run is good for both
        if r + 1 in given and c + 1 not in given_later:
            new[c] = replace(new[c], headline=given[r + 1])
    held, holds = (means(part) for part in (first, second))
    pairs = [
        Pair(old[r], new[c], float(alike[r, c]), float(held[r]), float(holds[c]))
        for r, c in matched.items()
    ]
    pairs += [Pair(old[r], None, None, float(held[r]), 0.0) for r in old if r not in matched]
    known = set(matched.values())
    pairs += [Pair(None, new[c], None, 0.0, float(holds[c])) for c in new if c not in known]
    return pairs


def _of_one(first: Digest, second: Digest) -> list[Pair]:
    named = {pattern.component: pattern for pattern in patterns(second)}
    held, holds = means(first, since_turn=True), means(second)
    itself = (first.count, first.first_time) == (second.count, second.first_time)
    turned = [not itself and second.furthest(r)[0] > TURNED for r in range(second.rank)]
    pairs = []
    for r, pattern in named.items():
        before, after = float(held[r]), float(holds[r])
        if turned[r] or before < NOTHING * after:
            pairs.append(Pair(None, pattern, None, 0.0, after))
        elif after < NOTHING * before:
            pairs.append(Pair(pattern, None, None, before, 0.0))
        else:
            pairs.append(Pair(pattern, pattern, 1.0, before, after))
    return pairs


def means(run: Digest, *, since_turn: bool = False) -> FloatArray:
    """What a slice holds of each pattern on average, (rank,).

    Parameters
    ----------
    run
        The run; bins that were cut off do not count.
    since_turn
        Only from the slice on in which a pattern became what it is.
    """
    return np.asarray(run.weights.mean(run.rank, since_turn=since_turn) * run.scale)


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
