"""What each component looks like along each mode and over time, in shares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.drawing.text import MONTHS, WEEKDAYS, parse_time, shown_modes
from onlinegcp.runlog import RunView, Step, Vector

Kind = Literal["category", "hour", "weekday", "month", "ordered"]
FloatArray = NDArray[np.float64]

_BIN = re.compile(r"^(<|>=).+|.+ to .+$")


@final
@dataclass(frozen=True)
class ModeProfile:
    """One mode of all components.

    Attributes
    ----------
    name
        Name of the mode.
    kind
        How its labels are ordered, which says how to draw and to describe it.
    labels
        Names of its rows.
    shares
        (length, rank); absolute values of a column sum to 1, or are all 0.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    shares: FloatArray


@final
@dataclass(frozen=True)
class TimeProfile:
    """How strong each component is by weekday, month or hour of the slice, relative to its mean.

    Attributes
    ----------
    weekday, month, hour
        (7, rank), (12, rank) or (24, rank), NaN where no slice falls; None where the slices are
        too long or too few to tell.
    """

    weekday: FloatArray | None = None
    month: FloatArray | None = None
    hour: FloatArray | None = None


def guess_kind(name: str, labels: Sequence[str], *, from_data: bool = False) -> Kind:
    """How the labels of a mode are ordered.

    Parameters
    ----------
    name, labels
        The mode.
    from_data
        Whether the labels are values of a column. Whole numbers are then identifiers (zones,
        shops, users); of rows that nobody named they are positions.

    Examples
    --------
    >>> guess_kind("pickup:hour", ["00", "01", "02"]), guess_kind("day", ["Mon", "Tue"])
    ('hour', 'weekday')
    >>> guess_kind("fare", ["<0", "0 to 5", ">=5"]), guess_kind("dest", ["BOS", "ORD"])
    ('ordered', 'category')
    """
    if not labels:
        return "category"
    if _are_hours(labels) and ("hour" in name.lower() or len(labels) == 24):
        return "hour"
    if _are_names(labels, WEEKDAYS):
        return "weekday"
    if _are_names(labels, MONTHS):
        return "month"
    bins = all(_BIN.match(label) for label in labels)
    dates = all(len(label) >= 8 and parse_time(label) for label in labels)
    numbered = len(labels) > 2 and all(label == str(i) for i, label in enumerate(labels))
    numbered = numbered and not from_data
    return "ordered" if bins or dates or numbered else "category"


def natural_order(kind: Kind, labels: Sequence[str]) -> list[int]:
    """Positions of the labels as a clock or calendar has them; vocabularies grow as data come.

    Examples
    --------
    >>> natural_order("hour", ["17", "5", "09"]), natural_order("weekday", ["Sun", "Mon"])
    ([1, 2, 0], [1, 0])
    """
    places: list[Any] = list(range(len(labels)))
    if kind == "hour":
        places = [int(label) for label in labels]
    elif kind in ("weekday", "month"):
        names = [name[:3].lower() for name in (WEEKDAYS if kind == "weekday" else MONTHS)]
        places = [names.index(label[:3].lower()) for label in labels]
    elif kind == "ordered" and all(moments := [parse_time(label) for label in labels]):
        places = moments
    return sorted(range(len(labels)), key=places.__getitem__)


def mode_profiles(view: RunView) -> tuple[ModeProfile, ...]:
    """The modes of the model as it is now; hours and dates in their order."""
    profiles = []
    shown = shown_modes(view.modes)
    for name, labels, factor in zip(shown, view.labels, view.factors, strict=False):
        total = np.abs(factor).sum(axis=0)
        shares = np.divide(factor, total, out=np.zeros_like(factor), where=total > 0)
        kind = guess_kind(name, labels, from_data=view.info.get("events") is not None)
        order = natural_order(kind, labels)
        sorted_labels = tuple(labels[i] for i in order)
        profiles.append(ModeProfile(name, kind, sorted_labels, shares[order]))
    return tuple(profiles)


def scale(factors: Sequence[FloatArray]) -> FloatArray:
    """What a weight of 1 adds to the total of a slice, (rank,), or to its norm if signs differ."""
    signed = any((factor < 0).any() for factor in factors)
    sizes = [np.linalg.norm(f, axis=0) if signed else f.sum(axis=0) for f in factors]
    return np.asarray(np.prod(np.array(sizes), axis=0), dtype=np.float64)


def matrix(steps: Sequence[Step], name: Vector, rank: int) -> FloatArray:
    """A field with one number per component as a (slices, rank) array, NaN where there is none.

    A slice of which nothing was observed has no weights, whatever its line says.
    """
    out = np.full((len(steps), rank), np.nan)
    for row, step in zip(out, steps, strict=True):
        given = () if name == "weights" and step.get("n_observed") == 0 else step.get(name) or ()
        row[: len(given)] = [np.nan if v is None else v for v in given[:rank]]
    return out


def _are_hours(labels: Sequence[str]) -> bool:
    return all(label.isdigit() and len(label) <= 2 and int(label) < 24 for label in labels)


def _are_names(labels: Sequence[str], names: Sequence[str]) -> bool:
    known = {name.lower() for name in names} | {name[:3].lower() for name in names}
    return all(label.lower() in known for label in labels)
