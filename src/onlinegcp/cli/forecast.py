"""`onlinegcp forecast`: what the next slices of a run will hold."""

from __future__ import annotations

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
    from onlinegcp.cli.reading import digest_of
    from onlinegcp.cli.terminal import say, say_json, say_table
    from onlinegcp.digest import loss_of
    from onlinegcp.drawing.profiles import matrix
    from onlinegcp.drawing.text import number, say_time, shown_modes
    from onlinegcp.forecasting import Recent
    from onlinegcp.forecasting import forecast as carry_on

    digest = digest_of(run, quiet=json)
    view, steps = digest.view, list(digest.newest)  # as many as a forecast looks at
    check_learned(view)
    recent = Recent.of(view.recent)
    if steps[-1].get("partial"):  # half a day says little; it is forecast
        steps.pop()
        recent = recent.without_last()
    sums = np.prod([np.abs(factor).sum(axis=0) for factor in view.factors], axis=0)
    found = carry_on(
        matrix(steps, "weights", view.rank) * sums,
        view.factors,
        loss_of(view),
        ahead,
        times=[step.get("time") for step in steps],
        labels=view.labels,
        period=season,
        level=level,
        recent=recent,
    )
    if json:
        say_json(found.to_json(top))
        return
    interval = digest.interval
    say_table(
        ["time", "total", f"{level:.0%} interval"],
        [
            [say_time(time, interval), number(total), f"{number(low)} to {number(high)}"]
            for time, total, low, high in zip(
                found.times, found.total, found.low, found.high, strict=True
            )
        ],
        right="rrr",
    )
    if top > 0:
        say(f"[b]Cells that will hold most, {say_time(found.times[0], interval)}[/b]")
        say_table(
            [*shown_modes(view.modes), "expected", f"{level:.0%} interval"],
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
