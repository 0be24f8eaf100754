"""`onlinegcp anomalies`: the oddest slices of a run, and why."""

from __future__ import annotations

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
    """List flagged slices, oddest first, with the cell that stands out.

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
    from onlinegcp.runlog import anomaly_of, read_run

    steps = [
        step
        for step in read_run(run).steps
        if (since is None or str(step["time"]) >= since)
        and (until is None or str(step["time"]) < until)
    ]
    scored = [step for step in steps if step.get("anomaly")]
    flagged = [step for step in scored if anomaly_of(step)["flagged"]]
    chosen = oddest(scored if all else flagged, top)
    if by_time:
        chosen.sort(key=lambda step: step["number"])
    if json:
        say_json([_row(step) for step in chosen])
    else:
        verb = "was" if len(flagged) == 1 else "were"
        say(f"{len(flagged)} of {len(scored)} scored slices {verb} flagged.")
        if chosen:
            headings = ["slice", "time", "why", "p", "events", "expected", "stands out"]
            say_table(headings, map(_texts, chosen), right="r  rrr")
    return Exit.ALARM if flagged and fail_on_alarm else Exit.DONE


def oddest(steps: list[Step], top: int) -> list[Step]:
    """Slices with the smallest p-values first."""
    return sorted(steps, key=_oddity)[:top]


def stands_out(step: Step) -> str:
    """The cell that contributes most, in words."""
    from onlinegcp.runlog import anomaly_of

    cells = anomaly_of(step).get("cells")
    if not cells:
        return ""
    cell = cells[0]
    names = ", ".join(map(str, cell.get("labels") or cell["index"]))
    return f"{names}: {cell['observed']:g} for {cell['expected']:.3g}"


def _oddity(step: Step) -> tuple[float, float]:
    from onlinegcp.runlog import anomaly_of, smallest_p

    # Many p-values are 0 in double precision; then the larger score is the odder one.
    anomaly = anomaly_of(step)
    scores = (anomaly.get("z"), anomaly.get("volume_z"))
    return smallest_p(step), -max(abs(score or 0.0) for score in scores)


def _row(step: Step) -> dict[str, Any]:
    from onlinegcp.runlog import anomaly_of

    return {
        "number": step["number"],
        "time": step["time"],
        "total": step["total"],
        "held": step["held"],
        "prequential": step["prequential"],
        **anomaly_of(step),
    }


def _texts(step: Step) -> list[str]:
    from onlinegcp.runlog import anomaly_of, smallest_p

    anomaly = anomaly_of(step)
    expected = anomaly.get("expected_total")
    return [
        str(step["number"]),
        str(step["time"]),
        (anomaly.get("kind") or "") + (" (held)" if step["held"] else ""),
        f"{smallest_p(step):.1e}",
        f"{step['total']:,.6g}",
        "" if expected is None else f"{expected:,.4g}",
        stands_out(step),
    ]
