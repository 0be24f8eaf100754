"""What runs the epochs of a solve: compiled ones where they can be used, else arrays of a sample.

A user's loss is called on arrays between kernels, never compiled; the dense sampler's gradients
come from the structure of the Gaussian loss; an engine may hold what moves on another device.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from onlinegcp.errors import DataError
from onlinegcp.kernels import get_kernels, random
from onlinegcp.kernels.layout import pad_vector
from onlinegcp.kernels.sgd.plan import Moments, Problem
from onlinegcp.losses import Loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.devices import CUDA, REFERENCE
from onlinegcp.solvers.sgd.sampling import get_sampler
from onlinegcp.solvers.sgd.steps import Keeper

if TYPE_CHECKING:
    from onlinegcp.solvers.sgd.solve import SgdSettings

Array = NDArray[Any]


@runtime_checkable
class Remote(Keeper, Protocol):
    """An engine that holds what moves elsewhere than in the problem's arrays."""

    def held(self) -> AbstractContextManager[None]:
        """While this lasts, nobody else uses what it holds them in."""


class Engine(Protocol):
    """What runs epochs and estimates objectives."""

    def epoch(
        self,
        moments: Moments,
        kind: int,
        rate: float,
        parameters: tuple[float, float, float],
        key: int,
        first_iteration: int,
        iterations: int,
    ) -> None: ...

    def objective(self, key: int) -> float: ...


def engine_of(
    name: str,
    problem: Problem,
    x: Slice,
    loss: Loss,
    settings: SgdSettings,
    n_jobs: int,
) -> Engine:
    """The compiled epochs where they can be used, else one of the two below."""
    sampler = get_sampler(settings.sampler, x)
    if name == CUDA and not (
        loss.code >= 0 and sampler.kind != "dense" and get_kernels(CUDA).takes(problem.blocks)
    ):
        name = "cpu"
    module = get_kernels(name)
    if sampler.kind == "dense":
        return DenseEngine(module, problem, x, loss)
    other = settings.objective_sampler
    objective_sampler = get_sampler(sampler.kind if other is None else other, x).for_objective(x)
    plan = sampler.for_gradient(x, settings.epochs * settings.iterations).plan(x)
    objective_plan = objective_sampler.plan(x)
    cells = module.prepare_cells(x, plan)
    objective_cells = module.prepare_cells(x, objective_plan)
    if loss.code < 0 or name == REFERENCE:
        return ArrayEngine(module, problem, loss, (cells, plan), (objective_cells, objective_plan))
    engine: Engine = module.SgdEngine(problem, cells, plan, objective_cells, objective_plan, n_jobs)
    return engine


@dataclass(frozen=True)
class ArrayEngine:
    """Epochs of plain arrays, for a user's loss, which is never compiled, and for plain kernels."""

    module: ModuleType
    problem: Problem
    loss: Loss
    gradient_draws: tuple[Any, Any]
    objective_draws: tuple[Any, Any]

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
        module, problem = self.module, self.problem
        for iteration in range(first_iteration, first_iteration + iterations):
            own_key = random.iteration_key_int(key, iteration)
            sample = module.draw_sample(*self.gradient_draws, own_key, problem.row_weights)
            m = module.model_values(problem.blocks, problem.weights, sample.index)
            y = module.sample_slopes(sample, m, self.loss.deriv)
            gradient, weights_gradient = module.scatter_gradient(
                problem.blocks, problem.weights, sample.index, y, problem.modes
            )
            module.add_penalty_gradient(problem, gradient, weights_gradient)
            module.step_problem(
                problem, moments, gradient, weights_gradient, kind, rate, parameters
            )

    def objective(self, key: int) -> float:
        module, problem = self.module, self.problem
        sample = module.draw_sample(*self.objective_draws, key, problem.row_weights)
        m = module.model_values(problem.blocks, problem.weights, sample.index)
        loss: float = module.sample_loss(sample, m, self.loss.value)
        return loss + float(module.penalty_value(problem))


@dataclass
class DenseEngine:
    """Exact gradients of the Gaussian loss from its structure (Section 5; errata row 16).

    dF/dA_k = 2 (A_k diag(s) Z_k'Z_k diag(s) - X_(k) Z_k diag(s)) needs the data only in X_(k) Z_k.
    """

    module: ModuleType
    problem: Problem
    x: Slice
    loss: Loss
    _ones: Array = field(init=False)

    def __post_init__(self) -> None:
        problem, x = self.problem, self.x
        if not self.loss.traits.quadratic:
            raise DataError(
                f"The dense sampler needs the gaussian loss, got {self.loss.name!r}; use the "
                "stratified, semi_stratified, uniform or all sampler."
            )
        if x.n_observed != x.size or problem.row_weights is not None:
            raise DataError(
                "The dense sampler needs every cell observed with equal weight, got "
                f"{x.size - x.n_observed} missing cells"
                f"{' and row weights' if problem.row_weights is not None else ''}; use the "
                "uniform or all sampler."
            )
        self._ones = pad_vector(np.ones(problem.blocks.rank))

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
        problem = self.problem
        rank = problem.blocks.rank
        for _ in range(iterations):
            views, s = problem.blocks.views(), problem.weights[:rank]
            products = self._products(problem.modes or (0,))
            grams = [view.T @ view for view in views]
            gradient, weights_gradient = problem.blocks.zeros_like(), np.zeros_like(problem.weights)
            for k in problem.modes:
                others = np.prod([grams[j] for j in range(len(grams)) if j != k], axis=0)
                out = 2.0 * ((views[k] * s) @ (others * np.ones((rank, rank))) - products[k])
                gradient.views()[k][...] = out * s
            if problem.update_weights:
                k = (problem.modes or (0,))[0]
                inner = (products[k] * views[k]).sum(axis=0)
                weights_gradient[:rank] = 2.0 * (np.prod(grams, axis=0) @ s - inner)
            self.module.add_penalty_gradient(problem, gradient, weights_gradient)
            self.module.step_problem(
                problem, moments, gradient, weights_gradient, kind, rate, parameters
            )

    def objective(self, key: int) -> float:
        problem = self.problem
        views = problem.blocks.views()
        s = problem.weights[: problem.blocks.rank]
        inner = float((self._products((0,))[0] * views[0]).sum(axis=0) @ s)
        # Of copies: a matrix times itself BLAS adds up in another order.
        gram = np.prod([view.copy().T @ view for view in views], axis=0)
        loss = self.x.norm_squared - 2.0 * inner + float(s @ gram @ s)
        return loss + float(self.module.penalty_value(problem))

    def _products(self, modes: Sequence[int]) -> dict[int, Array]:
        """X_(k) Z_k for every wanted mode, from the array or from the listed cells."""
        x, views = self.x, self.problem.blocks.views()
        if x.array is None:
            blocks, _ = self.module.scatter_gradient(
                self.problem.blocks, self._ones, x.index, x.value, modes
            )
            return {k: blocks.views()[k] for k in modes}
        out = {}
        for k in modes:
            operands: list[Any] = [x.array, list(range(x.ndim))]
            for j in range(x.ndim):
                if j != k:
                    operands += [views[j], [j, x.ndim]]
            if x.ndim == 1:
                out[k] = np.repeat(x.array[:, None], views[k].shape[1], axis=1)
            else:
                out[k] = np.einsum(*operands, [k, x.ndim], optimize="greedy")
        return out
