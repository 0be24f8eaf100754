"""The run directory: its format, and reading, appending, recovering, following and locking it.

A run is a directory with these files::

    run.json                written once: format, settings, environment, names of the modes
    steps.jsonl             one line of JSON per slice, only ever appended to
    labels.jsonl            names of the rows, appended to when there are new ones (`labels`)
    sources.jsonl           what was read (`run.sources`)
    checkpoint.npz          the model and the last lines, replaced all at once after every slice
    checkpoint.synced.npz   the last one that is surely on disk (`run.disk`)
    names.json              what people call the patterns (`names`)
    digest.npz              long runs: what is known about most of the lines (`digest`)
    lock                    held by the process that writes

The writer appends labels, then stores the checkpoint, which says how many of them count, then
appends the line. A kill in between leaves labels that do not count, or a line that is only in the
checkpoint; `recover` puts it back.
"""

from __future__ import annotations

from onlinegcp.runlog.aligning import Aligner, tell_in
from onlinegcp.runlog.details import Details
from onlinegcp.runlog.files import (
    CHECKPOINT,
    CHECKPOINT_KIND,
    DIGEST,
    FORMAT,
    RUN,
    STEPS,
    SYNCED,
    holds_run,
)
from onlinegcp.runlog.line import (
    COUNTS,
    SMALLEST_P,
    Anomaly,
    Cell,
    Number,
    Row,
    Step,
    Vector,
    anomaly_of,
    encode_step,
    sealed,
    smallest_p,
)
from onlinegcp.runlog.lock import LOCK, Lock, is_locked
from onlinegcp.runlog.reading import (
    Position,
    RunView,
    StoredSteps,
    Tail,
    read_checkpoint,
    read_head,
    read_model,
    read_run,
    read_run_json,
    tail,
)
from onlinegcp.runlog.verifying import Verdict, verify
from onlinegcp.runlog.writing import (
    append_lines,
    check_new,
    environment,
    recover,
    write_run_json,
)

__all__ = [
    "CHECKPOINT", "CHECKPOINT_KIND", "COUNTS", "DIGEST", "FORMAT", "LOCK", "RUN", "SMALLEST_P",
    "STEPS", "SYNCED", "Aligner", "Anomaly", "Cell", "Details", "Lock", "Number", "Position", "Row",
    "RunView", "Step", "StoredSteps", "Tail", "Vector", "Verdict", "anomaly_of", "append_lines",
    "check_new", "encode_step", "environment", "holds_run", "is_locked",
    "read_checkpoint", "read_head", "read_model", "read_run", "read_run_json", "recover", "sealed",
    "smallest_p", "tail", "tell_in", "verify", "write_run_json",
]  # fmt: skip
