"""`onlinegcp report`: a run told in one HTML file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from onlinegcp.cli.options import Flag, Json, Quiet


def report(
    run: str,
    *,
    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None,
    global_: Annotated[bool, Parameter(name="--global", negative="--no-global")] = True,
    stream: str | None = None,
    open: Flag = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the report of a run: one HTML file that needs no network.

    Parameters
    ----------
    run
        The run directory; it may be written to meanwhile.
    output
        The file; by default report.html in the run directory, or NAME.html with --stream NAME.
    global_
        Measure every slice under the final patterns, too, for which the files are read once more
        unless the last report did so already.
    stream
        Which of many streams (fit --by); an overview of all of them by default.
    open
        Show it in the browser.
    json
        Say where it is, and the mean losses, as JSON.
    quiet
        Say where it is, and nothing else.
    """
    from onlinegcp.errors import DataError
    from onlinegcp.many.files import is_many
    from onlinegcp.runlog import read_run_json

    if is_many(run) and stream is None:
        path = _overview(run, output, as_json=json)
    elif is_many(run) and stream is not None:
        import tempfile

        from onlinegcp.many.taking_out import take_out

        name = re.sub(r"[^\w.-]+", "_", stream)[:100]
        with tempfile.TemporaryDirectory() as folder:
            one = take_out(run, stream, Path(folder) / f"{name}.run")
            path = _one(str(one), output or f"{name}.html", False, as_json=json, quiet=quiet)
    elif stream is not None:
        read_run_json(run)  # which may be the greater problem
        raise DataError(f"{run} holds one stream, but --stream was given. Leave it out.")
    else:
        path = _one(run, output, global_, as_json=json, quiet=quiet)
    if open:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())


def _overview(run: str, output: str | None, *, as_json: bool) -> Path:
    from rich.markup import escape

    from onlinegcp.cli.many import overview, stream_rows
    from onlinegcp.cli.terminal import say, say_json
    from onlinegcp.many.reading import oddest
    from onlinegcp.report.overview import MOST_ALARMS, write_overview

    found = oddest(run, MOST_ALARMS)
    path = write_overview(run, overview(run), found, stream_rows(run), output)
    if as_json:
        say_json({"report": path})
    else:
        say(escape(str(path)))
    return path


def _one(run: str, output: str | None, global_loss: bool, *, as_json: bool, quiet: bool) -> Path:
    from rich.markup import escape

    from onlinegcp.cli.terminal import Bar, note, say, say_json
    from onlinegcp.report import make_report
    from onlinegcp.report.fit import say_means

    silent = quiet or as_json
    with Bar(quiet=silent, what="report") as bar:

        def tell(done: int, total: int) -> None:
            left = f"{bar.left(done, total)} left" if done > 1 else ""
            bar.tell(f"global loss: {done:,} of {total:,} slices  {left}", done, total)

        def read(done: int, total: int) -> None:
            bar.tell(f"reading: {done / max(total, 1):.0%}", done, total)

        made = make_report(run, global_loss=global_loss, progress=tell, reading=read)
    path = made.write(output)
    if as_json:
        losses = {"per": made.digest.unit, **made.mean_losses}
        say_json({"report": path, "mean_loss": losses, "no_global_loss": made.missing or None})
    else:
        say(escape(str(path)))
        if not quiet:
            why = made.missing and f"No global loss: {made.missing}"
            for text in (say_means(made.digest), why):
                if text:
                    note(f"{text}.")
    return path
