"""A shard: some streams, stored together, so that thousands of them are a hundred files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from numpy.typing import NDArray

from onlinegcp import runlog
from onlinegcp.errors import StateError
from onlinegcp.losses import Loss
from onlinegcp.many.files import SHARD_KIND, shard_files
from onlinegcp.many.shard_files import Account
from onlinegcp.run.checkpoint import Checkpoint, fresh_point, pack_point, unpack_point
from onlinegcp.storage.appending import append, force, unwritable
from onlinegcp.storage.archive import DamagedFile, read_archive, under, write_archive
from onlinegcp.storage.labels import held as kept

Arrays = dict[str, NDArray[Any]]


@final
@dataclass
class Held:
    """A stream of a shard: where it stands, and why it stopped, if it did."""

    point: Checkpoint
    account: Account = field(default_factory=Account)
    problem: str | None = None


@final
class Shard:
    """The streams of a shard, read from disk and stored again.

    Parameters
    ----------
    folder
        The run directory. Hold its lock to store.
    number
        Number of the shard.
    info
        Settings of the run.
    loss
        The caller's own loss, where the run was made with one.
    """

    def __init__(
        self, folder: Path, number: int, info: Mapping[str, Any], loss: Loss | None = None
    ) -> None:
        self.number, self.streams = number, dict[str, Held]()
        self._info, self._loss = info, loss
        self._archive, self._lines = shard_files(folder, number)
        self._bytes = 0  # of lines that count
        self._new: list[bytes] = []
        if self._archive.exists():
            self._read()

    def stream(self, label: str) -> Held:
        """A stream, which begins if it is new."""
        if label not in self.streams:
            point = fresh_point(self._info, self._loss)
            if self._info.get("labels") is not None:
                point.labels = tuple(kept(names) for names in self._info["labels"])
            self.streams[label] = Held(point)
        return self.streams[label]

    def note(self, label: str, line: Mapping[str, Any]) -> runlog.Step:
        """Keep a line until the shard is stored; it as a reader will see it."""
        text = runlog.encode_step({"stream": label, **line})
        step: runlog.Step = json.loads(text)
        self.streams[label].account.take(step)
        self._new.append(runlog.sealed(text))
        return step

    def store(self) -> None:
        """Lines first, then the archive that counts on them; both wait for the disk."""
        content = b"".join(self._new)
        try:
            self._archive.parent.mkdir(exist_ok=True)
            if self._lines.exists() and self._lines.stat().st_size > self._bytes:
                os.truncate(self._lines, self._bytes)  # of a process that was cut off
        except OSError as error:
            raise unwritable(self._lines, error) from error
        if content:
            append(self._lines, content)
            force(self._lines)
        arrays: Arrays = {}
        records = []
        for k, (label, held) in enumerate(self.streams.items()):
            own, record = pack_point(held.point)
            arrays |= {f"{k}/{name}": values for name, values in own.items()}
            account = {"account": vars(held.account), "problem": held.problem}
            labels = held.point.labels
            names = None if labels is None else [list(of_mode) for of_mode in labels]
            records.append({"stream": label, **record, "labels": names, **account})
        self._bytes += len(content)
        self._new = []
        write_archive(
            self._archive,
            SHARD_KIND,
            arrays,
            {"bytes": self._bytes, "streams": records},
            of_run=True,
            block=True,
        )

    def _read(self) -> None:
        arrays, record = read_archive(self._archive, SHARD_KIND)
        try:
            self._bytes = int(record["bytes"])
            for k, stored in enumerate(record["streams"]):
                self.streams[stored["stream"]] = self._unpacked(under(arrays, f"{k}/"), stored)
            found = self._lines.stat().st_size if self._lines.exists() else 0
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"a whole shard was needed, but {self._archive} lacks a part ({error!r}). Restore "
                "it from a copy, or fit again elsewhere."
            ) from error
        if found < self._bytes:
            raise DamagedFile(
                f"{self._lines} must hold {self._bytes:,} bytes of lines, but has {found:,}. Lines "
                "were lost; restore the directory from a copy, or fit again."
            )

    def _unpacked(self, arrays: Arrays, stored: Mapping[str, Any]) -> Held:
        point = fresh_point(self._info, self._loss)
        record = {**stored, "kept_labels": None, "last_step": []}
        unpack_point(point, arrays, record, self._archive, self._loss)
        return Held(point, Account(**stored["account"]), stored["problem"])
