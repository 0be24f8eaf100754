"""What is known about the streams of a shard without their models: records, accounts and lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from onlinegcp import runlog
from onlinegcp.many.files import SHARD_KIND, shard_files
from onlinegcp.runlog.shapes import check_step
from onlinegcp.runlog.told import score, sentence
from onlinegcp.storage.appending import unreadable
from onlinegcp.storage.archive import DamagedFile, read_record
from onlinegcp.storage.sealed import unseal


@dataclass
class Account:
    """What is known about a stream at a glance, so that nobody reads all lines for it.

    Attributes
    ----------
    slices, scored, flagged
        How many.
    warming_up
        Slices that wait for the warm start to be over, and have no line yet.
    total
        Sum of all values.
    first, last
        Times of the first and the last slice.
    oddest
        The oddest slice: number, time, score, severity and sentence.
    """

    slices: int = 0
    scored: int = 0
    flagged: int = 0
    warming_up: int = 0
    total: float = 0.0
    first: Any = None
    last: Any = None
    oddest: dict[str, Any] | None = None

    def take(self, step: runlog.Step) -> None:
        """One more line."""
        anomaly = runlog.anomaly_of(step)
        self.first = step["time"] if not self.slices else self.first
        self.slices, self.last = self.slices + 1, step["time"]
        self.total += float(step["total"])
        if not anomaly:
            return
        self.scored += 1
        self.flagged += bool(anomaly["flagged"])
        if self.oddest is None or score(step) > self.oddest["score"]:
            told = {"score": score(step), "sentence": sentence(step)}
            known = {"number": step["number"], "time": step["time"]}
            self.oddest = {**known, **told, "severity": anomaly.get("severity")}


def shard_records(folder: Path, number: int) -> tuple[list[dict[str, Any]], int]:
    """What a shard knows about its streams, without their models, and the bytes that count."""
    archive, _ = shard_files(folder, number)
    record = read_record(archive, SHARD_KIND)
    try:
        return [dict(stored) for stored in record["streams"]], int(record["bytes"])
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(
            f"a whole shard was needed, but {archive} lacks a part ({error!r}). Restore it from a "
            "copy, or fit again elsewhere."
        ) from error


def shard_lines(folder: Path, number: int, n_bytes: int) -> Iterator[bytes]:
    """The lines of a shard that count, one at a time."""
    _, lines = shard_files(folder, number)
    if not n_bytes:
        return
    try:
        with lines.open("rb") as file:
            left = n_bytes
            while left > 0 and (line := file.readline()):
                left -= len(line)
                yield line
    except OSError as error:
        raise unreadable(lines, error) from error
    if left:
        raise DamagedFile(
            f"{lines} must hold {n_bytes:,} bytes of lines, but they end elsewhere. Lines were "
            "lost; restore the directory from a copy, or fit again."
        )


def parsed(line: bytes, folder: Path, number: int) -> runlog.Step:
    """A line of a shard, checked against its checksum."""
    try:
        step, _ = unseal(line)
        check_step(step)
    except ValueError as error:
        raise DamagedFile(
            f"{shard_files(folder, number)[1]} must hold one JSON record per line, but one is none "
            f"of a run ({error}). The file is damaged; restore it from a copy."
        ) from error
    return cast("runlog.Step", step)
