"""The sentence of a scored slice, with its time as people say it, or without."""

from __future__ import annotations

import re

from onlinegcp.drawing.text import interval_of, say_time
from onlinegcp.runlog import Step
from onlinegcp.runlog.told import sentence as stored

_INTERVALS = ("", *map(interval_of, ("1w", "1mo", "1q", "1y", "1s", "1ms")))


def said(step: Step) -> str:
    """What happened, without the time, which stands beside it.

    Examples
    --------
    >>> said({"time": "1992-11-01", "anomaly": {"sentence": "1 November 1992: 5 events."}})
    '5 events.'
    """
    text, time = stored(step), step.get("time")
    when, colon, rest = text.partition(": ")
    known = {str(time), *(say_time(time, interval) for interval in _INTERVALS)}
    # Of several years it says which.
    dated = when in known or re.fullmatch(rf"{str(time)[:4]}–\d+", when)
    return rest[:1].upper() + rest[1:] if colon and dated else text


def sentence(step: Step, interval: str = "") -> str:
    """What happened, and when.

    Parameters
    ----------
    step
        The line of the slice.
    interval
        How far apart slices are; lines of older versions call a month by its first day.

    Examples
    --------
    >>> line = {"time": "1992-11-01", "anomaly": {"sentence": "1 November 1992: 5 events."}}
    >>> sentence(line, "monthly")
    'November 1992: 5 events.'
    """
    if step.get("time") is None:
        return said(step)
    told = said(step)
    return f"{say_time(step['time'], interval)}: {told[:1].lower()}{told[1:]}"
