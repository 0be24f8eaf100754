"""`onlinegcp report`: a run told in one HTML file."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from onlinegcp.cli.options import Flag, Json, Quiet


def report(
    run: str,
    *,
    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None,
    global_: Annotated[bool, Parameter(name="--global", negative="--no-global")] = True,
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
        The file; by default report.html in the run directory.
    global_
        Measure every slice under the final patterns, too, for which the files are read once more
        unless the last report did so already.
    open
        Show it in the browser.
    json
        Say where it is, and the mean losses, as JSON.
    quiet
        Say where it is, and nothing else.
    """
    from rich.markup import escape

    from onlinegcp.cli.terminal import Bar, note, say, say_json
    from onlinegcp.report import make_report
    from onlinegcp.report.fit import say_means

    with Bar(quiet=quiet or json, what="global loss") as bar:

        def tell(done: int, total: int) -> None:
            left = f"{bar.left(done, total)} left" if done > 1 else ""
            bar.tell(f"{done:,} of {total:,} slices  {left}", done, total)

        made = make_report(run, global_loss=global_, progress=tell)
    path = made.write(output)
    if json:
        losses = {"per": made.digest.unit, **made.mean_losses}
        say_json({"report": path, "mean_loss": losses, "no_global_loss": made.missing or None})
    else:
        say(escape(str(path)))
        if not quiet:
            why = made.missing and f"No global loss: {made.missing}"
            for text in (say_means(made.digest), why):
                if text:
                    note(f"{text}.")
    if open:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
