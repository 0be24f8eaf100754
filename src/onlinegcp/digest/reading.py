"""Reading a run into a digest, from where the last reader or the writer left one.

Reading a million lines takes a minute. So whoever has read many of them (the process that writes
the run, or a command that reads it) stores what came of it as digest.npz, with the place up to
which it has read and the line that ends there. Where that line is no longer in its place, or the
file is damaged or was made by another version, all lines are read. Lines that were told by a
digest are not looked at again: `runlog.verify` reads them all.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.digest.digest import Digest
from onlinegcp.digest.packing import pack, unpack
from onlinegcp.errors import StateError
from onlinegcp.runlog import STEPS, Position, RunView, Step, read_head, tail
from onlinegcp.runlog.files import DIGEST, DIGEST_KIND
from onlinegcp.storage.archive import read_archive, read_record, write_archive

FloatArray = NDArray[np.float64]
PathLike = str | os.PathLike[str]
Progress = Callable[[int, int], object]

# Lines after which a digest is stored, and most bytes of lines that the process which learns a
# run sums up at once: more than that were written before there were digests, and readers do it.
EVERY = 10_000
MOST_BEHIND = 100_000_000
_TOLD_EVERY = 2_000  # lines


def read_digest(
    path: PathLike, final: FloatArray | None = None, progress: Progress | None = None
) -> Digest:
    """A run directory without its lines; it may be written to meanwhile.

    Parameters
    ----------
    path
        The directory.
    final
        Loss of each slice under the factors the run ended with, if known; lines that came since
        are left out. All lines are read then.
    progress
        Called now and then with the bytes read and those there are.
    """
    view = read_head(path)
    if final is not None:
        return _with_losses(view, final, progress)
    found, position = stored_digest(view) or (Digest(view), Position())
    before = found.count
    found, position = read_on(view, found, position, progress)
    if found.count - before >= EVERY:
        store(path, found, position)
    return found


def read_on(
    view: RunView, digest: Digest, position: Position, progress: Progress | None = None
) -> tuple[Digest, Position]:
    """A digest, and all lines since; another one of all lines where the file was cut meanwhile."""
    while True:
        more = add_lines(view.path, digest, position, _TOLD_EVERY)
        if more is None:
            digest, position = Digest(view), Position()
            continue
        if more == position:
            digest.settle()
            return digest, position
        position = more
        if progress is not None:
            progress(position.offset, max(position.offset, length_of(view.path)))


def add_lines(path: Path, digest: Digest, position: Position, most: int) -> Position | None:
    """Add some lines to a digest; where it stands then, or None where its past was cut."""
    fresh: list[Step] = []
    found = tail(path, position, each=fresh.append, keep=False, most=most)
    if found.restarted:
        return None
    for step in fresh:
        digest.add(step)
    return found.position


def stored_digest(view: RunView) -> tuple[Digest, Position] | None:
    """The digest beside a run and how far it has read; None where there is none that fits."""
    try:
        arrays, record = read_archive(view.path / DIGEST, DIGEST_KIND)
        found = unpack(view, arrays, record)
    except (StateError, KeyError, TypeError, ValueError, IndexError):
        return None
    if found is None or not _is_of(view.path, found[1]):
        return None
    return found


def store(path: PathLike, digest: Digest, position: Position) -> None:
    """Keep a digest beside its run; where nothing can be written, the next reader reads again."""
    arrays, record = pack(digest, position)
    with contextlib.suppress(StateError):
        target = Path(path) / DIGEST
        write_archive(target, DIGEST_KIND, arrays, record, durable=False, of_run=True)


def length_of(path: Path) -> int:
    """Bytes of lines there are."""
    try:
        return (path / STEPS).stat().st_size
    except OSError:
        return 0


@final
class Keeper:
    """Keeps the digest of a run that is being written not far behind its lines.

    Parameters
    ----------
    folder
        The run directory. Hold its lock.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: int | None = None  # lines it tells of; not known yet

    def written(self, n_steps: int) -> None:
        """Say how many lines there are; now and then this reads the newest of them."""
        if self._kept is None:
            self._kept = _lines_told(self._folder)
        if n_steps - self._kept < EVERY:
            return
        self._kept = n_steps
        try:
            catch_up(self._folder)
        except Exception as error:  # a page that opens slowly is no reason to stop learning
            logging.getLogger("onlinegcp").warning("No digest of %s: %s", self._folder, error)


def catch_up(folder: Path) -> None:
    """Bring the digest of a run up to its lines, unless it is too far behind."""
    view = read_head(folder)
    found, position = stored_digest(view) or (Digest(view), Position())
    if length_of(folder) - position.offset <= MOST_BEHIND:
        store(folder, *read_on(view, found, position))


def _lines_told(folder: Path) -> int:
    with contextlib.suppress(StateError, ValueError, KeyError, TypeError):
        return int(read_record(folder / DIGEST, DIGEST_KIND)["n_steps"])
    return 0


def _is_of(path: Path, position: Position) -> bool:
    """Whether the last line a digest has read is still where it was."""
    start = position.offset - len(position.last)
    try:
        with (path / STEPS).open("rb") as file:
            file.seek(max(start, 0))
            return start >= 0 and file.read(len(position.last)) == position.last
    except OSError:
        return False


def _with_losses(view: RunView, final: FloatArray, progress: Progress | None) -> Digest:
    def take(step: Step, found: list[Digest], number: int) -> bool:
        if number < len(final):
            step["global"] = float(final[number])
            found[0].add(step)
        return number + 1 < len(final)

    return _one_pass(view, 1, take, progress)[0] if len(final) else Digest(view)


def read_some(
    path: PathLike, wanted: Sequence[Callable[[Step], bool]], progress: Progress | None = None
) -> list[Digest]:
    """Digests of some of the lines each, told in the components the run ended with.

    Parameters
    ----------
    path
        The run directory.
    wanted
        For each of them, whether it has a line.
    progress
        Called now and then with the bytes read and those there are.
    """

    def take(step: Step, found: list[Digest], number: int) -> bool:
        for holds, digest in zip(wanted, found, strict=True):
            if holds(step):
                digest.add(copy.deepcopy(step) if len(found) > 1 else step)
            elif step.get("order"):
                digest.reorder(step["order"] or ())
        return True

    return _one_pass(read_head(path), len(wanted), take, progress)


def _one_pass(
    view: RunView,
    n_digests: int,
    take: Callable[[Step, list[Digest], int], bool],
    progress: Progress | None,
) -> list[Digest]:
    """Digests that take what they want of every line, until they want no more."""
    found, position, more = [Digest(view) for _ in range(n_digests)], Position(), True
    while more:
        fresh: list[Step] = []
        new = tail(view.path, position, each=fresh.append, keep=False, most=_TOLD_EVERY)
        if new.restarted:
            found = [Digest(view) for _ in range(n_digests)]
        at = 0 if new.restarted else position.n_lines
        more = bool(fresh)
        for number, step in enumerate(fresh, at):
            more = more and take(step, found, number)
        position = new.position
        if progress is not None and fresh:
            progress(position.offset, max(position.offset, length_of(view.path)))
    for digest in found:
        digest.settle()
    return found
