"""`onlinegcp rank`: how many patterns there are."""

from __future__ import annotations

import shlex
from typing import Annotated

from cyclopts import Parameter

from onlinegcp.cli.options import Json, ModelOptions, Quiet, TableOptions, Whole


def rank(
    *sources: str,
    table: TableOptions = TableOptions(),  # noqa: B008 - never changed
    max: Annotated[Whole, Parameter(name="--max")] = 20,
    loss: str | None = None,
    warm_start: Whole = 10,
    slices: Whole = 60,
    seed: Whole = 0,
    output: Annotated[str, Parameter(name=["--output", "-o"])] = "rank.html",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Try ranks on the first slices of a table: which predicts best, and are its patterns stable?

    Parameters
    ----------
    sources
        Files, patterns or directories.
    max
        Largest rank to try.
    loss
        As for fit.
    warm_start
        Slices each model starts from; it is judged on the rest.
    slices
        Most slices to use.
    seed
        Seed of the random draws.
    output
        HTML file for the page.
    json
        As JSON.
    quiet
        No bar.
    """
    from rich.markup import escape

    from onlinegcp.cli.compare import read_slices
    from onlinegcp.cli.options import named, parse_loss, suitable_loss
    from onlinegcp.cli.planned import plan_of, with_plan
    from onlinegcp.cli.terminal import Bar, say, say_json, say_table
    from onlinegcp.evaluate.ranks import STABLE, rank_grid, study_ranks
    from onlinegcp.report.ranks import render_ranks
    from onlinegcp.storage.atomic import replacing
    from onlinegcp.storage.secrets import redacted_words

    given = ModelOptions(loss=loss, warm_start=warm_start)
    table, chosen = with_plan(plan_of(sources, table, given, ""), table, given)
    measured = parse_loss(chosen.loss or suitable_loss(table.agg, table.value))
    ranks = rank_grid(max)
    stream = read_slices(sources, table, slices, quiet=quiet or json)
    # A step costs about as much as its rank.
    work = 2 * len(stream) * sum(ranks)
    done = 0
    with Bar(work, quiet=quiet or json, what="trying ranks") as bar:

        def tell(tried: int, start: int, number: int) -> None:
            nonlocal done
            done += tried
            bar.tell(f"rank {tried}, start {start + 1} of 2, slice {number}", done)

        study = study_ranks(
            stream, ranks, measured, warm_start=warm_start, seed=seed, progress=tell
        )
    words = ["onlinegcp", "fit", *sources, "--rank", str(study.recommended)]
    page = render_ranks(
        study.ranks,
        study.losses / study.n_cells,
        study.stability,
        best=study.best,
        recommended=study.recommended,
        stable=STABLE,
        advice=study.advice,
        source=named(sources),
        command=shlex.join(redacted_words(words)),
    )
    with replacing(output) as file:
        file.write(page.encode())
    if json:
        say_json(
            {
                "recommended": study.recommended,
                "best": study.best,
                "advice": study.advice,
                "ranks": study.ranks,
                "loss": study.mean_losses,
                "stability": study.stability,
                "plot": output,
            }
        )
        return
    say_table(
        ["rank", "held-out loss per cell", "agreement of two starts", ""],
        [
            [str(r), f"{lost:.6g}", f"{same:.2f}", "<- use this" if r == study.recommended else ""]
            for r, lost, same in zip(study.ranks, study.mean_losses, study.stability, strict=True)
        ],
        right="rrr",
    )
    say(f"[b]{study.advice}[/b]")
    say(f"Page: {escape(output)}")
