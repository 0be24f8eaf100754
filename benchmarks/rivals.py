"""The streaming methods of the related work on their authors' demos: time per slice and error.

Sizes, noise and starts are those of the authors' demos (tests/streaming has the same with fresh
seeds), one thread, processor time of `partial_fit` with the scores of every slice in it. The
authors publish no time per slice and their codes are not here, so that no ratio is given; the error
stands beside what their codes reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.records import Row, measured
from benchmarks.timing import Times, clock
from onlinegcp import ACP, OLSTEC, RLST, SDT, KTensor, Slice
from onlinegcp.streaming import StreamingModel

# A model, the slices it learns, and the clean slice each stands for.
Demo = tuple[StreamingModel, list[Slice], list[np.ndarray]]


def run(*, quick: bool = False, only: str | None = None) -> Iterator[Row]:
    """Milliseconds per slice and the error at the end, for every method with a demo."""
    cases: dict[str, tuple[Callable[[int], Demo], int, str, str]] = {
        "olstec": (olstec, 200, "error of the last slice", "0.0042 to 0.0073"),
        "rlst": (lambda n: drifting(RLST(8), n), 200, "mean error of the last half", "0.0041"),
        "sdt": (
            lambda n: drifting(SDT(8, window=10), n),
            200,
            "mean error of the last half",
            "0.0038",
        ),
        "acp": (acp, 1000, "mean error of the last tenth", "0.0012"),
    }
    for name, (make, count, what, theirs) in cases.items():
        if only in (None, name):
            model, slices, clean = make(count // 10 if quick else count)
            seconds, errors = _learn(model, slices, clean)
            part = {"olstec": 1, "acp": len(errors) // 10}.get(name, len(errors) // 2)
            shape = " x ".join(map(str, slices[0].shape))
            yield measured(
                f"rivals/{name}",
                type(model).__name__,
                Times(tuple(seconds)),
                "ms per slice",
                1e3,
                objective=f"{what} {np.mean(errors[-part:]):.4f}; the authors' code {theirs}",
                note=f"{shape}, rank {model.rank}, {len(slices)} slices",
            )


def olstec(count: int) -> Demo:
    """100 x 100 of rank 5, a tenth of the cells seen."""
    rng = np.random.default_rng(41)
    factors, start = ([rng.normal(size=(100, 5)) for _ in range(2)] for _ in range(2))
    clean = [KTensor(rng.normal(size=5), factors).full() for _ in range(count)]
    slices = []
    for x in clean:
        noise = rng.normal(size=x.shape)
        noisy = x + 1e-4 * np.linalg.norm(x) / np.linalg.norm(noise) * noise
        slices.append(Slice.dense(np.where(rng.random(x.shape) < 0.1, noisy, np.nan)))
    return OLSTEC(5, init=KTensor(None, start)), slices, clean


def drifting(model: StreamingModel, count: int) -> Demo:
    """20 x 20 of rank 8 that drift by a thousandth per slice, from an exact start."""
    rng = np.random.default_rng(42)
    factors = [rng.normal(size=(20, 8)) for _ in range(2)]
    rows = rng.normal(size=(20, 8))
    first = [Slice.dense(KTensor(row, factors).full()) for row in rows]
    model.start_from(KTensor(None, [*factors, rows]), first)
    clean = []
    for _ in range(count):
        factors = [0.999 * a + 0.001 * rng.normal(size=a.shape) for a in factors]
        clean.append(KTensor(rng.normal(size=8), factors).full())
    return model, [Slice.dense(x) for x in clean], clean


def acp(count: int) -> Demo:
    """20 x 20 x 20 of rank 2, nine tenths seen, everything new after three fifths."""
    rng = np.random.default_rng(43)
    factors, start = ([rng.normal(size=(20, 2)) for _ in range(3)] for _ in range(2))
    slices, clean = [], []
    for t in range(count):
        if t == 3 * count // 5:
            factors = [rng.normal(size=(20, 2)) for _ in range(3)]
        factors = [a + 1e-3 * rng.normal(size=a.shape) for a in factors]
        x = KTensor(rng.normal(size=2), factors).full()
        noisy = x + 1e-3 * rng.normal(size=x.shape)
        clean.append(x)
        slices.append(Slice.dense(np.where(rng.random(x.shape) < 0.9, noisy, np.nan)))
    return ACP(2, init=KTensor(None, start)), slices, clean


def _learn(
    model: StreamingModel, slices: list[Slice], clean: list[np.ndarray]
) -> tuple[list[float], list[float]]:
    """Seconds and relative error of every slice; the first ones, which compile, are not timed."""
    seconds, errors = [], []
    for t, (x, truth) in enumerate(zip(slices, clean, strict=True)):
        begin = clock()
        model.partial_fit(x)
        if t >= 5:
            seconds.append(clock() - begin)
        error = np.linalg.norm(model.to_ktensor().full() - truth)
        errors.append(float(error / np.linalg.norm(truth)))
    return seconds, errors
