"""Weights of odds losses: what the card is asked for."""

from types import SimpleNamespace

import numpy as np
import pytest

from onlinegcp import Slice, get_loss
from onlinegcp.kernels.cuda.questions import Evaluation
from onlinegcp.solvers.auto import newton, solver
from onlinegcp.solvers.auto.cells import cells_of
from onlinegcp.solvers.auto.odds_sums import OddsSums
from onlinegcp.solvers.cuda.odds import CardOdds


class CpuBehind:
    """Stands for the card's phases: each is made by the CPU's sums, and counted."""

    def __init__(self, sums):
        self.sums, self.evaluated, self.solved = sums, 0, 0

    def reserve(self):
        pass

    def reserve_draws(self, form):
        pass

    def evaluate(self, place, cells, seen, form, weights):
        self.evaluated += 1
        value, push = self.sums.tangent(weights)
        return Evaluation(value, push, self.sums.listed(weights)[0])

    def solve_tangent(self, place, cells, seen, form, asked):
        self.solved += 1
        assert asked.em_steps == newton.EM_STEPS
        return newton.solve_odds_form(
            self.sums, asked.start, tolerance=asked.tolerance, max_steps=asked.max_steps
        )


@pytest.mark.parametrize("missing", [False, True])
def test_the_loss_comes_with_the_weights_and_is_not_asked_for_again(missing):
    rng, loss = np.random.default_rng(0), get_loss("bernoulli_odds")
    factors = [rng.random((n, 3)) for n in (6, 5, 4)]
    value = (rng.random((6, 5, 4)) < 0.4).astype(float)
    if missing:
        value[rng.random(value.shape) < 0.3] = np.nan
    x = Slice.dense(value)
    model = solver.start(factors, rng.random((1, 3)) + 1, [x], loss).model
    form = loss.traits.odds_form
    sums = OddsSums(model.factors, cells_of(x), form)
    start = newton.away_from_zero(model.mean_weights, 3)
    expected = newton.solve_odds_form(sums, start, tolerance=1e-8, max_steps=20)

    behind = CpuBehind(sums)
    listed = SimpleNamespace(n=x.nnz, total=x.total, largest=1.0)
    model.past.matrices = SimpleNamespace(place=None)
    bench = SimpleNamespace(odds=behind)
    full = x.n_observed == x.size
    odds = CardOdds(bench, model, form, full, listed, listed, seed=0, number=1)
    weights, steps, objective = odds.solve(start, 1e-8, 20)
    np.testing.assert_array_equal(weights, expected.weights)
    assert (steps, objective) == (expected.steps, expected.objective)
    assert (behind.solved, behind.evaluated) == (1, 0)
    # Asked for all the same, it is the same number, made once.
    assert odds.loss(weights) == pytest.approx(expected.objective, rel=1e-14)
    odds.loss(weights)
    assert behind.evaluated == 1
