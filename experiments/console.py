"""What an experiment reads from the command line and shows on the terminal."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from experiments.settings import Scale
from experiments.streams import data_folder

HERE = Path(__file__).resolve().parent
SECONDS_BETWEEN_LINES = 30.0


@dataclass(frozen=True)
class Options:
    """How an experiment was asked to run."""

    scale: Scale
    out: Path
    data: Path
    seed: int
    slices: int | None
    only: tuple[str, ...]
    fresh: bool
    publish: bool
    source: str = ""


def read_options(
    name: str, description: str, arguments: Sequence[str] | None, sources: Sequence[str] = ()
) -> Options:
    """Read the command line of one experiment.

    Parameters
    ----------
    name, description
        The experiment.
    arguments
        The words after the command; None takes those of the process.
    sources
        Data sets to choose from, the default first; none if there is no choice.
    """
    parser = argparse.ArgumentParser(prog=f"python -m experiments.{name}", description=description)
    parser.add_argument("--scale", choices=["paper", "small"], default="small")
    parser.add_argument("--out", type=Path, default=HERE / "out", help="folder of the results")
    parser.add_argument("--data", type=Path, default=data_folder(), help="folder of the data sets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slices", type=int, help="stop after this many slices")
    parser.add_argument("--only", nargs="+", default=[], metavar="METHOD", help="run only these")
    parser.add_argument("--fresh", action="store_true", help="ignore stored results")
    parser.add_argument(
        "--publish", action="store_true", help="also write experiments/results and docs/figures"
    )
    if sources:
        parser.add_argument("--source", choices=sources, default=sources[0])
    read = parser.parse_args(arguments)
    return Options(
        cast(Scale, read.scale),
        read.out,
        read.data,
        read.seed,
        read.slices,
        tuple(read.only),
        read.fresh,
        read.publish,
        read.source if sources else "",
    )


class ProgressReport:
    """A bar with rate and time left on a terminal, a line now and then in a log."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._progress: Progress | None = None

    def begin(self, method: str, total: int | None) -> None:
        """A method starts; `total` slices are ahead, if that is known."""
        self._method, self._total = method, total
        self._since = self._last_line = time.monotonic()
        self._first: int | None = None
        if not self.console.is_terminal:
            return
        self._progress = Progress(
            TextColumn("{task.description:<18}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            _RateColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[news]}"),
            console=self.console,
            transient=True,
        )
        self._task = self._progress.add_task(method, total=total, news="")
        self._progress.start()

    def advance(self, done: int, news: str) -> None:
        """`done` slices (or iterations) lie behind."""
        if self._progress is not None:
            self._progress.update(self._task, completed=done, news=news)
            return
        now = time.monotonic()
        if self._first is None:  # a resumed run does not begin at 0
            self._first = done - 1
        if now - self._last_line < SECONDS_BETWEEN_LINES:
            return
        self._last_line = now
        rate = (done - self._first) / max(now - self._since, 1e-9)
        left = "" if self._total is None else f", {(self._total - done) / rate:.0f} s left"
        of = "" if self._total is None else f" of {self._total}"
        self.console.print(f"{self._method}: {done}{of}, {rate:.3g} per second{left}, {news}")

    def end(self, news: str) -> None:
        """The method is done."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
        self.console.print(f"{self._method:<18} {time.monotonic() - self._since:7.1f} s  {news}")


class _RateColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.3g}/s", style="progress.data.speed")
