"""The tuning-free solver on the real streams: losses, forgetting and processor time per slice.

    python experiments/auto_streams.py [problem ...] [--forget auto,1,9.55] [--no-reseed]

Prints one line per problem and forgetting. "frozen" is the warm start never updated, "next20" the
loss of the 20 slices after the stream with the final factors, all over the slice's squared norm.
Warm starts are kept in experiments/out, since the static solves take longer than the streams.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import streams
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.streaming.warm_start import static_start

OUT = Path(__file__).resolve().parent / "out"


def warm_start(problem: streams.Problem, slices: list[Slice], seed: int):
    """Static model of the warm-start slices, best of three, from disk if it was made before."""
    path = OUT / f"warm_{problem.name}_{problem.rank}_{seed}.npz"
    if path.exists():
        stored = np.load(path)
        return [stored[f"factor{k}"] for k in range(slices[0].ndim)], stored["rows"]
    loss = get_loss(problem.loss)
    start = static_start(
        slices[: streams.WARM], problem.rank, loss, lower=loss.lower, starts=3, seed=seed
    )
    OUT.mkdir(exist_ok=True)
    arrays = {f"factor{k}": a for k, a in enumerate(start.factors)}
    np.savez(path, rows=start.rows, **arrays)
    return list(start.factors), start.rows


def run(name: str, forget: float | str, seed: int, *, reseed: bool) -> None:
    """Stream one problem and print its line."""
    problem = streams.PROBLEMS[name]
    loss = get_loss(problem.loss)
    raw, shape = streams.load(name)
    unlisted = "missing" if problem.loss == "gaussian" else "zero"
    slices = [Slice(index, value, shape, unlisted=unlisted) for index, value in raw]
    factors, rows = warm_start(problem, slices, seed)
    after = streams.WARM + problem.streamed

    def unseen(state: auto.AutoState) -> float:
        return float(
            np.mean([auto.solve(state, x, loss).objective / x.norm_squared for x in slices[after:]])
        )

    def begin() -> auto.AutoState:
        warm = slices[: streams.WARM]
        return auto.start(factors, rows, warm, loss, forget=forget, reseed=reseed)

    state = begin()
    frozen = unseen(state)
    auto.step(state, slices[streams.WARM], loss)  # compiles
    state = begin()
    before, local, births, seconds = [], [], 0, []
    for x in slices[streams.WARM : after]:
        clock = time.process_time()
        state, info = auto.step(state, x, loss)
        seconds.append(time.process_time() - clock)
        before.append(info.prequential / x.norm_squared)
        local.append(info.local / x.norm_squared)
        births += info.births
    kept = slices[streams.WARM : after]
    whole = np.mean([auto.solve(state, x, loss).objective / x.norm_squared for x in kept])
    print(
        f"{name:15s} forget {forget!s:5s} frozen {frozen:.5f} pre {np.mean(before):.5f} "
        f"loc {np.mean(local):.5f} refit {whole:.5f} next20 {unseen(state):.5f} "
        f"target {problem.target} births {births} "
        f"ms {1e3 * np.mean(seconds):.2f} (median {1e3 * np.median(seconds):.2f})",
        flush=True,
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(streams.PROBLEMS))
    parser.add_argument("--forget", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-reseed", action="store_true")
    given = parser.parse_args()
    for name in given.names:
        for forget in given.forget.split(","):
            value = forget if forget == "auto" else float(forget)
            run(name, value, given.seed, reseed=not given.no_reseed)


if __name__ == "__main__":
    main()
