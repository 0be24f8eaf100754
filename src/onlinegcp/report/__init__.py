"""Reports: a run directory told in one HTML file that needs nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from onlinegcp.atomic import replacing
from onlinegcp.report.page import render
from onlinegcp.report.payload import build
from onlinegcp.runlog import read_run

__all__ = ["write_report"]


def write_report(
    run_path: str | os.PathLike[str], out: str | os.PathLike[str] | None = None
) -> Path:
    """Write the report of a run as one self-contained HTML file.

    Parameters
    ----------
    run_path
        The run directory; it may be written to meanwhile.
    out
        The file; by default report.html in the run directory. A file there is replaced.

    Returns
    -------
    path
        The file written.
    """
    view = read_run(run_path)
    target = Path(out) if out is not None else Path(run_path) / "report.html"
    payload = build(view)
    text = render(payload, title=f"{payload['name']} · onlinegcp")
    with replacing(target) as file:
        file.write(text.encode())
    return target
