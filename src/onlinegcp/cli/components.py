"""`onlinegcp components`: the patterns of a run, with labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onlinegcp.cli.options import Json, Whole

if TYPE_CHECKING:
    from onlinegcp.digest import Digest
    from onlinegcp.runlog import RunView


def components(run: str, *, top: Whole = 4, json: Json = False) -> None:
    """Show the patterns of a run, strongest first, with the labels that weigh most.

    Parameters
    ----------
    run
        The run directory.
    top
        Labels per mode.
    json
        As JSON.
    """
    from onlinegcp.cli.reading import digest_of
    from onlinegcp.cli.terminal import say_json, say_table
    from onlinegcp.drawing.text import shown_modes
    from onlinegcp.notebook.components import brief_percent

    digest = digest_of(run)
    view, found = digest.view, patterns_of(digest, top)
    if json:
        say_json(found)
        return
    check_learned(view)
    rows = [
        [
            str(pattern["component"]),
            brief_percent(pattern["share"]),
            pattern["headline"],
            *(
                ", ".join(
                    f"{part['label']} {brief_percent(part['share'])}"
                    for part in pattern["modes"][mode]
                )
                for mode in view.modes
            ),
        ]
        for pattern in found
    ]
    say_table(["", "share", "pattern", *shown_modes(view.modes)], rows, right="rr")


def check_learned(view: RunView) -> None:
    """Refuse a run that has no patterns yet."""
    from onlinegcp.errors import StateError

    if not view.factors:
        raise StateError(
            f"patterns are there once the warm start is over, but {view.path} is still collecting "
            "slices. Go on with update."
        )


def patterns_of(digest: Digest, top: int) -> list[dict[str, Any]]:
    """Patterns in words and numbers, strongest first; components are counted from 1."""
    import numpy as np

    from onlinegcp.report.words import patterns

    view, found = digest.view, []
    for pattern in patterns(digest):
        modes = {}
        for mode, names, factor in zip(view.modes, view.labels, view.factors, strict=True):
            size = np.abs(factor[:, pattern.component])
            shares = size / max(size.sum(), 1e-300)
            best = np.argsort(-shares, kind="stable")[:top]
            modes[mode] = [
                {"label": names[i], "share": float(shares[i])} for i in best if shares[i] > 0
            ]
        found.append(
            {
                "component": pattern.component + 1,
                "share": pattern.share,
                "headline": pattern.headline,
                "sentence": pattern.sentence,
                "modes": modes,
            }
        )
    return found
