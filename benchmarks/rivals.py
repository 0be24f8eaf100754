"""The streaming methods of the related work on their authors' demos: time per slice and error.

Sizes, noise and starts are those of the authors' demos (tests/streaming has the same with fresh
seeds), one thread, processor time; the error stands beside what the authors' codes reach. Each
method gets its slices one by one, with a record of every one, and all in one list, with a record of
the last: the authors' codes write none.

With GNU Octave, and a folder of the authors' repositories in ONLINEGCP_AUTHORS (OLSTEC, ROLCP and
Tensor_Tracking, as they can be cloned; none of their code is here), the same run times their code
at the same sizes, as one loop over slices that are there. What they take from the Tensor Toolbox is
replaced by plain functions of ours.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.records import Row, measured
from benchmarks.timing import Times, clock
from onlinegcp import ACP, OLSTEC, RLST, SDT, KTensor, Slice
from onlinegcp.streaming import StreamingModel

DRIVERS = Path(__file__).parent / "octave"
# Where each code lies in its authors' repository.
AUTHORS = {
    "olstec": "OLSTEC",
    "rlst": "ROLCP/Algorithms/PAFARAC(2009)",
    "acp": "Tensor_Tracking/Algorithms/Our_Methods",
}

LONG, ROUNDS = 200, 9  # slices that are passed in one call, and how often

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
            theirs_ms = under_octave(name)
            if theirs_ms is not None:
                yield Row(
                    f"rivals/{name}",
                    "the authors' MATLAB code under Octave",
                    theirs_ms,
                    theirs_ms,
                    theirs_ms,
                    "ms per slice",
                    note="processor time, one thread",
                )
            method = type(model).__name__
            for ours, times in (
                (method, Times(tuple(seconds))),
                (
                    f"{method}, all at once",
                    _learn_at_once(partial(make, LONG // 10 if quick else LONG)),
                ),
            ):
                yield measured(
                    f"rivals/{name}",
                    ours,
                    times,
                    "ms per slice",
                    1e3,
                    objective=f"{what} {np.mean(errors[-part:]):.4f}; the authors' code {theirs}",
                    note=f"{shape}, rank {model.rank}, {len(slices)} slices",
                    against="" if theirs_ms is None else "the authors' MATLAB code under Octave",
                    ratio=None if theirs_ms is None else 1e3 * times.median / theirs_ms,
                    target="" if theirs_ms is None else "<= 0.05",
                )


def under_octave(name: str) -> float | None:
    """Milliseconds per slice of the authors' own code, None where it or Octave is absent."""
    folder = Path(os.environ.get("ONLINEGCP_AUTHORS", "absent")) / AUTHORS.get(name, "absent")
    octave = shutil.which("octave-cli")
    if octave is None or not folder.is_dir():
        return None
    command = [octave, "--quiet", "--path", str(DRIVERS), "--path", str(folder)]
    done = subprocess.run(
        [*command, str(DRIVERS / f"time_{name}.m")],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    # Octave 7 without a display can end badly after its last line: the printed number decides.
    if not done.stdout.strip():
        raise RuntimeError(f"Octave could not run {name}: {done.stderr[-500:]}")
    return float(done.stdout.split()[-1])


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


def _learn_at_once(make: Callable[[], Demo]) -> Times:
    """Seconds per slice of one call with all of them, on fresh models."""
    seconds = []
    for _ in range(ROUNDS):
        model, slices, _ = make()
        begin = clock()
        model.partial_fit(slices)
        seconds.append((clock() - begin) / len(slices))
    return Times(tuple(seconds))
