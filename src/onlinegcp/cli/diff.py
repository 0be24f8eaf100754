"""`onlinegcp diff`: two runs, or two periods of one, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from onlinegcp.cli.options import Flag, Json

if TYPE_CHECKING:
    from onlinegcp.digest import Digest
    from onlinegcp.digest.reading import Progress
    from onlinegcp.report.difference import Pair
    from onlinegcp.report.label_changes import LabelChange


def diff(
    first: str,
    second: str | None = None,
    /,
    *,
    before: str | None = None,
    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None,
    open: Flag = False,
    labels: Flag = False,
    json: Json = False,
) -> None:
    """Match the patterns of two runs, or of two periods: what grew, what is new, what is gone.

    Labels that hold more or less of everything than before are told, too.

    onlinegcp diff january.run february.run

    onlinegcp diff taxi.run --before 2020-03-15 -o diff.html

    onlinegcp diff taxi.run@2019-01-01..2019-04-01 taxi.run@2020-01-01..2020-04-01

    Parameters
    ----------
    first
        The run directory to start from; RUN@FROM..TO for a part of it.
    second
        The one to compare with it.
    before
        Compare the slices of one run before this time with those from it on.
    output
        Write a page, too: one HTML file.
    open
        Show the page in the browser.
    labels
        Tell only of labels, and not of patterns.
    json
        As JSON: the patterns or, with --labels, the labels.
    """
    from pathlib import Path

    from rich.markup import escape

    from onlinegcp.cli.reading import Reading
    from onlinegcp.cli.terminal import note, say, say_json
    from onlinegcp.report.difference import changed_labels, difference
    from onlinegcp.storage.atomic import replacing

    with Reading(quiet=json) as reading:
        parts, names = _parts(first, second, before, reading)
    pairs, found = difference(*parts), changed_labels(*parts)
    if output is not None or open:
        from onlinegcp.report.difference_page import render_difference

        target = Path(output or "diff.html")
        with replacing(target) as file:
            file.write(render_difference(*parts, pairs, found, names).encode())
        (note if json else say)(str(target) if json else escape(str(target)))
        if open:
            import webbrowser

            webbrowser.open(target.resolve().as_uri())
    if json:
        say_json([change.to_json() for change in found] if labels else [p.to_json() for p in pairs])
        return
    if not labels:
        _tell(pairs, names)
    _tell_labels(found, asked=labels)


def _example(run: str) -> str:
    """The two halves of a run, or of any where it cannot be read."""
    from onlinegcp.errors import OnlineGCPError
    from onlinegcp.runlog import StoredSteps

    try:
        times = [str(step["time"]) for step in StoredSteps(run)]
    except (OnlineGCPError, OSError):
        times = []
    return f"{run} --before {times[len(times) // 2]}" if times else "RUN --before 2018-06-01"


def _parts(
    first: str, second: str | None, before: str | None, progress: Progress
) -> tuple[tuple[Digest, Digest], tuple[str, str]]:
    """What is compared, and what the two are called."""
    from pathlib import Path

    from onlinegcp.cli.components import check_learned
    from onlinegcp.errors import DataError
    from onlinegcp.report.periods import Period, check_limit, parse_part, read_parts

    if (second is None) == (before is None):
        raise DataError(
            "Two runs are compared, or one with --before, but "
            f"{'neither a second run nor --before' if second is None else 'both'} was given. "
            f"Write onlinegcp diff A B, or onlinegcp diff {_example(first)}."
        )
    path, early = parse_part(first)
    if second is None:
        assert before is not None
        check_limit(before, "given with --before")
        limits = Period(early.since, before), Period(before, early.until)
        one, other = read_parts(path, limits, progress)
        check_learned(one.view)
        return (one, other), (limits[0].named, limits[1].named)
    another, late = parse_part(second)
    same = Path(path).resolve() == Path(another).resolve()
    if same:
        one, other = read_parts(path, (early, late), progress)
    else:
        (one,), (other,) = (
            read_parts(of, (period,), progress) for of, period in ((path, early), (another, late))
        )
    for part in (one, other):
        check_learned(part.view)
    if same and early.named and late.named:
        return (one, other), (early.named, late.named)
    runs = [Path(of).resolve().name.removesuffix(".run") for of in (path, another)]
    return (one, other), (
        " ".join(filter(None, [runs[0], early.named])),
        " ".join(filter(None, [runs[1], late.named])),
    )


def _tell(pairs: list[Pair], names: tuple[str, str]) -> None:
    from onlinegcp.cli.terminal import say, say_table
    from onlinegcp.drawing.text import number, plural

    rows = []
    for pair in pairs:
        shown = pair.after or pair.before
        assert shown is not None
        change = "" if not pair.held or not pair.holds else f"{pair.holds / pair.held - 1:+,.0%}"
        rows.append(
            [
                {"both": "", "new": "new", "gone": "gone"}[pair.kind],
                "" if pair.before is None else str(pair.before.component + 1),
                "" if pair.after is None else str(pair.after.component + 1),
                shown.headline,
                number(pair.held),
                number(pair.holds),
                change,
                "" if pair.similarity is None else f"{pair.similarity:.2f}",
            ]
        )
    headings = ["", "first", "second", "pattern", "held", "holds", "change", "similarity"]
    say_table(headings, rows, right=" rr rrrr")
    kinds = [pair.kind for pair in pairs]
    say(
        f"[dim]First: {names[0]}; second: {names[1]}. {plural(kinds.count('both'), 'pattern')} in "
        f"both, {kinds.count('new')} new, {kinds.count('gone')} gone; held, holds: in a slice on "
        "average.[/dim]"
    )


def _tell_labels(labels: list[LabelChange], *, asked: bool) -> None:
    from rich.markup import escape

    from onlinegcp.cli.terminal import say
    from onlinegcp.report.label_changes import by_mode, heading

    if not labels:
        if asked:
            say("No label changed beyond its usual ups and downs.")
        return
    say(heading(labels))
    for text in by_mode(labels, len(labels), labels=5):
        say(f"  {escape(text)}")
