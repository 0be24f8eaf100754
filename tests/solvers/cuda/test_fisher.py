"""The past of rows on the card, without one: what is asked for, shared, fetched and copied."""

import pickle

import numpy as np
import pytest

from host_card import HostBench
from onlinegcp import Slice, get_loss
from onlinegcp.kernels.cuda.matrices import Shelf
from onlinegcp.solvers.auto import solver
from onlinegcp.solvers.auto.cells import weighted_cells
from onlinegcp.solvers.auto.fisher_rows import FisherRows
from onlinegcp.solvers.auto.fisher_sums import FisherSums
from onlinegcp.solvers.auto.fisher_weights import solve_weights
from onlinegcp.solvers.cuda.fisher import CardFisher, CardFisherSums


class CpuBehind:
    """Stands for the card's phases: each is made by the CPU's sums, and counted."""

    def __init__(self, sums):
        self.sums, self.asked = sums, 0

    def evaluate(self, place, cells, formulas, weights, share):
        self.asked += 1
        sums = self.sums.tempered(share)
        return sums.value(weights), *sums.weight_sums(weights)

    def tally(self, place, cells, formulas, weights, share):
        return 0.0, 3.0, self.sums.value(weights) * 0.0 + 2.0


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((n, 3)) for n in (5, 4)]
    slices = [Slice.dense((rng.random((5, 4)) < 0.5).astype(float)) for _ in range(3)]
    loss = get_loss("bernoulli_logit")
    return solver.start(factors, rng.standard_normal((3, 3)), slices, loss).model, slices[0]


def _on_card(past):
    rows, width, depth = past.curvature.shape
    bench = HostBench(rows, width)
    names, size = ("factors", "slope", "sensitivity"), rows * width
    there = Shelf(bench.card, names, size, curvature=size * depth).take()
    for name in ("curvature", "slope", "sensitivity"):
        there.push(name, getattr(past, name))
    return bench, CardFisher.like(past, bench, there)


def test_the_weights_are_solved_by_the_same_function_with_one_look_per_point(model):
    held, x = model
    loss = get_loss("bernoulli_logit")
    cells = weighted_cells(x, 0)
    sums = FisherSums(held.factors, cells, loss)
    starts = [held.mean_weights, np.zeros_like(held.mean_weights)]
    expected = solve_weights(sums, starts, bounded=False)

    class Loaded:
        n = len(cells.value)

    behind = CpuBehind(sums)
    there = CardFisherSums(behind, held.factors, None, Loaded, loss, None)
    found = solve_weights(there, starts, bounded=False)
    np.testing.assert_array_equal(found.weights, expected.weights)
    assert (found.steps, found.objective) == (expected.steps, expected.objective)
    # Two starts and one per step; steps that are refused are looked at, too.
    assert behind.asked >= 2 + found.steps
    before = behind.asked
    there.value(found.weights)
    assert behind.asked == before
    there.at(None)  # the factors have moved
    there.value(found.weights)
    assert behind.asked == before + 1
    assert there.tempered(0.5).value(found.weights) == pytest.approx(0.5 * found.objective)
    assert there.dispersion(found.weights) == 1.5


@pytest.mark.parametrize("depth", [1, 4])
def test_a_copy_is_an_ordinary_past_and_what_is_handed_on_fetches_nothing(model, depth):
    past = model[0].past
    past.curvature = np.random.default_rng(1).random((*past.slope.shape, depth))
    bench, there = _on_card(past)
    handed = there.handed_on()
    assert handed.matrices is there.matrices
    assert handed.diagonal == (depth == 1)
    handed.mean[:] = 7.0
    assert not (there.mean == 7.0).any()
    assert bench.card.pulled == 0
    for copy in (there.copy(), pickle.loads(pickle.dumps(there))):
        assert type(copy) is FisherRows
        for name in ("curvature", "slope", "sensitivity", "mean", "variance"):
            np.testing.assert_array_equal(getattr(copy, name), getattr(past, name))
        assert copy.dispersion == past.dispersion
        copy.curvature[:] = -1.0
    assert bench.card.pulled == 3  # each array once
    with pytest.raises(ValueError, match="read-only"):
        there.curvature[:] = 0.0
