"""A part of a run by its time: RUN@2013-01..2013-06, of which either end may be left open."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import final

from onlinegcp.digest import Digest, read_digest
from onlinegcp.digest.reading import PathLike, Progress, read_some
from onlinegcp.drawing.text import parse_time, say_time
from onlinegcp.errors import DataError
from onlinegcp.runlog import Step


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


def read_parts(
    path: PathLike, periods: Sequence[Period], progress: Progress | None = None
) -> list[Digest]:
    """Periods of a run, each in bounded memory; the lines are read once.

    Parameters
    ----------
    path
        The run directory.
    periods
        Which slices.
    progress
        Called now and then with the bytes read and those there are.
    """
    if all(period == Period() for period in periods):
        return [read_digest(path, progress=progress)] * len(periods)
    found = read_some(path, [period.holds for period in periods], progress)
    for period, part in zip(periods, found, strict=True):
        if not part.count:
            whole = read_digest(path)
            first, last = (whole.first_time, whole.last_time) if whole.count else ("–", "–")
            raise DataError(
                f"A period with slices is needed, but {path} has none {period.named}: its slices "
                f"run from {first} to {last}. Choose other limits."
            )
    return found


def parse_part(text: str) -> tuple[str, Period]:
    """The path of a run and a period of it: RUN, or RUN@FROM..TO.

    Parameters
    ----------
    text
        As written on the command line; a directory of that very name is a run.
    """
    path, at, limits = text.rpartition("@")
    if not at or Path(text).exists():
        return text, Period()
    since, dots, until = limits.partition("..")
    if not dots:
        raise DataError(
            f"A period is written RUN@FROM..TO, but {text!r} was given. Write for example "
            "taxi.run@2018-01-01..2018-06-30."
        )
    for limit in (since, until):
        check_limit(limit, f"found in {text!r}")
    return path, Period(since, until)


def check_limit(limit: str, where: str) -> None:
    """Refuse what is no end of a period.

    Parameters
    ----------
    limit
        As written on the command line; "" for none.
    where
        Where it was found, for the error.
    """
    if limit and parse_time(limit) is None and not _is_number(limit):
        raise DataError(
            f"A period has dates or numbers, but {limit!r} was {where}. Write them as 2018-01-31."
        )


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
