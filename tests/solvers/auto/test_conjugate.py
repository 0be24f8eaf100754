"""The conjugate update lowers slice loss plus history and keeps its invariants."""

import numpy as np
import pytest

from auto_steps import model_of
from onlinegcp.kernels.layout import pad_vector, stack_factors
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import conjugate, forgetting
from onlinegcp.solvers.auto.cells import cells_of
from onlinegcp.solvers.auto.conjugate import Conjugate
from onlinegcp.solvers.auto.odds_sums import OddsSums

LOSSES = ["poisson", "bernoulli_odds", "negative_binomial"]


def problem(name, missing=False, seed=0):
    rng = np.random.default_rng(seed)
    shape = (6, 1, 5)
    factors = [rng.dirichlet(np.ones(n), 3).T for n in shape]
    x = rng.poisson(1.5, shape).astype(float)
    x = np.sign(x) if name == "bernoulli_odds" else x
    if missing:
        x[rng.random(shape) < 0.3] = np.nan
    blocks = stack_factors(factors)
    history = Conjugate.start(blocks, bounded=True)
    history.rate[:, :3] = 4.0
    history.mass[:3] = 4.0
    return blocks, Slice.dense(x), history, pad_vector(5.0 * rng.random(3) + 1.0)


def model_loss(blocks, x, loss, weights):
    m = np.einsum("z,az,bz,cz->abc", weights[:3], *blocks.views())
    full = x.to_dense()
    seen = ~np.isnan(full)
    return float(loss.value(full[seen], m[seen]).sum())


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("forget", ["auto", 5.0])
def test_an_update_lowers_the_loss_and_columns_sum_to_one(name, missing, forget):
    loss = get_loss(name)
    blocks, x, history, weights = problem(name, missing)
    sums = OddsSums(blocks, cells_of(x), loss.traits.odds_form)
    model = model_of(blocks, history, forget, bounded=True)
    before, slopes = model_loss(blocks, x, loss, weights), None
    if model.memory.learned:
        slopes = sums.slopes(weights, history.sensitivity)
        forgetting.learn(model.memory, slopes.slopes, slopes.bends, slopes.bend, 0.9)
    lam, _ = forgetting.factors(model.memory, 0.9)
    new = history.update(model, sums, weights, 0.9, slopes)
    value = sums.loss(new)
    assert value < before
    assert value == pytest.approx(model_loss(blocks, x, loss, new), rel=1e-8)
    for view in blocks.views():
        np.testing.assert_allclose(view.sum(axis=0), 1.0)
        assert (view > 0.0).all()
    assert (lam <= 0.9).all()
    assert (blocks.data[:, 3] == 0.0).all()
    assert new[3] == 0.0


def test_poisson_steps_never_raise_slice_loss_plus_history(monkeypatch):
    monkeypatch.setattr(conjugate, "FLOOR_EVENTS", 0.0)
    loss = get_loss("poisson")
    blocks, x, history, weights = problem("poisson")
    old, prior = [v.copy() for v in blocks.views()], 0.7 * 4.0

    def total(s):
        kept = [
            -(prior * a * np.log(view)).sum() for a, view in zip(old, blocks.views(), strict=True)
        ]
        return model_loss(blocks, x, loss, s) + sum(kept)

    values = [total(weights)]
    for sweeps in (1, 2, 3, 6):
        monkeypatch.setattr(conjugate, "SWEEPS", sweeps)
        blocks, x, history, weights = problem("poisson")
        sums = OddsSums(blocks, cells_of(x), loss.traits.odds_form)
        model = model_of(blocks, history, 1.0, bounded=True)
        values.append(total(history.update(model, sums, weights, 0.7, None)))
    assert (np.diff(values) < 1e-9).all()


def test_the_history_outweighs_a_small_slice_and_yields_to_a_large_one():
    loss, moved = get_loss("poisson"), []
    for exposure in (1e-3, 1e6):
        blocks, x, history, weights = problem("poisson")
        history.rate[:, :3] = exposure
        history.mass[:3] = exposure
        old = blocks.data.copy()
        sums = OddsSums(blocks, cells_of(x), loss.traits.odds_form)
        history.update(model_of(blocks, history, 1.0, bounded=True), sums, weights, 0.9, None)
        moved.append(np.abs(blocks.data - old).max())
    assert moved[0] > 0.05
    assert moved[1] < 1e-3


def test_the_floor_is_a_share_of_uniform_or_of_an_event():
    blocks = stack_factors([np.ones((50, 2)) / 50])
    floor = conjugate.floor_of(blocks, np.array([1e6, 1.0, 0.0, 0.0]), 1.0, 0)
    np.testing.assert_allclose(floor, [1e-7, 0.01 / 50, 0.0, 0.0])
