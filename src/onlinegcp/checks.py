"""Options a caller gives: a refusal names the option, its value, and what is allowed."""

from __future__ import annotations

import operator
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import numpy as np

from onlinegcp.errors import DataError, closest

# More patterns than this are a slip of the finger, and would take all memory there is.
LARGEST_RANK = 10_000


def check_choice(name: str, value: Any, known: Collection[str], other: str = "") -> None:
    """Refuse anything but one of the known words; a misspelt one is told what was meant.

    `other` says what else there is, which the caller has looked for already.

    Examples
    --------
    >>> check_choice("history", "reservior", ("reservoir", "last"))
    Traceback (most recent call last):
        ...
    onlinegcp.errors.DataError: history must be one of 'reservoir', 'last', but got 'reservior'. \
Did you mean 'reservoir'?
    """
    if isinstance(value, str) and value in known:
        return
    advice = (closest(value, known) if isinstance(value, str) else "") or " Choose one of them."
    raise DataError(
        f"{name} must be one of {', '.join(map(repr, known))}{other}, but got {value!r}.{advice}"
    )


def check_whole(name: str, value: Any, least: int, most: int | None = None, other: str = "") -> int:
    """The value as an int; refuses anything but a whole number from least to most.

    `other` is what else is taken, for the message.
    """
    try:
        number = None if isinstance(value, bool | np.bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        limits = f">= {least}" if most is None else f"from {least} to {most:,}"
        raise DataError(
            f"{name} must be a whole number {limits}{other or ','} but got {value!r}. "
            "Pass an integer."
        )
    return number


def check_jobs(n_jobs: Any) -> int | None:
    """A number of threads, or None for every core, for which others take -1."""
    if n_jobs is None:
        return None
    return check_whole("n_jobs", n_jobs, 1, other=", or None for every core,")


def check_truth(name: str, value: Any) -> None:
    """Refuse anything but True or False."""
    if not isinstance(value, bool | np.bool):
        raise DataError(f"{name} must be True or False, but got {value!r}. Choose one.")


def check_number(name: str, value: Any, interval: str, advice: str = "Change it.") -> float:
    """The value as a float; refuses anything but a number in an interval such as "(0, 1]".

    Examples
    --------
    >>> check_number("forget", 1, "(0, 1]")
    1.0
    """
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    low, high = _bounds(interval)
    inside = (
        number
        and (value > low if interval[0] == "(" else value >= low)
        and (value < high if interval[-1] == ")" else value <= high)
    )
    if not inside:
        raise DataError(f"{name} must be a number in {interval}, but got {value!r}. {advice}")
    return float(value)


@lru_cache(maxsize=32)
def _bounds(interval: str) -> tuple[float, float]:
    low, high = interval[1:-1].split(",")
    return float(low), float(high)
