"""Reports: a run directory told in one HTML file that needs nothing else."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from onlinegcp.digest import Digest, read_digest
from onlinegcp.report.fit import mean_losses
from onlinegcp.report.global_loss import Progress, measure_global
from onlinegcp.report.page import render
from onlinegcp.report.payload import build
from onlinegcp.runlog import read_head
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
    digest
        The run, in bounded memory however many slices it has.
    missing
        Why the global loss is not, as the end of a sentence; "" where it is or was not asked for.
    """

    digest: Digest
    missing: str = ""

    @property
    def mean_losses(self) -> dict[str, float]:
        """Mean of each loss over the slices after the warm start, in the unit of the report."""
        return mean_losses(self.digest)

    def write(self, out: str | os.PathLike[str] | None = None) -> Path:
        """Write the HTML file; by default report.html in the run directory."""
        folder = self.digest.view.path
        target = Path(out) if out is not None else folder / "report.html"
        payload = build(self.digest, missing=self.missing)
        text = render(payload, title=f"{payload['title']} · onlinegcp")
        own = target.resolve() == (folder / "report.html").resolve()
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
    reading: Progress | None = None,
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
    reading
        Called now and then with the bytes of the run read and those there are.
    """
    if not global_loss:
        return Report(read_digest(run_path, progress=reading))
    found = measure_global(read_head(run_path), slices=slices, loss=loss, progress=progress)
    if found.missing:
        return Report(read_digest(run_path, progress=reading), found.missing)
    return Report(read_digest(run_path, found.losses, reading))


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
