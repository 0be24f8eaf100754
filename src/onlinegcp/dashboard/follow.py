"""What changed in a run directory since the last look, as events for a live page."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import Any, final

from onlinegcp.errors import StateError
from onlinegcp.report.fit import divisor
from onlinegcp.report.payload import MOST_DETAILS, build, build_model, row
from onlinegcp.runlog import (
    CHECKPOINT,
    Details,
    Position,
    RunView,
    align,
    anomaly_of,
    is_locked,
    read_model,
    read_run_json,
    tail,
)
from onlinegcp.storage.printable import without_folders

Event = tuple[str, dict[str, Any]]

# The words and shapes of the patterns are built anew at most this often, in seconds, and never
# for more than a fifth of the time.
MODEL_EVERY = 0.8


@final
class Follower:
    """One reader of a run that may be running, killed, resumed or gone.

    Parameters
    ----------
    path
        The run directory.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._position = Position()
        self._view: RunView | None = None
        self._stamp: tuple[int, ...] = ()
        self._status: dict[str, Any] = {}
        self._model_due = 0.0
        self._details = Details(MOST_DETAILS)
        self._payload: dict[str, Any] | None = None  # of the run as it is, once it was built

    def look(self) -> list[Event]:
        """The events since the last look; the first look gives a snapshot of everything."""
        problem = None
        events: list[Event] = []
        try:
            events = self._changes()
        except StateError as error:
            # It may be repaired, or come back, and then be another: the next look starts over.
            problem = without_folders(str(error))
            self._view = None
        except Exception as error:  # something in the files that nobody thought of
            problem = f"The run cannot be shown ({type(error).__name__}: {error})."
            self._view = None
        status = {"running": is_locked(self._path), "problem": problem}
        if status != self._status:
            self._status = status
            events.append(("status", status))
        return events

    def everything(self) -> list[Event]:
        """The run as the last look left it, for a reader who has seen nothing yet."""
        whole: list[Event] = []
        if self._view is not None:
            whole.append(("snapshot", self.payload()))
        return [*whole, ("status", self._status)]

    def payload(self) -> dict[str, Any]:
        """The same in one piece; {"problem": ...} where the run cannot be read."""
        if self._view is None:
            return {"problem": self._status.get("problem")}
        if self._payload is None:
            self._payload = build(self._view, live=True)
        return self._payload

    def _changes(self) -> list[Event]:
        if self._view is None:
            return [("snapshot", self._snapshot())]
        new = tail(self._path, self._position)
        if new.restarted or any(step.get("order") for step in new.steps):
            # Components came or went: every line is told in those there are now.
            return [("snapshot", self._snapshot())]
        stamp = self._checkpoint()
        moved = stamp != self._stamp and time.monotonic() >= self._model_due
        if not new.steps and not moved:
            return []
        self._position, self._payload = new.position, None
        self._view.steps.extend(new.steps)
        for step in new.steps:
            self._details.take(step)
        return [("update", self._update(self._view, len(new.steps), stamp if moved else None))]

    def _snapshot(self) -> dict[str, Any]:
        info = read_run_json(self._path)
        self._stamp = self._checkpoint()
        self._details = Details(MOST_DETAILS)
        found = tail(self._path, each=self._details.take)
        align(found.steps)
        factors, weights, labels = read_model(self._path)
        modes = tuple(str(name) for name in info.get("modes") or ())
        modes += tuple(f"mode {k + 1}" for k in range(len(modes), len(factors)))
        view = RunView(self._path, info, found.steps, factors, weights, labels, modes)
        payload = build(view, live=True)
        self._view, self._position, self._payload = view, found.position, payload
        return payload

    def _update(self, view: RunView, n_new: int, stamp: tuple[int, ...] | None) -> dict[str, Any]:
        model = None
        if stamp is not None:
            started = time.monotonic()
            factors, weights, labels = read_model(self._path)
            view = dataclasses.replace(view, factors=factors, weights=weights, labels=labels)
            model = build_model(view)
            self._view, self._stamp = view, stamp
            took = time.monotonic() - started
            self._model_due = time.monotonic() + max(MODEL_EVERY, 4 * took)
        unit = divisor(view)[0]
        fresh = view.steps[len(view.steps) - n_new :]
        anomalies = [found for step in view.steps if (found := anomaly_of(step))]
        return {
            "rows": [row([step], {step["number"]}, unit) for step in fresh],
            "steps": {
                "count": len(view.steps),
                "events": sum(step.get("total") or 0 for step in view.steps),
                "seconds": sum(step.get("seconds") or 0 for step in view.steps),
                "flagged": sum(1 for anomaly in anomalies if anomaly.get("flagged")),
                "scored": len(anomalies),
            },
            "model": model,
        }

    def _checkpoint(self) -> tuple[int, ...]:
        """What tells one checkpoint from the next."""
        try:
            found = (self._path / CHECKPOINT).stat()
        except OSError:
            return ()
        return found.st_ino, found.st_mtime_ns, found.st_size
