"""The time of a slice as JSON and back, so that a stored stream keeps its clock."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

from onlinegcp.errors import DataError


def pack_time(time: Any, *, or_text: bool = False) -> Any:
    """A time in a form `json.dumps` takes.

    Parameters
    ----------
    time
        None, a bool, number, string, date, datetime, timedelta or NumPy time. NumPy numbers
        become Python ones, and of a time zone only the offset is kept.
    or_text
        Keep anything else as its text, where losing its type is better than not storing at all;
        it is refused otherwise.

    Examples
    --------
    >>> pack_time(datetime.date(2013, 1, 31))
    {'date': '2013-01-31'}
    >>> unpack_time({'date': '2013-01-31'})
    datetime.date(2013, 1, 31)
    """
    if isinstance(time, np.datetime64 | np.timedelta64):
        return {"numpy": time.dtype.str, "ticks": int(time.astype(np.int64))}
    if isinstance(time, np.generic):
        time = time.item()
    if time is None or isinstance(time, bool | int | float | str):
        return time
    packed: dict[str, Any] | None = None
    if isinstance(time, datetime.datetime):
        packed = {"datetime": time.isoformat()}
    elif isinstance(time, datetime.date):
        packed = {"date": time.isoformat()}
    elif isinstance(time, datetime.timedelta):
        packed = {"timedelta": [time.days, time.seconds, time.microseconds]}
    # Subclasses can hold more than their base: pandas has nanoseconds, and a NaT without a date.
    if packed is not None and _comes_back(packed, time):
        return packed
    if or_text:
        return str(time)
    raise DataError(
        "A time that is saved must be None, a bool, number, string, date, datetime, timedelta or "
        f"NumPy time, but {time!r} was found. Change it with x.with_time(...)."
    )


def unpack_time(packed: Any) -> Any:
    """The time that `pack_time` packed."""
    if not isinstance(packed, dict):
        return packed
    if "numpy" in packed:
        return np.int64(packed["ticks"]).view(packed["numpy"])
    ((kind, written),) = packed.items()
    if kind == "timedelta":
        return datetime.timedelta(*written)
    return {"datetime": datetime.datetime, "date": datetime.date}[kind].fromisoformat(written)


def _comes_back(packed: dict[str, Any], time: Any) -> bool:
    try:
        return bool(unpack_time(packed) == time)
    except ValueError:
        return False
