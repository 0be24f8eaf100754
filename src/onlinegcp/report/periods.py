"""A part of a run by its time: RUN@2013-01..2013-06, of which either end may be left open."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import final

from onlinegcp.drawing.text import parse_time, say_time
from onlinegcp.errors import DataError
from onlinegcp.runlog import RunView, Step, read_run


@final
@dataclasses.dataclass(frozen=True)
class Period:
    """From a time on, up to another; "" for no limit. Times compare as ISO text, or as numbers."""

    since: str = ""
    until: str = ""

    def holds(self, step: Step) -> bool:
        """Whether a slice lies in it."""
        time = step.get("time")
        return (not self.since or _at_least(time, self.since)) and (
            not self.until or not _at_least(time, self.until)
        )

    @property
    def named(self) -> str:
        """The period in words.

        Examples
        --------
        >>> Period("2013-06-01", "").named, Period("", "2013-06-01").named, Period().named
        ('from 1 June 2013 on', 'before 1 June 2013', '')
        """
        since, until = (say_time(limit) for limit in (self.since, self.until))
        if self.since and self.until:
            return f"{since} to {until}"
        return f"from {since} on" if self.since else f"before {until}" if self.until else ""


def part_of(view: RunView, period: Period) -> RunView:
    """The run with the lines of a period only."""
    steps = [step for step in view.steps if period.holds(step)]
    if not steps:
        first, last = (view.steps[i].get("time") for i in (0, -1)) if view.steps else ("–", "–")
        raise DataError(
            f"A period with slices is needed, but {view.path} has none {period.named}: its slices "
            f"run from {first} to {last}. Choose other limits."
        )
    return dataclasses.replace(view, steps=steps)


def read_part(text: str) -> tuple[RunView, Period]:
    """A run, or RUN@FROM..TO.

    Parameters
    ----------
    text
        As written on the command line; a directory of that very name is a run.
    """
    path, at, limits = text.rpartition("@")
    if not at or Path(text).exists():
        return read_run(text), Period()
    since, dots, until = limits.partition("..")
    if not dots:
        raise DataError(
            f"A period is written RUN@FROM..TO, but {text!r} was given. Write for example "
            "taxi.run@2018-01-01..2018-06-30."
        )
    for limit in (since, until):
        if limit and parse_time(limit) is None and not _is_number(limit):
            raise DataError(
                f"A period has dates or numbers, but {limit!r} was found in {text!r}. Write them "
                "as 2018-01-31."
            )
    period = Period(since, until)
    view = read_run(path)
    return part_of(view, period), period


def _at_least(time: object, limit: str) -> bool:
    if isinstance(time, int | float):
        return _is_number(limit) and time >= float(limit)
    moment, other = parse_time(time), parse_time(limit)
    return moment is not None and other is not None and moment >= other


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
