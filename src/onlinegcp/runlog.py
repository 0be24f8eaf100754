"""The run directory: its format, and reading, appending, recovering, following and locking it.

A run is a directory with these files::

    run.json                written once: format, settings, environment, names of the modes
    steps.jsonl             one line of JSON per slice, only ever appended to
    labels.jsonl            names of the rows, appended to when there are new ones (`run_labels`)
    sources.jsonl           what was read (`run_sources`)
    checkpoint.npz          the model and the last lines, replaced all at once after every slice
    checkpoint.synced.npz   the last one that is surely on disk (`run_disk`)
    lock                    held by the process that writes

The writer appends labels, then stores the checkpoint, which says how many of them count, then
appends the line. A kill in between leaves labels that do not count, or a line that is only in the
checkpoint; `recover` puts it back.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.appending import append, unreadable, unwritable
from onlinegcp.archive import DamagedFile, read_archive
from onlinegcp.atomic import replacing
from onlinegcp.errors import StateError
from onlinegcp.run_labels import read_labels
from onlinegcp.run_lock import LOCK, Lock, is_locked

FORMAT = 2  # 1 had all labels in every checkpoint
RUN, STEPS = "run.json", "steps.jsonl"
CHECKPOINT, SYNCED = "checkpoint.npz", "checkpoint.synced.npz"
CHECKPOINT_KIND = "run checkpoint"

__all__ = [
    "CHECKPOINT", "CHECKPOINT_KIND", "FORMAT", "LOCK", "RUN", "STEPS", "SYNCED", "Lock", "Position",
    "RunView", "Step", "Tail", "append_lines", "append_step", "check_new", "encode_step",
    "environment", "is_locked", "read_checkpoint", "read_model", "read_run", "read_run_json",
    "recover", "tail", "upgrade_run_json", "write_run_json",
]  # fmt: skip

PathLike = str | os.PathLike[str]
Step = dict[str, Any]
FloatArray = NDArray[np.float64]
Model = tuple[tuple[FloatArray, ...], FloatArray, tuple[tuple[str, ...], ...]]


@final
@dataclass(frozen=True)
class RunView:
    """What a run directory holds, at one moment, for those who only read.

    Attributes
    ----------
    path
        The directory.
    info
        Contents of run.json.
    steps
        One record per slice, in order.
    factors
        One (length, rank) matrix per mode; empty before the first checkpoint.
    weights
        Weight of each component in the last slice, (rank,).
    labels
        Names of the rows of each factor; the row numbers where the run has no names.
    modes
        Name of each mode.
    """

    path: Path
    info: dict[str, Any]
    steps: list[Step]
    factors: tuple[FloatArray, ...]
    weights: FloatArray
    labels: tuple[tuple[str, ...], ...]
    modes: tuple[str, ...]

    @property
    def times(self) -> list[Any]:
        """Time of each slice: ISO text, a number, or None."""
        return [step.get("time") for step in self.steps]

    @property
    def rank(self) -> int:
        """Number of components, 0 before the first checkpoint."""
        return len(self.weights)


@dataclass(frozen=True)
class Position:
    """How far a follower has read: bytes, and the last line, to notice a file that was cut."""

    offset: int = 0
    last: bytes = b""


@dataclass(frozen=True)
class Tail:
    """What came since a position.

    Attributes
    ----------
    steps
        The new records.
    position
        Where to go on.
    restarted
        Whether the file was cut or replaced: `steps` then starts from the first record.
    """

    steps: list[Step]
    position: Position
    restarted: bool = False


def check_new(folder: Path, overwrite: bool) -> None:
    """Refuse a place where no run can be made, before any data are read."""
    if (folder / RUN).exists() and not overwrite:
        raise StateError(
            f"a new run needs a directory without one, but {folder} holds a run already. Continue "
            "it with update, choose another directory, or allow it to be overwritten."
        )
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        why = f"you may not write to {place}" if place.is_dir() else f"{place} is no directory"
        raise StateError(
            f"a run directory was to be made at {folder}, but {why}. Choose another place."
        )


def write_run_json(path: PathLike, record: Mapping[str, Any]) -> None:
    """Start a run directory: make it, and write run.json all at once.

    Parameters
    ----------
    path
        The directory; it may exist, but not hold a run.
    record
        Contents; "format" is added.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = (folder / RUN).exists()
    except OSError as error:
        raise StateError(
            f"a run directory was to be made at {folder}, but that failed: "
            f"{error.strerror or error}. Choose a directory you may write to."
        ) from error
    if taken:
        raise StateError(
            f"a new run needs a directory without one, but {folder} holds a run already. Continue "
            "it with update, or choose another directory."
        )
    upgrade_run_json(folder, record)


def upgrade_run_json(path: PathLike, record: Mapping[str, Any]) -> dict[str, Any]:
    """Replace run.json by these settings in the present format, before anything else is in it."""
    found = {**record, "format": FORMAT}
    text = json.dumps(_plain(found), indent=1, allow_nan=False)
    with replacing(Path(path) / RUN) as file:
        file.write(text.encode() + b"\n")
    return found


def read_run_json(path: PathLike) -> dict[str, Any]:
    """The settings of a run."""
    folder = Path(path)
    source = folder / RUN
    try:
        text = source.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError) as error:
        here = "is no directory" if not folder.is_dir() else f"has no {RUN}"
        raise StateError(
            f"a run directory was needed, but {folder} {here}. Give the directory that fit wrote "
            "with -o."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(source, error) from error
    try:
        info = json.loads(text)
        version = int(info["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{source} must be the settings of a run, but is no such JSON ({error}). The file is "
            "damaged or not ours; restore it from a copy."
        ) from error
    if version > FORMAT:
        raise StateError(
            f"this version of onlinegcp reads run directories of format {FORMAT} and older, but "
            f"{folder} has format {version}. Upgrade onlinegcp to read it."
        )
    return dict(info)


def environment() -> dict[str, str]:
    """The versions a result depends on, for run.json."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
    }


def read_run(path: PathLike) -> RunView:
    """Everything a run directory holds; it may be written to meanwhile.

    Parameters
    ----------
    path
        The directory. A last line that is not whole yet is left out.
    """
    folder = Path(path)
    info = read_run_json(folder)
    steps = list(_parse(_whole_lines(_read_steps(folder)), folder))
    factors, weights, labels = read_model(folder)
    names = [str(name) for name in info.get("modes") or ()]
    names += [f"mode {k + 1}" for k in range(len(names), len(factors))]
    return RunView(folder, info, steps, factors, weights, labels, tuple(names))


def read_model(path: PathLike) -> Model:
    """The factors, weights and labels of the checkpoint, empty where there is none yet."""
    folder = Path(path)
    try:
        found = read_checkpoint(folder)
    except DamagedFile:
        found = read_checkpoint(folder, SYNCED)
        if found is None:
            raise
    if found is None:
        return (), np.zeros(0), ()
    arrays, record = found
    factors: list[FloatArray] = []
    while f"factor.{len(factors)}" in arrays:
        factors.append(np.asarray(arrays[f"factor.{len(factors)}"], dtype=np.float64))
    given = record.get("labels") or []
    labels = []
    for k, factor in enumerate(factors):
        names = [str(name) for name in (given[k] if k < len(given) else None) or ()]
        names = names[: len(factor)] + [str(i) for i in range(len(names), len(factor))]
        labels.append(tuple(names))
    # Before the warm start is over a checkpoint holds slices only.
    weights = arrays.get("weights", np.zeros(0)) if factors else np.zeros(0)
    return tuple(factors), np.asarray(weights, dtype=np.float64), tuple(labels)


def read_checkpoint(
    folder: Path, name: str = CHECKPOINT
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
    """The arrays and the record of a checkpoint, None where there is none yet.

    Whatever the format, "labels" of the record are a list per mode, or None, and "kept_labels" say
    what labels.jsonl has of them.
    """
    file = folder / name
    try:
        if not file.exists():
            return None
    except OSError as error:
        raise unreadable(file, error) from error
    arrays, record = read_archive(file, CHECKPOINT_KIND)
    kept = record.get("labels")
    record["kept_labels"] = None
    if isinstance(kept, Mapping):
        found = read_labels(folder, dict(kept))
        record["labels"] = [found[home] for home in kept["modes"]]
        record["kept_labels"] = {"bytes": kept["bytes"], "counts": kept["counts"]}
    return arrays, record


def append_step(path: PathLike, step: Mapping[str, Any]) -> None:
    """Add one line to steps.jsonl; on failure the file is as before."""
    append_lines(path, [encode_step(step)])


def append_lines(path: PathLike, lines: Sequence[bytes]) -> None:
    """Add lines from `encode_step` to steps.jsonl, all or none."""
    append(Path(path) / STEPS, b"".join(lines))


def encode_step(step: Mapping[str, Any]) -> bytes:
    """A record as one line of JSON; numbers that are not finite become null.

    Examples
    --------
    >>> encode_step({"number": np.int64(1), "local": float("nan"), "weights": np.ones(2)})
    b'{"number":1,"local":null,"weights":[1.0,1.0]}\\n'
    """
    # Escaped, because a label may hold half a character, which UTF-8 cannot.
    try:
        text = json.dumps(step, separators=(",", ":"), allow_nan=False, default=_plain)
    except (TypeError, ValueError):  # odd keys, or numbers that are not finite
        text = json.dumps(_plain(step), separators=(",", ":"), allow_nan=False)
    return text.encode() + b"\n"


def recover(
    path: PathLike, n_steps: int, last_step: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
) -> list[Step]:
    """Make steps.jsonl agree with the checkpoint after any interruption. Hold the lock.

    A last line that is not whole is cut, lines numbered beyond `n_steps` are dropped, and the
    lines of the checkpoint are appended where the file lacks them.

    Parameters
    ----------
    path
        The directory.
    n_steps
        Slices the checkpoint has learned; lines are numbered from 1 to this.
    last_step
        The line, or lines, written together with the checkpoint.

    Returns
    -------
    steps
        All records.
    """
    folder = Path(path)
    file = folder / STEPS
    ours = [last_step] if isinstance(last_step, Mapping) else list(last_step or ())
    content = _read_steps(folder)
    lines = _whole_lines(content)
    steps = list(_parse(lines, folder))
    for position, step in enumerate(steps[:n_steps], start=1):
        if step.get("number") != position:
            raise StateError(
                f"{file} must hold slices 1, 2, 3, ..., but line {position} is number "
                f"{step.get('number')!r}. The file was edited; restore it from a copy."
            )
    steps = steps[:n_steps]
    missing = [step for step in ours if len(steps) < step["number"] <= n_steps]
    if len(steps) + len(missing) != n_steps:
        raise DamagedFile(
            f"the checkpoint of {folder} has learned {n_steps} slices, but {STEPS} holds "
            f"{len(steps)} and the checkpoint itself only {len(missing)} more. Lines were lost; "
            "restore the directory from a copy, or fit again."
        )
    end = sum(len(line) for line in lines[: len(steps)])
    if end != len(content):
        try:
            os.truncate(file, end)
        except OSError as error:
            raise unwritable(file, error) from error
    if missing or not file.exists():
        append_lines(folder, [encode_step(step) for step in missing])
    return steps + [dict(_plain(step)) for step in missing]


def tail(path: PathLike, position: Position | None = None) -> Tail:
    """The records that came since `position`; no directory or file yet counts as none."""
    position = position or Position()
    file = Path(path) / STEPS
    try:
        with file.open("rb") as stream:
            start = position.offset - len(position.last)
            stream.seek(start)
            # A run that was killed and resumed drops lines, and may have grown again meanwhile.
            restarted = stream.read(len(position.last)) != position.last
            if restarted:
                stream.seek(0)
            content = stream.read()
    except FileNotFoundError:
        return Tail([], Position(), restarted=position.offset > 0)
    except OSError as error:
        raise unreadable(file, error) from error
    steps = list(_parse(lines := _whole_lines(content), Path(path)))
    lines = lines[: len(steps)]
    before = Position() if restarted else position
    end = before.offset + sum(map(len, lines))
    after = Position(end, lines[-1] if lines else before.last)
    return Tail(steps, after, restarted)


def _read_steps(folder: Path) -> bytes:
    try:
        return (folder / STEPS).read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise unreadable(folder / STEPS, error) from error


def _whole_lines(content: bytes) -> list[bytes]:
    """The lines that have their end."""
    return content[: content.rfind(b"\n") + 1].splitlines(keepends=True)


def _parse(lines: Sequence[bytes], folder: Path) -> Iterator[Step]:
    for number, line in enumerate(lines, start=1):
        try:
            step = json.loads(line)
            if not isinstance(step, dict):
                raise ValueError("no record")
        except ValueError as error:
            # After a power cut the last block can be on disk by length only.
            if number == len(lines):
                return
            raise StateError(
                f"{folder / STEPS} must hold one JSON record per line, but line {number} is "
                f"none ({error}). The file is damaged; restore it from a copy."
            ) from error
        yield step


def _plain(value: Any) -> Any:
    """The same in terms of JSON: NumPy made Python, numbers that are not finite made None."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    # Dates and the like, whose text is ISO.
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
