"""Reading a run directory, whole or from where one left off; it may be written to meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import StateError
from onlinegcp.runlog.aligning import Aligner
from onlinegcp.runlog.details import Details
from onlinegcp.runlog.files import (
    CHECKPOINT,
    CHECKPOINT_KIND,
    LABELS_HELD,
    RUN,
    STEPS,
    SYNCED,
    PathLike,
)
from onlinegcp.runlog.label_history import LabelHistory
from onlinegcp.runlog.labels import read_labels
from onlinegcp.runlog.line import Step, parse_file
from onlinegcp.runlog.settings import RUN_JSON
from onlinegcp.storage.appending import unreadable
from onlinegcp.storage.archive import DamagedFile, read_archive, under
from onlinegcp.storage.atomic import STREAMS
from onlinegcp.storage.labels import Labels, held

FloatArray = NDArray[np.float64]
Model = tuple[
    tuple[FloatArray, ...],
    FloatArray,
    tuple[Sequence[str], ...],
    dict[str, NDArray[Any]],
    LabelHistory,
]


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
    recent
        Arrays of the newest slices, as `forecasting.Recent` takes them.
    past_labels
        What each label held along the run.
    """

    path: Path
    info: dict[str, Any]
    steps: list[Step]
    factors: tuple[FloatArray, ...]
    weights: FloatArray
    labels: tuple[Sequence[str], ...]
    modes: tuple[str, ...]
    recent: Mapping[str, NDArray[Any]] = dataclasses.field(default_factory=dict)
    past_labels: LabelHistory = dataclasses.field(default_factory=LabelHistory)

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
    """How far a follower has read: bytes, lines, and the last of them, to notice a file cut."""

    offset: int = 0
    last: bytes = b""
    n_lines: int = 0


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


def read_run_json(path: PathLike) -> dict[str, Any]:
    """The settings of a run."""
    folder = Path(path)
    if (folder / STREAMS).exists() and not (folder / RUN).exists():
        raise StateError(
            f"a run of one stream was needed, but {folder} holds many. Take one out with "
            f"`onlinegcp export {folder} run --stream NAME -o NAME.run`, and use that."
        )
    return RUN_JSON.read(folder)


def read_run(path: PathLike, *, details: int | None = None) -> RunView:
    """Everything a run directory holds; it may be written to meanwhile.

    Parameters
    ----------
    path
        The directory. A last line that is not whole yet is left out.
    details
        How many slices, the oddest, keep the cells that stood out; all of them by default.
    """
    info = read_run_json(path)
    steps = tail(path, each=None if details is None else Details(details).take).steps
    aligner = Aligner.of(path)
    for step in steps:
        aligner.take(step)
    return dataclasses.replace(read_head(path, info), steps=steps)


def read_head(path: PathLike, info: dict[str, Any] | None = None) -> RunView:
    """The same without the lines, of which there may be a million.

    Parameters
    ----------
    path
        The directory.
    info
        Its settings, if they were read already.
    """
    folder = Path(path)
    info = read_run_json(folder) if info is None else info
    factors, weights, labels, recent, past = read_model(folder)
    names = [str(name) for name in info.get("modes") or ()]
    names += [f"mode {k + 1}" for k in range(len(names), len(factors))]
    return RunView(folder, info, [], factors, weights, labels, tuple(names), recent, past)


@final
class StoredSteps:
    """The lines of a run, read again each time they are asked for; one is held at a time.

    Parameters
    ----------
    path
        The run directory.
    """

    def __init__(self, path: PathLike) -> None:
        self._folder = Path(path)

    def __len__(self) -> int:
        """How many whole lines there are."""
        try:
            with (self._folder / STEPS).open("rb") as stream:
                return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))
        except FileNotFoundError:
            return 0

    def __iter__(self) -> Iterator[Step]:
        file, aligner = self._folder / STEPS, Aligner.of(self._folder)
        try:
            with file.open("rb") as stream:
                for step, _ in parse_file(stream, self._folder, many=False):
                    aligner.take(step)
                    yield step
        except FileNotFoundError:
            return
        except OSError as error:
            raise unreadable(file, error) from error


def read_model(path: PathLike) -> Model:
    """What those who read need of the checkpoint: factors, weights, labels, newest slices, past.

    All are empty where there is none.
    """
    folder = Path(path)
    try:
        found = read_checkpoint(folder)
    except DamagedFile:
        found = read_checkpoint(folder, SYNCED)
        if found is None:
            raise
    if found is None:
        return (), np.zeros(0), (), {}, LabelHistory()
    arrays, record = found
    factors: list[FloatArray] = []
    while f"factor.{len(factors)}" in arrays:
        factors.append(np.asarray(arrays[f"factor.{len(factors)}"], dtype=np.float64))
    given = record.get("labels") or []
    labels = []
    for k, factor in enumerate(factors):
        names = (given[k] if k < len(given) else None) or ()
        names = names if isinstance(names, Labels) else held(map(str, names))
        if len(names) != len(factor):
            names = held([*names[: len(factor)], *map(str, range(len(names), len(factor)))])
        labels.append(names)
    # Before the warm start is over a checkpoint holds slices only.
    weights = arrays.get("weights", np.zeros(0)) if factors else np.zeros(0)
    numbers = np.asarray(weights, dtype=np.float64)
    past = LabelHistory()
    followed = record.get("tracker", {}).get("parts", {}).get("labels")
    if followed is not None:  # none in runs that were last written by version 0.1
        past = LabelHistory.from_state(under(arrays, LABELS_HELD), followed)
    return tuple(factors), numbers, tuple(labels), under(arrays, "recent."), past


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


def tail(
    path: PathLike,
    position: Position | None = None,
    each: Callable[[Step], object] | None = None,
    *,
    keep: bool = True,
    most: int | None = None,
) -> Tail:
    """The records that came since `position`; no directory or file yet counts as none.

    Parameters
    ----------
    path
        The run directory.
    position
        Where the last one ended.
    each
        Called with every record as it is read, to take from it what need not be held.
    keep
        Whether to return the records; if not, only the position is told.
    most
        Records to read at most; all by default.
    """
    position = position or Position()
    file = Path(path) / STEPS
    steps: list[Step] = []
    try:
        with file.open("rb") as stream:
            stream.seek(position.offset - len(position.last))
            # A run that was killed and resumed drops lines, and may have grown again meanwhile.
            restarted = stream.read(len(position.last)) != position.last
            if restarted:
                stream.seek(0)
            before = Position() if restarted else position
            end, last, n_lines = before.offset, before.last, before.n_lines
            records = parse_file(stream, Path(path), many=keep, first=n_lines + 1)
            for step, line in islice(records, most):
                if each is not None:
                    each(step)
                if keep:
                    steps.append(step)
                end, last, n_lines = end + len(line), line, n_lines + 1
    except FileNotFoundError:
        return Tail([], Position(), restarted=position.offset > 0)
    except OSError as error:
        raise unreadable(file, error) from error
    return Tail(steps, Position(end, last, n_lines), restarted)
