"""What learning the forgetting costs, and whether it predicts as well as a bank of five models.

The bank runs five copies with fixed factors and uses, slice by slice, the one whose discounted
prequential loss is lowest so far: five times the cost. One warm start, seed 101; losses are means
over the stream, over the squared norm of each slice. `auto` and a single fixed run take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from benchmarks.records import Row, measured
from benchmarks.streams import StreamProblem, default_model, drift, gaussian, poisson, real
from benchmarks.timing import clock, take_turns

FACTORS = [1.0, 0.97, 0.93, 0.85, 0.7]
SINGLE = 0.93
DISCOUNT = 0.9  # of the losses by which the bank picks
MOST_TIME, MOST_LOSS = 1.5, 0.0  # times a single run; per cent over the bank
PROBLEMS: dict[str, Callable[[], StreamProblem]] = {
    "fl13_20": lambda: real("fl13_20"),
    "chi_p20": lambda: real("chi_p20"),
    "chi_b50": lambda: real("chi_b50"),
    "poisson": lambda: poisson(seed=101),
    "gaussian": lambda: gaussian(seed=101),
    "drift-poisson": lambda: drift("poisson", 101),
    "drift-gaussian": lambda: drift("gaussian", 101),
}


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Milliseconds per slice of both, and the excess of the learned forgetting over the bank."""
    for name, make in PROBLEMS.items():
        if only in (None, name):
            yield from _compare(name, replace(make(), start_seed=101), 1 if quick else 3)


def _compare(name: str, problem: StreamProblem, rounds: int) -> Iterator[Row]:
    _losses(problem, "auto", 2)  # compiles
    found: dict[str, np.ndarray] = {}

    def contestant(who: str, forget: float | str) -> Callable[[], float]:
        def stream() -> float:
            seconds, found[who] = _losses(problem, forget)
            return seconds

        return stream

    turns = {"auto": contestant("auto", "auto"), "single": contestant("single", half_life(SINGLE))}
    times = take_turns(turns, rounds)
    losses = [
        found["single"] if factor == SINGLE else _losses(problem, half_life(factor))[1]
        for factor in FACTORS
    ]
    learned, bank = float(found["auto"].mean()), bank_loss(np.array(losses))
    best = min(zip((float(one.mean()) for one in losses), FACTORS, strict=True))
    excess = round(100 * (learned - bank) / abs(bank), 6)  # less is rounding
    case, unit = f"forgetting/{name}", "ms per slice"
    yield measured(
        case, "single", times["single"], unit, 1e3, note=f"{problem.loss}, factor {SINGLE}"
    )
    yield measured(
        case,
        "auto",
        times["auto"],
        unit,
        1e3,
        objective=f"prequential loss {learned:.6g}",
        against="single",
        ratio=times["auto"].over(times["single"]),
        target=f"<= {MOST_TIME}",
    )
    yield Row(
        case,
        "auto, excess",
        *(excess, excess, excess),
        "% more prequential loss than a bank of five",
        objective=f"bank {bank:.6g}; best single {best[0]:.6g} at factor {best[1]:g}",
        target=f"<= {MOST_LOSS:g}",
    )


def half_life(factor: float) -> float:
    """The half-life in slices that `forget` takes for a factor per slice."""
    return 1.0 if factor == 1.0 else float(np.log(0.5) / np.log(factor))


def bank_loss(losses: np.ndarray) -> float:
    """Mean loss of the copy that was best before each slice; rows are copies."""
    past, total = np.zeros(len(losses)), 0.0
    for now in losses.T:
        total += float(now[int(np.argmin(past))])
        past = DISCOUNT * past + now
    return total / losses.shape[1]


def _losses(
    problem: StreamProblem, forget: float | str, count: int | None = None
) -> tuple[float, np.ndarray]:
    """Seconds per slice and the prequential loss of every slice."""
    model = default_model(problem, forget)
    stream = problem.stream[:count]
    losses, seconds = [], 0.0
    for x in stream:
        begin = clock()
        model.partial_fit(x)
        seconds += clock() - begin
        assert model.last_ is not None
        losses.append(model.last_.prequential / (model.last_.norm_squared or 1.0))
    return seconds / len(stream), np.array(losses)
