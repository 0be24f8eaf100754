"""`onlinegcp score`: every event of a table with how odd it is, given what a run has seen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from onlinegcp.cli import Exit
from onlinegcp.cli.options import Quiet, source_of

if TYPE_CHECKING:
    import polars as pl

ENDINGS = (".parquet", ".csv", ".jsonl")


def flat(table: pl.DataFrame) -> pl.DataFrame:
    """A table as CSV can hold it: lists and records as JSON, bytes in hex, durations in s."""
    import polars as pl

    columns = []
    for column in table.iter_columns():
        if column.dtype == pl.Binary:
            column = column.bin.encode("hex")
        elif column.dtype == pl.Duration:
            column = (column.dt.total_microseconds() / 1e6).round(6)
        elif column.dtype.is_nested() or column.dtype == pl.Object:
            texts = [None if x is None else json.dumps(_plain(x), default=str) for x in column]
            column = pl.Series(column.name, texts, dtype=pl.String)
        columns.append(column)
    return pl.DataFrame(columns)


def _plain(value: Any) -> Any:
    return value.to_list() if hasattr(value, "to_list") else value


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
        flat(table).write_csv(output)
    else:
        table.write_ndjson(output)
    if not quiet:
        low = int((table["p"] < 0.001).sum())
        say(f"{plural(table.height, per)} scored, {low:,} with p < 0.001, in {output}.")
    return Exit.DONE
