"""The run directory: its format, and reading, appending, recovering, following and locking it.

A run is a directory with four files::

    run.json         written once: format, settings, environment, names of the modes
    steps.jsonl      one line of JSON per slice, only ever appended to
    checkpoint.npz   the model and the last lines, replaced all at once after every slice
    lock             held by the process that writes

The writer stores the checkpoint first and appends the line second. A kill between the two leaves
a line that is only in the checkpoint; `recover` puts it back.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.archive import read_archive
from onlinegcp.atomic import replacing
from onlinegcp.errors import StateError

FORMAT = 1
RUN, STEPS, CHECKPOINT, LOCK = "run.json", "steps.jsonl", "checkpoint.npz", "lock"
CHECKPOINT_KIND = "run checkpoint"

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
            f"a run directory was to be made at {folder}, but that failed: {_why(error)}. Choose "
            "a directory you may write to."
        ) from error
    if taken:
        raise StateError(
            f"a new run needs a directory without one, but {folder} holds a run already. Continue "
            "it with update, or choose another directory."
        )
    text = json.dumps(_plain({**record, "format": FORMAT}), indent=1, allow_nan=False)
    with replacing(folder / RUN) as file:
        file.write(text.encode() + b"\n")


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
        raise _unreadable(source, error) from error
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
    file = Path(path) / CHECKPOINT
    try:
        # Asked for before reading, as a run that only just began has none.
        if not file.stat().st_size:
            return (), np.zeros(0), ()
    except FileNotFoundError:
        return (), np.zeros(0), ()
    except OSError as error:
        raise _unreadable(file, error) from error
    arrays, record = read_archive(file, CHECKPOINT_KIND)
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


def append_step(path: PathLike, step: Mapping[str, Any]) -> None:
    """Add one line to steps.jsonl, on disk when this returns; on failure the file is as before."""
    _append(Path(path) / STEPS, encode_step(step))


def encode_step(step: Mapping[str, Any]) -> bytes:
    """A record as one line of JSON; numbers that are not finite become null.

    Examples
    --------
    >>> encode_step({"number": np.int64(1), "local": float("nan"), "weights": np.ones(2)})
    b'{"number":1,"local":null,"weights":[1.0,1.0]}\\n'
    """
    # Escaped, because a label may hold half a character, which UTF-8 cannot.
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
        raise StateError(
            f"the checkpoint of {folder} has learned {n_steps} slices, but {STEPS} holds "
            f"{len(steps)} and the checkpoint itself only {len(missing)} more. Lines were lost; "
            "restore the directory from a copy, or fit again."
        )
    end = sum(len(line) for line in lines[: len(steps)])
    if end != len(content):
        try:
            os.truncate(file, end)
        except OSError as error:
            raise _unwritable(file, error) from error
    if missing or not file.exists():
        _append(file, b"".join(encode_step(step) for step in missing))
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
        raise _unreadable(file, error) from error
    steps = list(_parse(lines := _whole_lines(content), Path(path)))
    lines = lines[: len(steps)]
    before = Position() if restarted else position
    end = before.offset + sum(map(len, lines))
    after = Position(end, lines[-1] if lines else before.last)
    return Tail(steps, after, restarted)


@final
@dataclass
class Lock:
    """The right to write to a run, held by one process at a time.

    The system drops it with the process, however that ends, so a stale one cannot exist.

    Parameters
    ----------
    path
        The run directory.

    Examples
    --------
    >>> import tempfile
    >>> with Lock(tempfile.mkdtemp()):
    ...     pass
    """

    path: PathLike
    _handle: int | None = field(default=None, init=False, repr=False)

    def acquire(self) -> None:
        """Take the lock, or raise a StateError that says who has it."""
        import fcntl

        file = Path(self.path) / LOCK
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _unwritable(file, error) from error
        try:
            # Repeated, because `is_locked` holds it for a moment.
            for _ in range(4):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.02)
            else:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(handle, 300).decode("utf-8", "replace").strip() or "another process"
            os.close(handle)
            raise StateError(
                f"only one process may write to a run, but {self.path} is being written by "
                f"{holder}. Wait for it or stop it; report and watch can read meanwhile."
            ) from error
        except OSError as error:
            os.close(handle)
            raise _unwritable(file, error) from error
        self._handle = handle
        # A full disk leaves the note empty; the lock holds all the same.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        """Give the lock back; the file stays, because removing it would race with the next."""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def is_locked(path: PathLike) -> bool:
    """Whether some process is writing to the run just now."""
    import fcntl

    try:
        handle = os.open(Path(path) / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared, so that many readers can ask at once.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _read_steps(folder: Path) -> bytes:
    try:
        return (folder / STEPS).read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _unreadable(folder / STEPS, error) from error


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


def _append(file: Path, content: bytes) -> None:
    try:
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unwritable(file, error) from error
    try:
        before = os.fstat(handle).st_size
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fsync(handle)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, before)
            raise _unwritable(file, error) from error
    finally:
        os.close(handle)


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


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _unreadable(file: Path, error: Exception) -> StateError:
    return StateError(
        f"{file} was to be read, but that failed: {_why(error)}. Check its permissions."
    )


def _unwritable(file: Path, error: Exception) -> StateError:
    return StateError(
        f"{file} was to be written, but that failed: {_why(error)}. Nothing was lost; free some "
        "space or make the directory writable, then continue with update."
    )
