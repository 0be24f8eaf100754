"""Compiled kernels for the processor, by the names and arguments of the reference kernels."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onlinegcp.kernels.layout import Blocks, aligned_zeros, pad_matrix
from onlinegcp.kernels.sgd import threads as sgd_threads
from onlinegcp.kernels.sgd.arguments import (
    CellArrays,
    Matrices,
    Modes,
    Past,
    Rule,
    Samples,
    Sampling,
    Variables,
)
from onlinegcp.kernels.sgd.draws import draw_block
from onlinegcp.kernels.sgd.epoch import (
    fill_head,
    finish_head,
    mode_grams,
    run_epoch,
    sampled_objective,
)
from onlinegcp.kernels.sgd.gradient import BLOCK, model_block, scatter_block
from onlinegcp.kernels.sgd.history import add_product, fold_grams
from onlinegcp.kernels.sgd.membership import Cells, build_cells
from onlinegcp.kernels.sgd.plan import Moments, Plan, Problem, Sample
from onlinegcp.kernels.sgd.reference import (
    add_penalty_gradient,
    history_value,
    penalty_value,
    sample_loss,
    sample_slopes,
    step_problem,
    take_step,
)

if TYPE_CHECKING:
    from onlinegcp.slices import Slice

__all__ = [
    "SgdEngine",
    "add_penalty_gradient",
    "draw_sample",
    "history_gradient",
    "history_value",
    "model_values",
    "penalty_value",
    "prepare_cells",
    "sample_loss",
    "sample_slopes",
    "scatter_gradient",
    "step_problem",
    "take_step",
]

Array = NDArray[Any]

# Factors above this size (second-level caches are 512 KB to 2 MB) are prefetched row by row.
FAR_BYTES = 1 << 20


def prepare_cells(x: Slice, plan: Plan) -> Cells:
    """Prepare a slice for drawing: bitmap or hash table of its listed cells."""
    return build_cells(x, plan)


def draw_sample(cells: Cells, plan: Plan, key: int, row_weights: Array | None = None) -> Sample:
    """Draw the sample that a plan describes; see the reference kernel."""
    d = len(cells.shape)
    n = plan.count
    rows = np.zeros(max(1, d * n), np.int64)
    values, weights = np.zeros(n), np.zeros(n)
    places = np.concatenate([np.zeros(d, np.int64), np.arange(d, dtype=np.int64)])
    strata, stratum_weights = _strata(plan)
    for stratum, weight in zip(strata, stratum_weights, strict=True):
        draw_block(
            stratum, weight, np.uint64(key), 0, int(stratum[1]),
            _cell_arrays(cells, places, row_weights), 1, int(stratum[4]), n, rows, values, weights,
        )  # fmt: skip
    index = np.ascontiguousarray(rows[: d * n].reshape(d, n).T).astype(np.int32)
    corrected = sum(stratum.count for stratum in plan.strata if stratum.corrected)
    return Sample(index, values, weights, corrected)


def model_values(blocks: Blocks, weights: Array, index: Array) -> NDArray[np.float64]:
    """Model values at the cells `index` (n, d)."""
    head = _Head(blocks, weights)
    out = np.zeros(len(index))
    rows = head.rows(index)
    model_block(
        blocks.ndim, 0, len(index), len(index), blocks.width, _far(blocks), rows,
        head.scaled, blocks.data.reshape(-1), out,
    )  # fmt: skip
    return out


def scatter_gradient(
    blocks: Blocks, weights: Array, index: Array, y: Array, modes: Sequence[int] | None = None
) -> tuple[Blocks, Array]:
    """Gradient of sum_s y_s m_s with respect to factors and weights; see the reference kernel."""
    head = _Head(blocks, weights)
    wanted = tuple(range(blocks.ndim)) if modes is None else tuple(modes)
    out = blocks.zeros_like()
    weights_gradient = aligned_zeros(weights.shape)
    n = len(index)
    scatter_block(
        blocks.ndim, head.needed(wanted, True), 0, n, n, 0, blocks.width, _far(blocks),
        head.rows(index), head.scaled, blocks.data.reshape(-1),
        np.ascontiguousarray(y, np.float64), head.gradient, out.data.reshape(-1),
    )  # fmt: skip
    finish_head(
        head.offset, head.length, blocks.width, 0, blocks.width, blocks.data.reshape(-1), weights,
        head.gradient, out.data.reshape(-1), weights_gradient,
    )  # fmt: skip
    if head.mode not in wanted:
        out.data[head.offset : head.offset + head.length] = 0.0
    return out, weights_gradient


def history_gradient(blocks: Blocks, old: Blocks, S: Array, modes: Sequence[int]) -> Blocks:
    """Gradient of `history_value` with respect to the factors of `modes`."""
    out = blocks.zeros_like()
    d, width = blocks.ndim, blocks.width
    square = width * width
    grams, crosses = (aligned_zeros((d * square,)) for _ in range(2))
    B, C = (aligned_zeros((square,)) for _ in range(2))
    folded = pad_matrix(S).reshape(-1)
    data, past = blocks.data.reshape(-1), old.data.reshape(-1)
    for k in range(d):
        mode_grams(k, blocks.offsets, width, data, past, grams, crosses)
    for k in modes:
        fold_grams(d, k, width, folded, grams, crosses, B, C)
        add_product(
            int(blocks.offsets[k]), int(blocks.offsets[k + 1]), blocks.rank, width,
            data, B, past, C, out.data.reshape(-1),
        )  # fmt: skip
    return out


class SgdEngine:
    """Runs iterations of one problem on one slice; see the reference kernel.

    Scratch memory is allocated once: gradients like the factors, a few matrices (width, width),
    and some vectors of `BLOCK` numbers.
    """

    def __init__(
        self,
        problem: Problem,
        cells: Cells,
        plan: Plan,
        objective_cells: Cells,
        objective_plan: Plan,
        n_jobs: int = 1,
    ) -> None:
        self.problem = problem
        blocks = problem.blocks
        per_row = blocks.width if problem.history is not None else 1  # multiply-adds, by column
        self._n_jobs = n_jobs
        self._work = blocks.width * (plan.count * blocks.ndim + len(blocks.data) * per_row)
        d, width = blocks.ndim, blocks.width
        self._cells, self._objective_cells = cells, objective_cells
        self._plan, self._objective_plan = _strata(plan), _strata(objective_plan)
        self._head = _Head(blocks, problem.weights)
        self._gradient = blocks.zeros_like().data.reshape(-1)
        self._weights_gradient = aligned_zeros((width,))
        self._update = np.zeros(d + 1, np.int64)
        self._update[list(problem.modes)] = 1
        self._update[d] = problem.update_weights
        self._needed = self._head.needed(problem.modes, problem.update_weights)
        self._floor = aligned_zeros((width,))
        self._floor[: blocks.rank] = problem.lower
        history = problem.history
        folded = history is not None and history.S is not None and bool(problem.modes)
        square = width * width if folded else 0
        self._history = folded
        self._S = aligned_zeros((square,))
        self._old = blocks.data.reshape(-1)
        self._anchors = np.zeros(d)
        if history is not None:
            self._old = history.old.data.reshape(-1)
            if folded and history.S is not None:
                self._S = pad_matrix(history.S).reshape(-1)
            if history.anchors is not None:
                self._anchors[:] = history.anchors
        self._matrices = Matrices(*(aligned_zeros((d * square,)) for _ in range(4)))
        self._samples = Samples(np.zeros(d * BLOCK, np.int64), *(np.zeros(BLOCK) for _ in range(4)))

    def epoch(
        self,
        moments: Moments,
        kind: int,
        rate: float,
        parameters: tuple[float, float, float],
        key: int,
        first_iteration: int,
        iterations: int,
    ) -> None:
        """Take `iterations` steps; the draws are those of iterations first_iteration, ..."""
        problem, blocks, head = self.problem, self.problem.blocks, self._head
        counters = (iterations, first_iteration, moments.taken, np.uint64(key))
        modes = Modes(
            blocks.rank, blocks.width, head.mode, blocks.offsets, self._update, self._needed
        )
        rule = Rule(
            kind, np.array([rate, *parameters]), float(problem.ridge),
            float(problem.weight_ridge), self._anchors, self._floor,
        )  # fmt: skip
        past = Past(self._history, self._S, self._old)
        moved = Variables(
            blocks.data.reshape(-1), problem.weights, self._gradient, self._weights_gradient,
            moments.u.reshape(-1), moments.v.reshape(-1), moments.largest.reshape(-1),
            moments.weights_u.reshape(-1), moments.weights_v.reshape(-1),
            moments.weights_largest.reshape(-1), head.scaled, head.gradient,
        )  # fmt: skip
        sampling = self._sampling(self._plan, self._cells)
        crew = sgd_threads.crew_for(self._n_jobs, self._work)
        if crew > 1:
            sgd_threads.run_threads(
                crew, *counters, sampling, modes, rule, past, moved, self._matrices
            )
        else:
            run_epoch(*counters, sampling, modes, rule, past, moved, self._matrices, self._samples)
        moments.taken += iterations

    def objective(self, key: int) -> float:
        """Estimated loss of the slice plus penalties, from the sample with this key."""
        problem, blocks, head = self.problem, self.problem.blocks, self._head
        head.fill(blocks, problem.weights)
        sampling = self._sampling(self._objective_plan, self._objective_cells)
        data = blocks.data.reshape(-1)
        loss = sampled_objective(
            np.uint64(key), blocks.width, sampling, head.scaled, data, self._samples
        )
        return float(loss) + penalty_value(problem)

    def _sampling(
        self, plan: tuple[NDArray[np.int64], NDArray[np.float64]], cells: Cells
    ) -> Sampling:
        problem = self.problem
        arrays = _cell_arrays(cells, self._head.places, problem.row_weights)
        return Sampling(*plan, arrays, _far(problem.blocks), problem.code, float(problem.parameter))


class _Head:
    """The shortest mode times the weights, and where every mode's rows start."""

    def __init__(self, blocks: Blocks, weights: Array) -> None:
        self.mode = int(np.argmin(np.diff(blocks.offsets)))
        self.offset = int(blocks.offsets[self.mode])
        self.length = int(blocks.offsets[self.mode + 1]) - self.offset
        d, width = blocks.ndim, blocks.width
        order = [self.mode, *(k for k in range(d) if k != self.mode)]
        starts = blocks.offsets[:-1] * width
        starts[self.mode] = 0
        self._order = order
        self.places = np.concatenate([starts, np.argsort(order)]).astype(np.int64)
        self._width = width
        self.scaled, self.gradient = (aligned_zeros((self.length * width,)) for _ in range(2))
        self.fill(blocks, weights)

    def fill(self, blocks: Blocks, weights: Array) -> None:
        fill_head(
            self.offset, 0, self.length, self._width, blocks.data.reshape(-1), weights, self.scaled
        )

    def rows(self, index: Array) -> NDArray[np.int64]:
        """First elements of every sample's rows, by place: (d n,)."""
        starts = self.places[: len(self._order)]
        rows = index.astype(np.int64).T * self._width + starts[:, None]
        return np.ascontiguousarray(rows[self._order]).reshape(-1)

    def needed(self, modes: Sequence[int], weights: bool) -> NDArray[np.int64]:
        """Which gradients must be collected, by place; the weights' comes from the head's."""
        wanted = [int(k in modes) for k in self._order]
        wanted[0] = int(wanted[0] or weights)
        return np.array(wanted, np.int64)


def _strata(plan: Plan) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    base = 0
    numbers = np.zeros((len(plan.strata), 6), np.int64)
    for row, stratum in zip(numbers, plan.strata, strict=True):
        row[:5] = stratum.source, stratum.count, stratum.values, stratum.corrected, base
        row[5:].view(np.uint64)[0] = stratum.share
        base += stratum.count
    return numbers, np.array([stratum.weight for stratum in plan.strata], np.float64)


def _cell_arrays(cells: Cells, places: NDArray[np.int64], row_weights: Array | None) -> CellArrays:
    given = np.zeros(0) if row_weights is None else np.ascontiguousarray(row_weights, np.float64)
    return CellArrays(
        cells.counts, cells.shape, cells.words, places, cells.index, cells.value, cells.linear,
        cells.bitmap, cells.ranks, cells.keys, cells.positions, given,
    )  # fmt: skip


def _far(blocks: Blocks) -> bool:
    return bool(blocks.data.nbytes > FAR_BYTES)
