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
        self.sums, self.evaluated = sums, 0

    def reserve_for(self, form):
        pass

    def evaluate(self, place, x, weights):
        self.evaluated += 1
        value, push = self.sums.tangent(weights)
        return Evaluation(value, push, self.sums.listed(weights)[0])


@pytest.mark.parametrize("missing", [False, True])
def test_the_loss_at_the_same_weights_is_not_asked_for_again(missing):
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
    asked = odds.question(start, 1e-8, 20)
    assert (asked.em_steps, asked.every, asked.looked_at) == (newton.EM_STEPS, 1, x.nnz)
    assert odds.loss(expected.weights) == pytest.approx(expected.objective, rel=1e-14)
    odds.loss(expected.weights)
    odds.tangent(expected.weights)
    assert behind.evaluated == 1
