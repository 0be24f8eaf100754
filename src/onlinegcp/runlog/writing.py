"""Making a run directory, appending to it, and putting right what an interruption left of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onlinegcp.errors import StateError
from onlinegcp.runlog.files import STEPS, PathLike, holds_run
from onlinegcp.runlog.line import encode_step, number_lines, sealed
from onlinegcp.runlog.settings import RUN_JSON
from onlinegcp.storage.appending import append, unreadable, unwritable
from onlinegcp.storage.archive import DamagedFile


def check_new(folder: Path, overwrite: bool) -> None:
    """Refuse a place where no run can be made, before any data are read."""
    if holds_run(folder) and not overwrite:
        raise StateError(
            f"a new run needs a directory without one, but {folder} holds a run already. Continue "
            "it with update, choose another directory, or give overwrite=True to replace it."
        )
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        why = f"you may not write to {place}" if place.is_dir() else f"{place} is no directory"
        raise StateError(
            f"a run directory was to be made at {folder}, but {why}. Choose another place."
        )


def write_run_json(path: PathLike, info: Mapping[str, Any]) -> dict[str, Any]:
    """Replace run.json by these settings in the present format; what is in it then."""
    return RUN_JSON.write(Path(path), info)


def environment() -> dict[str, str]:
    """The versions a result depends on, for run.json."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
    }


def append_lines(path: PathLike, lines: Sequence[bytes]) -> None:
    """Add lines from `encode_step` to steps.jsonl, all or none: on failure it is as before."""
    append(Path(path) / STEPS, b"".join(map(sealed, lines)))


def recover(
    path: PathLike, n_steps: int, last_step: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
) -> None:
    """Make steps.jsonl agree with the checkpoint after any interruption. Hold the lock.

    A last line that is not whole is cut, lines numbered beyond `n_steps` are dropped, and the
    lines of the checkpoint are appended where the file lacks them. One line is held at a time.

    Parameters
    ----------
    path
        The directory.
    n_steps
        Slices the checkpoint has learned; lines are numbered from 1 to this.
    last_step
        The line, or lines, written together with the checkpoint.
    """
    folder = Path(path)
    file = folder / STEPS
    ours = [last_step] if isinstance(last_step, Mapping) else list(last_step or ())
    n_found, end = _count(file, n_steps)
    missing = [step for step in ours if n_found < step["number"] <= n_steps]
    if n_found + len(missing) != n_steps:
        raise DamagedFile(
            f"the checkpoint of {folder} has learned {n_steps} slices, but {STEPS} holds "
            f"{n_found} and the checkpoint itself only {len(missing)} more. Lines were lost; "
            "restore the directory from a copy, or fit again."
        )
    if file.exists() and file.stat().st_size != end:
        try:
            os.truncate(file, end)
        except OSError as error:
            raise unwritable(file, error) from error
    if missing or not file.exists():
        append_lines(folder, [encode_step(step) for step in missing])


def _count(file: Path, n_steps: int) -> tuple[int, int]:
    """How many of the first lines are whole and in order, and where they end."""
    n_found = end = 0
    try:
        with file.open("rb") as stream:
            for number, line in number_lines(stream, file.parent):
                if n_found == n_steps:
                    break
                if number != n_found + 1:
                    raise StateError(
                        f"{file} must hold slices 1, 2, 3, ..., but line {n_found + 1} is number "
                        f"{number!r}. The file was edited; restore it from a copy."
                    )
                n_found, end = n_found + 1, end + len(line)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise unreadable(file, error) from error
    return n_found, end
