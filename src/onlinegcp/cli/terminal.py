"""What people see: messages, tables, JSON, and a bar with rate and time left."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, final

from onlinegcp.storage.printable import printable, short
from onlinegcp.storage.secrets import redacted

if TYPE_CHECKING:
    from rich.console import Console

    from onlinegcp.run import Progress


# An error may quote what it found.
LONGEST_MESSAGE = 2_000


def console(*, stderr: bool = False, width: int | None = None) -> Console:
    """The terminal; numbers are not coloured and lines are wrapped by whoever reads them."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            # Rich would exit with 1; that the reader has seen enough is no failure.
            raise BrokenPipeError

    return Terminal(stderr=stderr, highlight=False, soft_wrap=width is None, width=width)


def say(text: str = "") -> None:
    """A line of the answer; square brackets hold styles."""
    console().print(printable(text))


def note(text: str) -> None:
    """A line beside the answer, on standard error."""
    from rich.text import Text

    console(stderr=True).print(Text(printable(text), style="dim"))


def say_error(text: str) -> None:
    """A message without traceback, on standard error."""
    from rich.text import Text

    shown = short(as_options(redacted(text)), LONGEST_MESSAGE)
    console(stderr=True).print(Text.assemble(("Error: ", "bold red"), shown))


# What errors of the library call an argument and the command line an option.
_ARGUMENTS = re.compile(
    r"\b(agg|empty|every|format|max_gap|modes|on_late|on_new|on_null|since|time|time_format|time_unit|timezone|top"
    r"|until|value|vocabulary)=(\.\.\.|'[^']*'|[\w%]+)"
)
# Settings of a method, which have no option of their own.
_SWITCHES = re.compile(r"\b(overwrite)=True")
_SETTINGS = re.compile(r"(?<!--set )\bscale=[\w.-]+")


def as_options(text: str) -> str:
    """Name arguments of Python as the options of the command line they are.

    Examples
    --------
    >>> as_options("use on_late='drop', or every=1; write vocabulary=...")
    'use --on-late drop, or --every 1; write --vocabulary ...'
    >>> as_options("Pass scale=1")
    'Pass --set scale=1'
    >>> as_options("or give overwrite=True to replace it")
    'or give --overwrite to replace it'
    """

    def option(found: re.Match[str]) -> str:
        name, value = found.groups()
        plain = value.strip("'")
        return f"--{name.replace('_', '-')} {value if ' ' in plain else plain}"

    text = _SWITCHES.sub(lambda found: f"--{found[1]}", _ARGUMENTS.sub(option, text))
    return _SETTINGS.sub(r"--set \g<0>", text)


def say_json(value: Any) -> None:
    """One JSON value on standard output; numbers that are not finite are null."""
    from onlinegcp.runlog import encode_step

    plain = json.loads(encode_step({"value": value}))["value"]
    sys.stdout.write(json.dumps(plain, indent=2) + "\n")


def say_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: str = "") -> None:
    """A plain table.

    Parameters
    ----------
    columns
        Headings.
    rows
        Texts, as many as there are headings.
    right
        One character per column, "r" for those that hold numbers.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, side in zip(columns, right.ljust(len(columns)), strict=True):
        number = side == "r"
        table.add_column(
            escape(short(heading)), justify="right" if number else "left", no_wrap=number
        )
    for row in rows:
        table.add_row(*(escape(short(text)) for text in row))
    terminal = console()
    told = terminal.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    console(width=terminal.width if told else 160).print(table)


@final
class Bar:
    """The state of a running fit on one line of standard error; silent where nobody looks.

    Parameters
    ----------
    n_events
        How many there will be, as far as known.
    quiet
        Show nothing.
    what
        What is going on.
    begin
        What to say until there is more.
    """

    def __init__(
        self,
        n_events: float | None = None,
        *,
        quiet: bool = False,
        what: str = "learning",
        begin: str = "starting; the first run compiles",
    ) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._start = time.perf_counter()
        self._total = n_events
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn(what),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            console=console(stderr=True),
            transient=True,
            disable=quiet or not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task(begin, total=n_events)

    def __enter__(self) -> Self:
        if not self._bar.disable:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._bar.disable:  # before rich 14.3 even a silent bar ends its line
            self._bar.stop()

    @property
    def seconds(self) -> float:
        """Time since the bar was made."""
        return time.perf_counter() - self._start

    def tell_above(self, text: str, *, aside: bool = False) -> None:
        """Say something at once that stays, above the bar where there is one.

        Parameters
        ----------
        text
            One line.
        aside
            On standard error, because standard output is for something else.
        """
        from rich.text import Text

        if not self._bar.disable:
            self._bar.console.print(Text(text))
            return
        stream = sys.stderr if aside else sys.stdout
        stream.write(f"{text}\n")
        stream.flush()

    def tell(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Say what is going on, and how much of it is done."""
        if total is not None:
            self._bar.update(self._task, total=total)
        self._bar.update(self._task, description=text, completed=done)

    def left(self, done: float, total: float) -> str:
        """How long the rest takes, as far as the past tells."""
        return duration(self.seconds * max(0.0, total / max(done, 1.0) - 1.0))

    def advance(self, news: Progress) -> None:
        """One more slice."""
        if self._bar.disable:
            return
        seconds = max(self.seconds, 1e-9)
        parts = [
            f"{news.n_slices:,} slices",
            f"{news.n_slices / seconds:.1f} slices/s",
            f"{count(news.n_events / seconds)} events/s",
        ]
        if news.time is not None:
            parts.append(str(news.time))
        if news.step is None:
            parts.append("warm start")
        elif news.step["prequential"] is not None:
            cells = max(1, news.step["n_observed"])
            parts.append(f"loss {news.step['prequential'] / cells:.4g}")
        if self._total:
            parts.append(f"{self.left(news.n_events, self._total)} left")
        self.tell("  ".join(parts), news.n_events)


def count(number: float) -> str:
    """A number for a glance.

    Examples
    --------
    >>> count(950), count(25_300), count(4_560_000)
    ('950', '25 k', '4.6 M')
    """
    if number < 1_000:
        return f"{number:.0f}"
    if number < 1_000_000:
        return f"{number / 1_000:.0f} k"
    return f"{number / 1_000_000:.1f} M"


def duration(seconds: float) -> str:
    """A time span for a glance.

    Examples
    --------
    >>> duration(4.21), duration(75), duration(7300)
    ('4.2 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"
