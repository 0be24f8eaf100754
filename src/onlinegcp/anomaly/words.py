"""What happened in a slice, as one sentence for terminal, report, live page, JSON and webhook.

Rows come first, with direction, size and usual range; only what is significant is said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from onlinegcp.drawing.text import (
    and_list,
    capital,
    how_many,
    number,
    percent,
    say_mode,
    say_time,
    shown_modes,
    signed,
)

MOST_ROWS = 4  # that are named
LONGEST_LABEL = 60  # characters of a label
MOST_MOVED = 6  # labels on either side of a move
CERTAIN = 1e-12  # p-value below which one row is no odder than another: tails are not known there
SCARCE, MULTIPLE = 0.5, 5.0  # a usual range below an event, of which something is many times more
Record = Mapping[str, Any]


def describe(
    anomaly: Record, *, time: Any, modes: Sequence[str], noun: str = "events", interval: str = ""
) -> str:
    """The sentence of a scored slice.

    Parameters
    ----------
    anomaly
        The record of `Anomaly.to_json`.
    time
        When it was, as its line has it.
    modes
        Names of the modes.
    noun
        What the total counts; empty for values that are not counted.
    interval
        How far apart slices are, where that is known; see `drawing.text.say_time`.

    Examples
    --------
    >>> row = {"label": "LGA", "observed": 52.0, "expected": 347.0, "low": 310.0, "high": 384.0}
    >>> found = {"flagged": True, "total": 14696.0, "expected_total": 16891.0, "volume_odd": True,
    ...          "modes": [[{**row, "p": 1e-9}]], "cells": [], "rest_usual": True}
    >>> first, second = describe(found, time="2001-03-05", modes=["origin"]).split(". ")
    >>> first
    '5 March 2001: 14,696 events, 13 % fewer than expected'
    >>> second
    'Origin LGA -85 % (52, usually 310 to 384); the rest as usual.'
    """
    when = "" if time is None else f"{say_time(time, interval)}: "
    total, expected = anomaly["total"], anomaly.get("expected_total")
    what = how_many(total, noun) if noun else f"total {number(total)}"
    head = f"{when}{what}"
    if anomaly.get("volume_odd") and expected is not None:
        head += f", {_than(total, expected, anomaly.get('expected_low'), bool(noun))}"
    elif anomaly.get("family") and anomaly.get("total_usual", True) and not _rest_is_off(anomaly):
        head += ", as usual"
    if not anomaly.get("flagged"):
        return _printable(f"{head}.")
    parts = [*_rows(anomaly, modes, bool(noun)), *_newcomers(anomaly, modes)]
    pairs = _pairs(anomaly)
    milder = any(cell.get("milder") for cell in anomaly["cells"])
    moves, untold = _moves(pairs, modes) if _n_rows(anomaly) < MOST_ROWS else ([], len(pairs))
    parts += moves
    diffuse = _diffuse(anomaly, modes, bool(parts))
    # What is odd and has not been said may not pass for usual.
    rest = "" if diffuse or untold or milder else _rest(anomaly, bool(noun))
    said = "; ".join(part for part in (*parts, diffuse, rest) if part)
    return _printable(f"{head}. {capital(said)}." if said else f"{head}.")


def _rest_is_off(anomaly: Record) -> bool:
    """Whether all but the rows that are named is said to be off: no slice is as usual then."""
    return (
        bool(anomaly.get("flagged")) and _any_named(anomaly) and not anomaly.get("rest_usual", True)
    )


def _n_rows(anomaly: Record) -> int:
    return sum(map(len, anomaly["modes"]))


def _rows(anomaly: Record, modes: Sequence[str], counted: bool) -> list[str]:
    """Rows that are significant, the oddest first, grouped by mode."""
    # What one label did shows in many of another mode: of what is certain the few are the cause.
    number_of = [sum(map(_named, rows)) for rows in anomaly["modes"]]
    found = sorted(
        ((row["p"], k, row) for k, rows in enumerate(anomaly["modes"]) for row in rows),
        key=lambda item: (max(item[0], CERTAIN), number_of[item[1]], item[0], item[1]),
    )
    # Where all others fell, a row that held its own is odd, too, but it is not what happened.
    named = [item for item in found if _named(item[2])]
    order = list(dict.fromkeys(k for _, k, _ in named[:MOST_ROWS]))
    texts = []
    for k in order:
        rows = [say_row(row, counted=counted) for _, mode, row in named[:MOST_ROWS] if mode == k]
        texts.append(_of(_mode(modes, k), ", ".join(rows)))
    more = max(len(named) - MOST_ROWS, 0) + anomaly.get("more_rows", 0)
    if more:
        texts.append(f"{more} more")
    if found and not texts:
        texts.append(f"{_mode(modes, found[0][1])}: not all alike")
    return texts


def _beyond(row: Record) -> bool:
    return bool(row.get("new")) or not row["low"] <= row["observed"] <= row["high"]


def _named(row: Record) -> bool:
    """Whether a row is part of what happened, and not one that moved less than the slice did."""
    return _beyond(row) and (not row.get("milder") or bool(row.get("new")))


def _any_named(anomaly: Record) -> bool:
    return any(_named(row) for rows in anomaly["modes"] for row in rows)


def say_row(row: Record, *, counted: bool = True) -> str:
    """A row with direction, size and usual range.

    Examples
    --------
    >>> b16 = {"label": "b16", "observed": 546.0, "expected": 0.1, "low": 0.0, "high": 0.3}
    >>> say_row({**b16, "new": True}), say_row(b16)
    ('b16 is new (546)', 'b16 546 (usually next to none)')
    """
    seen, expected = row["observed"], row["expected"]
    if row.get("new"):
        return f"{_name(row)} is new ({number(seen)})"
    if counted and row["high"] < SCARCE and seen > MULTIPLE * row["high"]:
        return f"{_name(row)} {number(seen)} (usually next to none)"
    said = "the others suggest" if row.get("follows") else "usually"
    change = _change(seen, expected, row["low"])
    return f"{_name(row)} {change} ({_usual(seen, row['low'], row['high'], said)})"


def _name(row: Record) -> str:
    label = str(row["label"])
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def _newcomers(anomaly: Record, modes: Sequence[str]) -> list[str]:
    """Modes with more in labels never seen than usual, where no single one of them is named."""
    return [
        f"{_mode(modes, k)}: {number(row['observed'])} in labels never seen (usually "
        f"{_range(row['low'], row['high'], row['observed'])})"
        for k, row in anomaly.get("newcomers", ())
    ]


Pair = tuple[list[tuple[int, str]], Record]


def _pairs(anomaly: Record) -> list[Pair]:
    """Significant pairs of rows neither of which is named, and that moved no less than all did."""
    told = {(k, row["label"]) for k, rows in enumerate(anomaly["modes"]) for row in rows}
    pairs = []
    for cell in anomaly["cells"]:
        places = [(k, label) for k, label in enumerate(cell["labels"]) if label]
        if len(places) == 2 and not told.intersection(places) and not cell.get("milder"):
            pairs.append((places, cell))
    return pairs


def _moves(pairs: list[Pair], modes: Sequence[str]) -> tuple[list[str], int]:
    """Moves within a row, or pairs one by one; and how many pairs are left unsaid."""
    texts: list[str] = []
    while pairs and len(texts) < MOST_ROWS:
        (one, two), first = pairs[0]
        for anchor, other in ((one, two), (two, one)):
            mates = [item for item in pairs if anchor in item[0] and other[0] in dict(item[0])]
            less = [dict(p)[other[0]] for p, cell in mates if cell["observed"] < cell["expected"]]
            more = [dict(p)[other[0]] for p, cell in mates if cell["observed"] >= cell["expected"]]
            if less and more:
                texts.append(
                    f"{_of(_mode(modes, anchor[0]), str(anchor[1]))} moved from {_few(less)} "
                    f"to {_few(more)} ({_mode(modes, other[0])})"
                )
                pairs = [item for item in pairs if item not in mates]
                break
        else:
            texts.append(
                f"{one[1]} with {two[1]} {_change(first['observed'], first['expected'])} "
                f"({number(first['observed'])} for {number(first['expected'], 2)})"
            )
            pairs = pairs[1:]
    return texts, len(pairs)


def _diffuse(anomaly: Record, modes: Sequence[str], named: bool) -> str:
    """What can be said where no single row is odd enough, or those named are not all."""
    family = anomaly.get("family") or ""
    if family == "misfit":
        return (
            "" if named else "no row stands out, but "
        ) + "rows occur together as they never did"
    if family == "many":
        told = {(k, row["label"]) for k, rows in enumerate(anomaly["modes"]) for row in rows}
        largest = [
            _of(
                _mode(modes, k),
                f"{row['label']} {_change(row['observed'], row['expected'], row['low'])}",
            )
            for k, row in anomaly.get("largest", ())
            if (k, row["label"]) not in told
        ]
        what = "many other rows are a little off" if named else "many rows are a little off"
        return f"{what}, the most {and_list(largest)}" if largest else what
    if named or not family:
        return ""
    if family == "volume":
        return "all rows alike" if anomaly["total"] else ""
    # An alarm never goes without a word of what raised it.
    within = family == "mixture" or family.startswith("pairs")
    otherwise = ", but some divide up otherwise than usual" if within else " by itself"
    return f"no row stands out{otherwise}"


def _rest(anomaly: Record, counted: bool) -> str:
    usual, change = anomaly.get("rest_usual"), anomaly.get("rest_change")
    # Without a row that is named there is nothing that the rest could be left over from.
    if not _any_named(anomaly) or usual is None:
        return ""
    if usual:
        # What moved, though less than the rows that are named, is not as usual either.
        unsaid = any(_beyond(row) and not _named(row) for rows in anomaly["modes"] for row in rows)
        return "" if unsaid else "the rest as usual"
    # Only of counts is it known what the total would be without the rows that are odd.
    return f"the rest {_signed(change)}" if counted and change is not None else ""


def _than(total: float, expected: float, low: float | None, counted: bool) -> str:
    less, more = ("fewer", "more") if counted else ("less", "more")
    if counted and expected < 0.5:
        return "none was expected"
    # Of what may well be zero there are no parts, and nothing at all is none.
    if expected <= 0.0 or (low is not None and low < 0.0 and not counted) or total < 0.0:
        return f"{number(expected)} was expected"
    if counted and total == 0.0:
        return f"where {number(round(expected))} {'was' if expected < 1.5 else 'were'} expected"
    change = total / expected - 1.0
    if change > 2.0:
        return f"{number(total / expected, 2)} times what was expected"
    return f"{percent(abs(change))} {more if change > 0 else less} than expected"


def _change(seen: float, expected: float, low: float = 0.0) -> str:
    if expected <= 0.0 or seen < 0.0 or low < 0.0:
        return signed(seen - expected)
    ratio = seen / expected
    return f"x {number(ratio)}" if ratio > 3.0 else _signed(ratio - 1.0)


def _signed(change: float) -> str:
    # A measurement that hardly ever moves is odd with less than half a percent.
    return f"{100 * change:+,.{0 if abs(change) >= 0.005 or not change else 2}f} %"


def _usual(seen: float, low: float, high: float, said: str = "usually") -> str:
    if abs(low) >= 10.0 and low < high and round(low) == round(high):
        # A measurement that hardly ever moves: with the digits that tell the ends apart.
        places = 1 + max(0, -math.floor(math.log10(high - low)))
        return f"{seen:,.{places}f}, {said} {low:,.{places}f} to {high:,.{places}f}"
    return f"{number(seen)}, {said} {_range(low, high, seen)}"


def _range(low: float, high: float, seen: float) -> str:
    """Both ends in few digits, but never so that what lies outside seems to lie inside."""
    return f"{_end(low, seen)} to {_end(high, seen)}"


def _end(end: float, seen: float) -> str:
    short = float(round(end)) if abs(end) >= 10.0 else float(f"{end:.2g}")
    if (short < seen, short > seen) != (end < seen, end > seen):
        # The shorter number must be on the same side of what was seen.
        whole = math.ceil(end) if end > seen else math.floor(end)
        short = float(whole) if abs(end) >= 10.0 else end
    return number(short, 4)


def _few(labels: Sequence[str]) -> str:
    labels = sorted(labels)
    if len(labels) > MOST_MOVED:
        return and_list([*labels[:MOST_MOVED], f"{len(labels) - MOST_MOVED} more"])
    return and_list(labels)


def _of(mode: str, text: str) -> str:
    """Labels with their mode, unless the first says it itself: no "Shop Shop B", no "SKU SKU-7"."""
    begins = text.casefold().startswith(mode.casefold())
    itself = begins and not text[len(mode) : len(mode) + 1].isalnum()
    return text if itself else f"{mode} {text}"


def _mode(modes: Sequence[str], k: int) -> str:
    return say_mode(shown_modes(modes)[k]) if k < len(modes) else f"mode {k + 1}"


def _printable(text: str) -> str:
    """Without characters that would steer a terminal; labels may hold anything."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else "?" for letter in text)
