"""What changed: patterns and labels that grew or shrank, regimes, births, what moved most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from onlinegcp.digest import Digest
from onlinegcp.drawing.profiles import matrix
from onlinegcp.drawing.text import number, parse_time, percent, plural, say_time
from onlinegcp.report.label_changes import by_mode, label_changes
from onlinegcp.report.words import Pattern

FloatArray: TypeAlias = NDArray[np.float64]

# Slices that are compared with as many before them, and what they are called.
_WINDOWS = {
    "hourly": (168, 24, "hours"),
    "daily": (28, 7, "days"),
    "weekly": (13, 1, "weeks"),
    "monthly": (12, 12, "months"),
    "quarterly": (4, 4, "quarters"),
    "yearly": (10, 1, "years"),
}
_LEAST = 5  # slices on either side
_CLEARLY = 0.1  # a smaller change, as a share of the larger size, is none
_CLEARLY_IN_ALL = 0.2  # the same from one end of a run to the other, where drift adds up
_FAINT = 0.02  # patterns with less of the total change nothing
_BEYOND = 3.0  # standard errors


@final
@dataclass(frozen=True)
class Change:
    """Something that changed.

    Attributes
    ----------
    kind
        "up", "down", "regime", "labels", "born" or "moved".
    text
        What, in a sentence.
    component
        The pattern it is about, counted from 0; None if it is about several.
    """

    kind: str
    text: str
    component: int | None = None


def changes(digest: Digest, patterns: Sequence[Pattern], top: int = 3) -> list[Change]:
    """What changed, the most telling first.

    Parameters
    ----------
    digest
        The run.
    patterns
        Its components in words.
    top
        Most patterns that grew or shrank, most regimes, and most modes whose labels did, that are
        told.
    """
    found = _regimes(digest, top)
    grown = _grown(digest, patterns)[:top]
    told = {change.component for change in grown}
    found += grown
    found += [change for change in _over_all(digest, patterns) if change.component not in told][:2]
    found += _labels(digest, top)
    if digest.births or digest.deaths:
        came = [f"{plural(digest.births, 'pattern')} appeared"] if digest.births else []
        gone = plural(digest.deaths, "pattern") if not came else f"{digest.deaths:,}"
        went = [f"{gone} went"] if digest.deaths else []
        found.append(Change("born", f"{', '.join(came + went)} in all."))
    moved = digest.moved
    if patterns and len(moved) and moved.max() > 0.05:
        most = int(moved.argmax())
        far, when = digest.furthest(most)
        names = {pattern.component: pattern.headline for pattern in patterns}
        if far > 0.01 and most in names and len(found) < 2 * top:
            text = f"{names[most]} moved most, fastest {_at(when, digest.interval)}."
            found.append(Change("moved", text, most))
    return found


def _clear(
    patterns: Sequence[Pattern],
    was: FloatArray,
    is_now: FloatArray,
    noise: FloatArray,
    least: float,
) -> list[Pattern]:
    """Patterns whose size changed by more than that share and than noise, most changed first."""
    gap, larger = np.abs(is_now - was), np.maximum(was, is_now)
    total = max(float(is_now.sum()), float(was.sum()), 1e-300)
    clear = (larger >= _FAINT * total) & (gap >= least * larger) & (gap >= _BEYOND * noise)
    changed = [pattern for pattern in patterns if clear[pattern.component]]
    return sorted(changed, key=lambda pattern: -gap[pattern.component])


def _grown(digest: Digest, patterns: Sequence[Pattern]) -> list[Change]:
    """Patterns that grew or shrank beyond their noise, the largest change first."""
    usual, cycle, noun = _WINDOWS.get(digest.interval, (50, 1, "slices"))
    steps = [s for s in digest.newest if not s.get("partial") and s.get("weights")]
    width = min(usual, len(steps) // 2)
    width -= width % cycle if width >= cycle else 0
    if width < _LEAST or not digest.view.factors:
        return []
    held = matrix(steps[-2 * width :], "weights", digest.rank) * digest.scale
    held = np.abs(np.nan_to_num(held))
    before, now = held[:width], held[width:]
    was, is_now = before.mean(axis=0), now.mean(axis=0)
    noise = np.sqrt((before.var(axis=0) + now.var(axis=0)) / width)
    found = []
    for pattern in _clear(patterns, was, is_now, noise, _CLEARLY):
        r = pattern.component
        way = "up" if is_now[r] > was[r] else "down"
        sizes = f"from {number(was[r], 3)} to {number(is_now[r], 3)} {_each(digest)}"
        text = f"{pattern.headline}: {_by_how_much(was[r], is_now[r])} in the last {width} {noun}"
        found.append(Change(way, f"{text}, {sizes}.", r))
    return found


def _by_how_much(was: float, is_now: float) -> str:
    """A change of a size in words.

    Examples
    --------
    >>> _by_how_much(10.0, 15.0), _by_how_much(10.0, 7.0), _by_how_much(10.0, 45.0)
    ('up 50 %', 'down 30 %', 'up to 4.5 times')
    >>> _by_how_much(0.0, 5.0), _by_how_much(0.001, 5.0)
    ('up from nothing', 'up from next to nothing')
    """
    if was < 0.01 * is_now:
        return "up from next to nothing" if was > 0 else "up from nothing"
    if is_now > 3 * was:
        return f"up to {number(is_now / was, 2)} times"
    return f"{'up' if is_now > was else 'down'} {percent(abs(is_now - was) / was)}"


def _over_all(digest: Digest, patterns: Sequence[Pattern]) -> list[Change]:
    """Patterns that are clearly larger or smaller at the end of the run than at its beginning."""
    points = list(digest.series)
    part = len(points) // 5
    if part < _LEAST:
        return []
    held = np.abs(np.nan_to_num(digest.activations(points)))
    first, last = held[:part], held[-part:]
    was, is_now = first.mean(axis=0), last.mean(axis=0)
    noise = np.sqrt((first.var(axis=0) + last.var(axis=0)) / part)
    found = []
    for pattern in _clear(patterns, was, is_now, noise, _CLEARLY_IN_ALL):
        r = pattern.component
        way = "up" if is_now[r] > was[r] else "down"
        text = (
            f"{pattern.headline}: {way} from {number(was[r], 3)} to {number(is_now[r], 3)} "
            f"{_each(digest)} from the first fifth of the run to the last."
        )
        found.append(Change(way, text, r))
    return found


def _labels(digest: Digest, top: int) -> list[Change]:
    """Labels that hold more or less in the last third of a run than in the first."""
    view, limits = digest.view, digest.view.past_labels.limits
    third = len(limits) // 3
    if not third:
        return []
    early = view.past_labels.between(0, int(limits[third - 1, 1]))
    late = view.past_labels.between(int(limits[-third, 0]), int(limits[-1, 1]))
    of_all = "shares of all, " if early.adds_up else ""
    return [
        Change("labels", f"{text} ({of_all}the last third of the run against the first).")
        for text in by_mode(label_changes(view, view, early, late), top)
    ]


def _each(digest: Digest) -> str:
    noun = _WINDOWS.get(digest.interval, (0, 0, "slices"))[2].removesuffix("s")
    return f"an {noun}" if noun == "hour" else f"a {noun}"


def _regimes(digest: Digest, top: int) -> list[Change]:
    """When many patterns changed at once; of many such times only the newest are told."""
    texts = []
    for step, first in list(digest.regimes)[-top:]:
        dated = parse_time(first.get("time")) is not None
        at = _at(first.get("time"), digest.interval) if dated else f"at slice {first.get('number')}"
        at = at[:1].upper() + at[1:]
        came, went = step.get("births") or 0, step.get("deaths") or 0
        many = f"{came} of {plural(step.get('rank') or digest.rank, 'pattern')}"
        if came != went:  # the rank changed with them
            what = f"{plural(came, 'pattern')} came and {went} went"
        elif step["regime"] == "returned":
            what = f"{many} changed"
        else:
            what = f"{many} {'was' if came == 1 else 'were'} replaced"
        if step["regime"] == "returned":
            texts.append(f"{at} an earlier regime came back: {what}.")
        elif came or went:
            texts.append(f"{at} {what}.")
        else:
            texts.append(f"{at} patterns changed at once.")
    if digest.n_regimes > top:
        texts.insert(0, f"Many patterns changed at once {digest.n_regimes} times, of late:")
    return [Change("regime", text) for text in texts]


def _at(time: object, interval: str) -> str:
    said = say_time(time, interval)
    if interval in ("monthly", "yearly") or interval.endswith(("-month", "-year")):
        return f"in {said}"
    if interval in ("weekly", "quarterly"):
        return f"in the {said}"
    return f"on {said}" if parse_time(time) is not None else f"at {said}"
