"""`onlinegcp fit`: a new run from a table of events."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

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
    table: TableOptions = TableOptions(),  # noqa: B008 - never changed
    model: ModelOptions = ModelOptions(),  # noqa: B008 - never changed
    by: str | None = None,
    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None,
    plan: Flag = False,
    overwrite: Flag = False,
    level: Number = 0.01,
    season: Whole | None = None,
    holidays: str | None = None,
    unit: str | None = None,
    hold_flagged: Flag = False,
    fail_on_alarm: Flag = False,
    on_alarm: str | None = None,
    webhook: str | None = None,
    keep_open: Flag = False,
    json: Json = False,
    quiet: Quiet = False,
) -> Exit:
    """Learn the patterns of a table, bin by bin, into a run directory.

    onlinegcp fit trips.parquet

    chooses everything, says why and how to say the same in full. Every option overrides one choice:

    onlinegcp fit trips/*.parquet --time pickup --every 1d --modes pu,do,pickup:hour
    --share pu=do --loss poisson --rank 20 -o taxi.run

    Parameters
    ----------
    sources
        Files (parquet, Arrow, CSV, JSON), patterns or directories, or - for standard input;
        s3://, gs:// and az:// patterns, redis://host/stream, or a database with --query.
    by
        Column that tells streams apart, such as customer: each gets a model of its own, learned
        over all cores (--jobs), all in one run directory.
    output
        The run directory to make; by default named after the source.
    plan
        Say what would be done, and stop.
    overwrite
        Replace a run that is there already.
    level
        Share of ordinary slices that may be flagged.
    season
        Slices after which they repeat; by default 7 for days, 24 for hours, 12 for months, else
        what is found in the data; 1 for none.
    holidays
        Country whose holidays are days of their own, such as US or DE-BY (onlinegcp[holidays]).
    unit
        What is counted, in the plural, such as deaths, for sentences and pages.
    hold_flagged
        Learn the odd rows of flagged slices as they usually are.
    fail_on_alarm
        Exit with code 4 if a slice was flagged.
    on_alarm
        Command to start when an alarm begins or ends; it reads JSON from its standard input.
    webhook
        Address to post the same JSON to, with retries.
    keep_open
        The last bin is not complete: keep its rows for the next update. Always so with -.
    json
        Say how it went as JSON.
    quiet
        Say nothing unless it fails.
    """
    from onlinegcp.cli.ahead import compiling_ahead
    from onlinegcp.cli.learning import Telling, learn
    from onlinegcp.cli.planned import (
        as_json,
        by_words,
        extra_words,
        plan_of,
        tell,
        with_bound,
        with_plan,
    )
    from onlinegcp.cli.terminal import note, say, say_json
    from onlinegcp.errors import DataError
    from onlinegcp.events import from_events
    from onlinegcp.run import Run
    from onlinegcp.storage.secrets import redacted_words

    made = plan_of(sources, table, model, output, by=by)
    complete = not table.missing and output is not None
    given = {"level": level, "season": season, "holidays": holidays, "unit": unit}
    extra = extra_words(table, model, {**given, "hold_flagged": hold_flagged})
    table, model, words = *with_plan(made, table, model), sys.argv[1:]
    if made is not None:
        output = made.output
        command = made.command(sources, [*by_words(by), *extra])
        words = shlex.split(command)[1:]
        if plan and json:
            say_json(as_json(made, command))
        elif plan or not (complete or json or quiet):
            tell(made, command)
        elif complete and not (json or quiet):
            note(": ".join(made.lines[3][1:]))
    if plan:
        if made is None:
            say("All is said: there is nothing to plan.")
        return Exit.DONE
    if made is None:
        bounded = with_bound(sources, table, model)
        if bounded is not model and not (json or quiet):
            note("No value is negative, so the model is not, either (--set lower=none lets it).")
        model = bounded
    assert output is not None  # a plan names it
    settings = table.settings()
    chosen = model.build(table.agg, table.value, threads=by is None)
    run_options: dict[str, Any] = {
        "events": settings,
        "command": ["onlinegcp", *redacted_words(words)],
        "unit": unit,
        "level": level,
        "period": season or SEASONS.get(str(table.every)),
        "longer": season is None,  # a week of days of hours
        "holidays": holidays,
        "hold_flagged": hold_flagged,
        "overwrite": overwrite,
    }
    how = Telling(fail_on_alarm, on_alarm, webhook, json, quiet)
    close_last = not (keep_open or STANDARD_INPUT in sources)
    if by is not None:
        from onlinegcp.cli.many import learn_many
        from onlinegcp.many.streams import ManyStreams

        with ManyStreams.create(output, chosen, by=by, **run_options) as many:
            return learn_many(
                many,
                source_of(sources, table.query),
                sources,
                how,
                options={**table.of_the_source(), "close_last": close_last},
                jobs=model.jobs,
            )
    stream = from_events(
        source_of(sources, table.query),
        **settings,
        **table.of_the_source(),
        close_last=close_last,
        cluster=model.cluster,
    )
    with (
        compiling_ahead(chosen.loss_.name),
        Run.create(output, chosen, modes=stream.mode_names, **run_options) as run,
    ):
        outcome = learn(run, stream, sources, how)
        if not run.path.exists() and outcome is Exit.DONE:
            raise DataError(
                "at least one time bin with events was needed, but there was none. Check the "
                "source, --since and --until."
            )
    return outcome
