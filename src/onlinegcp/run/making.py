"""Making the directory of a run: options are checked first, the lock comes before any file, and a
run that is to be replaced goes only when the new one has stored its first slice.
"""

from __future__ import annotations

import contextlib
import datetime
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onlinegcp import __version__, runlog
from onlinegcp.checks import check_number, check_whole
from onlinegcp.errors import DataError, StateError
from onlinegcp.run.settings import model_settings
from onlinegcp.runlog.labels import LABELS
from onlinegcp.runlog.names import NAMES
from onlinegcp.runlog.sources import SOURCES
from onlinegcp.storage.atomic import SHARDS, STREAMS
from onlinegcp.streaming import StreamingModel

# In this order whatever is left when they are moved can be opened.
FILES = (
    NAMES,
    runlog.DIGEST,
    runlog.STEPS,
    SHARDS,
    SOURCES,
    runlog.SYNCED,
    runlog.CHECKPOINT,
    LABELS,
    runlog.RUN,
    STREAMS,
)
# Where the old run waits until the new one has its first slice.
REPLACED = ".replaced"


def begin_settings(model: StreamingModel) -> dict[str, Any]:
    """What the settings of every new run begin with: when and with what it was made."""
    return {
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "environment": runlog.environment(),
        "model": model_settings(model),
    }


def anomaly_options(
    level: float,
    top: int,
    period: int | None,
    longer: bool,
    holidays: str | None,
    hold_flagged: bool,
    model: StreamingModel,
) -> dict[str, Any]:
    """Options of a run, once they and those of its model are known to be possible."""
    if model.changes_rank and not model.tells_order:
        raise DataError(
            f"a run directory holds the same components from its first slice to its last, but "
            f"{type(model).__name__} changes its rank. Use it in Python, or another method."
        )
    model.check_parameters()
    return {
        "level": check_number("level", level, "(0, 1)", "It is a share of slices, such as 0.01."),
        "top": check_whole("top", top, 0),
        "period": None if period is None else check_whole("period", period, 1),
        "longer": bool(longer),
        "holidays": holidays,
        "hold_flagged": bool(hold_flagged),
    }


def checked_unit(unit: str | None) -> str | None:
    """The word for what is counted, which must be a word."""
    if unit is None:
        return None
    said = unit.strip() if isinstance(unit, str) else ""
    if not said or len(said) > 40 or not said.isprintable():
        raise DataError(
            f"unit must be a word for what is counted, such as deaths, but is {unit!r}. Write one."
        )
    return said


def begin(
    folder: Path,
    info: dict[str, Any],
    *,
    overwrite: bool,
    write: Callable[[Path, dict[str, Any]], object] = runlog.write_run_json,
) -> runlog.Lock:
    """Make the directory, take its lock, put an old run aside, and write the settings."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(
            f"a run directory was to be made at {folder}, but that failed: "
            f"{error.strerror or error}. Choose a directory you may write to."
        ) from error
    lock = runlog.Lock(folder)
    lock.acquire()
    try:
        runlog.check_new(folder, overwrite)  # another process may have been quicker
        if runlog.holds_run(folder):
            _put_aside(folder)
        try:
            write(folder, info)
        except BaseException:
            put_back(folder)
            raise
        sweep(folder)
    except BaseException:
        lock.release()
        raise
    return lock


def put_back(folder: Path) -> None:
    """Make the run that was put aside the one of the directory again, if there is one."""
    aside = folder / REPLACED
    if not aside.is_dir():
        return
    remove(folder)
    for name in FILES:
        if (aside / name).exists():
            (aside / name).replace(folder / name)
    drop(folder)


def remove(folder: Path) -> None:
    """Remove the files of a run."""
    for name in FILES:
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
        else:
            (folder / name).unlink(missing_ok=True)


def drop(folder: Path) -> None:
    """Remove the run that was put aside."""
    shutil.rmtree(folder / REPLACED, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove the half-written files a kill leaves. Hold the lock."""
    strays = [stray for name in FILES for stray in folder.glob(f".{name}.*.tmp")]
    for stray in [*strays, *(folder / SHARDS).glob(".*.tmp")]:
        with contextlib.suppress(OSError):
            stray.unlink()


def _put_aside(folder: Path) -> None:
    drop(folder)
    (folder / REPLACED).mkdir()
    for name in FILES:
        if (folder / name).exists():
            (folder / name).replace(folder / REPLACED / name)
