"""`onlinegcp compare`: several methods and settings on the same stream."""

from __future__ import annotations

from typing import Any

from onlinegcp.cli.options import Json, ModelOptions, Quiet, TableOptions, Words, source_of


def compare(
    *sources: str,
    table: TableOptions,
    model: ModelOptions = ModelOptions(),  # noqa: B008 - never changed
    contender: Words = [],  # noqa: B006 - never changed
    slices: int = 200,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Let methods predict the same slices, each before learning it, and table their losses.

    onlinegcp compare trips.parquet --time pickup --every 1d --modes pu,do
    --contender online_gcp --contender online_gcp:forget=1.0 --contender cp_stream

    Parameters
    ----------
    sources
        Files, patterns or directories.
    contender
        METHOD or METHOD:name=value,name=value; by default all methods as they are.
    slices
        Most slices to use, the first ones.
    json
        As JSON.
    quiet
        No bar.
    """
    from onlinegcp.cli.terminal import Bar, say, say_json, say_table
    from onlinegcp.streaming import METHODS

    stream = read_slices(sources, table, slices, quiet=quiet or json)
    rows = []
    names = contender or list(METHODS)
    with Bar(len(names) * len(stream), quiet=quiet or json, what="comparing") as bar:
        for position, name in enumerate(names):
            entrant = _entrant(name, model, table)

            def tell(done: int, name: str = name, position: int = position) -> None:
                bar.tell(f"{name}  slice {done} of {len(stream)}", position * len(stream) + done)

            rows.append({"contender": name, **_race(entrant, stream, tell)})
    rows.sort(key=lambda row: (row["loss"], row["prequential"]))
    if json:
        say_json(rows)
        return
    say_table(
        ["contender", "loss", "prequential", "local", "squared error", "ms per slice"],
        [
            [
                row["contender"],
                row["loss"],
                f"{row['prequential']:.5g}",
                f"{row['local']:.5g}",
                "" if row["squared_error"] is None else f"{row['squared_error']:.4f}",
                f"{row['milliseconds']:.1f}",
            ]
            for row in rows
        ],
        right="  rrrr",
    )
    say(
        "[dim]prequential, local: mean loss per cell before and after learning a slice, comparable "
        "within one loss. squared error: of the prediction, relative to the slice.[/dim]"
    )


def read_slices(
    sources: tuple[str, ...], table: TableOptions, most: int, *, quiet: bool
) -> list[Any]:
    """The first slices of a table, all of the same shape."""
    import itertools

    from onlinegcp.cli.terminal import Bar
    from onlinegcp.errors import DataError
    from onlinegcp.events import from_events
    from onlinegcp.slices import widen

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
    shape = tuple(max(lengths) for lengths in zip(*(x.shape for x in found), strict=True))
    return [widen(x, shape) for x in found]


def _entrant(name: str, model: ModelOptions, table: TableOptions) -> Any:
    from dataclasses import replace

    method, _, settings = name.partition(":")
    own = [word for word in settings.split(",") if word]
    # Rivals know one loss only, which is no reason to leave them out.
    loss = model.loss if method == "online_gcp" else None
    given = replace(model, method=method, loss=loss, set=[*model.set, *own])
    return given.build(table.agg, table.value)


def _race(model: Any, stream: list[Any], tell: Any) -> dict[str, Any]:
    """Learn all slices; what the model lost on those after its warm start."""
    from onlinegcp.errors import DataError
    from onlinegcp.evaluate import prequential
    from onlinegcp.losses import get_loss
    from onlinegcp.solvers.objective import slice_loss

    gaussian = get_loss("gaussian")
    straight = float(model.loss_.mean(0.37)) == 0.37  # whether model values are expectations

    def error(number: int, x: Any) -> float:
        if not straight:
            return 0.0
        squares: float = slice_loss(x, model.factors_, model.transform([x])[0], gaussian)
        return squares / max(float(x.norm_squared), 1e-300)

    totals = {"prequential": 0.0, "local": 0.0, "squared_error": 0.0, "milliseconds": 0.0}
    n_slices = n_cells = 0
    for turn in prequential(model, stream, error):
        if turn.record is not None:
            n_slices += 1
            n_cells += turn.x.n_observed
            totals["prequential"] += turn.record.prequential
            totals["local"] += turn.record.local
            totals["squared_error"] += turn.verdict or 0.0
            totals["milliseconds"] += 1e3 * turn.seconds
        tell(turn.number)
    if not n_slices:
        raise DataError(
            f"more slices than the warm start takes were needed, but there are {len(stream)}. Use "
            "a smaller --warm-start."
        )
    return {
        "loss": model.loss_.name,
        "slices": n_slices,
        "prequential": totals["prequential"] / max(n_cells, 1),
        "local": totals["local"] / max(n_cells, 1),
        "squared_error": totals["squared_error"] / n_slices if straight else None,
        "milliseconds": totals["milliseconds"] / n_slices,
    }
