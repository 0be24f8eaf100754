"""`onlinegcp update`: a run goes on with new data, or with the same after an interruption."""

from __future__ import annotations

import sys

from onlinegcp.cli import STANDARD_INPUT, Exit
from onlinegcp.cli.options import Flag, Json, Quiet, Whole, source_of


def update(
    run: str,
    *sources: str,
    since: str | None = None,
    until: str | None = None,
    query: str | None = None,
    format: str | None = None,
    max_gap: Whole | None = None,
    hold_flagged: bool | None = None,
    fail_on_alarm: Flag = False,
    on_alarm: str | None = None,
    webhook: str | None = None,
    keep_open: Flag = False,
    jobs: Whole | None = None,
    cluster: str | None = None,
    abandon: Flag = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Go on with a run: time bins that were learned are passed over, the rest is learned.

    onlinegcp update taxi.run trips/2018-03-01.parquet

    tail -f events.jsonl | onlinegcp update live.run -

    Parameters
    ----------
    run
        The run directory.
    sources
        Files, patterns or directories, or - for standard input, where a bin is closed by the
        first event after it; s3://, gs:// and az:// patterns, redis://host/stream, or a database,
        which is asked only for what is newer than the last bin.
    since
        Leave out rows before this time.
    until
        Leave out rows at or after this time.
    query
        What to ask a database for; by default what it was asked for last.
    format
        parquet, arrow, csv or jsonl, should it not be recognised.
    max_gap
        Most empty bins in a row; by default as it was with fit.
    hold_flagged
        Learn the odd rows of flagged slices as they usually are; by default as it was with fit.
    fail_on_alarm
        Exit with code 4 if a slice was flagged.
    on_alarm
        Command to start when an alarm begins or ends; it reads JSON from its standard input.
    webhook
        Address to post the same JSON to, with retries.
    keep_open
        The last bin is not complete: keep its rows for the next update. Always so with -.
    jobs
        Threads, or processes that learn many streams (fit --by); by default as many as pay.
    cluster
        A Dask cluster that shares the work on large slices: tcp://host:8786, or local:4.
    abandon
        Leave a source that many streams did not read to its end as it is, and go on to the next.
    json
        Say how it went as JSON.
    quiet
        Say nothing unless it fails.
    """
    from onlinegcp.cli.learning import Telling, learn
    from onlinegcp.many.files import is_many
    from onlinegcp.run import Run
    from onlinegcp.run.sources import last_query
    from onlinegcp.storage.secrets import redacted_words

    of_the_source = {
        "since": since,
        "until": until,
        "format": format,
        "close_last": not (keep_open or STANDARD_INPUT in sources),
        **({} if max_gap is None else {"max_gap": max_gap}),
    }
    how = Telling(fail_on_alarm, on_alarm, webhook, json, quiet)
    if is_many(run):
        from onlinegcp.cli.many import learn_many
        from onlinegcp.many.streams import ManyStreams, refuse_cluster

        refuse_cluster(cluster)
        with ManyStreams.open(run) as many:
            return learn_many(
                many,
                source_of(sources, query),
                sources,
                how,
                options=of_the_source,
                jobs=jobs,
                hold_flagged=hold_flagged,
                abandon=abandon,
            )
    with Run.open(run) as opened:
        known = opened.model.get_params(deep=False)
        chosen = {"n_jobs": jobs, "cluster": cluster}
        opened.model.set_params(
            **{name: value for name, value in chosen.items() if value is not None and name in known}
        )
        source = source_of(sources, query or last_query(opened, sources))
        stream = opened.stream(source, **of_the_source)
        return learn(
            opened,
            stream,
            sources,
            how,
            hold_flagged=hold_flagged,
            command=["onlinegcp", *redacted_words(sys.argv[1:])],
        )
