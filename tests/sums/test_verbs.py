"""The default solver gives the same bits on any number of threads, cut as finely as can be."""

from __future__ import annotations

import numpy as np
import pytest

from onlinegcp.kernels.layout import stack_factors
from onlinegcp.losses import LOSS_NAMES, get_loss
from onlinegcp.slices import Slice
from onlinegcp.solvers.auto import cells, components, newton, odds_draws, odds_sums
from onlinegcp.solvers.auto import solver as auto
from onlinegcp.solvers.auto.cells import cells_of
from onlinegcp.solvers.auto.odds_sums import OddsSums
from onlinegcp.solvers.auto.slice_products import SliceProducts
from onlinegcp.solvers.auto.state import to_dict
from onlinegcp.sums import chunks, verbs
from onlinegcp.sums.local import jobs
from recorded.results import _growing, _stream

SHAPE = (6, 5, 4)


@pytest.fixture
def fine(monkeypatch):
    """Cut everything that can be cut: chunks of a few cells, blocks of two rows."""
    monkeypatch.setattr(chunks, "LEAST_WORK", 8)
    monkeypatch.setattr(verbs, "LEAST_WORK", 0)
    monkeypatch.setattr(chunks, "BLOCK_ROWS", 2)
    monkeypatch.setattr(cells, "CELLS_PER_ROW", 0)
    monkeypatch.setattr(newton, "SUBSET", 16)
    monkeypatch.setattr(components, "PAUSE", 2)
    monkeypatch.setattr(components, "SPLIT_PAUSE", 2)


def start(name, slices, rank=2, **options):
    loss, rng = get_loss(name), np.random.default_rng(0)
    factors = [rng.random((n, rank)) + 0.1 for n in slices[0].shape]
    return auto.start(factors, 1.0 + rng.random((3, rank)), slices[:3], loss, **options), loss


def learned(state, slices, loss, count):
    """Every number of the state, and the losses, with so many threads."""
    losses = []
    with jobs(count), np.errstate(all="ignore"):
        for x in slices:
            state = auto.grow(state, x.shape)
            state, step = auto.step(state, x, loss, seed=4)
            losses.append((step.prequential, step.local))
        weights = auto.solve_weights(state, slices[-1], loss)
    return to_dict(state) | {"losses": np.array(losses), "solved": weights}


def check(name, slices, **options):
    state, loss = start(name, slices, **options)
    ends = [learned(state, slices[3:], loss, count) for count in (1, 2, 3)]
    for other in ends[1:]:
        for key, value in ends[0].items():
            assert np.asarray(value).tobytes() == np.asarray(other[key]).tobytes(), key
    return ends[0]


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("name", LOSS_NAMES)
def test_threads_cannot_be_seen_in_any_loss(name, missing, fine):
    check(name, _stream(name, missing=missing)[:8])


@pytest.mark.parametrize("name", ["gaussian", "poisson", "bernoulli_odds", "huber"])
def test_threads_cannot_be_seen_in_growing_modes(name, fine):
    check(name, _growing(name))


@pytest.mark.parametrize("name", ["gaussian", "bernoulli_logit"])
def test_threads_cannot_be_seen_under_a_bound(name, fine):
    check(name, _stream(name)[:8], lower=0.0)


@pytest.mark.parametrize("budget", [0.0, 3e7])
def test_threads_cannot_be_seen_in_sampled_zeros(budget, fine, monkeypatch):
    monkeypatch.setattr(odds_sums, "EXACT_BUDGET", 0.0)
    monkeypatch.setattr(odds_draws, "RATE_BUDGET", budget)
    check("bernoulli_odds", _stream("bernoulli_odds")[:7])


@pytest.mark.parametrize("name", ["poisson", "bernoulli_odds", "gaussian", "huber", "gamma"])
def test_fine_chunks_change_nothing_but_rounding(name, monkeypatch):
    slices = _stream(name)[:7]
    with monkeypatch.context() as patch:
        patch.setattr(components, "PAUSE", 100)
        patch.setattr(components, "SPLIT_PAUSE", 100)
        state, loss = start(name, slices)
        whole = learned(state, slices[3:], loss, 1)
        patch.setattr(chunks, "LEAST_WORK", 8)
        patch.setattr(chunks, "BLOCK_ROWS", 2)
        patch.setattr(cells, "CELLS_PER_ROW", 0)
        cut = learned(state, slices[3:], loss, 2)
    for key, value in whole.items():
        if np.asarray(value).dtype.kind == "f":
            np.testing.assert_allclose(cut[key], value, rtol=1e-5, atol=1e-8, err_msg=key)


def sparse(n=400, shape=(30, 40, 3), seed=2):
    rng = np.random.default_rng(seed)
    index = np.stack([rng.integers(0, m, n) for m in shape], axis=1)
    return Slice(index, rng.random(n) + 0.5, shape)


@pytest.mark.parametrize("shape", [(30, 40, 3), (3, 40, 30), (50,), (3, 2, 2, 40)], ids=str)
def test_cells_in_a_grid_have_the_row_sums_of_numpy(shape, fine):
    x, rng = sparse(shape=shape), np.random.default_rng(1)
    factors = [rng.random((n, 5)) for n in shape]
    blocks = stack_factors(factors)
    cut = cells.row_chunks(x.index, x.value, x.shape, blocks.width)
    assert cut.count > 8
    for c in range(cut.count):  # every cell lies in the rows its chunk knows of
        index, _ = cut.part(c, c + 1).arrays
        if len(index):
            assert (index.min(axis=0) >= cut.lows[c]).all()
            assert (index.max(axis=0) < cut.highs[c]).all()
    for mode in range(len(shape)):
        expected = np.zeros((shape[mode], 5))
        terms = np.repeat(x.value[:, None], 5, axis=1)
        for k, a in enumerate(factors):
            if k != mode:
                terms = terms * a[x.index[:, k]]
        np.add.at(expected, x.index[:, mode], terms)
        out = np.full_like(blocks.data, 7.0)
        with jobs(2):
            SliceProducts(x, blocks.width)(blocks, mode, out)
        rows = slice(blocks.offsets[mode], blocks.offsets[mode + 1])
        np.testing.assert_allclose(out[rows, :5], expected, rtol=1e-12)
        assert (np.delete(out, np.r_[rows], axis=0) == 7.0).all()


def test_one_popular_row_does_not_spoil_the_grid(fine):
    index = np.zeros((300, 2), dtype=np.int64)
    index[:, 1] = np.arange(300)
    index[290:, 0] = np.arange(1, 11)
    x = Slice(index, np.ones(300), (20, 300))
    cut = cells.row_chunks(x.index, x.value, x.shape, 4)
    sizes = np.diff(cut.cuts)
    assert sizes.sum() == 300
    assert sizes.max() < 300
    assert cut.arrays[0].shape == (300, 2)


def test_column_sums_are_kept_until_the_factors_change():
    rng = np.random.default_rng(0)
    blocks = stack_factors([rng.dirichlet(np.ones(n), 3).T for n in (5, 4)])
    form = get_loss("poisson").traits.odds_form
    sums = OddsSums(blocks, cells_of(sparse(shape=(5, 4))), form)
    first = sums.column_sums()
    blocks.data[...] *= 2.0
    sums.refresh()
    np.testing.assert_allclose(sums.column_sums(), 4.0 * first)


def _halves(part, factor):
    (values,) = part.arrays
    pieces = zip(part.cuts[:-1], part.cuts[1:], strict=True)
    return (np.array([factor * values[low:high].sum() for low, high in pieces]),)


def _by_place(part, places, target, factor):
    (values,) = part.arrays
    for row, value in enumerate(values):
        target[places[0] + row % 3, 0] += factor * value
    return (np.array(values.sum()),)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_passes_made_together_give_what_they_give_alone(threads):
    values = np.random.default_rng(3).random(64)
    one = chunks.Chunks((values,), np.array([0, 64]))
    many = chunks.Chunks((values,), chunks.evenly(64, 8))
    lows, highs = np.zeros((4, 1), np.int64), np.full((4, 1), 3)
    by_row = chunks.RowChunks((values,), chunks.evenly(64, 4), lows, highs)
    offsets, out, again = np.array([0, 3]), np.ones((3, 1)), np.ones((3, 1))
    alone = [verbs.cells(_halves, one, 2.0), verbs.cells(_halves, many, 3.0)]
    alone.append(verbs.spread(_by_place, by_row, range(1), offsets, out, 5.0))
    with jobs(threads):
        both = verbs.together(
            verbs.cells_steps(_halves, one, 2.0),
            verbs.cells_steps(_halves, many, 3.0),
            verbs.spread_steps(_by_place, by_row, range(1), offsets, again, 5.0),
        )
    assert [found[0].tobytes() for found in both] == [found[0].tobytes() for found in alone]
    assert out.tobytes() == again.tobytes()
    np.testing.assert_allclose(both[1][0], 3.0 * values.sum(), rtol=1e-12)
    np.testing.assert_allclose(out.sum(), 5.0 * values.sum(), rtol=1e-12)


@pytest.mark.parametrize("count", [2, 3, 6, 7, 12, 16, 33])
def test_sums_of_any_number_of_chunks_are_those_of_one_thread(count):
    rng = np.random.default_rng(count)
    values = rng.normal(size=40 * count) * 10.0 ** rng.uniform(-8, 8, 40 * count)
    cut = chunks.Chunks((values,), chunks.evenly(len(values), count))
    found = set()
    for threads in (1, 2, 3, 8):
        with jobs(threads):
            found.add(verbs.cells(_halves, cut, 1.0)[0].tobytes())
    assert len(found) == 1


def test_long_arrays_are_copied_by_rows():
    long = np.random.default_rng(0).random((9000, 70))
    with jobs(2):
        copy = verbs.copied(long)
        turned = verbs.copied(long.T)
    assert copy.tobytes() == long.tobytes()
    assert not np.shares_memory(copy, long)
    np.testing.assert_array_equal(turned, long.T)
