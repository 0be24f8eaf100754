"""rank="auto": planted ranks, the time of the study, a component born in mid-stream, real streams.

Planted streams are 40 x 30 and 120 slices long. Bernoulli streams of rank 12 of this size hold
components that no model could gain by (`docs/solver.md`). Real streams are judged by the loss of
the next 20 slices against fixed ranks, the smallest of those that one standard error cannot tell
from the best; 1 per cent more is allowed. Streams whose data are not here are left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.records import Row
from onlinegcp.losses import get_loss
from onlinegcp.problems import bernoulli_stream, gaussian_stream, poisson_stream
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP
from onlinegcp.streaming.rank_study import smallest_as_good, study_path
from onlinegcp.streaming.warm_start import static_start

SHAPE, SLICES, BORN = (40, 30), 120, 60
RANKS = (3, 5, 8, 12)
FIXED = (5, 10, 15, 20, 30, 40, 50)


def planted(name: str, rank: int, seed: int) -> list[Slice]:
    """Slices of a planted rank."""
    if name == "gaussian":
        return gaussian_stream(SHAPE, SLICES, rank=rank, seed=seed).slices
    if name == "poisson":
        events = float(SLICES * SHAPE[0] * SHAPE[1])
        return poisson_stream(SHAPE, SLICES, rank=rank, n_events=events, seed=seed).slices
    return bernoulli_stream(SHAPE, SLICES, rank=rank, density=0.15, seed=seed).slices


def born(name: str, seed: int) -> list[Slice]:
    """Four components, and one more from slice BORN on."""
    rng = np.random.default_rng([seed, 77])
    signed = name == "gaussian"
    columns = [
        rng.standard_normal((n, 5)) if signed else rng.gamma(0.3, 1.0, (n, 5)) for n in SHAPE
    ]
    if not signed:
        columns = [a / a.mean(axis=0) for a in columns]
    rows = rng.gamma(4.0, 0.25, (BORN + 15, 5)) * (1.0 if signed else 0.75)
    rows[:BORN, 4] = 0.0
    means = [(columns[0] * row) @ columns[1].T for row in rows]
    if signed:
        return [Slice.dense(m + rng.standard_normal(SHAPE)) for m in means]
    if name == "poisson":
        return [Slice.dense(rng.poisson(m).astype(float)) for m in means]
    return [Slice.dense((rng.random(SHAPE) < m / (1 + m)).astype(float)) for m in means]


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """One row per loss and question, and one per real stream."""
    for name in ("gaussian", "poisson", "bernoulli_odds"):
        if only in (None, "planted"):
            yield from _planted(name, 2 if quick else 3)
        if only in (None, "born"):
            yield _found_late(name, 3 if quick else 10)
    for stream in ("chi_p20", "chi_p50", "fl13_20", "origin10"):
        if only in (None, stream) and not quick:
            yield from _real(stream)


def _planted(name: str, seeds: int) -> Iterator[Row]:
    hits, over, found = 0, [], []
    for rank in RANKS:
        for seed in range(seeds):
            slices = planted(name, rank, seed)
            over.append(_study_time(name, slices[:10]))
            model = OnlineGCP("auto", name).fit(slices)
            hits += abs(model.rank_ - rank) <= 1
            found.append(f"{rank}:{model.rank_}")
    share = hits / len(found)
    yield Row(
        *(f"ranks/planted {name}", "auto", share, share, share, "within one"),
        target=">= 0.9",
        note=" ".join(found),
    )
    low, middle, high = np.percentile(over, [20, 50, 80])
    yield Row(
        *(f"ranks/study {name}", "auto", float(middle), float(low), float(high), "warm starts"),
        target="<= 3",
        note="CPU time of the study over that of one warm start of the rank it finds",
    )


def _study_time(name: str, slices: list[Slice]) -> float:
    loss = get_loss(name)
    begin = time.process_time()
    path = study_path(slices, loss, lower=loss.lower, most=50, seed=0)
    middle = time.process_time()
    static_start(slices, path.rank, loss, lower=loss.lower, starts=3, seed=0)
    return (middle - begin) / (time.process_time() - middle)


def _found_late(name: str, seeds: int) -> Row:
    delays = []
    for seed in range(seeds):
        model = OnlineGCP("auto", name)
        delay = 16
        for number, x in enumerate(born(name, seed), 1):
            model.partial_fit(x)
            record = model.last_
            if number > BORN and record is not None and record.births and delay > 15:
                delay = number - BORN
        delays.append(delay)
    low, middle, high = np.percentile(delays, [20, 50, 80])
    share = np.mean(np.array(delays) <= 15)
    return Row(
        *(f"ranks/born {name}", "auto", float(middle), float(low), float(high), "slices"),
        target="<= 15",
        note=f"{share:.0%} of {seeds} streams within 15",
    )


def _real(name: str) -> Iterator[Row]:
    from experiments.streams import PROBLEMS, WARM, load

    try:
        raw, shape = load(name)
    except OSError:  # the data are not here
        return
    slices = [Slice(index, value, shape) for index, value in raw]
    problem = PROBLEMS[name]
    last = WARM + problem.streamed

    def score(rank: int | str) -> tuple[OnlineGCP, np.ndarray]:
        model = OnlineGCP(rank, problem.loss, init_slices=WARM)  # type: ignore[arg-type]
        for x in slices[:last]:
            model.partial_fit(x)
        return model, np.array([model.loss_of(x) / x.norm_squared for x in slices[last:]])

    table = np.array([score(rank)[1] for rank in FIXED])
    best = smallest_as_good(FIXED, table)
    model, ours = score("auto")
    theirs = table[FIXED.index(best)]
    ratio = float(ours.mean() / theirs.mean())
    low, high = np.percentile(ours / theirs, [20, 80])
    yield Row(
        *(f"ranks/{name}", "auto", ratio, float(low), float(high), "of the best fixed rank"),
        target="<= 1.01",
        note=f"rank {model.rank_}, next20 {ours.mean():.4f}; rank {best}: {theirs.mean():.4f}",
    )
