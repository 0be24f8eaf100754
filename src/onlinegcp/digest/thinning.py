"""A long series in bounded space: neighbours are joined when there are too many points to draw.

A point stands for one slice, or for 2, 4, 8, ... in a row: the means of what is drawn as a line,
the smallest and largest total, the largest drift, and the oddest slice with its verdict, so that no
alarm is ever lost. Sums are kept, not means, so that joining is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.digest.batch import Batch
from onlinegcp.digest.by_component import padded, reordered
from onlinegcp.runlog import COUNTS, Number, Step, anomaly_of
from onlinegcp.runlog.told import score

FloatArray = NDArray[np.float64]


@dataclass(slots=True)
class Point:
    """One slice, or several in a row.

    Attributes
    ----------
    first, last : int
        Numbers of the first and the last slice.
    count : int
        How many they are.
    odd : Step
        The oddest of them: its number, time, total and anomaly.
    began : Any
        Time of the first.
    warm, held, partial : bool
        Whether the last is of the warm start; whether any had rows held, or was cut off.
    flagged : int
        How many were flagged.
    regime : str
        What became of the regime, the last that is known.
    happened : (3,) array
        Births, deaths and merges.
    total, expected : (2,) arrays
        Sum, and how many are in it.
    low, high : float
        Smallest and largest total.
    losses : (3, 2) array
        Sum of each of `batch.LOSSES`, and of what they are divided by.
    weights, known : (rank,) arrays
        Sum of the weights, and how many are in it.
    drift : (rank,) array
        The largest.
    """

    first: int
    last: int
    count: int
    odd: Step
    began: Any
    warm: bool
    held: bool
    partial: bool
    flagged: int
    regime: str
    happened: FloatArray
    total: FloatArray
    expected: FloatArray
    low: float
    high: float
    losses: FloatArray
    weights: FloatArray
    known: FloatArray
    drift: FloatArray

    @property
    def size(self) -> FloatArray:
        """Mean weight of each component, NaN where there is none."""
        return np.asarray(self.weights / np.where(self.known, self.known, np.nan))

    @property
    def loss(self) -> list[float]:
        """Each of `batch.LOSSES` over what it is divided by, NaN where it is not known."""
        size = self.losses[:, 1]
        return list(np.divide(self.losses[:, 0], size, out=np.full(3, np.nan), where=size > 0))

    def reorder(self, order: Sequence[int]) -> None:
        """Tell it in the components there are after a change of the rank."""
        # One that was not there had no weight, in every slice that had any.
        seen = float(self.known.max(initial=0.0))
        self.weights, self.drift = reordered(self.weights, order), reordered(self.drift, order)
        self.known = reordered(self.known, order, seen)

    def joined(self, other: Point) -> Point:
        """This and the one after it."""
        rank = max(len(self.weights), len(other.weights))
        return Point(
            self.first,
            other.last,
            self.count + other.count,
            min(self.odd, other.odd, key=surprise),
            self.began,
            other.warm,
            self.held or other.held,
            self.partial or other.partial,
            self.flagged + other.flagged,
            other.regime or self.regime,
            self.happened + other.happened,
            self.total + other.total,
            self.expected + other.expected,
            min(self.low, other.low),
            max(self.high, other.high),
            self.losses + other.losses,
            padded(self.weights, rank) + padded(other.weights, rank),
            padded(self.known, rank) + padded(other.known, rank),
            np.maximum(padded(self.drift, rank), padded(other.drift, rank)),
        )


@final
class Thinned:
    """Points of a series that never are more than so many.

    Parameters
    ----------
    most
        Points at most.
    stride, points
        What another one had come to.

    Examples
    --------
    >>> series = Thinned(4)
    >>> for n in range(1, 11):
    ...     series.add(Batch([{"number": n, "total": float(n)}], "total"))
    >>> series.stride, [(p.first, p.last, p.high) for p in series]
    (4, [(1, 4, 4.0), (5, 8, 8.0), (9, 10, 10.0)])
    """

    def __init__(self, most: int, stride: int = 1, points: Sequence[Point] = ()) -> None:
        self.most = max(2, most - most % 2)
        self.stride = stride
        self._points = list(points)

    def __iter__(self) -> Iterator[Point]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)

    def add(self, batch: Batch) -> None:
        """More slices."""
        points, at, end = self._points, 0, len(batch.steps)
        while at < end:
            room = self.stride - points[-1].count if points else 0
            if room > 0:
                new = _point(batch, at, min(at + room, end))
                points[-1] = points[-1].joined(new)
                at += new.count
                continue
            if len(points) == self.most:
                self.stride *= 2
                points[:] = [a.joined(b) for a, b in zip(points[::2], points[1::2], strict=True)]
            points.append(_point(batch, at, min(at + self.stride, end)))
            at += points[-1].count

    def reorder(self, order: Sequence[int]) -> None:
        """Tell all points in the components there are after a change of the rank."""
        for point in self._points:
            point.reorder(order)


def point(steps: Sequence[Step], divisor: Number) -> Point:
    """Slices in a row as a point.

    Parameters
    ----------
    steps
        Their lines, at least one.
    divisor
        What their losses are divided by.
    """
    return _point(Batch(steps, divisor), 0, len(steps))


def _point(batch: Batch, at: int, end: int) -> Point:
    steps = batch.steps[at:end]
    weights, total, size = batch.weights[at:end], batch.total[at:end], batch.size[at:end]
    losses = np.zeros((3, 2))
    whole = np.isfinite(size) & (size > 0 if batch.divisor == "norm_squared" else size != 0)
    for k, loss in enumerate(batch.losses[:, at:end]):
        good = np.isfinite(loss) & whole
        losses[k] = loss[good].sum(), size[good].sum()
    seen, known = np.isfinite(total), np.isfinite(weights)
    expected = batch.expected[at:end]
    foreseen = np.isfinite(expected)
    odd = min(steps, key=surprise) if len(steps) > 1 else steps[0]
    return Point(
        steps[0].get("number", 0),
        steps[-1].get("number", 0),
        len(steps),
        {name: odd.get(name) for name in ("number", "time", "total", "anomaly")},  # type: ignore
        steps[0].get("time"),
        bool(steps[-1].get("warm")),
        any(step.get("held") for step in steps),
        any(step.get("partial") for step in steps),
        int(batch.flagged[at:end].sum()),
        next((step["regime"] for step in reversed(steps) if step.get("regime")), ""),
        np.array([sum(s.get(name) or 0 for s in steps) for name in COUNTS], dtype=np.float64),
        np.array([total[seen].sum(), seen.sum()]),
        np.array([expected[foreseen].sum(), foreseen.sum()]),
        float(total[seen].min(initial=np.inf)),
        float(total[seen].max(initial=-np.inf)),
        losses,
        np.where(known, weights, 0.0).sum(axis=0),
        known.sum(axis=0).astype(np.float64),
        np.fmax.reduce(batch.drift[at:end], axis=0, initial=0.0),
    )


def surprise(step: Step) -> tuple[bool, float]:
    """Sorts slices: alarms first, then the oddest."""
    return not anomaly_of(step).get("flagged"), -score(step)
