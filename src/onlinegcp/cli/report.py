"""`onlinegcp report`: a run told in one HTML file."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from onlinegcp.cli.options import Flag


def report(
    run: str,
    *,
    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None,
    open: Flag = False,
) -> None:
    """Write the report of a run: one HTML file that needs no network.

    Parameters
    ----------
    run
        The run directory; it may be written to meanwhile.
    output
        The file; by default report.html in the run directory.
    open
        Show it in the browser.
    """
    from onlinegcp.cli.terminal import say
    from onlinegcp.report import write_report

    path = write_report(run, output)
    say(str(path))
    if open:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
