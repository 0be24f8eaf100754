"""The checkpoint of a run: everything it goes on from, written after every slice, read on opening.

Labels are not in it, only how many bytes of labels.jsonl count: they are many, and rarely new.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from onlinegcp.anomaly.tracker import AnomalyTracker
from onlinegcp.errors import StateError
from onlinegcp.losses import Loss
from onlinegcp.run.disk import go_back
from onlinegcp.run.settings import fresh_model
from onlinegcp.runlog import (
    CHECKPOINT,
    CHECKPOINT_KIND,
    STEPS,
    SYNCED,
    Step,
    read_checkpoint,
    recover,
)
from onlinegcp.runlog.files import ALARMS
from onlinegcp.runlog.labels import Kept, append_labels
from onlinegcp.storage.archive import DamagedFile, write_archive
from onlinegcp.storage.labels import held
from onlinegcp.storage.times import pack_time, unpack_time
from onlinegcp.streaming import StreamingModel
from onlinegcp.streaming.storage import pack_model, unpack_model

Labels = tuple[Sequence[str], ...]


@dataclass
class Checkpoint:
    """What a run goes on from.

    Attributes
    ----------
    model, tracker
        The model, and what the alarms remember.
    n_steps, n_sources
        Lines of steps.jsonl and of sources.jsonl that count.
    labels
        Names of the rows of each mode, if there are any.
    kept_labels
        What labels.jsonl has of them.
    events
        State of the stream of events, without labels.
    last_time
        Time of the last slice.
    last_lines
        The lines written together with the checkpoint.
    """

    model: StreamingModel
    tracker: AnomalyTracker
    n_steps: int = 0
    n_sources: int = 0
    labels: Labels | None = None
    kept_labels: Kept | None = None
    events: dict[str, Any] | None = None
    last_time: Any = None
    last_lines: list[Step] = field(default_factory=list)


def _fresh_tracker(info: Mapping[str, Any]) -> AnomalyTracker:
    options = info["anomaly"]
    longer = options.get("longer", False)  # which no run of an earlier version has
    return AnomalyTracker(options["period"], options.get("holidays"), longer=longer)


def write_checkpoint(folder: Path, point: Checkpoint) -> None:
    """Write down new labels and replace the checkpoint. Hold the lock."""
    labels: Kept | None = None
    if point.labels is not None:
        homes = _homes(point.events, len(point.labels))
        known = dict(zip(homes, point.labels, strict=True))
        point.kept_labels = append_labels(folder, point.kept_labels, known)
        labels = {**point.kept_labels, "modes": homes}
    arrays, record = pack_point(point)
    record |= {"labels": labels, "last_step": point.last_lines}
    write_archive(
        folder / CHECKPOINT, CHECKPOINT_KIND, arrays, record, durable=False, of_run=True, block=True
    )


def pack_point(point: Checkpoint) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """A checkpoint as arrays and a record, without labels and lines, which lie elsewhere."""
    arrays: dict[str, NDArray[Any]] = {}
    packed: dict[str, Any] | None = None
    if point.model.__sklearn_is_fitted__():
        arrays, packed = pack_model(point.model)
    alarms, tracker = point.tracker.state()
    arrays |= {f"{ALARMS}{name}": values for name, values in alarms.items()}
    return arrays, {
        "model": packed,
        "n_steps": point.n_steps,
        "n_sources": point.n_sources,
        "events": point.events,
        "tracker": tracker,
        "last_time": pack_time(point.last_time, or_text=True),
    }


def fresh_point(info: Mapping[str, Any], loss: Loss | None = None) -> Checkpoint:
    """Where a run begins."""
    return Checkpoint(fresh_model(info, loss), _fresh_tracker(info))


def open_checkpoint(
    folder: Path, info: Mapping[str, Any], loss: Loss | None, *, repair: bool
) -> Checkpoint:
    """What the run goes on from: the newest checkpoint, or the last one that was surely on disk.

    Parameters
    ----------
    folder
        The run directory. Hold its lock for `repair`.
    info
        What run.json holds.
    loss
        The caller's own loss, where the run was made with one.
    repair
        Whether to make the other files agree with the checkpoint.
    """
    try:
        return _opened(folder, info, loss, CHECKPOINT, repair)
    except DamagedFile as error:
        try:
            point = _opened(folder, info, loss, SYNCED, repair)
        except DamagedFile:
            raise error from None
        logging.getLogger("onlinegcp").warning(
            "%s Going on after slice %d, up to which all was on disk.", error, point.n_steps
        )
        if repair:
            go_back(folder)
        return point


def _opened(
    folder: Path, info: Mapping[str, Any], loss: Loss | None, name: str, repair: bool
) -> Checkpoint:
    point = fresh_point(info, loss)
    found = read_checkpoint(folder, name)
    if found is not None:
        unpack_point(point, *found, folder / name, loss)
    elif name == SYNCED or ((folder / STEPS).exists() and (folder / STEPS).stat().st_size):
        raise DamagedFile(
            f"{folder} has lines in {STEPS} and must have {name}, too, but there is none. Restore "
            "it from a copy, or fit again elsewhere."
        )
    if repair:
        recover(folder, point.n_steps, point.last_lines)
    return point


def unpack_point(
    point: Checkpoint,
    arrays: dict[str, NDArray[Any]],
    record: dict[str, Any],
    source: Path,
    loss: Loss | None,
) -> None:
    """Bring a fresh point to where `pack_point` found another; `source` names it in errors."""
    try:
        point.n_steps = int(record["n_steps"])
        point.n_sources = int(record.get("n_sources", 0))  # none before version 0.1
        point.events = record["events"]
        if point.events is not None:
            point.events.pop("vocabularies", None)  # of format 1
        if record["labels"] is not None:
            point.labels = tuple(held(names) for names in record["labels"])
        point.kept_labels = record["kept_labels"]
        if "parts" in record["tracker"]:  # before version 0.2 it was of another kind: start anew
            own = {name: arrays.pop(name) for name in list(arrays) if name.startswith(ALARMS)}
            alarms = {name.removeprefix(ALARMS): values for name, values in own.items()}
            point.tracker = AnomalyTracker.from_state(alarms, record["tracker"])
        point.last_time = unpack_time(record["last_time"])
        point.last_lines = list(record["last_step"])
        packed = record["model"]
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(
            f"a whole checkpoint was needed, but {source} lacks a part ({error!r}). Restore it "
            "from a copy, or fit again elsewhere."
        ) from error
    if packed is not None:
        point.model = unpack_model(arrays, packed, loss=loss, source=source)


def with_vocabularies(events: Mapping[str, Any], labels: Labels | None) -> dict[str, Any]:
    """The state of a stream with its labels, as `EventStream.restore` needs it."""
    known = dict(zip(events["modes"], labels or (), strict=False))
    groups = [group[0] for group in events["shared"]]
    return {**events, "vocabularies": {name: known.get(name, ()) for name in groups}}


def _homes(events: Mapping[str, Any] | None, n_modes: int) -> list[str]:
    """The vocabulary of each mode: modes that share one have the name of the first of them."""
    if events is None:
        return [str(k) for k in range(n_modes)]
    home = {name: group[0] for group in events["shared"] for name in group}
    return [home.get(name, name) for name in events["modes"]]
