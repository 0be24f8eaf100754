"""Core consistency against AutoTen's own numbers, and ranks that were planted."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.errors import DataError
from onlinegcp.ktensor import KTensor
from onlinegcp.slices import Slice, stack
from onlinegcp.static.auto_ten import auto_ten, core_consistency
from reference_outputs import stored


@pytest.mark.parametrize(("case", "names"), [("true", "A B C"), ("perturbed", "A0 B0 C")])
def test_the_authors_numbers(case, names):
    given = stored("inputs")
    model = KTensor(None, [given[name] for name in names.split()])
    expected = stored("corcondia")[f"c_{case}"].item()
    assert core_consistency(given["X"], model) == pytest.approx(expected, rel=1e-11)


def test_it_is_the_distance_of_the_best_core_from_the_identity():
    """The core by least squares on the Kronecker product, for four modes and with weights."""
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(n, 2)) for n in (3, 4, 2, 5)]
    weights = np.array([2.0, 0.5])
    x = rng.normal(size=(3, 4, 2, 5))
    design = factors[0] * weights
    for a in factors[1:]:
        design = np.kron(design, a)
    core = np.linalg.lstsq(design, x.ravel(), rcond=None)[0].reshape((2,) * 4)
    core[0, 0, 0, 0] -= 1.0
    core[1, 1, 1, 1] -= 1.0
    expected = 100 * (1 - np.sum(core**2) / 2)
    model = KTensor(weights, factors)
    assert core_consistency(x, model) == pytest.approx(expected, rel=1e-9)
    index = np.argwhere(np.ones(x.shape))
    cells = Slice(index, x.ravel(), x.shape)
    assert core_consistency(cells, model) == pytest.approx(expected, rel=1e-9)


def test_the_count_core_of_an_exact_model_is_consistent():
    """Parts that do not overlap settle the core at once; from equal numbers it takes its steps."""
    blocks = np.kron(np.eye(2), np.ones((3, 1)))
    model = KTensor(np.array([4.0, 2.0]), [blocks, blocks, blocks])
    assert core_consistency(model.full(), model, loss="poisson") > 99.0
    mixed = KTensor(None, [np.ones((6, 2)), blocks, blocks])
    assert core_consistency(model.full(), mixed, loss="poisson") < 60.0


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_planted_ranks_are_found(rank):
    rng = np.random.default_rng(rank)
    factors = [rng.normal(size=(n, rank)) for n in (15, 12, 10)]
    x = KTensor(None, factors).full()
    x = x + 0.01 * np.linalg.norm(x) / np.sqrt(x.size) * rng.normal(size=x.shape)
    found = auto_ten(x, 5)
    assert found.ranks == (2, 3, 4, 5)
    assert found.loss == "gaussian"
    assert not found.poisson.any()
    if rank > 1:  # one component is not among the candidates
        assert found.rank == rank


def test_missing_cells_and_other_shapes_are_refused():
    model = KTensor(None, [np.ones((3, 1)), np.ones((2, 1))])
    with pytest.raises(DataError, match="1 missing cells"):
        core_consistency([[1.0, np.nan], [1.0, 2.0], [3.0, 4.0]], model)
    with pytest.raises(DataError, match="shape"):
        core_consistency(stack([Slice.dense(np.ones((2, 2)))]), model)
    with pytest.raises(DataError, match="data other than zero"):
        auto_ten(Slice(np.zeros((0, 2), dtype=int), [], (3, 2)), 2)
