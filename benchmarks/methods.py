"""Every streaming method on the same streams: how well it predicts, how long it takes.

All begin from one model of the first ten slices (CP-ALS, best of three; CP-APR for counting ones)
together with these slices. A slice's weights are fitted to it under the factors from before it is
learned, then the expectation of all its cells is compared: with the truth where that is known, with
the data otherwise, and in the stream with gaps with cells that nobody was shown. The number is the
root of the summed squares of the differences over that of the compared values.

A method that does not finish a stream in `BUDGET` processor seconds is stopped, and its row says
after how many slices. Methods that refuse a stream have no row there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.records import Row
from benchmarks.timing import Times, clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onlinegcp.ktensor import KTensor
    from onlinegcp.slices import Slice

SEEDS = [201, 202]
BUDGET = 5.0
WARM = 10
PLANTED = ("stationary", "drift", "replaced", "part-replaced", "missing", "outliers")
# Problem of experiments.streams, rank, slices after the warm start.
REAL = {
    "beijing": ("beijing10", 10, 40),
    "manhattan": ("manhattan20", 10, 21),
    "chicago": ("chi_p50", 10, 15),
    "flights": ("fl13_20", 10, 20),
}

# Name, class, parameters. The first of a class is its default.
CONTESTANTS: list[tuple[str, str, dict[str, Any]]] = [
    ("OnlineGCP", "online_gcp", {}),
    ("OnlineGCP, poisson", "online_gcp", {"loss": "poisson"}),
    ("OnlineGCP, huber", "online_gcp", {"loss": "huber"}),
    ("OnlineSGD", "online_sgd", {}),
    ("OnlineCP", "online_cp", {}),
    ("OnlineCP, .9", "online_cp", {"forget": 0.9}),
    ("CPStream", "cp_stream", {}),
    ("CPStream, .8", "cp_stream", {"forget": 0.8}),
    ("OLSTEC", "olstec", {}),
    ("OLSTEC, .98", "olstec", {"forget": 0.98, "ridge": 1e-3}),
    ("RLST", "rlst", {}),
    ("SDT", "sdt", {}),
    ("ACP", "acp", {}),
    ("ACP, .9", "acp", {"forget": 0.9}),
    ("GOCPTE", "gocpte", {}),
    ("POST", "post", {}),
    ("POST, .9", "post", {"forget": 0.9}),
    ("VBI", "vbi", {}),
    ("MAST", "mast", {}),
    ("MAST, .9", "mast", {"forget": 0.9}),
    ("SeekAndDestroy", "seek_and_destroy", {}),
    ("SamBaTen", "sambaten", {}),
    ("SamBaTen, adapt", "sambaten", {"adapt": 0.5, "forget": 0.9}),
    ("Ensign", "ensign", {}),
    ("Ensign, .5", "ensign", {"forget": 0.5}),
]


@dataclass(frozen=True)
class Case:
    """A stream: what is shown, and which cells are compared with what."""

    slices: list[Slice]
    rank: int
    compared: list[tuple[Any, NDArray[np.float64]]]  # cells (None: all), values
    counts: bool = False


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """One row per method and stream."""
    for name in PLANTED:
        if only in (None, name):
            yield from _race(
                name, [planted(name, seed) for seed in (SEEDS[:1] if quick else SEEDS)]
            )
    for name in REAL:
        if only in (None, name):
            yield from _race(name, [real(name)])


def _race(name: str, cases: list[Case]) -> Iterator[Row]:
    from onlinegcp.streaming import METHODS

    starts = [(_start(case, counts=False), _start(case, counts=True)) for case in cases]
    for label, method, options in CONTESTANTS:
        if method not in METHODS or (options.get("loss") == "poisson" and not cases[0].counts):
            continue
        found = [
            _measure(METHODS[method], options, case, start)
            for case, start in zip(cases, starts, strict=True)
        ]
        done = [result for result in found if result is not None]
        if not done:
            continue
        errors, times, memory, finished = zip(*done, strict=True)
        spread = Times(tuple(errors))
        total = len(cases[0].slices) - WARM
        cut = "" if min(finished) == total else f"; stopped after {min(finished)} of {total} slices"
        note = f"{1e3 * np.mean(times):.2g} ms per slice; state {max(memory) / 1e3:.3g} kB{cut}"
        yield Row(
            f"methods/{name}", label, spread.median, spread.p20, spread.p80, "relative error",
            note=note,
        )  # fmt: skip


def _measure(
    cls: Any, options: dict[str, Any], case: Case, start: tuple[KTensor, KTensor | None]
) -> tuple[float, float, int, int] | None:
    """Error, seconds per slice, bytes of state, slices done; None where the stream is refused."""
    from onlinegcp.errors import OnlineGCPError

    counting = options.get("loss") == "poisson"
    if case.counts and hasattr(cls, "labels_"):
        options = options | {"batch_rank": case.rank}  # twenty ranks to try would take minutes
    model = cls(case.rank, **options)
    wrong = right = seconds = 0.0
    n = 0
    try:
        model.start_from(start[1] if counting else start[0], case.slices[:WARM])
        for x, (cells, values) in zip(case.slices[WARM:], case.compared[WARM:], strict=True):
            weights = model.transform(x)
            shown = (
                model.inverse_transform(weights) if cells is None else model.predict(cells, weights)
            )
            wrong += float(np.sum((shown - values) ** 2))
            right += float(np.sum(values**2))
            begin = clock()
            model.partial_fit(x)
            seconds += clock() - begin
            n += 1
            if seconds > BUDGET:
                break
    except OnlineGCPError:
        return None
    return float(np.sqrt(wrong / right)), seconds / n, model.state_bytes_, n


def _start(case: Case, *, counts: bool) -> KTensor | None:
    """One model of the first slices for all, columns of length one."""
    from experiments.protocol import unit_columns

    from onlinegcp.ktensor import KTensor
    from onlinegcp.losses import get_loss
    from onlinegcp.static.cp_apr import cp_apr
    from onlinegcp.streaming.warm_start import static_start

    if counts:
        if not case.counts:
            return None
        return unit_columns(cp_apr(case.slices[:WARM], case.rank, max_iterations=50).ktensor)
    gaussian = get_loss("gaussian")
    fit = static_start(case.slices[:WARM], case.rank, gaussian, lower=-np.inf, starts=3, seed=0)
    return KTensor(None, [*fit.factors, fit.rows])


def planted(kind: str, seed: int, n: int = 130) -> Case:
    """40 x 30, five components, noise of a tenth of the signal."""
    from onlinegcp.ktensor import KTensor
    from onlinegcp.slices import Slice

    rng = np.random.default_rng(seed)
    shape, rank = (40, 30), 5
    factors = [rng.standard_normal((k, rank)) for k in shape]
    slices, truths = [], []
    for t in range(n):
        if kind == "drift":
            factors = [
                np.sqrt(1 - 0.05**2) * a + 0.05 * rng.standard_normal(a.shape) for a in factors
            ]
        if kind in ("replaced", "part-replaced") and t == n // 2:
            new = rank if kind == "replaced" else 2
            factors = [np.hstack([a[:, new:], rng.standard_normal((len(a), new))]) for a in factors]
        truth = KTensor(rng.standard_normal(rank), factors).full()
        x = truth + 0.1 * np.sqrt(rank) * rng.standard_normal(shape)
        if kind == "outliers":
            spikes = rng.random(shape) < 0.02
            x = x + spikes * 10.0 * np.sqrt(rank) * rng.choice([-1.0, 1.0], shape)
        if kind == "missing":
            x[rng.random(shape) < 0.7] = np.nan
        slices.append(Slice.dense(x))
        truths.append(truth)
    return Case(slices, rank, [(None, truth) for truth in truths])


def real(name: str) -> Case:
    """Days of real streams; in the one with gaps a tenth of the cells is kept back to compare."""
    from experiments.streams import load

    from onlinegcp.slices import Slice

    problem, rank, count = REAL[name]
    raw, shape = load(problem)
    raw = raw[: WARM + count]
    if name != "beijing":
        slices = [Slice(index, value, shape) for index, value in raw]
        return Case(slices, rank, [(None, x.to_dense()) for x in slices], counts=True)
    rng = np.random.default_rng(0)
    slices, compared = [], []
    for index, value in raw:
        hidden = rng.random(len(value)) < 0.1
        slices.append(Slice(index[~hidden], value[~hidden], shape, unlisted="missing"))
        compared.append((index[hidden], value[hidden]))
    return Case(slices, rank, compared)
