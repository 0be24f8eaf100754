"""The page of a difference: patterns of two runs, or of two periods of one, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from onlinegcp.digest import Digest, as_digest
from onlinegcp.drawing.profiles import ModeProfile, mode_profiles
from onlinegcp.drawing.text import number, plural, shown_modes
from onlinegcp.report.difference import Pair
from onlinegcp.report.label_changes import LabelChange, by_mode, heading
from onlinegcp.report.page import render_sheet
from onlinegcp.report.payload import columns_of, title_of
from onlinegcp.report.summary import unit_of
from onlinegcp.runlog import RunView
from onlinegcp.storage.printable import all_short, short


def render_difference(
    one: RunView | Digest,
    other: RunView | Digest,
    pairs: Sequence[Pair],
    labels: Sequence[LabelChange],
    names: tuple[str, str],
) -> str:
    """The page as one HTML text.

    Parameters
    ----------
    one, other
        The runs, or the periods that are compared.
    pairs
        From `difference`.
    labels
        From `changed_labels`.
    names
        What to call the two.
    """
    digests = as_digest(one), as_digest(other)
    first, second = (digest.view for digest in digests)
    modes = tuple(mode_profiles(_readable(view)) for view in (first, second))
    # Modes of the first in the order of the second.
    order = [first.modes.index(mode) for mode in second.modes]
    profiles = [modes[0][k] for k in order], modes[1]
    one_run = first.path.resolve() == second.path.resolve()
    titles = [title_of(digest) for digest in digests]
    title = titles[0] if one_run or titles[0] == titles[1] else f"{titles[0]} and {titles[1]}"
    kinds = [pair.kind for pair in pairs]
    lede = (
        f"{names[0]} against {names[1]}: {plural(kinds.count('both'), 'pattern')} in both, "
        f"{kinds.count('new')} new, {kinds.count('gone')} gone."
    )
    payload: dict[str, Any] = {
        "title": title,
        "lede": lede[:1].upper() + lede[1:],
        "note": _note(one_run),
        "unit": unit_of(digests[1]),
        "same": one_run,
        "first": _side(digests[0], names[0]),
        "second": _side(digests[1], names[1]),
        "modes": [{"name": mode.name} for mode in profiles[1]],
        "pairs": [_pair(pair, profiles) for pair in pairs],
        "labels": by_mode(labels, len(labels), labels=5),
        "labelled": heading(labels),
    }
    summary = [["Difference", lede], *([pair_words(pair), _sizes(pair)] for pair in pairs)]
    summary += [["Labels", f"{text}."] for text in payload["labels"]]
    return render_sheet(
        payload, title=f"{title} · onlinegcp", script="difference.js", summary=summary
    )


def pair_words(pair: Pair) -> str:
    """The pattern of a pair, and whether it is new or gone."""
    shown = pair.after or pair.before
    assert shown is not None
    return {"both": "", "new": "New: ", "gone": "Gone: "}[pair.kind] + shown.headline


def _sizes(pair: Pair) -> str:
    return f"{number(pair.held)} to {number(pair.holds)} a slice."


def _note(one_run: bool) -> str:
    if one_run:
        return (
            "The patterns are those the run ended with. One that became what it is within the "
            "second period counts as new; what was in its place before is not kept."
        )
    return (
        "Patterns are matched by their labels; the similarity is the product of the cosines of "
        "their columns, 1 for the same. Bars are shares within the pattern."
    )


def _side(digest: Digest, name: str) -> dict[str, Any]:
    mean = digest.events / max(digest.count, 1)
    return {"name": short(name), "count": digest.count, "mean": float(f"{mean:.6g}")}


def _pair(
    pair: Pair, profiles: tuple[Sequence[ModeProfile], Sequence[ModeProfile]]
) -> dict[str, Any]:
    sides = [
        None if pattern is None else _named(columns_of(pattern.component, modes), modes)
        for pattern, modes in zip((pair.before, pair.after), profiles, strict=True)
    ]
    shown = pair.after or pair.before
    assert shown is not None
    return {**pair.to_json(), "told": shown.sentence, "columns": sides}


def _named(columns: list[dict[str, Any]], modes: Sequence[ModeProfile]) -> list[dict[str, Any]]:
    """Ordered modes with the names of their rows."""
    return [
        column if "labels" in column else {**column, "names": list(mode.labels)}
        for column, mode in zip(columns, modes, strict=True)
    ]


def _readable(view: RunView) -> RunView:
    labels = tuple(all_short(names) for names in view.labels)
    return replace(view, labels=labels, modes=tuple(all_short(shown_modes(view.modes))))
