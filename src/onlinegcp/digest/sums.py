"""Sums over all slices of a run: how well they were predicted, and what each component held."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.digest.batch import LOSSES, Batch, numbers
from onlinegcp.digest.by_component import added, padded, reordered
from onlinegcp.drawing.text import parse_time

FloatArray = NDArray[np.float64]
Record = dict[str, Any]

# A component that turned further than this within a slice is another one.
TURNED = 0.4
GROUPS = {"hour": 24, "weekday": 7, "month": 12}


@final
class FitSums:
    """Sums over the slices that were predicted before they were learned.

    Attributes
    ----------
    count : int
        How many they are.
    loss, size, even_counts, even_binary : float
        Their losses, what these are divided by, and what one rate for all cells would lose.
    means : dict
        By loss: the sum of its quotients, and how many are in it.
    """

    def __init__(self) -> None:
        self.count = 0
        self.loss = self.size = self.even_counts = self.even_binary = 0.0
        self.means: dict[str, list[Any]] = {name: [0.0, 0] for name in LOSSES}

    def add(self, batch: Batch) -> None:
        """More slices."""
        size, before = batch.size, batch.losses[0]
        good = np.isfinite(before) & np.isfinite(size) & (size > 0)
        if not good.any():
            return
        n, cells = size[good], numbers(batch.steps, "n_observed")[good]
        self.count += int(good.sum())
        self.loss += float(before[good].sum())
        self.size += float(n.sum())
        with np.errstate(invalid="ignore", divide="ignore"):
            self.even_counts += float((n - n * np.log(n / cells)).sum())
            rate = np.clip(n / cells, 1e-12, 1 - 1e-12)
            self.even_binary -= float((n * np.log(rate) + (cells - n) * np.log1p(-rate)).sum())
        for sums, losses in zip(self.means.values(), batch.losses, strict=True):
            quotients = losses[good] / n
            known = np.isfinite(quotients)
            sums[0] += float(quotients[known].sum())
            sums[1] += int(known.sum())


@final
class WeightSums:
    """What each component held and how far it moved, in all slices and by the calendar.

    Attributes
    ----------
    held, moved : (rank,) arrays
        Sums of absolute weights and of drifts.
    usual : (2, 2, 2, rank) array
        Sums of absolute weights and how many are in them; since the component last turned, and
        in all; over slices that are whole, and over those that were cut off.
    furthest : list of (float, Any)
        The largest drift of each component, and when.
    dated : bool
        Whether all times were dates.
    span : list
        The first and the last date.
    calendar : dict
        By hour, weekday and month: sums of absolute weights per component, and how many slices.
    """

    def __init__(self) -> None:
        self.held = np.zeros(0)
        self.moved = np.zeros(0)
        self.usual = np.zeros((2, 2, 2, 0))
        self.furthest: list[tuple[float, Any]] = []
        self.dated = True
        self.span: list[datetime.datetime | None] = [None, None]
        self.calendar = {name: (np.zeros((n, 0)), np.zeros(n)) for name, n in GROUPS.items()}

    def add(self, batch: Batch) -> None:
        """More slices."""
        rank, size = batch.rank, np.abs(batch.weights)
        known = np.isfinite(size)
        size = np.where(known, size, 0.0)
        drift = np.nan_to_num(batch.drift)
        self.held = added(self.held, size.sum(axis=0))
        self.moved = added(self.moved, drift.sum(axis=0))
        self._add_usual(batch, size, known, drift)
        self.furthest += [(0.0, None)] * (rank - len(self.furthest))
        for r in np.flatnonzero(
            drift.max(axis=0, initial=0.0) > [f for f, _ in self.furthest][:rank]
        ):
            at = int(drift[:, r].argmax())
            self.furthest[r] = float(drift[at, r]), batch.steps[at].get("time")
        self._add_dates(batch, size)

    def mean(self, rank: int, *, since_turn: bool = False) -> FloatArray:
        """The mean absolute weight of each component; slices that were cut off do not count.

        Parameters
        ----------
        rank
            Number of components.
        since_turn
            Only from the slice on in which a component became what it is.
        """
        whole, cut = padded(self.usual, rank)[..., :rank]
        sums, count = (whole if whole[1, 1].any() else cut)[0 if since_turn else 1]
        return np.asarray(sums / np.maximum(count, 1.0))

    def reorder(self, order: Sequence[int]) -> None:
        """Tell all of it in the components there are after a change of the rank."""
        self.held, self.moved = reordered(self.held, order), reordered(self.moved, order)
        # One that was not there had no weight, in as many slices as there were.
        seen = self.usual[:, 1, 1].max(axis=-1, initial=0.0)
        self.usual = reordered(self.usual, order)
        for place, before in enumerate(order):
            if before < 0:
                self.usual[:, :, 1, place] = seen[:, None]
        far = self.furthest
        self.furthest = [far[p] if 0 <= p < len(far) else (0.0, None) for p in order]
        self.calendar = {
            name: (reordered(sums, order), count) for name, (sums, count) in self.calendar.items()
        }

    def _add_usual(
        self, batch: Batch, size: FloatArray, known: NDArray[np.bool_], drift: FloatArray
    ) -> None:
        cut = np.array([bool(step.get("partial")) for step in batch.steps])
        self.usual = padded(self.usual, batch.rank)
        for k, of in enumerate((~cut, cut)):
            if not of.any():
                continue
            sizes, counts, turns = size[of], known[of], drift[of] > TURNED
            self.usual[k, :, 0, : batch.rank] += sizes.sum(axis=0)
            self.usual[k, :, 1, : batch.rank] += counts.sum(axis=0)
            for r in np.flatnonzero(turns.any(axis=0)):
                since = int(np.flatnonzero(turns[:, r])[-1])
                self.usual[k, 0, :, r] = sizes[since:, r].sum(), counts[since:, r].sum()

    def _add_dates(self, batch: Batch, size: FloatArray) -> None:
        if not self.dated:
            return
        known = []
        for step in batch.steps:
            moment = parse_time(step.get("time"))
            if moment is None:
                self.dated = False
                return
            known.append(moment)
        first, last = self.span
        self.span = [
            min(known) if first is None else min(first, *known),
            max(known) if last is None else max(last, *known),
        ]
        codes = {
            "hour": [moment.hour for moment in known],
            "weekday": [moment.weekday() for moment in known],
            "month": [moment.month - 1 for moment in known],
        }
        rank = size.shape[1]
        for name, groups in codes.items():
            sums, count = self.calendar[name]
            sums = padded(sums, rank)
            np.add.at(sums[:, :rank], groups, size)
            self.calendar[name] = sums, count + np.bincount(groups, minlength=len(count))

    # ---- stored

    def state(self) -> tuple[dict[str, FloatArray], Record]:
        """All of it as arrays and a record."""
        arrays = {"held": self.held, "moved": self.moved, "usual": self.usual}
        for name, (sums, count) in self.calendar.items():
            arrays |= {f"calendar.{name}": sums, f"calendar.{name}.count": count}
        span = [None if moment is None else moment.isoformat() for moment in self.span]
        return arrays, {"furthest": self.furthest, "dated": self.dated, "span": span}

    @classmethod
    def from_state(cls, arrays: Mapping[str, FloatArray], record: Mapping[str, Any]) -> WeightSums:
        """What `state` gave."""
        found = cls()
        found.held, found.moved, found.usual = (arrays[n] for n in ("held", "moved", "usual"))
        found.furthest = [(float(far), when) for far, when in record["furthest"]]
        found.dated = bool(record["dated"])
        found.span = [parse_time(text) for text in record["span"]]
        found.calendar = {
            name: (arrays[f"calendar.{name}"], arrays[f"calendar.{name}.count"]) for name in GROUPS
        }
        return found
