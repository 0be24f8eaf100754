"""A component can be split in two: together the halves are the old one, and they can part."""

import numpy as np
import pytest

from auto_steps import learn
from onlinegcp.losses import get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import components, splits
from onlinegcp.solvers.auto import solver as auto

KINDS = {
    "conjugate": ("poisson", None),
    "square": ("gaussian", None),
    "bounded square": ("gaussian", 0.0),
    "rows": ("huber", None),
    "bounded rows": ("huber", 0.0),
}


def stream(name, lower, count=12, seed=0, part=None):
    """Four patterns of which two are one until slice `part`; the start has that one twice."""
    rng = np.random.default_rng(seed)
    shape, nonnegative = (30, 20), lower == 0.0 or name == "poisson"
    if nonnegative:
        factors = [rng.dirichlet(np.full(n, 0.2), 5).T for n in shape]
        rows = 150.0 * rng.gamma(2.0, 1.0, (count, 4))
    else:
        factors = [rng.standard_normal((n, 5)) / np.sqrt(n) for n in shape]
        rows = 20.0 * rng.standard_normal((count, 4)) + 20.0
    slices = []
    for t, row in enumerate(rows):
        now = [0, 1, 2, 2 if part is None or t < part else 4]
        m = (factors[0][:, now] * row) @ factors[1][:, now].T
        noise = rng.standard_normal(m.shape)
        slices.append(Slice.dense(rng.poisson(m) * 1.0 if name == "poisson" else m + noise))
    start = [a[:, [0, 1, 2, 2]].copy() for a in factors]
    return get_loss(name), start, rows, slices, [a[:, [0, 1, 2, 4]] for a in factors]


def learned(kind):
    name, lower = KINDS[kind]
    loss, start, rows, slices, _ = stream(name, lower)
    state = auto.start(start, rows[:8], slices[:8], loss, lower=lower)
    state, infos = learn(state, slices[8:], loss)
    weights = np.zeros(state.factors.width)
    weights[:4] = infos[-1].weights
    return state.model, slices[-1], loss, weights


@pytest.mark.parametrize("kind", KINDS)
def test_the_halves_stay_inside_the_model_and_differ(kind):
    model, x, loss, weights = learned(kind)
    weights[1] = 0.0
    before = model.factors.data.copy()
    assert splits.split(model, x, loss, weights, 1, 0)
    moved = np.flatnonzero((model.factors.data != before).any(axis=0))
    assert len(moved) == 2
    assert 1 in moved
    parent = int(moved[moved != 1][0])
    for view, old in zip(model.factors.views(), np.split(before, [30]), strict=True):
        if model.bounded:
            assert (view >= 0.0).all()
        size = view.sum(axis=0) if kind == "conjugate" else np.sqrt((view**2).sum(axis=0))
        np.testing.assert_allclose(size, 1.0)
        assert np.abs(view[:, 1] - view[:, parent]).max() > 1e-3
        # The old pattern lies between the halves.
        unit = [c / np.linalg.norm(c) for c in (view[:, 1], view[:, parent], old[:, parent])]
        assert unit[0] @ unit[2] >= unit[0] @ unit[1] - 1e-12
        assert unit[1] @ unit[2] >= unit[0] @ unit[1] - 1e-12


@pytest.mark.parametrize("kind", ["conjugate", "bounded square", "bounded rows"])
def test_history_and_weights_are_divided(kind):
    model, x, loss, weights = learned(kind)
    before, old = model.copy(), model.factors.data.copy()
    weights[1] = 0.0
    assert splits.split(model, x, loss, weights, 1, 0)
    moved = np.flatnonzero((model.factors.data != old).any(axis=0))
    parent = int(moved[moved != 1][0])
    pair = [1, parent]
    assert model.mean_weights[pair].sum() == pytest.approx(before.mean_weights[parent])
    if kind == "conjugate":
        rate = model.past.rate[:, pair].sum(axis=1)
        np.testing.assert_allclose(rate, before.past.rate[:, parent])
        assert model.past.mass[pair].sum() == pytest.approx(before.past.mass[parent])
    elif kind == "bounded square":
        # The sum over both halves, in rows and columns, is what the whole had.
        block = model.past.products[np.ix_(pair, pair)].sum()
        assert block == pytest.approx(before.past.products[parent, parent])
    else:
        block = model.past.curvature[:, pair][:, :, pair].sum(axis=(1, 2))
        np.testing.assert_allclose(block, before.past.curvature[:, parent, parent])
    assert not model.past.sensitivity[:, pair].any()


def test_signed_halves_explain_the_slice_they_were_made_from():
    # A slice of the old pattern and one more: the halves with their weights hold both.
    rng = np.random.default_rng(3)
    a, b, u, v = (c / np.linalg.norm(c) for c in rng.standard_normal((4, 200)))
    spare = np.eye(200)[0]
    loss = get_loss("gaussian")
    history = Slice.dense(10.0 * np.outer(a, b))
    factors = [np.stack([a, spare], axis=1), np.stack([b, spare], axis=1)]
    model = auto.start(factors, np.array([[10.0, 0.0]]), [history], loss).model
    x = Slice.dense(10.0 * np.outer(a, b) + 4.0 * np.outer(u, v))
    weights = np.zeros(model.factors.width)
    weights[0] = 10.0
    assert splits.split(model, x, loss, weights, 1, 0)
    left, right = model.factors.views()
    there = (left * model.last_weights[:2]) @ right.T
    assert ((x.to_dense() - there) ** 2).sum() < 0.1 * 4.0**2


def test_nothing_is_split_where_nothing_is_explained_or_missed():
    model, x, loss, weights = learned("conjugate")
    before = model.factors.data.copy()
    assert not splits.split(model, x, loss, np.zeros_like(weights), 0, 0)
    np.testing.assert_array_equal(model.factors.data, before)


def test_a_sample_of_the_cells_finds_the_same_component(monkeypatch):
    whole, x, loss, weights = learned("conjugate")
    some = whole.copy()
    weights[1] = 0.0
    splits.split(whole, x, loss, weights, 1, 0)
    monkeypatch.setattr(splits, "MOST_CELLS", 150)
    splits.split(some, x, loss, weights, 1, 0)
    # Both divided the same component, so what was left alone is the same.
    np.testing.assert_array_equal(whole.usage, some.usage)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["conjugate", "bounded square"])
def test_patterns_that_part_are_found_by_splits_alone(kind, monkeypatch):
    monkeypatch.setattr(components, "PAUSE", 10**6)
    monkeypatch.setattr(components, "SPLIT_PAUSE", 15)
    name, lower = KINDS[kind]
    loss, start, rows, slices, truth = stream(name, lower, count=160, part=50)
    sums, scores = {}, {}
    for reseed in (True, False):
        state = auto.start(start, rows[:10], slices[:10], loss, lower=lower, reseed=reseed)
        state, infos = learn(state, slices[10:], loss)
        sums[reseed] = sum(info.prequential for info in infos)
        births = sum(info.births for info in infos)
        assert births == sum(info.deaths + info.merges for info in infos)
        assert (births > 0) == reseed
        alike = np.ones((4, 4))
        for a, b in zip(truth, state.factors.views(), strict=True):
            alike *= (a / np.linalg.norm(a, axis=0)).T @ (b / np.linalg.norm(b, axis=0))
        scores[reseed] = np.abs(alike).max(axis=1).min()
    assert sums[True] < sums[False]
    assert scores[True] > max(0.99, scores[False])
