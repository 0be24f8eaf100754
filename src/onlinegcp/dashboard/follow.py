"""What changed in a run directory since the last look, as events for a live page."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Any, final

from onlinegcp.digest import Digest, stored_digest
from onlinegcp.digest.digest import NEWEST
from onlinegcp.digest.reading import add_lines, length_of, read_on
from onlinegcp.digest.thinning import point
from onlinegcp.errors import StateError
from onlinegcp.report.payload import build, build_model, build_steps, counts, row
from onlinegcp.report.steady import SteadyNames
from onlinegcp.runlog import (
    CHECKPOINT,
    STEPS,
    Position,
    Step,
    is_locked,
    read_head,
    tail,
)
from onlinegcp.runlog.names import NAMES
from onlinegcp.storage.printable import without_folders

Event = tuple[str, dict[str, Any]]

# The words and shapes of the patterns are built anew at most this often, in seconds, and never
# for more than a fifth of the time.
MODEL_EVERY = 0.8

# A run with more bytes of lines than this that no digest tells of is shown by its newest lines
# first; then the others are read, some at every look.
AT_ONCE = 16_000_000
PREVIEW = 4_000_000
FILL_LINES, FILL_SECONDS = 500, 0.5


@final
class Follower:
    """One reader of a run that may be running, killed, resumed or gone.

    Memory is that of a digest, however many slices there are.

    Parameters
    ----------
    path
        The run directory.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._position = Position()
        self._digest: Digest | None = None
        self._names = SteadyNames()
        self._stamp: tuple[int, ...] = ()
        self._status: dict[str, Any] = {}
        self._model_due = 0.0
        # All lines, while the newest are shown: what is read of them, and up to where.
        self._filling: tuple[Digest, Position] | None = None
        self._unread: str | None = None  # why they could not be read
        self._sent = 0  # rows since the pages were given all of them
        self._payload: dict[str, Any] | None = None  # of the run as it is, once it was built

    @property
    def share_read(self) -> float:
        """How much of the run has been read so far, 0 to 1."""
        if self._filling is None:
            return 0.0 if self._digest is None else 1.0
        return min(0.99, self._filling[1].offset / max(length_of(self._path), 1))

    def look(self) -> list[Event]:
        """The events since the last look; the first look gives a snapshot of everything."""
        events: list[Event] = []
        try:
            events = self._changes()
            problem = self._unread
        except StateError as error:
            # It may be repaired, or come back, and then be another: the next look starts over.
            problem = without_folders(str(error))
            self._digest = None
        except Exception as error:  # something in the files that nobody thought of
            problem = f"The run cannot be shown ({type(error).__name__}: {error})."
            self._digest = None
        status = {"running": is_locked(self._path), "problem": problem}
        if status != self._status:
            self._status = status
            events.append(("status", status))
        return events

    def everything(self) -> list[Event]:
        """The run as the last look left it, for a reader who has seen nothing yet."""
        whole: list[Event] = []
        if self._digest is not None:
            whole.append(("snapshot", self.payload()))
        return [*whole, ("status", self._status)]

    def payload(self) -> dict[str, Any]:
        """The same in one piece; {"problem": ...} where the run cannot be read."""
        if self._digest is None:
            return {"problem": self._status.get("problem")}
        if self._payload is None:
            self._payload = build(self._digest, live=True, names=self._names)
            if self._filling is not None:
                self._payload["reading"] = {"share": self.share_read}
        return self._payload

    def _changes(self) -> list[Event]:
        digest = self._digest
        if digest is None:
            return [("snapshot", self._snapshot())]
        fresh: list[Step] = []
        new = tail(self._path, self._position, each=fresh.append, keep=False)
        if new.restarted:
            return [("snapshot", self._snapshot())]
        try:
            if self._filling is not None and self._fill():
                return [("snapshot", self.payload())]
        except StateError as error:  # what is shown of it stays
            self._unread, self._filling = without_folders(str(error)), None
        told: list[Event] = []
        if self._filling is not None:
            told = [("reading", {"share": self.share_read})]
        stamp = self._checkpoint()
        moved = stamp != self._stamp and time.monotonic() >= self._model_due
        if not fresh and not moved:
            return told
        self._position, self._payload = new.position, None
        for step in fresh:
            digest.add(step)
        digest.settle()
        if any(step.get("order") for step in fresh):
            # Components came or went: every slice is told in those there are now.
            digest.with_model(read_head(self._path, digest.view.info))
            self._names, self._sent, self._stamp = SteadyNames(), 0, stamp
            return [("snapshot", self.payload()), *told]
        return [("update", self._update(digest, fresh, stamp if moved else None)), *told]

    def _snapshot(self) -> dict[str, Any]:
        self._stamp = self._checkpoint()
        view = read_head(self._path)
        digest, position = stored_digest(view) or (Digest(view), Position())
        self._filling = self._unread = None
        if length_of(self._path) - position.offset > AT_ONCE:
            self._filling = digest, position
            digest, position = Digest(view), self._near_the_end()
        digest, position = read_on(view, digest, position)
        self._names, self._sent = SteadyNames(), 0
        self._digest, self._position, self._payload = digest, position, None
        return self.payload()

    def _near_the_end(self) -> Position:
        """The start of a line not far from the end."""
        with (self._path / STEPS).open("rb") as file:
            file.seek(-PREVIEW, os.SEEK_END)
            file.readline()
            start = file.tell()
            number = re.match(rb'\{"number":(\d+),', file.readline())
            return Position(start, n_lines=int(number[1]) - 1 if number else 0)

    def _fill(self) -> bool:
        """Read some of the lines that are not shown yet; whether that were the last of them."""
        assert self._filling is not None
        until = time.monotonic() + FILL_SECONDS
        digest, position = self._filling
        while time.monotonic() < until:
            more = add_lines(self._path, digest, position, FILL_LINES)
            if more is None:  # cut meanwhile: from the start
                digest, more = Digest(read_head(self._path)), Position()
            elif more == position:
                digest.settle()
                digest.with_model(read_head(self._path, digest.view.info))
                self._names, self._sent = SteadyNames(), 0
                self._digest, self._position, self._payload = digest, position, None
                self._filling = None
                return True
            position = more
        self._filling = digest, position
        return False

    def _update(
        self, digest: Digest, fresh: list[Step], stamp: tuple[int, ...] | None
    ) -> dict[str, Any]:
        model = None
        if stamp is not None:
            started = time.monotonic()
            digest.with_model(read_head(self._path, digest.view.info))
            model = build_model(digest, self._names)
            self._stamp = stamp
            took = time.monotonic() - started
            self._model_due = time.monotonic() + max(MODEL_EVERY, 4 * took)
        self._sent += len(fresh)
        if self._sent > NEWEST:
            # Pages that were only ever added to would grow without end.
            self._sent = 0
            return {"all": build_steps(digest), "fresh": len(fresh), "model": model}
        kept = {step.get("number") for step in fresh}
        rows = [row(point([step], digest.divisor), kept) for step in fresh]
        return {"rows": rows, "steps": counts(digest), "fresh": len(fresh), "model": model}

    def _checkpoint(self) -> tuple[int, ...]:
        """What tells one checkpoint, and the names given to it, from the next."""
        stamp: list[int] = []
        for name in (CHECKPOINT, NAMES):
            with contextlib.suppress(OSError):
                found = (self._path / name).stat()
                stamp += [found.st_ino, found.st_mtime_ns, found.st_size]
        return tuple(stamp)
