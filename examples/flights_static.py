"""A year of flights out of New York, explained by a few patterns.

Counts of destination x carrier x hour x day are decomposed by Poisson tensor factorisation; each
component is a way of flying that is told here in words. Run it with `make demo`.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import onlinegcp
from onlinegcp.cli.flight_names import CARRIERS, CITIES
from onlinegcp.problems import Stream
from onlinegcp.static.result import Progress as Pass
from onlinegcp.static.result import StaticFit

Numbers = NDArray[np.float64]

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")
BARS = "▁▂▃▄▅▆▇█"
TOLERANCE = 1e-2
# Bars of weekdays and months start at this share of the average, or they would all look alike.
FLOOR = 0.6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rank", type=int, default=8, help="number of patterns (default 8)")
    options.add_argument("--passes", type=int, default=100, help="most passes (default 100)")
    chosen = options.parse_args()
    console, start = Console(highlight=False), time.perf_counter()

    flights = onlinegcp.load_flights(("dest", "carrier", "hour"))
    counts = onlinegcp.stack(flights)
    size = " x ".join(
        f"{n} {name}"
        for n, name in zip(counts.shape, ("airports", "carriers", "hours", "days"), strict=True)
    )
    console.print(
        Panel(
            f"{counts.total:,.0f} flights left New York City in 2013.\n"
            f"As a tensor: [b]{size}[/b],\n"
            f"{counts.size / 1e6:.1f} million cells, {counts.nnz / counts.size:.1%} not zero.\n"
            f"Which [b]{chosen.rank} patterns[/b] explain them?",
            title="onlinegcp",
            border_style="cyan",
            expand=False,
            padding=(0, 2),
        )
    )
    fit = fit_with_progress(console, counts, chosen.rank, chosen.passes)
    for r in range(chosen.rank):
        console.print(describe(fit, flights, r))
    console.print(
        f"\n[dim]Bars of weekdays and months start at {FLOOR:.0%} of the average.[/dim]\n"
        f"[b]{explained(counts, fit):.0%}[/b] of the deviance explained by "
        f"{sum(a.size for a in fit.ktensor.factors):,} numbers for {counts.size:,} cells; "
        f"{fit.message}.\nFitted in [b]{fit.seconds:.1f} s[/b], "
        f"{time.perf_counter() - start:.1f} s in all."
    )


def fit_with_progress(
    console: Console, counts: onlinegcp.Slice, rank: int, passes: int
) -> StaticFit:
    """Decompose, telling after every pass how far it got."""
    bar = Progress(
        SpinnerColumn(style="cyan"),
        TextColumn("fitting"),
        BarColumn(bar_width=24, pulse_style="cyan"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task("compiling, first run only", total=None)

        def report(news: Pass) -> None:
            text = f"pass {news.iteration:2}  loss {news.objective:,.0f}  {news.message}"
            bar.update(task, description=text)

        return onlinegcp.cp_apr(
            counts,
            rank,
            seed=1,
            tolerance=TOLERANCE,
            max_iterations=passes,
            progress=report,
            n_jobs=min(os.cpu_count() or 1, 4),  # the result is the same for any number
        )


def describe(fit: StaticFit, flights: Stream, r: int) -> Table:
    """One pattern in words and bars."""
    assert flights.labels is not None
    model = fit.ktensor
    airports, carriers, hours, days = (a[:, r] for a in model.factors)
    places, airlines, clock = flights.labels
    dates = [x.time for x in flights]
    week = averages(days, [day.weekday() for day in dates], 7)
    year = averages(days, [day.month - 1 for day in dates], 12)
    share = model.weights[r] / model.weights.sum()
    colour = COLOURS[r % len(COLOURS)]

    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", style="dim", width=9)
    table.add_column()
    first = ", ".join(city(places[i]) for i in np.argsort(-airports)[:3])
    title = f"{CARRIERS[airlines[carriers.argmax()]]} to {first}"
    table.add_row()
    table.add_row(
        Text(f"{r + 1}", style=f"bold {colour}"),
        Text.assemble((title, f"bold {colour}"), (f"  {share:.0%} of flights", "dim")),
    )
    table.add_row("carriers", largest(carriers, [CARRIERS[code] for code in airlines], 3))
    table.add_row("to", largest(airports, [city(code) for code in places], 4))
    busy = sorted(np.argsort(-hours)[:3].tolist())
    busiest = "busiest at " + listing([f"{clock[h]}h" for h in busy])
    for name, profile, floor, ends, words in (
        ("hours", hours, 0.0, ("  0", "24"), busiest),
        ("week", week, FLOOR, ("Mon", "Sun"), extremes(week, WEEKDAYS)),
        ("year", year, FLOOR, ("Jan", "Dec"), extremes(year, MONTHS)),
    ):
        line = sparkline(profile, floor)
        bars = Text.assemble((f"{ends[0]} ", "dim"), (line, colour), (f" {ends[1]}", "dim"))
        bars.pad_right(33 - len(bars))
        table.add_row(name, bars + Text(words))
    return table


def averages(days: Numbers, group: Sequence[int], n_groups: int) -> Numbers:
    """Mean of the days in each group, relative to the mean of all."""
    means = np.bincount(group, days, n_groups) / np.bincount(group, minlength=n_groups)
    return np.asarray(means / days.mean())


def extremes(profile: Numbers, names: Sequence[str]) -> str:
    """Where a profile around one is highest and lowest."""
    high, low = int(profile.argmax()), int(profile.argmin())
    if profile[high] - profile[low] < 0.05:
        return "always alike"
    return (
        f"most {names[high]} {profile[high] - 1:+.0%}, least {names[low]} {profile[low] - 1:+.0%}"
    )


def largest(column: Numbers, names: Sequence[str], n: int) -> str:
    """The names with the largest shares of a column, those of 2 % or more."""
    shares = column / column.sum()
    best = [i for i in np.argsort(-shares)[:n] if shares[i] >= 0.02]
    return ", ".join(f"{names[i]} {shares[i]:.0%}" for i in best)


def listing(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1]


def city(code: str) -> str:
    return CITIES.get(code, code)


def sparkline(profile: Numbers, floor: float) -> str:
    """One bar per number, from the floor to the largest."""
    heights = (profile - floor) / (profile.max() - floor) * len(BARS)
    return "".join(BARS[int(max(math.ceil(height), 1)) - 1] for height in heights)


def explained(counts: onlinegcp.Slice, fit: StaticFit) -> float:
    """Share of the deviance of a single rate for all cells that the model removes."""
    perfect = float(np.sum(counts.value - counts.value * np.log(counts.value)))
    single = counts.total - counts.total * math.log(counts.total / counts.size)
    return (single - fit.objective) / (single - perfect)


if __name__ == "__main__":
    main()
