"""Streams of the streaming benchmarks, each with one warm start that every contestant begins from.

The warm start is a static fit of the first slices, best of three starts where that is affordable.
It is kept in build/, because for some streams it takes longer than the benchmark.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.peers.paper import Streamed
from benchmarks.problems import BUILD
from benchmarks.timing import clock

if TYPE_CHECKING:
    from experiments.settings import Settings

    from onlinegcp.ktensor import KTensor
    from onlinegcp.slices import Slice
    from onlinegcp.streaming import OnlineGCP, StreamingModel
    from onlinegcp.streaming.warm_start import WarmStart


@dataclass(frozen=True)
class StreamProblem:
    """Slices in time order: `warm` to begin with, then `streamed`, then those nobody has seen."""

    name: str
    slices: list[Slice]
    loss: str
    warm: int
    streamed: int
    settings: Settings  # the paper's, for this kind of data
    truth: KTensor | None = None
    start_seed: int = 0  # of the static fit

    @property
    def rank(self) -> int:
        return self.settings.rank

    @property
    def first(self) -> list[Slice]:
        return self.slices[: self.warm]

    @property
    def stream(self) -> list[Slice]:
        return self.slices[self.warm : self.warm + self.streamed]

    @property
    def unseen(self) -> list[Slice]:
        return self.slices[self.warm + self.streamed :]

    def start(self) -> WarmStart:
        """Factors with columns of length one, all scale in the rows of the first slices."""
        from onlinegcp.streaming.warm_start import WarmStart

        path = BUILD / f"start-{self.name}-{self.start_seed}-{self._mark()}.npz"
        if not path.exists():
            self._solve_start(path)
        with np.load(path) as arrays:
            rows = arrays["rows"]
            factors = tuple(arrays[f"factor{k}"] for k in range(len(arrays.files) - 1))
        return WarmStart(factors, rows, rows.mean(axis=0), tuple(self.first))

    def rival_file(self, count: int) -> Path:
        """The first `count` streamed slices and the warm start, for the rivals."""
        start, stream = self.start(), self.stream[:count]
        path = BUILD / f"stream-{self.name}.npz"
        arrays: dict[str, Any] = {
            f"start{k}": a for k, a in enumerate((*start.factors, start.rows))
        }
        arrays["shape"] = np.array(self.slices[0].shape)
        for name, slices in (("warm", self.first), ("stream", stream)):
            if slices[0].array is not None:
                arrays[name] = np.stack([x.array for x in slices])
                continue
            arrays[f"{name}_index"] = np.concatenate([x.index for x in slices])
            arrays[f"{name}_value"] = np.concatenate([x.value for x in slices])
            arrays[f"{name}_counts"] = np.array([x.n_listed for x in slices])
        np.savez(path, **arrays)
        return path

    def _mark(self) -> str:
        """Tells warm starts of different data or ranks apart."""
        facts = hashlib.sha256(repr((self.loss, self.rank, self.warm)).encode())
        for x in self.first:
            facts.update(x.value.tobytes() if x.array is None else x.array.tobytes())
        return facts.hexdigest()[:12]

    def _solve_start(self, path: Path) -> None:
        from experiments.protocol import unit_columns

        *factors, rows = unit_columns(self._static_fit()).factors
        BUILD.mkdir(exist_ok=True)
        named = {f"factor{k}": a for k, a in enumerate(factors)}
        np.savez(path, rows=rows, **named)

    def _static_fit(self) -> KTensor:
        from onlinegcp.static.cp_als import cp_als
        from onlinegcp.static.cp_apr import cp_apr
        from onlinegcp.static.gcp import gcp

        best: dict[str, Any] = {"n_starts": 3, "seed": self.start_seed}
        if self.loss == "gaussian":
            fit = cp_als(self.first, self.rank, max_iterations=200, tolerance=1e-6, **best)
        elif self.loss != "poisson":
            fit = gcp(self.first, self.rank, self.loss, max_iterations=200, **best)
        elif self.name == "taxi50":
            # Newton steps cost R^2 per ride and row: too much for 1.3 million rides.
            few: dict[str, Any] = {"method": "mu", "max_inner": 2, "seed": self.start_seed}
            fit = cp_apr(self.first, self.rank, max_iterations=100, **few)
        else:
            fit = cp_apr(self.first, self.rank, max_iterations=100, **best)
        return fit.ktensor


def paper_model(problem: StreamProblem) -> OnlineGCP:
    """The paper's method with its settings, ready for the first streamed slice."""
    from onlinegcp.ktensor import KTensor
    from onlinegcp.streaming import OnlineGCP

    start = problem.start()
    init = KTensor(None, [*start.factors, start.rows])
    return OnlineGCP(loss=problem.loss, init=init, **problem.settings.parameters())


def default_model(problem: StreamProblem, forget: float | str = "auto") -> OnlineGCP:
    """The default solver, ready for the first streamed slice.

    It has seen the first slices, as when it makes its own warm start; only that static fit is
    taken from the file.
    """
    from onlinegcp.ktensor import KTensor
    from onlinegcp.streaming import OnlineGCP

    start = problem.start()
    init = KTensor(None, [*start.factors, start.rows])
    model = OnlineGCP(problem.rank, problem.loss, forget=forget, init_slices=problem.warm)
    return model.start_from(init, problem.first)


def gaussian(count: int = 200, seed: int = 0) -> StreamProblem:
    """The paper's synthetic Gaussian stream, 300 x 300, rank 20."""
    from experiments.settings import PAPER

    from onlinegcp.problems import gaussian_stream

    made = gaussian_stream((300, 300), 200, rank=20, noise=0.2, seed=seed)
    name = "gaussian" if seed == 0 else f"gaussian-{seed}"
    return StreamProblem(name, made.slices, "gaussian", 10, count, PAPER["gaussian"], made.truth)


def poisson(count: int = 200, seed: int = 0) -> StreamProblem:
    """The paper's synthetic Poisson stream, 300 x 300, rank 20, 3.2 % nonzero."""
    from experiments.settings import PAPER

    from onlinegcp.problems import poisson_stream

    made = poisson_stream((300, 300), 200, rank=20, density=0.032, seed=seed)
    name = "poisson" if seed == 0 else f"poisson-{seed}"
    return StreamProblem(name, made.slices, "poisson", 10, count, PAPER["poisson"], made.truth)


def bernoulli(count: int = 300, seed: int = 0) -> StreamProblem:
    """Yes-or-no data of the size of the Chicago stream, 24 x 77 x 32, rank 10."""
    from experiments.settings import PAPER

    from onlinegcp.problems import bernoulli_stream

    made = bernoulli_stream((24, 77, 32), 300, rank=10, seed=seed)
    settings = replace(PAPER["chicago"], rank=10)
    name = f"bernoulli-{seed}"
    return StreamProblem(name, made.slices, "bernoulli_odds", 10, count, settings, made.truth)


def drift(base: str, seed: int) -> StreamProblem:
    """A stream of which half the components change slowly and one at once."""
    from experiments.settings import PAPER

    from onlinegcp.problems import drift_stream

    made = drift_stream(base, seed=seed)  # type: ignore[arg-type]
    settings = replace(PAPER["chicago"], rank=10)
    name = f"drift-{base}-{seed}"
    return StreamProblem(name, made.slices, made.loss, 10, 190, settings, made.truth)


# The paper's settings nearest to each real stream.
REAL = {
    "chi_b50": "chicago",
    "chi_p20": "chicago",
    "chi_p50": "chicago",
    "fl13_20": "chicago",
    "taxi50": "taxi",
}


def real(name: str) -> StreamProblem:
    """A stream of solver.md section 10; taxi50 is a synthetic stand-in."""
    from experiments.settings import PAPER
    from experiments.streams import PROBLEMS, WARM, load

    from onlinegcp.slices import Slice

    raw, shape = load(name)
    facts = PROBLEMS[name]
    settings = replace(PAPER[REAL[name]], rank=facts.rank)
    slices = [Slice(index, value, shape) for index, value in raw]
    return StreamProblem(name, slices, facts.loss, WARM, facts.streamed, settings)


def streamed(model: StreamingModel, problem: StreamProblem, count: int) -> Streamed:
    """Learn the first `count` slices, one by one."""
    rows, seconds = [], 0.0
    for x in problem.stream[:count]:
        begin = clock()
        model.partial_fit(x)
        seconds += clock() - begin
        rows.append(model.weights_)
    return Streamed(seconds / count, model.factors_, np.array(rows))
