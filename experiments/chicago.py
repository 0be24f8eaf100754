"""Chicago crime experiment: OnlineGCP against GCP on yes-or-no data, one slice per day."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from experiments.claims import Claim, comparable_loss, mean_loss, our_checks, undecided
from experiments.console import Options, read_options
from experiments.data import chicago
from experiments.experiment import Plan, Streaming, conduct, shortened
from experiments.protocol import Problem, Run
from experiments.settings import TABLES
from experiments.static_methods import sampled_gcp
from onlinegcp.streaming import OnlineGCP

DAYS = {"paper": 5687, "small": 60}
GCP_SAMPLES: dict[str, dict[str, int]] = {
    "paper": {"objective": 50_000, "gradient": 10_000},
    "small": {"objective": 5_000, "gradient": 2_000, "iterations": 300, "epochs": 20},
}
SHORT_HISTORY = 50  # the window of the paper's other experiments


def plan(options: Options) -> Plan:
    """The experiment of section 6.2: hour x area x type by day, any crime counts as one, R = 50."""
    settings = TABLES[options.scale]["chicago"]
    rank, warm, seed = settings.rank, settings.init_slices, options.seed
    count = shortened(options.slices, DAYS[options.scale], warm)
    slices = chicago(options.data, count)
    problem = Problem("chicago", slices, "bernoulli_odds", rank, warm)
    samples = GCP_SAMPLES[options.scale]
    # The start is worth three tries; 10,000 steps on 20 days are enough for each.
    few = {**samples, "iterations": 100}
    first = sampled_gcp(slices[:warm], rank, "bernoulli_odds", seed, n_starts=3, **few)
    common = {"loss": "bernoulli_odds", "random_state": seed}
    shorter = replace(settings, history_size=SHORT_HISTORY)
    streaming = [
        Streaming("OnlineGCP", OnlineGCP, {**settings.parameters(), **common}),
        Streaming("auto", OnlineGCP, {"rank": rank, **common}),
    ]
    if options.scale == "paper":
        short = f"OnlineGCP, H = {SHORT_HISTORY}"
        streaming.append(Streaming(short, OnlineGCP, {**shorter.parameters(), **common}))
    size = " x ".join(map(str, (*slices[0].shape, len(slices))))
    return Plan(
        problem,
        warm_start=first,
        static=[sampled_gcp(slices, rank, "bernoulli_odds", seed, **samples)],
        streaming=streaming,
        claims=lambda runs: claims(problem, runs),
        title=f"Chicago crime, yes or no, {size}, Bernoulli (odds), R = {rank}",
    )


def claims(problem: Problem, runs: dict[str, Run]) -> list[Claim]:
    """Losses comparable to static GCP; a long history is needed for the global loss."""
    found: list[Claim] = []
    ours = runs.get("OnlineGCP")
    if ours is None:
        return found
    if "GCP" in runs:
        found += [
            comparable_loss(problem, ours, runs["GCP"], "local"),
            comparable_loss(problem, ours, runs["GCP"], "overall"),
        ]
    long_needed = "OnlineGCP needs the long history (H = 500) to keep its global loss"
    name = f"OnlineGCP, H = {SHORT_HISTORY}"
    if name not in runs:
        return [*found, undecided(long_needed, name), *our_checks(problem, runs, "GCP")]
    long_loss, short_loss = (mean_loss(problem, run, "overall") for run in (ours, runs[name]))
    gap = short_loss / long_loss - 1
    found.append(
        Claim(
            long_needed,
            bool(gap > 0.01),
            f"global loss {short_loss:.5g} with H = {SHORT_HISTORY} against {long_loss:.5g} "
            f"with H = 500, {gap:+.1%} (needed means more than +1 %)",
            required=False,
        )
    )
    return found + our_checks(problem, runs, "GCP")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment from the command line."""
    return conduct("chicago", read_options("chicago", plan.__doc__ or "", arguments), plan)


if __name__ == "__main__":
    sys.exit(main())
