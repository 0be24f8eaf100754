"""Lines of steps.jsonl: one record of JSON per slice, to and from bytes, each with a checksum."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Literal, TypedDict, cast

import numpy as np

from onlinegcp.errors import StateError
from onlinegcp.runlog.files import STEPS
from onlinegcp.runlog.shapes import check_step
from onlinegcp.storage.sealed import fits, seal, unseal


class _Found(TypedDict):
    observed: float
    expected: float
    low: float
    high: float
    p: float
    new: bool
    milder: bool


class Row(_Found):
    """A row of a mode that an anomaly names."""

    label: str
    follows: bool


class Cell(_Found):
    """A pair of rows that an anomaly names; the other modes have None and no label."""

    index: list[int | None]
    labels: list[str]


class Anomaly(TypedDict, total=False):
    """How odd a slice was before it was learned, as `onlinegcp.anomaly.Anomaly` has it."""

    p: float | None
    z: float | None
    score: float | None
    flagged: bool
    severity: str | None
    kind: str | None
    family: str
    volume_p: float | None
    volume_z: float | None
    volume_odd: bool
    total: float
    expected_total: float | None
    expected_low: float | None
    expected_high: float | None
    total_usual: bool
    rest_usual: bool
    rest_change: float
    more_rows: int
    alarm: int
    ended: int
    sentence: str
    modes: list[list[Row]]
    cells: list[Cell]
    largest: list[Any]
    newcomers: list[Any]


# A line, field by field; docs/run-directory.md says what they mean. A writer writes them all, a
# reader takes any of them for missing: an older version or another program may have written it.
# Writers may use NumPy's numbers and arrays; what is not finite is written as null.
Step = TypedDict(
    "Step",
    {
        "number": int,
        "time": Any,  # ISO text, a number or None
        "warm": bool,
        "nnz": int,
        "n_observed": int,
        "total": float,
        "norm_squared": float,
        "prequential": float | None,
        "local": float | None,
        "forget": float | None,
        "newton_steps": int,
        "births": int,
        "deaths": int,
        "merges": int,
        "rank": int,
        "order": list[int] | None,  # place of each component before, -1 for a new one
        "regime": str,  # "", "changed" or "returned"
        "regime_since": int | None,
        "weights": Any,  # (R,)
        "drift": Any,  # (R,)
        "held": bool,
        "partial": bool,  # its bin was cut off
        "anomaly": Anomaly | None,
        "seconds": float,
        "global": float | None,  # never written: the report adds it for those it could read again
    },
    total=False,
)
# Fields of one number, and of one number per component.
Number = Literal["n_observed", "total", "norm_squared", "prequential", "local", "global", "seconds"]
Vector = Literal["weights", "drift"]
Count = Literal["births", "deaths", "merges"]
COUNTS: tuple[Count, ...] = ("births", "deaths", "merges")
# A p-value below this is written, ranked and drawn as this one.
SMALLEST_P = 1e-300


def anomaly_of(step: Step) -> Anomaly:
    """What was found odd about a slice; nothing where it was not scored."""
    return step.get("anomaly") or {}


def smallest_p(step: Step) -> float:
    """The p-value of a step, the smaller one where it has two, 1 where it was not scored.

    Lines that have a score have one p-value for the slice.

    Examples
    --------
    >>> smallest_p({"anomaly": {"p": 0.2, "volume_p": 0.01}}), smallest_p({"anomaly": None})
    (0.01, 1.0)
    """
    anomaly = anomaly_of(step)
    whole = anomaly.get("score") is not None
    values = (anomaly.get("p"), None if whole else anomaly.get("volume_p"))
    return min((value for value in values if value is not None), default=1.0)


def encode_step(step: Mapping[str, Any]) -> bytes:
    """A record as one line of JSON; numbers that are not finite become null.

    Examples
    --------
    >>> encode_step({"number": np.int64(1), "local": float("nan"), "weights": np.ones(2)})
    b'{"number":1,"local":null,"weights":[1.0,1.0]}\\n'
    """
    # Escaped, because a label may hold half a character, which UTF-8 cannot; and without spaces, as
    # those count on who find fields without parsing.
    try:
        text = _COMPACT.encode(step)
    except (TypeError, ValueError):  # odd keys, or numbers that are not finite
        text = _COMPACT.encode(plain(step))
    return text.encode() + b"\n"


def sealed(line: bytes) -> bytes:
    """A line from `encode_step` with its checksum, as it is stored."""
    return seal(line.rstrip(b"\n")) + b"\n"


def parse_file(
    stream: IO[bytes], folder: Path, *, many: bool = True, first: int = 1
) -> Iterator[tuple[Step, bytes]]:
    """The records of a file from where it stands, with their lines; one is held at a time.

    Parameters
    ----------
    stream
        The file.
    folder
        The run directory, for messages.
    many
        Whether the caller keeps many of them, which then share the names of their fields.
    first
        Number of the line it stands before.
    """
    for number, line in enumerate(stream, start=first):
        step = _parsed(line, stream, folder, number)
        if step is None:
            return
        yield cast(Step, _shared(step) if many else step), line


def number_lines(stream: IO[bytes], folder: Path) -> Iterator[tuple[Any, bytes]]:
    """The lines of a file with the numbers they have; those with a checksum are not parsed."""
    for at, line in enumerate(stream, start=1):
        number: Any = at
        whole = line.endswith(b"\n") and line.startswith(b'{"number":%d,' % at) and fits(line)
        if not whole:
            step = _parsed(line, stream, folder, at)
            if step is None:
                return
            number = step.get("number")
        yield number, line


def _parsed(line: bytes, stream: IO[bytes], folder: Path, number: int) -> dict[str, Any] | None:
    """The record of a line; None where it is the last one and not whole."""
    if not line.endswith(b"\n"):
        return None
    try:
        step, own = unseal(line)
        if not own:  # an older version's, which may have been edited since
            check_step(step)
    except ValueError as error:
        # After a power cut the last block can be on disk by length only.
        if not stream.readline().endswith(b"\n"):
            return None
        raise StateError(
            f"{folder / STEPS} must hold one JSON record per line, but line {number} is "
            f"none of a run ({error}). The file is damaged; restore it from a copy."
        ) from error
    return step


def _shared(record: dict[str, Any]) -> dict[str, Any]:
    """The record with names that all records share: its own would take half of its memory."""
    anomaly = record.get("anomaly")
    if anomaly:
        record["anomaly"] = {sys.intern(name): value for name, value in anomaly.items()}
    return {sys.intern(name): value for name, value in record.items()}


def plain(value: Any) -> Any:
    """The same in terms of JSON: NumPy made Python, numbers that are not finite made None."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    # Dates and the like, whose text is ISO.
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_COMPACT = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=plain)
