"""Reports: a run directory told in one HTML file that needs nothing else."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from onlinegcp.report.fit import mean_losses
from onlinegcp.report.global_loss import Progress, measure_global
from onlinegcp.report.page import render
from onlinegcp.report.payload import MOST_DETAILS, build
from onlinegcp.runlog import RunView, Step, read_run
from onlinegcp.storage.atomic import replacing

if TYPE_CHECKING:
    from onlinegcp.losses import Loss

__all__ = ["Report", "make_report", "write_report"]


@final
@dataclasses.dataclass(frozen=True)
class Report:
    """A run with everything a report tells.

    Attributes
    ----------
    view
        The run; its steps have a field "global" where the global loss is known.
    missing
        Why the global loss is not, as the end of a sentence; "" where it is or was not asked for.
    """

    view: RunView
    missing: str = ""

    @property
    def mean_losses(self) -> dict[str, float]:
        """Mean of each loss over the slices after the warm start, in the unit of the report."""
        return mean_losses(self.view)

    def write(self, out: str | os.PathLike[str] | None = None) -> Path:
        """Write the HTML file; by default report.html in the run directory."""
        target = Path(out) if out is not None else self.view.path / "report.html"
        payload = build(self.view, missing=self.missing)
        text = render(payload, title=f"{payload['name']} · onlinegcp")
        own = target.resolve() == (self.view.path / "report.html").resolve()
        with replacing(target, of_run=own) as file:
            file.write(text.encode())
        return target


def make_report(
    run_path: str | os.PathLike[str],
    *,
    global_loss: bool = True,
    slices: Iterable[Any] | None = None,
    loss: Loss | None = None,
    progress: Progress | None = None,
) -> Report:
    """Gather what the report of a run tells.

    Parameters
    ----------
    run_path
        The run directory; it may be written to meanwhile.
    global_loss
        Whether to measure every slice under the final factors, for which the files of the run are
        read once more unless the last report did so already.
    slices
        What the run has learned, in order, where it cannot read it again.
    loss
        The caller's own loss, where the run was made with one.
    progress
        Called after every slice with the number of slices done and of all.
    """
    view = read_run(run_path, details=MOST_DETAILS)
    if not global_loss:
        return Report(view)
    found = measure_global(view, slices=slices, loss=loss, progress=progress)
    if found.missing:
        return Report(view, found.missing)
    steps: list[Step] = [
        {**step, "global": value}
        for step, value in zip(view.steps, found.losses.tolist(), strict=True)
    ]
    return Report(dataclasses.replace(view, steps=steps))


def write_report(
    run_path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Path:
    """Write the report of a run as one self-contained HTML file.

    Parameters
    ----------
    run_path
        The run directory; it may be written to meanwhile.
    out
        The file; by default report.html in the run directory. A file there is replaced.
    **options
        As for `make_report`.

    Returns
    -------
    path
        The file written.
    """
    return make_report(run_path, **options).write(out)
