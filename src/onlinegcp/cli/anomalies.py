"""`onlinegcp anomalies`: the oddest slices of a run, and why."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onlinegcp.cli import Exit
from onlinegcp.cli.options import Flag, Json, Whole

if TYPE_CHECKING:
    from onlinegcp.runlog import Step


def anomalies(
    run: str,
    *,
    top: Whole = 20,
    all: Flag = False,
    since: str | None = None,
    until: str | None = None,
    by_time: Flag = False,
    fail_on_alarm: Flag = False,
    json: Json = False,
) -> Exit:
    """List flagged slices, oddest first, with what happened in words.

    Those of many streams (fit --by) are sorted together.

    Parameters
    ----------
    run
        The run directory.
    top
        Most slices to list.
    all
        Slices that were not flagged, too.
    since
        Only slices from this time on.
    until
        Only slices before this time.
    by_time
        In order of time.
    fail_on_alarm
        Exit with code 4 if a slice was flagged.
    json
        As JSON, with all that is known about each slice.
    """
    from onlinegcp.cli.terminal import say, say_json, say_table
    from onlinegcp.drawing.text import interval_of
    from onlinegcp.many.files import is_many
    from onlinegcp.runlog import StoredSteps, anomaly_of, read_run_json
    from onlinegcp.runlog.told import WAITING, score

    if is_many(run):
        from onlinegcp.cli.many import list_oddest

        return list_oddest(
            run,
            top=top,
            all=all,
            since=since,
            until=until,
            by_time=by_time,
            fail_on_alarm=fail_on_alarm,
            as_json=json,
        )
    interval = interval_of((read_run_json(run).get("events") or {}).get("every"))
    scored = flagged = judged = 0

    def candidates() -> Iterator[Step]:
        nonlocal scored, flagged, judged
        for step in StoredSteps(run):
            late = since is None or str(step["time"]) >= since
            early = until is None or str(step["time"]) < until
            if not (late and early and step.get("anomaly")):
                continue
            scored += 1
            judged += score(step) > 0.0
            odd = bool(anomaly_of(step)["flagged"])
            flagged += odd
            if odd or all:
                yield step

    # One line is held at a time, and those that are told: there may be a million.
    chosen = heapq.nlargest(top, candidates(), key=lambda step: (score(step), -step["number"]))
    if by_time:
        chosen.sort(key=lambda step: step["number"])
    if json:
        say_json([row_of(step) for step in chosen])
    else:
        verb = "was" if flagged == 1 else "were"
        whole = since is None and until is None
        why = f": {WAITING}" if scored and not judged and whole else ""
        say(f"{flagged:,} of {scored:,} scored slices {verb} flagged{why}.")
        if chosen:
            headings = ["slice", "time", "p", "severity", "what happened"]
            say_table(headings, [texts_of(step, interval) for step in chosen], right="r r")
    return Exit.ALARM if flagged and fail_on_alarm else Exit.DONE


def row_of(step: Step) -> dict[str, Any]:
    """A slice for programs."""
    from onlinegcp.runlog import anomaly_of
    from onlinegcp.runlog.told import score

    return {
        "number": step["number"],
        "time": step["time"],
        "total": step["total"],
        "held": step["held"],
        "prequential": step["prequential"],
        **anomaly_of(step),
        "score": score(step),
    }


def texts_of(step: Step, interval: str) -> list[str]:
    """A slice as a row of a table."""
    from onlinegcp.drawing.text import say_time
    from onlinegcp.report.sentences import said
    from onlinegcp.runlog import anomaly_of
    from onlinegcp.runlog.told import score

    held = " (odd rows held)" if step["held"] else ""
    return [
        str(step["number"]),
        say_time(step["time"], interval),
        f"{10.0 ** -score(step):.1e}",
        anomaly_of(step).get("severity") or "",
        said(step) + held,
    ]
