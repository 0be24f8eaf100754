"""What fit, update and demo do alike: learn with a bar, stop cleanly, and say how it went."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, Self, final

from onlinegcp.cli import STANDARD_INPUT, Exit
from onlinegcp.cli.loading import loaded
from onlinegcp.cli.terminal import Bar, duration, note, say, say_json
from onlinegcp.drawing.text import how_many
from onlinegcp.storage.secrets import redacted

if TYPE_CHECKING:
    from onlinegcp.run import Progress, Run

# After the first Ctrl-C a run that waits for input is left in peace this long: with a pipe, the
# program that feeds it is being stopped, too, and its end closes the stream properly.
PATIENCE = 1.0


@final
@dataclass(frozen=True)
class Telling:
    """Who hears how learning goes; the options of this name of fit and update."""

    fail_on_alarm: bool = False
    on_alarm: str | None = None
    webhook: str | None = None
    json: bool = False
    quiet: bool = False


def learn(
    run: Run,
    stream: Iterable[Any],
    sources: Sequence[str],
    how: Telling,
    *,
    n_events: float | None = None,
    hold_flagged: bool | None = None,
    command: Sequence[str] | None = None,
) -> Exit:
    """Learn a stream into a run and say how it went; alarms are told as they happen."""
    from onlinegcp.run.delivery import Delivery, message_of

    loaded()  # streams may be long, and their slices large
    alarms: list[Any] = []
    last: list[Progress] = []

    def progress(news: Progress) -> None:
        bar.advance(news)
        last[:] = [news]
        anomaly = None if news.step is None else news.step["anomaly"]
        if anomaly is not None and anomaly["flagged"]:
            alarms.append(news.step["time"] if news.step is not None else None)
        message = message_of(news.step, run.path.name)
        if message is not None:
            delivery.send(message)
            if not how.quiet:
                bar.tell_above(_alarm_line(message), aside=how.json)

    expected = expected_rows(sources) if n_events is None and not how.quiet else n_events
    with (
        Delivery(how.on_alarm, how.webhook) as delivery,
        Bar(expected, quiet=how.quiet or how.json) as bar,
        Interrupt(run) as interrupt,
    ):
        try:
            n_slices = run.learn(
                stream,
                progress=progress,
                hold_flagged=hold_flagged,
                stop=interrupt.asked,
                command=command,
            )
        except KeyboardInterrupt:
            interrupt.happened = True
            n_slices = last[0].n_slices if last else 0
        seconds = bar.seconds
    outcome = {
        "run": str(run.path),
        "slices": n_slices,
        "slices_in_all": run.n_steps + run.warming_up,
        "events": last[0].n_events if last else 0,
        "seconds": round(seconds, 3),
        "last": run.last_time,
        "flagged": alarms,
        "warming_up": run.warming_up,
        "interrupted": interrupt.happened,
        "rows": None if interrupt.happened else rows_of(stream),
    }
    if how.json:
        say_json(outcome)
    elif not how.quiet:
        _tell(run, outcome)
        if last and last[0].step is not None and last[0].step.get("partial"):
            note(
                f"The data end within the bin of {last[0].time}: it was learned and not scored. "
                "--keep-open leaves such a bin open for the next update."
            )
    if interrupt.happened:
        note(_how_to_go_on(run, sources))
        return Exit.INTERRUPTED
    return Exit.ALARM if alarms and how.fail_on_alarm else Exit.DONE


def rows_of(stream: Any) -> dict[str, int] | None:
    """What became of the rows of a table; None where slices were given."""
    account = getattr(stream, "rows", None)
    return None if account is None else dict(vars(account))


def say_rows(rows: dict[str, int], noun: str = "rows") -> str:
    """The rows, or values, that were not learned, by reason; nothing where there are none.

    Examples
    --------
    >>> say_rows({"read": 1500, "learned": 1400, "waiting": 60, "late": 40})
    'Of 1,500 rows read, 1,400 were learned, 60 wait for their time bin to close, 40 came after \
theirs was closed and were dropped.'
    """
    reasons = {
        "waiting": "wait for their time bin to close",
        "late": "came after theirs was closed and were dropped",
        "dropped": "had no time, key or value and were dropped",
        "outside": "lay outside --since and --until",
        "again": "had been read before",
    }
    told = [f"{rows[name]:,} {why}" for name, why in reasons.items() if rows.get(name, 0) > 0]
    # Rows that waited since the last time are learned now.
    learned = rows["learned"] + min(0, rows.get("waiting", 0))
    lead = f"Of {rows['read']:,} {noun} read, {learned:,} were learned"
    return f"{', '.join([lead, *told])}." if told else ""


def _alarm_line(message: dict[str, Any]) -> str:
    """The line of an alarm that begins or ends."""
    if message["event"] == "begins":
        return f"ALARM ({message['severity']}) {message['sentence']}"
    noun = "slice" if message["slices"] == 1 else "slices"
    # Nobody should take the end of an alarm for the end of an outage.
    hint = " (or it counts as usual by now)" if message["lasted"] else ""
    return f"Alarm over after {message['slices']} {noun}{hint}. {message['sentence']}"


def _tell(run: Run, outcome: dict[str, Any]) -> None:
    from rich.markup import escape

    if outcome["rows"] is not None and (
        told := say_rows(outcome["rows"], "values" if _noun(run) == "values" else "rows")
    ):
        note(told)
    n_slices, seconds = outcome["slices"], outcome["seconds"]
    if not n_slices:
        name = escape(str(run.path))
        say(f"Nothing new for {name}: no time bin was closed after {outcome['last']}.")
        return
    noun = "slice" if n_slices == 1 else "slices"
    say(
        f"Learned [b]{n_slices:,}[/b] {noun} up to {outcome['last']}, "
        f"{how_many(outcome['events'], _noun(run))}, in {duration(seconds)} "
        f"({n_slices / max(seconds, 1e-9):.1f} slices/s)."
    )
    if outcome["warming_up"]:
        needed = run.model.init_slices
        say(
            f"The warm start has {outcome['warming_up']} of {needed} slices; patterns appear with "
            "the last of them. Add data with update, or fit with a smaller --warm-start."
        )
        return
    if outcome["flagged"]:
        shown = ", ".join(map(str, outcome["flagged"][-5:]))
        count = len(outcome["flagged"])
        told = "was flagged" if count == 1 else "were flagged, the latest"
        say(f"[b]{count}[/b] {told}: {shown}.")
    name = escape(shlex.quote(str(run.path)))
    say(f"[dim]Next: onlinegcp report {name} | components {name} | anomalies {name}[/dim]")


def _noun(run: Run) -> str:
    """What is read: what alarms count where each row counts one, else rows, or their values.

    With a value column alarms tell of the sum of its values, which is another number.
    """
    events = run.info.get("events") or {}
    if isinstance(events.get("value"), list | tuple):  # each row holds several, some may be empty
        return "values"
    return "rows" if events.get("value") else str(run.info.get("unit") or "events")


def _how_to_go_on(run: Run, sources: Sequence[str]) -> str:
    if not (run.path / "run.json").exists():
        return "Stopped before the first slice; nothing was written."
    words = ["-" if word == STANDARD_INPUT else redacted(word) for word in sources]
    command = shlex.join(["onlinegcp", "update", str(run.path), *words])
    return (
        f"Stopped after the slice of {run.last_time}; all up to it is kept. Go on with:\n{command}"
    )


class Learning(Protocol):
    """What is learning, and whether it does, rather than wait for data."""

    @property
    def busy(self) -> bool: ...


@final
class Interrupt:
    """Ctrl-C asks to stop after the slice in flight; a second one stops at once.

    Parameters
    ----------
    run
        The run that is learning, or many.
    """

    def __init__(self, run: Learning) -> None:
        self._run = run
        self.happened = False
        self._asked_at = 0.0
        self._before: list[Any] = []

    def asked(self) -> bool:
        """Whether to stop."""
        return self.happened

    def __enter__(self) -> Self:
        self._before = [
            signal.signal(signal.SIGINT, self._on_interrupt),
            signal.signal(signal.SIGTERM, self._on_interrupt),
            signal.signal(signal.SIGALRM, self._on_alarm),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in zip(
            (signal.SIGINT, signal.SIGTERM, signal.SIGALRM), self._before, strict=True
        ):
            signal.signal(number, handler)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        # A terminal and the shell may both send it, which does not mean the user insists.
        if self.happened and time.monotonic() - self._asked_at > 0.3:
            raise KeyboardInterrupt
        self.happened = True
        self._asked_at = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, PATIENCE, PATIENCE)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        if not self._run.busy:
            raise KeyboardInterrupt


def expected_rows(sources: Sequence[str]) -> float | None:
    """About how many rows the sources hold; None if that takes reading them."""
    from onlinegcp.errors import DataError
    from onlinegcp.events.remote import scheme_of
    from onlinegcp.events.tables import open_tables
    from onlinegcp.planning.sample import rows_in_all

    if not sources or STANDARD_INPUT in sources or any(map(scheme_of, sources)):
        return None
    try:
        return rows_in_all(open_tables(list(sources)).parts)
    except (DataError, OSError):
        return None  # whoever reads them says it better
