"""`onlinegcp compare`: several methods and settings on the same stream."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Annotated, Any

from cyclopts import Parameter

from onlinegcp.cli.options import (
    Json,
    ModelOptions,
    Quiet,
    TableOptions,
    Whole,
    Words,
    named,
    parse_loss,
    source_of,
    suitable_loss,
)


def compare(
    *sources: str,
    table: TableOptions = TableOptions(),  # noqa: B008 - never changed
    model: ModelOptions = ModelOptions(),  # noqa: B008 - never changed
    methods: Words = [],  # noqa: B006 - never changed
    contender: Words = [],  # noqa: B006 - never changed
    slices: Whole = 200,
    seconds: float | None = None,
    output: Annotated[str | None, Parameter(name=["--output", "-o"])] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Let methods predict the same slices, each before learning it, and table their losses.

    onlinegcp compare trips.parquet --time pickup --every 1d --modes pu,do
    --methods online_gcp,cp_stream,olstec --contender online_gcp:forget=1.0

    Parameters
    ----------
    sources
        Files, patterns or directories.
    methods
        Methods as they are, with commas between them; by default all.
    contender
        A method with settings of its own, METHOD:name=value,name=value.
    slices
        Most slices to use, the first ones.
    seconds
        Most seconds a method may learn for; slower ones are broken off.
    output
        HTML file for a page of it.
    json
        As JSON.
    quiet
        No bar.
    """
    from rich.markup import escape

    from onlinegcp.cli.planned import plan_of, with_plan
    from onlinegcp.cli.terminal import Bar, say, say_json, say_table
    from onlinegcp.evaluate import compare as race
    from onlinegcp.report.comparison import render_comparison
    from onlinegcp.storage.atomic import replacing
    from onlinegcp.storage.secrets import redacted_words
    from onlinegcp.streaming import METHODS

    own = model.set
    # All begin from one start, which has a rank.
    model = replace(model, rank=model.rank if isinstance(model.rank, int) else 10)
    table, model = with_plan(plan_of(sources, table, model, ""), table, model)
    # All are measured by one loss in the units of the data: units of its own are no help there.
    kept = [word for word in model.set if word in own or not word.startswith("scale=")]
    model = replace(model, set=type(model.set)(kept))
    names = [name for word in methods for name in word.split(",") if name] + list(contender)
    names = names or list(METHODS)
    # What a plan sets, a bound, is for the method that has one.
    entrants = {
        name: _entrant(
            name,
            model if name.partition(":")[0] == "online_gcp" else replace(model, set=own),
            table,
        )
        for name in names
    }
    stream = read_slices(sources, table, slices, quiet=quiet or json)
    with Bar(len(names) * len(stream), quiet=quiet or json, what="comparing") as bar:

        def tell(name: str, done: int, of: int) -> None:
            bar.tell(f"{name}  slice {done} of {of}", names.index(name) * len(stream) + done)

        found = race(
            stream,
            entrants,
            rank=model.rank if isinstance(model.rank, int) else 10,
            loss=parse_loss(model.loss or suitable_loss(table.agg, table.value)),
            warm_start=10 if model.warm_start is None else model.warm_start,
            seed=model.seed,
            seconds=seconds,
            tell=tell,
        )
    if output is not None:
        words = ["onlinegcp", "fit", *sources, *_words(found.contenders[0].name)]
        page = render_comparison(
            found.to_dict(), source=named(sources), command=shlex.join(redacted_words(words))
        )
        with replacing(output) as file:
            file.write(page.encode())
    if json:
        say_json(found.to_dict())
        return
    say_table(
        ["method", "prequential", "local", "global", "ms per slice", "MB"],
        [
            [
                row.name,
                *(f"{value:.5g}" for value in (row.prequential, row.local, row.overall)),
                f"{row.milliseconds:.2f}",
                f"{row.megabytes:.2f}",
            ]
            for row in found.contenders
            if row.refusal is None
        ],
        right=" rrrrr",
    )
    for row in found.contenders:
        if row.refusal is not None:
            say(f"[dim]{row.name}: {escape(row.refusal)}[/dim]")
    say(
        f"[dim]Mean {found.loss} loss per cell of the {found.n_slices - found.warm_start} slices "
        "after the warm start: before each was learned, after it, and of all slices under the "
        "final model.[/dim]"
    )


def read_slices(
    sources: tuple[str, ...], table: TableOptions, most: int, *, quiet: bool
) -> list[Any]:
    """The first slices of a table, all of the same shape."""
    import itertools

    from onlinegcp.cli.terminal import Bar
    from onlinegcp.errors import DataError
    from onlinegcp.events import from_events
    from onlinegcp.slices import widened

    with Bar(quiet=quiet, what="reading") as bar:
        bar.tell("events")
        stream = from_events(
            source_of(sources, table.query), **table.settings(), **table.of_the_source()
        )
        found = list(itertools.islice(stream, most))
        stream.close()
    if not found:
        raise DataError(
            "at least one time bin with events was needed, but there was none. Check the source, "
            "--since and --until."
        )
    return widened(found)


def _entrant(name: str, model: ModelOptions, table: TableOptions) -> Any:
    method, _, settings = name.partition(":")
    own = [word for word in settings.split(",") if word]
    # Rivals know one loss only, which is no reason to leave them out.
    loss = model.loss if method == "online_gcp" else None
    given = replace(model, method=method, loss=loss, set=[*model.set, *own])
    return given.build(table.agg, table.value)


def _words(name: str) -> list[str]:
    """The options of `fit` that choose a contender."""
    method, _, settings = name.partition(":")
    chosen = [] if method == "online_gcp" else ["--method", method]
    return chosen + [word for each in settings.split(",") if each for word in ("--set", each)]
