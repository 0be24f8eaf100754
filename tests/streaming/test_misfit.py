"""Models that began without a pattern find out; those that know all of them are left alone."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from onlinegcp.kernels.layout import stack_factors
from onlinegcp.ktensor import KTensor
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.streaming import OnlineGCP
from onlinegcp.streaming.misfit import BLOCK, BLOCKS, Misfit

SHAPE, RANK = (20, 15), 3


def planted(kind, seed, count):
    rng = np.random.default_rng(seed)
    if kind == "gaussian":
        factors = [rng.standard_normal((n, RANK)) for n in SHAPE]
    else:
        factors = [rng.gamma(0.5, 1.0, (n, RANK)) + 0.01 for n in SHAPE]
    size = {"gaussian": 1.0, "poisson": 10.0}[kind]
    rows = size * rng.uniform(0.5, 1.5, (count, RANK))
    means = [np.einsum("ir,jr,r->ij", *factors, row) for row in rows]
    if kind == "gaussian":
        data = [m + 0.1 * rng.standard_normal(SHAPE) for m in means]
    else:
        data = [rng.poisson(m).astype(float) for m in means]
    return factors, rows, means, [Slice.dense(x) for x in data]


def watched(slices, factors, rows, kind):
    """Verdicts of the watch over a model that never changes."""
    loss, blocks = get_loss(kind), stack_factors(factors)
    misfit, verdicts = Misfit(), []
    for x, row in zip(slices, rows, strict=True):
        misfit, missing = misfit.watch(x, blocks, row, loss)
        verdicts.append(missing)
    return misfit, verdicts


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
@pytest.mark.parametrize("seed", range(3))
def test_the_truth_misses_nothing(kind, seed):
    factors, rows, _, slices = planted(kind, seed, BLOCK * BLOCKS + 2)
    misfit, verdicts = watched(slices, factors, rows, kind)
    assert not any(verdicts)
    assert not misfit.watching
    assert misfit.total.size == 0  # nothing is kept once the model is no longer new


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
@pytest.mark.parametrize("without", [1, 2])
def test_missing_patterns_are_seen_after_the_first_slices(kind, without):
    factors, rows, _, slices = planted(kind, 0, BLOCK)
    known = rows.copy()
    known[:, :without] *= 0.05
    assert watched(slices, factors, known, kind)[1] == [False] * (BLOCK - 1) + [True]


def test_unexplained_things_of_all_sizes_are_not_a_missing_pattern():
    """As in real data, where another start would miss as much."""
    rng = np.random.default_rng(0)
    factors, rows, _, _ = planted("gaussian", 0, BLOCK)
    u, v = (np.linalg.qr(rng.standard_normal((n, 12)))[0] for n in SHAPE)
    rest = (u * 20.0 * 0.8 ** np.arange(12)) @ v.T
    slices = [
        Slice.dense(np.einsum("ir,jr,r->ij", *factors, row) + rest + rng.standard_normal(SHAPE))
        for row in rows
    ]
    assert not any(watched(slices, factors, rows, "gaussian")[1])


def test_what_cannot_be_watched_is_not():
    factors, rows, _, slices = planted("gaussian", 0, 2)
    holes = slices[0].to_dense()
    holes[0, 0] = np.nan
    first = Misfit()
    for x in (Slice.dense(holes), Slice.dense(np.ones(SHAPE[0]))):
        found, missing = first.watch(x, stack_factors(factors), rows[0], get_loss("gaussian"))
        assert found is first
        assert not missing


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
@pytest.mark.parametrize("seed", range(2))
def test_a_start_without_a_pattern_is_replaced(kind, seed):
    factors, rows, means, slices = planted(kind, seed, 72)
    bad = [a.copy() for a in factors]
    for a in bad:
        a[:, 0] = a[:, 1] * (1.0 + 0.1 * np.cos(np.arange(len(a))))

    def begun(given):
        model = OnlineGCP(RANK, kind, random_state=seed)
        return model.start_from(KTensor(None, [*given, rows[:10]]), slices[:10])

    def error(model):
        found = [model.inverse_transform(row) for row in model.transform(slices[70:])]
        return np.linalg.norm(np.array(found) - means[70:]) / np.linalg.norm(means[70:])

    stuck, ideal = begun(bad), begun(factors)
    assert error(stuck) > 0.15
    told = [stuck.partial_fit([x]).last_ for x in slices[10:70]]
    ideal.partial_fit(slices[10:70])
    assert error(stuck) < 1.5 * error(ideal)
    assert stuck._state.live.mending
    assert not ideal._state.live.mending
    assert not any(step.regime for step in told)  # the data have not changed
    assert ideal._state.live.failures == 0


def test_the_watch_survives_a_restart():
    factors, rows, _, slices = planted("gaussian", 0, 40)
    factors[0][:, 0] = factors[0][:, 1]
    model = OnlineGCP(RANK, init=KTensor(rows[0], factors))
    for x in slices[:8]:
        model.partial_fit([x])
    again = pickle.loads(pickle.dumps(model))
    saved = OnlineGCP(RANK, init=model.init).set_state(model.get_state())
    for x in slices[8:]:
        for one in (model, again, saved):
            one.partial_fit([x])
    for one in (again, saved):
        for a, b in zip(one.factors_, model.factors_, strict=True):
            np.testing.assert_array_equal(a, b)
