"""New York taxi experiment: OnlineGCP against CP-APR and GCP, one slice of rides per day.

The trip files of 2018 are not on every machine, so three sources can be chosen: `stand-in`
(SYNTHETIC rides drawn from real marginals, 263 zones), `manhattan` (real rides among 30 zones in
May and June 2018) and `tlc` (real trip files, yellow_tripdata_2018-*.parquet in the --data folder).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from experiments.claims import Claim, comparable_loss, our_checks, undecided
from experiments.console import Options, read_options
from experiments.data import TAXI_ZONES, MissingData, manhattan, taxi_stand_in, taxi_trips
from experiments.experiment import Plan, Streaming, conduct, shortened
from experiments.protocol import Problem, Run
from experiments.settings import TABLES
from experiments.static_methods import apr, sampled_gcp
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP

SOURCES = ("stand-in", "manhattan", "tlc")
SMALL_ZONES, SMALL_DAYS = 20, 50
GCP_SAMPLES: dict[str, dict[str, int]] = {
    "paper": {"objective": 50_000, "gradient": 10_000},
    "small": {"objective": 5_000, "gradient": 1_000, "iterations": 300},
}
NOTES = {
    "stand-in": "SYNTHETIC stand-in drawn from real marginals, not the real trip files",
    "manhattan": "real rides among 30 zones, May and June 2018",
    "tlc": "real trip files of the NYC Taxi and Limousine Commission",
}


def plan(options: Options) -> Plan:
    """The experiment of section 6.2: zone x zone x hour by day, Poisson loss, R = 50."""
    settings = TABLES[options.scale]["taxi"]
    if options.source == "manhattan":
        # 30 x 30 x 24 cells cannot carry 50 components learned from 20 days.
        settings = replace(settings, rank=min(settings.rank, 20))
    rank, warm, seed = settings.rank, settings.init_slices, options.seed
    slices = read(options, warm)
    problem = Problem("taxi", slices, "poisson", rank, warm, note=NOTES[options.source])
    size = " x ".join(map(str, (*slices[0].shape, len(slices))))
    # Newton steps cost R^2 per ride: too much for all 263 zones, so multiplicative updates there.
    large = slices[0].shape[0] == TAXI_ZONES
    steps = {"method": "mu", "max_iterations": 60, "max_inner": 2} if large else {}
    common = {"loss": "poisson", "random_state": seed}
    return Plan(
        problem,
        warm_start=apr(slices[:warm], rank, seed, **{**steps, "max_iterations": 100}),
        static=[
            apr(slices, rank, seed, **steps),
            sampled_gcp(slices, rank, "poisson", seed, **GCP_SAMPLES[options.scale]),
        ],
        streaming=[
            Streaming("OnlineGCP", OnlineGCP, {**settings.parameters(), **common}),
            Streaming("auto", OnlineGCP, {"rank": rank, **common}),
        ],
        claims=lambda runs: claims(problem, runs),
        title=f"NYC taxi rides per hour, {size}, Poisson, R = {rank}",
    )


def read(options: Options, warm: int) -> list[Slice]:
    """The slices of the chosen source and scale."""
    if options.source == "stand-in":
        small = options.scale == "small"
        count = shortened(options.slices, SMALL_DAYS if small else 365, warm)
        zones = {"zones": SMALL_ZONES} if small else {}
        return list(taxi_stand_in(options.data, count, seed=options.seed, **zones))
    if options.source == "manhattan":
        slices = manhattan(options.data)
    else:
        folder = options.data
        if not folder.is_dir():
            raise MissingData(f"{folder} is not a folder on this machine.")
        slices = taxi_trips(sorted(folder.glob("yellow_tripdata_2018-*.parquet")))
    return slices[: shortened(options.slices, len(slices), warm)]


def claims(problem: Problem, runs: dict[str, Run]) -> list[Claim]:
    """Local and global loss comparable to both static methods."""
    found: list[Claim] = []
    ours = runs.get("OnlineGCP")
    if ours is None:
        return found
    for name in ("CP-APR", "GCP"):
        if name not in runs:
            found.append(undecided(f"OnlineGCP: losses comparable to {name}", name))
            continue
        found += [
            comparable_loss(problem, ours, runs[name], "local"),
            comparable_loss(problem, ours, runs[name], "overall"),
        ]
    return found + our_checks(problem, runs, "CP-APR")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment from the command line."""
    options = read_options("taxi", plan.__doc__ or "", arguments, SOURCES)
    name = "taxi" if options.source == "stand-in" else f"taxi-{options.source}"
    return conduct(name, options, plan)


if __name__ == "__main__":
    sys.exit(main())
