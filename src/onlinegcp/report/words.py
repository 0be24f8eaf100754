"""Patterns in words a person understands, from labels, factor columns and dated activations."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np

from onlinegcp.digest import Digest, as_digest
from onlinegcp.drawing.profiles import (
    FloatArray,
    ModeProfile,
    TimeProfile,
    matrix,
    mode_profiles,
)
from onlinegcp.drawing.text import (
    MONTHS,
    and_list,
    capital,
    parse_time,
    percent,
    say_mode,
    words_of,
)
from onlinegcp.report.telling_apart import brief, distance, lead, more_of, say_it, told_apart
from onlinegcp.report.week import Days, week_words
from onlinegcp.runlog import RunView
from onlinegcp.runlog.names import read_names

# Characters a name may have before it is made of one label per mode.
LONG = 48
# What a pattern is called that is the only one.
EVERYTHING = "Everything"
# Labels of which none holds so many times its even share are not worth naming.
EVEN = 1.15
# A window that holds this share of a column is where the component lives.
MOST = 0.65

# Words for modes whose names say what they mean; any other mode is called by its name.
_PREPOSITIONS = {
    "from": "origin from source src pu pickup pickup_zone pu_zone start sender pulocationid "
    "departure",
    "to": "dest destination to target dst do dropoff dropoff_zone do_zone end receiver recipient "
    "arrival dolocationid",
    "by": "carrier airline user operator vendor agent author driver company",
    "in": "area district region city country zone place location community beat ward state county "
    "neighbourhood neighborhood community_area",
}
_BY_NAME = {
    name: preposition for preposition, names in _PREPOSITIONS.items() for name in names.split()
}
# What may stand beside "from" and "to" without changing what they say.
_PLACES = {
    *("account", "address", "airport", "area", "borough", "city", "code", "country", "county"),
    *("district", "host", "id", "ip", "location", "name", "node", "place", "port", "region"),
    *("state", "station", "stop", "terminal", "user", "zone"),
}
_PARTS_OF_DAY = (
    (5, "night"),
    (8, "early morning"),
    (11, "morning"),
    (14, "midday"),
    (17, "afternoon"),
    (22.5, "evening"),
    (25, "night"),
)


def preposition(mode: str) -> str:
    """What stands before the labels of a mode: from, to, by or in, or its name.

    Examples
    --------
    >>> preposition("dest"), preposition("start_station_name"), preposition("toCity")
    ('to', 'from', 'to')
    >>> preposition("end_reason"), preposition("Account"), preposition("device_id")
    ('end reason', 'Account', 'device')
    """
    known = _BY_NAME.get(mode.lower())
    if known is not None:
        return known
    first, *others = words_of(mode) or [""]
    end = _BY_NAME.get(first)
    place = bool(others) and set(others) <= _PLACES
    return end if end in ("from", "to") and place else say_mode(mode)


@final
@dataclass(frozen=True)
class Pattern:
    """One component, described.

    Attributes
    ----------
    component
        Its column, counted from 0.
    share
        Its share in all slices together.
    headline
        A few words, such as "Evening · to BOS and ORD".
    sentence
        All there is to say, without a full stop.
    """

    component: int
    share: float
    headline: str
    sentence: str


def patterns(run: RunView | Digest) -> list[Pattern]:
    """The components of a run in words, strongest first."""
    digest = as_digest(run)
    if not digest.view.factors:
        return []
    names = read_names(digest.view.path)
    return called(described(digest, mode_profiles(digest.view)), names)


def called(found: Sequence[Pattern], names: Mapping[int, str]) -> list[Pattern]:
    """The patterns under the names people gave them, by number from 1."""
    taken = set(names.values())
    named = []
    for pattern in found:
        number, own = pattern.component + 1, pattern.headline
        if number not in names:
            others = (f"{own} ({n})" for n in itertools.chain([number], itertools.count(1)))
            own = next(name for name in itertools.chain([own], others) if name not in taken)
            taken.add(own)
        named.append(replace(pattern, headline=names.get(number, own)))
    return named


def described(digest: Digest, modes: Sequence[ModeProfile]) -> list[Pattern]:
    """The components of a run in words that nobody gave them."""
    points = list(digest.series)
    active = digest.activations(points) * np.array([p.count for p in points])[:, None]
    times = [p.began for p in points]
    lives = [life_words(active[:, r], times) for r in range(digest.rank)]
    if digest.series.stride > 1:  # days are told apart by slices, of which the newest are known
        newest = list(digest.newest)
        times, active = [s.get("time") for s in newest], matrix(newest, "weights", digest.rank)
    days = Days.of(times, active)
    found = in_words(modes, digest.shares, digest.calendar, lives, days)
    if len(found) == 1:  # what it holds most of is not what it is
        return [replace(found[0], headline=EVERYTHING)]
    return found


def in_words(
    modes: Sequence[ModeProfile],
    share: FloatArray,
    calendar: TimeProfile,
    lives: Sequence[Sequence[str]],
    days: Days,
) -> list[Pattern]:
    """Components in words, strongest first.

    Parameters
    ----------
    modes
        Their columns along each mode.
    share
        Share of each in all slices.
    calendar
        When each is strong.
    lives
        Since when, or until when, each is there, in words.
    days
        What each held day by day.
    """
    found = []
    # The time of day comes first, as people say it.
    first = [k for k, mode in enumerate(modes) if mode.kind in ("hour", "weekday", "month")]
    order = first + [k for k in range(len(modes)) if k not in first]
    parts: dict[int, list[str]] = {}
    plain = _speaking(modes)
    for r in np.argsort(-share, kind="stable"):
        r = int(r)
        others = [_others(mode.shares, share, r) for mode in modes]
        spoken = [_mode_words(mode, r, others[k], k in plain) for k, mode in enumerate(modes)]
        far = [distance(mode.shares[:, r], others[k]) for k, mode in enumerate(modes)]
        told = [k for k in order if spoken[k].short]
        best = sorted(told, key=lambda k: -far[k])
        # What all have in common tells nobody apart.
        best = [k for k in best if far[k] >= 0.1 * far[best[0]]] or best[:1]
        chosen = [spoken[k] for k in order if k in best[:2]]
        parts[r] = [words.short for words in chosen]
        if len(" · ".join(parts[r])) > LONG:
            parts[r] = [words.shortest for words in chosen]
        spare = [spoken[k].short for k in (*best[2:], *told) if spoken[k] not in chosen]
        # Two patterns must not be called alike while there is something to tell them apart.
        while spare and any(parts[r] == parts[q] for q in parts if q != r):
            parts[r] = [*parts[r], spare.pop(0)]
        long = [spoken[k].long for k in order if spoken[k].long]
        when = calendar_words(calendar, days, r, whole=not lives[r]) + list(lives[r])
        headline = capital(" · ".join(parts[r])) or "A bit of everything"
        sentence = capital(", ".join(long)) or "Spread evenly over every mode"
        if when:
            sentence += "; " + and_list(when)
        found.append(Pattern(r, float(share[r]), headline, sentence))
    spread = [pattern.component for pattern in found if not parts[pattern.component]]
    if len(spread) > 1:
        # Several that are everywhere differ in where they are a little more.
        usual = {r: [_others(mode.shares, share, r) for mode in modes] for r in spread}
        more = {r: capital(more_of(modes, r, usual[r])) for r in spread}
        found = [replace(p, headline=more.get(p.component) or p.headline) for p in found]
    names = told_apart({p.component: p.headline for p in found}, modes, lives)
    return [replace(p, headline=names[p.component]) for p in found]


def _others(shares: FloatArray, share: FloatArray, r: int) -> FloatArray:
    """Where the other components are along a mode; evenly spread where there are none."""
    weight = share.copy()
    weight[r] = 0.0
    rest = np.abs(shares) @ weight
    even = np.full(len(shares), 1.0 / max(len(shares), 1))
    total = rest.sum()
    return np.asarray(0.95 * rest / total + 0.05 * even if total > 0 else even)


def calendar_words(calendar: TimeProfile, days: Days, r: int, *, whole: bool = True) -> list[str]:
    """When in the day, week and year a component is strong.

    Parameters
    ----------
    calendar
        How strong each is.
    days
        What each held day by day.
    r
        The component.
    whole
        Whether it was there all the time: months of one that was not tell when it was there.
    """
    words = []
    if calendar.hour is not None:
        hours = np.nan_to_num(calendar.hour[:, r]) / 24
        spoken = _hours(hours, [f"{h:02}" for h in range(24)], np.full(24, 1 / 24))
        if spoken[1]:
            words.append("strongest in slices of the " + spoken[1].removeprefix("more in the "))
    if calendar.weekday is not None and (day := week_words(calendar.weekday[:, r], days, r)):
        words.append(day)
    if whole and calendar.month is not None and (season := _season_words(calendar.month[:, r])):
        words.append(season)
    return words


def life_words(active: FloatArray, times: Sequence[Any]) -> list[str]:
    """Whether a component came late or went early."""
    size = np.nan_to_num(np.abs(active))
    n = len(size)
    if n < 20 or size.mean() == 0:
        return []
    # Where the middle nine tenths of all it ever added lie.
    total = np.cumsum(size) / size.sum()
    start, end = (int(np.searchsorted(total, level)) for level in (0.02, 0.98))
    words = []
    if start > 0.15 * n:
        words.append("only since " + _month_of(times[start]))
    if end < 0.85 * n:
        words.append("gone after " + _month_of(times[end]))
    return words


def _month_of(time: Any) -> str:
    moment = parse_time(time)
    return str(time) if moment is None else f"{MONTHS[moment.month - 1]} {moment.year}"


class _Words(NamedTuple):
    """The short and the long way to say where a component lives along a mode; "" for all over."""

    short: str = ""
    long: str = ""
    shortest: str = ""


def _mode_words(mode: ModeProfile, r: int, usual: FloatArray, plain: bool) -> _Words:
    column = mode.shares[:, r]
    if not np.abs(column).sum() or len(column) == 1:
        return _Words()
    # Where it has less than nothing there is no more of it.
    added = np.maximum(column, 0.0) if column.min() < 0.0 < column.max() else np.abs(column)
    added = added / added.sum()
    if mode.kind == "hour":
        short, long = _hours(added, mode.labels, usual)
        return _Words(short, long, short)
    if mode.kind in ("weekday", "month", "ordered"):
        short, long = _window(mode, added)
        return _Words(short, long, short)
    return _categories(mode, column, usual, plain)


def _speaking(modes: Sequence[ModeProfile]) -> set[int]:
    """Modes whose labels are words that no other mode has: names need not say which mode it is."""
    found = set()
    for k, mode in enumerate(modes):
        letters = [sum(map(str.isalpha, label)) for label in mode.labels[:1000]]
        if mode.kind != "category" or not letters or np.median(letters) < 4:
            continue
        others = {label for j, other in enumerate(modes) if j != k for label in other.labels}
        if others.isdisjoint(mode.labels):
            found.add(k)
    return found


def _categories(mode: ModeProfile, column: FloatArray, others: FloatArray, plain: bool) -> _Words:
    size = np.abs(column)
    if size.max() < EVEN / len(size):
        return _Words()
    # What the other components have as well says less about this one.
    lift = np.log(np.maximum(size, 1e-12) / others)
    telling = size * np.maximum(lift, 0.0)
    if telling.max() <= 0.0:
        telling = size
    order = np.argsort(-telling, kind="stable")
    near = (size[order] >= 0.4 * size.max()) | (telling[order] >= 0.5 * telling.max())
    order = order[near][:3]
    held = float(size[order].sum())
    present = int((size > 0.1 / len(size)).sum())
    # Worth naming: a fair share of the component, or far more than their number would explain.
    few = held < 0.15 and held < 4 * len(order) / len(size)
    if few or (present > 3 and held < 1.25 * len(order) / present):
        return _Words()
    # The most telling ones make the name, the largest lead the sentence.
    kept = [int(i) for i in order[:2] if telling[i] > 0.05 * telling.max()]
    kept.sort(key=lambda i: -size[i])
    order = order[np.argsort(-size[order], kind="stable")]
    names = {int(i): brief(mode.labels, int(i), LONG) for i in order}
    short = {i: brief(mode.labels, i) for i in kept}
    called = say_mode(mode.name)
    itself = say_it(called, list(names.values()))  # nobody says zone zone 7
    if column.min() < 0 < column.max():
        sign = {i: "more" if column[i] > 0 else "less" for i in names}
        signed = [f"{sign[i]} {short[i]}" for i in kept]
        long = and_list([f"{sign[i]} {name}" for i, name in names.items()])
        which = "" if itself else f"{called} "
        lead = "" if plain else which
        return _Words(f"{lead}{and_list(signed)}", f"{which}{long}", f"{lead}{signed[0]}")
    said = preposition(mode.name)
    which = "" if itself and said == called else f"{said} "
    lead = "" if plain and said == called else which
    if size[order[0]] > 0.85:
        only = int(order[0])
        alone = f"{lead}{brief(mode.labels, only)}"
        return _Words(alone, f"almost only {which}{names[only]}", alone)
    told = [f"{name} ({percent(size[i])})" for i, name in names.items()]
    first = [short[i] for i in kept]
    return _Words(f"{lead}{and_list(first)}", f"{which}{and_list(told)}", f"{lead}{first[0]}")


def _hours(column: FloatArray, labels: Sequence[str], usual: FloatArray) -> tuple[str, str]:
    size, others = np.zeros(24), np.zeros(24)
    hours = [int(label) for label in labels]
    np.add.at(size, hours, column)
    np.add.at(others, hours, usual)
    start, length = _smallest_window(size, MOST, wrap=True)
    start, length = _grown(size, start, length)
    if length < 9:
        part = _part_of_day(start, length)
        return part, f"{part} ({_clock(start, length)})"
    ends = _two_peaks(size)
    parts = [_part_of_day(first, 3) for first in ends or ()]
    if ends and parts[0] != parts[1]:
        clock = and_list([_clock(first, 3) for first in ends])
        return and_list(parts), f"{and_list(parts)} ({clock})"
    # Nearly everything happens in the daytime; what counts then is the difference from the rest.
    more = np.array([np.take(size - others, range(h, h + 5), mode="wrap").sum() for h in range(24)])
    if more.max() >= 0.1:
        start, length = int(more.argmax()), 5
        excess = (size - others).take(range(start, start + 5), mode="wrap")
        inside = np.flatnonzero(excess > 0.2 * excess.max())
        start, length = (start + int(inside[0])) % 24, int(inside[-1] - inside[0]) + 1
        part = _part_of_day(start, length)
        article = {"night": "at", "midday": "around"}.get(part, "in the")
        return f"more {article} {part}", f"more {article} {part} ({_clock(start, length)})"
    middle = (start + length / 2) % 24
    return "", f"daytime ({_clock(start, length)})" if length <= 13 and 8 <= middle < 18 else ""


def _grown(size: FloatArray, start: int, length: int) -> tuple[int, int]:
    """The window with neighbours that are nearly as busy, so that it ends where the rush does."""
    busy = size.take(range(start, start + length), mode="wrap").mean() / 2
    while length < 12 and size[(start - 1) % 24] >= busy:
        start, length = (start - 1) % 24, length + 1
    while length < 12 and size[(start + length) % 24] >= busy:
        length += 1
    return start, length


def _two_peaks(size: FloatArray) -> list[int] | None:
    """Starts of two three-hour windows that hold most, as rush hours do."""
    ring = np.array([np.take(size, range(h, h + 3), mode="wrap").sum() for h in range(24)])
    first = int(ring.argmax())
    apart = np.abs((np.arange(24) - first + 12) % 24 - 12) >= 5
    second = int(np.where(apart, ring, -1.0).argmax())
    both = ring[first] + ring[second]
    return sorted((first, second)) if both >= MOST and ring[second] >= 0.25 else None


def _part_of_day(start: int, length: int) -> str:
    middle = (start + length / 2) % 24
    return next(name for limit, name in _PARTS_OF_DAY if middle < limit)


def _clock(start: int, length: int) -> str:
    return f"{start:02}–{(start + length) % 24 or 24:02} h"


def _window(mode: ModeProfile, size: FloatArray) -> tuple[str, str]:
    start, length = _smallest_window(size, MOST, wrap=mode.kind != "ordered")
    n = len(size)
    if length > 0.6 * n:
        return "", ""
    inside = [(start + k) % n for k in range(length)]
    holding = [i for i in inside if size[i] >= 0.25 * size[inside].max()]
    first, last = mode.labels[start], mode.labels[inside[-1]]
    before = lead(mode, [first, last])
    text = f"{before}{first}" if length == 1 else f"{before}{first}–{last}"
    if length > 1 and mode.kind == "ordered":
        text = f"{before}{first} up to {last}"
    if len(holding) < min(length, 4):  # Tuesdays and Fridays, and hardly anything between them
        text = f"{before}{and_list([mode.labels[i] for i in holding])}"
    return text, f"{text} ({percent(size[inside].sum())})"


def _smallest_window(size: FloatArray, most: float, *, wrap: bool) -> tuple[int, int]:
    """Start and length of the shortest run of rows that holds `most` of the total."""
    n, goal = len(size), most * float(size.sum())
    total = np.concatenate([[0.0], np.cumsum(np.tile(size, 2) if wrap else size)])
    for length in range(1, n + 1):
        starts = np.arange(n if wrap else n - length + 1)
        held = total[starts + length] - total[starts]
        if held.max() >= goal * (1 - 1e-12):
            return int(held.argmax()), length
    return 0, n


def _season_words(profile: FloatArray) -> str:
    values = np.nan_to_num(profile)
    high = np.flatnonzero(values >= 1.2)
    if not len(high):
        return ""
    best = int(values.argmax())
    first = last = best
    # Grown both ways from the best month, round the end of the year.
    while last - first < 11 and values[(first - 1) % 12] >= 1.2:
        first -= 1
    while last - first < 11 and values[(last + 1) % 12] >= 1.2:
        last += 1
    start, end = MONTHS[first % 12], MONTHS[last % 12]
    if first == last:
        return f"strongest in {start}"
    return f"strongest from {start} to {end}"
