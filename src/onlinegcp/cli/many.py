"""Many streams on the command line: what fit --by and update do, and what the others say."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onlinegcp.cli import STANDARD_INPUT, Exit
from onlinegcp.cli.learning import Interrupt, Telling, say_rows
from onlinegcp.cli.terminal import Bar, count, duration, note, say, say_json, say_table
from onlinegcp.storage.secrets import redacted

if TYPE_CHECKING:
    from onlinegcp.many.learning import News
    from onlinegcp.many.streams import ManyStreams

SHOWN = 5  # alarms and problems that are told at the end of a command


def learn_many(
    many: ManyStreams,
    source: Any,
    sources: Sequence[str],
    how: Telling,
    *,
    options: dict[str, Any],
    jobs: int | None,
    hold_flagged: bool | None = None,
    abandon: bool = False,
) -> Exit:
    """Learn a table into a run of many streams, and say how it went."""
    from onlinegcp.run.delivery import Delivery

    with (
        Delivery(how.on_alarm, how.webhook) as delivery,
        Bar(quiet=how.quiet or how.json) as bar,
        Interrupt(many) as interrupt,
    ):

        def progress(news: News) -> None:
            left = f"  {bar.left(news.streams, news.n_streams)} left" if news.streams else ""
            bar.tell(
                f"{news.streams:,} of {news.n_streams:,} streams  {news.slices:,} slices  "
                f"{news.slices / max(bar.seconds, 1e-9):.1f} slices/s{left}",
                news.streams,
                news.n_streams,
            )
            for message in news.messages:
                delivery.send(message)
            news.messages.clear()

        news = many.learn(
            source,
            n_jobs=jobs,
            progress=progress,
            stop=interrupt.asked,
            hold_flagged=hold_flagged,
            abandon=abandon,
            **options,
        )
        seconds = bar.seconds
    newest = sorted(_newest(news), key=lambda found: -(found["score"] or 0.0))
    outcome = {
        "run": str(many.path),
        "streams": len(many.places()),
        "slices": news.slices,
        "total": news.total,
        "seconds": round(seconds, 3),
        "scored": news.scored,
        "flagged": news.flagged,
        "newest": newest,
        "problems": [{"stream": name, "problem": text} for name, text in sorted(news.problems)],
        "interrupted": interrupt.happened,
        "rows": None if interrupt.happened else news.rows,
    }
    if how.json:
        say_json(outcome)
    elif not how.quiet:
        _tell(many, outcome)
    if interrupt.happened:
        words = ["-" if word == STANDARD_INPUT else redacted(word) for word in sources]
        command = shlex.join(["onlinegcp", "update", str(many.path), *words])
        note(f"Stopped; all that was learned is kept. Learn the rest with:\n{command}")
        return Exit.INTERRUPTED
    if news.problems:
        return Exit.BAD_INPUT
    return Exit.ALARM if news.flagged and how.fail_on_alarm else Exit.DONE


def _newest(news: News) -> list[dict[str, Any]]:
    """Flagged slices of the newest bin that has any."""
    times = {found["time"] for found in news.newest}
    last = max(times, default=None)
    return [found for found in news.newest if found["time"] == last]


def _tell(many: ManyStreams, outcome: dict[str, Any]) -> None:
    from rich.markup import escape

    if outcome["rows"] and (told := say_rows(outcome["rows"])):
        note(told)
    for problem in outcome["problems"][:SHOWN]:
        note(f"{many.info['by']} {problem['stream']} stopped. {problem['problem']}")
    if len(outcome["problems"]) > SHOWN:
        note(f"{len(outcome['problems']) - SHOWN:,} more stopped, too; inspect lists them.")
    name, seconds = escape(shlex.quote(str(many.path))), outcome["seconds"]
    if not outcome["slices"]:
        say(f"Nothing new for {name}.")
        return
    say(
        f"Learned [b]{outcome['slices']:,}[/b] slices of {outcome['streams']:,} streams, "
        f"{count(outcome['total'])} in all, in {duration(seconds)} "
        f"({outcome['slices'] / max(seconds, 1e-9):.1f} slices/s)."
    )
    if outcome["newest"]:
        found = outcome["newest"]
        noun = "stream was" if len(found) == 1 else "streams were"
        say(f"[b]{len(found):,}[/b] {noun} flagged at {found[0]['time']}, the last time any was:")
        rows = [
            [one["stream"], one["severity"] or "", one["sentence"] or ""] for one in found[:SHOWN]
        ]
        say_table([str(many.info["by"]), "severity", "what happened"], rows)
    say(f"[dim]Next: onlinegcp anomalies {name} | report {name} | inspect {name}[/dim]")


def list_oddest(
    run: str,
    *,
    top: int,
    all: bool,
    since: str | None,
    until: str | None,
    by_time: bool,
    fail_on_alarm: bool,
    as_json: bool,
) -> Exit:
    """The oddest slices of all streams, sorted together."""
    from onlinegcp.cli.anomalies import row_of, texts_of
    from onlinegcp.drawing.text import interval_of
    from onlinegcp.many.files import read_settings
    from onlinegcp.many.reading import oddest

    def within(time: Any) -> bool:
        text = str(time)
        return (since is None or text >= since) and (until is None or text < until)

    limited = since is not None or until is not None
    found = oddest(run, top, flagged=not all, within=within if limited else None)
    if by_time:
        found.steps.sort(key=lambda step: str(step["time"]))
    if as_json:
        say_json([{"stream": step["stream"], **row_of(step)} for step in found.steps])
    else:
        info = read_settings(run)
        verb = "was" if found.flagged == 1 else "were"
        by_chance = found.scored * info["anomaly"]["level"]
        say(
            f"{found.flagged:,} of {found.scored:,} scored slices {verb} flagged; of as many "
            f"ordinary ones about {by_chance:,.0f} would be."
        )
        if found.steps:
            headings = [info["by"] or "stream", "slice", "time", "p", "severity", "what happened"]
            interval = interval_of((info.get("events") or {}).get("every"))
            rows = ([step["stream"], *texts_of(step, interval)] for step in found.steps)
            say_table(headings, rows, right=" r r")
    return Exit.ALARM if found.flagged and fail_on_alarm else Exit.DONE


def overview(run: str) -> dict[str, Any]:
    """What is worth knowing about a run of many streams."""
    from onlinegcp.cli.inspect import rank_of
    from onlinegcp.many.files import read_settings
    from onlinegcp.many.reading import facts_of
    from onlinegcp.runlog import is_locked

    info, facts = read_settings(run), facts_of(run)
    accounts = [stream.account for stream in facts]
    given = (info.get("model") or {}).get("parameters") or {}
    times = [time for a in accounts for time in (a.first, a.last) if time is not None]
    known = sorted(times, key=str)
    files = [file for file in Path(run).rglob("*") if file.is_file()]
    return {
        "run": str(run),
        "written_now": is_locked(run),
        "by": info["by"],
        "streams": len(facts),
        "stopped": [stream.stream for stream in facts if stream.problem is not None],
        "slices": sum(a.slices for a in accounts),
        "first": known[0] if known else None,
        "last": known[-1] if known else None,
        "total": sum(a.total for a in accounts),
        "scored": sum(a.scored for a in accounts),
        "flagged": sum(a.flagged for a in accounts),
        "method": (info.get("model") or {}).get("method"),
        **rank_of(given, None),
        "loss": given.get("loss"),
        "table": info.get("events"),
        "created": info.get("created"),
        "version": info.get("version"),
        "environment": info.get("environment"),
        "command": info.get("command"),
        "files": f"{len(files):,} of {sum(file.stat().st_size for file in files):,} bytes",
    }


def stream_rows(run: str) -> list[dict[str, Any]]:
    """One row per stream: what it has learned, and its oddest slice; the oddest first."""
    from onlinegcp.many.reading import facts_of

    rows = []
    for facts in facts_of(run):
        account = dict(vars(facts.account))
        odd = account.pop("oddest") or {}
        rows.append(
            {
                "stream": facts.stream,
                **account,
                "labels": None if facts.lengths is None else " x ".join(map(str, facts.lengths)),
                "oddest_time": odd.get("time"),
                "oddest_score": odd.get("score"),
                "oddest": odd.get("sentence"),
                "problem": facts.problem,
            }
        )
    return sorted(rows, key=lambda row: (-row["flagged"], -(row["oddest_score"] or 0.0)))


def oddest_text(row: Mapping[str, Any]) -> str:
    """What is most worth saying about a stream."""
    if row["problem"]:
        return f"STOPPED: {row['problem']}"
    if row["warming_up"]:
        return f"{row['warming_up']} slices wait for the warm start to be over"
    return str(row["oddest"] or "")


def show_streams(run: str, top: int = 20) -> None:
    """The streams with most alarms, as a table."""
    rows = stream_rows(run)
    headings = ["stream", "slices", "flagged", "labels", "last", "oddest slice"]
    say_table(
        headings,
        (
            [
                row["stream"],
                f"{row['slices']:,}",
                f"{row['flagged']:,}",
                row["labels"] or "",
                str(row["last"]),
                oddest_text(row),
            ]
            for row in rows[:top]
        ),
        right=" rr",
    )
    if len(rows) > top:
        say(f"{len(rows) - top:,} more; export RUN streams -o FILE writes all of them.")
