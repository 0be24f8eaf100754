"""The loss of every slice under the final factors, the one curve a run directory cannot give.

A run keeps no slices, so its sources are read once more, one slice at a time. Every slice is
compared with its line in the run, so that a file that has changed is noticed. The result is kept
beside the run and holds as long as the checkpoint stays the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from onlinegcp.drawing.profiles import FloatArray
from onlinegcp.errors import DataError, StateError
from onlinegcp.runlog import CHECKPOINT, CHECKPOINT_KIND, RunView, Step, StoredSteps
from onlinegcp.runlog.sources import Source, read_sources
from onlinegcp.storage.archive import DamagedFile, read_record
from onlinegcp.storage.atomic import replacing

if TYPE_CHECKING:
    from onlinegcp.losses import Loss
    from onlinegcp.run import Run
    from onlinegcp.slices import Slice
    from onlinegcp.streaming import StreamingModel

CACHE = "global-loss.json"

Progress = Callable[[int, int], object]


@final
@dataclass(frozen=True)
class GlobalLoss:
    """What could be found out.

    Attributes
    ----------
    losses
        Loss of each slice of the run, summed over its cells, NaN where it is not known.
    missing
        Why there are none, as the end of a sentence; "" where there are.
    """

    losses: FloatArray
    missing: str = ""


def measure_global(
    view: RunView,
    *,
    slices: Iterable[Any] | None = None,
    loss: Loss | None = None,
    progress: Progress | None = None,
) -> GlobalLoss:
    """The loss of every slice, its weights solved again, under the factors of the checkpoint.

    Parameters
    ----------
    view
        The run, whose lines are read one at a time.
    slices
        What it learned, in order; by default its files are read again.
    loss
        The caller's own loss, where the run was made with one.
    progress
        Called after every slice with the number of slices done and of all.
    """
    steps = StoredSteps(view.path)
    n_steps = len(steps) if view.factors else 0
    unknown = np.full(n_steps, np.nan)
    if not n_steps:
        return GlobalLoss(unknown, "the warm start is not over")
    before = _digest(view.path)
    kept = _read_cache(view.path, before, n_steps)
    if kept is not None:
        return GlobalLoss(kept)
    try:
        if slices is None and (reason := why_not(view.path)):
            return GlobalLoss(unknown, reason)
        from onlinegcp.run import Run  # which takes a while, and memory

        with Run.open(view.path, write=False, loss=loss) as run:
            if slices is None:
                found = _measure(run, steps, n_steps, _again(run, view.labels), progress)
                if found is None:
                    return GlobalLoss(unknown, _what_changed(run))
            else:
                found = _measure(run, steps, n_steps, slices, progress)
                if found is None:
                    raise DataError(
                        "slices must be those the run has learned, all of them and in order, but "
                        "they differ from its lines. Leave them out to have its files read again."
                    )
    except (DataError, StateError) as error:
        if slices is not None:
            raise
        return GlobalLoss(unknown, str(error).rstrip("."))
    # A run that went on meanwhile has other factors now.
    if before and before == _digest(view.path):
        _write_cache(view.path, before, found)
    return GlobalLoss(found)


def why_not(path: Path) -> str:
    """Why the slices of a run cannot be read again; "" if they can."""
    try:
        known = read_record(path / CHECKPOINT, CHECKPOINT_KIND).get("n_sources", 0)
    except DamagedFile:
        known = None  # opening it will tell
    sources = read_sources(path, known)
    if not sources:
        return "this run does not say where its slices came from"
    if sources[0]["after"]:
        return f"this run does not say where its first {sources[0]['after']:,} slices came from"
    words = {
        "live": "part of the data came through a pipe, which cannot be read again",
        "table": "part of the data was a table in memory, which is gone",
        "database": "part of the data came from a database, which may have changed",
        "log": "part of the data came from a log, which is read once",
        "objects": "part of the data is in an object store, which is not read again",
        "slices": "the run learned slices that Python made, which it does not keep",
    }
    for source in sources:
        if source["kind"] in words:
            return words[source["kind"]]
    gone = [path for path in _files(sources) if not Path(path).is_file()]
    if gone:
        more = f" and {len(gone) - 1:,} other files are" if len(gone) > 1 else " is"
        return f"{gone[0]}{more} no longer there"
    return ""


def _again(run: Run, labels: Sequence[Sequence[str]]) -> Iterable[Slice]:
    from onlinegcp.run.sources import replay

    sources = read_sources(run.path, run.n_sources)
    return replay(run.info["events"], sources, run.n_steps, labels)


def _measure(
    run: Run,
    steps: Iterable[Step],
    n_lines: int,
    slices: Iterable[Any],
    progress: Progress | None,
) -> FloatArray | None:
    """The losses; None as soon as a slice is not the one the run has learned."""
    from onlinegcp.run.lines import seen
    from onlinegcp.slices import Slice, as_slice

    # The checkpoint can be one slice ahead of the lines, or behind those that came since.
    n_steps = min(n_lines, run.n_steps)
    losses, done = np.full(n_lines, np.nan), 0
    lines = iter(steps)
    for number, item in enumerate(slices, 1):
        if number > run.n_steps:
            return None
        if number > n_steps:
            continue
        x = item if isinstance(item, Slice) else as_slice(item)
        line = next(lines, None)
        if line is None or not _is_same(x, line, run.model):
            return None
        losses[number - 1] = seen(x, run.model)[1]
        done = number
        if progress is not None:
            progress(done, n_steps)
    return losses if done == n_steps else None


def _is_same(x: Slice, step: Step, model: StreamingModel) -> bool:
    from onlinegcp.run.lines import written

    return (
        written(x.time) == step.get("time")
        and x.nnz == step.get("nnz")
        and math.isclose(x.total, step.get("total") or 0.0, rel_tol=1e-9, abs_tol=1e-12)
        and math.isclose(model.recorded_norm(x), step.get("norm_squared") or 0.0, rel_tol=1e-9)
    )


def _what_changed(run: Run) -> str:
    from onlinegcp.run.sources import stamp

    sources = read_sources(run.path, run.n_sources)
    # The newest account of a file counts: one that grows is learned again and again.
    for path, (size, changed) in _files(sources).items():
        if stamp(path) != (size, changed):
            return f"{path} has changed since it was learned"
    return "its files no longer give the slices it has learned"


def _files(sources: Sequence[Source]) -> dict[str, tuple[int | None, int | None]]:
    found = (file for source in sources for file in source["files"])
    return {path: (size, changed) for path, size, changed in found}


def _digest(folder: Path) -> str:
    """What tells one checkpoint from another, also in a copy of the run."""
    with contextlib.suppress(OSError), (folder / CHECKPOINT).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return ""


def _read_cache(folder: Path, digest: str, n_steps: int) -> FloatArray | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        kept = json.loads((folder / CACHE).read_bytes())
        losses = np.array([np.nan if v is None else v for v in kept["losses"]], dtype=np.float64)
        if digest and kept["checkpoint"] == digest and losses.shape == (n_steps,):
            return losses
    return None


def _write_cache(folder: Path, digest: str, losses: FloatArray) -> None:
    known = [value if math.isfinite(value) else None for value in losses.tolist()]
    text = json.dumps({"checkpoint": digest, "losses": known}, separators=(",", ":"))
    # Where nothing can be written the next report measures again.
    with contextlib.suppress(StateError), replacing(folder / CACHE, of_run=True) as file:
        file.write(text.encode() + b"\n")
