"""`onlinegcp fit`: a new run from a table of events."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from onlinegcp.cli import STANDARD_INPUT, Exit
from onlinegcp.cli.options import (
    Flag,
    Json,
    ModelOptions,
    Number,
    Quiet,
    TableOptions,
    Whole,
    source_of,
)

# A day is compared with the same day of other weeks, an hour with the same hour of other days.
SEASONS = {"1d": 7, "1h": 24, "30m": 48, "15m": 96, "1mo": 12, "1q": 4}


def fit(
    *sources: str,
    table: TableOptions,
    model: ModelOptions = ModelOptions(),  # noqa: B008 - never changed
    output: Annotated[str, Parameter(name=["--output", "-o"])],
    overwrite: Flag = False,
    level: Number = 0.01,
    season: Whole | None = None,
    hold_flagged: Flag = False,
    fail_on_alarm: Flag = False,
    keep_open: Flag = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Learn the patterns of a table of events, bin by bin, into a run directory.

    onlinegcp fit trips/*.parquet --time pickup --every 1d --modes pu,do,pickup:hour
    --share pu=do --loss poisson --rank 20 -o taxi.run

    Parameters
    ----------
    sources
        Files (parquet, Arrow, CSV, JSON lines), patterns or directories, or - for standard input;
        s3://, gs:// and az:// patterns, redis://host/stream, or a database with --query.
    output
        The run directory to make.
    overwrite
        Replace a run that is there already.
    level
        Share of ordinary slices that may be flagged.
    season
        Slices after which volumes repeat; by default 7 for days, 24 for hours, 12 for months.
    hold_flagged
        Do not learn flagged slices.
    fail_on_alarm
        Exit with code 4 if a slice was flagged.
    keep_open
        The last bin is not complete: keep its rows for the next update. Always so with -.
    json
        Say how it went as JSON.
    quiet
        Say nothing unless it fails.
    """
    from onlinegcp.cli.learning import learn
    from onlinegcp.errors import DataError
    from onlinegcp.events import from_events
    from onlinegcp.run import Run
    from onlinegcp.storage.secrets import redacted

    settings = table.settings()
    chosen = model.build(table.agg, table.value)
    stream = from_events(
        source_of(sources, table.query),
        **settings,
        **table.of_the_source(),
        close_last=not (keep_open or STANDARD_INPUT in sources),
    )
    with Run.create(
        output,
        chosen,
        modes=stream.mode_names,
        events=settings,
        command=["onlinegcp", *map(redacted, sys.argv[1:])],
        level=level,
        period=season or SEASONS.get(table.every, 1),
        hold_flagged=hold_flagged,
        overwrite=overwrite,
    ) as run:
        outcome = learn(
            run, stream, sources, fail_on_alarm=fail_on_alarm, as_json=json, quiet=quiet
        )
        if not run.path.exists() and outcome is Exit.DONE:
            raise DataError(
                "at least one time bin with events was needed, but there was none. Check the "
                "source, --since and --until."
            )
    return outcome
