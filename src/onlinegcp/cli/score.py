"""`onlinegcp score`: every event of a table with how odd it is, given what a run has seen."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from onlinegcp.cli import Exit
from onlinegcp.cli.options import Quiet, source_of

ENDINGS = (".parquet", ".csv", ".jsonl")


def score(
    run: str,
    *sources: str,
    output: Annotated[str, Parameter(name=["--output", "-o"])],
    per: Literal["event", "cell", "row"] = "event",
    query: str | None = None,
    format: str | None = None,
    quiet: Quiet = False,
) -> Exit:
    """Score a table of events: its columns and order, with score (higher is odder) and p.

    onlinegcp score web.run today.parquet -o scored.parquet

    Parameters
    ----------
    run
        The run directory; it is not changed.
    sources
        Files, patterns or directories, or a database.
    output
        File to write, .parquet, .csv or .jsonl.
    per
        event: the table with two more columns. cell or row: one line per cell, or per label of
        each mode, of every time bin.
    query
        What to ask a database for; by default what it was last asked for when the run learned.
    format
        parquet, arrow, csv or jsonl, should it not be recognised.
    quiet
        Say nothing unless it fails.
    """
    from onlinegcp.cli.terminal import say
    from onlinegcp.drawing.text import plural
    from onlinegcp.errors import DataError
    from onlinegcp.run import Run
    from onlinegcp.run.sources import last_query

    if not output.endswith(ENDINGS):
        raise DataError(
            f"the file must end in {', '.join(ENDINGS)}, but is called {output!r}. Rename it."
        )
    with Run.open(run, write=False) as opened:
        source = source_of(sources, query or last_query(opened, sources))
        table = opened.score_events(source, per=per, format=format)
    if output.endswith(".parquet"):
        table.write_parquet(output)
    elif output.endswith(".csv"):
        table.write_csv(output)
    else:
        table.write_ndjson(output)
    if not quiet:
        low = int((table["p"] < 0.001).sum())
        say(f"{plural(table.height, per)} scored, {low:,} with p < 0.001, in {output}.")
    return Exit.DONE
