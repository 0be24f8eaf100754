"""`onlinegcp forecast`: what the next slices of a run will hold."""

from __future__ import annotations

from typing import Any

from onlinegcp.cli.options import Json


def forecast(
    run: str,
    *,
    ahead: int = 7,
    top: int = 5,
    level: float = 0.8,
    season: int | None = None,
    json: Json = False,
) -> None:
    """Carry the patterns of a run on: totals with intervals, and the cells that will hold most.

    onlinegcp forecast taxi.run --ahead 7

    Parameters
    ----------
    run
        The run directory.
    ahead
        How many slices.
    top
        Cells to name of the next slice.
    level
        Share of totals that should lie in the interval.
    season
        Slices after which patterns repeat; by default what the calendar says, or what fits.
    json
        As JSON.
    """
    import numpy as np

    from onlinegcp.cli.components import check_learned
    from onlinegcp.cli.terminal import say, say_json, say_table
    from onlinegcp.drawing.profiles import matrix
    from onlinegcp.drawing.text import number
    from onlinegcp.forecasting import forecast as carry_on
    from onlinegcp.runlog import read_run

    view = read_run(run)
    check_learned(view)
    sums = np.prod([np.abs(factor).sum(axis=0) for factor in view.factors], axis=0)
    found = carry_on(
        matrix(view.steps, "weights", view.rank) * sums,
        view.factors,
        _loss_of(view.info),
        ahead,
        times=view.times,
        labels=view.labels,
        period=season,
        level=level,
    )
    if json:
        say_json(found.to_json(top))
        return
    say_table(
        ["time", "total", f"{level:.0%} interval"],
        [
            [str(time), number(total), f"{number(low)} to {number(high)}"]
            for time, total, low, high in zip(
                found.times, found.total, found.low, found.high, strict=True
            )
        ],
        right="rrr",
    )
    if top > 0:
        say(f"[b]Most of it at {found.times[0]}[/b]")
        say_table(
            [*view.modes, "expected", f"{level:.0%} interval"],
            [
                [
                    *cell["labels"],
                    number(cell["expected"]),
                    f"{number(cell['low'])} to {number(cell['high'])}",
                ]
                for cell in found.cells(0, top)
            ],
            right=" " * len(view.modes) + "rr",
        )


def _loss_of(info: dict[str, Any]) -> Any:
    """The loss of a run; methods without one measure squares."""
    from onlinegcp.errors import DataError
    from onlinegcp.losses import get_loss
    from onlinegcp.losses.registry import from_dict

    stored = ((info.get("model") or {}).get("parameters") or {}).get("loss", "gaussian")
    if isinstance(stored, dict) and "own_loss" in stored:
        raise DataError(
            "A loss of the package is needed to forecast a run from the command line, but this one "
            f"has {stored['own_loss']!r}. Load its model in Python and use model.forecast."
        )
    return from_dict(stored["loss"]) if isinstance(stored, dict) else get_loss(stored)
