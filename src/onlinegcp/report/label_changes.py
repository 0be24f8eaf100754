"""Labels that hold another part of everything than before: whatever patterns make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from onlinegcp.drawing.text import number, percent, plural, shown_modes
from onlinegcp.runlog import RunView
from onlinegcp.runlog.label_history import LabelHistory
from onlinegcp.storage.printable import short

FloatArray = NDArray[np.float64]

LEAST = 4  # blocks on either side
CLEARLY = 0.2  # a smaller change is none
SMALLEST = 0.01  # part of everything by which a share must have changed
CHANCE = 0.005  # of naming any label of a mode whose labels come and go as they always do


@final
@dataclass(frozen=True)
class LabelChange:
    """What a label held, and holds.

    Attributes
    ----------
    mode, label
        Their names.
    was, now
        Its share of everything or, where data do not add up, its mean.
    adds_up
        Which of them it is.
    """

    mode: str
    label: str
    was: float
    now: float
    adds_up: bool

    @property
    def text(self) -> str:
        """The change in a few words."""
        say = percent if self.adds_up else number
        if self.adds_up and not self.was:
            return f"{short(self.label)} is new ({say(self.now)})"
        if self.adds_up and not self.now:
            return f"{short(self.label)} is gone ({say(self.was)} before)"
        return f"{short(self.label)} from {say(self.was)} to {say(self.now)}"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "mode": self.mode,
            "label": self.label,
            "of": "share" if self.adds_up else "mean",
            "was": self.was,
            "now": self.now,
        }


def label_changes(
    first: RunView,
    second: RunView,
    before: LabelHistory | None = None,
    after: LabelHistory | None = None,
) -> list[LabelChange]:
    """Labels that changed beyond their own ups and downs, those that changed most first.

    Parameters
    ----------
    first, second
        Runs with the same modes, or a run and itself.
    before, after
        What their labels held in the slices that are compared; in all of them by default.
    """
    before = first.past_labels if before is None else before
    after = second.past_labels if after is None else after
    found: list[LabelChange] = []
    # Until the warm start is over labels are followed, but nobody knows their names yet.
    if before.adds_up != after.adds_up or not (first.labels and second.labels):
        return found
    for k, mode in enumerate(first.modes[: len(before.sums)]):
        other = second.modes.index(mode)
        if other >= len(after.sums):
            continue
        names = list(dict.fromkeys([*first.labels[k], *second.labels[other]]))
        then = _values(before, k, first.labels[k], names)
        now = _values(after, other, second.labels[other], names)
        was, holds, clear = _compared(then, now, shares=before.adds_up)
        found += [
            LabelChange(mode, names[i], float(was[i]), float(holds[i]), before.adds_up)
            for i in np.flatnonzero(clear)
        ]
    return sorted(found, key=lambda change: -_size(change))


def by_mode(found: Sequence[LabelChange], most: int, labels: int = 2) -> list[str]:
    """Sentences, one per mode, about the labels of it that changed most.

    Parameters
    ----------
    found
        Changes, the largest first.
    most
        Sentences at most.
    labels
        Labels at most in each.
    """
    order = list(dict.fromkeys(change.mode for change in found))
    groups = groupby(sorted(found, key=lambda c: order.index(c.mode)), lambda c: c.mode)
    texts = []
    for mode, changed in groups:
        told = list(changed)
        (name,) = shown_modes((mode,))
        more = len(told) - labels
        ending = f"; {plural(more, 'more label')}" if more > 0 else ""
        texts.append(f"{short(name)}: {', '.join(change.text for change in told[:labels])}{ending}")
    return texts[:most]


def heading(found: Sequence[LabelChange]) -> str:
    """What a list of them is about."""
    what = "share of all" if not found or found[0].adds_up else "mean"
    return f"Labels that changed beyond their usual ups and downs, by their {what}."


def _size(change: LabelChange) -> float:
    gap = abs(change.now - change.was)
    return gap if change.adds_up else gap / max(abs(change.now), abs(change.was))


def _values(past: LabelHistory, k: int, labels: Sequence[str], names: Sequence[str]) -> FloatArray:
    """Share or mean of each of these names in each block, (blocks, names); NaN for unknown."""
    sums = past.sums[k]
    size = sums.sum(axis=1, keepdims=True) if past.adds_up else past.seen[k]
    held = np.divide(sums, size, out=np.full(sums.shape, np.nan), where=size > 0)
    # A label that a run never met held nothing in it.
    found = np.full((len(sums), len(names)), 0.0 if past.adds_up else np.nan)
    place = {name: i for i, name in enumerate(names)}
    at = [place[name] for name in labels[: held.shape[1]]]
    found[:, at] = held[:, : len(at)]
    return found if held.shape[1] else found[:0]


def _compared(
    then: FloatArray, now: FloatArray, *, shares: bool
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Means before and after, and which of them differ by more than chance (Welch's test)."""
    nothing = np.zeros(then.shape[1])
    if min(len(then), len(now)) < LEAST:
        return nothing, nothing, np.zeros(then.shape[1], dtype=bool)
    means, errors, counts = [], [], []
    for part in (then, now):
        known = np.isfinite(part)
        count = known.sum(axis=0)
        mean = np.where(known, part, 0.0).sum(axis=0) / np.maximum(count, 1)
        spread = np.where(known, part - mean, 0.0) ** 2
        means.append(mean)
        counts.append(count)
        errors.append(spread.sum(axis=0) / np.maximum((count - 1) * count, 1))
    (was, holds), error = means, errors[0] + errors[1]
    parts = sum(e**2 / np.maximum(n - 1, 1) for e, n in zip(errors, counts, strict=True))
    gap, larger = np.abs(holds - was), np.maximum(np.abs(holds), np.abs(was))
    with np.errstate(divide="ignore", invalid="ignore"):
        degrees = np.where(parts > 0, error**2 / parts, np.inf)
        chance = 2.0 * stdtr(degrees, -gap / np.sqrt(error))
    clear = (chance < CHANCE / len(was)) & (gap >= CLEARLY * larger) & (larger > 0)
    clear &= np.minimum(*counts) >= LEAST
    return was, holds, clear & (gap >= SMALLEST) if shares else clear
