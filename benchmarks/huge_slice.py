"""One slice of 100,000 x 100,000 x 1,000 cells with up to 5 million nonzeros, rank 64.

Poisson, whose zeros cost nothing, and Bernoulli odds, whose zeros are sampled. The default solver
learns the slice in one `partial_fit`, from a given model, in a process of its own: what counts is
the processor time of that call and the most the process ever held, the data included. Draws
docs/figures/linear_cost.png.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.alone import alone, resident
from benchmarks.records import Row
from benchmarks.timing import clock

SHAPE, RANK = (100_000, 100_000, 1_000), 64
NONZEROS = [500_000, 1_000_000, 2_000_000, 5_000_000]
YES = [500_000, 2_000_000]  # listed cells of the Bernoulli case
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "linear_cost.png"


def run(*, quick: bool = False) -> Iterator[Row]:
    """Seconds and peak memory of one step, by number of nonzeros."""
    sizes = NONZEROS[:1] if quick else NONZEROS
    found = {size: alone("huge_slice", size, "poisson") for size in sizes}
    for size, one in found.items():
        yield from _rows(f"{size // 1000:,} thousand", one, promised=size == NONZEROS[-1])
    for size in YES[:1] if quick else YES:
        one = alone("huge_slice", size, "bernoulli_odds")
        yield from _rows(f"Bernoulli, {size // 1000:,} thousand", one, promised=False)
    if len(found) > 1:
        counts = np.array([one["nonzeros"] for one in found.values()])
        times = np.array([one["seconds"] for one in found.values()])
        # The exponent of a power law: 1 is linear, a fixed cost per slice makes it smaller.
        power = float(np.polyfit(np.log(counts), np.log(times), 1)[0])
        note = "exponent of a power law through the times"
        yield Row("huge_slice/growth", "time", power, power, power, "", target="<= 1.1", note=note)
        _draw(counts, times)


def _rows(name: str, one: dict[str, float], *, promised: bool) -> Iterator[Row]:
    case, seconds, peak = f"huge_slice/{name}", one["seconds"], one["peak"] * 1e-9
    rest = f"{one['nonzeros']:,.0f} nonzeros, {one['newton']:.0f} Newton steps"
    yield Row(case, "time", seconds, seconds, seconds, "s", target="<= 12" * promised, note=rest)
    yield Row(case, "peak", peak, peak, peak, "GB", target="<= 3" * promised)


def _measure(size: int, loss: str) -> None:
    from onlinegcp.ktensor import KTensor
    from onlinegcp.slices import Slice
    from onlinegcp.streaming import OnlineGCP

    rng = np.random.default_rng(5)
    patterns = [rng.permutation(n) for n in SHAPE]

    def draw(count: int) -> Slice:
        """Events of 64 patterns, each with its own popular rows, some of them at random."""
        group = rng.integers(0, RANK, count)
        columns = np.empty((count, len(SHAPE)), np.int32)
        for k, n in enumerate(SHAPE):
            reach = (rng.pareto(1.0, count) * n / 1000).astype(np.int64)
            place = np.where(rng.random(count) < 0.2, rng.integers(0, n, count), reach)
            columns[:, k] = patterns[k][(place + group * (n // RANK)) % n]
        counts = Slice(columns, np.ones(count), SHAPE)
        if loss == "poisson":
            return counts
        return Slice(counts.index, np.ones(counts.n_listed), SHAPE)

    x = draw(size)
    factors = [rng.gamma(0.5, 1.0, (n, RANK)) + 1e-3 for n in SHAPE]
    start = KTensor(np.full(RANK, 1.0), [a / a.sum(axis=0) for a in factors])
    start = KTensor(np.full(RANK, size / RANK), start.factors)
    model = OnlineGCP(RANK, loss, init=start)
    model.partial_fit(draw(20_000))  # compiles, and makes the state from the given model
    begin = clock()
    model.partial_fit(x)
    seconds = clock() - begin
    assert model.last_ is not None
    facts = {"nonzeros": x.nnz, "newton": model.last_.newton_steps, "peak": resident("VmHWM")}
    print(json.dumps({"seconds": seconds, **facts}))


def _draw(counts: np.ndarray, seconds: np.ndarray) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5.0, 3.2))
    axes.plot(counts / 1e6, seconds, "o-", color="#1f5aa6")
    axes.set(xlabel="nonzeros in the slice, millions", ylabel="processor time, s")
    axes.set(xlim=(0, None), ylim=(0, None))
    axes.set_title("One step of the default solver, 10$^{13}$ cells, rank 64", fontsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=150)
    pyplot.close(figure)


if __name__ == "__main__":
    _measure(int(sys.argv[1]), sys.argv[2])
