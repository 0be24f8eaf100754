"""One of many streams as a run of its own, which every command takes."""

from __future__ import annotations

import os
from pathlib import Path

from onlinegcp import runlog
from onlinegcp.losses import Loss
from onlinegcp.many.files import read_settings
from onlinegcp.many.reading import shard_of, steps_of
from onlinegcp.many.shard import Shard
from onlinegcp.run import making
from onlinegcp.run.checkpoint import write_checkpoint
from onlinegcp.run.disk import DiskSync

_SETTINGS = (
    *("created", "version", "environment", "model", "modes", "events", "unit", "anomaly"),
    "command",
)
_AT_ONCE = 1000  # lines


def take_out(
    path: str | os.PathLike[str],
    stream: str,
    target: str | os.PathLike[str],
    *,
    loss: Loss | None = None,
) -> Path:
    """Write one stream into a run directory of its own; both may go on, each for itself.

    Parameters
    ----------
    path
        The run of many streams; it is not changed.
    stream
        Name of the stream.
    target
        The directory to make.
    loss
        The caller's own loss, where the run was made with one.
    """
    folder, out = Path(path), Path(target)
    info = read_settings(folder)
    held = Shard(folder, shard_of(folder, stream), info, loss).streams[stream]
    runlog.check_new(out, overwrite=False)
    settings = {name: info.get(name) for name in _SETTINGS}
    lock = making.begin(out, settings, overwrite=False)
    try:
        lines: list[bytes] = []
        for step in steps_of(folder, stream):
            lines.append(
                runlog.encode_step({name: v for name, v in step.items() if name != "stream"})
            )
            if len(lines) == _AT_ONCE:
                runlog.append_lines(out, lines)
                lines.clear()
        if lines:
            runlog.append_lines(out, lines)
        write_checkpoint(out, held.point)
        DiskSync(out).written()
    finally:
        lock.release()
    return out
