"""How every experiment is run: one stream, one warm start, every method measured alike.

Losses are the paper's: summed over every cell of a slice and divided by its squared norm. *Local*:
factors as they were just after the slice was learned. *Global*: final factors with the weights each
slice was given when it passed. *Prequential*: factors from before the slice. A static method sees
all slices at once, so its local and global loss are one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from experiments.store import Store
from onlinegcp.evaluate import factor_match, slice_losses
from onlinegcp.kernels.exact import exact_gradient
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.static.result import Progress, StaticFit

FloatArray = NDArray[np.float64]
Kind = Literal["streaming", "static", "frozen"]

SECONDS_BETWEEN_SAVES = 60.0
FROZEN_SLICES = 60  # slices the frozen warm start is judged on; weighing one is slow


class Record(Protocol):
    """What a method tells of a slice it learned: sums over all observed cells."""

    @property
    def prequential(self) -> float: ...
    @property
    def local(self) -> float: ...
    @property
    def norm_squared(self) -> float: ...
    @property
    def weight_failures(self) -> int: ...
    @property
    def factor_failures(self) -> int: ...


class StreamingMethod(Protocol):
    """What the experiments need of a streaming method."""

    @property
    def last_(self) -> Record | None: ...
    @property
    def factors_(self) -> tuple[FloatArray, ...]: ...
    @property
    def weights_(self) -> FloatArray: ...
    def partial_fit(self, x: Any) -> Any: ...
    def save(self, path: Path) -> None: ...
    @classmethod
    def load(cls, path: Path) -> Any: ...


@dataclass(frozen=True)
class Problem:
    """A stream, what is known about it and how many slices the warm start may see."""

    name: str
    slices: Sequence[Slice]
    loss: str
    rank: int
    warm: int
    truth: KTensor | None = None
    note: str = ""  # printed on the figure

    @property
    def streamed(self) -> slice:
        """The slices after the warm start."""
        return slice(self.warm, None)

    @cached_property
    def least(self) -> FloatArray:
        """Loss of each slice under the model that equals the data, the least there can be.

        Without it a Poisson loss has no natural zero, and "5 % more" says nothing: on large counts
        x log x outweighs all that a model can explain.
        """
        loss = get_loss(self.loss)
        if loss.name != "poisson":
            return np.zeros(len(self.slices))  # squared errors and odds can reach zero
        return np.array(
            [
                float(loss.value(x.value, x.value).sum()) / (x.norm_squared or 1.0)
                for x in self.slices
            ]
        )

    def facts(self) -> dict[str, Any]:
        """What a reader wants to know about the data; also identifies them."""
        nnz = sum(x.nnz for x in self.slices)
        cells = sum(x.size for x in self.slices)
        return {
            "shape": [*self.slices[0].shape, len(self.slices)],
            "loss": self.loss,
            "rank": self.rank,
            "warm_start_slices": self.warm,
            "nonzeros": nnz,
            "density": nnz / cells,
            "total": float(sum(x.total for x in self.slices)),
            "note": self.note,
        }


@dataclass
class Run:
    """One method's measurements, one entry per slice, NaN where there is none."""

    method: str
    kind: Kind
    local: FloatArray
    overall: FloatArray  # the paper's global loss
    prequential: FloatArray
    score: FloatArray  # factors against the truth, time mode left out
    cpu: FloatArray  # seconds of `partial_fit`, scoring included; static: the mean
    details: dict[str, Any] = field(default_factory=dict)


class Report(Protocol):
    """Shows how far a run has come."""

    def begin(self, method: str, total: int | None) -> None: ...
    def advance(self, done: int, news: str) -> None: ...
    def end(self, news: str) -> None: ...


def unit_columns(model: KTensor) -> KTensor:
    """The same model with columns of length one and all scale in the time mode (errata row 20)."""
    *factors, rows = model.factors
    norms = [np.linalg.norm(a, axis=0) for a in factors]
    scale = model.weights * np.prod(norms, axis=0)
    safe = [np.where(n > 0, n, 1.0) for n in norms]
    return KTensor(None, [*(a / n for a, n in zip(factors, safe, strict=True)), rows * scale])


def run_streaming(
    problem: Problem,
    method: str,
    model: StreamingMethod,
    start: KTensor,
    store: Store,
    report: Report,
) -> Run:
    """Stream a problem through a model that was given `start` as its `init`.

    The state is stored every minute and a later call goes on from there.
    """
    count, warm = len(problem.slices), problem.warm
    columns = ("local", "prequential", "score", "cpu")
    arrays: dict[str, NDArray[Any]] = {name: np.full(count, np.nan) for name in columns}
    rows = np.zeros((count, problem.rank))
    failures = np.zeros(2, dtype=np.int64)
    arrays |= {"rows": rows, "failures": failures}
    if problem.truth is not None:
        arrays["score"][warm - 1] = _match(start.factors[:-1], problem.truth)
    begin = warm
    saved = store.resume(method, type(model).load)
    if saved is not None:
        begin, model, stored = saved
        arrays = {name: stored[name] for name in arrays}
    report.begin(method, count - warm)
    last_save = time.monotonic()
    for t in range(begin, count):
        since = time.process_time()
        model.partial_fit(problem.slices[t])
        arrays["cpu"][t] = time.process_time() - since
        record = model.last_
        assert record is not None
        norm = record.norm_squared or 1.0  # errata row 21: an empty slice has a plain loss
        arrays["local"][t] = record.local / norm
        arrays["prequential"][t] = record.prequential / norm
        arrays["rows"][t] = model.weights_
        arrays["failures"] += (record.weight_failures, record.factor_failures)
        if problem.truth is not None:
            arrays["score"][t] = _match(model.factors_, problem.truth)
        report.advance(t + 1 - warm, f"local loss {arrays['local'][t]:.4g}")
        if time.monotonic() - last_save > SECONDS_BETWEEN_SAVES:
            store.pause(method, t + 1, model.save, arrays)
            last_save = time.monotonic()
    arrays["rows"][:warm] = _in_units_of(model.factors_, start)
    overall = slice_losses(problem.slices, arrays["rows"], model.factors_, problem.loss)
    final = KTensor(None, [*model.factors_, arrays["rows"]])
    details = {
        "final_score": _full_score(final, problem),
        "weight_epochs_undone": int(arrays["failures"][0]),
        "factor_epochs_undone": int(arrays["failures"][1]),
    }
    report.end(f"global loss {overall[warm:].mean():.5g}")
    measured = {name: arrays[name] for name in columns}
    return Run(method, "streaming", overall=overall, details=details, **measured)


def run_static(
    problem: Problem,
    method: str,
    solve: Callable[[Callable[[Progress], object]], StaticFit],
    report: Report,
) -> Run:
    """Run a static method on all slices; `solve` gets a callable for its progress."""
    report.begin(method, None)
    since = time.process_time()
    fit = solve(
        lambda news: report.advance(
            news.iteration, f"objective {news.objective:.6g} {news.message}"
        )
    )
    cpu = time.process_time() - since
    model = unit_columns(fit.ktensor)
    *factors, rows = model.factors
    losses = slice_losses(problem.slices, rows, factors, problem.loss)
    nothing = np.full(len(losses), np.nan)
    score = nothing
    if problem.truth is not None:
        score = np.full(len(losses), _match(factors, problem.truth))
    details = {
        "final_score": _full_score(model, problem),
        "iterations": fit.iterations,
        "converged": fit.converged,
        "message": fit.message,
        "total_cpu_seconds": cpu,
        "objective": fit.objective,
    }
    report.end(f"global loss {losses[problem.streamed].mean():.5g}")
    cpu_each = np.full(len(losses), cpu / len(losses))
    return Run(method, "static", losses, losses, nothing, score, cpu_each, details)


def run_frozen(problem: Problem, start: KTensor, report: Report) -> Run:
    """The warm start's factors, never updated, with the best weights for some of the slices.

    A streaming method that is no better than this has learned nothing.
    """
    count = len(problem.slices)
    factors = start.factors[:-1]
    losses = np.full(count, np.nan)
    chosen = np.unique(np.linspace(problem.warm, count - 1, FROZEN_SLICES).astype(int))
    report.begin("frozen warm start", len(chosen))
    for done, t in enumerate(chosen):
        x = problem.slices[t]
        total = _best_weights_loss(x, factors, start.factors[-1].mean(axis=0), problem.loss)
        losses[t] = total / (x.norm_squared or 1.0)
        report.advance(done + 1, f"loss {losses[t]:.4g}")
    nothing = np.full(count, np.nan)
    score = nothing.copy()
    if problem.truth is not None:
        score[problem.warm - 1 :] = _match(factors, problem.truth)
    report.end(f"loss {np.nanmean(losses):.5g}")
    return Run("frozen warm start", "frozen", losses, losses, losses, score, nothing)


def _best_weights_loss(
    x: Slice, factors: Sequence[FloatArray], mean: FloatArray, loss: str
) -> float:
    """Smallest loss of a slice over its weights, by L-BFGS-B with the exact gradient."""
    from scipy.optimize import minimize

    resolved = get_loss(loss)
    # In units of the mean weights the variables are of order one, whatever the data.
    unit = np.maximum(np.abs(mean), 1e-3 * np.abs(mean).max() + 1e-300)

    def objective(scaled: FloatArray) -> tuple[float, FloatArray]:
        exact = exact_gradient(x, factors, scaled * unit, resolved, modes=(), with_weights=True)
        assert exact.weights is not None
        return exact.value / scale, exact.weights * unit / scale

    scale = 1.0
    scale = abs(objective(np.ones(len(unit)))[0]) or 1.0
    lower = None if resolved.lower == -np.inf else resolved.lower
    found = minimize(
        objective,
        np.ones(len(unit)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(lower, None)] * len(unit),
        options={"maxiter": 300, "ftol": 1e-10},
    )
    return float(found.fun) * scale


def _in_units_of(factors: Sequence[FloatArray], start: KTensor) -> FloatArray:
    """The warm start's weights for columns normalised as the model's own are.

    Columns of the start have length one; some methods keep them summing to one instead, and their
    later weights are in other units then.
    """
    *columns, rows = start.factors
    for given, kept in zip(columns, factors, strict=True):
        if np.allclose(np.abs(kept).sum(axis=0), 1.0):
            rows = rows * np.abs(given).sum(axis=0)
    return rows


def _match(factors: Sequence[FloatArray], truth: KTensor) -> float:
    return factor_match(factors, truth.factors[:-1])


def _full_score(model: KTensor, problem: Problem) -> float | None:
    if problem.truth is None:
        return None
    return factor_match(model.factors, problem.truth.factors)
