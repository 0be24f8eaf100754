"""No two patterns under one name: those that would be called alike say where they differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from onlinegcp.drawing.profiles import FloatArray, ModeProfile
from onlinegcp.drawing.text import and_list, say_mode
from onlinegcp.storage.printable import short

LABEL = 22  # characters of a label in a name
_COMPARED = 5_000  # labels that may begin alike


def lead(mode: ModeProfile, labels: Sequence[str]) -> str:
    """What stands before labels of a mode: nobody says weekday Monday, or zone zone 7."""
    known = {"hour": "at ", "weekday": "on ", "month": "in "}.get(mode.kind)
    called = say_mode(mode.name)
    return (f"{called} " if not say_it(called, labels) else "") if known is None else known


def say_it(name: str, labels: Sequence[str]) -> bool:
    """Whether labels say themselves what mode they are of.

    Examples
    --------
    >>> say_it("zone", ["zone 7", "Zone 12"]), say_it("host", ["host2"]), say_it("to", ["Tokyo"])
    (True, True, False)
    """
    begin = name.casefold()
    return all(
        label.casefold().startswith(begin) and not label[len(name) : len(name) + 1].isalpha()
        for label in labels
    )


def brief(labels: Sequence[str], i: int, most: int = LABEL) -> str:
    """A label with what a name has room for: its beginning, and where it differs from its like.

    Parameters
    ----------
    labels
        All labels of the mode.
    i
        Which of them.
    most
        Characters.

    Examples
    --------
    >>> pages = ["https://a.example/shop/shoes", "https://a.example/shop/hats", "/cart"]
    >>> brief(pages, 0), brief(pages, 2), brief(["Kitchen and household goods"], 0)
    ('http…xample/shop/shoes', '/cart', 'Kitchen and household…')
    """
    label = labels[i]
    if len(label) <= most:
        return short(label)
    head = label[: most - 1]
    alike = itertools.islice(labels, _COMPARED)
    twins = [other for other in alike if other != label and other.startswith(head)]
    if not twins:
        return short(f"{head}…")
    differs = max(
        next((at for at, pair in enumerate(zip(label, other, strict=False)) if pair[0] != pair[1]),
             min(len(label), len(other)))
        for other in twins
    )  # fmt: skip
    room = most - 5
    start = max(0, min(differs - room // 2, len(label) - room))
    end = label[start : start + room]
    return short(f"{label[:4]}…{end if start + room >= len(label) else end[:-1] + '…'}")


def distance(column: FloatArray, others: FloatArray) -> float:
    """How far a column is from where the others are: the information it adds, in nats."""
    size = np.abs(column)
    inside = size > 0
    return float((size[inside] * np.log(size[inside] / others[inside])).sum())


def more_of(
    modes: Sequence[ModeProfile], r: int, others: Sequence[FloatArray], said: str = ""
) -> str:
    """The two labels a component has more of than others, in the mode that tells most.

    Where those are said already, the one it has less of.

    Parameters
    ----------
    modes
        Columns along each mode.
    r
        The component.
    others
        Where the others are along each mode; nowhere 0.
    said
        What its name says so far.
    """
    far = [distance(mode.shares[:, r], others[k]) for k, mode in enumerate(modes)]
    k = int(np.argmax(far))
    size = np.abs(modes[k].shares[:, r])
    telling = size * np.log(np.maximum(size, 1e-12) / others[k])
    # A second label is worth a word only if it tells a fair part of what the first one does.
    least = max(1e-6, 0.25 * float(telling.max(initial=0.0)))
    best = [int(i) for i in np.argsort(-telling, kind="stable")[:2] if telling[i] > least]
    if modes[k].kind != "category":
        best.sort()
    names = [brief(modes[k].labels, i) for i in best]
    if names and all(name.lower() in said.lower() for name in names):
        lacking = int(np.argmax(others[k] - size))
        less = brief(modes[k].labels, lacking)
        return f"less {lead(modes[k], [less])}{less}"
    return f"more {lead(modes[k], names)}{and_list(names)}" if names else ""


def told_apart(
    headlines: Mapping[int, str], modes: Sequence[ModeProfile], lives: Sequence[Sequence[str]]
) -> dict[int, str]:
    """Headlines of which no two are alike.

    Parameters
    ----------
    headlines
        By component, strongest first.
    modes
        Columns along each mode.
    lives
        Since when, or until when, each is there, in words.
    """
    found = dict(headlines)
    said = list(headlines.values())
    for name in dict.fromkeys(name for name in said if said.count(name) > 1):
        twins = [r for r, other in headlines.items() if other == name]
        for r in twins:
            taken = {other for q, other in found.items() if q != r}
            longer = _longer(name, r, twins, modes, lives)
            found[r] = next(other for other in longer if other not in taken)
    return found


def _longer(
    name: str,
    r: int,
    twins: Sequence[int],
    modes: Sequence[ModeProfile],
    lives: Sequence[Sequence[str]],
) -> Iterator[str]:
    """What a component may be called beside others of its name, the most telling first."""
    rest = [q for q in twins if q != r]
    others = []
    for mode in modes:
        usual = np.abs(mode.shares[:, rest]).mean(axis=1)
        even = np.full(len(usual), 1.0 / max(len(usual), 1))
        others.append(0.995 * usual / max(float(usual.sum()), 1e-300) + 0.005 * even)
    if more := more_of(modes, r, others, name):
        yield f"{name} · {more}"
    for words in lives[r]:
        yield f"{name} · {words}"
    # The number that all commands and pages know it by; of a name given by hand, one behind it.
    yield from (f"{name} ({number})" for number in itertools.chain([r + 1], itertools.count(1)))
