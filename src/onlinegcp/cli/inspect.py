"""`onlinegcp inspect`: what a run directory holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onlinegcp.cli import Exit
from onlinegcp.cli.options import Flag, Json

if TYPE_CHECKING:
    from onlinegcp.runlog import Step


def inspect(run: str, *, verify: Flag = False, json: Json = False) -> Exit:
    """Show what a run is made of: data, settings, progress, files.

    Parameters
    ----------
    run
        The run directory.
    verify
        Instead, check every byte against its checksum; exit with code 3 if a file is damaged.
    json
        As JSON.
    """
    from rich.markup import escape

    from onlinegcp.cli.many import overview, show_streams
    from onlinegcp.cli.terminal import say, say_json
    from onlinegcp.many.files import is_many

    if verify:
        return _verify(run, as_json=json)
    many = is_many(run)
    facts = overview(run) if many else facts_of(run)
    if json:
        say_json(facts)
        return Exit.DONE
    for name, value in facts.items():
        say(f"[b]{name.replace('_', ' '):>16}[/b]  {escape(_text(value))}")
    if many:
        show_streams(run)
    return Exit.DONE


def _verify(run: str, *, as_json: bool) -> Exit:
    from onlinegcp.cli.terminal import say_json, say_table
    from onlinegcp.many import verifying
    from onlinegcp.many.files import is_many
    from onlinegcp.runlog import verify

    found = verifying.verify(run) if is_many(run) else verify(run)
    if as_json:
        say_json([vars(verdict) for verdict in found])
    else:
        rows = [[v.file, "" if v.whole else "DAMAGED", v.text] for v in found]
        say_table(["file", "", "found"], rows)
    return Exit.DONE if all(verdict.whole for verdict in found) else Exit.BAD_STATE


def _text(value: Any) -> str:
    """A fact for people."""
    if isinstance(value, dict):
        told = ((key, item) for key, item in value.items() if item not in (None, [], {}))
        return ", ".join(f"{key} {_text(item)}" for key, item in told)
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:,.10g}" if isinstance(value, int | float) else str(value)


def facts_of(run: str) -> dict[str, Any]:
    """What is worth knowing about a run."""
    from onlinegcp.cli.reading import digest_of
    from onlinegcp.runlog import is_locked

    digest = digest_of(run)
    view = digest.view
    model = view.info.get("model") or {}
    given = model.get("parameters") or {}
    last: Step = digest.newest[-1] if digest.newest else {}
    return {
        "run": str(view.path),
        "written_now": is_locked(run),
        "slices": digest.count,
        "warm_start": digest.warm,
        "first": digest.first_time,
        "last": last.get("time"),
        "events": digest.events,
        "modes": {mode: len(names) for mode, names in zip(view.modes, view.labels, strict=False)},
        "method": model.get("method"),
        **rank_of(given, last.get("rank")),
        "loss": given.get("loss"),
        "prequential": last.get("prequential"),
        "local": last.get("local"),
        "flagged": digest.flagged,
        "held": digest.held,
        "seconds": round(digest.seconds, 3),
        "table": view.info.get("events"),
        "created": view.info.get("created"),
        "version": view.info.get("version"),
        "environment": view.info.get("environment"),
        "command": view.info.get("command"),
        "files": {
            file.name: f"{file.stat().st_size:,} bytes"
            for file in sorted(view.path.iterdir())
            if file.is_file()
        },
    }


def rank_of(given: dict[str, Any], now: int | None) -> dict[str, Any]:
    """How many patterns there are, and whether that was given.

    Parameters
    ----------
    given
        Parameters of the model.
    now
        Components it has, where that is one number.
    """
    if given.get("rank") == "auto":
        return {"rank": now, "rank_chosen": "automatically"}
    return {"rank": given.get("rank") if now is None else now, "rank_chosen": "as given"}
