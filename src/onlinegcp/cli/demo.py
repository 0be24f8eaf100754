"""`onlinegcp demo`: a year of flights, from bundled data to patterns, odd days and a report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from onlinegcp.cli import Exit
from onlinegcp.cli.options import Flag, Quiet, Whole

if TYPE_CHECKING:
    from onlinegcp.digest import Digest

MODES = ("dest", "carrier", "hour")


def demo(
    *,
    output: Annotated[str, Parameter(name=["--output", "-o"])] = "flights.run",
    rank: Whole = 8,
    open: Flag = False,
    quiet: Quiet = False,
) -> Exit:
    """Learn 336,776 flights out of New York day by day, and say what was found.

    Parameters
    ----------
    output
        The run directory; that of an earlier demo is replaced.
    rank
        Number of patterns.
    open
        Show the report in the browser.
    quiet
        No bar.
    """
    from rich.markup import escape

    from onlinegcp.cli.ahead import compile_start, compiling_ahead, is_compiled
    from onlinegcp.cli.flight_names import spoken
    from onlinegcp.cli.learning import Telling, learn
    from onlinegcp.cli.terminal import Bar, say
    from onlinegcp.problems import load_flights
    from onlinegcp.report import make_report
    from onlinegcp.run import Run
    from onlinegcp.streaming import OnlineGCP

    flights = load_flights(MODES)
    assert flights.labels is not None
    total = sum(x.total for x in flights)
    say(
        f"[b]{total:,.0f} flights[/b] left New York City in 2013: one slice per day of "
        f"{' x '.join(f'{n} {mode}' for n, mode in zip(flights.shape, MODES, strict=True))}."
    )
    with compiling_ahead("poisson"):
        if not is_compiled("poisson"):
            with Bar(quiet=quiet, what="compiling", begin="before the first run only"):
                compile_start("poisson")
        with Run.create(
            output,
            OnlineGCP(rank, "poisson", init_slices=28, random_state=0),
            modes=["destination", "carrier", "hour"],
            labels=spoken(flights.labels, MODES),
            command=["onlinegcp", *sys.argv[1:]],
            unit="flights",
            period=7,
            overwrite=_is_demo(Path(output)),
        ) as run:
            outcome = learn(run, flights, [], Telling(quiet=quiet), n_events=total)
    if outcome is not Exit.DONE:
        return outcome
    made = make_report(output, slices=flights)
    _tell(made.digest)
    report = made.write()
    say(f"\nReport: [b]{escape(str(report))}[/b]")
    if open:
        import webbrowser

        webbrowser.open(report.resolve().as_uri())
    return Exit.DONE


def _tell(digest: Digest) -> None:
    from rich.markup import escape

    from onlinegcp.cli.terminal import say
    from onlinegcp.drawing.text import percent
    from onlinegcp.report.fit import say_means
    from onlinegcp.report.sentences import sentence
    from onlinegcp.report.words import patterns
    from onlinegcp.runlog import anomaly_of

    say("\n[b]The three strongest patterns[/b]")
    for place, pattern in enumerate(patterns(digest)[:3], 1):
        say(f"  {place}. {percent(pattern.share)} of flights: {escape(pattern.sentence)}.")
    flagged = [step for step in digest.odd if anomaly_of(step).get("flagged")]
    say(f"\n[b]The oddest of {digest.flagged} flagged days[/b]")
    for step in flagged[:5]:
        say(f"  {escape(sentence(step))}")
    say(f"\n{say_means(digest)}.".replace(" per event ", " per flight "))


def _is_demo(path: Path) -> bool:
    """Whether the directory holds an earlier demo, which may be replaced."""
    from onlinegcp.errors import StateError
    from onlinegcp.runlog import read_run_json

    try:
        command = read_run_json(path).get("command") or []
    except StateError:
        return False
    return "demo" in command[:2]
