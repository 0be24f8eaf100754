"""The page of a comparison: how methods predicted the same slices, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from onlinegcp.report.page import render_sheet
from onlinegcp.storage.printable import short, without_folders

_NUMBERS = ("prequential", "local", "global", "score", "milliseconds", "megabytes")


def render_comparison(found: Mapping[str, Any], *, source: str, command: str) -> str:
    """The page as one HTML text.

    Parameters
    ----------
    found
        The comparison, as its `to_dict` gives it.
    source
        What was read.
    command
        How to learn the stream with the best of them.
    """
    told = [_told(entry) for entry in found["contenders"]]
    ran = [entry for entry in told if entry["means"]]
    lede = _lede(ran, found)
    payload = {
        "loss": str(found["loss"]),
        "first": int(found["warm_start"]) + 1,
        "lede": lede,
        "contenders": told,
        "source": short(without_folders(source)),
        "next": short(without_folders(command), 400) if ran else "",
    }
    best = f"{ran[0]['name']} predicts best" if ran else "No method could take the stream"
    return render_sheet(
        payload,
        title=f"{best} · onlinegcp",
        script="comparison.js",
        summary=[[best, lede], *([entry["name"], _words(entry)] for entry in told)],
    )


def _told(entry: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {
        name: None if entry[name] is None else float(f"{entry[name]:.6g}") for name in _NUMBERS
    }
    sums = accumulate(entry["curve"])
    means = [float(f"{total / number:.6g}") for number, total in enumerate(sums, 1)]
    refusal = None if entry["refusal"] is None else short(without_folders(entry["refusal"]), 600)
    return {"name": short(entry["name"]), "refusal": refusal, "means": means, **numbers}


def _lede(ran: Sequence[Mapping[str, Any]], found: Mapping[str, Any]) -> str:
    slices = int(found["n_slices"]) - int(found["warm_start"])
    course = (
        f"{slices:,} slices, each predicted before it was learned, from the same start made of the "
        f"{found['warm_start']} slices before them."
    )
    finished = [entry for entry in ran if entry["prequential"] is not None]
    if len(finished) < 2:
        return course
    first, second = finished[:2]
    quick = min(finished, key=lambda entry: float(entry["milliseconds"]))
    behind = float(second["prequential"]) - float(first["prequential"])
    words = f"{course} {second['name']} comes next, {behind:.3g} behind per cell."
    if quick is not first:
        words += f" The quickest is {quick['name']}, {quick['milliseconds']:.2g} ms a slice."
    return words


def _words(entry: Mapping[str, Any]) -> str:
    if entry["prequential"] is None:
        return str(entry["refusal"])
    return f"Loss {entry['prequential']:.5g} per cell, {entry['milliseconds']:.3g} ms a slice."
