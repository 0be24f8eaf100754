"""Reading a run for a command: how far it has come is shown where that takes a while."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self, final

if TYPE_CHECKING:
    from onlinegcp.cli.terminal import Bar
    from onlinegcp.digest import Digest

# Seconds before anything is shown, so that nothing flickers.
PATIENCE = 1.0


@final
class Reading:
    """A bar that appears when reading takes long; used as a progress callback.

    Parameters
    ----------
    quiet
        Show nothing.
    what
        What is going on.
    """

    def __init__(self, *, quiet: bool = False, what: str = "reading") -> None:
        self._quiet, self._what = quiet, what
        self._start = time.monotonic()
        self._bar: Bar | None = None

    def __call__(self, done: float, total: float) -> None:
        if self._quiet or time.monotonic() - self._start < PATIENCE or not sys.stderr.isatty():
            return
        if self._bar is None:
            from onlinegcp.cli.terminal import Bar

            self._bar = Bar(what=self._what, begin="")
            self._bar.__enter__()
        self._bar.tell(f"{done / max(total, 1):.0%}", done, total)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.__exit__()


def digest_of(run: str, *, quiet: bool = False) -> Digest:
    """A run without its lines, which are read if nobody has done so yet."""
    from onlinegcp.digest import read_digest

    with Reading(quiet=quiet) as reading:
        return read_digest(run, progress=reading)
